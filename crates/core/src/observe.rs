//! Watching the engine without steering it: what tracers, statistics, recorders and checkers are built on.
//!
//! The engine tells every [`Observer`] what it does, through [`Observers`], which survives their panics. It
//! takes no times and keeps nothing for them: an observer that wants either has it by itself. Without an
//! observer each of these places costs one branch.

use crate::{Block, Error, Linear, Op, Point, Ticket, fence::survives, sync::Arc};

/// What an observer is shown of an op.
#[derive(Clone, Copy)]
pub enum Seen<'a> {
    /// A copy in one piece, on the short way of most copies.
    Linear(&'a Linear),
    /// Any other op.
    Op(&'a Op),
    /// A mark: what an event records.
    Mark,
    /// Work of a graph that is made anew at every execution.
    Other,
}

/// What came of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was done.
    Done,
    /// It failed.
    Failed,
    /// It was dropped by an abort, or because its stream has stopped for good.
    Dropped,
}

/// When a device did some ops, where its own clock says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceTime {
    /// When it began, in nanoseconds of the host's monotonic clock.
    pub begin_ns: u64,
    /// When it ended, in nanoseconds of the host's monotonic clock.
    pub end_ns: u64,
    /// How many ops were sent to the device as one, and share these times.
    pub together: u32,
    /// What did the work.
    pub engine: DeviceEngine,
}

/// What does the work of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceEngine {
    /// A copy engine.
    Copy,
    /// A kernel.
    Kernel,
}

/// A task of a graph, as observers know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId {
    /// The number of the graph in its runtime, from 1.
    pub graph: u32,
    /// The number of the task, in the order of the capture; barriers count.
    pub task: u32,
}

/// How a thread learns that work has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// It waited.
    Wait,
    /// It asked, and the answer was yes.
    Query,
    /// It runs a function that was submitted as the next op of the stream.
    Function,
    /// It runs a function of the library's own that submits the tasks of a graph, whose turn has come. It
    /// tells the program nothing.
    Launch,
    /// It is about to end the work of the stream in place of waiting for it: what other streams were to do
    /// before that may not have been done. When the work has ended, it has waited for that.
    Abort,
    /// Another process has waited for it, and may have told this one.
    Elsewhere,
}

