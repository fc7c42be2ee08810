//! What the facts of one run say, sorted by op and by step of the program.

use std::collections::{BTreeMap, HashMap};

use ferry_watch::fact::{Awaited, Captured, Join, Nanos, Outcome, Passed, Point, SubmittedOp};
use ferry_watch::{Fact, FactSource};

use super::{BEGIN, END};

/// What has submitted an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submitter {
    /// A step of the program.
    Step(usize),
    /// A host function, which is this op.
    Function(Point),
    /// What comes before the first step and after the last.
    Outside,
}

pub struct Op {
    pub submitted: SubmittedOp,
    pub by: Submitter,
    /// The place of the fact among all.
    place: usize,
}

/// What a thread of the program did in a step that orders something.
pub enum HostFact {
    Submitted(Point),
    Joined(Point),
}

/// An execution of a graph, as the launching step tells it.
pub struct Launch {
    pub step: usize,
    pub graph: u32,
    pub last: Point,
}

#[derive(Default)]
pub struct History {
    pub ops: BTreeMap<Point, Op>,
    passed: HashMap<Point, Passed>,
    begun: HashMap<Point, Nanos>,
    /// All points that a thread has learnt to have passed, and when that was.
    pub joins: Vec<(Point, Nanos)>,
    /// What each step did, in order.
    host: HashMap<usize, Vec<HostFact>>,
    /// The place of the fact among all, the promise, and what it was bound to.
    bound: Vec<(usize, u64, Option<Point>)>,
    /// The tasks that each step has added to a graph.
    pub captured: BTreeMap<usize, Vec<Captured>>,
    pub launches: Vec<Launch>,
}

/// What a thread is at.
#[derive(Default)]
struct ThreadState {
    step: Option<usize>,
    function: Option<Point>,
}

impl ThreadState {
    fn submitter(&self) -> Submitter {
        let function = self.function.map_or(Submitter::Outside, Submitter::Function);
        self.step.map_or(function, Submitter::Step)
    }
}

impl History {
    pub fn of(facts: &[(FactSource, Fact)]) -> History {
        let (mut history, mut threads) = (History::default(), HashMap::new());
        for (place, (source, fact)) in facts.iter().enumerate() {
            history.take(place, threads.entry(*source).or_default(), fact);
        }
        history
    }

    fn take(&mut self, place: usize, thread: &mut ThreadState, fact: &Fact) {
        // An abort is told before the work has ended, and then that the host has waited for it.
        if let Fact::Joined(joined) = fact
            && joined.how != Join::Abort
        {
            self.joins.push((joined.point, joined.time));
        }
        let mut of_step = |what| {
            if let Some(step) = thread.step {
                self.host.entry(step).or_default().push(what);
            }
        };
        match fact {
            Fact::Stack { number, frames } if *frames == [BEGIN] => thread.step = Some(*number as usize),
            Fact::Stack { frames, .. } if *frames == [END] => thread.step = None,
            Fact::Submitted(op) => {
                of_step(HostFact::Submitted(op.point));
                let op = Op { submitted: op.clone(), by: thread.submitter(), place };
                self.ops.insert(op.submitted.point, op);
            }
            Fact::Joined(joined) if joined.how == Join::Function => {
                let Point { stream, ticket } = joined.point;
                thread.function = Some(Point { stream, ticket: ticket + 1 });
            }
            Fact::Joined(joined) => of_step(HostFact::Joined(joined.point)),
            Fact::Passed(passed) => {
                self.passed.insert(passed.point, *passed);
            }
            Fact::Begun { time, point } => {
                self.begun.insert(*point, *time);
            }
            Fact::Bound { promise, point, .. } => self.bound.push((place, *promise, *point)),
            Fact::Captured(captured) => {
                let step = thread.step.expect("only steps are captured");
                self.captured.entry(step).or_default().push(captured.clone());
            }
            Fact::Launched { graph, point, .. } => {
                let step = thread.step.expect("only steps launch graphs");
                self.launches.push(Launch { step, graph: *graph, last: *point });
            }
            _ => {}
        }
    }

    pub fn of_step(&self, step: usize) -> &[HostFact] {
        self.host.get(&step).map_or(&[], Vec::as_slice)
    }

    /// The ops that the step itself has submitted.
    pub fn ops_of(&self, step: usize) -> impl Iterator<Item = (Point, &Op)> {
        let submitted = self.of_step(step).iter().filter_map(|fact| match fact {
            HostFact::Submitted(point) => Some(*point),
            HostFact::Joined(_) => None,
        });
        submitted.map(|point| (point, &self.ops[&point]))
    }

    /// The newest op of a stream up to a point, if it belongs to this run.
    pub fn newest(&self, upto: Point) -> Option<Point> {
        let first = Point { ticket: 0, ..upto };
        self.ops.range(first..=upto).next_back().map(|(point, _)| *point)
    }

    /// What a wait for a promise turned out to be for. Promises are known by numbers that are used again
    /// when they are over.
    fn bound_to(&self, op: &Op, promise: u64) -> Option<Point> {
        let is_it =
            |(place, number, _): &&(usize, u64, Option<Point>)| *place > op.place && *number == promise;
        self.bound.iter().find(is_it).and_then(|(_, _, point)| *point)
    }

    /// The ops of this run that an op waits for.
    pub fn awaited(&self, op: &Op) -> Vec<Point> {
        let awaited = op.submitted.awaits.iter().filter_map(|awaited| match awaited {
            Awaited::Point(point) => self.newest(*point),
            Awaited::Later(promise) => self.newest(self.bound_to(op, *promise)?),
            Awaited::Outside => None,
        });
        awaited.collect()
    }

    pub fn outcome(&self, op: Point) -> Outcome {
        self.passed[&op].outcome
    }

    /// All that is known about an op of this run.
    pub fn shown(&self, op: Point) -> String {
        let (submitted, passed) = (&self.ops[&op].submitted, &self.passed[&op]);
        format!("{submitted:?}\n  begun {:?}, {passed:?}", self.begun.get(&op))
    }

    /// Whether both are among the ops that were sent to a device as one, which share begin and end.
    pub fn are_sent_together(&self, op: Point, other: Point) -> bool {
        let (op, other) = (&self.passed[&op], &self.passed[&other]);
        let times = |op: &Passed| (op.point.stream, op.begin, op.end, op.together);
        op.together > 1
            && op.point.ticket.abs_diff(other.point.ticket) < op.together.into()
            && times(op) == times(other)
    }

    /// Whether the clock of a device says when it was done.
    pub fn is_timed_by_device(&self, op: Point) -> bool {
        self.passed[&op].engine != 0
    }

    /// When the op has begun, and when it has ended. Dropped ops have not begun.
    pub fn times(&self, op: Point) -> (Option<Nanos>, Nanos) {
        let passed = &self.passed[&op];
        let begin = Some(passed.begin).filter(|begin| *begin != 0);
        (begin.or_else(|| self.begun.get(&op).copied()), passed.end)
    }
}
