//! The facts of processes in the order of their calls, each when all is known of it.
//!
//! Some of an op is told when it runs: what a late-bound copy copies, which record a wait is for, the tasks
//! of an execution that had to wait for its turn. When that is depends on timing, and what is found must
//! not. So the facts behind such an op wait here until it is known, and then come out in the order of calls.
//! Processes that share memory wait together, since the work of one is judged with that of the others.
//!
//! An execution of a graph is deferred while the graph runs for another stream: a function of the library's
//! own stands in the launching stream, and submits the tasks when the stream comes there. They belong to the
//! call that launched them and come out with it; that the function runs tells the program nothing.

use std::collections::{HashMap, HashSet, VecDeque};

use super::accesses::Resolution;
use crate::fact::{
    Awaited, CallSite, Fact, FactSource, Join, Nanos, Outcome, Passed, Piece, Point, SubmittedOp, Work,
};

/// Facts of a group that wait. If there are more, the first is judged by what is known of it.
const KEPT: usize = 1 << 17;

/// The group of the processes that share memory; the others have their own numbers.
const SHARING: u32 = 0;

/// A fact whose turn has come.
pub struct Arrival {
    /// Which fact it is, in the order in which facts came; then the same of what belongs to its call.
    place: (u64, u64),
    /// Whose it is.
    pub source: FactSource,
    /// The fact.
    pub fact: Fact,
    /// What it copies, if its addresses were read when it ran.
    pub resolved: Resolution,
    /// Whether its tasks are still to come.
    is_launch: bool,
}

/// The facts of all processes.
#[derive(Default)]
pub struct CallOrders {
    /// How many facts have waited.
    count: u64,
    groups: HashMap<u32, CallOrder>,
    /// The processes that share memory.
    sharing: HashSet<u32>,
}

impl CallOrders {
    /// How much is kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        let of_group = |group: &CallOrder| {
            let told = [group.resolved.len(), group.passed.len(), group.bound.len()];
            let launches = group.launched.len() + group.running.len();
            1 + group.waiting.len() + told.iter().sum::<usize>() + launches
        };
        self.groups.values().map(of_group).sum::<usize>() + self.sharing.len()
    }

    /// A fact has come; `is_launch` says whether it submits a function that will submit more. True if it can
    /// be judged at once. If not, it waits here.
    pub fn add(&mut self, source: FactSource, fact: &Fact, is_launch: bool) -> bool {
        if let Fact::Lent { .. } = fact {
            self.share(source.process);
        }
        let group = self.groups.entry(self.group_of(source.process)).or_default();
        if group.is_free() && !is_launch && is_told_at_once(fact) {
            return true;
        }
        self.count += 1;
        let (place, fact) = ((self.count, 0), fact.clone());
        group.add(Arrival { place, source, fact, resolved: Resolution::NOT_LATE, is_launch });
        false
    }

    /// The next fact that can be judged, of a process and those that it shares memory with.
    pub fn next(&mut self, process: u32) -> Option<Arrival> {
        self.groups.get_mut(&self.group_of(process))?.next()
    }

    /// What is left of a process that is over, and of those that it shares memory with what comes before.
    pub fn finish(&mut self, process: u32) -> Vec<Arrival> {
        let group = self.group_of(process);
        let left = self.groups.get_mut(&group).map(|group| group.finish(process)).unwrap_or_default();
        if group == process {
            self.groups.remove(&group);
        }
        self.sharing.remove(&process);
        left
    }

    fn group_of(&self, process: u32) -> u32 {
        if self.sharing.contains(&process) { SHARING } else { process }
    }

    fn share(&mut self, process: u32) {
        if self.sharing.insert(process)
            && let Some(own) = self.groups.remove(&process)
        {
            self.groups.entry(SHARING).or_default().absorb(own);
        }
    }
}

/// What a promise stands for, from the places of these facts on.
type Bindings = VecDeque<(u64, Option<Point>)>;

/// An execution that is deferred.
#[derive(Clone, Copy)]
struct Launch {
    /// The place of the function that submits its tasks.
    place: u64,
    point: Point,
    site: CallSite,
    time: Nanos,
}

