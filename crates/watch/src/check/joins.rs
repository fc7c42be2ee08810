//! Which ops the host has joined: ops that a thread has learnt to have passed, and all that is ordered
//! before them.
//!
//! What is joined of a stream is a frontier (`frontiers`). An op may await points of other streams as well;
//! such an edge is kept until its op is joined, and then followed once. So the work is linear in the number
//! of ops, and memory is that of the edges of ops which nobody has joined yet. A join by any thread counts
//! for all threads.

use super::frontiers::Frontiers;
use crate::fact::{Awaited, Point};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Unbound promises that are kept for joined ops; of more, the oldest are forgotten.
const KEPT_OWED: usize = 1 << 14;

/// What the host has joined.
#[derive(Debug, Default)]
pub struct Joins {
    frontiers: Frontiers,
    /// What ops that are not joined await, by their stream and in the order of their tickets.
    edges: HashMap<u32, VecDeque<WaitEdge>>,
    /// The ops that await a promise which is not bound yet.
    waiting: HashMap<u64, Vec<Point>>,
    /// Promises that are not bound yet, and that a joined op awaits. Some never are: what opens them is not
    /// seen.
    owed: BTreeSet<u64>,
    /// The newest op of each stream.
    newest: HashMap<u32, u64>,
    /// Streams that are gone and not joined.
    gone: Vec<u32>,
}

/// The op `ticket` of a stream awaits something.
#[derive(Clone, Copy, Debug)]
struct WaitEdge {
    ticket: u64,
    awaited: Awaited,
    /// It was not known what that is when the op was submitted.
    was_open: bool,
}

impl Joins {
    /// The op was submitted, and passes after what it awaits. Ops of one stream come in the order of their
    /// tickets; a promise is bound after the ops that await it were submitted, and its number may be used
    /// for another one then.
    pub fn submitted(&mut self, point: Point, awaits: &[Awaited]) {
        let is_joined = self.is_joined(point);
        self.newest.insert(point.stream, point.ticket);
        for awaited in awaits.iter().copied() {
            if is_joined {
                self.follow(awaited);
                continue;
            }
            if let Awaited::Later(promise) = awaited {
                self.waiting.entry(promise).or_default().push(point);
            }
            let was_open = !matches!(awaited, Awaited::Point(_));
            let edge = WaitEdge { ticket: point.ticket, awaited, was_open };
            self.edges.entry(point.stream).or_default().push_back(edge);
        }
    }

    /// The op that was submitted last in its stream was refused, and the next one has its ticket.
    pub fn refused(&mut self, point: Point) {
        let Some(edges) = self.edges.get_mut(&point.stream) else { return };
        let first = edges.partition_point(|edge| edge.ticket < point.ticket);
        for WaitEdge { awaited, .. } in edges.drain(first..) {
            forget_waiting(&mut self.waiting, awaited, point);
        }
    }

    /// The stream is gone, and gets no more ops. Nothing is kept of it once all of them are joined.
    pub fn gone(&mut self, stream: u32) {
        self.gone.push(stream);
        self.drop_ended();
    }

    fn drop_ended(&mut self) {
        let is_over = |stream: &mut u32| {
            let newest = self.newest.get(stream).map(|ticket| Point { stream: *stream, ticket: *ticket });
            newest.is_none_or(|newest| self.frontiers.has(newest))
        };
        for stream in self.gone.extract_if(.., is_over).collect::<Vec<_>>() {
            self.newest.remove(&stream);
            self.frontiers.end(stream);
        }
    }

    /// What a promise stands for is decided: a point, or nothing.
    pub fn bound(&mut self, promise: u64, point: Option<Point>) {
        for op in self.waiting.remove(&promise).unwrap_or_default() {
            let Some(edges) = self.edges.get_mut(&op.stream) else { continue };
            let first = edges.partition_point(|edge| edge.ticket < op.ticket);
            let of_op = edges.range_mut(first..).take_while(|edge| edge.ticket == op.ticket);
            let decided = point.map_or(Awaited::Outside, Awaited::Point);
            of_op
                .filter(|edge| edge.awaited == Awaited::Later(promise))
                .for_each(|edge| edge.awaited = decided);
        }
        if self.owed.remove(&promise)
            && let Some(point) = point
        {
            self.joined(point);
        }
    }

