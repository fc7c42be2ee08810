//! A queue over a CUDA stream.
//!
//! What the GPU can do by itself goes straight into the stream. What the host has to do in between (a user's function, a
//! copy of pageable memory, a wait for somebody else's fence) never blocks the stream, since streams share a few hardware
//! channels and a blocked one would block its neighbours: the lane is *held* instead. Later ops wait in a backlog here, and
//! whoever did the host's part carries on with them.
//!
//! Failures of the work, the driver refusing an op among them, are told when a fence behind it is found done.

use super::{
    device::{Device, Event, Reports},
    driver::{self, Code, Handle},
    fence::{CudaFence, Point, Wait, of_cuda},
    host,
    ledger::Ledger,
    workers::Job,
};
use ferry_core::{
    Error, Fence, Kind, Op, Queue, QueueOptions, Result, Route, Status, Ticket,
    indirect::Through,
    sync::{Arc, Mutex, lock},
};
use std::{
    collections::VecDeque,
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::OnceLock,
};

/// What a queue and its fences share.
pub struct Lane {
    pub device: Arc<Device>,
    pub status: Arc<Status>,
    pub stream: Handle,
    waited: bool,
    state: Mutex<State>,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) reports: OnceLock<Reports>,
}

#[derive(Default)]
struct State {
    last: Ticket,
    held: Option<Held>,
    backlog: VecDeque<Item>,
    /// The newest event in the stream, and the op it stands behind.
    tail: Option<(Ticket, Arc<Event>)>,
}

/// Something that waits while the lane is held.
enum Item {
    Op(Ticket, Op),
    Record(Arc<Point>),
}

/// Whether the next op may follow at once.
enum Next {
    Follows,
    /// Somebody will call [`Lane::resume`].
    IsHeld(Held),
}

/// What holds a lane: the op of this ticket.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Held {
    ticket: Ticket,
    /// It waits for a fence, which an abort need not do.
    is_wait: bool,
    /// An abort came while the host was at it: only later ops wait for it, fences do not.
    is_aborted: bool,
}

impl Held {
    fn by_wait(ticket: Ticket) -> Held {
        Held { ticket, is_wait: true, is_aborted: false }
    }

