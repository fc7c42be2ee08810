//! What a case copies and what of it is timed, as data.

use crate::copier::{CALLS_PER_SAMPLE, Submission, Timing};
use crate::matrix::Matrix;
use crate::pieces::PieceSpec;
use crate::route::Route;
use crate::units::{number, size};

/// What one sample of a case does.
#[derive(Clone, Copy)]
pub enum Workload {
    /// A contiguous copy of `len` bytes.
    Contiguous { route: Route, len: usize },
    /// A contiguous copy of `len` bytes by the call that returns when it is done.
    Synchronous { route: Route, len: usize },
    /// A 2-D copy.
    Matrix { route: Route, rows: Matrix },
    /// Random 2-D copies, of which the worst are shown, of `len` bytes at most.
    RandomMatrices { route: Route, count: usize, len: usize },
    /// All pieces in one call, and `queued` such calls before a wait.
    Batch { route: Route, pieces: PieceSpec, queued: usize },
    /// A call for each of the pieces.
    Loop { route: Route, pieces: PieceSpec, form: LoopForm },
    /// A graph of a copy for each of the pieces, captured beforehand.
    Graph { route: Route, pieces: PieceSpec },
    /// A descriptor copy within a device for each piece; with `alone`, only the device's work is timed.
    Descriptors { pieces: PieceSpec, alone: bool },
    /// Threads that each make a stream, copy `pieces` in one call and wait, and end.
    Threads { route: Route, threads: usize, pieces: PieceSpec },
    /// As `Batch`, beside matrix products that run back to back on the device.
    Beside { route: Route, pieces: PieceSpec, queued: usize },
    /// A contiguous copy at many page offsets, of which the worst is shown.
    Alignment { route: Route, len: usize },
    /// The latency of a small copy of `len` bytes.
    Call { call: CallCost, len: usize },
    /// A fill of `len` bytes of device memory with a byte, or with `words` of 32 bits.
    Fill { len: usize, words: bool },
    /// A fill with a byte of each of the pieces, and a wait.
    Fills { pieces: PieceSpec },
    /// Allocations of device memory, then all are freed.
    Allocations { pieces: PieceSpec },
    /// Page-locked memory of `len` bytes, allocated and freed or registered and unregistered.
    Locked { len: usize, is_registered: bool },
    /// The latency of a small copy beside `count` of something.
    Growth { growth: Growth, count: usize },
    /// A copy of `len` bytes and what a program does with them after each; or computing alone.
    Used { using: BufferUse, len: usize },
    /// The copies of a recording that have this index, or the pieces of its batches and rows.
    Recorded { route: Route, are_pieces: bool, index: usize },
}

/// How the calls of a loop are submitted and what of it is timed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LoopForm {
    /// To one stream, and a wait.
    Whole,
    /// To one stream; only the calls are timed.
    Calls,
    /// To two streams in turn, and a wait for both.
    TwoStreams,
}

/// What a program does besides copying.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum BufferUse {
    /// It writes the source after each synchronise.
    Write,
    /// It reads the destination after each synchronise.
    Read,
    /// It computes, and does not copy.
    Compute,
}

/// Which latency of a small copy is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CallCost {
    /// The call that submits it.
    Submit,
    /// From the call until a synchronise has returned.
    RoundTrip,
    /// From the call until a synchronise has returned, after a pause in which threads fall asleep.
    AfterQuiet,
    /// From the call until an event behind it was waited for.
    Event,
    /// From the call until a second copy, of a stream that waits for an event behind the first, is done.
    Join,
    /// From the call until a second copy is done, with a host function between the two.
    HostFunction,
}

/// What there are many of while small copies are measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// Streams: copies go to one after the other, and the device is synchronised.
    Streams,
    /// Outstanding copies: they are submitted while the stream is blocked, then waited for.
    Outstanding,
    /// Outstanding copies, where only the call that adds one is timed.
    Submit,
    /// Allocations: every copy goes to another one.
    Allocations,
}

impl Growth {
    /// What is counted.
    fn what(self) -> &'static str {
        match self {
            Growth::Streams => "streams",
            Growth::Outstanding | Growth::Submit => "outstanding copies",
            Growth::Allocations => "allocations",
        }
    }
}

/// What a case varies within its series: its place on the axis of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// Bytes of a copy.
    Bytes(usize),
    /// Bytes of a row of a matrix.
    RowBytes(usize),
    /// How many there are of something, and what of.
    Count(usize, &'static str),
}

impl Sweep {
    /// The place on the axis.
    pub fn value(self) -> usize {
        match self {
            Sweep::Bytes(value) | Sweep::RowBytes(value) | Sweep::Count(value, _) => value,
        }
    }

    /// What the axis shows.
    pub fn meaning(self) -> &'static str {
        match self {
            Sweep::Bytes(_) => "bytes of a copy",
            Sweep::RowBytes(_) => "bytes of a row",
            Sweep::Count(_, what) => what,
        }
    }
}

