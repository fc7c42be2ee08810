//! The queue that a stream of the core holds: over a stream of its own, and over a shared one from when other
//! libraries are told of it.

use crate::cuda::{
    dispatch::OpQueue,
    order::fence::CudaFence,
    shared::queue::{SharedQueue, SharingDevice},
};
use ferry_core::{Fence, Linear, Mark, Op, Queue, Result, Ticket, sync::Arc};
use std::sync::OnceLock;

/// A queue with a stream of its own, at first.
pub struct CudaQueue {
    own: OpQueue,
    device: Arc<SharingDevice>,
    /// What the queue is since it was shared.
    shared: OnceLock<SharedQueue>,
}

impl CudaQueue {
    /// A queue of the device that is not shared yet.
    pub fn new(own: OpQueue, device: Arc<SharingDevice>) -> CudaQueue {
        CudaQueue { own, device, shared: OnceLock::new() }
    }
}

impl Queue for CudaQueue {
    #[inline]
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        if let Some(why) = self.own.gpu.device.lost() {
            self.own.discard(op);
            return Err(why.clone());
        }
        match self.shared.get() {
            None => Ok(self.own.submit(op)),
            // SAFETY: passed on from the caller.
            Some(shared) => unsafe { shared.submit(op) },
        }
    }

    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        let is_usual = self.own.gpu.device.lost().is_none() && self.shared.get().is_none();
        let small = if is_usual { self.own.submit_small(&copy) } else { None };
        match small {
            Some(ticket) => Ok(ticket),
            // SAFETY: passed on from the caller.
            None => unsafe { self.submit(Op::Copy(copy.into())) },
        }
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        match self.shared.get() {
            None => Ok(Arc::new(CudaFence(self.own.lane.point()))),
            Some(shared) => shared.fence(),
        }
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        match self.shared.get() {
            None => Arc::new(CudaFence(self.own.lane.point_after(ticket))),
            Some(shared) => shared.fence_after(ticket),
        }
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        match self.shared.get() {
            None => Ok(Arc::new(CudaFence(self.own.lane.mark()?))),
            Some(shared) => shared.mark(),
        }
    }

    fn flush(&self) {
        self.own.lane.flush();
    }

    fn share(&self) -> Result<usize> {
        if self.shared.get().is_none() {
            // Nothing is submitted or shared meanwhile.
            let _ = self.shared.set(SharedQueue::following(&self.own, &self.device)?);
        }
        self.shared.get().map_or(Ok(0), Queue::share)
    }

    fn abort(&self) {
        match self.shared.get() {
            None => self.own.lane.abort(),
            Some(shared) => shared.abort(),
        }
    }
}

impl Drop for CudaQueue {
    fn drop(&mut self) {
        self.own.lane.flush();
    }
}