    fn by_host(ticket: Ticket) -> Held {
        Held { ticket, is_wait: false, is_aborted: false }
    }
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
        state.last += 1;
        let ticket = state.last;
        if state.held.is_some() {
            state.backlog.push_back(Item::Op(ticket, op));
        } else if let Next::IsHeld(held) = self.launch(ticket, op) {
            state.held = Some(held);
        }
        ticket
    }

    fn point(self: &Arc<Self>, timed: bool) -> Result<Arc<Point>> {
        let mut state = lock(&self.state);
        let point = Point::new(self.clone(), state.last + Ticket::from(timed), timed);
        let nothing_left = state.held.is_none_or(|held| held.is_aborted) && state.backlog.is_empty();
        if !nothing_left {
            state.backlog.push_back(Item::Record(point.clone()));
        } else if timed || !self.is_idle(&state) {
            self.record(&mut state, &point)?;
        }
        state.last = point.ticket();
        if timed {
            lock(&self.ledger).mark(&point);
        }
        Ok(point)
    }

    /// A point for which there is no event: done when the stream is seen to be empty.
    fn lost_point(self: &Arc<Self>) -> Arc<Point> {
        let point = Point::new(self.clone(), lock(&self.state).last, false);
        point.lose();
        point
    }

    /// Whether the stream is seen to have passed its newest op. An event recorded now would not be reached at once even in an
    /// empty stream, and whoever asks would be told that there is work left.
    fn is_idle(&self, state: &State) -> bool {
        let last = state.last;
        let seen = match &state.tail {
            _ if self.status.passed() >= last => return true,
            Some((ticket, event)) if *ticket == last => event.is_reached(),
            _ => self.is_empty(),
        };
        if seen == Ok(true) {
            self.settle(last);
        }
        seen == Ok(true)
    }

    /// Puts a point into the stream, by the event that is there already if one is.
    fn record(&self, state: &mut State, point: &Point) -> Result<()> {
        let event = match &state.tail {
            Some((ticket, event)) if *ticket == point.ticket() => Ok(event.clone()),
            _ => self
                .device
                .enter()
                .and_then(|_here| Event::record(&self.device, self.stream, point.is_timed())),
        };
        state.tail = event.as_ref().ok().map(|event| (point.ticket(), event.clone()));
        point.put(event)
    }

    /// The host's part of op `ticket` is done: carries on with the backlog, up to the next part for the host. Says nothing to a
    /// lane that an abort has let go of.
    fn resume(self: &Arc<Self>, ticket: Ticket) {
        let mut state = lock(&self.state);
        if state.held.is_none_or(|held| held.ticket != ticket) {
            return;
        }
        while let Some(item) = state.backlog.pop_front() {
            match item {
                Item::Record(point) if self.status.is_halted() => point.lose(),
                Item::Record(point) => {
                    let recorded = self.record(&mut state, &point);
                    self.note(point.ticket(), recorded);
                }
                Item::Op(ticket, op) => {
                    if let Next::IsHeld(held) = self.launch(ticket, op) {
                        state.held = Some(held);
                        return;
                    }
                }
            }
        }
        state.held = None;
    }

    /// Drops the backlog, and the wait that holds the lane if one does. What is in the CUDA stream already cannot be taken back:
    /// it runs to its end.
    fn drop_backlog(&self, is_abort: bool) {
        let mut state = lock(&self.state);
        let mut dropped = state.held.map(|held| held.ticket);
        state.held = state.held.filter(|held| !held.is_wait).map(|held| Held { is_aborted: true, ..held });
        let mut points = Vec::new();
        for item in std::mem::take(&mut state.backlog) {
            match item {
                Item::Op(ticket, _) => dropped = Some(ticket),
                Item::Record(point) => points.push(point),
            }
        }
        if let Some(ticket) = dropped.filter(|_| is_abort) {
            self.status.drop_through(ticket);
        }
        drop(state);
        points.iter().for_each(|point| point.lose());
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

    fn note(&self, ticket: Ticket, result: Result<()>) {
        if let Err(error) = result {
            self.fail(ticket, error);
        }
    }
}

/// Getting ops under way.
impl Lane {
    fn launch(self: &Arc<Self>, ticket: Ticket, op: Op) -> Next {
        if self.status.is_halted() {
            return Next::Follows;
        }
        match self.try_launch(ticket, op) {
            Ok(next) => next,
            Err(error) => {
                self.fail(ticket, error);
                Next::Follows
            }
        }
    }

    fn try_launch(self: &Arc<Self>, ticket: Ticket, op: Op) -> Result<Next> {
        let _here = self.device.enter()?;
        match op {
            Op::Copy(plan) if plan.rows().is_empty() => Ok(Next::Follows),
            Op::Copy(plan) if plan.route() == Route::HostToHost => {
                // SAFETY: whoever submitted keeps the rows valid until the op has passed.
                self.when_reached(ticket, move || unsafe { host::copy(&plan) })
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
            Op::Fill(fill) => self.when_reached(ticket, move || unsafe { host::fill(fill) }),
            Op::CopyThrough(through) => match through.through {
                Through::Descriptor { at, .. } => {
                    self.copy_sealed(ticket, at, *through).map(|()| Next::Follows)
                }
                Through::Cells { dst, src, .. } => {
                    let lane = self.clone();
                    self.when_reached(ticket, move || lane.note(ticket, lane.copy_cells(dst, src, &through)))
                }
            },
            Op::Wait(fence) => self.wait_for(ticket, fence),
            Op::Call(function) => self.when_reached(ticket, function),
        }
    }
}

/// The host's part of the work: the lane is held until it is done.
impl Lane {
    /// Runs `work` on a thread of its own at once; it puts its own part into the stream.
    fn aside(
        self: &Arc<Self>,
        ticket: Ticket,
        work: impl FnOnce(&Lane) -> Result<()> + Send + 'static,
    ) -> Next {
        let lane = self.clone();
        self.device.workers.run(Box::new(move || {
            let done = lane.device.enter().and_then(|_here| work(&lane));
            lane.note(ticket, done);
            lane.resume(ticket);
        }));
        Next::IsHeld(Held::by_host(ticket))
    }

