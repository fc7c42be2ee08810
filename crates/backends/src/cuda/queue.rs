//! A queue over a CUDA stream.
//!
//! What the GPU can do by itself goes straight into the stream. What the host has to do in between (a user's function, a
//! copy of pageable memory, a wait for somebody else's fence) never blocks the stream, since streams share a few hardware
//! channels and a blocked one would block its neighbours: the lane is *held* instead. Later ops wait in a backlog here, and
//! whoever did the host's part carries on with them.
//!
//! Failures of the work, the driver refusing an op among them, are told when a fence behind it is found done.

use super::{
    backlog::{Backlog, Item, Part, Place},
    device::{Device, Event},
    driver::{self, Handle},
    fence::{CudaFence, Point},
    host,
    ledger::Ledger,
    reports::Reports,
};
use ferry_core::{
    Error, Fence, Op, Queue, QueueOptions, Result, Route, Status, Ticket,
    indirect::Through,
    sync::{Arc, Mutex, lock},
};
use std::sync::OnceLock;

/// What a queue and its fences share.
pub struct Lane {
    pub device: Arc<Device>,
    pub status: Arc<Status>,
    pub stream: Handle,
    waited: bool,
    pub(super) state: Mutex<State>,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) reports: OnceLock<Reports>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) backlog: Backlog<Op, Arc<Point>>,
    /// The newest event in the stream that is known, and the op it stands behind.
    tail: Option<(Ticket, Arc<Event>)>,
    /// Stands before what the part that has begun puts into the stream, unless everything before it has passed.
    before: Option<Arc<Event>>,
}

/// Whether the next op may follow at once.
pub(super) enum Next {
    Follows,
    /// Somebody will call [`Lane::resume`].
    IsHeld(Part),
}

impl Lane {
    /// A lane with a stream of its own.
    pub fn new(device: Arc<Device>, options: QueueOptions, status: Arc<Status>) -> Result<Lane> {
        let mut stream = 0;
        let here = device.enter()?;
        // SAFETY: the context is current and `stream` receives the stream.
        let code = unsafe { (device.driver.calls.cuStreamCreate)(&mut stream, driver::STREAM_NON_BLOCKING) };
        device.check("cuStreamCreate", code)?;
        drop(here);
        let (state, ledger) = (Mutex::default(), Mutex::default());
        Ok(Lane { device, status, stream, waited: options.waited, state, ledger, reports: OnceLock::new() })
    }

    fn push(self: &Arc<Self>, op: Op) -> Ticket {
        let mut state = lock(&self.state);
        let ticket = state.backlog.count();
        if let Some(op) = state.backlog.keep(op)
            && let Next::IsHeld(part) = self.launch(ticket, op)
        {
            state.backlog.hold(ticket, part);
        }
        ticket
    }

    /// A point behind everything so far.
    fn point(self: &Arc<Self>, timed: bool) -> Result<Arc<Point>> {
        let mut state = lock(&self.state);
        let last = state.backlog.last();
        let point = Point::new(self.clone(), last + Ticket::from(timed), timed);
        if state.backlog.place(last) == Place::Waits {
            state.backlog.wait(point.ticket(), point.clone());
        } else if timed || !self.has_come_to(&state, last) {
            self.record(&mut state, point.ticket(), &point)?;
        }
        if timed {
            state.backlog.count();
            lock(&self.ledger).mark(&point);
        }
        Ok(point)
    }

    /// A point for work that was submitted before. It waits for nothing that the host has to do later.
    fn point_after(self: &Arc<Self>, ticket: Ticket) -> Arc<Point> {
        let point = Point::new(self.clone(), ticket, false);
        if self.status.passed() >= ticket {
            return point;
        }
        let mut state = lock(&self.state);
        match state.backlog.place(ticket) {
            Place::Waits => state.backlog.wait(ticket, point.clone()),
            Place::BeforePart => match &state.before {
                Some(event) => point.put_at(event.clone()),
                None => point.lose(),
            },
            Place::End(at) if self.has_come_to(&state, at) => {}
            // Refused an event, it is done when the stream is seen to be empty.
            Place::End(at) => drop(self.record(&mut state, at, &point)),
        }
        point
    }