/// The facts of one group of processes.
#[derive(Default)]
struct CallOrder {
    waiting: VecDeque<Arrival>,
    /// What is told of ops that wait, and of some that do not: that goes when nothing waits.
    resolved: HashMap<(u32, Point), Vec<Piece>>,
    /// Whether they were done, and not dropped.
    passed: HashMap<(u32, Point), bool>,
    bound: HashMap<(u32, u64), Bindings>,
    /// By the function that will submit the tasks.
    launched: HashMap<(u32, Point), Launch>,
    /// What each thread submits tasks for.
    running: HashMap<FactSource, Launch>,
}

impl CallOrder {
    fn is_free(&self) -> bool {
        self.waiting.is_empty() && self.launched.is_empty() && self.running.is_empty()
    }

    fn add(&mut self, mut arrival: Arrival) {
        let Arrival { place: (number, _), source, .. } = arrival;
        let process = source.process;
        match &mut arrival.fact {
            Fact::Submitted(op) => {
                if arrival.is_launch {
                    let launch = Launch { place: number, point: op.point, site: op.site, time: op.time };
                    self.launched.insert((process, op.point), launch);
                } else if let Some(launch) = self.running.get(&source).filter(|_| op.site.function == 0) {
                    launch.adopt(op);
                    arrival.place = (launch.place, number);
                }
            }
            Fact::MorePieces { point, pieces } => return self.add_pieces((process, *point), pieces),
            Fact::Resolved { point, piece, .. } => {
                return self.resolved.entry((process, *point)).or_default().push(*piece);
            }
            Fact::Bound { promise, point, .. } => {
                self.bound.entry((process, *promise)).or_default().push_back((number, *point));
            }
            Fact::Passed(Passed { point, outcome, .. }) => {
                self.passed.insert((process, *point), *outcome != Outcome::Dropped);
                self.launched.remove(&(process, *point));
                self.running.retain(|source, run| source.process != process || run.point != *point);
            }
            Fact::Joined(joined) if joined.how == Join::Function => {
                self.running.remove(&source);
                let function = Point { ticket: joined.point.ticket + 1, ..joined.point };
                if let Some(launch) = self.launched.remove(&(process, function)) {
                    self.running.insert(source, launch);
                    return;
                }
            }
            _ => {}
        }
        let index = self.waiting.partition_point(|other| other.place <= arrival.place);
        self.waiting.insert(index, arrival);
    }

    fn add_pieces(&mut self, (process, point): (u32, Point), more: &[Piece]) {
        let batch = self.waiting.iter_mut().rev().find_map(|arrival| match &mut arrival.fact {
            Fact::Submitted(op) if op.point == point && arrival.source.process == process => Some(op),
            _ => None,
        });
        if let Some(SubmittedOp { work: Work::Batch { pieces, .. }, .. }) = batch {
            pieces.extend_from_slice(more);
        }
    }

    /// The next fact, if all is known of it.
    fn next(&mut self) -> Option<Arrival> {
        let first = self.waiting.front()?;
        if self.waiting.len() <= KEPT && !self.is_known(first) {
            return None;
        }
        let first = self.waiting.pop_front().map(|first| self.completed(first));
        if self.waiting.is_empty() {
            (self.resolved, self.passed, self.bound) = Default::default();
        }
        first
    }

    fn finish(&mut self, process: u32) -> Vec<Arrival> {
        let last = self.waiting.iter().rposition(|arrival| arrival.source.process == process);
        let left: Vec<Arrival> = self.waiting.drain(..last.map_or(0, |last| last + 1)).collect();
        let left = left.into_iter().map(|arrival| self.completed(arrival)).collect();
        self.launched.retain(|(of, _), _| *of != process);
        self.running.retain(|source, _| source.process != process);
        left
    }

