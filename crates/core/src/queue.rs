//! What a stream needs of a device: a queue that runs ops in order.

use crate::{Fence, Kind, Linear, Mark, Op, Result, Ticket, sync::Arc};

/// What a backend may know about the use of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueOptions {
    /// The submitting thread waits at once, as synchronous calls do: no other thread needs to be woken for
    /// the work.
    pub waited: bool,
}

/// Runs ops in the order given; one per stream. Different queues run side by side.
///
/// A queue of a stream that is stopped for good ([`Status::is_halted`](crate::Status::is_halted)) drops the
/// work it has. It checks that before each piece of work, and registers with
/// [`Status::on_halt`](crate::Status::on_halt) what drops the work that waits for something else.
pub trait Queue: Send + Sync {
    /// Returns once the op is queued; failures of the work itself go to the stream's `Status`. Ops and marks
    /// are numbered from 1 in the order they come, and the core brings one at a time.
    ///
    /// # Safety
    /// Every address in `op` stays valid until the status has passed the returned ticket.
    unsafe fn submit(&self, op: Op) -> Result<Ticket>;

    /// As `submit` for a copy in one piece, which most ops are: where it can be done in fewer steps.
    ///
    /// # Safety
    /// As `submit`.
    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        // SAFETY: passed on from the caller.
        unsafe { self.submit(Op::Copy(copy.into())) }
    }

    /// A fence that is done when everything submitted so far is done. It need not remember when that was.
    fn fence(&self) -> Result<Arc<dyn Fence>>;

    /// A fence for work that was submitted before: done when `ticket` has passed. It may wait for later work
    /// of the device as well, but never for what the host has to do behind `ticket`: a function of the
    /// user's, a wait for another queue. There is always one, since a program that lends memory to a queue
    /// must be able to wait for it.
    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence>;

    /// As `fence`, and it remembers when it was reached: what an event records. Takes a ticket, as an op
    /// does.
    fn mark(&self) -> Result<Arc<dyn Mark>>;

    /// Submits to the device what was kept back to be coalesced.
    fn flush(&self) {}

    /// Shares the stream beneath with other libraries of the process, and says what the driver calls it. From
    /// here on everything is in that stream, in order, when `submit` returns, and nothing is kept back: what
    /// another library puts there comes after it. A fence stands for what others put there before it, too.
    /// Nothing is submitted meanwhile.
    fn share(&self) -> Result<usize> {
        Err(unshared("a native handle".into()))
    }

    /// Drops what has not begun and stops what runs; returns when no byte of it moves any more. A function of
    /// the user's that runs is not waited for, and later work still comes after it. Fences of dropped work
    /// are done, and the status knows.
    fn abort(&self);
}

/// The error of a backend whose streams are native to no other library.
pub(crate) fn unshared(what: String) -> crate::Error {
    Kind::Unsupported.because(format!("no other library knows the streams of this backend: {what}"))
}
