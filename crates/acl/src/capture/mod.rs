//! Graph capture: which streams are captured, by whom, and what that forbids in which thread.
//!
//! A capture begins on one stream; others join it through events. While it lasts, its streams hand their
//! work to a recorder (`recorders.rs`) and not to a queue, the default stream of its context refuses work,
//! and calls that would wait for recorded work, or break the capture otherwise, are refused (`checks.rs`,
//! `mode.rs`). A refusal names who captures, since which call and in which thread, and what can be done about
//! it.
//!
//! `entry.rs` is one capture, `registry.rs` the captures of the process, `update.rs` task groups and their
//! updates. What a capture becomes, a graph of the engine, is `rules/graph.rs`'s. Arrows: `state` <- `mode`
//! <- `entry` <- `registry` <-> `update` <- `checks`, `recorders` <- rules.

mod checks;
mod entry;
mod mode;
mod recorders;
mod registry;
mod update;

pub(crate) use checks::{check_pageable, check_synchronous, note_upload};
pub(crate) use entry::{CaptureEntry, StreamPart, TaskKind, TaskLine};
pub use mode::CaptureMode;
pub(crate) use mode::exchange_mode;
pub(crate) use recorders::{begin, build, check_default, complete, end, join, release};
pub(crate) use registry::{abandon_context, any, joined_to, of_device, of_stream, update_of_stream};
pub(crate) use update::{GroupUpdate, begin_update, cancel_update, close_group, end_update, forget_groups};
