//! What facts say of work: the ops that streams are given, what they do, what comes of them, and how threads
//! learn of that. Addresses are the engine's, as the text of the module above says.

#[cfg(doc)]
use super::Fact;
use super::{CallSite, Nanos, Point};

/// An op was taken by a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubmittedOp {
    /// When.
    pub time: Nanos,
    /// The op.
    pub point: Point,
    /// The call.
    pub site: CallSite,
    /// What passes before it, besides the op before it in its stream: what it waits for, and what it need
    /// not wait for since that has passed.
    pub awaits: Vec<Awaited>,
    /// What it does.
    pub work: Work,
    /// The task of a graph that it is.
    pub task: Option<TaskId>,
}

/// Bytes of a descriptor ([`Work::Through`]).
pub const DESCRIPTOR_BYTES: u64 = 56;

/// A task of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId {
    /// The graph.
    pub graph: u32,
    /// The index of the task, in the order of the capture.
    pub task: u32,
}

/// What a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A point of a stream of this process.
    Point(Point),
    /// Something that is not decided yet, by its number: see [`Fact::Bound`].
    Later(u64),
    /// Something outside: an event of another process, a notify.
    Outside,
}

/// What an op does. See the module's text for the addresses.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Work {
    /// Nothing but to be passed: an event was recorded, or a wait.
    #[default]
    Nothing,
    /// An event or the like records that the stream came here.
    Mark,
    /// Bytes in one piece.
    Linear {
        /// Between which kinds of memory.
        route: Route,
        /// The bytes.
        piece: Piece,
    },
    /// A rectangle.
    Rows {
        /// Between which kinds of memory.
        route: Route,
        /// The rectangle.
        rows: Rows,
    },
    /// The pieces of a batch.
    Batch {
        /// Between which kinds of memory.
        route: Route,
        /// How many pieces there are.
        count: u64,
        /// How many bytes they have together.
        bytes: u64,
        /// The first of them; more come in [`Fact::MorePieces`], or none if pieces are not wanted.
        pieces: Vec<Piece>,
    },
    /// A copy inside a device whose addresses are read when it runs.
    Through {
        /// The device.
        device: u32,
        /// Where the addresses are read: a descriptor, or the cells of destination and source.
        cells: [u64; 2],
        /// How many bytes; 0 if a descriptor says it.
        len: u64,
    },
    /// A repetition of a pattern.
    Fill {
        /// The first byte.
        dst: u64,
        /// How many.
        len: u64,
        /// The first four bytes.
        pattern: [u8; 4],
        /// The device whose memory it is.
        device: Option<u32>,
    },
    /// Memory of a device combined with other memory of it.
    Reduce {
        /// The device.
        device: u32,
        /// The bytes of both ends.
        piece: Piece,
        /// How: 0 sum, 1 maximum, 2 minimum.
        combine: u8,
        /// Of which elements: 0 i8, 1 i16, 2 i32, 3 u32, 4 f16, 5 bf16, 6 f32.
        element: u8,
    },
    /// A function of the program's.
    Function,
}

impl Work {
    /// How many bytes it moves or writes, as far as that is known when it is submitted.
    pub fn bytes(&self) -> u64 {
        match self {
            Work::Nothing | Work::Mark | Work::Function => 0,
            Work::Linear { piece, .. } | Work::Reduce { piece, .. } => piece.len,
            Work::Rows { rows, .. } => rows.width.saturating_mul(rows.height),
            Work::Batch { bytes, .. } => *bytes,
            Work::Through { len, .. } | Work::Fill { len, .. } => *len,
        }
    }

    /// Between which kinds of memory it copies, if it is a copy whose ends are known.
    pub fn route(&self) -> Option<Route> {
        match self {
            Work::Linear { route, .. } | Work::Rows { route, .. } | Work::Batch { route, .. } => Some(*route),
            Work::Through { device, .. } => {
                Some(Route { src: Some(*device), dst: Some(*device), is_pageable: false })
            }
            _ => None,
        }
    }
}

/// Between which kinds of memory bytes move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Route {
    /// The device read from; `None` for the host.
    pub src: Option<u32>,
    /// The device written to; `None` for the host.
    pub dst: Option<u32>,
    /// Whether pageable host memory takes part.
    pub is_pageable: bool,
}

/// Bytes in one piece at both ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The first byte of the destination.
    pub dst: u64,
    /// The first byte of the source.
    pub src: u64,
    /// How many.
    pub len: u64,
}

/// A rectangle of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The first byte of the destination.
    pub dst: u64,
    /// Bytes from one row of the destination to the next.
    pub dst_pitch: u64,
    /// The first byte of the source.
    pub src: u64,
    /// Bytes from one row of the source to the next.
    pub src_pitch: u64,
    /// Bytes of a row.
    pub width: u64,
    /// Rows.
    pub height: u64,
}

/// An op has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The op.
    pub point: Point,
    /// When the work began; 0 if another thread told so in [`Fact::Begun`], or if it never began.
    pub begin: Nanos,
    /// When it ended.
    pub end: Nanos,
    /// What came of it.
    pub outcome: Outcome,
    /// How many ops were sent to the device as one, this one among them: they share begin and end. 1 for an
    /// op of its own.
    pub together: u32,
    /// What did it: 0 the thread that wrote this, 1 a copy engine of the device, 2 a kernel.
    pub engine: u8,
}

/// What came of an op.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    #[default]
    Done,
    /// It failed.
    Failed,
    /// It was dropped, because its stream was aborted or has stopped for good.
    Dropped,
}

/// A thread has learnt that a point has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// When.
    pub time: Nanos,
    /// The point.
    pub point: Point,
    /// The call.
    pub site: CallSite,
    /// How.
    pub how: Join,
}

/// How a thread learns that a point has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Join {
    /// It waited: a synchronise, or a call that is documented to wait.
    #[default]
    Wait,
    /// It asked, and the answer was yes.
    Query,
    /// It is a function of the program's that runs behind the point in its stream.
    Function,
    /// It has ended the work of the stream in place of waiting for it.
    Abort,
    /// Another process has waited for it, and may have told this one.
    Elsewhere,
}

/// Work was recorded into a capture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Captured {
    /// When.
    pub time: Nanos,
    /// The call.
    pub site: CallSite,
    /// What it becomes.
    pub task: TaskId,
    /// The branch: 0 for that of the stream whose capture was begun.
    pub branch: u32,
    /// What it does.
    pub work: Work,
}

/// Which bytes of an op: row by row and piece by piece, as one string of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum End {
    /// Those that are read, before anything is written.
    #[default]
    Source,
    /// Those that are written, afterwards.
    Destination,
}
