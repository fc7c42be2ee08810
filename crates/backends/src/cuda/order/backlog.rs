//! The backlog of a queue: what blocks the queue, what waits behind that, and where a fence for some op
//! belongs.
//!
//! It knows nothing of CUDA: `W` is work, and `P` is a point, which is to be told when the queue has come so
//! far.

use ferry_core::Ticket;
use std::{
    collections::{BTreeMap, VecDeque},
    mem,
};

/// Work of one op, or of several that follow each other.
pub trait Counted {
    /// How many ops there are besides the first.
    fn more(&self) -> Ticket;
}

/// What waits, in the order of tickets; nothing does while nothing blocks the queue. Points come for any op,
/// however many wait, so they have a tree of their own.
pub struct Backlog<W, P> {
    last: Ticket,
    blocked_by: Option<BlockingOp>,
    work: VecDeque<(Ticket, W)>,
    /// By ticket, and for one ticket in the order they came.
    points: BTreeMap<(Ticket, u64), WaitingPoint<P>>,
    /// How many points have come so far.
    came: u64,
}

/// A point, and whether the work before it was dropped.
struct WaitingPoint<P> {
    point: P,
    is_lost: bool,
}

/// Something that waits while the queue is blocked.
#[derive(Debug, PartialEq, Eq)]
pub enum Item<W, P> {
    /// An op, or the first of several.
    Work(Ticket, W),
    /// A point behind the op of this ticket.
    Point(Ticket, P),
    /// A point behind the op of this ticket; the work before it was dropped.
    Lost(Ticket, P),
}

/// What the host has to do before the next op may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPart {
    /// Wait for a fence. An abort lets go of it.
    Wait,
    /// Run a function of the user's. After an abort only later ops wait for it, points do not.
    Call,
    /// Read or write memory that was lent to the queue. Neither ops nor points pass it, abort or not.
    Bytes,
}

#[derive(Clone, Copy, Debug)]
struct BlockingOp {
    ticket: Ticket,
    part: HostPart,
    has_begun: bool,
    is_aborted: bool,
}

impl BlockingOp {
    fn is_let_pass(&self) -> bool {
        self.is_aborted && self.part == HostPart::Call
    }
}

/// Where a point belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointPlace {
    /// At the end of the stream as it is now, which is behind the op of this ticket and waits for nothing but
    /// the device.
    End(Ticket),
    /// In the stream, but not at its end any more: before what the part that has begun puts there.
    BeforePart,
    /// In the backlog.
    Waits,
}

/// What an abort took out.
#[derive(Debug, PartialEq, Eq)]
pub struct Dropped<W, P> {
    /// Ops that will not run.
    pub work: Vec<W>,
    /// Points that need not wait for the host any more.
    pub points: Vec<P>,
    /// The first op that was dropped or is being stopped: those before it are in the stream.
    pub first: Option<Ticket>,
    /// The newest op that was dropped or is being stopped.
    pub newest: Option<Ticket>,
}

impl<W, P> Default for Backlog<W, P> {
    fn default() -> Self {
        Backlog { last: 0, blocked_by: None, work: VecDeque::new(), points: BTreeMap::new(), came: 0 }
    }
}

impl<W: Counted, P> Backlog<W, P> {
    /// An empty one whose next op has the ticket after `last`.
    pub fn after(last: Ticket) -> Self {
        Backlog { last, ..Backlog::default() }
    }

    /// The newest ticket.
    pub fn last(&self) -> Ticket {
        self.last
    }

    /// The queue has handed out this ticket.
    pub fn reach(&mut self, ticket: Ticket) {
        debug_assert!(ticket > self.last, "in order");
        self.last = ticket;
    }

    /// Whether something blocks the queue.
    pub fn is_blocked(&self) -> bool {
        self.blocked_by.is_some()
    }

    /// Keeps the newest op, or the newest ones, for later: the queue is blocked.
    pub fn keep(&mut self, work: W) {
        debug_assert!(self.is_blocked(), "it could follow at once");
        self.work.push_back((self.last - work.more(), work));
    }

