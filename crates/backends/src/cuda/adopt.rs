//! Streams that other libraries of the process use as well: PyTorch's current stream, or one of ours that CuPy was told of.
//!
//! What another library puts into such a stream has no ticket, and cannot wait in a backlog of ours. So everything must be in the
//! CUDA stream, in order, when a call returns. What the GPU does by itself goes there as always. What the host has to do is
//! done beside it, by a lane of our own which first waits for the shared stream and which that stream then waits for.

use super::{
    Cuda,
    device::Device,
    driver::{self, Handle},
    fence::{CudaFence, of_cuda},
    latch::{Hold, Latch, Reason},
    queue::Lane,
};
use crate::probe;
use ferry_core::{
    Access, DeviceId, Fence, Kind, Op, Plan, Queue, QueueOptions, Result, Route, Status, Ticket,
    indirect::Through,
    sync::{Arc, Mutex, lock},
};

/// The queue of a shared stream.
pub struct Shared {
    native: Handle,
    /// Over the shared stream. Nothing ever holds it back.
    front: Arc<Lane>,
    /// Where the host's parts are done; it has tickets of its own.
    side: Arc<Lane>,
    latch: Arc<Latch>,
    /// After an abort, and until more is submitted: done, since everything that was there is.
    aborted: Mutex<Option<Arc<dyn Fence>>>,
    /// The queue as it was before it was shared, and its last ticket.
    earlier: Option<(Arc<Lane>, Ticket)>,
}

impl Shared {
    /// Over a stream of another library.
    fn adopted(device: &Arc<Device>, id: DeviceId, native: Handle, status: Arc<Status>) -> Result<Shared> {
        let stream = if native == 0 { driver::STREAM_LEGACY } else { native };
        Shared::over(Lane::shared(device.clone(), id, (stream, false), status, 0), native, None)
    }

    /// Goes on where `earlier` ends, in a CUDA stream of its own: what waits in the backlog there can come into no stream yet.
    pub fn following(earlier: &Arc<Lane>) -> Result<Shared> {
        earlier.flush();
        let (device, status, last) = (earlier.device.clone(), earlier.status.clone(), earlier.last());
        let stream = Lane::make_stream(&device)?;
        let front = Lane::shared(device, earlier.id, (stream, true), status, last);
        let shared = Shared::over(front, stream, Some((earlier.clone(), last)))?;
        let before: Arc<dyn Fence> = Arc::new(CudaFence(earlier.point()));
        let hold = shared.hold(Reason { op: None, behind: last, before: before.clone() })?;
        shared.side.push(Op::Wait(before));
        shared.let_go(last, hold);
        Ok(shared)
    }

    fn over(front: Arc<Lane>, native: Handle, earlier: Option<(Arc<Lane>, Ticket)>) -> Result<Shared> {
        let (device, status) = (front.device.clone(), Arc::new(Status::new(0, None)));
        let _here = device.enter()?;
        let latch = Latch::new(&device)?;
        // Loading them later could wait for a stream that we hold.
        device.kernels()?;
        let side = Lane::new(device.clone(), front.id, QueueOptions::default(), status)?;
        Ok(Shared { native, front, side, latch, aborted: Mutex::default(), earlier })
    }

    /// When the shared stream has come here the other lane does the op `ticket`, and the shared stream waits for it.
    fn beside(&self, ticket: Ticket, op: Op) -> Result<()> {
        let op = if let Op::Call(function) = op { self.unless_halted(ticket, function) } else { op };
        match self.hold_for(ticket) {
            Ok((before, hold)) => {
                self.side.push(Op::After(Box::new((vec![before], op))));
                self.let_go(ticket, hold);
                Ok(())
            }
            Err(error) => {
                self.front.discard(op);
                Err(error)
            }
        }
    }

    /// Holds the shared stream for the op `ticket`; the fence is done when the stream has come there.
    fn hold_for(&self, ticket: Ticket) -> Result<(Arc<dyn Fence>, Hold)> {
        let before: Arc<dyn Fence> = Arc::new(CudaFence(self.front.end()?));
        let why = Reason { op: Some(ticket), behind: ticket - 1, before: before.clone() };
        Ok((before, self.hold(why)?))
    }

    fn hold(&self, why: Reason) -> Result<Hold> {
        let _here = self.front.device.enter()?;
        self.latch.hold(self.front.stream, why)
    }

    /// Lets the shared stream go when the other lane has come so far. What failed there is a failure of the op `ticket`.
    fn let_go(&self, ticket: Ticket, hold: Hold) {
        let (front, status) = (self.front.clone(), self.side.status.clone());
        self.side.push(Op::Call(Box::new(move || {
            if let Some(error) = status.take_error().filter(|error| error.kind != Kind::Aborted) {
                front.fail(ticket, error);
            }
            drop(hold);
        })));
    }

    /// A function of the user's is not run behind a failure that stops all. Other lanes see that themselves.
    fn unless_halted(&self, ticket: Ticket, function: Box<dyn FnOnce() + Send>) -> Op {
        let front = self.front.clone();
        Op::Call(Box::new(move || {
            front.settle(ticket - 1);
            if !front.status.is_halted() {
                function();
            }
        }))
    }

    /// A stream that is being captured takes work into a graph, to be run who knows when: we could keep no promise.
    fn refuse_capture(&self) -> Result<()> {
        let _here = self.front.device.enter()?;
        refuse_capture(&self.front.device, self.front.stream)
    }

