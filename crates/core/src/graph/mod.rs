//! Graphs: work that is recorded once and executed many times.
//!
//! A [`Capture`](capture::Capture) records tasks: ops, planned once, in the engine's addresses; functions;
//! records and waits that lead from one branch to another. Made into a [`Graph`], they run again and again.
//! The first branch runs on the stream that launches an execution, and each other branch on a stream of its
//! own, so that branches run side by side. Executions run one after the other: one that is launched from
//! another stream than those before it waits for them.
//!
//! An execution plans nothing. It checks that the memory of the graph is still what it was when the ops were
//! planned, which costs one comparison while nothing was freed, and submits the ops. This folder knows
//! streams; nothing below knows graphs but as `NestedWork` that is aborted with the stream.

pub mod capture;
pub mod group;
mod merge;
mod order;
pub mod task;

use crate::{
    Block, Error, Fence, Gate, Kind, Memory, Op, Result, Stream, Ticket,
    footprint::Footprints,
    stream::Transaction,
    submissions::{NestedWork, StreamState},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, Weak, lock},
};
use group::OpGroup;
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
    executions: Mutex<VecDeque<Execution>>,
    /// The first branch has a stream of its own, too: some tasks are submitted by functions or wait for what
    /// is submitted elsewhere, or the graph can be aborted.
    is_detached: bool,
}

/// An execution.
struct Execution {
    number: u64,
    /// The newest ticket of each branch's own stream before it.
    before: Vec<Ticket>,
    /// The same after it, if it uses these streams.
    after: Option<Vec<Ticket>>,
    launcher: Arc<StreamState>,
    /// The first op of the launching stream that belongs to it.
    first: Ticket,
    /// The last one.
    last: Ticket,
}

impl Execution {
    fn is_over(&self) -> bool {
        self.launcher.status.passed() >= self.last || self.launcher.queue.fence_after(self.last).is_done()
    }
}

/// Where the tasks of a branch go: those of the first to the launching stream, or all to a stream of the
/// graph's own.
enum BranchStream<'a, 'b> {
    Launching(&'a mut Transaction<'b>),
    Detached(&'a Arc<Stream>),
}

impl BranchStream<'_, '_> {
    fn fence(&self) -> Result<Arc<dyn Fence>> {
        match self {
            BranchStream::Launching(launch) => launch.fence(),
            BranchStream::Detached(stream) => stream.fence(),
        }
    }

    fn wait_for(&mut self, fence: Arc<dyn Fence>) -> Result<()> {
        match self {
            BranchStream::Launching(launch) => launch.wait_for(fence),
            BranchStream::Detached(stream) => stream.wait_for(fence).map(drop),
        }
    }

    fn call(&mut self, function: Arc<dyn Fn() + Send + Sync>) -> Result<()> {
        match self {
            // SAFETY: the op has no addresses.
            BranchStream::Launching(launch) => unsafe {
                launch.submit(Op::Call(Box::new(move || function())))
            },
            BranchStream::Detached(stream) => stream.call(move || function()).map(drop),
        }
    }
}

impl NestedWork for Graph {
    fn abort(&self) {
        self.tell_abort();
        self.streams.iter().for_each(|stream| stream.abort());
        let groups = self.tasks.iter().filter_map(|task| match &task.work {
            Work::Group(group) => Some(group),
            _ => None,
        });
        groups.for_each(|group| group.abort());
    }

    fn collect_failures(&self) {
        if !self.is_detached && self.streams.len() == 1 {
            return;
        }
        let executions = lock(&self.executions);
        let over = executions.iter().take_while(|execution| execution.is_over());
        let ends = over.last().and_then(|execution| execution.after.clone());
        drop(executions);
        for (stream, ticket) in self.streams.iter().zip(ends.into_iter().flatten()) {
            // Asked, the device tells what has failed up to there.
            stream.fence_after(ticket).is_done();
        }
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
            is_detached: tasks.iter().any(|task| matches!(task.work, Work::Each(_) | Work::Group(_))),
            compared: AtomicU64::new(u64::MAX),
            memory,
            streams,
            tasks,
            footprints,
            _kept: kept,
            heads: Vec::new(),
            tails: Vec::new(),
            turn: Mutex::default(),
            executions: Mutex::default(),
        }
    }

    fn with_ends(mut self, heads: Vec<Branch>, tails: Vec<Branch>) -> Graph {
        (self.heads, self.tails) = (heads, tails);
        self
    }

    /// Has all branches run on streams of the graph's own, so that an abort of the graph drops all of it.
    fn detached(mut self) -> Graph {
        self.is_detached = true;
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
        let executions = lock(&self.executions);
        let execution = executions.iter().rev().find(|execution| execution.before[branch] < ticket);
        let launched = execution.map(|execution| (execution.launcher.clone(), execution.first));
        drop(executions);
        if let Some((launcher, ticket)) = launched {
            launcher.status.fail_at(ticket, error.clone());
        }
    }