/// Round trips in a sample.
const ROUND_TRIPS_PER_SAMPLE: usize = 200;
/// Bytes that a sample of synchronous copies moves, or fewer where they are small.
const SYNCHRONOUS_BYTES: usize = 64 << 20;
impl Workload {
    /// How the pieces are submitted, where it is not in one call.
    pub fn submission(&self) -> Option<Submission> {
        match self {
            Workload::Loop { form: LoopForm::TwoStreams, .. } => Some(Submission::InTurn),
            Workload::Loop { .. } => Some(Submission::Each),
            Workload::Synchronous { .. } => Some(Submission::Synchronous),
            Workload::Graph { .. } => Some(Submission::Graph),
            Workload::Descriptors { .. } => Some(Submission::Descriptors),
            _ => None,
        }
    }

    /// What a sample does and times, where it is not one copy and a wait.
    pub fn timing(&self) -> Option<Timing> {
        match *self {
            Workload::Batch { queued, .. } | Workload::Beside { queued, .. } if queued > 1 => {
                Some(Timing::Whole { rounds: 1, queued })
            }
            Workload::Loop { form: LoopForm::Calls, .. } => Some(Timing::Submit { queued: 1 }),
            Workload::Synchronous { len, .. } => {
                Some(Timing::Submit { queued: (SYNCHRONOUS_BYTES / len).clamp(1, ROUND_TRIPS_PER_SAMPLE) })
            }
            Workload::Descriptors { alone: true, .. } => Some(Timing::Alone),
            Workload::Call { call, .. } => Some(match call {
                CallCost::Submit => Timing::Submit { queued: CALLS_PER_SAMPLE },
                CallCost::RoundTrip => Timing::Whole { rounds: ROUND_TRIPS_PER_SAMPLE, queued: 1 },
                CallCost::AfterQuiet => Timing::AfterQuiet,
                CallCost::Event => Timing::Event { rounds: ROUND_TRIPS_PER_SAMPLE },
                CallCost::Join => Timing::Join { rounds: ROUND_TRIPS_PER_SAMPLE },
                CallCost::HostFunction => Timing::HostFunction { rounds: ROUND_TRIPS_PER_SAMPLE },
            }),
            _ => None,
        }
    }

    /// Where the case lies on the axis of its series, if the cases of the series differ in one number only.
    pub fn sweep(&self) -> Option<Sweep> {
        match *self {
            Workload::Contiguous { len, .. }
            | Workload::Synchronous { len, .. }
            | Workload::Alignment { len, .. }
            | Workload::Fill { len, .. } => Some(Sweep::Bytes(len)),
            Workload::Matrix { rows, .. } => Some(Sweep::RowBytes(rows.width)),
            Workload::Growth { growth, count } => Some(Sweep::Count(count, growth.what())),
            _ => None,
        }
    }

    /// Whether the latency of a call is measured, and not throughput.
    pub fn is_about_calls(&self) -> bool {
        match self {
            Workload::Loop { form, .. } => *form == LoopForm::Calls,
            Workload::Call { .. }
            | Workload::Used { .. }
            | Workload::Fills { .. }
            | Workload::Allocations { .. } => true,
            _ => false,
        }
    }

    /// This workload with the size that the last part of a name spells.
    pub fn resized(self, text: &str) -> Option<Workload> {
        let pieces = || PieceSpec::parse(text);
        Some(match self {
            Workload::Contiguous { route, .. } => Workload::Contiguous { route, len: size(text)? },
            Workload::Synchronous { route, .. } => Workload::Synchronous { route, len: size(text)? },
            Workload::Matrix { route, .. } => Workload::Matrix { route, rows: Matrix::parse(text)? },
            Workload::RandomMatrices { route, len, .. } => {
                Workload::RandomMatrices { route, count: number(text)?, len }
            }
            Workload::Batch { route, queued, .. } => Workload::Batch { route, pieces: pieces()?, queued },
            Workload::Loop { route, form, .. } => Workload::Loop { route, pieces: pieces()?, form },
            Workload::Graph { route, .. } => Workload::Graph { route, pieces: pieces()? },
            Workload::Descriptors { alone, .. } => Workload::Descriptors { pieces: pieces()?, alone },
            Workload::Threads { route, .. } => {
                let (threads, pieces) = text.split_once('x')?;
                Workload::Threads { route, threads: number(threads)?, pieces: PieceSpec::parse(pieces)? }
            }
            Workload::Beside { route, queued, .. } => Workload::Beside { route, pieces: pieces()?, queued },
            Workload::Alignment { route, .. } => Workload::Alignment { route, len: size(text)? },
            Workload::Call { call, .. } => Workload::Call { call, len: size(text)? },
            Workload::Fill { words, .. } => Workload::Fill { len: size(text)?, words },
            Workload::Fills { .. } => Workload::Fills { pieces: pieces()? },
            Workload::Allocations { .. } => Workload::Allocations { pieces: pieces()? },
            Workload::Locked { is_registered, .. } => Workload::Locked { len: size(text)?, is_registered },
            Workload::Growth { growth, .. } => Workload::Growth { growth, count: number(text)? },
            Workload::Used { using: BufferUse::Compute, .. } | Workload::Recorded { .. } => return None,
            Workload::Used { using, .. } => Workload::Used { using, len: size(text)? },
        })
    }

