//! Streams that other libraries of the process use as well: PyTorch's current stream, or one of ours that CuPy was told of.
//!
//! What another library puts into such a stream has no ticket, and cannot wait in a backlog of ours. So everything must be in the
//! CUDA stream, in order, when a call returns. What the GPU does by itself goes there as always. What the host has to do is
//! done beside it, by a lane of our own which first waits for the shared stream and which that stream then waits for. Pageable
//! memory comes and goes in the stream itself: relay.rs.

use crate::cuda::{
    Cuda,
    device::Device,
    driver::{Code, Current, StreamCallback, StreamHandle},
    order::fence::{CudaFence, of_cuda},
    order::queue::Lane,
    shared::latch::{Hold, Latch, Place},
    shared::unheld::Unheld,
};
use crate::{os::probe, pool::ThreadReservation};
use ferry_core::{
    Access, DeviceId, Fence, Gate, Kind, Mark, Op, Plan, Point, Queue, Result, Route, Status, Ticket,
    sync::{Arc, Mutex, lock},
};
use std::{any::Any, time::Duration};

/// The queue of a shared stream.
pub struct Shared {
    native: usize,
    /// Over the shared stream. Nothing ever holds it back.
    pub front: Arc<Lane>,
    /// Where the host's parts are done; it has tickets of its own.
    side: Arc<Lane>,
    pub latch: Arc<Latch>,
    /// After an abort, and until more is submitted: done, since everything that was there is.
    aborted: Mutex<Option<Arc<dyn Fence>>>,
    pub unheld: Unheld,
    /// The queue as it was before it was shared, and its last ticket.
    earlier: Option<(Arc<Lane>, Ticket)>,
}

impl Shared {
    /// Over a stream of another library.
    fn adopted(
        device: &Arc<Device>,
        id: DeviceId,
        (native, stream): (usize, StreamHandle),
        status: Arc<Status>,
    ) -> Result<Shared> {
        Shared::over(Lane::shared(device.clone(), id, (stream, false), status, 0), native, None)
    }

    /// Goes on where `earlier` ends, in a CUDA stream of its own: what waits in the backlog there can come into no stream yet.
    pub fn following(earlier: &Arc<Lane>) -> Result<Shared> {
        earlier.flush();
        let (device, status, last) = (earlier.device.clone(), earlier.status.clone(), earlier.last());
        let stream = device.make_stream()?;
        let front = Lane::shared(device, earlier.id, (stream, true), status, last);
        let shared = Shared::over(front, stream.number(), Some((earlier.clone(), last)))?;
        let before: Arc<dyn Fence> = Arc::new(CudaFence(earlier.point()));
        shared.follow(last, before)?;
        Ok(shared)
    }

    fn over(front: Arc<Lane>, native: usize, earlier: Option<(Arc<Lane>, Ticket)>) -> Result<Shared> {
        let (device, status) = (front.device.clone(), Arc::new(Status::of_no_stream()));
        let _here = device.enter()?;
        let latch = Latch::new(&device)?;
        device.beforehand.prepare_all(&device)?;
        let side = Lane::beside(device.clone(), front.id, status)?;
        front.bounce().and(side.bounce())?;
        side.drops_when_halted(&front.status);
        Ok(Shared {
            native,
            front,
            side,
            latch,
            aborted: Mutex::default(),
            unheld: Unheld::default(),
            earlier,
        })
    }

    /// The shared stream waits for the fence, which stands behind its last op.
    fn follow(&self, last: Ticket, before: Arc<dyn Fence>) -> Result<()> {
        let _here = self.front.device.enter()?;
        if is_in_stream(&before) {
            return self.front.wait_for(last, vec![before], None).map(drop);
        }
        let wait = Op::Wait(Arc::new(ByHost(before.clone())));
        self.hold(Place { behind: last, before }, Some(wait), false)
    }

    /// When the shared stream has come here the other lane does the op `ticket`, and the shared stream waits for it.
    fn beside(&self, ticket: Ticket, op: Op) -> Result<()> {
        let op = self.as_done_beside(op);
        match Arrival::announce(&self.front, ticket - 1) {
            Ok(before) => {
                let work = Op::After(Box::new((vec![before.clone()], op)));
                let held = self.hold(Place { behind: ticket - 1, before }, Some(work), true);
                held.inspect_err(|_| self.unheld.set(ticket, Arc::new(CudaFence(self.side.point()))))
            }
            Err(error) => {
                self.front.discard(op);
                Err(error)
            }
        }
    }