    /// Whether the stream is seen to have passed the op `at`, behind which it ends. An event recorded now would not be reached at
    /// once even in an empty stream, and whoever asks would be told that there is work left.
    fn has_come_to(&self, state: &State, at: Ticket) -> bool {
        let seen = match &state.tail {
            _ if self.status.passed() >= at => return true,
            Some((ticket, event)) if *ticket >= at => event.is_reached(),
            _ => self.is_empty(),
        };
        if seen == Ok(true) {
            self.settle(at);
        }
        seen == Ok(true)
    }

    /// Puts a point into the stream, which ends behind the op `at`.
    fn record(&self, state: &mut State, at: Ticket, point: &Point) -> Result<()> {
        point.put(self.event(state, at, point.ticket(), point.is_timed()))
    }

    /// An event behind the op `ticket` in the stream, which ends behind the op `at`: the newest one if that will do.
    fn event(&self, state: &mut State, at: Ticket, ticket: Ticket, timed: bool) -> Result<Arc<Event>> {
        if let Some((_, event)) = state.tail.as_ref().filter(|(tail, _)| *tail >= ticket) {
            return Ok(event.clone());
        }
        let _here = self.device.enter()?;
        let event = Event::record(&self.device, self.stream, timed)?;
        state.tail = Some((at, event.clone()));
        Ok(event)
    }

    /// The host is about to do its part of op `ticket`, which may use the stream. False if that was dropped before it began.
    pub(super) fn begin(&self, ticket: Ticket) -> bool {
        let mut state = lock(&self.state);
        let is_wanted = !self.status.is_halted() && state.backlog.begin(ticket);
        let before = ticket - 1;
        let needs_event = is_wanted && self.status.passed() < before;
        state.before = if needs_event { self.event(&mut state, before, before, false).ok() } else { None };
        is_wanted
    }

    /// The host's part of op `ticket` is done: carries on with the backlog, up to the next part for the host. Says nothing to a
    /// lane that an abort has let go of.
    pub(super) fn resume(self: &Arc<Self>, ticket: Ticket) {
        let mut state = lock(&self.state);
        if !state.backlog.is_held_by(ticket) {
            return;
        }
        while let Some(item) = state.backlog.next() {
            match item {
                Item::Lost(_, point) => point.lose(),
                Item::Point(_, point) if self.status.is_halted() => point.lose(),
                Item::Point(ticket, point) => {
                    let recorded = self.record(&mut state, ticket, &point);
                    self.note(ticket, recorded);
                }
                Item::Work(ticket, op) => {
                    if let Next::IsHeld(part) = self.launch(ticket, op) {
                        state.backlog.hold(ticket, part);
                        return;
                    }
                }
            }
        }
    }

    /// Drops the backlog, and the wait that holds the lane if one does. What is in the CUDA stream already cannot be taken back:
    /// it runs to its end. Returns the newest ticket, and the ops: dropping those may run code of the user's.
    fn drop_backlog(&self, is_abort: bool) -> (Ticket, Vec<Op>) {
        let mut state = lock(&self.state);
        let dropped = state.backlog.abort();
        if let Some(ticket) = dropped.newest.filter(|_| is_abort) {
            self.status.drop_through(ticket);
        }
        let last = state.backlog.last();
        drop(state);
        dropped.points.iter().for_each(|point| point.lose());
        (last, dropped.work)
    }

    /// Drops the backlog, and returns when nothing of what came before moves a byte any more.
    fn abort(self: &Arc<Self>) {
        let (last, dropped) = self.drop_backlog(true);
        // What the GPU or a worker is still at comes before this point, and what is submitted from now on does not. Once it is
        // done the lost points are, too.
        let _ = CudaFence(self.point_after(last)).wait(None);
        drop(dropped);
    }

    /// Whether nothing is in the stream.
    pub fn is_empty(&self) -> Result<bool> {
        let _here = self.device.enter()?;
        // SAFETY: the stream is alive.
        match unsafe { (self.device.driver.calls.cuStreamQuery)(self.stream) } {
            driver::NOT_READY => Ok(false),
            code => self.device.check("the GPU's work", code).map(|()| true),
        }
    }

    /// The op `ticket` failed.
    pub fn fail(&self, ticket: Ticket, error: Error) {
        lock(&self.ledger).fail(ticket, error);
    }

