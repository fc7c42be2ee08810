//! The inner layer of a recording's file: records, one for each thing that happened.
//!
//! Threads, sites, streams, allocations and graphs have the number of the record that introduces them, each
//! counted from 0 (sites from 1). Everything else names them by it.

use super::model::{Allocation, Location, RecordedProcess, RecordedSite, RecordedStream, RecordedWork, Rect};
use crate::fact::{Awaited, End, Join, Nanos, Passed, Point, TaskId};

/// Who did something, where and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepHead {
    /// The thread.
    pub thread: u32,
    /// The call site.
    pub site: u32,
    /// When the call began.
    pub begin: Nanos,
    /// When it was done.
    pub time: Nanos,
}

/// One record. Points have the recording's numbers of streams.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A process is watched from here on, of which nothing is known yet.
    Process,
    /// What is known of a process: its index.
    Started(u32, RecordedProcess),
    /// A process ended in order: its index.
    Ended(u32),
    /// A thread of the process with this index.
    Thread(u32),
    /// The name of a thread.
    ThreadName { thread: u32, name: String },
    /// A call site.
    Site(RecordedSite),
    /// A stream of the process with this index, of which nothing is known yet.
    Stream(u32),
    /// A stream was made, or more is known of it: its number.
    StreamMade(StepHead, u32, RecordedStream),
    /// A stream is gone.
    StreamGone(StepHead, u32),
    /// Memory became known. Pageable memory has no length here: the loader finds out what of it is used.
    Memory(StepHead, Allocation),
    /// Memory was freed.
    Freed(StepHead, u32),
    /// An op was submitted.
    Submitted {
        head: StepHead,
        point: Point,
        /// Promises are numbers of the process of the stream.
        awaits: Vec<Awaited>,
        work: RecordedWork,
        task: Option<TaskId>,
    },
    /// More pieces of a batch.
    MorePieces { point: Point, rects: Vec<Rect> },
    /// An op was refused.
    Refused { head: StepHead, stream: u32, work: RecordedWork },
    /// An op has begun, where that was told apart from its end.
    Begun { point: Point, time: Nanos },
    /// An op has passed.
    Passed(Passed),
    /// What a late-bound copy moves.
    Resolved { point: Point, rect: Rect },
    /// What a promise of a process is bound to.
    Bound { process: u32, promise: u64, point: Option<Point> },
    /// A thread learnt that a point has passed.
    Joined { head: StepHead, point: Point, how: Join },
    /// A capture began: the graph that comes of it has the number of this record.
    CaptureBegun { head: StepHead, stream: Option<u32> },
    /// A task was captured.
    Captured { head: StepHead, task: TaskId, branch: u32, work: RecordedWork },
    /// A capture ended.
    CaptureEnded { head: StepHead, graph: u32, is_graph: bool },
    /// An execution was submitted.
    Launched { head: StepHead, graph: u32, point: Point },
    /// A call returned.
    Call { head: StepHead, blocked: u64, code: i32 },
    /// The hash of the bytes of an end of an op.
    Contents { point: Point, end: End, hash: u64 },
    /// The bytes of an end of an op, or a part of them.
    Bytes { point: Point, end: End, offset: u64, bytes: Vec<u8> },
    /// Facts were lost.
    Lost(u64),
}

/// Where the pieces that come next are expected: right behind the last ones.
pub fn behind(at: Location, len: u64) -> Location {
    Location { offset: at.offset.wrapping_add(len as i64), ..at }
}
