//! Recordings: what a program's copies did, in a file that a replay can do again without the program.
//!
//! A recording has no addresses. Allocations, streams, threads and call sites are numbered in the order in
//! which they came to be known, and work names bytes by allocation, offset and length. [`Recorder`] takes
//! facts and writes the file while the program runs; [`read`] makes a [`Recording`] of a file, or of the
//! undamaged part of one. [`diff`] compares the patterns of two recordings; [`flow`] predicts
//! which bytes each op finds and leaves. `docs/recording.md` describes the format.
//!
//! Nothing here runs a copy: the crate `ferry` replays recordings. Arrows: `model` is plain data that all
//! others use; `record`, with `encode` and `decode`, and `frame` are the two layers of the file, which only
//! `recorder` and `load` know.

mod codec;
mod decode;
mod diff;
mod encode;
pub mod flow;
mod frame;
mod launches;
mod limits;
mod load;
mod memory_map;
mod model;
mod record;
mod recorder;
mod step_order;
mod varint;

pub use diff::{PatternChange, PatternCount, diff};
pub use launches::{GraphLaunch, Launches};
pub use limits::ReplayLimits;
pub use load::{LoadedRecording, read};
pub use model::{
    Allocation, CapturedTask, Location, OpHash, OpResult, RecordedGraph, RecordedOp, RecordedProcess,
    RecordedSite, RecordedStream, RecordedThread, RecordedWait, RecordedWork, Recording, Rect, Step,
    StepAction,
};
pub use recorder::Recorder;
pub use step_order::dependencies;
