//! Copies between pageable memory and a device, by several threads through staging buffers.
//!
//! The driver stages such copies itself, with one thread at a fifth of what the link can do. So large ones,
//! and those of many rows, are cut into portions here ([`portions`]); each thread moves portions between the
//! user's memory and its two staging buffers of pinned memory while the device moves others (double
//! buffering, [`buffers`]). [`pageable`] decides which copies are staged and which are left to the driver,
//! and [`staged_copy`] is one that is.
//!
//! When a staged copy begins its stream has passed all that came before, so that a thread that has staging
//! buffers waits for nothing but the device: never for another copy, which may want buffers as well. The
//! folder stands on `order/` and `stream/`; copies in shared streams (`shared/`) use its portions, but wait
//! in a way of their own.

mod buffers;
mod pageable;
mod portions;
mod staged_copy;

pub use buffers::StagingPool;
pub use pageable::Staging;
pub use portions::Portions;
pub use staged_copy::{in_buffer, move_by_cpu};
