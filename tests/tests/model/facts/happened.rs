//! What happened before what, as the facts say it.
//!
//! Each thread is a chain of nodes: the begin and the end of each step, and every join in between. An op is
//! one node: after the op before it in its stream, after what it awaits, and after the place in the chain
//! where it was submitted.

use std::collections::HashMap;

use ferry_watch::fact::{Outcome, Point};

use super::history::{History, HostFact, Submitter};
use crate::order::Points;
use crate::program::{Act, Program, THREADS};

pub type Node = usize;

#[derive(Default)]
pub struct Happened {
    /// Edges by the node they lead to.
    pub before: Vec<Vec<Node>>,
    ops: HashMap<Point, Node>,
    /// Begin and end of each step; a barrier is one node.
    steps: HashMap<usize, (Node, Node)>,
}

impl Happened {
    pub fn of(program: &Program, history: &History) -> Happened {
        let mut all = Happened::default();
        for point in history.ops.keys() {
            let node = all.node([]);
            all.ops.insert(*point, node);
        }
        let last = all.add_threads(program, history);
        all.add_ops(history);
        all.add_gates(program, history, last);
        all.add_functions(history);
        all
    }

    pub fn op(&self, op: Point) -> Node {
        self.ops[&op]
    }

    pub fn begin(&self, step: usize) -> Node {
        self.steps[&step].0
    }

    pub fn end(&self, step: usize) -> Node {
        self.steps[&step].1
    }

    fn node(&mut self, before: impl IntoIterator<Item = Node>) -> Node {
        self.before.push(before.into_iter().collect());
        self.before.len() - 1
    }

    /// The chains of the threads. Returns where they end.
    fn add_threads(&mut self, program: &Program, history: &History) -> [Option<Node>; THREADS] {
        let mut last = [None; THREADS];
        for (i, step) in program.steps.iter().enumerate() {
            if matches!(step.act, Act::Barrier) {
                let both = self.node(last.into_iter().flatten());
                self.steps.insert(i, (both, both));
                last = [Some(both); THREADS];
                continue;
            }
            let begin = self.node(last[step.thread]);
            let mut now = begin;
            for fact in history.of_step(i) {
                match fact {
                    HostFact::Submitted(op) => self.before[self.ops[op]].push(now),
                    HostFact::Joined(point) => {
                        let joined = history.newest(*point).map(|op| self.ops[&op]);
                        now = self.node(joined.into_iter().chain([now]));
                    }
                }
            }
            let end = self.node([now]);
            self.steps.insert(i, (begin, end));
            last[step.thread] = Some(end);
        }
        last
    }

    fn add_ops(&mut self, history: &History) {
        for (point, op) in &history.ops {
            let node = self.ops[point];
            let previous = history.newest(Point { ticket: point.ticket - 1, ..*point });
            self.before[node].extend(previous.map(|op| self.ops[&op]));
            // An op that is dropped waits for nothing.
            if history.outcome(*point) == Outcome::Dropped {
                continue;
            }
            let awaited = history.awaited(op).into_iter();
            self.before[node].extend(awaited.map(|op| self.ops[&op]));
        }
    }

    /// What the program's own functions wait for.
    fn add_gates(&mut self, program: &Program, history: &History, last: [Option<Node>; THREADS]) {
        for (i, step) in program.steps.iter().enumerate() {
            let Act::Hold { gate, .. } = step.act else { continue };
            let is_release = |act: &Act| matches!(act, Act::Release { gate: other } if *other == gate);
            let release = program.steps.iter().position(|step| is_release(&step.act));
            let opener = release.map_or(last[step.thread], |release| Some(self.begin(release)));
            for (op, _) in history.ops_of(i).filter(|(op, _)| history.outcome(*op) != Outcome::Dropped) {
                self.before[self.ops[&op]].extend(opener);
            }
        }
    }

    /// What a function submits comes after all that the function comes after.
    fn add_functions(&mut self, history: &History) {
        for (point, op) in &history.ops {
            if let Submitter::Function(function) = op.by
                && let Some(node) = self.ops.get(&function)
            {
                let before = self.before[*node].clone();
                self.before[self.ops[point]].extend(before);
            }
        }
    }
}

/// For each node all that lies before it, and itself. If there is a circle, the error has its nodes, and
/// some that lead there.
pub fn pasts(count: usize, before: impl Fn(usize) -> Vec<usize>) -> Result<Vec<Points>, Vec<usize>> {
    let mut pasts: Vec<Option<Points>> = vec![None; count];
    let mut begun = Points::default();
    let mut open: Vec<usize> = (0..count).rev().collect();
    while let Some(node) = open.last().copied() {
        if pasts[node].is_some() {
            open.pop();
            continue;
        }
        let before = before(node);
        let missing: Vec<_> = before.iter().copied().filter(|other| pasts[*other].is_none()).collect();
        if missing.is_empty() {
            let mut past = Points::default();
            past.insert(node);
            before.iter().flat_map(|other| &pasts[*other]).for_each(|others| past.insert_all(others));
            pasts[node] = Some(past);
        } else if begun.insert(node) {
            open.extend(missing);
        } else {
            return Err(open.into_iter().filter(|node| begun.has(*node) && pasts[*node].is_none()).collect());
        }
    }
    Ok(pasts.into_iter().flatten().collect())
}
