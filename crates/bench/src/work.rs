//! What a case copies and what of it is timed, as data.

use crate::copier::{CALLS_PER_SAMPLE, Submission, Timing};
use crate::route::Route;

/// What one sample of a case does.
#[derive(Clone, Copy)]
pub enum Workload {
    /// A contiguous copy of `len` bytes.
    Contiguous { route: Route, len: usize },
    /// A 2-D copy of rows of `width` bytes with a pitch of twice that, `len` bytes in all.
    Matrix { route: Route, width: usize, len: usize },
    /// `count` pieces of `block` bytes in one call, and `queued` such calls before a wait.
    Batch { route: Route, count: usize, block: usize, queued: usize },
    /// A call for each of `count` pieces of `block` bytes; with `calls`, only the calls are timed.
    Loop { route: Route, count: usize, block: usize, calls: bool },
    /// A graph of a copy for each of `count` pieces of `block` bytes, captured beforehand.
    Graph { route: Route, count: usize, block: usize },
    /// A descriptor copy within a device for each piece; with `alone`, only the device's work is timed.
    Descriptors { count: usize, block: usize, alone: bool },
    /// A contiguous copy at many page offsets, of which the worst is shown.
    Alignment { route: Route, len: usize },
    /// The latency of a small copy of `len` bytes.
    Call { call: CallCost, len: usize },
    /// A fill of `len` bytes of device memory with a byte, or with `words` of 32 bits.
    Fill { len: usize, words: bool },
    /// The latency of a small copy beside `count` of something.
    Growth { growth: Growth, count: usize },
    /// A copy of `len` bytes and what a program does with them after each; or computing alone.
    Used { using: BufferUse, len: usize },
    /// The copies of a recording that have this index, or the pieces of its batches and rows.
    Recorded { route: Route, are_pieces: bool, index: usize },
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
/// How many rows a 2-D copy may have, documented.
const ROW_LIMIT: usize = 5 << 20;
/// Bytes in all rows of a matrix.
pub const MATRIX_BYTES: usize = 64 << 20;

impl Workload {
    /// A 2-D copy of `len` bytes, or as many as the limit of rows allows.
    pub fn matrix(route: Route, width: usize, len: usize) -> Workload {
        Workload::Matrix { route, width, len: len.clamp(width, width * ROW_LIMIT) }
    }

    /// How the pieces are submitted, where it is not in one call.
    pub fn submission(&self) -> Option<Submission> {
        match self {
            Workload::Loop { .. } => Some(Submission::Each),
            Workload::Graph { .. } => Some(Submission::Graph),
            Workload::Descriptors { .. } => Some(Submission::Descriptors),
            _ => None,
        }
    }

    /// What a sample does and times, where it is not one copy and a wait.
    pub fn timing(&self) -> Option<Timing> {
        match *self {
            Workload::Batch { queued, .. } if queued > 1 => Some(Timing::Whole { rounds: 1, queued }),
            Workload::Loop { calls: true, .. } => Some(Timing::Submit { queued: 1 }),
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
            | Workload::Alignment { len, .. }
            | Workload::Fill { len, .. } => Some(Sweep::Bytes(len)),
            Workload::Matrix { width, .. } => Some(Sweep::RowBytes(width)),
            Workload::Growth { growth, count } => Some(Sweep::Count(count, growth.what())),
            _ => None,
        }
    }

    /// Whether the latency of a call is measured, and not throughput.
    pub fn is_about_calls(&self) -> bool {
        let is_used = matches!(self, Workload::Used { .. });
        is_used || matches!(self, Workload::Call { .. } | Workload::Loop { calls: true, .. })
    }

    /// This workload with the size that the last part of a name spells.
    pub fn resized(self, size: &str) -> Option<Workload> {
        let bytes = |text: &str| ferry::parse_size(text).ok().filter(|size| *size > 0);
        let number = |text: &str| text.parse().ok().filter(|count| *count > 0);
        let pieces = || {
            let (count, block) = size.split_once('x')?;
            Some((number(count)?, bytes(block)?))
        };
        Some(match self {
            Workload::Contiguous { route, .. } => Workload::Contiguous { route, len: bytes(size)? },
            Workload::Matrix { route, .. } => {
                Workload::matrix(route, bytes(size.strip_prefix('w')?)?, MATRIX_BYTES)
            }
            Workload::Batch { route, queued, .. } => {
                let (count, block) = pieces()?;
                Workload::Batch { route, count, block, queued }
            }
            Workload::Loop { route, calls, .. } => {
                let (count, block) = pieces()?;
                Workload::Loop { route, count, block, calls }
            }
            Workload::Graph { route, .. } => {
                let (count, block) = pieces()?;
                Workload::Graph { route, count, block }
            }
            Workload::Descriptors { alone, .. } => {
                let (count, block) = pieces()?;
                Workload::Descriptors { count, block, alone }
            }
            Workload::Alignment { route, .. } => Workload::Alignment { route, len: bytes(size)? },
            Workload::Call { call, .. } => Workload::Call { call, len: bytes(size)? },
            Workload::Fill { words, .. } => Workload::Fill { len: bytes(size)?, words },
            Workload::Growth { growth, .. } => Workload::Growth { growth, count: number(size)? },
            Workload::Used { using: BufferUse::Compute, .. } | Workload::Recorded { .. } => return None,
            Workload::Used { using, .. } => Workload::Used { using, len: bytes(size)? },
        })
    }

    /// What one sample does, in words.
    pub fn about(&self) -> String {
        match *self {
            Workload::Contiguous { route, .. } => format!("{}, one copy and synchronise", route.about),
            Workload::Matrix { route, .. } => {
                format!("{}, 2-D, pitch twice the width, one copy and synchronise", route.about)
            }
            Workload::Batch { route, queued: 1, .. } => {
                format!("{}, scattered pieces, one batch and synchronise", route.about)
            }
            Workload::Batch { route, queued, .. } => {
                format!("{}, {queued} batches queued, and synchronise", route.about)
            }
            Workload::Loop { route, calls: false, .. } => {
                format!("{}, a call for each scattered piece, and synchronise", route.about)
            }
            Workload::Loop { .. } => "cost of a call in a loop over scattered pieces".to_owned(),
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
