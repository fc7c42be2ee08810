//! Which ops of a recording are executions of graphs that a replay can capture and launch again.
//!
//! A graph qualifies if its executions are alike, each submitted by one thread, its ops wait for nothing but
//! each other, and the launching stream comes after all of them. Ops of other graphs are replayed one by one,
//! which delivers the same bytes.

use super::limits::ReplayLimits;
use super::model::{RecordedOp, RecordedWait, RecordedWork, Recording, StepAction};
use crate::fact::Outcome;
use std::collections::{HashMap, HashSet};

/// The executions of graphs.
#[derive(Clone, Debug, Default)]
pub struct Launches {
    /// Them, in order.
    pub all: Vec<GraphLaunch>,
    /// For each op, the execution that it belongs to.
    pub of_op: Vec<Option<usize>>,
}

/// An execution of a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphLaunch {
    /// The graph.
    pub graph: u32,
    /// The stream that it was launched on.
    pub stream: u32,
    /// Its ops, in the order in which they were submitted.
    pub ops: Vec<usize>,
}

impl Launches {
    /// Those of a recording. Ops for which `is_left_out` are not submitted at all.
    pub fn of(recording: &Recording, limits: &ReplayLimits, is_left_out: &[bool]) -> Launches {
        let mut found = find(recording);
        let is_whole = |op: usize| limits.is_replayed[op] && !is_left_out[op];
        let mut firsts: HashMap<u32, GraphLaunch> = HashMap::new();
        let mut unfit: HashSet<u32> = HashSet::new();
        for (launch, threads) in &found {
            let first = firsts.entry(launch.graph).or_insert_with(|| launch.clone());
            let is_fit = threads.len() == 1
                && launch.ops.iter().all(|op| is_whole(*op))
                && is_closed(recording, launch)
                && is_joined(recording, launch)
                && is_like(recording, first, launch);
            if !is_fit {
                unfit.insert(launch.graph);
            }
        }
        let is_captured = |graph: u32| {
            let end = StepAction::EndCapture { graph };
            recording.steps.iter().any(|step| step.action == end)
        };
        unfit.extend(firsts.keys().filter(|graph| !is_captured(**graph)));
        found.retain(|(launch, _)| !unfit.contains(&launch.graph) && !launch.ops.is_empty());
        let mut launches = Launches { all: Vec::new(), of_op: vec![None; recording.ops.len()] };
        for (launch, _) in found {
            launch.ops.iter().for_each(|op| launches.of_op[*op] = Some(launches.all.len()));
            launches.all.push(launch);
        }
        launches
    }
}

/// All executions, and the threads that submitted their ops.
fn find(recording: &Recording) -> Vec<(GraphLaunch, HashSet<u32>)> {
    let mut open: HashMap<u32, (Vec<usize>, HashSet<u32>)> = HashMap::new();
    let mut found = Vec::new();
    for step in &recording.steps {
        match &step.action {
            StepAction::Submit(op) => {
                if let Some(task) = recording.ops[*op].task {
                    let (ops, threads) = open.entry(task.graph).or_default();
                    ops.push(*op);
                    threads.insert(step.thread);
                }
            }
            StepAction::Launch { graph, point } => {
                let (ops, mut threads) = open.remove(graph).unwrap_or_default();
                threads.insert(step.thread);
                found.push((GraphLaunch { graph: *graph, stream: point.stream, ops }, threads));
            }
            _ => {}
        }
    }
    // Ops that no launch follows make their graph unfit.
    for (graph, (ops, threads)) in open {
        let threads = threads.into_iter().chain([u32::MAX]).collect();
        found.push((GraphLaunch { graph, stream: 0, ops }, threads));
    }
    found
}

/// Whether the ops wait for nothing but each other, and run on streams of the graph's own or on the launching
/// one.
fn is_closed(recording: &Recording, launch: &GraphLaunch) -> bool {
    let members: HashSet<usize> = launch.ops.iter().copied().collect();
    launch.ops.iter().all(|op| {
        let op = &recording.ops[*op];
        let is_waiting_inside = |awaited: &RecordedWait| match awaited {
            RecordedWait::Point(point) => recording.op_at(*point).is_some_and(|op| members.contains(&op)),
            RecordedWait::Promised(_) | RecordedWait::Never | RecordedWait::Outside => false,
        };
        let is_simple = match &op.work {
            RecordedWork::Nothing => op.awaits.len() == 1,
            RecordedWork::Mark => false,
            _ => op.awaits.is_empty(),
        };
        let is_done = op.result.is_none_or(|result| result.outcome == Outcome::Done);
        is_simple && is_done && op.awaits.iter().all(is_waiting_inside)
    })
}

/// Whether the launching stream comes after all ops, as it does behind a graph: what a task group does may
/// end
/// elsewhere.
fn is_joined(recording: &Recording, launch: &GraphLaunch) -> bool {
    let mut open: HashSet<usize> = launch.ops.iter().copied().collect();
    let mut before: HashMap<usize, usize> = HashMap::new();
    let mut last: HashMap<u32, usize> = HashMap::new();
    for op in &launch.ops {
        let earlier = last.insert(recording.ops[*op].point.stream, *op);
        before.extend(earlier.map(|earlier| (*op, earlier)));
    }
    let mut next: Vec<usize> = last.get(&launch.stream).copied().into_iter().collect();
    while let Some(op) = next.pop() {
        if open.remove(&op) {
            let awaited = recording.ops[op].awaits.iter().filter_map(|wait| match wait {
                RecordedWait::Point(point) => recording.op_at(*point),
                _ => None,
            });
            next.extend(awaited.chain(before.get(&op).copied()));
        }
    }
    open.is_empty()
}

/// Whether two executions do the same.
fn is_like(recording: &Recording, first: &GraphLaunch, other: &GraphLaunch) -> bool {
    let place = |launch: &GraphLaunch, wait: &RecordedWait| match wait {
        RecordedWait::Point(point) => {
            let target = recording.op_at(*point);
            launch.ops.iter().position(|op| Some(*op) == target)
        }
        _ => None,
    };
    // The launching stream may be another one.
    let branch = |launch: &GraphLaunch, op: &RecordedOp| {
        Some(op.point.stream).filter(|stream| *stream != launch.stream)
    };
    let alike = |(one, two): (&usize, &usize)| {
        let (one, two) = (&recording.ops[*one], &recording.ops[*two]);
        let waits = |launch, op: &RecordedOp| -> Vec<Option<usize>> {
            op.awaits.iter().map(|wait| place(launch, wait)).collect()
        };
        one.task == two.task
            && one.work == two.work
            && branch(first, one) == branch(other, two)
            && waits(first, one) == waits(other, two)
    };
    first.ops.len() == other.ops.len() && first.ops.iter().zip(&other.ops).all(alike)
}
