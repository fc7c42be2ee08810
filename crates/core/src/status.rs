//! What a stream and its queue share: how far the work has come, and the first failure that was not reported
//! yet.

use crate::{
    Error, Fate, Halt, Kind, Observer, Observers, Plan, Point, Resolver, Rows, Ticket,
    fence::survives,
    observe::DeviceTime,
    sync::{Arc, AtomicBool, AtomicU64, CachePadded, Mutex, Ordering, Weak, lock},
};
use std::{mem, ops::RangeInclusive, sync::OnceLock};

/// Shared by a stream and its queue. A backend reports through this and through fences, and in no other way.
pub struct Status {
    stream: u64,
    /// On cache lines of its own: a worker writes it for every op, and submitting threads read the rest.
    passed: CachePadded<AtomicU64>,
    /// Whether `passed` is never behind.
    is_current: AtomicBool,
    failed: AtomicBool,
    first: Mutex<Option<(Ticket, Error)>>,
    /// The newest ticket that an abort dropped.
    dropped: AtomicU64,
    /// The newest such ticket that was reported.
    told: AtomicU64,
    halt: Option<Arc<Halt>>,
    /// Plans late-bound copies. It refers to the streams, so they do not keep it.
    resolver: Option<Weak<dyn Resolver>>,
    /// A failure of this stream stops all that share the halt.
    trips: AtomicBool,
    observers: Option<Arc<Observers>>,
    /// The ops that failed and have not passed, while there are observers.
    failures: Mutex<Vec<Ticket>>,
    /// Whether there are such.
    has_failures: AtomicBool,
    /// Ops that an abort came too late for and that have not passed, while there are observers.
    spared: Mutex<Vec<RangeInclusive<Ticket>>>,
    /// When ops ran that are about to pass, where a device says so.
    times: Mutex<Vec<(RangeInclusive<Ticket>, DeviceTime)>>,
    /// Whether there were such.
    has_times: AtomicBool,
    /// Told of every failure, as it happens.
    listener: OnceLock<Listener>,
    /// What queues of the stream run when it is stopped for good.
    halt_hooks: Mutex<Vec<HaltHook>>,
}

/// Has a queue drop what it has, since its stream is stopped for good.
pub type HaltHook = Box<dyn FnOnce() + Send>;

/// The number of a queue that belongs to no stream of a user's.
const NO_STREAM: u64 = u64::MAX;

/// Called for each failure with the op that failed, on a thread that has other work. It must be short.
pub type Listener = Box<dyn Fn(Ticket, &Error) + Send + Sync>;

impl Status {
    /// The status of a fresh stream; `observers` hear of every op that passes.
    pub fn new(stream: u64, observers: Option<Arc<Observers>>) -> Self {
        Status {
            stream,
            passed: CachePadded(AtomicU64::new(0)),
            is_current: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            first: Mutex::new(None),
            dropped: AtomicU64::new(0),
            told: AtomicU64::new(0),
            halt: None,
            resolver: None,
            trips: AtomicBool::new(false),
            observers,
            failures: Mutex::default(),
            has_failures: AtomicBool::new(false),
            spared: Mutex::default(),
            times: Mutex::default(),
            has_times: AtomicBool::new(false),
            listener: OnceLock::new(),
            halt_hooks: Mutex::new(Vec::new()),
        }
    }

    /// The status of a queue of no stream: so are its points.
    pub(crate) fn of_no_stream() -> Self {
        Status::new(NO_STREAM, None)
    }

    /// The status of a queue that does some work of this one's stream beside it.
    pub fn beside(&self) -> Self {
        Status { resolver: self.resolver.clone(), ..Status::of_no_stream() }
    }

