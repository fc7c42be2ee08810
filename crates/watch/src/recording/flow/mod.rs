//! Data flow: which bytes each op of a replay finds and leaves, predicted from the recording alone.
//!
//! Happens-before comes from three things: the order of a stream, what ops wait for, and joins. What a host
//! thread submits after any thread has learnt that a point has passed comes after that point; a replay keeps
//! that order ([`Flow::after`]). Bytes of two ops that nothing orders, and of which one is written, race:
//! they are unknown from there on and are not checked.
//!
//! Contents are symbolic: a pattern for each distinct hash, the bytes of a fill, or recorded bytes. Where the
//! recorded hash says that the program has changed host memory before an op read it, the replay writes it
//! as well ([`Flow::host_writes`]). Where recorded bytes say that something unseen has changed device memory,
//! the stream writes it ([`Flow::injected`]).
//!
//! `hazards` goes through the recording in an order that happens-before allows and finds races; `values` goes
//! through the same order and moves contents. Arrows: both use `order` and `span_map`; nothing
//! here knows files or an engine.

mod accesses;
mod content;
mod hazards;
mod order;
mod values;

use super::limits::ReplayLimits;
use super::model::Recording;
pub use content::Content;
pub use values::{Expected, InitialContent};

/// Ranges of bytes that a prediction visits before it becomes less fine: so many, and some for each rectangle
/// of the recording.
const AFFORDED_EFFORT: u64 = 4_000_000;
const AFFORDED_FOR_A_RECT: u64 = 8;

/// What a replay does besides the recorded work, and what comes of it.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// All contents that bytes can have.
    pub contents: Vec<Content>,
    /// For each op, the sources that the submitting thread writes before it submits.
    pub host_writes: Vec<Vec<Expected>>,
    /// For each op, the sources in device memory that are written by its stream before it: the recorded bytes
    /// show that something outside of the recording has changed them, a kernel or another process.
    pub injected: Vec<Vec<Expected>>,
    /// What allocations contain before anything is written there, where something reads it.
    pub initial: Vec<InitialContent>,
    /// For each op, what it leaves in its destination, as far as that is known.
    pub expected: Vec<Vec<Expected>>,
    /// For each step, the steps of other threads that must be done before it, besides those that make what it
    /// uses: joins and host writes that its bytes depend on.
    pub after: Vec<Vec<usize>>,
    /// Joins, by step, that must not be waited for: the recording does not say how the point can pass.
    pub unexplained: Vec<usize>,
    /// For each op, whether it can never run, since what it waits for waits for it: a replay leaves it out.
    pub stuck: Vec<bool>,
    /// How many bytes are written by ops that are replayed.
    pub written: u64,
}

impl Flow {
    /// Predicts a replay, in bounded time: of a recording with very many races and rows less is predicted.
    pub fn predict(recording: &Recording, limits: &ReplayLimits) -> Flow {
        let rects = recording.ops.iter().map(|op| op.work.rects().len() as u64).sum::<u64>();
        Flow::predict_within(recording, limits, AFFORDED_EFFORT + AFFORDED_FOR_A_RECT * rects)
    }

    /// As [`predict`](Self::predict), with another bound: how many ranges of bytes are visited before they
    /// are told apart less finely.
    pub fn predict_within(recording: &Recording, limits: &ReplayLimits, afforded: u64) -> Flow {
        let hazards = hazards::find(recording, limits, afforded);
        values::follow(recording, limits, hazards)
    }

    /// What several ops together leave, one behind the other in this order: what a later one writes in the
    /// same place counts.
    pub fn left_by(&self, recording: &Recording, ops: &[usize]) -> Vec<Expected> {
        values::left_by(recording, &self.expected, ops)
    }

    /// How many bytes of all that are written can be checked.
    pub fn checked(&self) -> u64 {
        self.expected.iter().flatten().fold(0, |sum, part| sum.saturating_add(part.len))
    }
}
