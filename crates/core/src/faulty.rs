//! Copies that fail because somebody asked for it, so that error paths can be tested.
//!
//! A queue is wrapped; an op that is to fail is replaced by one that reports the failure when its turn comes.
//! So a failure that was asked for takes the way of every other one, on every backend: through the stream's
//! [`Status`] to the call that reports it.

use crate::{
    Error, Fence, Linear, Mark, Op, Queue, Result, Status, Ticket,
    sync::{Arc, AtomicU64, Ordering},
};

/// Says which copies, fills and reductions fail.
pub trait CopyFaults: Send + Sync {
    /// Counts one more, and says what it fails with, if it is to fail.
    fn next(&self) -> Option<Error>;
}

/// A queue some of whose ops fail instead of running.
pub(crate) struct FaultyQueue {
    inner: Box<dyn Queue>,
    status: Arc<Status>,
    faults: Arc<dyn CopyFaults>,
    /// The newest ticket. The core brings one op at a time.
    newest: AtomicU64,
}

impl FaultyQueue {
    pub(crate) fn new(
        inner: Box<dyn Queue>,
        status: Arc<Status>,
        faults: Arc<dyn CopyFaults>,
    ) -> FaultyQueue {
        FaultyQueue { inner, status, faults, newest: AtomicU64::new(0) }
    }

    /// The op, or one that fails in its place.
    fn pick(&self, op: Op) -> Op {
        match op {
            Op::Copy(_) | Op::CopyThrough(_) | Op::Fill(_) | Op::Reduce(_) => match self.faults.next() {
                Some(error) => self.failing(error),
                None => op,
            },
            Op::After(after) => {
                let (fences, op) = *after;
                Op::After(Box::new((fences, self.pick(op))))
            }
            Op::Wait(_) | Op::Call(_) => op,
        }
    }

    fn failing(&self, error: Error) -> Op {
        let (status, ticket) = (self.status.clone(), self.newest.load(Ordering::Relaxed) + 1);
        Op::Call(Box::new(move || status.fail_at(ticket, error)))
    }

    fn numbered(&self, taken: Result<Ticket>) -> Result<Ticket> {
        taken.inspect(|ticket| self.newest.store(*ticket, Ordering::Relaxed))
    }
}

impl Queue for FaultyQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        // SAFETY: passed on from the caller; an op that fails has no addresses.
        self.numbered(unsafe { self.inner.submit(self.pick(op)) })
    }

    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        let taken = match self.faults.next() {
            // SAFETY: the op has no addresses.
            Some(error) => unsafe { self.inner.submit(self.failing(error)) },
            // SAFETY: passed on from the caller.
            None => unsafe { self.inner.submit_linear(copy) },
        };
        self.numbered(taken)
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        self.inner.fence()
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        self.inner.fence_after(ticket)
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        self.inner.mark().inspect(|_| {
            self.newest.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn flush(&self) {
        self.inner.flush();
    }

    fn share(&self) -> Result<usize> {
        self.inner.share()
    }

    fn abort(&self) {
        self.inner.abort();
    }
}
