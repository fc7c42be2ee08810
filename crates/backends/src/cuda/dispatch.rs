//! A queue over one CUDA stream: hands each op to the part that does it.
//!
//! A small copy goes to the coalescing window, a copy through a descriptor to the window as well or to the
//! host, pageable memory to staging, everything else straight to the order of the lane. The queues of shared
//! streams, which own two of these, are a floor above.

use crate::bytes::copy::{copy_all, fill_all};
use crate::cuda::{
    coalesce::coalescer::{Coalescer, small, small_segment},
    coalesce::sender::Sender,
    descriptors::copies::DescriptorCopies,
    descriptors::late_bound::LateBoundCopy,
    descriptors::queue_memory::DeviceDescriptors,
    order::backlog::HostPart,
    order::gpu_clock::GpuClock,
    order::host_work,
    order::lane::Lane,
    order::progress::StreamProgress,
    order::task::{BacklogEnd, LaunchTurn, Next, Task, WaitingWork},
    order::waits::WaitFor,
    order::watcher::Watcher,
    staging::Staging,
    stream::device::Device,
    stream::{Stream, StreamKind, copies, reduce},
};
use crate::pool::Job;
use ferry_core::{
    DeviceId, Fill, Linear, Op, Plan, Result, Route, Status, Ticket, reduce::Reduction, sync::Arc,
};

/// One GPU with what the queues of a device share.
pub struct Gpu {
    /// The number of the device.
    pub id: DeviceId,
    /// What its streams share.
    pub device: Arc<Device>,
    /// Polls points.
    pub watcher: Arc<Watcher>,
    /// The clock of the GPU, which devices of one GPU share.
    pub clock: Arc<GpuClock>,
    /// What copies through descriptors share.
    pub descriptors: Arc<DeviceDescriptors>,
    /// Moves pageable memory.
    pub staging: Arc<Staging>,
    /// Sends what was coalesced.
    pub sender: Arc<Sender<Lane>>,
}

impl Gpu {
    /// Loads and makes everything that is otherwise made when first needed, before a stream is held.
    pub fn load_all(&self) -> Result<()> {
        let current = self.device.enter()?;
        self.descriptors.kernel(&current)?;
        self.descriptors.liveness_at(&current)?;
        self.device.load_all(&current)
    }
}

/// A queue over one stream.
pub struct OpQueue {
    /// The GPU that it is of.
    pub gpu: Arc<Gpu>,
    /// The order of its ops.
    pub lane: Arc<Lane>,
    coalescer: Coalescer,
}

impl OpQueue {
    /// A queue with a stream of its own.
    pub fn new(gpu: &Arc<Gpu>, kind: StreamKind, status: Arc<Status>) -> Result<OpQueue> {
        if status.is_observed() {
            // Otherwise the time that it takes to load a kernel would be the time of the first copy with it.
            gpu.load_all()?;
        }
        Ok(OpQueue::over(gpu, Stream::new(&gpu.device, gpu.id, kind)?, status, 0))
    }

    /// A queue over a stream. Its next op has the ticket after `last`.
    pub fn over(gpu: &Arc<Gpu>, stream: Arc<Stream>, status: Arc<Status>, last: Ticket) -> OpQueue {
        let descriptors = DescriptorCopies::new(gpu.descriptors.clone(), status.clone());
        let (watcher, clock) = (gpu.watcher.clone(), gpu.clock.clone());
        let progress = StreamProgress::new(stream, status, watcher, clock, descriptors.clone());
        let lane = Lane::new(progress, descriptors.clone(), last);
        let coalescer = Coalescer::new(lane.clone(), descriptors, gpu.sender.clone());
        OpQueue { gpu: gpu.clone(), lane, coalescer }
    }

    /// Submits an op.
    #[inline(always)]
    pub fn submit(&self, op: Op) -> Ticket {
        match &op {
            Op::Copy(plan) => match small(self.lane.stream(), plan) {
                Some((direction, segment)) => self.coalescer.submit_small(direction, segment, || match op {
                    Op::Copy(plan) => plan,
                    _ => unreachable!("it is a copy"),
                }),
                None => self.submit_other(op),
            },
            _ => self.submit_other(op),
        }
    }

    #[inline(never)]
    fn submit_other(&self, op: Op) -> Ticket {
        match op {
            Op::CopyThrough(late) => match DescriptorCopies::read_by_gpu(&self.lane.progress, &late) {
                Some(at) => self.coalescer.submit_descriptor(at, late),
                None => self.lane.submit(self.coalescer.late_bound(late)),
            },
            op => self.lane.submit(self.task(op)),
        }
    }

