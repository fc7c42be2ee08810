//! Fences and marks: what waiting means, whichever backend does the work.
//!
//! A fence says what it stands for as a [`Point`] of a stream, so that an observer can tell which work a
//! wait is for. A backend recognises its own fences by [`Fence::native`] and never by the type of the fence
//! itself: a backend that wraps another one forwards `native`, and waits between two streams and the time
//! between two marks stay what they are without the wrapper.

use crate::Result;
use std::{
    any::Any,
    fmt, mem,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

/// The number of an op in its queue, counted from 1.
///
/// ```
/// let ticket: ferry_core::Ticket = 1;
/// assert_eq!(ticket + 1, 2, "the next op of the same queue");
/// ```
pub type Ticket = u64;

/// A point in the work of a stream: everything up to and with one op.
///
/// ```
/// use ferry_core::Point;
///
/// assert_eq!(Point { stream: 3, ticket: 17 }.to_string(), "op 17 of stream 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// The number that observers know the stream by.
    pub stream: u64,
    /// The newest op that belongs to it.
    pub ticket: Ticket,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "op {} of stream {}", self.ticket, self.stream)
    }
}

/// "Everything submitted so far." Events, futures, query and synchronise are views of it.
pub trait Fence: Send + Sync {
    /// Whether the work has passed, whatever came of it. A backend that keeps work back until somebody asks
    /// for it has it done from here on, so that a thread which asks again and again gets there.
    fn is_done(&self) -> bool;

    /// Blocks until done, or up to a limit (`Kind::Timeout`). The waiting thread may do some of the work.
    fn wait(&self, limit: Option<Duration>) -> Result<()>;

    /// Runs `then` once done, at once if it is done already: how a waiting queue, a future and a callback
    /// learn of it without polling. `then` must be short: it runs on a thread that has other work. A panic of
    /// `then` reaches the caller of this method if the fence was done already; otherwise it is swallowed.
    fn when_done(&self, then: Box<dyn FnOnce() + Send>);

    /// The point that it stands for. `None` if it stands for no work of a stream, or if that is not decided
    /// yet, as for an event that is yet to be recorded.
    fn point(&self) -> Option<Point>;

    /// The object by which the backend recognises a fence of its own: the fence itself, or, for a fence that
    /// wraps another one, what that one answers. A fence that must not be resolved without its wrapper
    /// answers with itself.
    fn native(&self) -> &dyn Any;
}

/// A fence that remembers when it was reached: what an event records.
pub trait Mark: Fence {
    /// Whether a failure waited to be reported when the mark was reached.
    fn failed(&self) -> bool;

    /// Microseconds of the device's clock when the mark was reached, if it is done and was not dropped.
    fn reached_us(&self) -> Option<u64>;

    /// Milliseconds from when `since` was reached to when this was, if both are done and of one device.
    /// `since` is recognised by [`Fence::native`].
    fn elapsed_ms(&self, since: &dyn Mark) -> Option<f64>;
}

/// Runs what waited for a fence. A closure that panics, as a user's waker may, stops neither the others nor
/// the thread.
pub fn tell<F: FnOnce()>(watchers: impl IntoIterator<Item = F>) {
    for then in watchers {
        // The panic hook has told of it.
        survives(then);
    }
}

/// Runs code of the user's, and says whether it returned. The payload of a panic is leaked, since its
/// destructor may panic as well.
pub fn survives(code: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(code)).map_err(mem::forget).is_ok()
}
