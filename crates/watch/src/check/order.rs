//! Which work comes before which: happens-before between the ops of a process, and what the host has joined.
//!
//! Three things order work: the order of a stream, what an op waits for, and joins of the host. Every stream
//! has a vector clock ([`StreamClock`]): for each other stream, the newest op that comes before its next one.
//! What the host has joined comes before everything that is submitted from then on ([`JoinedTickets`]).
//!
//! Facts come in the order of calls, but an op may wait for something that is submitted later, or for
//! something unseen that ends later. So ops wait here, per stream, until that is known, and come out in an
//! order in which each follows what it depends on.
//! Arrows: it knows facts, and nothing of memory or findings.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use super::accesses::Resolution;
use super::frontiers::{HostView, JoinedTickets};
use super::joins::forget_waiting;
use crate::fact::{Awaited, Nanos, Point, SubmittedOp};

/// Stands in clocks for other processes: what they submitted until this time, in nanoseconds, comes before.
pub const OUTSIDE: u32 = u32::MAX;

/// How much of a stream's past is kept. Of more, some of the oldest ops count as coming after what the ones
/// behind them wait for.
const KEPT_HISTORY: usize = 1 << 14;

/// Streams that are gone and kept before they are looked through while ops wait to come out.
const MIN_SWEEP: usize = 1 << 8;

/// For each other stream, the newest op that comes before.
pub type StreamClock = BTreeMap<u32, u64>;

/// An op whose order is known.
pub struct OrderedOp {
    /// What was submitted.
    pub op: SubmittedOp,
    /// What comes before it in other streams.
    pub clock: Rc<StreamClock>,
    /// What the host knew before it.
    pub view: HostView,
    /// What it copies, if its addresses were read when it ran.
    pub resolved: Resolution,
}

struct PendingOp {
    op: SubmittedOp,
    view: HostView,
    resolved: Resolution,
}

/// What comes before the ops of a stream from a ticket on.
struct Past {
    from: u64,
    clock: Rc<StreamClock>,
    /// What the host knew before them.
    view: HostView,
}

/// One stream.
#[derive(Default)]
struct StreamOrder {
    /// The ticket of the newest op that has come out.
    reached: u64,
    /// What comes before its next op.
    clock: Rc<StreamClock>,
    /// What came before its ops, each from a ticket on; what is below the newest joined op is gone.
    history: Vec<Past>,
    /// Ops that have not come out, by their tickets.
    pending: BTreeMap<u64, PendingOp>,
}

impl StreamOrder {
    fn past_of(&self, ticket: u64) -> Option<&Past> {
        let count = self.history.partition_point(|past| past.from <= ticket);
        self.history.get(count.checked_sub(1)?)
    }

    fn remember(&mut self, past: Past) {
        self.history.push(past);
        if self.history.len() > KEPT_HISTORY {
            // Of each two the later one stays, the newest of all among them, and begins where the other did.
            let (froms, mut place): (Vec<u64>, _) = (self.history.iter().map(|past| past.from).collect(), 0);
            self.history.retain_mut(|past| {
                past.from = froms[usize::saturating_sub(place, 1)];
                place += 1;
                (froms.len() - place) % 2 == 0
            });
        }
    }
}

/// The order of a process.
#[derive(Default)]
pub struct OpOrder {
    streams: HashMap<u32, StreamOrder>,
    /// Streams that are gone and that something is still known of.
    gone: Vec<u32>,
    joined: JoinedTickets,
    /// How often the host has joined something.
    join: u64,
    /// The time of the newest fact.
    now: Nanos,
    /// How many ops have not come out.
    pending: usize,
    /// The streams that wait for a point of a stream.
    waiting: HashMap<u32, Vec<u32>>,
    /// The ops that wait for a promise, which is not bound yet.
    unbound: HashMap<u64, Vec<Point>>,
    /// From how many on streams that are gone are looked through while ops wait to come out.
    sweep_at: usize,
}

impl OpOrder {
    /// How much is kept.
    #[cfg(test)]
    pub fn kept(&self) -> usize {
        let of_streams =
            self.streams.values().map(|own| 1 + own.history.len() + own.pending.len() + own.clock.len());
        let noted = [self.gone.len(), self.waiting.len(), self.unbound.len()];
        of_streams.sum::<usize>() + noted.iter().sum::<usize>() + self.joined.kept()
    }

    /// What the host has joined so far.
    pub fn joined(&self) -> &JoinedTickets {
        &self.joined
    }

