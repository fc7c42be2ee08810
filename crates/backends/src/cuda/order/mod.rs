//! The order of one queue: ops get into the CUDA stream in the order of their tickets, whatever the host has
//! to do in between.
//!
//! A [`lane`] puts each [`task`] into its stream when its turn comes; while the host has a part to do the
//! lane is blocked and later tasks wait in its [`backlog`]. [`progress`] is what a lane shares with its
//! fences: how far the stream is known to have come, and the failures on the way. [`tail`] gives events to
//! the points at the end of the stream, [`host_work`] and [`waits`] do what blocks a lane.
//!
//! Nothing here knows what the tasks are. Coalescing, descriptors and staging bring theirs from the floor
//! above, ops are numbered by an [`intake`] that is brought from there as well, and a lane of a shared stream
//! is a lane like others. Arrows point down to `stream` and `driver`.

pub mod backlog;
pub mod congestion;
pub mod failures;
pub mod fence;
pub mod host_work;
pub mod intake;
pub mod lane;
pub mod progress;
pub mod tail;
pub mod task;
pub mod waits;
pub mod watcher;
