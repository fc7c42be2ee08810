//! libascendcl.so from outside: its C ABI, found by name at run time, and what a Rust program needs to use
//! it.
//!
//! For programs of ours that use the library as any program would, and must not link an engine of their own.
//! The Python module takes the tables of functions (`functions`, `types`) and has rules of its own for the
//! rest. The tour, the benchmark and the command also take what stands on the tables: finding and loading the
//! library, errors by their codes, and memory, streams and events that end with their owner. Names and types
//! are those of `include/acl/`.
//!
//! Arrows: `types <- functions <- library`;
//! `codes <- error <- library <- memory <- stream <- batch, session`; `library <- peer`.

pub mod batch;
pub mod codes;
pub mod error;
mod functions;
pub mod kind;
pub mod library;
pub mod memory;
pub mod peer;
pub mod session;
pub mod stream;
mod types;

pub use error::{Error, Result};
pub use functions::{Functions, Private};
pub use library::Library;
pub use types::*;
