//! The order of one queue: ops get into the CUDA stream in the order of their tickets, whatever the host has
//! to do in between.
//!
//! A [`lane`] puts each [`task`] into its stream when its turn comes; while the host has a part to do the
//! lane is blocked and later tasks wait in its [`backlog`]. [`progress`] is what a lane shares with its
//! fences: how far the stream is known to have come, and the failures on the way. [`tail`] gives events to
//! the points at the end of the stream, [`host_work`] and [`waits`] do what blocks a lane.
//!
//! Small copies are taken into the [`window`] of the lane, where all ops get their tickets, and leave it as
//! one of the [`runs`], whose copies are done side by side but for [`hazards`] between them. When they are
//! sent is decided a floor above, in `coalesce`; nothing here knows what other tasks are: descriptors and
//! staging bring theirs from there. A lane of a shared stream is a lane like others. Arrows point down to
//! `stream` and `driver`.

pub mod backlog;
pub mod congestion;
pub mod failures;
pub mod fence;
pub mod gpu_clock;
pub mod host_work;
pub mod lane;
pub mod progress;
pub mod runs;
pub mod spin_lock;
pub mod tail;
pub mod task;
pub mod timing;
pub mod waits;
pub mod watcher;
pub mod window;
