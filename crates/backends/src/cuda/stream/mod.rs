//! What is put into a CUDA stream, and the only thing that puts it there.
//!
//! A [`Stream`] has a handle of the driver, its device, and the doorbell of its kernels. [`copies`] and
//! [`reduce`] turn plans and reductions into driver calls and launches; the [`planner`] chooses between copy
//! engines and kernels by the numbers of [`settings`]; a [`resident`] kernel stays between batches. What the
//! streams of one GPU share is in its [`device`]: kernels, slots of pinned memory for lists ([`list_slots`]),
//! doorbells, events, bounce buffers, spare streams.
//!
//! Nothing here knows tickets, and nothing waits its turn: that is the floor above, `order`. Arrows point
//! down to `driver`.

pub mod adopted;
pub mod bounce;
pub mod copies;
pub mod cuda_stream;
pub mod device;
pub mod doorbell;
pub mod events;
pub mod list_sink;
pub mod list_slots;
pub mod list_writer;
pub mod planner;
pub mod reduce;
pub mod resident;
pub mod settings;
pub mod spare_streams;
pub mod waypoint;

pub use cuda_stream::{Stream, StreamKind};
