//! Copies between pageable memory and a device, through page-locked buffers.
//!
//! The driver stages such copies itself, with one thread at a fifth of what the link can do. Here a small one
//! is staged by the thread that does it ([`alone`]), which polls for the device's part. A large one is cut
//! into portions ([`portions`]); several threads move portions between the user's memory and their two
//! staging buffers each while the device moves others (double buffering, [`buffers`]; [`staged_copy`]).
//! [`pageable`] decides which it is, and what is left to the driver.
//!
//! When a staged copy begins its stream has passed all that came before, so that a thread that has staging
//! buffers waits for nothing but the device: never for another copy, which may want buffers as well. The
//! folder stands on `order/` and `stream/`; copies in shared streams (`shared/`) use its portions, but wait
//! in a way of their own.

mod alone;
mod buffers;
mod pageable;
mod portions;
mod staged_copy;

pub use buffers::StagingPool;
pub use pageable::Staging;
pub use portions::Portions;
pub use staged_copy::{in_buffer, move_by_cpu};