    /// Fails executions that are about to be dropped. A stream that is aborted itself says so by itself.
    fn tell_abort(&self) {
        let dropped = Kind::Aborted.because("the model was aborted before its work was done");
        let executions = lock(&self.executions);
        let launched: Vec<_> = executions
            .iter()
            .filter(|execution| !execution.is_over())
            .map(|execution| (execution.launcher.clone(), execution.first))
            .collect();
        drop(executions);
        let still_there = launched.iter().filter(|(launcher, first)| !launcher.status.is_dropped(*first));
        still_there.for_each(|(launcher, first)| launcher.status.fail_at(*first, dropped.clone()));
    }

    /// How many branches there are.
    pub fn branches(&self) -> usize {
        self.streams.len()
    }

    /// Whether an execution is queued or runs.
    pub fn is_running(&self) -> bool {
        let _turn = lock(&self.turn);
        !self.unfinished().is_empty()
    }

    /// Drops all executions that are queued or run; returns when no byte of them moves any more.
    pub fn abort(&self) {
        NestedWork::abort(self);
    }

    /// Submits an execution to `stream`: behind everything that was submitted there, and behind executions of
    /// this graph that were submitted before, to whichever stream. Fails, and does nothing, if memory of the
    /// graph was freed. Returns the ticket of its last op.
    pub fn execute(self: &Arc<Self>, stream: &Stream) -> Result<Ticket> {
        let _turn = lock(&self.turn);
        self.compare()?;
        let before = self.end_elsewhere(stream);
        if self.is_detached {
            return self.execute_detached(stream, before);
        }
        stream.transact(|launch| {
            // Once more, under the lock: a free from here on finds the ops of this execution.
            self.compare()?;
            before.map_or(Ok(()), |before| launch.wait_for(before))?;
            let number = self.begin(stream, launch.newest() + 1);
            let submitted = self.submit(&mut BranchStream::Launching(launch));
            self.note_ends(number);
            self.end(number, launch.newest());
            if self.streams.len() > 1 {
                launch.nest(self.weak());
            }
            submitted
        })
    }

    /// As `execute`, with the first branch on a stream of its own, for which the launching stream waits. No
    /// lock is held meanwhile: functions of the layer above that submit tasks may take locks of theirs.
    fn execute_detached(self: &Arc<Self>, stream: &Stream, before: Option<Arc<dyn Fence>>) -> Result<Ticket> {
        let (gate, mut begun, mut number, main) = (Gate::new(), None, 0, &self.streams[0]);
        let ticket = stream.transact(|launch| {
            begun = Some(launch.fence()?);
            launch.wait_for(gate.clone())?;
            number = self.begin(stream, launch.newest());
            self.end(number, launch.newest());
            launch.nest(self.weak());
            Ok(())
        })?;
        let wait = |fence| main.wait_for(fence).map(drop);
        let submitted = before.into_iter().chain(begun).try_for_each(wait);
        let submitted = submitted.and_then(|()| self.submit(&mut BranchStream::Detached(main)));
        if let Err(error) = submitted {
            stream.status().fail_at(ticket, error);
        }
        self.note_ends(number);
        match main.fence() {
            Ok(end) => gate.bind(end),
            Err(_) => gate.open(),
        }
        Ok(ticket)
    }

    fn weak(self: &Arc<Self>) -> Weak<dyn NestedWork> {
        let weak: Weak<Graph> = Arc::downgrade(self);
        weak
    }

