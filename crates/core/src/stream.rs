//! A stream: a queue of one device, the lock that orders its submissions, and its status.

use crate::{
    DeviceId, Error, Fence, Memory, Observer, Op, Queue, Result, Status, Ticket,
    runtime::Orphans,
    sync::{Arc, Mutex, lock},
};
use std::time::Duration;

/// Runs work in the order it was submitted. Streams run side by side unless an event orders them.
pub struct Stream {
    pub(crate) id: u64,
    pub(crate) device: DeviceId,
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) status: Arc<Status>,
    pub(crate) last: Mutex<Ticket>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) observer: Option<Arc<dyn Observer>>,
}

impl Stream {
    /// The number that observers know this stream by.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The device whose queue this is.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// What the stream and its queue share.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Submits the op that `make` plans. If memory was freed between planning and submitting, `make` is asked again, so that
    /// no op with addresses of freed memory is ever queued (and a free that comes later waits for this op before the memory
    /// is used again).
    ///
    /// # Safety
    /// Plain host memory in the op stays valid until the stream has passed the returned ticket.
    pub unsafe fn submit<E: From<Error>>(
        &self,
        mut make: impl FnMut(&Memory) -> Result<Op, E>,
    ) -> Result<Ticket, E> {
        loop {
            let removals = self.memory.table().removals();
            let op = make(&self.memory)?;
            let mut last = lock(&self.last);
            if self.memory.table().removals() == removals {
                // SAFETY: the plan is current under the lock that `busy` takes before memory is given back, so known memory
                // outlives the op; the caller vouches for plain memory.
                return Ok(unsafe { self.hand_over(&mut last, op)? });
            }
        }
    }

    /// Later work of this stream waits until `fence` is done.
    pub fn wait_for(&self, fence: Arc<dyn Fence>) -> Result<Ticket> {
        // SAFETY: the op has no addresses.
        unsafe { self.hand_over(&mut lock(&self.last), Op::Wait(fence)) }
    }

    /// Runs `function` on a thread where it may block, in stream order.
    pub fn call(&self, function: impl FnOnce() + Send + 'static) -> Result<Ticket> {
        // SAFETY: the op has no addresses.
        unsafe { self.hand_over(&mut lock(&self.last), Op::Call(Box::new(function))) }
    }

    /// # Safety
    /// As [`Queue::submit`].
    unsafe fn hand_over(&self, last: &mut Ticket, op: Op) -> Result<Ticket> {
        let ticket = *last + 1;
        if let Some(observer) = &self.observer {
            observer.submitted(self.id, ticket, &op);
        }
        // SAFETY: passed on from the caller.
        *last = unsafe { self.queue.submit(op)? };
        debug_assert_eq!(*last, ticket, "queues number ops and marks in order");
        Ok(ticket)
    }

    /// A fence after everything submitted so far.
    pub fn fence(&self) -> Result<Arc<dyn Fence>> {
        self.queue.fence()
    }

    /// A fence that remembers when it was reached.
    pub fn mark(&self) -> Result<Arc<dyn Fence>> {
        let mut last = lock(&self.last);
        let mark = self.queue.mark()?;
        *last += 1;
        Ok(mark)
    }

    /// Whether everything submitted so far is done.
    pub fn is_idle(&self) -> Result<bool> {
        Ok(self.status.passed() >= *lock(&self.last) || self.fence()?.is_done())
    }

    /// Waits for everything submitted so far, and reports the first failure that nobody has been told about.
    pub fn synchronize(&self, limit: Option<Duration>) -> Result<()> {
        self.fence()?.wait(limit)?;
        self.status.take_error().map_or(Ok(()), Err)
    }

    /// A fence to wait for before memory that is now unknown may be used again; `None` if nothing is in flight.
    pub(crate) fn busy(&self) -> Result<Option<Arc<dyn Fence>>> {
        let last = lock(&self.last);
        if self.status.passed() >= *last {
            return Ok(None);
        }
        self.queue.flush();
        let fence = self.queue.fence()?;
        Ok((!fence.is_done()).then_some(fence))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Work in flight outlives the stream; memory freed later must still wait for it.
        if let Ok(Some(fence)) = self.busy() {
            self.orphans.keep(fence);
        }
    }
}
