//! An order of everything in a recording that happens-before allows.

use super::super::model::{RecordedWait, Recording, StepAction};
use crate::fact::Point;
use std::collections::{HashMap, VecDeque};

/// One thing of that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A step submitted an op.
    Submitted { op: usize, step: usize },
    /// An op ran.
    Ran { op: usize },
    /// A step learnt that a point has passed.
    Joined { point: Point, step: usize },
}

/// The order, and what does not fit into it.
#[derive(Default)]
pub struct ReplayOrder {
    /// Everything that happens, in an order in which it can.
    pub happenings: Vec<Happening>,
    /// Joins, by step, of points that cannot have passed by then.
    pub unexplained: Vec<usize>,
    /// Ops that can never run, since they wait for each other.
    pub stuck: Vec<usize>,
}

/// Finds it.
pub fn order(recording: &Recording) -> ReplayOrder {
    let mut simulation = Simulation {
        recording,
        has_run: vec![false; recording.ops.len()],
        queues: vec![VecDeque::new(); recording.streams.len()],
        waiting: HashMap::new(),
        order: ReplayOrder::default(),
    };
    for (step, did) in recording.steps.iter().enumerate() {
        match &did.action {
            StepAction::Submit(op) => simulation.submit(*op, step),
            StepAction::Join { point, .. } => simulation.join(*point, step),
            _ => {}
        }
    }
    simulation.order.stuck = simulation.queues.into_iter().flatten().collect();
    simulation.order
}

struct Simulation<'a> {
    recording: &'a Recording,
    has_run: Vec<bool>,
    /// What each stream was given and has not run.
    queues: Vec<VecDeque<usize>>,
    /// The streams that wait for an op.
    waiting: HashMap<usize, Vec<u32>>,
    order: ReplayOrder,
}

impl Simulation<'_> {
    fn submit(&mut self, op: usize, step: usize) {
        self.order.happenings.push(Happening::Submitted { op, step });
        let stream = self.recording.ops[op].point.stream;
        self.queues[stream as usize].push_back(op);
        if self.queues[stream as usize].len() == 1 {
            self.run(stream);
        }
    }

    fn join(&mut self, point: Point, step: usize) {
        match self.recording.op_at(point) {
            Some(op) if !self.has_run[op] => self.order.unexplained.push(step),
            _ => self.order.happenings.push(Happening::Joined { point, step }),
        }
    }

    /// Runs what can run, beginning with a stream.
    fn run(&mut self, stream: u32) {
        let mut ready = vec![stream];
        while let Some(stream) = ready.pop() {
            while let Some(op) = self.queues[stream as usize].front().copied() {
                if let Some(target) = self.unmet(op) {
                    self.waiting.entry(target).or_default().push(stream);
                    break;
                }
                self.queues[stream as usize].pop_front();
                self.has_run[op] = true;
                self.order.happenings.push(Happening::Ran { op });
                ready.extend(self.waiting.remove(&op).unwrap_or_default());
            }
        }
    }

    /// An op that has to run before this one.
    fn unmet(&self, op: usize) -> Option<usize> {
        let op = &self.recording.ops[op];
        let targets = op.awaits.iter().filter_map(|awaited| target(self.recording, awaited));
        targets.into_iter().find(|target| !self.has_run[*target])
    }
}

/// The op that is waited for.
pub fn target(recording: &Recording, awaited: &RecordedWait) -> Option<usize> {
    match awaited {
        RecordedWait::Point(point) | RecordedWait::Promised(point) => recording.op_at(*point),
        RecordedWait::Never | RecordedWait::Outside => None,
    }
}