    /// Holds the shared stream until the other lane has done `work`, which is the next op of the stream if it `is_op`.
    ///
    /// The other lane has the work before the stream is held. So an abort finds the work of every hold that is in the stream; and
    /// whoever finds a place in the stream behind a hold finds that among the holds, unless it is over.
    fn hold(&self, place: Place, work: Option<Op>, is_op: bool) -> Result<()> {
        let ticket = place.behind + Ticket::from(is_op);
        let hold = self.latch.hold(place);
        let (number, front, side) = (hold.number(), self.front.clone(), self.side.status.clone());
        let end = End { front, side, ticket, is_op, hold: Some(hold) };
        self.side.push_together(work.into_iter().chain([Op::Call(Box::new(move || end.come()))]));
        let _here = self.front.device.enter()?;
        self.latch.put(self.front.stream, number)
    }

    /// What is submitted next comes behind an op for which the driver refused to hold the stream.
    fn hold_again(&self) -> Result<()> {
        if self.unheld.get().is_none() {
            return Ok(());
        }
        let _here = self.front.device.enter()?;
        self.latch.put(self.front.stream, self.latch.newest())?;
        self.unheld.clear();
        Ok(())
    }

    /// Whether the host has something to do before or in the op.
    fn needs_host(&self, op: &Op) -> bool {
        match op {
            Op::Copy(plan) => {
                !plan.pieces().is_empty() && (plan.is_plain() || plan.route() == Route::HostToHost)
            }
            Op::CopyThrough(through) => !self.front.is_for_gpu(through),
            Op::Fill(fill) => fill.device.is_none(),
            Op::Reduce(_) => false,
            Op::Wait(fence) => !is_in_stream(fence),
            Op::After(after) => self.needs_host(&after.1) || !after.0.iter().all(is_in_stream),
            Op::Call(_) => true,
        }
    }

