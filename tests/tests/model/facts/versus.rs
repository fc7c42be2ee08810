//! The facts' order against the model's.
//!
//! Both orders are compared by what stands for a step in each: a place in the chain of its thread, and the
//! ops that do its work. What the model orders must be ordered by the facts. What it does not order may be,
//! where two threads have met without the program saying in which order ([`Comparison::with_interleaving`]).

use std::collections::HashMap;

use ferry_watch::fact::{Outcome, Point as OpPoint};

use super::executions::Executions;
use super::happened::{Happened, Node, pasts};
use super::history::{History, HostFact, Op};
use super::rules::Streams;
use crate::oracle::Oracle;
use crate::order::{Point, Points};
use crate::program::{Act, Program, Step, Timing};
use crate::show::Shown;

/// Times of a device are measured by its own clock, in steps of half a microsecond, and told by the host's.
const DEVICE_SLACK: u64 = 1_000;

/// What stands for a step, or for a part of it, in both orders.
struct Stand {
    step: usize,
    model: Point,
    node: Node,
    op: Option<OpPoint>,
    /// An op that does nothing, of a step whose work is done in the call: the model does not have it.
    is_empty: bool,
}

pub fn compare(
    program: &Program,
    oracle: &Oracle,
    history: &History,
    executions: &Executions,
    streams: &Streams,
) -> Result<(), String> {
    let comparison = Comparison { program, oracle, history, executions, streams };
    comparison.check_steps()?;
    comparison.check_times()?;
    let happened = Happened::of(program, history);
    let stands = comparison.stands(&happened);
    let dropped = comparison.dropped(&stands)?;
    let model = |p: Point| oracle.order.edges_into(p, !dropped.has(p)).collect::<Vec<_>>();
    let count = oracle.order.len();
    let circle = "there is a circle in the order of";
    let least = pasts(count, model).map_err(|_| format!("{circle} the model"))?;
    let most = comparison.with_interleaving(&stands, model).map_err(|nodes| {
        let show = |stand: &Stand| format!("\n{}", comparison.show(stand));
        let is_in = |i: usize, stand: &Stand| nodes.contains(&(count + i)) || nodes.contains(&stand.model);
        let all = stands.iter().enumerate().filter(|(i, stand)| is_in(*i, stand));
        let all: String = all.map(|(_, stand)| show(stand)).collect();
        format!("{circle} the model with how its threads met: {all}")
    })?;
    let facts = pasts(happened.before.len(), |node| happened.before[node].clone())
        .map_err(|_| format!("{circle} the facts"))?;
    for (i, a) in stands.iter().enumerate() {
        // Copies of a graph that were coalesced are one op.
        let are_two = |b: &Stand| b.model != a.model && b.node != a.node && !a.is_empty && !b.is_empty;
        for (j, b) in stands.iter().enumerate().filter(|(_, b)| are_two(b)) {
            let place = |i: usize, stand: &Stand| if stand.op.is_some() { count + i } else { stand.model };
            let (earlier, later) = (place(i, a), place(j, b));
            let is_ordered = facts[b.node].has(a.node);
            let wrong = match is_ordered {
                true if !most[later].has(earlier) => "facts order what the model does not",
                false if least[b.model].has(a.model) => "facts do not order",
                _ => continue,
            };
            return Err(format!("{wrong}:\n{}\n{}", comparison.show(a), comparison.show(b)));
        }
    }
    Ok(())
}

struct Comparison<'a> {
    program: &'a Program,
    oracle: &'a Oracle,
    history: &'a History,
    executions: &'a Executions,
    streams: &'a Streams,
}