    /// The number of the join by which the host knows the point, if it does: of an op that is told after its
    /// join.
    pub fn joined_by(&self, point: Point) -> Option<u64> {
        self.joined.has(point).then(|| self.joined.number(point).unwrap_or(self.join))
    }

    /// What the host knows now.
    pub fn view(&self) -> HostView {
        HostView { join: self.join, outside: self.joined.newest(OUTSIDE) }
    }

    /// Whether every op that was submitted has come out.
    pub fn is_all_known(&self) -> bool {
        self.pending == 0
    }

    /// Time goes on.
    pub fn pass_time(&mut self, now: Nanos) {
        self.now = now.max(self.now);
    }

    /// The host has waited for something outside of the process.
    pub fn join_outside(&mut self) {
        self.raise(Point { stream: OUTSIDE, ticket: self.now });
    }

    /// An op was submitted, which copies `resolved` if its addresses were read when it ran. `ready` is given
    /// what can come out now.
    pub fn submit(&mut self, op: SubmittedOp, resolved: Resolution, ready: &mut Vec<OrderedOp>) {
        let (stream, view) = (op.point.stream, self.view());
        for awaited in &op.awaits {
            if let Awaited::Later(promise) = awaited {
                self.unbound.entry(*promise).or_default().push(op.point);
            }
        }
        let pending = PendingOp { view, op, resolved };
        let own = self.streams.entry(stream).or_default();
        let replaced = own.pending.insert(pending.op.point.ticket, pending);
        self.pending += usize::from(replaced.is_none());
        self.run(stream, false, ready);
    }

    /// What a promise is for is decided; its number may be used again.
    pub fn bind(&mut self, promise: u64, point: Option<Point>, ready: &mut Vec<OrderedOp>) {
        for op in self.unbound.remove(&promise).unwrap_or_default() {
            let own = self.streams.get_mut(&op.stream);
            let Some(pending) = own.and_then(|own| own.pending.get_mut(&op.ticket)) else { continue };
            let bound = point.map_or(Awaited::Outside, Awaited::Point);
            let awaits = pending.op.awaits.iter_mut();
            awaits
                .filter(|awaited| **awaited == Awaited::Later(promise))
                .for_each(|awaited| *awaited = bound);
            self.run(op.stream, false, ready);
        }
    }

    /// An op has passed: what is not known of it by now will not be.
    pub fn pass(&mut self, point: Point, ready: &mut Vec<OrderedOp>) {
        let own = self.streams.get(&point.stream);
        let Some(pending) = own.and_then(|own| own.pending.get(&point.ticket)) else { return };
        let unbound: Vec<u64> = pending.op.awaits.iter().filter_map(promise).collect();
        unbound.iter().for_each(|promise| self.bind(*promise, None, ready));
        self.run(point.stream, false, ready);
    }

    /// The host is about to join a point: what has passed can come out.
    pub fn reach(&mut self, point: Point, ready: &mut Vec<OrderedOp>) {
        self.force(point, ready);
    }

    /// What comes before a point in other streams.
    pub fn before(&self, point: Point) -> Rc<StreamClock> {
        let past = self.streams.get(&point.stream).and_then(|own| own.past_of(point.ticket));
        past.map(|past| past.clock.clone()).unwrap_or_default()
    }

    /// The host has learnt that a point has passed, and so has everything before it. Says the number of this
    /// join, and how far each stream is joined that is joined further than before.
    pub fn join(&mut self, point: Point) -> (u64, Vec<Point>) {
        self.join += 1;
        let before = self.before(point);
        let others = before.iter().map(|(stream, ticket)| Point { stream: *stream, ticket: *ticket });
        let raised = [point].into_iter().chain(others).filter(|point| !self.joined.has(*point));
        let raised: Vec<Point> = raised.collect();
        raised.iter().for_each(|point| self.raise(*point));
        self.drop_ended();
        (self.join, raised)
    }

    /// A stream was aborted: nothing up to the point is in flight any more. What it waited for before may not
    /// have passed, and orders nothing behind it. As [`join`](Self::join) otherwise.
    pub fn abort(&mut self, point: Point) -> (u64, Vec<Point>) {
        if let Some(own) = self.streams.get_mut(&point.stream) {
            own.clock = Rc::default();
            own.history.clear();
        }
        self.join(point)
    }

    /// A stream is gone: what is known of it serves no more once all of its work was joined.
    pub fn forget(&mut self, stream: u32) {
        self.gone.push(stream);
        self.drop_ended();
    }

