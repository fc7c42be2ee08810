//! The trace model: everything that a trace shows, as tables that refer to each other by index.
//!
//! All times are nanoseconds of the machine's monotonic clock, as in the facts. Addresses are the program's.

use crate::check::CheckFinding;
use crate::fact::{Block, Nanos, Point, Route, StreamPurpose, TaskId};

/// All tables of a trace.
#[derive(Clone, Debug, Default)]
pub struct TraceModel {
    /// The watched processes.
    pub processes: Vec<TracedProcess>,
    /// Their threads: those that called something and those that did work.
    pub threads: Vec<TracedThread>,
    /// The streams of all processes.
    pub streams: Vec<TracedStream>,
    /// The calls, in the order of their end within a thread.
    pub calls: Vec<TracedCall>,
    /// The ops, in the order in which they became known.
    pub ops: Vec<TracedOp>,
    /// The memory.
    pub blocks: Vec<TracedBlock>,
    /// What ops waited for besides the op before them.
    pub waits: Vec<TracedWait>,
    /// Threads that have learnt that a point has passed.
    pub joins: Vec<TracedJoin>,
    /// The captures.
    pub captures: Vec<TracedCapture>,
    /// The tasks that were captured.
    pub tasks: Vec<TracedTask>,
    /// Return addresses of whole stacks.
    pub stacks: Vec<TracedStack>,
    /// What the checker has found; `None` if nobody checked.
    pub findings: Option<Vec<TracedFinding>>,
    /// What is not in the tables above, because they were full.
    pub left_out: LeftOut,
}

/// How much a trace does not have, by table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Ops.
    pub ops: u64,
    /// Calls.
    pub calls: u64,
    /// Waits, joins, blocks, tasks and stacks.
    pub others: u64,
    /// Facts that the buffers had lost.
    pub facts: u64,
}

/// A watched process.
#[derive(Clone, Debug, Default)]
pub struct TracedProcess {
    /// The system's number of it.
    pub number: u32,
    /// Its parent.
    pub parent: u32,
    /// When it began to be watched; 0 if that is not known.
    pub started: Nanos,
    /// Nanoseconds of the Unix epoch at that moment.
    pub epoch: u64,
    /// How many devices it had.
    pub devices: u32,
    /// The backend.
    pub backend: String,
    /// The command line.
    pub command: String,
    /// The names of functions, from index 1 on at place 0.
    pub functions: Vec<String>,
    /// When it ended in order, if it did.
    pub ended: Option<Nanos>,
    /// Whether it has called exec, or its number is that of another process now: its return addresses cannot
    /// be named any more.
    pub is_replaced: bool,
}

impl TracedProcess {
    /// The name of a function by its index in the facts.
    pub fn function(&self, index: u16) -> &str {
        let at = usize::from(index).checked_sub(1);
        at.and_then(|at| self.functions.get(at)).map_or("unknown function", String::as_str)
    }
}

/// A thread of a watched process.
#[derive(Clone, Debug, Default)]
pub struct TracedThread {
    /// The index of its process.
    pub process: u32,
    /// The system's number of it.
    pub number: u32,
    /// Its name; empty if it is not known.
    pub name: String,
}

/// A stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedStream {
    /// The index of its process.
    pub process: u32,
    /// Its number in the process.
    pub number: u32,
    /// Its device.
    pub device: u32,
    /// What it is for.
    pub purpose: StreamPurpose,
    /// What the program calls it; 0 if it does not know it.
    pub handle: u64,
    /// When it was destroyed, if it was.
    pub gone: Option<Nanos>,
}

/// A call of a function of the library.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedCall {
    /// The index of the thread.
    pub thread: u32,
    /// The index of the function, as [`TracedProcess::function`] takes it.
    pub function: u16,
    /// The return address in the program; 0 if it is not known.
    pub caller: u64,
    /// The index of its whole stack, if that was kept.
    pub stack: Option<u32>,
    /// When it began.
    pub begin: Nanos,
    /// When it returned; for a copy on the fast path, when the stream took it.
    pub end: Nanos,
    /// How long it was blocked because it waited for work.
    pub blocked: u64,
    /// What it returned; 0 is success.
    pub code: i32,
    /// Whether a stream refused work of it.
    pub is_refused: bool,
}

/// What kind of work an op is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkKind {
    /// Nothing is known of it: only that it has passed.
    #[default]
    Unknown,
    /// A wait for other streams.
    Wait,
    /// A record of an event.
    Mark,
    /// A copy.
    Copy,
    /// A copy of a rectangle.
    Rectangle,
    /// A batch of copies.
    Batch,
    /// A copy whose addresses are read when it runs.
    LateBound,
    /// A fill.
    Fill,
    /// A reduction.
    Reduce,
    /// A function of the program's.
    Function,
}

/// How far an op came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpState {
    /// It was submitted and not seen to begin.
    #[default]
    Queued,
    /// It was seen to begin and not seen to end.
    Running,
    /// It was done.
    Done,
    /// It failed.
    Failed,
    /// It was dropped.
    Dropped,
}

/// An address of the program's, and the memory that it is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracedPlace {
    /// The address.
    pub address: u64,
    /// The index of the block, if it is in one that was kept.
    pub block: Option<u32>,
}

