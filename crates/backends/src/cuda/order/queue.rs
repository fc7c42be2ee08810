//! A queue over a CUDA stream.
//!
//! What the GPU can do by itself goes straight into the stream, or is gathered for some microseconds if it is small (sending.rs).
//! What the host has to do in between (a user's function, a copy of pageable memory, a wait for somebody else's fence) never
//! blocks the stream, since streams share a few hardware channels and a blocked one would block its neighbours: the lane is
//! *held* instead. Later ops wait in a backlog here, and whoever did the host's part carries on with them.
//!
//! Failures of the work, the driver refusing an op among them, are told when a fence behind it is found done.

use crate::bytes::copy::{copy_all, fill_all};
use crate::cuda::{
    coalesce::gather::Gather,
    coalesce::sending::Work,
    descriptors::reports::Reports,
    device::Device,
    driver::StreamHandle,
    order::backlog::{Backlog, Item, Part},
    order::crowd::Crowd,
    order::fence::{CudaFence, StreamPoint},
    order::ledger::Ledger,
    shared::adopt::Shared,
    shared::bounce::Bounce,
    stream::bell::Bell,
    stream::events::Event,
    stream::memset,
    stream::planner::Way,
    stream::ring::Entry,
};
use crate::litter::drop_each;
use ferry_core::{
    DeviceId, Error, Fence, Linear, Mark, Op, Queue, QueueOptions, Result, Route, Status, Ticket,
    sync::{Arc, CachePadded, Mutex, Weak, lock},
};
use std::{collections::VecDeque, sync::OnceLock};

/// What a queue and its fences share.
pub struct Lane {
    pub device: Arc<Device>,
    pub status: Arc<Status>,
    pub stream: StreamHandle,
    /// The number of the device.
    pub id: DeviceId,
    /// Whoever submits waits at once.
    pub waited: bool,
    /// Other libraries put work into the stream, too: nothing may be held back.
    pub is_shared: bool,
    /// A stream that we hold waits for this lane: kernels, which may not get past that stream on their way, are not used.
    pub is_beside: bool,
    /// The stream goes with the lane; it is some other library's otherwise.
    is_ours: bool,
    pub gather: Gather,
    pub bell: Bell,
    pub crowd: Crowd,
    /// Whoever holds this may put things into the stream.
    pub state: CachePadded<Mutex<State>>,
    pub ledger: Mutex<Ledger>,
    pub reports: OnceLock<Reports>,
    pub bounce: OnceLock<Bounce>,
}

#[derive(Default)]
pub struct State {
    pub backlog: Backlog<Work, Arc<StreamPoint>>,
    /// Events in the stream, and the ops they stand behind: the newest, and some before it that nobody may have asked about.
    pub tail: VecDeque<(Ticket, Arc<Event>)>,
    /// Points at the end of the stream, which have no events yet.
    pub ends: Vec<Weak<StreamPoint>>,
    /// An event that the lane put behind this op to see how far it is.
    pub milestone: Option<(Ticket, Arc<Event>)>,
    /// A list to gather copies in.
    pub spare: Vec<Entry>,
    /// Stands before what the part that has begun puts into the stream, unless everything before it has passed.
    pub before: Option<Arc<Event>>,
}

/// Whether the next op may follow at once.
pub enum Next {
    Follows,
    /// Somebody will call [`Lane::resume`].
    IsHeld(Part),
}

impl Lane {
    /// A lane with a stream of its own.
    pub fn new(
        device: Arc<Device>,
        id: DeviceId,
        options: QueueOptions,
        status: Arc<Status>,
    ) -> Result<Arc<Lane>> {
        let stream = device.make_stream()?;
        let mut lane = Lane::bare(device, id, stream, status);
        lane.waited = options.waited;
        lane.open_or_close(&lock(&lane.state).backlog);
        Ok(Arc::new(lane))
    }

    /// A lane with a stream of its own, beside one that waits for it.
    pub fn beside(device: Arc<Device>, id: DeviceId, status: Arc<Status>) -> Result<Arc<Lane>> {
        let stream = device.make_stream()?;
        let mut lane = Lane::bare(device, id, stream, status);
        lane.is_beside = true;
        Ok(Arc::new(lane))
    }