impl Comparison<'_> {
    fn show(&self, stand: &Stand) -> String {
        let step = Shown(self.program, &self.program.steps[stand.step]);
        let op = stand.op.map_or(String::new(), |op| format!(" as {:?}", self.history.ops[&op].submitted));
        format!("step {}, {step}{op}", stand.step)
    }

    /// Steps that do something have ops, which move as many bytes; steps that are refused have none.
    fn check_steps(&self) -> Result<(), String> {
        for (i, step) in self.program.steps.iter().enumerate() {
            let of_stream = |op: &Op| !self.streams.is_hidden(op.submitted.point.stream);
            let ops: Vec<_> = self.history.ops_of(i).filter(|(_, op)| of_stream(op)).collect();
            let bytes: u64 = ops.iter().map(|(_, op)| op.submitted.work.bytes()).sum();
            let wrong = match &step.act {
                Act::Refused(_) => !ops.is_empty(),
                Act::Done { .. } => false,
                _ if self.executions.have(i) => !ops.is_empty(),
                Act::Record { .. } | Act::Reset { .. } | Act::Hold { .. } => ops.len() != 1,
                act => match self.program.timing(act) {
                    Some(Timing::Task { .. } | Timing::Staged { .. }) => bytes != bytes_of(act),
                    _ => false,
                },
            };
            if wrong {
                let ops: Vec<_> = ops.iter().map(|(_, op)| &op.submitted).collect();
                return Err(format!("step {i}, {}, has these ops: {ops:?}", Shown(self.program, step)));
            }
        }
        Ok(())
    }

    /// An op begins when the one before it and all that it awaits have ended, and is joined when it has.
    fn check_times(&self) -> Result<(), String> {
        let history = self.history;
        for (point, op) in &history.ops {
            let (Some(begin), end) = history.times(*point) else { continue };
            if history.outcome(*point) == Outcome::Dropped {
                continue;
            }
            let previous = history.newest(OpPoint { ticket: point.ticket - 1, ..*point });
            let awaited = history.awaited(op);
            let slack = if history.is_timed_by_device(*point) { DEVICE_SLACK } else { 0 };
            let late = |other: &OpPoint| {
                history.times(*other).1 > begin + slack && !history.are_sent_together(*other, *point)
            };
            if let Some(other) = previous.into_iter().chain(awaited).find(late) {
                let (op, ended) = (history.shown(*point), history.shown(other));
                return Err(format!("begins before what it follows ends:\n{op}\n{ended}"));
            }
            if begin > end {
                return Err(format!("{:?} begins at {begin} and ends at {end}", op.submitted));
            }
        }
        let is_early = |(point, time): &&(OpPoint, u64)| {
            history.newest(*point).is_some_and(|op| history.times(op).1 > *time)
        };
        let early = history.joins.iter().find(is_early);
        early.map_or(Ok(()), |(point, time)| Err(format!("{point:?} is joined at {time}, before it ends")))
    }

    fn stands(&self, happened: &Happened) -> Vec<Stand> {
        let mut stands = vec![];
        for (i, step) in self.program.steps.iter().enumerate() {
            let placed = self.oracle.placed[i];
            // The tasks of an execution are submitted when that ends, and those of a halt lie in the midst of
            // it: what comes next tells.
            if !self.executions.have(i) && !matches!(step.act, Act::Halt { .. }) {
                let is_join = self.program.waits(&step.act) && placed.call == placed.task;
                let node = if is_join { happened.end(i) } else { happened.begin(i) };
                stands.push(Stand { step: i, model: placed.call, node, op: None, is_empty: false });
            }
            if matches!(step.act, Act::Done { .. }) {
                continue;
            }
            // Documented: a fill of the host's words is done in the call. A fill of none is an op.
            let is_in_call = self.program.timing(&step.act) == Some(Timing::Call);
            for (op, of_step) in self.history.ops_of(i) {
                let is_inside = self.streams.is_hidden(op.stream);
                let is_empty = is_in_call && !is_inside && of_step.submitted.work.bytes() == 0;
                let model = if is_inside { placed.call } else { placed.task };
                stands.push(Stand { step: i, model, node: happened.op(op), op: Some(op), is_empty });
            }
        }
        for (op, steps) in &self.executions.steps {
            let stand = |step: &usize| {
                let (node, op) = (happened.op(*op), Some(*op));
                Stand { step: *step, model: self.oracle.placed[*step].task, node, op, is_empty: false }
            };
            stands.extend(steps.iter().map(stand));
        }
        stands
    }

    /// The tasks that were dropped, which the model allows or demands.
    fn dropped(&self, stands: &[Stand]) -> Result<Points, String> {
        let (mut dropped, order) = (Points::default(), &self.oracle.order);
        for stand in stands.iter().filter(|stand| !stand.is_empty) {
            let Some(op) = stand.op else { continue };
            let outcome = self.history.outcome(op);
            let fails = matches!(self.program.steps[stand.step].act, Act::Halt { .. } | Act::Stale { .. });
            let is_right = match outcome {
                Outcome::Done => !fails && !order.is_void(stand.model),
                Outcome::Failed => fails,
                Outcome::Dropped => order.is_dropped(stand.model),
            };
            if !is_right {
                return Err(format!("was {outcome:?}: {}", self.show(stand)));
            }
            if outcome == Outcome::Dropped {
                dropped.insert(stand.model);
            }
        }
        Ok(dropped)
    }

    /// The order of the model together with what the program leaves to chance: how two threads meet that no
    /// barrier keeps apart. Behind the points of the model comes one for each op: a step may have several
    /// ops, and another thread's may lie between them.
    fn with_interleaving(
        &self,
        stands: &[Stand],
        model: impl Fn(Point) -> Vec<Point>,
    ) -> Result<Vec<Points>, Vec<usize>> {
        let count = self.oracle.order.len();
        let (mut extra, mut found): (HashMap<Point, Vec<Point>>, HashMap<Point, Vec<Point>>) =
            Default::default();
        for (i, a) in stands.iter().enumerate() {
            if a.op.is_none() {
                continue;
            }
            // A step is over when all of its ops are.
            if !a.is_empty {
                extra.entry(a.model).or_default().push(count + i);
            }
            // Ops of one stream have come in some order.
            let later = stands.iter().enumerate().filter(|(_, b)| self.meets_behind(a, b));
            later.for_each(|(j, _)| extra.entry(count + j).or_default().push(count + i));
            // A thread that waits for a stream waits for what others have put there until then.
            for then in self.found_by(a) {
                found.entry(then).or_default().push(count + i);
            }
        }
        pasts(count + stands.len(), |p| {
            let of_model = p.checked_sub(count).map_or(p, |i| stands[i].model);
            let mut before = model(of_model);
            before.extend(found.get(&of_model).into_iter().flatten());
            // What is not in the model comes after its call.
            before.extend(p.checked_sub(count).filter(|i| stands[*i].is_empty).map(|_| of_model));
            before.extend(extra.get(&p).into_iter().flatten());
            before
        })
    }

    /// Whether both are ops of one stream, the second behind the first, of two threads that may meet.
    fn meets_behind(&self, a: &Stand, b: &Stand) -> bool {
        let (Some(first), Some(second)) = (a.op, b.op) else { return false };
        let is_behind = first.stream == second.stream && first.ticket < second.ticket;
        is_behind && self.may_meet(a.step, b.step)
    }

    /// The points of the model that come after the op because a wait of the other thread has found it.
    fn found_by(&self, stand: &Stand) -> Vec<Point> {
        let Some(op) = stand.op else { return vec![] };
        let finds = |fact: &HostFact| match fact {
            HostFact::Joined(point) => op.stream == point.stream && op.ticket <= point.ticket,
            HostFact::Submitted(_) => false,
        };
        let waits = |(i, step): &(usize, &Step)| {
            self.program.waits(&step.act)
                && self.may_meet(stand.step, *i)
                && self.history.of_step(*i).iter().any(finds)
        };
        let found = self.program.steps.iter().enumerate().filter(waits).map(|(i, step)| {
            let placed = self.oracle.placed[i];
            let then = if placed.call == placed.task { i } else { self.next_step(i, step.thread) };
            self.oracle.placed[then].call
        });
        found.collect()
    }

    /// Whether the steps are of two threads, and no barrier is between them.
    fn may_meet(&self, a: usize, b: usize) -> bool {
        let steps = &self.program.steps;
        let is_barrier = |i: usize| matches!(steps[i].act, Act::Barrier);
        steps[a].thread != steps[b].thread && !(a.min(b)..a.max(b)).any(is_barrier)
    }

    /// The next step of the thread; a barrier is one of both. There is one: programs end with a check.
    fn next_step(&self, step: usize, thread: usize) -> usize {
        let is_next = |i: &usize| {
            let step = &self.program.steps[*i];
            step.thread == thread || matches!(step.act, Act::Barrier)
        };
        (step + 1..self.program.steps.len()).find(is_next).unwrap_or(step)
    }
}

/// How many bytes a step moves that are known when it is called.
fn bytes_of(act: &Act) -> u64 {
    match act {
        Act::RunDesc { desc, .. } if *desc < crate::program::FIRST_CELLS => 0,
        Act::CopyDesc { dst, .. } => crate::basics::desc_len(*dst).expect("asked before") as u64,
        Act::Fill { dst, .. } => dst.len as u64,
        _ => act.moves().iter().map(|(dst, _)| dst.len as u64).sum(),
    }
}
