//! Executions of models: which op of an execution stands for which step.
//!
//! A step of a capture adds tasks to a graph. An execution has the same steps again, between its launch and
//! its end, and its ops name the tasks. Copies that were coalesced are one op, which names the first of them.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use ferry_watch::fact::{Captured, Point, TaskId, Work};

use super::history::{History, Launch, Op, Submitter};
use crate::program::{Act, Program};

#[derive(Default)]
pub struct Executions {
    /// The steps of each execution, from the launch to the end.
    windows: Vec<RangeInclusive<usize>>,
    /// The steps that each op stands for.
    pub steps: HashMap<Point, Vec<usize>>,
}

/// A task of a graph, and which step behind the launch has captured it.
struct Task<'a> {
    step: usize,
    captured: &'a Captured,
}

impl Executions {
    pub fn of(program: &Program, history: &History) -> Result<Executions, String> {
        let mut all = Executions::default();
        let mut captures = HashMap::new();
        for (end, step) in program.steps.iter().enumerate() {
            let Act::Done { model, .. } = step.act else { continue };
            let is_launch = |act: &Act| matches!(act, Act::Launch { model: other, .. } if *other == model);
            let earlier = program.steps[..end].iter().rposition(|step| is_launch(&step.act));
            let begin = earlier.expect("an execution that ends has begun");
            let tasks = captures.entry(model).or_insert_with(|| tasks_of(history, begin..=end));
            all.add(history, tasks, begin, end)
                .map_err(|why| format!("step {end}, {:?}: {why}", step.act))?;
            all.windows.push(begin..=end);
        }
        Ok(all)
    }

    /// Whether the step belongs to an execution: its task is submitted when that ends.
    pub fn have(&self, step: usize) -> bool {
        self.windows.iter().any(|window| window.contains(&step))
    }

    /// The steps of the execution that ends with this step.
    pub fn window(&self, end: usize) -> Option<RangeInclusive<usize>> {
        self.windows.iter().find(|window| *window.end() == end).cloned()
    }

    fn add(&mut self, history: &History, tasks: &[Task], begin: usize, end: usize) -> Result<(), String> {
        let graph = tasks.first().map_or(0, |task| task.captured.task.graph);
        let mut ops: HashMap<TaskId, Point> = HashMap::new();
        for (point, op) in ops_of_execution(history, end) {
            let Some(task) = op.submitted.task else { continue };
            if !tasks.iter().any(|known| known.captured.task == task) {
                return Err(format!("{point:?} is {task:?}, which was not captured"));
            }
            if let Some(other) = ops.insert(task, point) {
                return Err(format!("{other:?} and {point:?} are both {task:?}"));
            }
        }
        for branch in tasks.iter().map(|task| task.captured.branch).max().map_or(0..=0, |last| 0..=last) {
            let of_branch: Vec<_> = tasks.iter().filter(|task| task.captured.branch == branch).collect();
            self.add_branch(history, &of_branch, &ops, begin)?;
        }
        let launches: Vec<_> = history.launches.iter().filter(|launch| launch.step == end).collect();
        match launches[..] {
            [launch] => check_launch(history, launch, graph),
            _ => Err(format!("was launched {} times", launches.len())),
        }
    }

    /// Every task of the branch has its op, or is part of the one before it.
    fn add_branch(
        &mut self,
        history: &History,
        tasks: &[&Task],
        ops: &HashMap<TaskId, Point>,
        begin: usize,
    ) -> Result<(), String> {
        // Records have no op, and copies are not coalesced across them.
        let mut parts: Vec<(Point, Vec<&Task>)> = vec![];
        let mut is_open = false;
        for task in tasks {
            if let Some(op) = ops.get(&task.captured.task) {
                parts.push((*op, vec![task]));
                is_open = true;
            } else if task.captured.work == Work::Mark {
                is_open = false;
            } else if let Some((_, part)) = parts.last_mut().filter(|_| is_open) {
                part.push(task);
            } else {
                return Err(format!("{:?} did not run", task.captured.task));
            }
        }
        for (op, part) in parts {
            does_what_was_captured(&history.ops[&op], &part)?;
            self.steps.entry(op).or_default().extend(part.iter().map(|task| begin + task.step));
        }
        Ok(())
    }
}

/// The tasks that the steps of a capture have added, in their order.
fn tasks_of(history: &History, steps: RangeInclusive<usize>) -> Vec<Task<'_>> {
    let begin = *steps.start();
    let captured = history.captured.range(steps);
    captured
        .flat_map(|(step, all)| all.iter().map(move |captured| Task { step: *step - begin, captured }))
        .collect()
}

/// The ops that the last step of an execution has submitted, itself or by a function that it has submitted.
fn ops_of_execution(history: &History, end: usize) -> impl Iterator<Item = (Point, &Op)> {
    let is_of = move |op: &Op| match op.by {
        Submitter::Step(step) => step == end,
        Submitter::Function(function) => {
            history.ops.get(&function).is_some_and(|function| function.by == Submitter::Step(end))
        }
        Submitter::Outside => false,
    };
    history.ops.iter().filter(move |(_, op)| is_of(op)).map(|(point, op)| (*point, op))
}

fn does_what_was_captured(op: &Op, part: &[&Task]) -> Result<(), String> {
    let (work, first) = (&op.submitted.work, &part[0].captured.work);
    let bytes: u64 = part.iter().map(|task| task.captured.work.bytes()).sum();
    let is_same = if part.len() == 1 { work == first } else { work.bytes() == bytes };
    if is_same {
        return Ok(());
    }
    let tasks: Vec<_> = part.iter().map(|task| task.captured).collect();
    Err(format!("{:?} is not what was captured: {tasks:?}", op.submitted))
}

/// The launch names the graph, and the last op of the step in its stream.
fn check_launch(history: &History, launch: &Launch, graph: u32) -> Result<(), String> {
    let of_step = history.ops_of(launch.step).map(|(point, _)| point);
    let last = of_step.filter(|point| point.stream == launch.last.stream).max();
    if launch.graph == graph && last == Some(launch.last) {
        return Ok(());
    }
    let (told, seen) = (launch.graph, launch.last);
    Err(format!("graph {told} is launched up to {seen:?}, and it is graph {graph} up to {last:?}"))
}
