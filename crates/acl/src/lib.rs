//! AscendCL's rules in plain Rust: devices, contexts, streams and events by handle, what each copy kind demands, which code
//! answers which mistake. C knows these functions through `capi`; nothing here knows C, and nothing below here knows AscendCL.
//!
//! State of a process and of a thread (current context, recent messages) lives here and nowhere else.

pub mod batch;
pub mod call;
pub mod callback;
mod config;
pub mod constants;
pub mod context;
pub mod copy;
pub mod descriptor;
pub mod device;
pub mod error;
pub mod event;
pub mod exceptions;
mod explain;
pub mod fill;
pub mod functions;
pub mod handles;
pub mod health;
pub mod ids;
pub mod info;
pub mod init;
pub mod interrupt;
pub mod ipc;
mod keys;
pub mod kinds;
pub mod limits;
pub mod log;
pub mod memory;
pub mod messages;
pub mod params;
pub mod python;
pub mod reduce;
pub mod register;
pub mod report;
pub mod rt;
pub mod settings;
pub mod state;
pub mod stream;
mod twin;
pub mod values;
pub mod version;
pub mod virtual_memory;
mod waits;

pub use error::{Error, Result};