    /// The op as the other lane does it. A function of the user's is not run behind a failure that stops all, which that lane knows
    /// nothing of. And the host waits for fences: a stream that does may share its way into the GPU with the one that we hold.
    fn as_done_beside(&self, op: Op) -> Op {
        match op {
            Op::Call(function) => {
                let front = self.front.clone();
                Op::Call(Box::new(move || {
                    if !front.status.is_halted() {
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

    /// A stream that is being captured takes work into a graph, to be run who knows when: we could keep no promise.
    fn refuse_capture(&self) -> Result<()> {
        refuse_capture(&*self.front.device.enter()?, self.front.stream)
    }

    fn abort(&self) {
        if let Some((earlier, _)) = &self.earlier {
            earlier.abort();
        }
        let last = self.front.last();
        let end: Arc<dyn Fence> = Arc::new(CudaFence(self.front.point_after(last)));
        self.side.abort();
        // It was of the tickets there, which nobody knows.
        self.side.status.take_error();
        let _ = end.wait(None);
        *lock(&self.aborted) = Some(end);
    }

    /// A function of the user's may still run that an abort did not wait for, and later work comes after it.
    fn follow_aborted(&self) -> Result<()> {
        let Some(before) = lock(&self.aborted).take() else { return Ok(()) };
        let place = Place { behind: self.front.last(), before: before.clone() };
        self.hold(place, None, false).inspect_err(|_| *lock(&self.aborted) = Some(before))
    }
}

/// The end of a hold, behind its work. If an abort drops it, the op is dropped or being stopped.
struct End {
    front: Arc<Lane>,
    /// What the work beside the stream reports to.
    side: Arc<Status>,
    /// Whose failure it is if the work fails.
    ticket: Ticket,
    is_op: bool,
    hold: Option<Hold>,
}

impl End {
    /// The work is done: the shared stream goes on.
    fn come(mut self) {
        if let Some(error) = self.side.take_error().filter(|error| error.kind != Kind::Aborted) {
            self.front.fail(self.ticket, error);
        }
        self.hold = None;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let Lane { status, device, .. } = &*self.front;
        let is_aborted = !status.is_halted() && device.lost().is_none();
        if self.hold.is_some() && self.is_op && is_aborted {
            // Said before the stream goes on.
            status.drop_through(self.ticket);
        }
    }
}

impl Queue for Shared {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        let is_ready = self.refuse_capture().and_then(|()| self.hold_again());
        if let Err(why) = is_ready.and_then(|()| self.follow_aborted()) {
            self.front.discard(op);
            return Err(why);
        }
        if !self.needs_host(&op) {
            return Ok(self.front.push(op));
        }
        let ticket = self.front.last() + 1;
        let done = match op {
            Op::Copy(plan) if plan.route() != Route::HostToHost => self.relay(ticket, &plan),
            op => self.beside(ticket, op),
        };
        self.front.note(ticket, done);
        // Counted now that the stream is held: nobody sees it pass before that.
        Ok(self.front.push(Op::Copy(Plan::default())))
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        if self.front.device.lost().is_some() {
            return Ok(Arc::new(CudaFence(self.front.point())));
        }
        self.refuse_capture()?;
        if self.unheld.get().is_some() {
            return Ok(self.unheld.before(Ticket::MAX, Arc::new(CudaFence(self.front.end_unsettled()?))));
        }
        Ok(Arc::new(CudaFence(self.front.end()?)))
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        if let Some((earlier, last)) = &self.earlier
            && ticket <= *last
        {
            return Arc::new(CudaFence(earlier.point_after(ticket)));
        }
        let point = Arc::new(CudaFence(self.front.point_after(ticket)));
        if self.front.status.passed() >= ticket {
            return point;
        }
        // Not behind a hold: it must not wait for what the host does later. The point may have come there just now.
        self.unheld.before(ticket, self.latch.before_hold(ticket).unwrap_or(point))
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        self.refuse_capture()?;
        Ok(self.unheld.before_mark(Arc::new(CudaFence(self.front.mark()?))))
    }

    fn share(&self) -> Result<usize> {
        Ok(self.native)
    }

    fn abort(&self) {
        self.abort();
    }
}

/// Told by the driver when a shared stream has come somewhere.
pub struct Arrival {
    lane: Arc<Lane>,
    behind: Ticket,
    gate: Arc<Gate>,
    /// Tells it on.
    thread: ThreadReservation,
}

impl Arrival {
    /// A fence that is done when the lane's stream has come to its end as it is now, behind the op `behind`.
    pub fn announce(lane: &Arc<Lane>, behind: Ticket) -> Result<Arc<dyn Fence>> {
        let (gate, thread) = (Gate::new(), lane.device.workers.reserve()?);
        let arrival = Box::new(Arrival { lane: lane.clone(), behind, gate: gate.clone(), thread });
        lane.device.enter()?.call_back(lane.stream, arrival).map_err(|(why, _)| why)?;
        Ok(gate)
    }

    fn tell(lane: &Lane, behind: Ticket, gate: &Gate, code: Code) {
        lane.note(behind, lane.device.check("the GPU's work", code));
        lane.settle(behind);
        gate.open();
    }
}

impl StreamCallback for Arrival {
    fn reached(self: Box<Self>, code: Code) {
        let Arrival { lane, behind, gate, thread } = *self;
        thread.run(Box::new(move || Arrival::tell(&lane, behind, &gate, code)));
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

fn refuse_capture(current: &Current<'_>, stream: StreamHandle) -> Result<()> {
    if !current.is_captured(stream)? {
        return Ok(());
    }
    let note = format!(
        "CUDA stream {:#x} is being captured into a graph: it takes no copies of ours meanwhile",
        stream.number()
    );
    Err(Kind::Captured.because(note))
}

impl Cuda {
    /// # Safety
    /// As [`NativeStreams::adopt`](ferry_core::NativeStreams::adopt).
    pub unsafe fn adopt_stream(
        &self,
        device: DeviceId,
        native: usize,
        status: Arc<Status>,
    ) -> Result<Shared> {
        let (id, device) = (device, self.device(device)?);
        let current = device.enter()?;
        // SAFETY: the caller's promise.
        let stream = unsafe { StreamHandle::of_number(native) };
        if stream == StreamHandle::PER_THREAD {
            let note =
                "CUDA's per-thread default stream is another one in each thread: adopt a stream of its own";
            return Err(Kind::BadRoute.because(note));
        }
        if stream != StreamHandle::LEGACY {
            probe::accessible(native, size_of::<usize>(), Access::Read)?;
            refuse_context(&current, stream)?;
        }
        refuse_capture(&current, stream)?;
        Shared::adopted(device, id, (native, stream), status)
    }
}

/// A stream of another context, perhaps of another GPU.
fn refuse_context(current: &Current<'_>, stream: StreamHandle) -> Result<()> {
    let (own, number) = (current.context().handle(), stream.number());
    let Some(context) = current.context_of(stream)?.filter(|context| *context != own) else {
        return Ok(());
    };
    let note = format!(
        "CUDA stream {number:#x} belongs to context {context:#x}: it must be of the primary context of the \
         current device's GPU, {own:#x}"
    );
    Err(Kind::BadRoute.because(note))
}