    fn drop_ended(&mut self) {
        if self.gone.is_empty() || self.pending > 0 && self.gone.len() < self.sweep_at.max(MIN_SWEEP) {
            return;
        }
        let OpOrder { streams, joined, .. } = self;
        // An op that waits to come out may come after one of a stream that is gone.
        let pending = streams.values().flat_map(|own| own.pending.values());
        let awaited = pending.flat_map(|pending| pending.op.awaits.iter().filter_map(target));
        let awaited: HashSet<u32> = awaited.map(|point| point.stream).collect();
        let is_done =
            |own: &StreamOrder, stream| own.pending.is_empty() && own.reached <= joined.newest(stream);
        let is_over = |stream: &mut u32| {
            !awaited.contains(stream) && streams.get(stream).is_none_or(|own| is_done(own, *stream))
        };
        for stream in self.gone.extract_if(.., is_over).collect::<Vec<_>>() {
            self.streams.remove(&stream);
            self.joined.end(stream);
        }
        self.sweep_at = 2 * self.gone.len();
    }

    /// From here on, what `later` does comes after `earlier`, as if it had waited.
    pub fn mend(&mut self, earlier: Point, before: &StreamClock, later: u32) {
        let own = self.streams.entry(later).or_default();
        let clock = Rc::make_mut(&mut own.clock);
        merge(clock, before, later, None);
        raise(clock, earlier.stream, earlier.ticket);
        let view = own.history.last().map(|past| past.view).unwrap_or_default();
        own.remember(Past { from: own.reached, clock: own.clock.clone(), view });
    }

    /// Everything that is still waiting comes out, in the order of streams.
    pub fn finish(&mut self, ready: &mut Vec<OrderedOp>) {
        let mut streams: Vec<u32> = self.streams.keys().copied().collect();
        streams.sort_unstable();
        streams.iter().for_each(|stream| self.run(*stream, false, ready));
        streams.iter().for_each(|stream| self.run(*stream, true, ready));
    }

    fn raise(&mut self, point: Point) {
        self.joined.raise(point, self.join);
        // An op that waits to come out may follow one that was joined after it was submitted.
        let is_free = |own: &&mut StreamOrder| self.pending == 0 || own.history.len() > KEPT_HISTORY;
        if let Some(own) = self.streams.get_mut(&point.stream).filter(is_free) {
            let count = own.history.partition_point(|past| past.from <= point.ticket);
            own.history.drain(..count.saturating_sub(1));
        }
    }

    /// Has everything up to a point come out, and what that waits for before it, whatever is not known of it.
    fn force(&mut self, point: Point, ready: &mut Vec<OrderedOp>) {
        let mut ahead = vec![point];
        let mut streams = vec![];
        while let Some(point) = ahead.last().copied() {
            let own = self.streams.get(&point.stream);
            let first = own.and_then(|own| own.pending.first_key_value());
            let Some((_, first)) = first.filter(|(ticket, _)| **ticket <= point.ticket) else {
                ahead.pop();
                continue;
            };
            let missing = first.op.awaits.iter().filter(|awaited| !self.is_known(awaited));
            let missing = missing.filter_map(target);
            // A ring of waits has no beginning.
            let next = missing.into_iter().find(|next| ahead.iter().all(|other| other.stream != next.stream));
            if let Some(next) = next.filter(|next| self.has_pending(*next)) {
                ahead.push(next);
                continue;
            }
            self.come_out(point.stream, ready);
            streams.push(point.stream);
        }
        streams.iter().for_each(|stream| self.run(*stream, false, ready));
    }

    fn has_pending(&self, upto: Point) -> bool {
        let own = self.streams.get(&upto.stream);
        own.is_some_and(|own| own.pending.range(..=upto.ticket).next().is_some())
    }

    /// Lets out what can come out, beginning with a stream.
    fn run(&mut self, stream: u32, is_forced: bool, ready: &mut Vec<OrderedOp>) {
        let mut streams = vec![stream];
        while let Some(stream) = streams.pop() {
            while self.can_come_out(stream, is_forced) {
                self.come_out(stream, ready);
                streams.extend(self.waiting.remove(&stream).unwrap_or_default());
            }
        }
    }

