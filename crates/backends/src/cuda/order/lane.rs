//! The order of the ops of one queue, which go into one CUDA stream.
//!
//! What the GPU can do by itself goes straight into the stream. What the host has to do in between (a
//! function of the user's, a copy of pageable memory, a wait for a fence that is not in a stream) never
//! blocks the stream, since streams share a few hardware channels and a blocked one would block its
//! neighbours: the lane is *blocked* instead. Later ops wait in a backlog here, and the thread that did the
//! host's part carries on with them.
//!
//! Failures of the work, ops that the driver refuses among them, are reported when a fence behind them is
//! found done.

use crate::cuda::{
    driver::Current,
    order::backlog::{Backlog, HostPart, Item, PointPlace},
    order::congestion::Congestion,
    order::fence::{CudaFence, StreamPoint},
    order::progress::StreamProgress,
    order::tail::Tail,
    order::task::{BacklogEnd, DescriptorLauncher, LaunchTurn, Next, Task, WaitingWork},
    order::timing::OpenSpan,
    order::window::Window,
    stream::{Stream, events::Event},
};
use crate::{
    litter::drop_each,
    pool::{Job, ThreadReservation},
};
use ferry_core::{
    Fence, Result, Status, Ticket,
    sync::{Arc, CachePadded, Mutex, MutexGuard, lock, spin_loop},
};
use std::{cell::Cell, sync::TryLockError};

/// How often the lock is tried before the thread sleeps: a launch takes some microseconds, and to be woken
/// takes more.
const LOCK_TRIES: u32 = 200;

/// The order of one queue.
pub struct Lane {
    /// The stream, and how far it has come.
    pub progress: Arc<StreamProgress>,
    /// The events of other streams that this one waits for.
    pub congestion: Congestion,
    /// Where small copies are taken in without the lock below. They come before everything that is submitted
    /// later, so they are taken out first whenever anything else is put into the stream; the tickets of all
    /// ops are counted there.
    pub window: Window,
    /// Launches runs of copies through descriptors.
    pub descriptors: Arc<dyn DescriptorLauncher>,
    /// The thread that has this lock may put things into the stream.
    state: CachePadded<Mutex<OrderState>>,
}

struct OrderState {
    backlog: Backlog<WaitingWork, Arc<StreamPoint>>,
    tail: Tail,
    /// The newest op that was launched. One that is tried again may have part of its work in the stream.
    begun: Ticket,
    /// Stands before what the part that has begun puts into the stream, unless everything before it has
    /// passed.
    before: Option<Arc<Event>>,
    /// When the part that has begun did so, while somebody watches.
    part: Option<OpenSpan>,
}

impl Lane {
    /// An empty lane, whose next op has the ticket after `last`.
    pub fn new(
        progress: Arc<StreamProgress>,
        descriptors: Arc<dyn DescriptorLauncher>,
        last: Ticket,
    ) -> Arc<Lane> {
        let (backlog, tail) = (Backlog::after(last), Tail::default());
        let state = OrderState { backlog, tail, begun: last, before: None, part: None };
        let lane = Lane {
            progress,
            congestion: Congestion::default(),
            window: Window::after(last),
            descriptors,
            state: CachePadded(Mutex::new(state)),
        };
        lane.open_window(true);
        Arc::new(lane)
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.progress.stream
    }

    /// The newest ticket that has left the window.
    pub fn last(&self) -> Ticket {
        lock(&self.state).backlog.last()
    }

    /// Submits an op, behind everything that was taken in before.
    #[inline(never)]
    pub fn submit(self: &Arc<Self>, task: impl Task) -> Ticket {
        self.submit_into(&mut self.lock(), task)
    }

    /// Submits ops of which an abort finds all or none.
    pub fn submit_together(self: &Arc<Self>, tasks: impl IntoIterator<Item = impl Task>) {
        let mut state = self.lock();
        for task in tasks {
            self.submit_into(&mut state, task);
        }
    }

    /// Sends what was taken in.
    pub fn flush(self: &Arc<Self>) {
        self.let_go(&mut self.lock());
    }

