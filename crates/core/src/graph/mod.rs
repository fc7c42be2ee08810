//! Graphs: work that is recorded once and executed many times.
//!
//! A [`Capture`](capture::Capture) records tasks: ops, planned once, in the engine's addresses; functions;
//! records and waits that lead from one branch to another. Made into a [`Graph`], they run again and again.
//! Every branch has a stream of its own, so that branches run side by side, and executions one after the
//! other. The stream that launches an execution has one op of it: a wait for its end.
//!
//! An execution plans nothing. It checks that the memory of the graph is still what it was when the ops were
//! planned, which costs one comparison while nothing was freed, and submits the ops. This folder knows
//! streams; nothing below knows graphs but as `NestedWork` that is aborted with the stream.

pub mod capture;
mod merge;
mod order;
pub mod task;

use crate::{
    Block, Error, Fence, Gate, Kind, Memory, Result, Stream, Ticket,
    footprint::Footprints,
    submissions::{NestedWork, StreamState},
    sync::{Arc, AtomicU64, Mutex, Ordering, Weak, lock},
};
use std::{any::Any, collections::VecDeque};
use task::{Branch, RepeatedOp, Task, Work};

/// Recorded work. See the module's text.
pub struct Graph {
    memory: Arc<Memory>,
    /// One for each branch, and the graph's own.
    streams: Vec<Arc<Stream>>,
    tasks: Vec<Task>,
    footprints: Footprints,
    /// What tasks use and nothing else owns.
    _kept: Vec<Box<dyn Any + Send + Sync>>,
    heads: Vec<Branch>,
    /// Branches other than the first that an execution ends with.
    tails: Vec<Branch>,
    /// How often memory had been freed when the footprints were last compared.
    compared: AtomicU64,
    /// Executions are submitted one at a time.
    turn: Mutex<()>,
    runs: Mutex<VecDeque<Execution>>,
}

/// An execution.
struct Execution {
    /// The newest ticket of each branch before it.
    before: Vec<Ticket>,
    launcher: Arc<StreamState>,
    /// The op of the launching stream that waits for its end.
    ticket: Ticket,
}

impl Execution {
    fn is_over(&self) -> bool {
        self.launcher.status.passed() >= self.ticket || self.launcher.queue.fence_after(self.ticket).is_done()
    }
}

impl NestedWork for Graph {
    fn abort(&self) {
        self.streams.iter().for_each(|stream| stream.abort());
    }
}

impl Graph {
    fn new(
        memory: Arc<Memory>,
        streams: Vec<Arc<Stream>>,
        tasks: Vec<Task>,
        footprints: Footprints,
        kept: Vec<Box<dyn Any + Send + Sync>>,
    ) -> Graph {
        Graph {
            compared: AtomicU64::new(u64::MAX),
            memory,
            streams,
            tasks,
            footprints,
            _kept: kept,
            heads: Vec::new(),
            tails: Vec::new(),
            turn: Mutex::default(),
            runs: Mutex::default(),
        }
    }

    fn with_ends(mut self, heads: Vec<Branch>, tails: Vec<Branch>) -> Graph {
        (self.heads, self.tails) = (heads, tails);
        self
    }

    /// Itself, told of what fails on its streams.
    fn launchable(self) -> Arc<Graph> {
        let graph = Arc::new(self);
        for (branch, stream) in graph.streams.iter().enumerate() {
            let weak = Arc::downgrade(&graph);
            stream.status().listen(Box::new(move |ticket, error| {
                if let Some(graph) = weak.upgrade() {
                    graph.fail(branch, ticket, error);
                }
            }));
        }
        graph
    }

    /// The op `ticket` of a branch has failed: so has the op of the launching stream that waits for it.
    fn fail(&self, branch: Branch, ticket: Ticket, error: &Error) {
        let runs = lock(&self.runs);
        let run = runs.iter().rev().find(|run| run.before[branch] < ticket);
        let launched = run.map(|run| (run.launcher.clone(), run.ticket));
        drop(runs);
        if let Some((launcher, ticket)) = launched {
            launcher.status.fail_at(ticket, error.clone());
        }
    }

    /// How many branches there are.
    pub fn branches(&self) -> usize {
        self.streams.len()
    }

    /// Whether an execution is queued or runs.
    pub fn is_running(&self) -> bool {
        let _turn = lock(&self.turn);
        let mut runs = lock(&self.runs);
        runs.retain(|run| !run.is_over());
        !runs.is_empty()
    }

    /// Drops all executions that are queued or run; returns when no byte of them moves any more.
    pub fn abort(&self) {
        NestedWork::abort(self);
    }

