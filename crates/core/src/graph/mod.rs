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
mod executions;
pub mod group;
mod merge;
mod order;
pub mod task;

use crate::{
    Error, Fence, Gate, JoinKind, Kind, Memory, Op, Point, Result, Stream, Ticket,
    footprint::{Footprints, was_freed},
    observe::TaskId,
    stream::Transaction,
    submissions::{NestedWork, StreamState},
    sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering, Weak, lock},
};
use executions::Executions;
use group::OpGroup;
use std::any::Any;
use task::{Branch, RepeatedOp, Task, Work};

/// Recorded work. See the module's text.
pub struct Graph {
    memory: Arc<Memory>,
    /// What observers know it by.
    number: u32,
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
    executions: Executions,
    /// The first branch has a stream of its own, too: some tasks are submitted by functions or wait for what
    /// is submitted elsewhere, or the graph can be aborted.
    is_detached: bool,
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

/// A gate that is open in the end, unless it was bound: whatever fails, the launching stream goes on.
struct OpenedInTheEnd(Arc<Gate>, Arc<Memory>);

impl Drop for OpenedInTheEnd {
    fn drop(&mut self) {
        let OpenedInTheEnd(gate, memory) = self;
        if gate.point().is_none() {
            memory.tell(|observer| observer.bound(gate.number(), None));
            gate.open();
        }
    }
}

/// Keeps memory that is freed from being reused, until it is dropped.
struct MemoryClaim(Arc<Gate>);

impl MemoryClaim {
    fn new(memory: &Memory) -> Arc<MemoryClaim> {
        let gate = Gate::new();
        memory.streams().claim(gate.clone());
        Arc::new(MemoryClaim(gate))
    }
}

impl Drop for MemoryClaim {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// What the submission of one execution needs.
#[derive(Default)]
struct ExecutionState {
    /// What each record stands for.
    records: Vec<Option<Arc<dyn Fence>>>,
    /// The memory is kept since the launch, and may have been freed since then.
    is_claimed: bool,
}

impl NestedWork for Graph {
    fn mark_dropped_of(&self, launcher: &Arc<StreamState>) {
        let _turn = lock(&self.turn);
        let passed = launcher.status.passed();
        let launches = self.executions.launches(true);
        if launches.iter().any(|(other, first)| Arc::ptr_eq(other, launcher) && *first > passed) {
            self.mark_dropped();
        }
    }

    fn abort_of(&self, launcher: &Arc<StreamState>) {
        let _turn = lock(&self.turn);
        if self.executions.is_launched_by(launcher) {
            self.abort_submitted();
        }
    }

    fn tell_ended(&self) {
        if self.has_own_streams() {
            let ends = self.streams.iter().zip(self.executions.ends_before_unfinished());
            ends.for_each(|(stream, ticket)| stream.tell_joined(ticket, JoinKind::Query));
        }
    }