    /// Has late-bound copies planned by `resolver`.
    pub fn resolving_with(mut self, resolver: Weak<dyn Resolver>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// What plans the late-bound copies of the queue. `None` where the runtime is gone, or there was none.
    pub fn resolver(&self) -> Option<Arc<dyn Resolver>> {
        self.resolver.as_ref()?.upgrade()
    }

    /// What a fence behind the op `ticket` stands for.
    pub fn point(&self, ticket: Ticket) -> Option<Point> {
        (self.stream != NO_STREAM).then_some(Point { stream: self.stream, ticket })
    }

    /// Has `hook` run, once, when the stream is stopped for good, on a thread that may be at work on any
    /// queue; at once if that has happened. The queue drops what it has then, and not only when what it waits
    /// for is done.
    pub fn on_halt(&self, hook: HaltHook) {
        lock(&self.halt_hooks).push(hook);
        // Asked behind the push: a halt that trips later finds the hook.
        if self.is_halted() {
            self.halted();
        }
    }

    /// The halt has tripped.
    pub(crate) fn halted(&self) {
        let hooks = mem::take(&mut *lock(&self.halt_hooks));
        hooks.into_iter().for_each(|hook| hook());
    }

    /// Has the stream stop when `halt` trips.
    pub fn under(mut self, halt: Arc<Halt>) -> Self {
        self.halt = Some(halt);
        self
    }

    /// The newest ticket known to be complete, with everything before it.
    pub fn passed(&self) -> Ticket {
        self.passed.load(Ordering::Acquire)
    }

    /// The queue reports each op as soon as it is complete: no fence knows more than
    /// [`passed`](Self::passed).
    pub fn keep_current(&self) {
        self.is_current.store(true, Ordering::Relaxed);
    }

    /// Whether `ticket` has passed, for bookkeeping that no program waits for; asks a fence by `ask` only
    /// where that may know more. Asking may let work run that is kept back until it is asked for.
    pub(crate) fn has_passed(&self, ticket: Ticket, ask: impl FnOnce() -> bool) -> bool {
        self.passed() >= ticket || !self.is_current.load(Ordering::Relaxed) && ask()
    }

    /// The queue reports that `ticket` and all before it are complete. What they wrote happens before every
    /// [`passed`](Self::passed) that returns this ticket or a later one.
    #[inline]
    pub fn pass(&self, ticket: Ticket) {
        if self.is_observed() {
            self.tell_passed(ticket);
        }
        self.passed.store(ticket, Ordering::Release);
    }

    /// Whether there are observers: only for them a backend takes times.
    #[inline]
    pub fn is_observed(&self) -> bool {
        self.observers.is_some()
    }

    /// Tells observers about the op that is next to pass, if there are any: that it begins, what it was found
    /// to do, that it takes long.
    #[inline]
    pub fn tell_next(&self, what: impl Fn(&dyn Observer, Point)) {
        if self.is_observed() {
            self.tell(self.passed() + 1, what);
        }
    }

    /// The op that is next to pass begins; `at_once` when the one before it has passed on this thread.
    #[inline]
    pub fn tell_begun(&self, at_once: bool) {
        if let Some(observers) = &self.observers
            && (!at_once || observers.wants_details())
        {
            self.tell_next(|observer, op| observer.begun(op, at_once));
        }
    }

    /// Tells observers about an op, if there are any.
    pub fn tell(&self, ticket: Ticket, what: impl Fn(&dyn Observer, Point)) {
        if let Some(observers) = &self.observers {
            let op = Point { stream: self.stream, ticket };
            observers.tell(|observer| what(observer, op));
        }
    }

    /// The addresses of the late-bound copy `ticket` were read, and it was planned: observers are told.
    pub fn tell_resolved(&self, ticket: Ticket, plan: &Plan) {
        self.tell(ticket, |observer, op| {
            let ends = |rows: Rows| (rows.dst, rows.src, rows.width * rows.height);
            plan.pieces().iter().for_each(|rows| observer.resolved(op, ends(rows)));
        });
    }

    /// The ops `first..=last`, which are about to pass, ran at this time, as the device says.
    pub fn note_time(&self, first: Ticket, last: Ticket, when: DeviceTime) {
        lock(&self.times).push((first..=last, when));
        self.has_times.store(true, Ordering::Release);
    }

    /// When an op that is about to pass ran, and those that were sent with it, if the device says so.
    fn take_time(&self, ticket: Ticket) -> Option<(RangeInclusive<Ticket>, DeviceTime)> {
        let mut times = lock(&self.times);
        let index = times.iter().position(|(ops, _)| ops.contains(&ticket))?;
        Some(times.remove(index))
    }

    #[cold]
    fn tell_passed(&self, ticket: Ticket) {
        let Some(observers) = &self.observers else { return };
        let has_times = self.has_times.load(Ordering::Acquire);
        let mut next = self.passed() + 1;
        while next <= ticket {
            let timed = if has_times { self.take_time(next) } else { None };
            let last = timed.as_ref().map_or(next, |(ops, _)| (*ops.end()).min(ticket));
            let when = timed.map(|(_, when)| when);
            match when.filter(|_| last > next && self.are_done(last)) {
                Some(when) => {
                    let last = Point { stream: self.stream, ticket: last };
                    observers.tell(|observer| observer.passed_together(next, last, when));
                }
                None => (next..=last).for_each(|done| {
                    let (op, fate) = (Point { stream: self.stream, ticket: done }, self.fate(done));
                    observers.tell(|observer| observer.passed(op, fate, when));
                }),
            }
            next = last + 1;
        }
    }

    /// Whether nothing up to the op has failed or was dropped, as far as it has not passed.
    fn are_done(&self, last: Ticket) -> bool {
        !self.has_failures.load(Ordering::Acquire) && !self.is_dropped(last)
    }

    /// What came of an op that is about to pass.
    fn fate(&self, ticket: Ticket) -> Fate {
        let has_failed = self.has_failures.load(Ordering::Acquire) && self.take_failure(ticket);
        match (has_failed, self.is_dropped(ticket) && !self.is_spared(ticket)) {
            (true, _) => Fate::Failed,
            (_, true) => Fate::Dropped,
            _ => Fate::Done,
        }
    }

    /// Whether an abort came too late for the op.
    #[cold]
    fn is_spared(&self, ticket: Ticket) -> bool {
        let mut spared = lock(&self.spared);
        spared.retain(|ops| *ops.end() >= ticket);
        spared.iter().any(|ops| ops.contains(&ticket))
    }

    /// Whether the op is among those that failed, which forget it.
    #[cold]
    fn take_failure(&self, ticket: Ticket) -> bool {
        let mut failures = lock(&self.failures);
        let count = failures.len();
        failures.retain(|failed| *failed != ticket);
        self.has_failures.store(!failures.is_empty(), Ordering::Release);
        failures.len() < count
    }

    /// The work that comes next failed while it ran.
    pub fn fail(&self, error: Error) {
        self.fail_at(self.passed() + 1, error);
    }

    /// The op `ticket` failed while it ran. The first failure since the last report is kept: later ones
    /// follow from it more often than not.
    pub fn fail_at(&self, ticket: Ticket, error: Error) {
        if self.is_observed() {
            lock(&self.failures).push(ticket);
            self.has_failures.store(true, Ordering::Release);
            self.tell(ticket, |observer, op| observer.failed(op, &error));
        }
        if let Some(listener) = self.listener.get() {
            survives(|| listener(ticket, &error));
        }
        if self.trips.load(Ordering::Relaxed)
            && let Some(halt) = &self.halt
        {
            halt.trip(&error);
        }
        let mut first = lock(&self.first);
        first.get_or_insert((ticket, error));
        self.failed.store(true, Ordering::Release);
    }

    /// Has `listener` told of every failure from here on. There is one, the first.
    pub fn listen(&self, listener: Listener) {
        drop(self.listener.set(listener));
    }

    /// Whether a failure waits to be reported.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// From here on a failure of this stream stops all streams that share its halt.
    pub fn stop_all_on_failure(&self) {
        self.trips.store(true, Ordering::Relaxed);
    }

    /// Stops this stream and all that share its halt, for good: they drop what they have, take nothing more,
    /// and tell `why` every time.
    pub fn stop_all(&self, why: Error) {
        match &self.halt {
            Some(halt) => halt.trip(&why),
            None => self.fail(why),
        }
    }

    /// Whether a failure of this stream stops all: then work behind an op that may fail does not begin before
    /// that is done.
    pub fn stops_all_on_failure(&self) -> bool {
        self.trips.load(Ordering::Relaxed)
    }

    /// Whether the stream has stopped for good: its queue drops what it has.
    #[inline]
    pub fn is_halted(&self) -> bool {
        self.halt.as_ref().is_some_and(|halt| halt.is_tripped())
    }

    /// The error with which a stream that has stopped refuses new work.
    #[inline]
    pub(crate) fn refusal(&self) -> Option<Error> {
        self.halt.as_ref().filter(|halt| halt.is_tripped())?.refusal()
    }

    /// An abort that is about to drop later ops comes too late for those before `first`: a device has them
    /// and
    /// does them, though nobody has seen them pass. Observers are told so.
    pub fn spare_before(&self, first: Ticket) {
        let next = self.passed() + 1;
        if self.is_observed() && next < first {
            lock(&self.spared).push(next..=first - 1);
        }
    }

    /// An abort drops the work up to `ticket`, as far as it has not passed. Called before the ticket passes.
    /// From here on the queue begins none of it.
    pub fn drop_through(&self, ticket: Ticket) {
        self.dropped.fetch_max(ticket, Ordering::AcqRel);
    }

    /// Whether the op `ticket` was dropped, or will be: by an abort, or because the stream has stopped for
    /// good.
    pub fn is_dropped(&self, ticket: Ticket) -> bool {
        self.is_aborted(ticket) || self.is_halted()
    }

    /// Whether an abort has dropped the op `ticket`, or will.
    #[inline]
    pub fn is_aborted(&self, ticket: Ticket) -> bool {
        self.dropped.load(Ordering::Acquire) >= ticket
    }

    /// Why work behind `ticket` was, or may have been, dropped: by an abort, which every waiter of that time
    /// is told, or by what stopped the stream for good.
    pub(crate) fn dropped_behind(&self, ticket: Ticket) -> Option<Error> {
        let dropped = self.dropped.load(Ordering::Acquire);
        if dropped > ticket {
            return Some(self.tell_abort(dropped));
        }
        self.stopped_by()
    }

    fn stopped_by(&self) -> Option<Error> {
        self.halt.as_ref().and_then(|halt| halt.why())
    }

    fn tell_abort(&self, dropped: Ticket) -> Error {
        self.told.fetch_max(dropped, Ordering::AcqRel);
        Kind::Aborted.because("the stream was aborted before its work was done")
    }

    /// Takes what was not reported yet: an abort, or the first failure, once. What stopped the stream for
    /// good is returned every time.
    pub fn take_error(&self) -> Option<Error> {
        if let Some(why) = self.stopped_by() {
            return Some(why);
        }
        let dropped = self.dropped.load(Ordering::Acquire);
        if dropped > self.told.load(Ordering::Acquire) {
            return Some(self.tell_abort(dropped));
        }
        if !self.has_failed() {
            return None;
        }
        let mut first = lock(&self.first);
        self.failed.store(false, Ordering::Release);
        first.take().map(|(_, error)| error)
    }

    /// The error of the work `from..=upto`, all of which has passed: it was dropped, or it failed, or work
    /// before it failed and that was not reported yet. The failure stays to be taken by
    /// [`take_error`](Self::take_error).
    pub fn error_within(&self, from: Ticket, upto: Ticket) -> Option<Error> {
        if let Some(why) = self.dropped_behind(from.saturating_sub(1)) {
            return Some(why);
        }
        if !self.has_failed() {
            return None;
        }
        lock(&self.first).as_ref().filter(|(at, _)| *at <= upto).map(|(_, error)| error.clone())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn the_first_failure_is_reported_once() {
        let status = Status::new(0, None);
        assert_eq!(status.take_error(), None);
        status.fail(Kind::BadDescriptor.because("first"));
        status.fail(Kind::BadAddress.because("second"));
        assert_eq!(status.take_error().map(|e| e.note.to_string()), Some("first".into()));
        assert_eq!(status.take_error(), None, "reported once");
    }

    #[test]
    fn observers_hear_of_each_failure_when_it_happens() {
        #[derive(Default)]
        struct Failures(Mutex<Vec<String>>);
        impl Observer for Failures {
            fn failed(&self, op: Point, why: &Error) {
                lock(&self.0).push(format!("{} of stream {}: {why}", op.ticket, op.stream));
            }
            fn passed(&self, op: Point, fate: Fate, _: Option<DeviceTime>) {
                lock(&self.0).push(format!("{}: {fate:?}", op.ticket));
            }
        }
        let failures = Arc::new(Failures::default());
        let status = Status::new(7, Observers::new(vec![failures.clone()]));
        status.fail(Kind::BadDescriptor.because("first"));
        status.fail_at(3, Kind::BadAddress.because("second"));
        status.pass(3);
        let told = ["1 of stream 7: first", "3 of stream 7: second", "1: Failed", "2: Done", "3: Failed"];
        assert_eq!(*lock(&failures.0), told);
    }

    #[test]
    fn an_abort_is_told_to_all_who_waited_or_else_once() {
        let status = Status::new(0, None);
        let kind = |error: Option<Error>| error.map(|error| error.kind);
        status.pass(3);
        status.drop_through(5);
        status.pass(5);
        assert_eq!(kind(status.take_error()), Some(Kind::Aborted));
        assert_eq!(kind(status.take_error()), None, "told");
        assert_eq!(kind(status.dropped_behind(3)), Some(Kind::Aborted));
        assert_eq!(kind(status.dropped_behind(4)), Some(Kind::Aborted));
        assert_eq!(kind(status.dropped_behind(5)), None, "began to wait afterwards");
        status.drop_through(7);
        assert_eq!(kind(status.dropped_behind(6)), Some(Kind::Aborted));
        assert_eq!(kind(status.take_error()), None, "who waited was told");
    }

    #[test]
    fn what_an_abort_comes_too_late_for_was_done() {
        #[derive(Default)]
        struct Fates(Mutex<Vec<(Ticket, Fate)>>);
        impl Observer for Fates {
            fn passed(&self, op: Point, fate: Fate, _: Option<DeviceTime>) {
                lock(&self.0).push((op.ticket, fate));
            }
        }
        let fates = Arc::new(Fates::default());
        let status = Status::new(0, Observers::new(vec![fates.clone()]));
        status.pass(1);
        status.spare_before(4);
        status.drop_through(5);
        status.pass(6);
        let told = lock(&fates.0).clone();
        let dropped = told.iter().filter(|(_, fate)| *fate == Fate::Dropped).map(|(op, _)| *op);
        assert_eq!((told.len(), dropped.collect::<Vec<_>>()), (6, vec![4, 5]));
    }

    #[test]
    fn who_waits_for_some_work_hears_of_failures_up_to_it() {
        let status = Status::new(0, None);
        status.pass(9);
        status.fail_at(4, Kind::BadDescriptor.because("the fourth"));
        let note = |error: Option<Error>| error.map(|error| error.note.to_string());
        assert_eq!(note(status.error_within(1, 3)), None, "before it");
        assert_eq!(note(status.error_within(4, 4)), Some("the fourth".into()));
        assert_eq!(note(status.error_within(6, 6)), Some("the fourth".into()), "nobody was told");
        assert_eq!(note(status.take_error()), Some("the fourth".into()), "still to be told");
        assert_eq!(note(status.error_within(6, 6)), None);
        status.drop_through(8);
        assert_eq!(status.error_within(9, 9), None);
        assert_eq!(status.error_within(8, 9).map(|error| error.kind), Some(Kind::Aborted));
    }

    #[test]
    fn streams_are_stopped_from_outside() {
        let halt = Halt::new();
        let [first, second] = [1, 2].map(|stream| Status::new(stream, None).under(halt.clone()));
        first.stop_all(Kind::Native(7).because("from outside"));
        for status in [&first, &second, &first] {
            assert_eq!(status.take_error().map(|error| error.kind), Some(Kind::Native(7)));
            assert_eq!(status.refusal().map(|error| error.kind), Some(Kind::Native(7)));
        }
    }

    #[test]
    fn a_hook_runs_once_before_and_after_the_halt() {
        let (halt, runs) = (Halt::new(), Arc::new(AtomicU64::new(0)));
        let hook = || {
            let runs = runs.clone();
            Box::new(move || {
                runs.fetch_add(1, Ordering::Relaxed);
            }) as HaltHook
        };
        let [known, late] = [1, 2].map(|stream| Arc::new(Status::new(stream, None).under(halt.clone())));
        halt.add(&known);
        known.on_halt(hook());
        late.on_halt(hook());
        assert_eq!(runs.load(Ordering::Relaxed), 0);
        known.stop_all(Kind::Device.because("the one"));
        assert_eq!(runs.load(Ordering::Relaxed), 1, "the halt does not know the other");
        halt.add(&late);
        assert_eq!(runs.load(Ordering::Relaxed), 2, "a stream that was being made");
        known.on_halt(hook());
        assert_eq!(runs.load(Ordering::Relaxed), 3, "at once");
    }

    #[test]
    fn what_stopped_all_is_told_every_time() {
        let halt = Halt::new();
        let [first, second] = [1, 2].map(|stream| Status::new(stream, None).under(halt.clone()));
        first.fail(Kind::BadAddress.because("before it counted"));
        first.stop_all_on_failure();
        assert!(!second.is_halted());
        second.fail(Kind::Device.because("its own"));
        first.fail(Kind::BadDescriptor.because("the one"));
        first.fail(Kind::BadAddress.because("later"));
        for status in [&first, &first, &second] {
            assert_eq!(status.take_error().map(|error| error.note.to_string()), Some("the one".into()));
            let refusal = status.refusal().expect("takes nothing more");
            assert_eq!(refusal.kind, Kind::BadDescriptor);
            assert!(refusal.note.contains("the one"));
        }
    }
}