    /// The work that waits with nothing behind it, for the newest op to join.
    pub fn newest(&mut self) -> Option<&mut W> {
        let point = self.points.last_key_value().map_or(0, |((ticket, _), _)| *ticket);
        self.work.back_mut().filter(|(ticket, _)| *ticket > point).map(|(_, work)| work)
    }

    /// The op `ticket` blocks the queue from here on.
    pub fn block(&mut self, ticket: Ticket, part: HostPart) {
        self.blocked_by = Some(BlockingOp { ticket, part, has_begun: false, is_aborted: false });
    }

    /// The host is about to do its part of op `ticket`. False if an abort came first: then it is not to be
    /// done.
    pub fn begin(&mut self, ticket: Ticket) -> bool {
        let op = self.blocked_by.as_mut().filter(|op| op.ticket == ticket && !op.is_aborted);
        op.map(|op| op.has_begun = true).is_some()
    }

    /// Whether the op `ticket` blocks the queue. It does not any more if an abort has let go of it.
    pub fn is_blocked_by(&self, ticket: Ticket) -> bool {
        self.blocked_by.is_some_and(|op| op.ticket == ticket)
    }

    /// The op that blocks the queue goes back in front of all others, to be tried again.
    pub fn again(&mut self, ticket: Ticket, work: W) {
        self.work.push_front((ticket, work));
    }

    /// The part that blocks the queue is done: what comes next. `None`, and nothing blocks the queue, if that
    /// was all.
    pub fn next(&mut self) -> Option<Item<W, P>> {
        let next = if self.has_point_first() { self.next_point() } else { self.next_work() };
        if next.is_none() {
            self.blocked_by = None;
        }
        next
    }

    /// Whether a point comes before all work: it stands behind every op up to its own.
    fn has_point_first(&self) -> bool {
        let point = self.points.first_key_value().map(|((ticket, _), _)| *ticket);
        point.is_some_and(|point| self.work.front().is_none_or(|(work, _)| point < *work))
    }

    fn next_point(&mut self) -> Option<Item<W, P>> {
        let ((ticket, _), WaitingPoint { point, is_lost }) = self.points.pop_first()?;
        Some(if is_lost { Item::Lost(ticket, point) } else { Item::Point(ticket, point) })
    }

    fn next_work(&mut self) -> Option<Item<W, P>> {
        self.work.pop_front().map(|(ticket, work)| Item::Work(ticket, work))
    }

    /// The ticket of what comes next.
    fn first(&self) -> Option<Ticket> {
        let point = self.points.first_key_value().map(|((ticket, _), _)| *ticket);
        self.work.front().map(|(ticket, _)| *ticket).into_iter().chain(point).min()
    }

    /// Where a point for the op `ticket` belongs. Never behind a part for the host that comes after that op.
    pub fn place(&self, ticket: Ticket) -> PointPlace {
        let Some(op) = self.blocked_by else { return PointPlace::End(self.last) };
        if ticket < op.ticket {
            return if op.has_begun { PointPlace::BeforePart } else { PointPlace::End(op.ticket - 1) };
        }
        if op.is_let_pass() && self.first().is_none_or(|first| first > ticket) {
            return PointPlace::End(self.first().map_or(self.last, |first| first - 1));
        }
        PointPlace::Waits
    }

    /// Has a point wait in the backlog, right behind the op `ticket` and the points that are there.
    pub fn add_point(&mut self, ticket: Ticket, point: P) {
        self.came += 1;
        self.points.insert((ticket, self.came), WaitingPoint { point, is_lost: false });
    }

