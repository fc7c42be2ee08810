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
//!
//! Lock order, where `a` -> `b` means that `b` may be taken while `a` is held:
//! - `state` of a model -> `BOUND` (`rules/graph_build.rs`) -> `TRANSITION`
//! - `TRANSITION` -> the lock of a stream (`submitted`) -> `state` of a capture -> `draft` of its recording
//! - `TRANSITION`, the lock of a stream -> `REGISTRY`, under which no other lock is taken
//! - `turn` of a graph -> the lock of the launching stream -> the locks of its branches' streams

mod checks;
mod entry;
mod mode;
mod recorders;
mod registry;
mod update;

pub(crate) use checks::{check_pageable, check_synchronous, note_upload};
pub(crate) use entry::{CaptureEntry, StreamPart, TaskKind, TaskLine, break_all};
pub use mode::CaptureMode;
pub(crate) use mode::exchange_mode;
pub(crate) use recorders::{begin, check_default, complete, draft, end, join, leave, release};
pub(crate) use registry::{abandon_context, any, joined_to, of_device, of_stream, update_of_stream};
pub(crate) use update::{GroupUpdate, begin_update, cancel_update, close_group, end_update, forget_groups};