    fn collect_failures(&self) {
        if !self.has_own_streams() {
            return;
        }
        for (stream, ticket) in self.streams.iter().zip(self.executions.ends_reached()) {
            // Asked, the device tells what has failed up to there.
            stream.fence_after(ticket).is_done();
        }
    }
}

impl Graph {
    fn new(
        (memory, number): (Arc<Memory>, u32),
        streams: Vec<Arc<Stream>>,
        tasks: Vec<Task>,
        footprints: Footprints,
        kept: Vec<Box<dyn Any + Send + Sync>>,
    ) -> Graph {
        Graph {
            executions: Executions::new(&streams),
            is_detached: tasks.iter().any(|task| matches!(task.work, Work::Each(_) | Work::Group(_))),
            compared: AtomicU64::new(u64::MAX),
            memory,
            number,
            streams,
            tasks,
            footprints,
            _kept: kept,
            heads: Vec::new(),
            tails: Vec::new(),
            turn: Mutex::default(),
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
        if let Some((launcher, ticket)) = self.executions.launch_of(branch, ticket) {
            launcher.status.fail_at(ticket, error.clone());
        }
    }

    /// What the branches have is dropped from here on, in all of them before one drops any: fences of dropped
    /// work are done, and no branch may go on because another's are.
    fn mark_dropped(&self) {
        for stream in &self.streams {
            let newest = stream.newest();
            if !stream.has_passed(newest) {
                stream.status().drop_through(newest);
            }
        }
    }

    /// Drops what the branches have.
    fn abort_submitted(&self) {
        self.tell_abort(self.executions.launches(true));
        self.mark_dropped();
        self.streams.iter().for_each(|stream| stream.abort());
        let groups = self.tasks.iter().filter_map(|task| match &task.work {
            Work::Group(group) => Some(group),
            _ => None,
        });
        groups.for_each(|group| group.abort());
    }

    /// Fails executions that are about to be dropped. A stream that is aborted itself says so by itself.
    fn tell_abort(&self, launched: Vec<(Arc<StreamState>, Ticket)>) {
        let dropped = Kind::Aborted.because("the model was aborted before its work was done");
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
        self.collect_failures();
        !self.executions.is_empty()
    }

    /// Drops all executions that are queued or run; returns when no byte of them moves any more.
    pub fn abort(&self) {
        let _turn = lock(&self.turn);
        self.tell_abort(self.executions.launches(false));
        self.executions.cancel_deferred();
        self.abort_submitted();
    }

    /// Submits an execution to `stream`: behind everything that was submitted there, and behind executions of
    /// this graph that were submitted before, to whichever stream. Fails, and does nothing, if memory of the
    /// graph was freed. Returns the ticket of its last op.
    ///
    /// An abort of a stream whose execution runs on streams of the graph's own drops those that other streams
    /// have submitted behind it, too; see [`execute_in_turn`](Self::execute_in_turn).
    pub fn execute(self: &Arc<Self>, stream: &Stream) -> Result<Ticket> {
        self.launch(stream, false)
    }

    /// As [`execute`](Self::execute), but while an execution of another stream is unfinished, nothing is
    /// submitted to the graph's own streams: they have executions of one launching stream at a time, and an
    /// abort of that drops no others. The tasks are submitted when `stream` comes to them; memory of the
    /// graph that is freed meanwhile stays until they have passed.
    pub fn execute_in_turn(self: &Arc<Self>, stream: &Stream) -> Result<Ticket> {
        self.launch(stream, true)
    }

    fn launch(self: &Arc<Self>, stream: &Stream, in_turn: bool) -> Result<Ticket> {
        let _turn = lock(&self.turn);
        self.compare()?;
        self.collect_failures();
        let (before, over) = self.executions.ends_elsewhere(&stream.state);
        self.memory.tell(|observer| observer.following(&over));
        let is_deferred = in_turn && self.has_own_streams() && self.executions.must_wait(&stream.state);
        let submitted = if is_deferred {
            self.execute_deferred(stream, before)
        } else if self.is_detached {
            self.execute_detached(stream, before)
        } else {
            self.execute_here(stream, before)
        };
        self.memory.tell(|observer| observer.following(&[]));
        if let Ok(ticket) = submitted {
            let last = Point { stream: stream.id, ticket };
            self.memory.tell(|observer| observer.launched(self.number, last));
        }
        submitted
    }

    /// As `execute`, with the first branch on the launching stream.
    fn execute_here(self: &Arc<Self>, stream: &Stream, before: Vec<Arc<dyn Fence>>) -> Result<Ticket> {
        stream.transact(|launch| {
            // Once more, under the lock: a free from here on finds the ops of this execution.
            self.compare()?;
            before.into_iter().try_for_each(|end| launch.wait_for(end))?;
            self.executions.begin(&stream.state, launch.newest() + 1);
            let submitted = self.submit(&mut BranchStream::Launching(launch), false);
            self.executions.end(launch.newest());
            if self.streams.len() > 1 {
                self.executions.note_ends();
                launch.nest(self.weak());
            }
            submitted
        })
    }

    /// As `execute`, with the first branch on a stream of its own, for which the launching stream waits. No
    /// lock is held meanwhile: functions of the layer above that submit tasks may take locks of theirs.
    fn execute_detached(self: &Arc<Self>, stream: &Stream, before: Vec<Arc<dyn Fence>>) -> Result<Ticket> {
        let (gate, mut begun) = (OpenedInTheEnd(Gate::new(), self.memory.clone()), None);
        let ticket = stream.transact(|launch| {
            begun = Some(launch.fence()?);
            launch.wait_for(gate.0.clone())?;
            self.executions.begin(&stream.state, launch.newest());
            self.executions.end(launch.newest());
            launch.nest(self.weak());
            Ok(())
        })?;
        if !stream.status().is_dropped(ticket) {
            self.submit_detached(before.into_iter().chain(begun), &stream.state, ticket, &gate.0, false);
        }
        Ok(ticket)
    }

    /// As `execute_detached`, when all executions before this one are over: a function of the launching
    /// stream submits the tasks. Dropped with that stream's work, it submits none.
    fn execute_deferred(self: &Arc<Self>, stream: &Stream, before: Vec<Arc<dyn Fence>>) -> Result<Ticket> {
        let gate = OpenedInTheEnd(Gate::new(), self.memory.clone());
        let (graph, launcher) = (self.clone(), stream.state.clone());
        stream.transact(|launch| {
            let claim = MemoryClaim::new(&self.memory);
            // Once more, behind the claim: memory that is freed from here on is kept.
            self.compare()?;
            before.into_iter().try_for_each(|end| launch.wait_for(end))?;
            let end = gate.0.clone();
            let number = self.executions.next_number();
            let run = move || graph.run_deferred(number, &launcher, &gate.0, &claim);
            launch.call_to_launch(run)?;
            launch.wait_for(end)?;
            self.executions.defer(number, &stream.state, launch.newest());
            self.executions.end(launch.newest());
            launch.nest(self.weak());
            Ok(())
        })
    }

    /// It is the turn of a deferred execution, on a thread where it may block.
    fn run_deferred(&self, number: u64, launcher: &Arc<StreamState>, gate: &Gate, claim: &Arc<MemoryClaim>) {
        let _turn = self.turn_without_work();
        if let Some(ticket) = self.executions.begin_deferred(number) {
            self.submit_detached(None, launcher, ticket, gate, true);
            for branch in self.streams.iter().filter_map(|branch| branch.fence().ok()) {
                let claim = claim.clone();
                branch.when_done(Box::new(move || drop(claim)));
            }
        }
    }

    /// The turn to submit, when the branches have no work: a stream that was aborted may have passed its
    /// execution before the branches dropped theirs, and its abort would drop what comes behind.
    fn turn_without_work(&self) -> MutexGuard<'_, ()> {
        loop {
            let turn = lock(&self.turn);
            let Some(busy) = self.streams.iter().find(|branch| !branch.has_passed(branch.newest())) else {
                return turn;
            };
            drop(turn);
            drop(busy.fence_after(busy.newest()).wait(None));
        }
    }

