//! A recording in memory.

use crate::fact::{Join, Nanos, Origin, Outcome, Point, Route, StreamPurpose, TaskId};
use std::collections::HashMap;

/// What a program's copies did. Numbers of threads, streams, allocations, sites and graphs are indices of the
/// lists here, and hold for all processes of the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// The processes that were watched.
    pub processes: Vec<RecordedProcess>,
    /// The host threads.
    pub threads: Vec<RecordedThread>,
    /// The streams.
    pub streams: Vec<RecordedStream>,
    /// The memory that work names.
    pub allocations: Vec<Allocation>,
    /// The call sites; the first one stands for those that are not known.
    pub sites: Vec<RecordedSite>,
    /// The graphs.
    pub graphs: Vec<RecordedGraph>,
    /// The ops that streams took, in the order in which they were submitted.
    pub ops: Vec<RecordedOp>,
    /// What the host threads did, in the order of time.
    pub steps: Vec<Step>,
    /// How many facts the buffers had no room for.
    pub lost: u64,
    /// The index of the op at each point.
    pub(super) by_point: HashMap<Point, usize>,
}

impl Recording {
    /// The index of the op at a point.
    pub fn op_at(&self, point: Point) -> Option<usize> {
        self.by_point.get(&point).copied()
    }

    /// From the first thing that was recorded to the last, in nanoseconds.
    pub fn duration(&self) -> Nanos {
        let ends = self.ops.iter().filter_map(|op| op.result.as_ref().map(|result| result.end));
        let last = self.steps.iter().map(|step| step.time).chain(ends).max().unwrap_or(0);
        last - self.steps.iter().map(|step| step.begin.min(step.time)).min().unwrap_or(last).min(last)
    }
}

/// A process that was watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedProcess {
    /// The backend or the name of another implementation.
    pub backend: String,
    /// The command line.
    pub command: String,
    /// How many devices it had.
    pub devices: u32,
    /// Nanoseconds of the Unix epoch when it began to be watched.
    pub epoch: u64,
    /// Whether it ended in order.
    pub has_ended: bool,
}

/// A host thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedThread {
    /// The index of its process.
    pub process: u32,
    /// Its name; empty if it has none.
    pub name: String,
}

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedStream {
    /// The index of its process.
    pub process: u32,
    /// The device.
    pub device: u32,
    /// What it is for.
    pub purpose: StreamPurpose,
}

/// Memory that work names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// The index of its process.
    pub process: u32,
    /// Its bytes.
    pub len: u64,
    /// The device, if it is device memory.
    pub device: Option<u32>,
    /// How it came to be known; `None` for pageable host memory, which no call makes known.
    pub origin: Option<Origin>,
}

/// A place in the program that calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordedSite {
    /// The function that is called; empty if it is not known.
    pub function: String,
    /// The caller: a file and a line, or a file and an offset in it; empty if it is not known.
    pub caller: String,
}

/// Work that is captured once and launched many times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedGraph {
    /// The stream whose capture began it; `None` if that was before the recording, or was lost.
    pub stream: Option<u32>,
    /// Its tasks, in the order of the capture.
    pub tasks: Vec<CapturedTask>,
    /// Whether the capture ended with a graph.
    pub is_graph: bool,
}

/// A task of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapturedTask {
    /// Its index in the graph, as its ops name it.
    pub task: u32,
    /// The branch: 0 for that of the stream whose capture was begun.
    pub branch: u32,
    /// What it does.
    pub work: RecordedWork,
}

/// Something that a host thread did.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The thread.
    pub thread: u32,
    /// The call site.
    pub site: u32,
    /// When the call began.
    pub begin: Nanos,
    /// When it was done.
    pub time: Nanos,
    /// What it was.
    pub action: StepAction,
}