    fn abort(&self) {
        if let Some((earlier, _)) = &self.earlier {
            earlier.abort();
        }
        let last = self.front.last();
        let end: Arc<dyn Fence> = Arc::new(CudaFence(self.front.point_after(last)));
        if let Some(ticket) = self.latch.newest_op() {
            self.front.status.drop_through(ticket);
        }
        self.side.abort();
        // It was of the tickets there, which nobody knows.
        self.side.status.take_error();
        let _ = end.wait(None);
        *lock(&self.aborted) = Some(end);
    }

    /// A function of the user's may still run that an abort did not wait for, and later work comes after it.
    fn follow_aborted(&self) -> Result<()> {
        let Some(before) = lock(&self.aborted).take() else { return Ok(()) };
        let last = self.front.last();
        let hold = self.hold(Reason { op: None, behind: last, before })?;
        self.let_go(last, hold);
        Ok(())
    }
}

impl Queue for Shared {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        if let Err(why) = self.refuse_capture().and_then(|()| self.follow_aborted()) {
            self.front.discard(op);
            return Err(why);
        }
        if !needs_host(&op) {
            return Ok(self.front.push(op));
        }
        let ticket = self.front.last() + 1;
        let done = self.beside(ticket, op);
        self.front.note(ticket, done);
        // Counted now that the stream is held: nobody sees it pass before that.
        Ok(self.front.push(Op::Copy(Plan::default())))
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        if self.front.device.lost().is_some() {
            return Ok(Arc::new(CudaFence(self.front.point())));
        }
        self.refuse_capture()?;
        Ok(Arc::new(CudaFence(self.front.end()?)))
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        if let Some((earlier, last)) = &self.earlier
            && ticket <= *last
        {
            return Arc::new(CudaFence(earlier.point_after(ticket)));
        }
        // Not behind a hold: it must not wait for what the host does later.
        let before = self.latch.before_hold(ticket);
        before.unwrap_or_else(|| Arc::new(CudaFence(self.front.point_after(ticket))))
    }

    fn mark(&self) -> Result<Arc<dyn Fence>> {
        self.refuse_capture()?;
        Ok(Arc::new(CudaFence(self.front.mark()?)))
    }

    fn share(&self) -> Result<usize> {
        Ok(self.native)
    }

    fn abort(&self) {
        self.abort();
    }

    /// On another thread, as for every lane.
    fn look(&self) {
        for lane in self.earlier.iter().map(|(earlier, _)| earlier).chain([&self.side]) {
            let lane = lane.clone();
            self.front.device.workers.run(Box::new(move || drop(lane.drop_backlog(false))));
        }
    }
}

/// Whether the host has something to do before or in the op.
fn needs_host(op: &Op) -> bool {
    match op {
        Op::Copy(plan) => !plan.pieces().is_empty() && (plan.is_plain() || plan.route() == Route::HostToHost),
        Op::CopyThrough(through) => {
            matches!(through.through, Through::Cells { .. }) || through.memory.has_mappings()
        }
        Op::Fill(fill) => fill.device.is_none(),
        Op::Reduce(_) => false,
        Op::Wait(fence) => !is_in_stream(fence),
        Op::After(after) => needs_host(&after.1) || !after.0.iter().all(is_in_stream),
        Op::Call(_) => true,
    }
}

/// Whether a stream can wait for the fence by itself.
fn is_in_stream(fence: &Arc<dyn Fence>) -> bool {
    of_cuda(&**fence).is_some_and(|point| point.is_in_stream())
}

/// The context is current.
fn refuse_capture(device: &Device, stream: Handle) -> Result<()> {
    let Some(ask) = device.driver.calls.cuStreamIsCapturing else { return Ok(()) };
    let mut state = 0;
    // SAFETY: the stream is alive and `state` receives a number.
    device.check("cuStreamIsCapturing", unsafe { ask(stream, &mut state) })?;
    if state == driver::CAPTURES_NOTHING {
        return Ok(());
    }
    let note = format!(
        "CUDA stream {stream:#x} is being captured into a graph: it takes no copies of ours meanwhile"
    );
    Err(Kind::Captured.because(note))
}

impl Cuda {
    /// # Safety
    /// As [`Backend::adopt`](ferry_core::Backend::adopt).
    pub(super) unsafe fn adopt_stream(
        &self,
        device: DeviceId,
        native: Handle,
        status: Arc<Status>,
    ) -> Result<Shared> {
        let (id, device) = (device, self.device(device)?);
        let _here = device.enter()?;
        if native == driver::STREAM_PER_THREAD {
            let note =
                "CUDA's per-thread default stream is another one in each thread: adopt a stream of its own";
            return Err(Kind::BadRoute.because(note));
        }
        if native > driver::STREAM_LEGACY {
            probe::accessible(native, size_of::<usize>(), Access::Read)?;
            refuse_context(device, native)?;
        }
        refuse_capture(device, native)?;
        Shared::adopted(device, id, native, status)
    }
}

/// A stream of another context, perhaps of another GPU.
fn refuse_context(device: &Device, native: Handle) -> Result<()> {
    let Some(ask) = device.driver.calls.cuStreamGetCtx else { return Ok(()) };
    let mut context = 0;
    // SAFETY: the caller's promise: it is a stream. `context` receives its context.
    device.check("cuStreamGetCtx", unsafe { ask(native, &mut context) })?;
    if context == device.context {
        return Ok(());
    }
    let note = format!(
        "CUDA stream {native:#x} belongs to context {context:#x}: it must be of the primary context of the current device's GPU, {:#x}",
        device.context
    );
    Err(Kind::BadRoute.because(note))
}