    /// Runs `work` on a thread of its own when the stream gets here.
    fn when_reached(self: &Arc<Self>, ticket: Ticket, work: impl FnOnce() + Send + 'static) -> Result<Next> {
        let visit = Box::into_raw(Box::new(Visit { lane: self.clone(), ticket, work: Box::new(work) }));
        // SAFETY: the driver hands `visit` to `reached` once, failed device or not.
        let code =
            unsafe { (self.device.driver.calls.cuStreamAddCallback)(self.stream, reached, visit.cast(), 0) };
        if code != driver::SUCCESS {
            // SAFETY: the driver has refused it, so it is still ours.
            drop(unsafe { Box::from_raw(visit) });
        }
        let held = Held::by_host(ticket);
        self.device.check("cuStreamAddCallback", code).map(|()| Next::IsHeld(held))
    }

    fn wait_for(self: &Arc<Self>, ticket: Ticket, fence: Arc<dyn Fence>) -> Result<Next> {
        let lane = self.clone();
        let Some(point) = of_cuda(&*fence) else {
            let workers = self.device.workers.clone();
            fence.when_done(Box::new(move || workers.run(Box::new(move || lane.resume(ticket)))));
            return Ok(Next::IsHeld(Held::by_wait(ticket)));
        };
        let again = {
            let fence = fence.clone();
            move || Box::new(move || lane.wait_again(ticket, fence)) as Job
        };
        match point.wait_in_stream(again) {
            Wait::Passed => Ok(Next::Follows),
            Wait::For(event) => event.hold(self.stream).map(|()| Next::Follows),
            Wait::Later => Ok(Next::IsHeld(Held::by_wait(ticket))),
        }
    }

    /// The fence of another lane has come into its stream.
    fn wait_again(self: Arc<Self>, ticket: Ticket, fence: Arc<dyn Fence>) {
        let mut state = lock(&self.state);
        if state.held.is_none_or(|held| held.ticket != ticket) {
            return;
        }
        state.backlog.push_front(Item::Op(ticket, Op::Wait(fence)));
        drop(state);
        self.resume(ticket);
    }
}

/// Work for the host that a stream comes upon.
struct Visit {
    lane: Arc<Lane>,
    ticket: Ticket,
    work: Job,
}

/// Called by the driver on a thread of its own, which has other streams to serve and may not call the driver.
unsafe extern "C" fn reached(_: Handle, code: Code, visit: *mut c_void) {
    // SAFETY: `when_reached` gave this box away to be taken here, once.
    let visit = unsafe { Box::from_raw(visit.cast::<Visit>()) };
    let workers = visit.lane.device.workers.clone();
    workers.run(Box::new(move || visit.run(code)));
}

impl Visit {
    fn run(self, code: Code) {
        let Visit { lane, ticket, work } = self;
        lane.note(ticket, lane.device.check("the GPU's work", code));
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            lane.fail(ticket, Kind::Device.because("a function of the user's panicked"));
        }
        lane.resume(ticket);
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

    fn fence_after(&self, _ticket: Ticket) -> Arc<dyn Fence> {
        Arc::new(CudaFence(self.0.point(false).unwrap_or_else(|_| self.0.lost_point())))
    }

    fn mark(&self) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(CudaFence(self.0.point(true)?)))
    }

    fn abort(&self) {
        self.0.drop_backlog(true);
    }

    /// On another thread: whoever found the failure may hold the lock of this lane.
    fn look(&self) {
        let lane = self.0.clone();
        self.0.device.workers.run(Box::new(move || lane.drop_backlog(false)));
    }
}
