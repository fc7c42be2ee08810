//! Recording: what takes the work of a stream in place of its queue.
//!
//! A stream that is being captured hands its ops to a recorder ([`Stream::divert`](crate::Stream::divert)).
//! They were planned and checked as ever, and with each comes its footprint: the blocks that it touches, so
//! that a later execution can tell whether they are still the same.

use crate::{Error, Op, Result, footprint::Footprint};

/// Takes the work of a stream in place of its queue.
pub trait Recorder: Send + Sync {
    /// Records an op that was planned as if it were to run now, or refuses it.
    fn record(&self, op: Op, footprint: Footprint) -> Result<()>;

    /// The error of what only a queue can take: a function that runs once, a wait for a fence, a mark.
    fn refusal(&self) -> Error;
}