/// What a host thread did.
#[derive(Clone, Debug, PartialEq)]
pub enum StepAction {
    /// A stream was made.
    MakeStream(u32),
    /// A stream was destroyed.
    DropStream(u32),
    /// Memory became known.
    Allocate(u32),
    /// Memory was freed, unregistered or unmapped.
    Free(u32),
    /// An op was submitted: its index.
    Submit(usize),
    /// An op was refused.
    Refuse {
        /// The stream that refused it.
        stream: u32,
        /// What it would have done.
        work: RecordedWork,
    },
    /// The thread learnt that a point has passed.
    Join {
        /// The point.
        point: Point,
        /// How.
        how: Join,
    },
    /// A capture began.
    BeginCapture {
        /// The graph that comes of it.
        graph: u32,
    },
    /// A task was captured.
    Capture(TaskId),
    /// A capture ended.
    EndCapture {
        /// Its graph.
        graph: u32,
    },
    /// An execution of a graph was submitted.
    Launch {
        /// The graph.
        graph: u32,
        /// The last op of the launching stream that belongs to it.
        point: Point,
    },
    /// A call returned that did none of the above, or not as its last act.
    Call {
        /// How long it was blocked because it waited for work, in nanoseconds.
        blocked: u64,
        /// What it returned; 0 is success.
        code: i32,
    },
}

/// An op that a stream took.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedOp {
    /// Its stream and its number there, counted from 1.
    pub point: Point,
    /// What has to pass before it, besides the op before it in its stream.
    pub awaits: Vec<RecordedWait>,
    /// What it does.
    pub work: RecordedWork,
    /// The task of a graph that it is.
    pub task: Option<TaskId>,
    /// How it went; `None` if it was not seen to pass.
    pub result: Option<OpResult>,
    /// When it began, where that was told apart from its end.
    pub begun: Option<Nanos>,
    /// The hash of the bytes that it read, and of those that it wrote.
    pub hashes: OpHash,
    /// The bytes that it read, if contents were kept.
    pub source: Option<Vec<u8>>,
}

/// The hashes of what an op read and wrote, as far as they were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpHash {
    /// Of the bytes that were read.
    pub source: Option<u64>,
    /// Of the bytes that were written.
    pub destination: Option<u64>,
}

/// What an op waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordedWait {
    /// A point of a stream.
    Point(Point),
    /// A promise that was bound to a point of a stream, maybe later.
    Promised(Point),
    /// A promise that was never bound to a point while it was recorded.
    Never,
    /// Something outside of the recording: an event of another process, a notify.
    Outside,
}

/// What an op does.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RecordedWork {
    /// Nothing but to be passed.
    #[default]
    Nothing,
    /// An event records that the stream came here.
    Mark,
    /// Bytes in one piece.
    Linear {
        /// Between which kinds of memory.
        route: Route,
        /// The bytes.
        rect: Rect,
    },
    /// A rectangle.
    Rows {
        /// Between which kinds of memory.
        route: Route,
        /// The rectangle.
        rect: Rect,
    },
    /// The pieces of a batch.
    Batch {
        /// Between which kinds of memory.
        route: Route,
        /// How many pieces the batch had; more than are listed if some were not recorded.
        count: u64,
        /// The bytes of all of them.
        bytes: u64,
        /// The pieces.
        rects: Vec<Rect>,
    },
    /// A copy inside a device whose addresses were read when it ran.
    Through {
        /// The device.
        device: u32,
        /// Whether the addresses were read from a descriptor, and not from two cells.
        is_descriptor: bool,
        /// What it moved; `None` if it did not come to run.
        rect: Option<Rect>,
    },
    /// A repetition of a pattern.
    Fill {
        /// The device whose memory it is.
        device: Option<u32>,
        /// The first byte.
        dst: Location,
        /// How many bytes.
        len: u64,
        /// The first four bytes.
        pattern: [u8; 4],
    },
    /// Memory of a device combined with other memory of it.
    Reduce {
        /// The device.
        device: u32,
        /// The bytes of both ends.
        rect: Rect,
        /// How: 0 sum, 1 maximum, 2 minimum.
        combine: u8,
        /// Of which elements, as in [`Work::Reduce`](crate::fact::Work::Reduce).
        element: u8,
    },
    /// A function of the program's.
    Function,
}