    /// The executions that are not over, in their order. They end in that order, so that only the first is
    /// asked, however many are queued.
    fn unfinished(&self) -> MutexGuard<'_, VecDeque<Execution>> {
        self.collect_failures();
        let mut executions = lock(&self.executions);
        while executions.front().is_some_and(Execution::is_over) {
            executions.pop_front();
        }
        executions
    }

    /// The end of the newest execution, if that was launched from another stream and is not over. It has
    /// waited for those before it.
    fn end_elsewhere(&self, stream: &Stream) -> Option<Arc<dyn Fence>> {
        let executions = self.unfinished();
        let newest = executions.back().filter(|newest| !Arc::ptr_eq(&newest.launcher, &stream.state))?;
        Some(newest.launcher.queue.fence_after(newest.last))
    }

    /// Notes an execution that is about to be submitted from this ticket on.
    fn begin(&self, stream: &Stream, first: Ticket) -> u64 {
        let before = self.streams.iter().map(|stream| stream.newest()).collect();
        let mut executions = lock(&self.executions);
        let number = executions.back().map_or(0, |execution| execution.number + 1);
        let launcher = stream.state.clone();
        executions.push_back(Execution { number, before, after: None, launcher, first, last: Ticket::MAX });
        number
    }

    /// The execution was submitted up to this ticket of the launching stream.
    fn end(&self, number: u64, last: Ticket) {
        self.change(number, |execution| execution.last = last);
    }

    /// The execution was submitted to the graph's own streams, too, if it uses them.
    fn note_ends(&self, number: u64) {
        if self.is_detached || self.streams.len() > 1 {
            let after = self.streams.iter().map(|stream| stream.newest()).collect();
            self.change(number, |execution| execution.after = Some(after));
        }
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut Execution)) {
        let mut executions = lock(&self.executions);
        if let Some(execution) = executions.iter_mut().find(|execution| execution.number == number) {
            change(execution);
        }
    }

    /// Submits all tasks. If one of them cannot be submitted, those before it run.
    fn submit(&self, main: &mut BranchStream<'_, '_>) -> Result<()> {
        let side_heads = self.heads.iter().filter(|head| **head > 0);
        if side_heads.clone().next().is_some() {
            let begin = main.fence()?;
            for head in side_heads {
                self.streams[*head].wait_for(begin.clone())?;
            }
        }
        let mut records: Vec<Option<Arc<dyn Fence>>> = Vec::new();
        let submitted = self.tasks.iter().try_for_each(|task| self.submit_task(main, task, &mut records));
        for tail in &self.tails {
            main.wait_for(self.streams[*tail].fence()?)?;
        }
        submitted
    }

    fn submit_task(
        &self,
        main: &mut BranchStream<'_, '_>,
        task: &Task,
        records: &mut Vec<Option<Arc<dyn Fence>>>,
    ) -> Result<()> {
        match task.branch {
            0 => self.submit_work(main, &task.work, records),
            side => {
                let mut side = BranchStream::Detached(&self.streams[side]);
                self.submit_work(&mut side, &task.work, records)
            }
        }
    }

    fn submit_work(
        &self,
        branch: &mut BranchStream<'_, '_>,
        work: &Work,
        records: &mut Vec<Option<Arc<dyn Fence>>>,
    ) -> Result<()> {
        match work {
            Work::Op(op) => self.submit_op(branch, op)?,
            Work::Call(function) => branch.call(function.clone())?,
            Work::Each(submit) => match branch {
                BranchStream::Detached(stream) => submit(stream)?,
                BranchStream::Launching(_) => unreachable!("such graphs are executed detached"),
            },
            Work::Group(group) => match branch {
                BranchStream::Detached(stream) => submit_group(stream, group.clone())?,
                BranchStream::Launching(_) => unreachable!("such graphs are executed detached"),
            },
            Work::Barrier => {}
            Work::Record(edge) => {
                records.resize(records.len().max(edge + 1), None);
                records[*edge] = Some(branch.fence()?);
            }
            Work::Wait(edge) => {
                if let Some(Some(fence)) = records.get(*edge) {
                    branch.wait_for(fence.clone())?;
                }
            }
        }
        Ok(())
    }

    fn submit_op(&self, branch: &mut BranchStream<'_, '_>, op: &RepeatedOp) -> Result<()> {
        match branch {
            // The memory of the op was compared under the lock that is taken before memory is given back;
            // memory of other libraries the capturing caller vouched for.
            BranchStream::Launching(launch) => match op {
                // SAFETY: known memory is still what it was, see above.
                RepeatedOp::Linear(copy, touched) => unsafe { launch.submit_linear(*copy, touched) },
                // SAFETY: known memory is still what it was, see above.
                other => unsafe { launch.submit(other.op()) },
            },
            BranchStream::Detached(stream) => {
                let make = |_: &Memory| self.compare().map(|()| op.op());
                // SAFETY: as above; the stream has `make` asked again if memory was freed meanwhile.
                unsafe { stream.submit(make) }.map(drop)
            }
        }
    }

    /// Fails if memory of the graph was freed. While nothing at all was freed that is one comparison.
    fn compare(&self) -> Result<()> {
        let table = self.memory.table();
        let removals = table.removals();
        if self.compared.load(Ordering::Relaxed) == removals {
            return Ok(());
        }
        if let Some((block, task)) = self.footprints.gone(table) {
            return Err(was_freed(&block, &format!("task {task} of the graph")));
        }
        self.compared.store(removals, Ordering::Relaxed);
        Ok(())
    }
}

/// Has a stream of the graph's own run the ops that the group has when the stream comes there.
fn submit_group(stream: &Arc<Stream>, group: Arc<OpGroup>) -> Result<()> {
    let (state, ticket) = (stream.state.clone(), stream.newest() + 1);
    let run = move || {
        let is_dropped = || state.status.is_dropped(ticket);
        if let Err(error) = group.run(is_dropped)
            && !is_dropped()
        {
            state.status.fail_at(ticket, error);
        }
    };
    stream.call(run).map(drop)
}

#[cold]
fn was_freed(block: &Block, user: &str) -> Error {
    Kind::BadAddress.because(format!(
        "{user} uses {block}, which was freed after the graph was captured: memory of a graph must stay \
         until the graph is destroyed"
    ))
}