    /// Drops what waits, and the part that blocks the queue if that is a wait or has not begun. Points that
    /// must not pass the part stay.
    pub fn abort(&mut self) -> Dropped<W, P> {
        let blocking = self.blocked_by.map(|op| op.ticket);
        let newest = self.work.back().map(|(ticket, work)| ticket + work.more()).or(blocking);
        let work = mem::take(&mut self.work).into_iter().map(|(_, work)| work).collect();
        let mut dropped = Dropped { work, points: Vec::new(), first: blocking, newest };
        if self.blocked_by.is_some_and(|op| op.part == HostPart::Bytes) {
            self.points.values_mut().for_each(|pending| pending.is_lost = true);
        } else {
            dropped.points.extend(mem::take(&mut self.points).into_values().map(|pending| pending.point));
        }
        self.blocked_by = self.blocked_by.filter(|op| op.part != HostPart::Wait);
        if let Some(op) = &mut self.blocked_by {
            op.is_aborted = true;
        }
        dropped
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Words = Backlog<&'static str, &'static str>;

    /// A word is an op, a sentence as many as it has words.
    impl Counted for &'static str {
        fn more(&self) -> Ticket {
            self.matches(' ').count() as Ticket
        }
    }

    /// Submits an op to a queue that is blocked.
    fn keep(backlog: &mut Words, word: &'static str) {
        backlog.reach(backlog.last() + 1 + word.more());
        backlog.keep(word);
    }

