//! Where the ops of a lane get their tickets, before they come to its order.
//!
//! A lane may take small copies in without its own lock, to send several of them together. Those come before
//! everything that is submitted later: so the lane takes them out first whenever it puts anything else into
//! its stream, and the tickets of all ops are counted there.

use crate::cuda::order::task::WaitingTask;
use ferry_core::Ticket;

/// Ops that were taken in and not sent yet, as one task.
pub struct CoalescedWork {
    /// The ticket of the first op.
    pub first: Ticket,
    /// How many bytes the ops move, as far as that is known.
    pub bytes: usize,
    /// The task that puts all of them into the stream.
    pub work: Box<dyn WaitingTask>,
}

/// Takes ops in.
pub trait Intake: Send + Sync {
    /// The ticket of an op that was not taken in. Called with nothing left in it.
    fn count(&self) -> Ticket;

    /// Takes out what is in it, if there is anything.
    fn take(&self) -> Option<CoalescedWork>;

    /// Whether ops may be taken in from now on: not while the lane is blocked.
    fn set_open(&self, is_open: bool);
}