    /// Submits all tasks to the graph's own streams, behind these fences. `gate`, which the op `ticket` of
    /// the launching stream waits for, is done when they are.
    fn submit_detached(
        &self,
        before: impl IntoIterator<Item = Arc<dyn Fence>>,
        launcher: &Arc<StreamState>,
        ticket: Ticket,
        gate: &Gate,
        is_claimed: bool,
    ) {
        let main = &self.streams[0];
        let submitted = before.into_iter().try_for_each(|fence| main.wait_for(fence).map(drop));
        let submitted = submitted.and_then(|()| self.submit(&mut BranchStream::Detached(main), is_claimed));
        if let Err(error) = submitted {
            launcher.status.fail_at(ticket, error);
        }
        self.executions.note_ends();
        if let Ok(end) = main.fence() {
            self.memory.tell(|observer| observer.bound(gate.number(), end.point()));
            gate.bind(end);
        }
    }

    fn weak(self: &Arc<Self>) -> Weak<dyn NestedWork> {
        let weak: Weak<Graph> = Arc::downgrade(self);
        weak
    }

    /// Whether executions use streams of its own.
    fn has_own_streams(&self) -> bool {
        self.is_detached || self.streams.len() > 1
    }

    /// Submits all tasks. If one of them cannot be submitted, those before it run.
    fn submit(&self, main: &mut BranchStream<'_, '_>, is_claimed: bool) -> Result<()> {
        let side_heads = self.heads.iter().filter(|head| **head > 0);
        if side_heads.clone().next().is_some() {
            let begin = main.fence()?;
            for head in side_heads {
                self.streams[*head].wait_for(begin.clone())?;
            }
        }
        let mut state = ExecutionState { is_claimed, ..ExecutionState::default() };
        let submitted = self.tasks.iter().try_for_each(|task| self.submit_task(main, task, &mut state));
        self.memory.tell(|observer| observer.executing(None));
        let all_sides: Vec<_> = (1..self.streams.len()).collect();
        // Without its last tasks a branch may not lead back: the launching stream waits for all of them.
        let tails = if submitted.is_ok() { &self.tails } else { &all_sides };
        for tail in tails {
            main.wait_for(self.streams[*tail].fence()?)?;
        }
        submitted
    }

    fn submit_task(
        &self,
        main: &mut BranchStream<'_, '_>,
        task: &Task,
        state: &mut ExecutionState,
    ) -> Result<()> {
        let number = TaskId { graph: self.number, task: task.number };
        self.memory.tell(|observer| observer.executing(Some(number)));
        match task.branch {
            0 => self.submit_work(main, &task.work, state),
            side => {
                let mut side = BranchStream::Detached(&self.streams[side]);
                self.submit_work(&mut side, &task.work, state)
            }
        }
    }

    fn submit_work(
        &self,
        branch: &mut BranchStream<'_, '_>,
        work: &Work,
        state: &mut ExecutionState,
    ) -> Result<()> {
        match work {
            Work::Op(op) => self.submit_op(branch, op, state.is_claimed)?,
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
                let records = &mut state.records;
                records.resize(records.len().max(edge + 1), None);
                records[*edge] = Some(branch.fence()?);
            }
            Work::Wait(edge) => {
                if let Some(Some(fence)) = state.records.get(*edge) {
                    branch.wait_for(fence.clone())?;
                }
            }
        }
        Ok(())
    }

    fn submit_op(&self, branch: &mut BranchStream<'_, '_>, op: &RepeatedOp, is_claimed: bool) -> Result<()> {
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
                let make = |_: &Memory| match is_claimed {
                    true => Ok(op.op()),
                    false => self.compare().map(|()| op.op()),
                };
                // SAFETY: as above; the stream has `make` asked again if memory was freed meanwhile, unless a
                // claim has kept it since it was compared.
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
    let run = move |_| {
        let is_dropped = || state.status.is_dropped(ticket);
        if let Err(error) = group.run(is_dropped)
            && !is_dropped()
        {
            state.status.fail_at(ticket, error);
        }
    };
    stream.call_internal(run).map(drop)
}