impl RecordedWork {
    /// The rectangles that it moves, reads and writes; a fill is not among them.
    pub fn rects(&self) -> &[Rect] {
        match self {
            RecordedWork::Linear { rect, .. }
            | RecordedWork::Rows { rect, .. }
            | RecordedWork::Reduce { rect, .. } => std::slice::from_ref(rect),
            RecordedWork::Batch { rects, .. } => rects,
            RecordedWork::Through { rect, .. } => rect.as_slice(),
            RecordedWork::Nothing | RecordedWork::Mark | RecordedWork::Function => &[],
            RecordedWork::Fill { .. } => &[],
        }
    }

    /// Calls `change` with each rectangle.
    pub(super) fn change_rects(&mut self, mut change: impl FnMut(&mut Rect)) {
        match self {
            RecordedWork::Linear { rect, .. }
            | RecordedWork::Rows { rect, .. }
            | RecordedWork::Reduce { rect, .. } => change(rect),
            RecordedWork::Batch { rects, .. } => rects.iter_mut().for_each(change),
            RecordedWork::Through { rect, .. } => rect.iter_mut().for_each(change),
            RecordedWork::Nothing | RecordedWork::Mark | RecordedWork::Function => {}
            RecordedWork::Fill { .. } => {}
        }
    }

    /// Between which kinds of memory it copies, if it is a copy.
    pub fn route(&self) -> Option<Route> {
        match self {
            RecordedWork::Linear { route, .. }
            | RecordedWork::Rows { route, .. }
            | RecordedWork::Batch { route, .. } => Some(*route),
            RecordedWork::Through { device, .. } => {
                Some(Route { src: Some(*device), dst: Some(*device), is_pageable: false })
            }
            _ => None,
        }
    }

    /// How many bytes it writes.
    pub fn bytes(&self) -> u64 {
        match self {
            RecordedWork::Batch { bytes, .. } => *bytes,
            RecordedWork::Fill { len, .. } => *len,
            other => other.rects().iter().fold(0, |sum, rect| sum.saturating_add(rect.bytes())),
        }
    }

    /// The kind of work, in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            RecordedWork::Nothing => "wait",
            RecordedWork::Mark => "mark",
            RecordedWork::Linear { .. } => "linear",
            RecordedWork::Rows { .. } => "rows",
            RecordedWork::Batch { .. } => "batch",
            RecordedWork::Through { is_descriptor: true, .. } => "descriptor",
            RecordedWork::Through { .. } => "late-bound",
            RecordedWork::Fill { .. } => "fill",
            RecordedWork::Reduce { .. } => "reduce",
            RecordedWork::Function => "function",
        }
    }
}

/// A byte of an allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// The allocation.
    pub allocation: u32,
    /// How many bytes of it lie before this one. Less than 0 only in a file, for pageable memory.
    pub offset: i64,
}

/// A rectangle of bytes at both ends; bytes in one piece are one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rect {
    /// The first byte of the destination.
    pub dst: Location,
    /// Bytes from one row of the destination to the next.
    pub dst_pitch: u64,
    /// The first byte of the source.
    pub src: Location,
    /// Bytes from one row of the source to the next.
    pub src_pitch: u64,
    /// Bytes of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

impl Rect {
    /// Bytes in one piece.
    pub fn linear(dst: Location, src: Location, len: u64) -> Rect {
        Rect { dst, dst_pitch: len, src, src_pitch: len, width: len, height: 1 }
    }

    /// How many bytes it moves.
    pub fn bytes(&self) -> u64 {
        self.width.saturating_mul(self.height)
    }

    /// How many bytes lie from its first to its last, with rows this far apart.
    pub fn span(&self, pitch: u64) -> u64 {
        match self.bytes() {
            0 => 0,
            _ => pitch.saturating_mul(self.height - 1).saturating_add(self.width),
        }
    }
}

/// How an op went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpResult {
    /// When the work began; 0 if that was not seen.
    pub begin: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// What came of it.
    pub outcome: Outcome,
    /// How many ops were sent to the device as one.
    pub together: u32,
    /// What did it, as in [`Passed::engine`](crate::fact::Passed::engine).
    pub engine: u8,
}
