//! The rules of AscendCL's functions, one module for each family of them, as `capi` has it.
//!
//! A rule takes numbers and addresses, and the state of the calling thread; it checks what the documents say,
//! in the order in which mistakes are to be reported, and hands the work to the engine. It knows no C types
//! and catches no panics: that is done above, in `capi` and `call.rs`. What a rule remembers of its own
//! objects, such as events or registered memory, lies in a table beside it.
//!
//! Arrows: `kinds` <- `target` <- `copy`, `fill`, `descriptor`, `reduce`, `batch`, `values`, `operator`,
//! `pyacl`;
//! `pinned` <- `register` <- `memory` <- `virtual_memory` <- `shareable`; `graph` <- `graph_build`,
//! `graph_print`; the rest stand alone or on one of these. Nothing here is called from below.

pub mod attributes;
pub mod batch;
mod config;
pub mod context;
pub mod copy;
pub mod descriptor;
pub mod device;
pub mod event;
pub mod export_key;
pub mod fill;
pub mod graph;
pub mod graph_build;
pub mod graph_print;
pub mod health;
pub mod ids;
pub mod info;
pub mod init;
mod ipc_event;
mod kinds;
pub(crate) mod learnt_elsewhere;
pub mod limits;
pub mod memory;
pub mod notify;
pub mod operator;
pub mod params;
mod pinned;
pub mod pyacl;
pub mod reduce;
pub mod register;
pub mod report;
pub mod rt;
pub mod shareable;
pub mod stream;
pub mod target;
pub mod task_group;
pub mod values;
pub mod virtual_memory;