    /// Whether nothing more will be told of it.
    fn is_known(&self, arrival: &Arrival) -> bool {
        let Fact::Submitted(op) = &arrival.fact else { return true };
        let process = arrival.source.process;
        let has_passed = self.passed.contains_key(&(process, op.point));
        let is_bound = |awaited: &Awaited| match awaited {
            Awaited::Later(promise) => self.binding((process, *promise), arrival).is_some(),
            Awaited::Point(_) | Awaited::Outside => true,
        };
        has_all_pieces(&op.work)
            && (has_passed
                || !arrival.is_launch && self.is_resolved(process, op) && op.awaits.iter().all(is_bound))
    }

    fn is_resolved(&self, process: u32, op: &SubmittedOp) -> bool {
        // A descriptor says how many bytes there are: all of them were told when the op has passed.
        let Work::Through { len, .. } = op.work else { return true };
        let pieces = self.resolved.get(&(process, op.point)).into_iter().flatten();
        len > 0 && pieces.map(|piece| piece.len).sum::<u64>() >= len
    }

    /// What a promise stands for that this fact names: it is bound later, and its number used again then.
    fn binding(&self, promise: (u32, u64), arrival: &Arrival) -> Option<Option<Point>> {
        let named = arrival.place.0.max(arrival.place.1);
        let bound = self.bound.get(&promise)?.iter().find(|(place, _)| *place > named);
        bound.map(|(_, point)| *point)
    }

    /// The fact with what was told of it since it came.
    fn completed(&mut self, mut arrival: Arrival) -> Arrival {
        let process = arrival.source.process;
        if let Fact::Submitted(op) = &arrival.fact {
            let is_resolved = self.is_resolved(process, op);
            let was_done = self.passed.remove(&(process, op.point));
            let pieces = self.resolved.remove(&(process, op.point)).unwrap_or_default();
            arrival.resolved = match was_done {
                _ if is_resolved || !pieces.is_empty() => Resolution::Copied(pieces),
                Some(true) => Resolution::Copied(pieces),
                Some(false) => Resolution::Dropped,
                None => Resolution::Unknown,
            };
            let bound = |awaited: &Awaited| match awaited {
                // Without a point it is over where that was told: something unseen has ended it.
                Awaited::Later(promise) => self.binding((process, *promise), &arrival).flatten(),
                Awaited::Point(_) | Awaited::Outside => None,
            };
            let points: Vec<_> = op.awaits.iter().map(bound).collect();
            if let Fact::Submitted(op) = &mut arrival.fact {
                let awaits = op.awaits.iter_mut().zip(points);
                awaits.for_each(|(awaited, to)| *awaited = to.map_or(*awaited, Awaited::Point));
            }
        }
        if let Fact::Bound { promise, .. } = &arrival.fact
            && let Some(bound) = self.bound.get_mut(&(process, *promise))
        {
            bound.retain(|(place, _)| *place > arrival.place.0);
        }
        arrival
    }

    /// Takes in another group.
    fn absorb(&mut self, other: CallOrder) {
        self.waiting.extend(other.waiting);
        self.waiting.make_contiguous().sort_by_key(|arrival| arrival.place);
        self.resolved.extend(other.resolved);
        self.passed.extend(other.passed);
        self.bound.extend(other.bound);
        self.launched.extend(other.launched);
        self.running.extend(other.running);
    }
}

impl Launch {
    /// Makes an op one of the call that launched it: behind what the function came behind.
    fn adopt(&self, op: &mut SubmittedOp) {
        let behind = Point { ticket: self.point.ticket - 1, ..self.point };
        op.awaits.push(Awaited::Point(behind));
        (op.site, op.time) = (self.site, self.time);
    }
}

/// Whether all of a fact is told by itself.
fn is_told_at_once(fact: &Fact) -> bool {
    let Fact::Submitted(op) = fact else { return true };
    let is_later = |awaited: &Awaited| matches!(awaited, Awaited::Later(_));
    has_all_pieces(&op.work) && !matches!(op.work, Work::Through { .. }) && !op.awaits.iter().any(is_later)
}

fn has_all_pieces(work: &Work) -> bool {
    let Work::Batch { bytes, pieces, .. } = work else { return true };
    pieces.iter().map(|piece| piece.len).sum::<u64>() >= *bytes
}
