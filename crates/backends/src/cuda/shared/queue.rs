//! The queue of a shared stream.
//!
//! What another library puts into such a stream has no ticket, and cannot wait in a backlog of ours. So
//! everything must be in the CUDA stream, in order, when a call returns. What the GPU does by itself goes
//! there as always. What the host has to do is done beside it, by a queue of our own which first waits for
//! the shared stream and which that stream then waits for. Pageable memory comes and goes in the stream
//! itself: pageable.rs.

use crate::cuda::{
    descriptors::copies::is_for_gpu,
    dispatch::{Gpu, OpQueue},
    order::fence::{CudaFence, of_cuda},
    order::lane::Lane,
    order::task::{LaunchTurn, Task},
    order::waits::WaitFor,
    shared::arrival::StreamArrival,
    shared::latch::{HoldPlace, Latch, StreamHold, Words},
    shared::pageable,
    shared::preload::Preload,
    shared::unheld::Unheld,
    stream::{Stream, StreamKind},
};
use crate::pool::ThreadReservation;
use ferry_core::{
    Fence, Kind, Mark, Op, Plan, Point, Queue, Result, Route, Status, Ticket,
    sync::{Arc, Mutex, lock},
};
use std::{any::Any, cell::Cell, time::Duration};

/// A device whose streams may be shared.
pub struct SharingDevice {
    /// The GPU.
    pub gpu: Arc<Gpu>,
    /// Numbers that shared streams wait for.
    words: Arc<Words>,
    /// What is made before a stream is held.
    preload: Arc<Preload>,
}

impl SharingDevice {
    /// A device that was opened.
    pub fn new(gpu: Arc<Gpu>, preload: &Arc<Preload>) -> Arc<SharingDevice> {
        preload.add(&gpu);
        Arc::new(SharingDevice { words: Words::new(gpu.device.clone()), gpu, preload: preload.clone() })
    }
}

/// The queue of a shared stream.
pub struct SharedQueue {
    /// What other libraries call the stream.
    native: usize,
    /// Over the shared stream. Nothing ever holds it back.
    front: OpQueue,
    /// Where the host's parts are done; it has tickets of its own.
    side: OpQueue,
    latch: Arc<Latch>,
    /// After an abort, and until more is submitted: done, since everything that was there is.
    aborted: Mutex<Option<Arc<dyn Fence>>>,
    /// An op for which the driver refused to hold the stream.
    unheld: Unheld,
    /// The queue as it was before it was shared, and its last ticket.
    earlier: Option<(Arc<Lane>, Ticket)>,
}

impl SharedQueue {
    /// Over a stream of another library, which knows it by this number.
    pub fn adopted(
        device: &SharingDevice,
        (native, stream): (usize, Arc<Stream>),
        status: Arc<Status>,
    ) -> Result<SharedQueue> {
        SharedQueue::over(device, OpQueue::over(&device.gpu, stream, status, 0), native, None)
    }

    /// Goes on where `earlier` ends, in a CUDA stream of its own: what waits in the backlog there can come
    /// into no stream yet.
    pub fn following(earlier: &OpQueue, device: &SharingDevice) -> Result<SharedQueue> {
        let lane = &earlier.lane;
        lane.flush();
        let (status, last) = (lane.progress.status.clone(), lane.last());
        let (gpu, kind) = (&device.gpu, StreamKind::Shared { is_theirs: false });
        let stream = Stream::new(&gpu.device, gpu.id, kind)?;
        let native = stream.number();
        let front = OpQueue::over(gpu, stream, status, last);
        let shared = SharedQueue::over(device, front, native, Some((lane.clone(), last)))?;
        shared.follow(last, Arc::new(CudaFence(lane.point())))?;
        Ok(shared)
    }

    fn over(
        device: &SharingDevice,
        front: OpQueue,
        native: usize,
        earlier: Option<(Arc<Lane>, Ticket)>,
    ) -> Result<SharedQueue> {
        let current = device.gpu.device.enter()?;
        let latch = Latch::new(&device.words, &current)?;
        // Work in the stream reads them.
        front.lane.stream().retain(device.words.clone());
        device.preload.load_all(&device.gpu)?;
        let side =
            OpQueue::new(&device.gpu, StreamKind::Beside, Arc::new(front.lane.progress.status.beside()))?;
        for queue in [&front, &side] {
            queue.lane.stream().bounce(&current)?;
        }
        side.lane.drop_when_halted(&front.lane.progress.status);
        let (aborted, unheld) = (Mutex::default(), Unheld::default());
        Ok(SharedQueue { native, front, side, latch, aborted, unheld, earlier })
    }

    fn stream(&self) -> &Stream {
        self.front.lane.stream()
    }

