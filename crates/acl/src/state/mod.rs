//! The state that AscendCL's calls share: of the process (`process.rs`) and of each thread (`thread.rs`).
//!
//! The engine of the process is opened by the first call that needs it and never closed. It has the tables of
//! devices, contexts and streams, because every call starts there; other objects (events, physical memory,
//! registrations) lie in tables of their own beside the rules that alone use them. `lifecycle.rs` makes and
//! ends contexts and streams, which takes all of the tables together.
//!
//! There are no rules of single functions here, and no C types. What the crate needs of the C library itself
//! for the state of a thread, a pthread key and its destructor, is in `pthread_key.rs` and `thread.rs`.
//!
//! Arrows: `stream` <- `context` <- `process` <- `lifecycle` <- `thread` <- everything above.

mod context;
mod duplicate;
mod lifecycle;
mod process;
mod pthread_key;
mod stream;
mod thread;

pub(crate) use context::{Context, SystemParams};
pub(crate) use lifecycle::StreamSlot;
pub use process::in_use;
pub(crate) use process::{DeviceState, OpenedEngine, Primary, bad_device, engine, opened};
pub(crate) use stream::{CoreLimits, LEAST_PRIORITY, StreamEntry};
pub use thread::{Check, Here, load};
pub(crate) use thread::{if_here, set_default_device, with_here};