    /// Whether all is known of the first op that waits in a stream; if not, it is noted what it waits for.
    fn can_come_out(&mut self, stream: u32, is_forced: bool) -> bool {
        let Some(own) = self.streams.get(&stream) else { return false };
        let Some((ticket, pending)) = own.pending.first_key_value() else { return false };
        if is_forced {
            return true;
        }
        if *ticket != own.reached + 1 {
            return false;
        }
        let missing = pending.op.awaits.iter().find(|awaited| !self.is_known(awaited));
        let target = missing.and_then(target);
        let is_known = missing.is_none();
        if let Some(point) = target {
            note_once(self.waiting.entry(point.stream).or_default(), stream);
        }
        is_known
    }

    /// Whether it is known what comes before what is waited for.
    fn is_known(&self, awaited: &Awaited) -> bool {
        match awaited {
            Awaited::Point(point) => {
                point.ticket == 0
                    || self.joined.has(*point)
                    || self.streams.get(&point.stream).is_some_and(|own| own.reached >= point.ticket)
            }
            Awaited::Later(_) => false,
            Awaited::Outside => true,
        }
    }

    /// Lets the first op of a stream out.
    fn come_out(&mut self, stream: u32, ready: &mut Vec<OrderedOp>) {
        let Some(own) = self.streams.get_mut(&stream) else { return };
        let Some((ticket, PendingOp { op, mut view, resolved })) = own.pending.pop_first() else { return };
        op.awaits.iter().for_each(|awaited| forget_waiting(&mut self.unbound, *awaited, op.point));
        own.reached = own.reached.max(ticket);
        self.pending -= 1;
        let mut clock = own.clock.clone();
        view = own.history.last().map_or(view, |past| view.max(past.view));
        for awaited in &op.awaits {
            self.follow(&mut clock, awaited, stream, &mut view);
        }
        let own = self.streams.entry(stream).or_default();
        let is_same = |past: &Past| Rc::ptr_eq(&past.clock, &clock) && past.view == view;
        if !own.history.last().is_some_and(is_same) {
            own.remember(Past { from: ticket, clock: clock.clone(), view });
        }
        own.clock = clock.clone();
        if self.pending == 0 {
            (self.unbound, self.waiting) = Default::default();
        }
        ready.push(OrderedOp { op, clock, view, resolved });
    }

    /// Adds to a clock what comes before what is waited for, and to `view` what the host knew before that.
    fn follow(&self, clock: &mut Rc<StreamClock>, awaited: &Awaited, stream: u32, view: &mut HostView) {
        let Some(point) = target(awaited) else {
            // Something unseen orders this: it may come after all that was submitted.
            let clock = Rc::make_mut(clock);
            let others = self.streams.iter().filter(|(other, _)| **other != stream);
            others.for_each(|(other, own)| raise(clock, *other, own.reached));
            return raise(clock, OUTSIDE, self.now);
        };
        // What was joined comes before everything that was submitted since then, and needs no clock. An op
        // that had to wait until it came out was submitted before.
        let joined = (view.join == self.join).then_some(&self.joined);
        if joined.is_some_and(|joined| joined.has(point)) {
            return;
        }
        let clock = Rc::make_mut(clock);
        if let Some(past) = self.streams.get(&point.stream).and_then(|own| own.past_of(point.ticket)) {
            merge(clock, &past.clock, stream, joined);
            *view = view.max(past.view);
        }
        if point.stream != stream {
            raise(clock, point.stream, point.ticket);
        }
    }
}

fn target(awaited: &Awaited) -> Option<Point> {
    match awaited {
        Awaited::Point(point) => Some(*point),
        Awaited::Later(_) | Awaited::Outside => None,
    }
}

fn promise(awaited: &Awaited) -> Option<u64> {
    match awaited {
        Awaited::Later(promise) => Some(*promise),
        Awaited::Point(_) | Awaited::Outside => None,
    }
}

fn note_once(streams: &mut Vec<u32>, stream: u32) {
    if streams.last() != Some(&stream) {
        streams.push(stream);
    }
}

fn raise(clock: &mut StreamClock, stream: u32, ticket: u64) {
    let newest = clock.entry(stream).or_default();
    *newest = ticket.max(*newest);
}