    /// The stream has passed `ticket`.
    pub fn settle(&self, ticket: Ticket) {
        let mut ledger = lock(&self.ledger);
        if let Some(reports) = self.reports.get() {
            reports.take().iter().for_each(|report| ledger.reported(report));
        }
        ledger.pass(&self.status, ticket);
    }

    pub(super) fn note(&self, ticket: Ticket, result: Result<()>) {
        if let Err(error) = result {
            self.fail(ticket, error);
        }
    }
}

/// Getting ops under way.
impl Lane {
    fn launch(self: &Arc<Self>, ticket: Ticket, op: Op) -> Next {
        if self.status.is_halted() {
            self.discard(op);
            return Next::Follows;
        }
        let next = match self.device.enter() {
            Ok(_here) => self.try_launch(ticket, op),
            Err(error) => {
                self.discard(op);
                Err(error)
            }
        };
        next.unwrap_or_else(|error| {
            self.fail(ticket, error);
            Next::Follows
        })
    }

    /// Drops an op elsewhere: a destructor of the user's may want this lane, which is locked.
    pub(super) fn discard(&self, op: Op) {
        if let Op::Call(function) = op {
            self.device.workers.run(Box::new(move || drop(function)));
        }
    }

    pub(super) fn try_launch(self: &Arc<Self>, ticket: Ticket, op: Op) -> Result<Next> {
        match op {
            Op::Copy(plan) if plan.pieces().is_empty() => Ok(Next::Follows),
            Op::Copy(plan) if plan.route() == Route::HostToHost => {
                // SAFETY: whoever submitted keeps the rows valid until the op has passed.
                self.when_reached(ticket, Part::Bytes, move || unsafe { host::copy(&plan) })
            }
            // The driver may block until a copy of pageable memory is done, and nobody but its caller should feel that.
            Op::Copy(plan) if plan.is_plain() && !self.waited => {
                Ok(self.aside(ticket, move |lane| lane.copy_plain(&plan)))
            }
            Op::Copy(plan) if plan.is_plain() => self.copy_plain(&plan).map(|()| Next::Follows),
            Op::Copy(plan) => self.copy(&plan).map(|()| Next::Follows),
            Op::Fill(fill) if fill.device.is_some() => {
                host::pieces(fill).try_for_each(|piece| self.fill(piece)).map(|()| Next::Follows)
            }
            // SAFETY: whoever submitted keeps the range valid until the op has passed.
            Op::Fill(fill) => self.when_reached(ticket, Part::Bytes, move || unsafe { host::fill(fill) }),
            Op::CopyThrough(through) => match through.through {
                Through::Descriptor { at, .. } if !through.memory.has_mappings() => {
                    let op = self.expect_sealed(ticket, at, through);
                    self.send_sealed(&[op]).map(|()| Next::Follows)
                }
                _ => {
                    let lane = self.clone();
                    let copy = move || lane.note(ticket, lane.copy_read(&through));
                    self.when_reached(ticket, Part::Bytes, copy)
                }
            },
            Op::Reduce(reduction) => self.reduce(&reduction).map(|()| Next::Follows),
            Op::Wait(fence) => self.wait_for(ticket, vec![fence], None),
            Op::After(after) => self.wait_for(ticket, after.0, Some(after.1)),
            Op::Call(function) => self.when_reached(ticket, Part::Call, function),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        let Ok(_here) = self.device.enter() else { return };
        let calls = &self.device.driver.calls;
        if self.reports.get().is_some() {
            // SAFETY: the stream is alive. Its kernels may write reports, whose memory goes next.
            unsafe { (calls.cuStreamSynchronize)(self.stream) };
        }
        // SAFETY: nobody else knows the stream; the driver finishes what is in it.
        unsafe { (calls.cuStreamDestroy)(self.stream) };
    }
}

/// The queue that a stream of the core holds.
pub struct CudaQueue(pub Arc<Lane>);

impl Queue for CudaQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        Ok(self.0.push(op))
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(CudaFence(self.0.point(false)?)))
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        Arc::new(CudaFence(self.0.point_after(ticket)))
    }

    fn mark(&self) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(CudaFence(self.0.point(true)?)))
    }

    fn abort(&self) {
        self.0.abort();
    }

    /// On another thread: whoever found the failure may hold the lock of this lane.
    fn look(&self) {
        let lane = self.0.clone();
        self.0.device.workers.run(Box::new(move || drop(lane.drop_backlog(false))));
    }
}