    fn status(&self) -> &Arc<Status> {
        &self.front.lane.progress.status
    }

    /// The shared stream waits for the fence, which stands behind its last op.
    fn follow(&self, last: Ticket, before: Arc<dyn Fence>) -> Result<()> {
        if is_in_stream(&before) {
            let (lane, current) = (&self.front.lane, self.stream().device().enter()?);
            let turn = LaunchTurn {
                lane,
                current: &current,
                ticket: last,
                has_waited: false,
                span: Cell::default(),
            };
            return WaitFor { fences: vec![before], then: None }.launch(&turn).map(drop);
        }
        let wait = Op::Wait(Arc::new(ByHost(before.clone())));
        self.hold(HoldPlace { behind: last, before }, Some(wait), false, self.reserve()?)
    }

    /// When the shared stream has come here the other lane does the op `ticket`, and the shared stream waits
    /// for it.
    fn beside(&self, ticket: Ticket, op: Op) -> Result<()> {
        let op = self.as_done_beside(op);
        let announce = |thread| Ok((thread, StreamArrival::announce(&self.front.lane, ticket - 1)?));
        match self.reserve().and_then(announce) {
            Ok((thread, before)) => {
                let work = Op::After(Box::new((vec![before.clone()], op)));
                let held = self.hold(HoldPlace { behind: ticket - 1, before }, Some(work), true, thread);
                held.inspect_err(|_| self.unheld.set(ticket, Arc::new(CudaFence(self.side.lane.point()))))
            }
            Err(error) => {
                self.front.discard(op);
                Err(error)
            }
        }
    }

    /// A thread that ends a hold: without one the stream would stand still for good.
    fn reserve(&self) -> Result<ThreadReservation> {
        self.stream().device().pool.reserve()
    }

    /// Holds the shared stream until the other lane has done `work`, which is the next op of the stream if it
    /// `is_op`. As long as the reservation lives the other lane finds a thread for the end of the hold.
    ///
    /// The other lane has the work before the stream is held. So an abort finds the work of every hold that
    /// is in the stream; and a thread that finds a place in the stream behind a hold finds that among the
    /// holds, unless it is over.
    fn hold(&self, place: HoldPlace, work: Option<Op>, is_op: bool, thread: ThreadReservation) -> Result<()> {
        let ticket = place.behind + Ticket::from(is_op);
        let hold = self.latch.hold(place);
        let (number, front) = (hold.number(), self.front.lane.clone());
        let side = self.side.lane.progress.status.clone();
        let end = HoldEnd { hold: Some(hold), front, side, ticket, is_op, _thread: thread };
        self.side.submit_together(work.into_iter().chain([Op::Call(Box::new(move || end.come()))]));
        self.latch.put(self.stream(), &self.stream().device().enter()?, number)
    }

    /// What is submitted next comes behind an op for which the driver refused to hold the stream.
    fn hold_again(&self) -> Result<()> {
        if self.unheld.get().is_none() {
            return Ok(());
        }
        self.latch.put(self.stream(), &self.stream().device().enter()?, self.latch.newest())?;
        self.unheld.clear();
        Ok(())
    }

    /// Whether the host has something to do before or in the op.
    fn needs_host(&self, op: &Op) -> bool {
        match op {
            Op::Copy(plan) => {
                !plan.pieces().is_empty() && (plan.is_plain() || plan.route() == Route::HostToHost)
            }
            Op::CopyThrough(late) => !is_for_gpu(late, self.status()),
            Op::Fill(fill) => fill.device.is_none(),
            Op::Reduce(_) => false,
            Op::Wait(fence) => !is_in_stream(fence),
            Op::After(after) => self.needs_host(&after.1) || !after.0.iter().all(is_in_stream),
            Op::Call(_) => true,
        }
    }

    /// The op as the other lane does it. A function of the user's is not run behind a failure that stops all,
    /// which that lane knows nothing of. And the host waits for fences: a stream that does may share its way
    /// into the GPU with the one that we hold.
    fn as_done_beside(&self, op: Op) -> Op {
        match op {
            Op::Call(function) => {
                let status = self.status().clone();
                Op::Call(Box::new(move || {
                    if !status.is_halted() {
                        function();
                    }
                }))
            }
            Op::Wait(fence) => Op::Wait(Arc::new(ByHost(fence))),
            Op::After(after) => {
                let fences = after.0.into_iter().map(|fence| Arc::new(ByHost(fence)) as Arc<dyn Fence>);
                Op::After(Box::new((fences.collect(), self.as_done_beside(after.1))))
            }
            op => op,
        }
    }