    /// A lane over a stream that other libraries use as well, and that is `is_ours` or one of theirs. Its next op has the ticket
    /// after `last`.
    pub fn shared(
        device: Arc<Device>,
        id: DeviceId,
        (stream, is_ours): (StreamHandle, bool),
        status: Arc<Status>,
        last: Ticket,
    ) -> Arc<Lane> {
        let mut lane = Lane::bare(device, id, stream, status);
        (lane.is_shared, lane.is_ours, lane.gather) = (true, is_ours, Gather::after(last));
        lane.state = CachePadded(Mutex::new(State { backlog: Backlog::after(last), ..State::default() }));
        Arc::new(lane)
    }

    fn bare(device: Arc<Device>, id: DeviceId, stream: StreamHandle, status: Arc<Status>) -> Lane {
        Lane {
            device,
            status,
            stream,
            id,
            waited: false,
            is_shared: false,
            is_beside: false,
            is_ours: true,
            gather: Gather::default(),
            bell: Bell::default(),
            crowd: Crowd::default(),
            state: CachePadded::default(),
            ledger: Mutex::default(),
            reports: OnceLock::new(),
            bounce: OnceLock::new(),
        }
    }

    /// The newest ticket that is not gathered.
    pub fn last(&self) -> Ticket {
        lock(&self.state).backlog.last()
    }

    #[inline(always)]
    pub fn push(self: &Arc<Self>, op: Op) -> Ticket {
        match self.small(&op) {
            Some((way, copy)) => self.push_small(way, copy, || op),
            None => self.push_other(op),
        }
    }

    #[inline(never)]
    fn push_other(self: &Arc<Self>, op: Op) -> Ticket {
        match op {
            Op::CopyThrough(through) => match self.sealed_at(&through) {
                Some(at) => self.push_sealed(at, through),
                None => self.push_behind(Op::CopyThrough(through), None),
            },
            op => self.push_behind(op, None),
        }
    }

    /// Submits what is not gathered. In a backlog a small copy waits with its neighbours.
    #[inline(never)]
    pub fn push_behind(self: &Arc<Self>, op: Op, small: Option<(Way, Entry)>) -> Ticket {
        let mut state = self.state();
        self.push_into(&mut state, op, small)
    }

    /// Submits ops of which an abort finds all or none.
    pub fn push_together(self: &Arc<Self>, ops: impl IntoIterator<Item = Op>) {
        let mut state = self.state();
        for op in ops {
            self.push_into(&mut state, op, None);
        }
    }

    fn push_into(self: &Arc<Self>, state: &mut State, op: Op, small: Option<(Way, Entry)>) -> Ticket {
        self.let_go(state);
        let ticket = self.gather.count();
        state.backlog.reach(ticket);
        if !state.backlog.is_held() && self.is_full() {
            self.hold_up(state, ticket);
        }
        if state.backlog.is_held() {
            self.keep(state, op, small);
        } else if let Next::IsHeld(part) = self.launch(state, ticket, op) {
            debug_assert!(!self.is_shared, "what others put into the stream would overtake op {ticket}");
            state.backlog.hold(ticket, part);
            self.open_or_close(&state.backlog);
        }
        ticket
    }

    /// The host is about to do its part of op `ticket`, which may use the stream. False if that was dropped before it began.
    pub fn begin(&self, ticket: Ticket) -> bool {
        let mut state = lock(&self.state);
        let is_wanted = !self.status.is_halted() && state.backlog.begin(ticket);
        self.pin_ends(&mut state);
        let before = ticket - 1;
        let needs_event = is_wanted && self.status.passed() < before;
        state.before = if needs_event { self.event(&mut state, before, before, false).ok() } else { None };
        is_wanted
    }