    /// As [`flush`](Self::flush), unless another thread has the stream now. How many bytes were sent.
    pub fn try_flush(self: &Arc<Self>) -> usize {
        self.try_lock().map_or(0, |mut state| self.let_go(&mut state))
    }

    /// Drops what was taken in, the backlog, and the wait that blocks the lane if one does. What is in the
    /// CUDA stream already cannot be taken back: it runs to its end. Returns the newest ticket, and the ops:
    /// dropping those may run code of the user's.
    pub fn drop_backlog(&self, is_abort: bool) -> (Ticket, Vec<WaitingWork>) {
        let mut state = lock(&self.state);
        let mut dropped = state.backlog.abort();
        if let Some(run) = self.window.take() {
            state.backlog.reach(run.last());
            dropped.first.get_or_insert(run.first());
            dropped.newest = Some(run.last());
            dropped.work.push(WaitingWork::Run(run));
        }
        if let Some(ticket) = dropped.newest.filter(|_| is_abort) {
            dropped.first.into_iter().for_each(|first| self.progress.status.spare_before(first));
            self.progress.status.drop_through(ticket);
        }
        self.open_window(!state.backlog.is_blocked());
        let last = state.backlog.last();
        drop(state);
        dropped.points.iter().for_each(|point| point.lose());
        (last, dropped.work)
    }

    /// Drops what has not begun, and returns when nothing of what came before moves a byte any more.
    pub fn abort(self: &Arc<Self>) {
        let (last, dropped) = self.drop_backlog(true);
        // What the GPU or a thread of the pool is still at comes before this point, and what is submitted
        // from now on does not. Once it is done the lost points are, too.
        let _ = CudaFence(self.point_after(last)).wait(None);
        drop_each(dropped);
    }

    /// Has the lane drop its backlog when the stream of this status is stopped for good.
    pub fn drop_when_halted(self: &Arc<Self>, status: &Status) {
        let lane = Arc::downgrade(self);
        status.on_halt(Box::new(move || {
            let Some(lane) = lane.upgrade() else { return };
            let pool = lane.stream().device().pool.clone();
            // On another thread: the one that found the failure may hold the lock of this lane. Where there
            // is none to be had the ops are dropped one by one as the lane comes to them.
            let _ = pool.run(Box::new(move || drop_each(lane.drop_backlog(false).1)));
        }));
    }

    /// Drops a function of the user's that will not run, on another thread: its destructor may want this
    /// lane, which is locked.
    pub fn discard(&self, function: Option<Job>) {
        let device = self.stream().device();
        device.litter.add(function, |job| device.pool.run(job).is_ok());
    }
}

/// Points of the lane.
impl Lane {
    /// A point behind everything so far.
    pub fn point(self: &Arc<Self>) -> Arc<StreamPoint> {
        let mut state = self.lock();
        self.let_go(&mut state);
        let last = state.backlog.last();
        let point = StreamPoint::new(&self.progress, last, false);
        if state.backlog.place(last) == PointPlace::Waits {
            state.backlog.add_point(last, point.clone());
        } else if let Some(why) = self.stream().device().lost() {
            // Reported every time, and there is nothing to wait for.
            self.progress.fail(last, why.clone());
            self.progress.pass(last);
        } else if self.progress.passed() < last {
            state.tail.put_at_end(&self.progress, last, &point);
        }
        point
    }

    /// A point behind all work so far, with a ticket of its own, which remembers when it was reached.
    pub fn mark(self: &Arc<Self>) -> Result<Arc<StreamPoint>> {
        let mut state = self.lock();
        self.let_go(&mut state);
        let last = state.backlog.last();
        let (point, ticket) = (StreamPoint::new(&self.progress, last + 1, true), last + 1);
        if !state.backlog.is_blocked()
            && let Some(thread) = self.thread_if_full()
        {
            self.block_while_full(&mut state, ticket, thread);
        }
        if state.backlog.is_blocked_by(ticket) || state.backlog.place(last) == PointPlace::Waits {
            state.backlog.add_point(ticket, point.clone());
        } else {
            state.tail.record(&self.progress, ticket, &point)?;
        }
        state.backlog.reach(self.window.count());
        point.watch_failures();
        Ok(point)
    }