    fn abort(&self) {
        if let Some((earlier, _)) = &self.earlier {
            earlier.abort();
        }
        let last = self.front.lane.last();
        let end: Arc<dyn Fence> = Arc::new(CudaFence(self.front.lane.point_after(last)));
        self.side.lane.abort();
        // It was of the tickets there, which are not known elsewhere.
        self.side.lane.progress.status.take_error();
        let _ = end.wait(None);
        *lock(&self.aborted) = Some(end);
    }

    /// A function of the user's may still run that an abort did not wait for, and later work comes after it.
    fn follow_aborted(&self) -> Result<()> {
        let Some(before) = lock(&self.aborted).take() else { return Ok(()) };
        let place = HoldPlace { behind: self.front.lane.last(), before: before.clone() };
        let held = self.reserve().and_then(|thread| self.hold(place, None, false, thread));
        held.inspect_err(|_| *lock(&self.aborted) = Some(before))
    }
}

/// The end of a hold, behind its work. If an abort drops it, the op is dropped or being stopped.
struct HoldEnd {
    /// The first field, so that the stream goes on before `front`, which may be the last to drop it, waits
    /// for what is in it.
    hold: Option<StreamHold>,
    front: Arc<Lane>,
    /// What the work beside the stream reports to.
    side: Arc<Status>,
    /// Whose failure it is if the work fails.
    ticket: Ticket,
    is_op: bool,
    /// Keeps a thread for the end of the hold.
    _thread: ThreadReservation,
}

impl HoldEnd {
    /// The work is done: the shared stream goes on.
    fn come(mut self) {
        if let Some(error) = self.side.take_error().filter(|error| error.kind != Kind::Aborted) {
            self.front.progress.fail(self.ticket, error);
        }
        self.hold = None;
    }
}

impl Drop for HoldEnd {
    fn drop(&mut self) {
        let status = &self.front.progress.status;
        let is_aborted = !status.is_halted() && self.front.stream().device().lost().is_none();
        if self.hold.is_some() && self.is_op && is_aborted {
            // Said before the stream goes on.
            status.drop_through(self.ticket);
        }
    }
}

impl Queue for SharedQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        let is_ready = self.stream().refuse_capture().and_then(|()| self.hold_again());
        if let Err(why) = is_ready.and_then(|()| self.follow_aborted()) {
            self.front.discard(op);
            return Err(why);
        }
        if !self.needs_host(&op) {
            return Ok(self.front.submit(op));
        }
        let ticket = self.front.lane.last() + 1;
        let done = match op {
            Op::Copy(plan) if plan.route() != Route::HostToHost => {
                pageable::copy(&self.front.lane, &self.latch, &self.unheld, ticket, &plan)
            }
            op => self.beside(ticket, op),
        };
        self.front.lane.progress.note(ticket, done);
        // Counted now that the stream is held: it is not seen to pass before that.
        Ok(self.front.submit(Op::Copy(Plan::default())))
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        if self.stream().device().lost().is_some() {
            return Ok(Arc::new(CudaFence(self.front.lane.point())));
        }
        self.stream().refuse_capture()?;
        if self.unheld.get().is_some() {
            return Ok(self
                .unheld
                .before(Ticket::MAX, Arc::new(CudaFence(self.front.lane.end_unreported()?))));
        }
        Ok(Arc::new(CudaFence(self.front.lane.end()?)))
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        if let Some((earlier, last)) = &self.earlier
            && ticket <= *last
        {
            return Arc::new(CudaFence(earlier.point_after(ticket)));
        }
        let point = Arc::new(CudaFence(self.front.lane.point_after(ticket)));
        if self.status().passed() >= ticket {
            return point;
        }
        // Not behind a hold: it must not wait for what the host does later. The point may have come there
        // just now.
        self.unheld.before(ticket, self.latch.before_hold(ticket).unwrap_or(point))
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        self.stream().refuse_capture()?;
        Ok(self.unheld.before_mark(Arc::new(CudaFence(self.front.lane.mark()?))))
    }

    fn share(&self) -> Result<usize> {
        Ok(self.native)
    }

    fn abort(&self) {
        self.abort();
    }
}

/// A fence that no stream waits for by itself.
struct ByHost(Arc<dyn Fence>);

impl Fence for ByHost {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        self.0.wait(limit)
    }

    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        self.0.when_done(then);
    }

    fn point(&self) -> Option<Point> {
        self.0.point()
    }

    fn native(&self) -> &dyn Any {
        self
    }
}

/// Whether a stream can wait for the fence by itself.
fn is_in_stream(fence: &Arc<dyn Fence>) -> bool {
    of_cuda(&**fence).is_some_and(|point| point.is_in_stream())
}