/// Adds what comes before another stream's op; what was joined before may be left out.
fn merge(clock: &mut StreamClock, before: &StreamClock, own: u32, joined: Option<&JoinedTickets>) {
    let is_over =
        |stream: u32, ticket: u64| joined.is_some_and(|joined| joined.has(Point { stream, ticket }));
    clock.retain(|stream, ticket| !is_over(*stream, *ticket));
    for (stream, ticket) in before {
        if *stream != own && !is_over(*stream, *ticket) {
            raise(clock, *stream, *ticket);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step of a made program. Ops are named by their points: (stream, ticket).
    enum Step {
        /// An op that waits for these points.
        Op((u32, u64), &'static [(u32, u64)]),
        /// An op that waits for a promise.
        Later((u32, u64), u64),
        Bound(u64, (u32, u64)),
        Passed((u32, u64)),
        Joined((u32, u64)),
        Aborted((u32, u64)),
    }
    use Step::*;

    /// An op, what comes before it in other streams, and the number of the newest join before it.
    type Told = ((u32, u64), Vec<(u32, u64)>, u64);

    fn point((stream, ticket): (u32, u64)) -> Point {
        Point { stream, ticket }
    }

    /// Which ops come out, in which order.
    fn run(steps: &[Step]) -> Vec<Told> {
        let (mut order, mut ready) = (OpOrder::default(), vec![]);
        let submit = |order: &mut OpOrder, at, awaits, ready: &mut Vec<OrderedOp>| {
            let op = SubmittedOp { point: point(at), awaits, ..Default::default() };
            order.submit(op, Resolution::NOT_LATE, ready);
        };
        for step in steps {
            match *step {
                Op(at, awaits) => {
                    let awaits = awaits.iter().map(|other| Awaited::Point(point(*other))).collect();
                    submit(&mut order, at, awaits, &mut ready);
                }
                Later(at, promise) => {
                    submit(&mut order, at, vec![Awaited::Later(promise)], &mut ready);
                }
                Bound(promise, to) => order.bind(promise, Some(point(to)), &mut ready),
                Passed(at) => order.pass(point(at), &mut ready),
                Joined(at) => {
                    order.reach(point(at), &mut ready);
                    order.join(point(at));
                }
                Aborted(at) => {
                    order.reach(point(at), &mut ready);
                    order.abort(point(at));
                }
            }
        }
        let told = |op: OrderedOp| {
            let Point { stream, ticket } = op.op.point;
            (
                (stream, ticket),
                op.clock.iter().map(|(stream, ticket)| (*stream, *ticket)).collect(),
                op.view.join,
            )
        };
        ready.into_iter().map(told).collect()
    }

    #[test]
    fn an_op_comes_after_its_stream_after_what_it_awaits_and_after_joins() {
        type Expected = &'static [((u32, u64), &'static [(u32, u64)], u64)];
        let table: [(&str, &[Step], Expected); 10] = [
            (
                "a wait",
                &[Op((1, 1), &[]), Op((2, 1), &[(1, 1)])],
                &[((1, 1), &[], 0), ((2, 1), &[(1, 1)], 0)],
            ),
            (
                "waits are transitive, and stay",
                &[Op((1, 1), &[]), Op((2, 1), &[(1, 1)]), Op((3, 1), &[(2, 1)]), Op((3, 2), &[])],
                &[
                    ((1, 1), &[], 0),
                    ((2, 1), &[(1, 1)], 0),
                    ((3, 1), &[(1, 1), (2, 1)], 0),
                    ((3, 2), &[(1, 1), (2, 1)], 0),
                ],
            ),
            (
                "a wait for an older op does not take in newer ones",
                &[Op((1, 1), &[]), Op((2, 1), &[]), Op((1, 2), &[(2, 1)]), Op((3, 1), &[(1, 1)])],
                &[((1, 1), &[], 0), ((2, 1), &[], 0), ((1, 2), &[(2, 1)], 0), ((3, 1), &[(1, 1)], 0)],
            ),
            (
                "what was joined is not waited for any more",
                &[Op((1, 1), &[]), Joined((1, 1)), Op((2, 1), &[(1, 1)])],
                &[((1, 1), &[], 0), ((2, 1), &[], 1)],
            ),
            (
                "a wait for a stream without work waits for nothing",
                &[Op((2, 1), &[(1, 0)]), Op((1, 1), &[(2, 1)])],
                &[((2, 1), &[], 0), ((1, 1), &[(2, 1)], 0)],
            ),
            (
                "a promise may be for an op that is submitted later, when more is joined",
                &[
                    Later((2, 1), 7),
                    Op((2, 2), &[]),
                    Op((1, 1), &[]),
                    Joined((1, 1)),
                    Op((3, 1), &[]),
                    Bound(7, (3, 1)),
                ],
                &[((1, 1), &[], 0), ((3, 1), &[], 1), ((2, 1), &[(3, 1)], 1), ((2, 2), &[(3, 1)], 1)],
            ),
            (
                "an op that comes out late keeps what it awaited though that was joined meanwhile",
                &[
                    Op((1, 1), &[]),
                    Later((2, 1), 7),
                    Op((2, 2), &[(1, 1)]),
                    Op((1, 2), &[]),
                    Joined((1, 2)),
                    Bound(7, (3, 0)),
                ],
                &[((1, 1), &[], 0), ((1, 2), &[], 0), ((2, 1), &[(3, 0)], 0), ((2, 2), &[(1, 1), (3, 0)], 0)],
            ),
            (
                "what passed without its promise being bound may come after all that was submitted",
                &[Later((2, 1), 7), Op((1, 1), &[]), Passed((2, 1))],
                &[((1, 1), &[], 0), ((2, 1), &[(1, 1), (OUTSIDE, 0)], 0)],
            ),
            (
                "a join lets out what comes before it in other streams",
                &[Op((4, 1), &[]), Later((1, 1), 7), Op((2, 1), &[(1, 1)]), Joined((2, 1)), Op((3, 1), &[])],
                &[
                    ((4, 1), &[], 0),
                    ((1, 1), &[(2, 0), (4, 1), (OUTSIDE, 0)], 0),
                    ((2, 1), &[(1, 1), (4, 1)], 0),
                    ((3, 1), &[], 1),
                ],
            ),
            (
                "what a stream waited for that is aborted comes before nothing behind that",
                &[
                    Op((1, 1), &[]),
                    Op((2, 1), &[(1, 1)]),
                    Aborted((2, 1)),
                    Op((2, 2), &[]),
                    Joined((2, 2)),
                    Op((3, 1), &[(1, 1), (2, 2)]),
                ],
                &[((1, 1), &[], 0), ((2, 1), &[(1, 1)], 0), ((2, 2), &[], 1), ((3, 1), &[(1, 1)], 2)],
            ),
        ];
        for (what, steps, expected) in table {
            let expected: Vec<_> =
                expected.iter().map(|(op, clock, join)| (*op, clock.to_vec(), *join)).collect();
            assert_eq!(run(steps), expected, "{what}");
        }
    }

    #[test]
    fn what_a_join_takes_in_is_told() {
        let (mut order, mut ready) = (OpOrder::default(), vec![]);
        for (at, awaits) in
            [((1, 1), vec![]), ((2, 1), vec![Awaited::Point(point((1, 1)))]), ((2, 2), vec![])]
        {
            let op = SubmittedOp { point: point(at), awaits, ..Default::default() };
            order.submit(op, Resolution::NOT_LATE, &mut ready);
        }
        assert_eq!(order.join(point((2, 1))), (1, vec![point((2, 1)), point((1, 1))]));
        assert_eq!(order.join(point((2, 2))), (2, vec![point((2, 2))]), "the rest was joined before");
        assert!(order.is_all_known());
    }

    #[test]
    fn an_abort_takes_in_its_own_stream_alone() {
        let (mut order, mut ready) = (OpOrder::default(), vec![]);
        for (at, awaits) in [((1, 1), vec![]), ((2, 1), vec![Awaited::Point(point((1, 1)))])] {
            let op = SubmittedOp { point: point(at), awaits, ..Default::default() };
            order.submit(op, Resolution::NOT_LATE, &mut ready);
        }
        assert_eq!(order.abort(point((2, 1))), (1, vec![point((2, 1))]));
        assert_eq!(order.join(point((2, 1))), (2, vec![]), "then or later");
        assert_eq!(order.join(point((1, 1))), (3, vec![point((1, 1))]));
    }

    #[test]
    fn the_past_of_joined_ops_is_not_kept() {
        let (mut order, mut ready) = (OpOrder::default(), vec![]);
        for ticket in 1..=10_000 {
            let first = SubmittedOp { point: point((1, ticket)), ..Default::default() };
            order.submit(first, Resolution::NOT_LATE, &mut ready);
            let awaits = vec![Awaited::Point(point((1, ticket)))];
            let second = SubmittedOp { point: point((2, ticket)), awaits, ..Default::default() };
            order.submit(second, Resolution::NOT_LATE, &mut ready);
            order.join(point((2, ticket)));
            ready.clear();
        }
        assert!(order.streams.values().all(|own| own.history.len() <= 2));
    }
}
