//! Streams that other libraries of the process use as well: PyTorch's current stream, or one of ours that
//! CuPy was told of.
//!
//! Everything must be in the CUDA stream, in order, when a call returns, since what another library puts
//! there next has no ticket. Where the host has a part to do the stream is held: it waits for a number in
//! pinned memory ([`latch`]). A shared [`queue`] owns two queues of the floors below, one over the shared
//! stream and one beside it for the host's parts; pageable memory goes through a bounce buffer in the stream
//! itself ([`pageable`]).
//!
//! Holding a stream is known here alone. The floors below see it as driver calls that may have to be deferred
//! (`driver/implicit_sync.rs`), and what a shared stream forbids as properties of its `StreamKind`. Arrows
//! point down.

pub mod arrival;
pub mod latch;
pub mod pageable;
pub mod preload;
pub mod queue;
pub mod unheld;
