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

pub mod context;
mod duplicate;
pub mod lifecycle;
pub mod process;
mod pthread_key;
pub mod stream;
pub mod thread;