    /// Submits a copy of one row if it is small.
    pub fn submit_small(&self, copy: &Linear) -> Option<Ticket> {
        let (direction, segment) = small_segment(self.lane.stream(), copy.segment(), copy.route())?;
        Some(self.coalescer.submit_small(direction, segment, || (*copy).into()))
    }

    /// Submits ops of which an abort finds all or none.
    pub fn submit_together(&self, ops: impl IntoIterator<Item = Op>) {
        self.lane.submit_together(ops.into_iter().map(|op| self.task(op)));
    }

    /// Drops an op that will not run.
    pub fn discard(&self, op: Op) {
        if let Op::Call(function) = op {
            self.lane.discard(Some(function));
        }
    }

    fn task(&self, op: Op) -> OpTask {
        match op {
            Op::Copy(plan) if plan.pieces().is_empty() => OpTask::Nothing,
            Op::Copy(plan) if plan.route() == Route::HostToHost => OpTask::HostCopy(plan),
            Op::Copy(plan) if plan.is_plain() => OpTask::Pageable(plan, self.gpu.staging.clone()),
            Op::Copy(plan) => OpTask::Copy(plan),
            Op::Fill(fill) if fill.device.is_some() => OpTask::Fill(fill),
            Op::Fill(fill) => OpTask::HostFill(fill),
            Op::CopyThrough(late) => OpTask::LateBound(self.coalescer.late_bound(late)),
            Op::Reduce(reduction) => OpTask::Reduce(reduction),
            Op::Wait(fence) => OpTask::Wait(WaitFor { fences: vec![fence], then: None }),
            Op::After(after) => {
                let (fences, op) = *after;
                OpTask::Wait(WaitFor { fences, then: Some(Box::new(self.task(op))) })
            }
            Op::Call(function) => OpTask::Call(function),
        }
    }
}

/// An op, sorted by what does it.
enum OpTask {
    /// Nothing is to be done.
    Nothing,
    /// By the GPU.
    Copy(Plan),
    /// Between pageable memory and the GPU.
    Pageable(Plan, Arc<Staging>),
    /// By the CPU.
    HostCopy(Plan),
    /// By the GPU.
    Fill(Fill),
    /// By the CPU.
    HostFill(Fill),
    /// By the GPU.
    Reduce(Box<Reduction>),
    /// Addresses are read when it runs.
    LateBound(LateBoundCopy),
    /// For fences, and then perhaps another op.
    Wait(WaitFor),
    /// A function of the user's.
    Call(Job),
}

impl Task for OpTask {
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next> {
        let (stream, current) = (turn.stream(), turn.current);
        match self {
            OpTask::Nothing => {}
            OpTask::Copy(mut plan) => copies::copy(stream, current, &mut plan)?,
            OpTask::Pageable(plan, staging) if stream.is_waited_for() => {
                turn.wait_for_stream()?;
                staging.copy(stream, current, &plan)?;
                turn.pass();
            }
            // The driver may block until a copy of pageable memory is done, and only its caller should feel
            // that.
            OpTask::Pageable(plan, staging) => {
                return host_work::at_once(turn, move |stream, current| staging.copy(stream, current, &plan));
            }
            OpTask::HostCopy(plan) => {
                // SAFETY: the submitter keeps the rows valid until the op has passed.
                return host_work::move_bytes(turn, move || unsafe { copy_all(&plan) });
            }
            OpTask::Fill(fill) => stream.fill(current, &fill)?,
            OpTask::HostFill(fill) => {
                // SAFETY: the submitter keeps the range valid until the op has passed.
                return host_work::move_bytes(turn, move || unsafe { fill_all(&fill) });
            }
            OpTask::Reduce(reduction) => reduce::reduce(stream, current, &reduction)?,
            OpTask::LateBound(copy) => return copy.launch(turn),
            OpTask::Wait(wait) => return wait.launch(turn),
            OpTask::Call(function) => return host_work::when_reached(turn, HostPart::Call, function),
        }
        Ok(Next::Follows)
    }

    fn park(self, at: BacklogEnd<'_>) -> Option<WaitingWork> {
        match self {
            OpTask::LateBound(copy) => copy.park(at),
            task => Some(WaitingWork::Task(Box::new(task))),
        }
    }

    fn into_function(self) -> Option<Job> {
        match self {
            OpTask::Call(function) => Some(function),
            OpTask::Wait(wait) => wait.into_function(),
            _ => None,
        }
    }
}