    /// A point for work that was submitted before. It waits for nothing that the host has to do later.
    pub fn point_after(self: &Arc<Self>, ticket: Ticket) -> Arc<StreamPoint> {
        let point = StreamPoint::new(&self.progress, ticket, false);
        if self.progress.passed() >= ticket {
            return point;
        }
        let mut state = self.lock();
        if ticket > state.backlog.last() {
            self.let_go(&mut state);
        }
        match state.backlog.place(ticket) {
            PointPlace::Waits => state.backlog.add_point(ticket, point.clone()),
            PointPlace::BeforePart => match &state.before {
                Some(event) => point.put_at(event.clone()),
                None => point.lose(),
            },
            PointPlace::End(_) => {
                let last = state.backlog.last();
                state.tail.put_at_end(&self.progress, last, &point);
            }
        }
        point
    }

    /// A point behind everything in the stream, by whatever library it was put there.
    pub fn end(self: &Arc<Self>) -> Result<Arc<StreamPoint>> {
        let state = self.lock();
        let last = state.backlog.last();
        if self.stream().is_idle()? {
            self.progress.pass(last);
            return Ok(StreamPoint::new(&self.progress, last, false));
        }
        Ok(StreamPoint::whole(&self.progress, last, self.progress.record()?))
    }

    /// As [`end`](Self::end), but nothing is reported as passed before the point is asked.
    pub fn end_unreported(self: &Arc<Self>) -> Result<Arc<StreamPoint>> {
        let state = self.lock();
        Ok(StreamPoint::whole(&self.progress, state.backlog.last(), self.progress.record()?))
    }

    /// Whether the lane has nothing left to do, as far as can be told without blocking.
    pub fn is_idle(&self) -> bool {
        let Some(state) = self.try_lock() else { return false };
        let is_idle = !state.backlog.is_blocked() && matches!(self.stream().is_idle(), Ok(true));
        if is_idle {
            self.progress.pass(state.backlog.last());
        }
        is_idle
    }
}