    /// What one sample does, in words.
    pub fn about(&self) -> String {
        match *self {
            Workload::Contiguous { route, .. } => format!("{}, one copy and synchronise", route.about),
            Workload::Synchronous { route, .. } => format!("{}, aclrtMemcpy", route.about),
            Workload::Matrix { route, rows } => {
                let pitch = if rows.has_usual_pitch() { ", pitch twice the width" } else { "" };
                format!("{}, 2-D{pitch}, one copy and synchronise", route.about)
            }
            Workload::RandomMatrices { route, .. } => {
                format!("{}, 2-D at random widths and pitches, the worst", route.about)
            }
            Workload::Batch { route, queued: 1, .. } => {
                format!("{}, scattered pieces, one batch and synchronise", route.about)
            }
            Workload::Batch { route, queued, .. } => {
                format!("{}, {queued} batches queued, and synchronise", route.about)
            }
            Workload::Loop { route, form: LoopForm::Whole, .. } => {
                format!("{}, a call for each scattered piece, and synchronise", route.about)
            }
            Workload::Loop { route, form: LoopForm::TwoStreams, .. } => {
                format!("{}, such calls to two streams in turn", route.about)
            }
            Workload::Loop { .. } => "cost of a call in a loop over scattered pieces".to_owned(),
            Workload::Threads { route, .. } => {
                format!("{}, threads that each make a stream and copy a batch", route.about)
            }
            Workload::Beside { route, queued, .. } => {
                format!("{}, {queued} batches queued", route.about)
            }
            Workload::Graph { route, .. } => {
                format!("{}, a graph of scattered copies, and synchronise", route.about)
            }
            Workload::Descriptors { alone: true, .. } => {
                "within a device, descriptor copies between two events, queued behind a long copy".to_owned()
            }
            Workload::Descriptors { .. } => {
                "within a device, a descriptor copy for each scattered piece, and synchronise".to_owned()
            }
            Workload::Alignment { route, .. } => {
                format!("{}, the worst of many alignments", route.about)
            }
            Workload::Recorded { route, are_pieces: false, .. } => {
                format!("{}, the recorded copies, a call for each, and synchronise", route.about)
            }
            Workload::Recorded { route, .. } => {
                format!("{}, the pieces of recorded batches and rows, and synchronise", route.about)
            }
            Workload::Call { call, .. } => match call {
                CallCost::Submit => {
                    "the call that hands a small page-locked copy over, 2,000 in a row".to_owned()
                }
                CallCost::RoundTrip => "a small page-locked copy and synchronise, in a loop".to_owned(),
                CallCost::AfterQuiet => "the same, once, after 10 ms in which nothing happened".to_owned(),
                CallCost::Event => "a small copy, an event after it, and waiting for the event".to_owned(),
                CallCost::Join => {
                    "a small copy, an event, a second stream that waits for it and copies, synchronise"
                        .to_owned()
                }
                CallCost::HostFunction => {
                    "a small copy, a host function behind it, another copy, and synchronise".to_owned()
                }
            },
            Workload::Fill { words: false, .. } => {
                "device memory, one fill with a byte and synchronise".to_owned()
            }
            Workload::Fill { .. } => "device memory, one fill with 32-bit words and synchronise".to_owned(),
            Workload::Fills { .. } => {
                "device memory, so many fills with a byte and one synchronise".to_owned()
            }
            Workload::Allocations { .. } => "aclrtMalloc, so many times, then aclrtFree of all".to_owned(),
            Workload::Locked { is_registered: false, .. } => {
                "page-locked memory, aclrtMallocHost and aclrtFreeHost".to_owned()
            }
            Workload::Locked { .. } => {
                "page-locked memory, aclrtHostRegisterV2 and aclrtHostUnregister".to_owned()
            }
            Workload::Used { using, .. } => match using {
                BufferUse::Write => {
                    "a copy to the device and synchronise, then all of the source is written".into()
                }
                BufferUse::Read => "a copy from the device and synchronise, then all of it is read".into(),
                BufferUse::Compute => "20 million additions, and no copy".into(),
            },
            Workload::Growth { growth, .. } => match growth {
                Growth::Streams => {
                    "cost of a 64 B copy, so many streams in turn and one synchronise".to_owned()
                }
                Growth::Outstanding => {
                    "cost of a 64 B copy, so many submitted before the first runs".to_owned()
                }
                Growth::Submit => "cost of the call alone, with so many outstanding".to_owned(),
                Growth::Allocations => {
                    "cost of a 64 B copy, each to another of so many allocations".to_owned()
                }
            },
        }
    }
}