    /// A queue that the op `by` blocks, behind ops that are in the stream, with one op for each word behind
    /// it.
    fn blocked(by: Ticket, part: HostPart, words: &[&'static str]) -> Words {
        let mut backlog = Words { last: by, ..Words::default() };
        backlog.block(by, part);
        words.iter().for_each(|word| keep(&mut backlog, word));
        backlog
    }

    fn rest(backlog: &mut Words) -> Vec<Item<&'static str, &'static str>> {
        std::iter::from_fn(|| backlog.next()).collect()
    }

    #[test]
    fn points_never_wait_for_parts_of_later_ops() {
        for part in [HostPart::Wait, HostPart::Call, HostPart::Bytes] {
            let mut backlog = blocked(6, part, &["seven"]);
            assert_eq!(backlog.place(5), PointPlace::End(5), "{part:?}");
            assert_eq!(backlog.place(2), PointPlace::End(5), "{part:?}");
            assert_eq!(backlog.place(6), PointPlace::Waits, "{part:?}");
            assert!(!backlog.begin(5) && backlog.begin(6));
            assert_eq!(backlog.place(5), PointPlace::BeforePart, "{part:?}: the part may use the stream");
            assert_eq!(backlog.place(6), PointPlace::Waits, "{part:?}");
        }
        let mut backlog = Words::default();
        backlog.reach(1);
        assert!(!backlog.is_blocked());
        assert_eq!(backlog.place(1), PointPlace::End(1));
    }

    #[test]
    fn points_wait_right_behind_their_op() {
        let mut backlog = blocked(3, HostPart::Call, &["four", "five", "six"]);
        backlog.add_point(6, "all");
        backlog.add_point(4, "of four");
        backlog.add_point(3, "of three");
        backlog.add_point(4, "of four too");
        assert_eq!(
            rest(&mut backlog),
            [
                Item::Point(3, "of three"),
                Item::Work(4, "four"),
                Item::Point(4, "of four"),
                Item::Point(4, "of four too"),
                Item::Work(5, "five"),
                Item::Work(6, "six"),
                Item::Point(6, "all"),
            ]
        );
        assert!(!backlog.is_blocked_by(3), "that was all");
    }

    #[test]
    fn an_op_that_is_tried_again_comes_first() {
        let mut backlog = blocked(3, HostPart::Wait, &["four"]);
        backlog.add_point(3, "of three");
        backlog.again(3, "three");
        backlog.add_point(3, "of three too");
        assert_eq!(backlog.place(2), PointPlace::End(2));
        assert_eq!(
            rest(&mut backlog),
            [
                Item::Work(3, "three"),
                Item::Point(3, "of three"),
                Item::Point(3, "of three too"),
                Item::Work(4, "four"),
            ]
        );
    }

    #[test]
    fn an_abort_lets_points_pass_a_function_but_not_later_ops() {
        let mut backlog = blocked(3, HostPart::Call, &["four"]);
        backlog.begin(3);
        backlog.add_point(4, "all");
        let want = Dropped { work: vec!["four"], points: vec!["all"], first: Some(3), newest: Some(4) };
        assert_eq!(backlog.abort(), want);
        assert_eq!((backlog.place(3), backlog.place(4)), (PointPlace::End(4), PointPlace::End(4)));
        assert!(backlog.is_blocked(), "it runs on");
        keep(&mut backlog, "five");
        assert_eq!((backlog.place(4), backlog.place(5)), (PointPlace::End(4), PointPlace::Waits));
        assert_eq!(backlog.place(2), PointPlace::BeforePart);
        assert_eq!(
            backlog.abort(),
            Dropped { work: vec!["five"], points: vec![], first: Some(3), newest: Some(5) }
        );
        assert!(backlog.is_blocked_by(3));
    }

    #[test]
    fn an_abort_lets_nobody_pass_lent_memory() {
        let mut backlog = blocked(3, HostPart::Bytes, &["four"]);
        backlog.begin(3);
        backlog.add_point(3, "of three");
        backlog.add_point(4, "all");
        assert_eq!(
            backlog.abort(),
            Dropped { work: vec!["four"], points: vec![], first: Some(3), newest: Some(4) }
        );
        assert_eq!((backlog.place(3), backlog.place(4)), (PointPlace::Waits, PointPlace::Waits));
        backlog.add_point(4, "after the abort");
        keep(&mut backlog, "five");
        backlog.add_point(4, "later still");
        assert_eq!(
            rest(&mut backlog),
            [
                Item::Lost(3, "of three"),
                Item::Lost(4, "all"),
                Item::Point(4, "after the abort"),
                Item::Point(4, "later still"),
                Item::Work(5, "five"),
            ]
        );
    }

    #[test]
    fn an_abort_drops_what_has_not_begun() {
        for (part, place) in [(HostPart::Call, PointPlace::End(3)), (HostPart::Bytes, PointPlace::Waits)] {
            let mut backlog = blocked(3, part, &[]);
            assert_eq!(backlog.abort().newest, Some(3));
            assert_eq!(backlog.place(3), place, "{part:?}");
            assert!(!backlog.begin(3), "{part:?}: not to be done");
            assert!(backlog.is_blocked_by(3), "{part:?}: whoever comes to do it lets go");
        }
        let mut backlog = blocked(3, HostPart::Wait, &["four"]);
        backlog.add_point(4, "all");
        assert_eq!(
            backlog.abort(),
            Dropped { work: vec!["four"], points: vec!["all"], first: Some(3), newest: Some(4) }
        );
        assert!(!backlog.is_blocked_by(3));
        assert_eq!(backlog.place(4), PointPlace::End(4));
        assert_eq!(backlog.abort(), Dropped { work: vec![], points: vec![], first: None, newest: None });
    }

    #[test]
    fn ops_join_the_newest_work_if_nothing_is_behind_it() {
        let mut backlog = blocked(3, HostPart::Call, &[]);
        assert_eq!(backlog.newest(), None, "what blocks the queue is not joined");
        keep(&mut backlog, "four");
        *backlog.newest().expect("nothing is behind it") = "four five six";
        backlog.reach(6);
        backlog.add_point(5, "of five");
        assert_eq!(backlog.newest(), None, "a point is");
        keep(&mut backlog, "seven");
        backlog.add_point(3, "of three");
        assert_eq!(
            backlog.abort(),
            Dropped {
                work: vec!["four five six", "seven"],
                points: vec!["of three", "of five"],
                first: Some(3),
                newest: Some(7)
            }
        );
        keep(&mut backlog, "eight nine");
        assert_eq!(backlog.abort().newest, Some(9), "all that it stands for");
    }
}