    /// A thread has learnt that the point has passed.
    pub fn joined(&mut self, point: Point) {
        self.follow(Awaited::Point(point));
        if !self.gone.is_empty() {
            self.drop_ended();
        }
    }

    /// The stream was aborted: nothing up to the point is in flight any more. What that awaited may be, and
    /// no later join of it takes that in.
    pub fn aborted(&mut self, point: Point) {
        if self.frontiers.raise(point) {
            self.release(point, &mut vec![]);
        }
    }

    /// Whether the host has joined the point.
    pub fn is_joined(&self, point: Point) -> bool {
        self.frontiers.has(point)
    }

    /// Whether `op`, which is not joined, may pass after `point`: behind it in its stream, or by waits. What
    /// awaits a promise, or something unseen, may come after everything. It also may once the promise is
    /// bound, which happens when work runs: the answer must not depend on when it is asked for.
    pub fn is_after(&self, op: Point, point: Point) -> bool {
        let (mut ahead, mut seen) = (vec![op], HashMap::new());
        while let Some(op) = ahead.pop() {
            if op.stream == point.stream && op.ticket > point.ticket {
                return true;
            }
            let looked = seen.insert(op.stream, op.ticket).unwrap_or(0);
            if looked >= op.ticket {
                seen.insert(op.stream, looked);
                continue;
            }
            let edges = self.edges.get(&op.stream).into_iter().flatten();
            let edges = edges.skip_while(|edge| edge.ticket <= looked);
            for edge in edges.take_while(|edge| edge.ticket <= op.ticket) {
                match edge.awaited {
                    _ if edge.was_open => return true,
                    // Awaiting the point itself is to come after it.
                    Awaited::Point(other) if other == point => return true,
                    Awaited::Point(other) => ahead.push(other),
                    Awaited::Later(_) | Awaited::Outside => {}
                }
            }
        }
        false
    }

    /// Joins what a joined op awaits, and what that awaits in turn.
    fn follow(&mut self, awaited: Awaited) {
        let mut ahead = vec![awaited];
        while let Some(awaited) = ahead.pop() {
            match awaited {
                Awaited::Point(point) => {
                    if self.frontiers.raise(point) {
                        self.release(point, &mut ahead);
                    }
                }
                Awaited::Later(promise) => {
                    self.owed.insert(promise);
                    if self.owed.len() > KEPT_OWED {
                        self.owed.pop_first();
                    }
                    ahead.push(Awaited::Outside);
                }
                // Something unseen ordered this op: it may come after all that was submitted.
                Awaited::Outside => {
                    let all = self.newest.iter().map(|(stream, ticket)| (*stream, *ticket));
                    ahead.extend(all.map(|(stream, ticket)| Awaited::Point(Point { stream, ticket })));
                }
            }
        }
    }

    /// Takes the edges of the ops up to `point` of its stream, which are to be followed.
    fn release(&mut self, point: Point, ahead: &mut Vec<Awaited>) {
        let Some(edges) = self.edges.get_mut(&point.stream) else { return };
        let count = edges.partition_point(|edge| edge.ticket <= point.ticket);
        for WaitEdge { ticket, awaited, .. } in edges.drain(..count) {
            forget_waiting(&mut self.waiting, awaited, Point { ticket, ..point });
            ahead.push(awaited);
        }
        if edges.is_empty() {
            self.edges.remove(&point.stream);
        }
    }
}