/// Getting ops under way.
impl Lane {
    /// The state, for a caller that cares how long it takes.
    fn lock(&self) -> MutexGuard<'_, OrderState> {
        for _ in 0..LOCK_TRIES {
            if let Some(state) = self.try_lock() {
                return state;
            }
            spin_loop();
        }
        lock(&self.state)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, OrderState>> {
        match self.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Whether small copies are taken in from now on: not while the lane is blocked.
    fn open_window(&self, is_open: bool) {
        self.window.set_open(is_open && self.stream().kind().may_coalesce());
    }

    fn submit_into(self: &Arc<Self>, state: &mut OrderState, task: impl Task) -> Ticket {
        self.let_go(state);
        let ticket = self.window.count();
        state.backlog.reach(ticket);
        self.put(state, ticket, task);
        ticket
    }

    /// Puts what was taken in into the stream, or into the backlog of a lane that is blocked. How many bytes
    /// these are.
    fn let_go(self: &Arc<Self>, state: &mut OrderState) -> usize {
        let Some(run) = self.window.take() else { return 0 };
        let bytes = run.bytes();
        state.backlog.reach(run.last());
        self.put(state, run.first(), run);
        bytes
    }

    /// Puts the newest work into the stream, or into the backlog.
    fn put<T: Task>(self: &Arc<Self>, state: &mut OrderState, ticket: Ticket, task: T) {
        if !state.backlog.is_blocked()
            && let Some(thread) = self.thread_if_full()
        {
            self.block_while_full(state, ticket, thread);
        }
        if state.backlog.is_blocked() {
            let (progress, before) = (&*self.progress, state.backlog.newest());
            if let Some(work) = task.park(BacklogEnd { progress, ticket, before }) {
                state.backlog.keep(work);
            }
            return;
        }
        match self.launch(state, ticket, task, false) {
            Next::Follows => {}
            Next::Blocked(part) => {
                debug_assert!(
                    self.stream().kind().may_hold_back(),
                    "work of others would overtake op {ticket}"
                );
                state.backlog.block(ticket, part);
                self.open_window(false);
            }
            Next::Full(rest, thread) => {
                self.block_while_full(state, ticket, thread);
                state.backlog.again(ticket, rest);
            }
            Next::Instead(_) => unreachable!("only what has waited changes"),
        }
    }

    fn launch<T: Task>(
        self: &Arc<Self>,
        state: &mut OrderState,
        ticket: Ticket,
        task: T,
        has_waited: bool,
    ) -> Next {
        state.tail.move_on(&self.progress, ticket - 1);
        if ticket > state.begun && self.progress.passed() + 1 >= ticket {
            self.stream().found_empty();
        }
        state.begun = state.begun.max(ticket);
        if self.progress.status.is_dropped(ticket) {
            self.discard(task.into_function());
            return Next::Follows;
        }
        let next = match self.stream().device().enter() {
            Ok(current) => {
                let (Lane { progress, .. }, last) = (&**self, ticket + task.more());
                let span = progress.timings.open(&progress.status, &progress.stream, &current);
                let (lane, current) = (self, &current);
                let turn = LaunchTurn { lane, current, ticket, has_waited, span: Cell::new(span) };
                progress.launch();
                let next = task.launch(&turn);
                if let (Some(span), Ok(Next::Follows) | Err(_)) = (turn.span.take(), &next) {
                    progress.timings.close(span, (ticket, last), &progress.stream, current);
                }
                let is_waited_for = progress.stream.is_waited_for() && progress.passed() < last;
                if is_waited_for && matches!(next, Ok(Next::Follows)) {
                    // Here, where the context is current.
                    progress.stream.ring_behind(current);
                }
                next
            }
            Err(why) => {
                self.discard(task.into_function());
                Err(why)
            }
        };
        next.unwrap_or_else(|error| {
            self.progress.fail(ticket, error);
            Next::Follows
        })
    }

    /// Counts one more launch. If the stream takes no more of them now: a thread that goes on when it does. A
    /// stream that other libraries use takes all, since nothing may be kept back there.
    pub fn thread_if_full(&self) -> Option<ThreadReservation> {
        if !self.stream().kind().may_hold_back() || !self.congestion.is_full() {
            return None;
        }
        // Without a thread that goes on later nothing may be kept back either.
        self.stream().device().pool.reserve().ok()
    }

    /// Blocks the lane before the op `ticket`, until the stream has passed everything that is in it. Then the
    /// thread goes on.
    fn block_while_full(self: &Arc<Self>, state: &mut OrderState, ticket: Ticket, thread: ThreadReservation) {
        state.backlog.block(ticket, HostPart::Wait);
        self.open_window(false);
        let point = StreamPoint::new(&self.progress, ticket - 1, false);
        let recorded = state.tail.record(&self.progress, ticket - 1, &point);
        self.progress.note(ticket - 1, recorded);
        let lane = self.clone();
        point.when_done(Box::new(move || thread.run(Box::new(move || lane.resume(ticket)))));
    }

    /// The host is about to do its part of op `ticket`, which may use the stream. False if that was dropped
    /// before.
    pub fn begin(&self, ticket: Ticket) -> bool {
        let mut state = lock(&self.state);
        let is_wanted = !self.progress.status.is_dropped(ticket) && state.backlog.begin(ticket);
        state.tail.pin(&self.progress);
        let before = ticket - 1;
        let needs_event = is_wanted && self.progress.passed() < before;
        let event = needs_event.then(|| state.tail.event(&self.progress, before, before, false));
        state.before = event.and_then(Result::ok);
        state.part = if is_wanted { self.open_span() } else { None };
        is_wanted
    }

    /// Whether all that comes before the op `ticket` is known to be done: ops, and what this one has put into
    /// the stream already, such as waits for other streams.
    pub fn is_reached(&self, ticket: Ticket) -> bool {
        self.progress.passed() + 1 >= ticket && self.stream().is_known_empty()
    }

    /// Blocks until all that comes before the op `ticket` is done.
    pub fn wait_before(&self, ticket: Ticket, current: &Current<'_>) -> Result<()> {
        if self.is_reached(ticket) {
            return Ok(());
        }
        self.stream().synchronize_in(current, "the GPU's work")
    }

    /// The work that the op `ticket` blocked the lane for has come back: it is tried again before all else.
    pub fn retry(self: &Arc<Self>, ticket: Ticket, work: Option<WaitingWork>) {
        let mut state = lock(&self.state);
        if !state.backlog.is_blocked_by(ticket) {
            return;
        }
        if let Some(work) = work {
            state.backlog.again(ticket, work);
        }
        drop(state);
        self.resume(ticket);
    }

    /// The host's part of op `ticket` is done: carries on with the backlog, up to the next part for the host.
    /// No effect on a lane that an abort has let go of.
    pub fn resume(self: &Arc<Self>, ticket: Ticket) {
        let mut state = self.lock();
        if !state.backlog.is_blocked_by(ticket) {
            return;
        }
        // The part may have put anything into the stream.
        self.stream().forget_last_kernel();
        let mut next = state.backlog.next();
        if !next.as_ref().is_some_and(|item| is_work_of(ticket, item)) {
            self.close_part(&mut state, ticket);
        }
        while let Some(item) = next {
            match item {
                Item::Lost(_, point) => point.lose(),
                Item::Point(_, point) if self.progress.status.is_halted() => point.lose(),
                Item::Point(ticket, point) => {
                    let recorded = state.tail.record(&self.progress, ticket, &point);
                    self.progress.note(ticket, recorded);
                }
                Item::Work(ticket, work) => {
                    if !self.go_on(&mut state, ticket, work) {
                        return;
                    }
                }
            }
            next = state.backlog.next();
        }
        self.open_window(true);
    }

    /// Something comes into the stream, while somebody watches.
    fn open_span(&self) -> Option<OpenSpan> {
        let StreamProgress { timings, status, stream, .. } = &*self.progress;
        if !status.is_observed() {
            return None;
        }
        timings.open(status, stream, &stream.device().enter().ok()?)
    }

    /// The op that blocked the lane is in the stream with all that the host did for it.
    fn close_part(&self, state: &mut OrderState, ticket: Ticket) {
        let begun = state.part.take();
        let StreamProgress { timings, stream, .. } = &*self.progress;
        if self.progress.passed() < ticket
            && let Some(span) = begun.or_else(|| self.open_span())
            && let Ok(current) = stream.device().enter()
        {
            timings.close(span, (ticket, ticket), stream, &current);
        }
    }

    /// Puts work of the backlog into the stream. False if the lane is blocked by it.
    fn go_on(self: &Arc<Self>, state: &mut OrderState, ticket: Ticket, work: WaitingWork) -> bool {
        let next = match self.thread_if_full() {
            Some(thread) => Next::Full(work, thread),
            None => self.launch(state, ticket, work, true),
        };
        match next {
            Next::Follows => return true,
            Next::Blocked(part) => state.backlog.block(ticket, part),
            Next::Full(rest, thread) => {
                self.block_while_full(state, ticket, thread);
                state.backlog.again(ticket, rest);
            }
            Next::Instead(work) => {
                work.into_iter().rev().for_each(|(ticket, work)| state.backlog.again(ticket, work));
                return true;
            }
        }
        false
    }
}

/// Whether the op `ticket` itself comes next, which the lane was blocked before.
fn is_work_of(ticket: Ticket, item: &Item<WaitingWork, Arc<StreamPoint>>) -> bool {
    match item {
        Item::Work(next, _) => *next == ticket,
        Item::Point(next, point) | Item::Lost(next, point) => *next == ticket && point.is_timed(),
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.progress.close(lock(&self.state).backlog.last());
    }
}