    /// The host's part of op `ticket` is done: carries on with the backlog, up to the next part for the host. Says nothing to a
    /// lane that an abort has let go of.
    pub fn resume(self: &Arc<Self>, ticket: Ticket) {
        let mut state = self.state();
        if !state.backlog.is_held_by(ticket) {
            return;
        }
        // The part may have put anything into the stream.
        self.bell.ends_with(None);
        while let Some(item) = state.backlog.next() {
            match item {
                Item::Lost(_, point) => point.lose(),
                Item::StreamPoint(_, point) if self.status.is_halted() => point.lose(),
                Item::StreamPoint(ticket, point) => {
                    let recorded = self.record(&mut state, ticket, &point);
                    self.note(ticket, recorded);
                }
                Item::Work(_, Work::Copies(run)) => {
                    if !self.take_apart(&mut state, &run) && !self.send_run(&mut state, run) {
                        return;
                    }
                }
                Item::Work(ticket, work) if self.is_full() => {
                    self.hold_up(&mut state, ticket);
                    state.backlog.again(ticket, work);
                    return;
                }
                Item::Work(ticket, Work::Op(op)) => {
                    if let Next::IsHeld(part) = self.launch(&mut state, ticket, op) {
                        state.backlog.hold(ticket, part);
                        return;
                    }
                }
            }
        }
        self.open_or_close(&state.backlog);
    }

    /// Has the lane drop its backlog when the stream of this status is stopped for good.
    pub fn drops_when_halted(self: &Arc<Self>, status: &Status) {
        let lane = Arc::downgrade(self);
        status.on_halt(Box::new(move || {
            let Some(lane) = lane.upgrade() else { return };
            let workers = lane.device.workers.clone();
            // On another thread: the one that found the failure may hold the lock of this lane. Where there is none to be
            // had the ops are dropped one by one as the lane comes to them.
            let _ = workers.run(Box::new(move || drop_each(lane.drop_backlog(false).1)));
        }));
    }

    /// Drops what was gathered, the backlog, and the wait that holds the lane if one does. What is in the CUDA stream already
    /// cannot be taken back: it runs to its end. Returns the newest ticket, and the ops: dropping those may run code of the user's.
    pub fn drop_backlog(&self, is_abort: bool) -> (Ticket, Vec<Work>) {
        let mut state = lock(&self.state);
        let dropped = state.backlog.abort();
        let newest = self.drop_gathered(&mut state).or(dropped.newest);
        if let Some(ticket) = newest.filter(|_| is_abort) {
            self.status.drop_through(ticket);
        }
        self.open_or_close(&state.backlog);
        let last = state.backlog.last();
        drop(state);
        dropped.points.iter().for_each(|point| point.lose());
        (last, dropped.work)
    }

    /// Drops what has not begun, and returns when nothing of what came before moves a byte any more.
    pub fn abort(self: &Arc<Self>) {
        let (last, dropped) = self.drop_backlog(true);
        // What the GPU or a worker is still at comes before this point, and what is submitted from now on does not. Once it is
        // done the lost points are, too.
        let _ = CudaFence(self.point_after(last)).wait(None);
        drop_each(dropped);
    }

    /// Waits until nothing that is in the stream now is left.
    pub fn drain(&self) -> Result<()> {
        self.device.enter()?.synchronize(self.stream, "the GPU's work")
    }

    /// Whether nothing is in the stream.
    pub fn is_empty(&self) -> Result<bool> {
        self.device.enter()?.is_idle(self.stream)
    }