/// The op does not wait for a promise any more.
pub(super) fn forget_waiting(waiting: &mut HashMap<u64, Vec<Point>>, awaited: Awaited, op: Point) {
    if let Awaited::Later(promise) = awaited
        && let Entry::Occupied(mut entry) = waiting.entry(promise)
    {
        entry.get_mut().retain(|other| *other != op);
        if entry.get().is_empty() {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(stream: u32, ticket: u64) -> Point {
        Point { stream, ticket }
    }

    fn after(stream: u32, ticket: u64) -> Awaited {
        Awaited::Point(at(stream, ticket))
    }

    #[test]
    fn a_join_takes_in_what_is_before_it_in_its_stream_and_nothing_else() {
        let mut joins = Joins::default();
        (1..=3).for_each(|ticket| joins.submitted(at(1, ticket), &[]));
        joins.joined(at(1, 2));
        let joined = [at(1, 1), at(1, 2), at(1, 3), at(2, 1)].map(|point| joins.is_joined(point));
        assert_eq!(joined, [true, true, false, false]);
        joins.joined(at(1, 1));
        assert!(joins.is_joined(at(1, 2)), "an older join takes nothing back");
    }

    #[test]
    fn what_a_joined_op_awaited_is_joined_over_any_number_of_streams() {
        let mut joins = Joins::default();
        joins.submitted(at(2, 2), &[after(1, 5)]);
        joins.submitted(at(3, 1), &[after(2, 3)]);
        joins.submitted(at(3, 2), &[after(4, 9)]);
        joins.joined(at(3, 1));
        let joined = [at(1, 5), at(1, 6), at(2, 3), at(2, 4), at(4, 9)].map(|point| joins.is_joined(point));
        assert_eq!(joined, [true, false, true, false, false]);
        assert_eq!(joins.edges.len(), 1, "edges of joined ops are gone");
    }

    #[test]
    fn what_waited_for_something_unseen_joins_all_that_was_submitted() {
        let mut joins = Joins::default();
        joins.submitted(at(1, 1), &[]);
        joins.submitted(at(2, 1), &[Awaited::Outside]);
        joins.submitted(at(3, 1), &[after(4, 7)]);
        joins.joined(at(2, 1));
        joins.submitted(at(1, 2), &[]);
        let joined = [at(1, 1), at(3, 1), at(4, 7), at(1, 2)].map(|point| joins.is_joined(point));
        assert_eq!(joined, [true, true, true, false]);
    }

    #[test]
    fn a_promise_is_followed_whether_it_is_bound_before_or_after_the_join() {
        for bound_first in [true, false] {
            let mut joins = Joins::default();
            joins.submitted(at(2, 1), &[Awaited::Later(7)]);
            if bound_first {
                joins.bound(7, Some(at(1, 4)));
                assert!(!joins.is_joined(at(1, 4)));
            }
            joins.joined(at(2, 1));
            if !bound_first {
                joins.bound(7, Some(at(1, 4)));
            }
            assert!(joins.is_joined(at(1, 4)) && !joins.is_joined(at(1, 5)), "{bound_first}");
            assert!(joins.owed.is_empty() && joins.waiting.is_empty());
        }
    }

    #[test]
    fn the_number_of_a_promise_is_used_again_and_nothing_may_stand_behind_one() {
        let mut joins = Joins::default();
        joins.submitted(at(2, 1), &[Awaited::Later(7)]);
        joins.bound(7, Some(at(1, 1)));
        joins.submitted(at(3, 1), &[after(5, 1), Awaited::Later(7)]);
        joins.bound(7, Some(at(1, 9)));
        joins.joined(at(2, 1));
        assert!(joins.is_joined(at(1, 1)) && !joins.is_joined(at(1, 9)));
        joins.submitted(at(3, 2), &[Awaited::Later(7)]);
        joins.bound(7, None);
        joins.joined(at(3, 2));
        assert!(joins.is_joined(at(1, 9)) && joins.is_joined(at(5, 1)) && joins.owed.is_empty());
    }

    #[test]
    fn an_edge_that_comes_after_the_join_of_its_op_is_followed_at_once() {
        let mut joins = Joins::default();
        joins.joined(at(1, 3));
        joins.submitted(at(1, 3), &[after(2, 8)]);
        assert!(joins.is_joined(at(2, 8)));
    }

    #[test]
    fn a_refused_op_awaits_nothing() {
        let mut joins = Joins::default();
        joins.submitted(at(1, 1), &[after(2, 1)]);
        joins.submitted(at(1, 2), &[after(2, 2)]);
        joins.refused(at(1, 2));
        joins.submitted(at(1, 2), &[]);
        joins.joined(at(1, 2));
        assert!(joins.is_joined(at(2, 1)) && !joins.is_joined(at(2, 2)));
    }

    #[test]
    fn an_op_comes_after_what_it_waits_for_however_far_that_is() {
        let mut joins = Joins::default();
        joins.submitted(at(2, 3), &[after(1, 5)]);
        joins.submitted(at(3, 1), &[after(2, 3)]);
        joins.submitted(at(4, 1), &[after(2, 2)]);
        joins.submitted(at(5, 1), &[after(5, 1)]);
        for (op, point, want) in [
            (at(1, 6), at(1, 5), true),
            (at(1, 5), at(1, 5), false),
            (at(2, 3), at(1, 5), true),
            (at(2, 2), at(1, 5), false),
            (at(3, 2), at(1, 5), true),
            (at(3, 2), at(1, 4), true),
            (at(3, 2), at(1, 6), false),
            (at(4, 2), at(1, 5), false),
            (at(5, 1), at(1, 5), false),
        ] {
            assert_eq!(joins.is_after(op, point), want, "{op:?} after {point:?}");
        }
    }

    #[test]
    fn an_op_behind_a_promise_may_come_after_everything_whether_or_not_that_is_bound() {
        for awaited in [Awaited::Later(7), Awaited::Outside] {
            for bound in [None, Some(Some(at(1, 1))), Some(Some(at(1, 9))), Some(None)] {
                let mut joins = Joins::default();
                joins.submitted(at(2, 2), &[awaited]);
                joins.submitted(at(3, 1), &[after(2, 2)]);
                bound.iter().for_each(|point| joins.bound(7, *point));
                let is_after = [at(2, 1), at(2, 3), at(3, 1)].map(|op| joins.is_after(op, at(1, 5)));
                assert_eq!(is_after, [false, true, true], "{awaited:?} bound: {bound:?}");
            }
        }
    }

    #[test]
    fn a_stream_that_is_gone_is_joined_once_its_work_is_and_nothing_is_kept_of_it() {
        let mut joins = Joins::default();
        for stream in 1..50_000 {
            joins.submitted(at(stream, 1), &[]);
            if stream % 2 == 0 {
                joins.joined(at(stream, 1));
            }
            joins.gone(stream);
            if stream % 2 == 1 {
                assert!(!joins.is_joined(at(stream, 1)));
                joins.joined(at(stream, 1));
            }
            assert!(joins.is_joined(at(stream, 1)) && !joins.is_joined(at(stream + 1, 1)));
        }
        // What is left is the range of streams that have ended.
        assert_eq!((joins.newest.len(), joins.frontiers.kept(), joins.gone.len()), (0, 1, 0));
    }

    #[test]
    fn an_abort_joins_nothing_of_other_streams_then_or_later() {
        let mut joins = Joins::default();
        joins.submitted(at(1, 1), &[]);
        joins.submitted(at(2, 1), &[after(1, 1), Awaited::Later(7)]);
        joins.submitted(at(2, 2), &[Awaited::Outside]);
        joins.aborted(at(2, 2));
        joins.bound(7, Some(at(1, 1)));
        joins.joined(at(2, 1));
        assert!(joins.is_joined(at(2, 2)) && !joins.is_joined(at(1, 1)));
        assert!(joins.edges.is_empty() && joins.waiting.is_empty() && joins.owed.is_empty());
        joins.submitted(at(2, 3), &[]);
        joins.joined(at(2, 3));
        assert!(!joins.is_joined(at(1, 1)));
    }

    #[test]
    fn rings_of_waits_end_and_what_is_joined_is_not_kept() {
        let mut joins = Joins::default();
        joins.submitted(at(1, 1), &[after(2, 1)]);
        joins.submitted(at(2, 1), &[after(1, 1)]);
        joins.joined(at(1, 1));
        assert!(joins.is_joined(at(2, 1)));
        for round in 0..100_000 {
            let (event, wait) = (at(3, round + 1), at(4, round + 1));
            joins.submitted(wait, &[Awaited::Later(round)]);
            joins.bound(round, Some(event));
            joins.joined(wait);
            assert!(joins.is_joined(event));
            // This one is never bound.
            let unbound = at(5, round + 1);
            joins.submitted(unbound, &[Awaited::Later(1 << 40 | round)]);
            joins.joined(unbound);
        }
        assert_eq!((joins.waiting.len(), joins.edges.len(), joins.owed.len()), (0, 0, KEPT_OWED));
    }
}