/// An op of a stream.
#[derive(Clone, Debug, Default)]
pub struct TracedOp {
    /// The index of the stream.
    pub stream: u32,
    /// Its number in the stream.
    pub ticket: u64,
    /// When it was submitted, not after it began; `None` if that was not seen.
    pub submitted: Option<Nanos>,
    /// The index of the call that submitted it.
    pub call: Option<u32>,
    /// When its work began.
    pub begin: Option<Nanos>,
    /// When its work ended.
    pub end: Option<Nanos>,
    /// How far it came.
    pub state: OpState,
    /// How many ops were sent to the device as one, this one among them.
    pub together: u32,
    /// What did it: 0 a thread, 1 a copy engine of the device, 2 a kernel.
    pub engine: u8,
    /// The index of the thread that did it, if a thread did.
    pub worker: Option<u32>,
    /// What it is.
    pub kind: WorkKind,
    /// Between which kinds of memory it copies.
    pub route: Option<Route>,
    /// How many bytes it moves or writes.
    pub bytes: u64,
    /// Of how many pieces it is made.
    pub pieces: u64,
    /// The first byte written.
    pub dst: Option<TracedPlace>,
    /// The first byte read.
    pub src: Option<TracedPlace>,
    /// Of a rectangle: width, height, pitch of the destination, pitch of the source.
    pub rectangle: Option<Box<[u64; 4]>>,
    /// The task of a graph that it is.
    pub task: Option<TaskId>,
}

/// Memory that was known for a while.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedBlock {
    /// The index of the process.
    pub process: u32,
    /// The memory.
    pub block: Block,
    /// The index of the call that made it known.
    pub call: Option<u32>,
    /// Since when.
    pub known: Nanos,
    /// Until when, if it was freed.
    pub forgotten: Option<Nanos>,
}

/// An op that waited for something besides the op before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedWait {
    /// The index of the op.
    pub op: u32,
    /// What it waited for; `None` for something outside of the process, or that was never decided.
    pub awaited: Option<TracedPoint>,
}

/// A point of a stream of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedPoint {
    /// The index of the stream.
    pub stream: u32,
    /// The number of the op in it.
    pub ticket: u64,
    /// The index of that op, if it was kept.
    pub op: Option<u32>,
}

/// A thread that has learnt that a point has passed.
#[derive(Clone, Copy, Debug)]
pub struct TracedJoin {
    /// The index of the thread.
    pub thread: u32,
    /// When.
    pub time: Nanos,
    /// What has passed.
    pub point: TracedPoint,
    /// The index of the call.
    pub call: Option<u32>,
}

/// A capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedCapture {
    /// The index of the process.
    pub process: u32,
    /// Its number, which the graph keeps.
    pub graph: u32,
    /// The index of the stream whose capture was begun.
    pub stream: u32,
    /// The index of the call that began it.
    pub call: Option<u32>,
    /// When it began.
    pub begin: Nanos,
    /// When it ended, if it did.
    pub end: Option<Nanos>,
    /// Whether a graph came of it.
    pub is_graph: bool,
    /// How many tasks it recorded.
    pub tasks: u64,
}

/// Work that was recorded into a capture.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracedTask {
    /// The index of the process.
    pub process: u32,
    /// What it became.
    pub task: TaskId,
    /// The index of the call that recorded it.
    pub call: Option<u32>,
    /// When.
    pub time: Nanos,
}

/// The return addresses of a stack.
#[derive(Clone, Debug, Default)]
pub struct TracedStack {
    /// The index of the process.
    pub process: u32,
    /// The addresses, the innermost first.
    pub frames: Vec<u64>,
}

/// A finding, and its places in the tables.
#[derive(Clone, Debug)]
pub struct TracedFinding {
    /// What was found.
    pub finding: CheckFinding,
    /// Where it went wrong.
    pub access: TracedSpot,
    /// The work that it collides with.
    pub work: TracedSpot,
}

/// Where on the timeline something stands, as far as the tables have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TracedSpot {
    /// The index of the thread that accessed the memory or made the call.
    pub thread: Option<u32>,
    /// The index of the call.
    pub call: Option<u32>,
    /// The index of the op.
    pub op: Option<u32>,
}

impl TraceModel {
    /// The first and the last moment of the trace.
    pub fn span(&self) -> (Nanos, Nanos) {
        let processes =
            self.processes.iter().flat_map(|it| [Some(it.started).filter(|&at| at > 0), it.ended]);
        let calls = self.calls.iter().flat_map(|it| [Some(it.begin), Some(it.end)]);
        let ops = self.ops.iter().flat_map(|it| [it.submitted, it.begin, it.end]);
        let joins = self.joins.iter().map(|it| Some(it.time));
        let captures = self.captures.iter().flat_map(|it| [Some(it.begin), it.end]);
        let findings = self.findings.iter().flatten().map(|it| Some(it.finding.time).filter(|&at| at > 0));
        let all = processes.chain(calls).chain(ops).chain(joins).chain(captures).chain(findings).flatten();
        let (first, last) = all.fold((Nanos::MAX, 0), |(a, b), at| (a.min(at), b.max(at)));
        if first > last { (0, 0) } else { (first, last) }
    }

    /// The process of a stream.
    pub fn process_of(&self, stream: u32) -> &TracedProcess {
        &self.processes[self.streams[stream as usize].process as usize]
    }

    /// The process of a thread.
    pub fn process_of_thread(&self, thread: u32) -> &TracedProcess {
        &self.processes[self.threads[thread as usize].process as usize]
    }

    /// An op as its process calls it.
    pub fn point_of(&self, op: &TracedOp) -> Point {
        Point { stream: self.streams[op.stream as usize].number, ticket: op.ticket }
    }
}