    /// What the driver says of the work up to an op; it does not say which one it was.
    #[cold]
    pub fn about(&self, ticket: Ticket, error: &Error) -> Error {
        error.kind.because(format!("device {}, number {ticket} of the stream or before it: {error}", self.id))
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

    pub fn note(&self, ticket: Ticket, result: Result<()>) {
        if let Err(error) = result {
            self.fail(ticket, error);
        }
    }
}

/// Getting ops under way.
impl Lane {
    fn launch(self: &Arc<Self>, state: &mut State, ticket: Ticket, op: Op) -> Next {
        self.pin_ends(state);
        self.keep_up(state, ticket - 1);
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
    pub fn discard(&self, op: Op) {
        if let Op::Call(function) = op {
            self.device.litter.add([function], |job| self.device.workers.run(job).is_ok());
        }
    }

    pub fn try_launch(self: &Arc<Self>, ticket: Ticket, op: Op) -> Result<Next> {
        match op {
            Op::Copy(plan) if plan.pieces().is_empty() => Ok(Next::Follows),
            Op::Copy(plan) if plan.route() == Route::HostToHost => {
                // SAFETY: whoever submitted keeps the rows valid until the op has passed.
                self.by_host(ticket, move || unsafe { copy_all(&plan) })
            }
            // The driver may block until a copy of pageable memory is done, and nobody but its caller should feel that.
            Op::Copy(plan) if plan.is_plain() && !self.waited => {
                self.aside(ticket, move |lane| lane.copy_plain(&plan))
            }
            Op::Copy(plan) if plan.is_plain() => self.copy_plain(&plan).map(|()| Next::Follows),
            Op::Copy(mut plan) => self.copy(&mut plan).map(|()| Next::Follows),
            Op::Fill(fill) if fill.device.is_some() => {
                memset::pieces(fill).try_for_each(|piece| self.fill(piece)).map(|()| Next::Follows)
            }
            // SAFETY: whoever submitted keeps the range valid until the op has passed.
            Op::Fill(fill) => self.by_host(ticket, move || unsafe { fill_all(&fill) }),
            Op::CopyThrough(through) => match self.sealed_at(&through) {
                Some(at) => {
                    let op = self.expect_sealed(ticket, at, through);
                    self.send_sealed(&[op]).map(|()| Next::Follows)
                }
                None => {
                    let lane = self.clone();
                    let copy = move || lane.copy_late(ticket, &through);
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
        let is_idle = self.status.passed() >= lock(&self.state).backlog.last();
        self.bell.leave(&self.device.bells, is_idle);
        let Ok(current) = self.device.enter() else { return };
        let has_memory = self.reports.get().is_some() || self.bounce.get().is_some_and(Bounce::is_used);
        if self.is_ours && has_memory {
            // Its work may use memory that goes next. What became of it nobody asks any more.
            let _ = current.synchronize(self.stream, "the GPU's work");
        }
        // Another library's stream may be gone by now and cannot be asked. What may still be written to is not given back.
        if !self.is_ours && !is_idle {
            std::mem::forget((self.reports.take(), self.bounce.take()));
        }
        if self.is_ours {
            // SAFETY: ours, and it goes with the lane.
            unsafe { current.destroy_stream(self.stream) };
        }
    }
}

/// The queue that a stream of the core holds.
pub struct CudaQueue {
    lane: Arc<Lane>,
    /// What the queue is since it was shared.
    shared: OnceLock<Shared>,
}

impl CudaQueue {
    /// The queue of a lane with a stream of its own.
    pub fn new(lane: Arc<Lane>) -> CudaQueue {
        lane.drops_when_halted(&lane.status);
        CudaQueue { lane, shared: OnceLock::new() }
    }
}

impl Queue for CudaQueue {
    #[inline]
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        if let Some(why) = self.lane.device.lost() {
            self.lane.discard(op);
            return Err(why.clone());
        }
        match self.shared.get() {
            None => Ok(self.lane.push(op)),
            // SAFETY: passed on from the caller.
            Some(shared) => unsafe { shared.submit(op) },
        }
    }

    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        let is_usual = self.lane.device.lost().is_none() && self.shared.get().is_none();
        match self.lane.small_segment(copy.segment(), copy.route()).filter(|_| is_usual) {
            Some((way, entry)) => Ok(self.lane.push_small(way, entry, || Op::Copy(copy.into()))),
            // SAFETY: passed on from the caller.
            None => unsafe { self.submit(Op::Copy(copy.into())) },
        }
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        match self.shared.get() {
            None => Ok(Arc::new(CudaFence(self.lane.point()))),
            Some(shared) => shared.fence(),
        }
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        match self.shared.get() {
            None => Arc::new(CudaFence(self.lane.point_after(ticket))),
            Some(shared) => shared.fence_after(ticket),
        }
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        match self.shared.get() {
            None => Ok(Arc::new(CudaFence(self.lane.mark()?))),
            Some(shared) => shared.mark(),
        }
    }

    fn flush(&self) {
        self.lane.flush();
    }

    fn share(&self) -> Result<usize> {
        if self.shared.get().is_none() {
            // Nobody submits or shares meanwhile.
            let _ = self.shared.set(Shared::following(&self.lane)?);
        }
        self.shared.get().map_or(Ok(0), Queue::share)
    }

    fn abort(&self) {
        match self.shared.get() {
            None => self.lane.abort(),
            Some(shared) => shared.abort(),
        }
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        self.lane.flush();
    }
}
