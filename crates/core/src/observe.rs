//! Watching the engine without steering it: what the tracer and the checker are built on.

use crate::{Block, Op, Ticket};

/// Is told of every allocation, every free, and each op when it is submitted and when it is complete; marks
/// are not shown. Changes nothing.
///
/// Calls come from the thread that does it, in ticket order for one stream; `completed` may be called while
/// the engine works on other streams. An observer does not call the runtime: locks may be held around it.
/// With no observer installed each of these costs one branch.
///
/// ```
/// use ferry_core::{Observer, Op, Ticket};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// /// Counts what is submitted. The crate `ferry` takes one in its options.
/// #[derive(Default)]
/// struct Count(AtomicUsize);
///
/// impl Observer for Count {
///     fn submitted(&self, _stream: u64, _ticket: Ticket, _op: &Op) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// `block` has just become known.
    fn allocated(&self, block: &Block) {
        let _ = block;
    }
    /// `block` has just become unknown; work that was submitted before may still use its memory.
    fn freed(&self, block: &Block) {
        let _ = block;
    }
    /// `op` is about to be handed to the queue of `stream` and will get `ticket`. If the queue refuses it,
    /// which is not shown, the next op gets the ticket.
    fn submitted(&self, stream: u64, ticket: Ticket, op: &Op) {
        let _ = (stream, ticket, op);
    }
    /// The op `ticket` of `stream` is complete.
    fn completed(&self, stream: u64, ticket: Ticket) {
        let _ = (stream, ticket);
    }
}