/// Is told what the engine does, and changes nothing.
///
/// Calls come from the thread that does it. For one stream, ops are made in the order of their tickets; an op
/// may begin and pass before its submission is told, on another thread. An observer does not call the
/// runtime: locks may be held around it.
///
/// ```
/// use ferry_core::{Linear, Observer, Point};
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// /// Counts what is submitted. The crate `ferry` takes one in its options.
/// #[derive(Default)]
/// struct Count(AtomicUsize);
///
/// impl Observer for Count {
///     fn submitted(&self, _op: Point, _copy: Option<&Linear>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
/// ```
pub trait Observer: Send + Sync {
    /// Whether it needs to be told what it could know by other tellings: that a copy in one piece was made,
    /// before that is submitted; and that an op begins at once when the one before it has passed.
    fn wants_details(&self) -> bool {
        true
    }
    /// `block` has just become known.
    fn known(&self, block: &Block) {
        let _ = block;
    }
    /// `block` has just become unknown; work that was submitted before may still use its memory.
    fn forgotten(&self, block: &Block) {
        let _ = block;
    }
    /// The memory of `block`, which was forgotten before, goes back to the backend: no work can reach it.
    fn reused(&self, block: &Block) {
        let _ = block;
    }
    /// A stream of `device` was made.
    fn stream_made(&self, stream: u64, device: u32) {
        let _ = (stream, device);
    }
    /// A stream is gone. Its work may go on.
    fn stream_gone(&self, stream: u64) {
        let _ = stream;
    }
    /// The op is about to be handed to the queue of its stream; it is `submitted` or `refused` next, on this
    /// thread.
    fn made(&self, op: Point, what: Seen<'_>) {
        let _ = (op, what);
    }
    /// The queue has taken the op. A copy in one piece is shown once more: most copies are such, and an
    /// observer need not keep what it was shown before.
    fn submitted(&self, op: Point, copy: Option<&Linear>) {
        let _ = (op, copy);
    }
    /// The queue has not taken the op, which never gets anywhere; the next op has its ticket.
    fn refused(&self, op: Point, why: &Error) {
        let _ = (op, why);
    }
    /// The work of the op begins, on this thread; `at_once` when the op before it in its stream has passed
    /// here. Ops that are dropped do not begin, and a device does not tell when one does.
    fn begun(&self, op: Point, at_once: bool) {
        let _ = (op, at_once);
    }
    /// The op that has begun on this thread takes long, or goes on elsewhere.
    fn suspended(&self, op: Point) {
        let _ = op;
    }
    /// The work of the op has failed; it passes later, with that fate.
    fn failed(&self, op: Point, why: &Error) {
        let _ = (op, why);
    }
    /// The op has passed. `when` is what the device says; without it the op ends now, and has begun when that
    /// was told.
    fn passed(&self, op: Point, fate: Fate, when: Option<DeviceTime>) {
        let _ = (op, fate, when);
    }
    /// The ops from `first` to `last` were done, which the device was sent as one.
    fn passed_together(&self, first: Ticket, last: Point, when: DeviceTime) {
        for ticket in first..=last.ticket {
            self.passed(Point { ticket, ..last }, Fate::Done, Some(when));
        }
    }
    /// The addresses of the late-bound copy were read: `(dst, src, len)` in the engine's addresses.
    fn resolved(&self, op: Point, ends: (usize, usize, usize)) {
        let _ = (op, ends);
    }
    /// What a wait for the promise `gate` is for is decided; `None` if it is over without a point.
    fn bound(&self, gate: u64, to: Option<Point>) {
        let _ = (gate, to);
    }
    /// This thread has learnt that the work up to `point` has passed.
    fn joined(&self, point: Point, how: JoinKind) {
        let _ = (point, how);
    }
    /// A function that a thread of the program's ran as the next op behind `point` has returned; that op has
    /// not passed.
    fn returned(&self, point: Point) {
        let _ = point;
    }
    /// A capture begins with the work of a stream.
    fn capture_begun(&self, graph: u32, stream: u64) {
        let _ = (graph, stream);
    }
    /// Work was recorded as a task of a branch of a graph, and does not run.
    fn captured(&self, task: TaskId, branch: usize, what: Seen<'_>) {
        let _ = (task, branch, what);
    }
    /// A capture has ended, with a graph or without one.
    fn capture_ended(&self, graph: u32, is_graph: bool) {
        let _ = (graph, is_graph);
    }
    /// What this thread submits next is this task of a graph; with `None`, what it asks for itself again.
    /// Copies that were coalesced are the first task of theirs.
    fn executing(&self, task: Option<TaskId>) {
        let _ = task;
    }
    /// What this thread submits next comes after these points, too, and does not wait for them, since they
    /// have passed; with none, it comes after nothing that it does not wait for. An execution of a graph
    /// follows those that are over.
    fn following(&self, over: &[Point]) {
        let _ = over;
    }
    /// An execution of a graph was submitted; `last` is the last op of the launching stream that belongs to
    /// it.
    fn launched(&self, graph: u32, last: Point) {
        let _ = (graph, last);
    }
}

/// All observers of a runtime. A panic of one stops neither the others nor the engine.
pub struct Observers {
    all: Vec<Arc<dyn Observer>>,
    wants_details: bool,
}

impl Observers {
    /// `None` without any.
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Option<Arc<Observers>> {
        let wants_details = observers.iter().any(|observer| observer.wants_details());
        (!observers.is_empty()).then(|| Arc::new(Observers { all: observers, wants_details }))
    }

    /// Whether one of them [wants details](Observer::wants_details).
    pub fn wants_details(&self) -> bool {
        self.wants_details
    }

    /// Tells all of them.
    #[inline(never)]
    pub fn tell(&self, what: impl Fn(&dyn Observer)) {
        for observer in &self.all {
            survives(|| what(&**observer));
        }
    }
}