    /// Submits an execution as one op of `stream`: behind everything that was submitted there, and behind
    /// executions of this graph that were submitted before, to whichever stream. Fails, and does nothing, if
    /// memory of the graph was freed.
    pub fn execute(self: &Arc<Self>, stream: &Stream) -> Result<Ticket> {
        let _turn = lock(&self.turn);
        self.compare()?;
        lock(&self.runs).retain(|run| !run.is_over());
        if self.tasks.iter().any(|task| matches!(task.work, Work::Each(_))) {
            return self.execute_detached(stream);
        }
        stream.nest(self.weak(), |before, ticket| {
            self.begin(stream, ticket);
            self.submit(before.as_ref())
        })
    }

    /// As `execute`, with tasks submitted by functions of the layer above, which may take locks of theirs:
    /// the lock of the launching stream is not held meanwhile.
    fn execute_detached(self: &Arc<Self>, stream: &Stream) -> Result<Ticket> {
        let (gate, mut begun) = (Gate::new(), None);
        let ticket = stream.nest(self.weak(), |before, ticket| {
            self.begin(stream, ticket);
            begun = before;
            Ok(gate.clone())
        })?;
        match self.submit(begun.as_ref()) {
            Ok(end) => gate.bind(end),
            Err(error) => {
                stream.status().fail_at(ticket, error);
                gate.open();
            }
        }
        Ok(ticket)
    }

    fn weak(self: &Arc<Self>) -> Weak<dyn NestedWork> {
        let weak: Weak<Graph> = Arc::downgrade(self);
        weak
    }

    /// Notes an execution that is about to be submitted.
    fn begin(&self, stream: &Stream, ticket: Ticket) {
        let before = self.streams.iter().map(|stream| stream.newest()).collect();
        lock(&self.runs).push_back(Execution { before, launcher: stream.state.clone(), ticket });
    }

    /// Submits all tasks behind `before`, and returns the fence of their end. If one of them cannot be
    /// submitted, those before it run, and the op of the launching stream fails.
    fn submit(&self, before: Option<&Arc<dyn Fence>>) -> Result<Arc<dyn Fence>> {
        for head in &self.heads {
            before.map(|before| self.streams[*head].wait_for(before.clone())).transpose()?;
        }
        let mut records: Vec<Option<Arc<dyn Fence>>> = Vec::new();
        let submitted = self.tasks.iter().try_for_each(|task| self.submit_task(task, &mut records));
        if let Err(error) = submitted {
            self.streams[0].status().fail_at(self.streams[0].newest() + 1, error);
        }
        for tail in &self.tails {
            self.streams[0].wait_for(self.streams[*tail].fence()?)?;
        }
        self.streams[0].fence()
    }

    fn submit_task(&self, task: &Task, records: &mut Vec<Option<Arc<dyn Fence>>>) -> Result<()> {
        let stream = &self.streams[task.branch];
        match &task.work {
            Work::Op(op) => self.submit_op(stream, op)?,
            Work::Call(function) => {
                let function = function.clone();
                stream.call(move || function())?;
            }
            Work::Each(submit) => submit(stream)?,
            Work::Barrier => {}
            Work::Record(edge) => {
                records.resize(records.len().max(edge + 1), None);
                records[*edge] = Some(stream.fence()?);
            }
            Work::Wait(edge) => {
                if let Some(Some(fence)) = records.get(*edge) {
                    stream.wait_for(fence.clone())?;
                }
            }
        }
        Ok(())
    }

    fn submit_op(&self, stream: &Stream, op: &RepeatedOp) -> Result<()> {
        let make = |_: &Memory| self.compare().map(|()| op.op());
        // SAFETY: the memory of the op is known and still the same, as was compared under the lock that is
        // taken before memory is given back, or belongs to another library, which the capturing caller
        // vouched for.
        unsafe { stream.submit(make) }.map(drop)
    }

    /// Fails if memory of the graph was freed. While nothing at all was freed that is one comparison.
    fn compare(&self) -> Result<()> {
        let table = self.memory.table();
        let removals = table.removals();
        if self.compared.load(Ordering::Relaxed) == removals {
            return Ok(());
        }
        if let Some((block, task)) = self.footprints.gone(table) {
            return Err(was_freed(&block, task));
        }
        self.compared.store(removals, Ordering::Relaxed);
        Ok(())
    }
}

#[cold]
fn was_freed(block: &Block, task: usize) -> Error {
    Kind::BadAddress.because(format!(
        "task {task} of the graph uses {block}, which was freed after the graph was captured: memory of a \
         graph must stay until the graph is destroyed"
    ))
}
