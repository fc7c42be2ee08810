//! AscendCL's rules in plain Rust: devices, contexts, streams and events by handle, what each copy kind
//! demands, which code answers which mistake. State of a process and of a thread (current context, recent
//! messages) lives here and nowhere else. C calls these rules through `capi`; nothing below here knows
//! AscendCL.
//!
//! No C types come here: pointers and strings are checked and converted by `capi`. Five places meet the C
//! library because what they do exists in C only: the destructor of a thread's state (`state/thread.rs`,
//! `state/pthread_key.rs`), the search for a second copy of the library (`state/duplicate.rs`), the functions
//! of the user's that are called (`callback.rs`), the check that a wait asks (`interrupt.rs`), and the system
//! calls of sockets and logs (`ipc/socket.rs`, `log/`).
//!
//! Arrows, from below to the top:
//!
//! ```text
//! constants <- error <- arguments, handles, version, quirks <- settings <- functions
//!     log, fork, callback, waits <- exceptions <- state
//!         <- interrupt, explain, messages, capture <- ipc <- rules <- call
//! ```

pub mod arguments;
pub mod call;
pub mod callback;
pub mod capture;
pub mod constants;
pub mod error;
pub mod exceptions;
mod explain;
mod faults;
mod fork;
pub mod functions;
mod handles;
pub mod interrupt;
mod ipc;
pub mod log;
pub mod messages;
pub mod quirks;
pub mod rules;
pub mod settings;
pub mod state;
pub mod version;
mod waits;
pub mod watched;

pub use error::{Error, Result};
