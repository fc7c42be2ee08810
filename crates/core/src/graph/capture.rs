//! A capture: a graph while it is being recorded, from any thread.
//!
//! Each captured stream is a branch. Its tasks are stored in the order in which they come; an edge leads from
//! a record on one branch to waits on others. That order is a topological one, since a wait names a record
//! that was there before, and so an execution submits the tasks as they stand.

use super::{
    Graph,
    group::OpGroup,
    merge::merge_copies,
    order::TaskOrder,
    task::{Branch, Edge, RepeatedOp, Submit, Task, Work},
};
use crate::{
    Footprint, Memory, Op, Stream,
    footprint::Footprints,
    observe::TaskId,
    sync::{Arc, Mutex, lock},
};
use std::{any::Any, collections::HashMap, mem};

/// A branch has work that does not lead back to the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unjoined(pub Branch);

/// A graph that is being recorded.
pub struct Capture {
    memory: Arc<Memory>,
    /// What observers know the graph by.
    number: u32,
    draft: Mutex<Draft>,
}

#[derive(Default)]
struct Draft {
    streams: Vec<Arc<Stream>>,
    tasks: Vec<Task>,
    footprints: Footprints,
    /// How many of the tasks are barriers, which have no number of their own.
    barriers: usize,
    /// The task that made each edge.
    records: Vec<usize>,
    /// What the graph needs for as long as it is there.
    kept: Vec<Box<dyn Any + Send + Sync>>,
    /// The graph runs other branches than the first by themselves, and ends when all have ended.
    is_built: bool,
    /// Branches of a built graph that begin with it.
    heads: Vec<Branch>,
    /// Branches of a built graph that begin behind a record of another one.
    starts: HashMap<Branch, Edge>,
}

impl Capture {
    /// An empty one. Captured work is of `memory`.
    pub fn new(memory: Arc<Memory>) -> Capture {
        Capture { number: memory.number_graph(), memory, draft: Mutex::default() }
    }

    /// Observers are told that the capture begins with the work of this stream.
    pub fn begins(&self, stream: &Stream) {
        self.memory.tell(|observer| observer.capture_begun(self.number, stream.id));
    }

    /// Adds a task, and shows it to observers.
    fn add(&self, draft: &mut Draft, branch: Branch, work: Work) {
        let number = draft.tasks.len() as u32;
        let task = TaskId { graph: self.number, task: number };
        self.memory.tell(|observer| work.show(|what| observer.captured(task, branch, what)));
        draft.tasks.push(Task { number, branch, work });
    }

    /// Adds a branch, which executions run on `stream`: a stream that nothing else is submitted to.
    pub fn branch(&self, stream: Arc<Stream>) -> Branch {
        let mut draft = lock(&self.draft);
        draft.streams.push(stream);
        draft.streams.len() - 1
    }

    /// Has all branches count as joined: the graph ends when all of them have. `heads` begin with it, and
    /// others when an edge leads to them.
    pub fn build(&self, heads: Vec<Branch>) {
        let mut draft = lock(&self.draft);
        (draft.is_built, draft.heads) = (true, heads);
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        lock(&self.draft).tasks.len()
    }

    /// Whether there is no task.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an op, and says whether it could: a function that runs once cannot be repeated, nor a wait for
    /// work of other streams.
    pub fn op(&self, branch: Branch, op: Op, footprint: Footprint) -> bool {
        let Some(op) = RepeatedOp::new(op) else { return false };
        let mut draft = lock(&self.draft);
        let number = draft.tasks.len() - draft.barriers;
        draft.footprints.add(footprint, number);
        self.add(&mut draft, branch, Work::Op(op));
        true
    }

    /// Adds a function, which every execution runs in the order of its branch, on a thread where it may
    /// block.
    pub fn call(&self, branch: Branch, function: Arc<dyn Fn() + Send + Sync>) {
        self.add(&mut lock(&self.draft), branch, Work::Call(function));
    }

    /// Adds work that `submit` puts into the branch's stream at every execution.
    pub fn each(&self, branch: Branch, submit: Submit) {
        self.add(&mut lock(&self.draft), branch, Work::Each(submit));
    }

    /// Adds a group of ops that can be replaced later.
    pub fn group(&self, branch: Branch, group: Arc<OpGroup>) {
        self.add(&mut lock(&self.draft), branch, Work::Group(group));
    }

    /// The branch has come here.
    pub fn record(&self, branch: Branch) -> Edge {
        let mut draft = lock(&self.draft);
        let (edge, number) = (draft.records.len(), draft.tasks.len());
        draft.records.push(number);
        self.add(&mut draft, branch, Work::Record(edge));
        edge
    }

    /// Later work of the branch waits for the record.
    pub fn wait(&self, branch: Branch, edge: Edge) {
        self.add(&mut lock(&self.draft), branch, Work::Wait(edge));
    }

    /// The branch, of a graph that is built, begins when `by` has come here, whatever it was given before.
    /// False, and nothing is added, if something has it begin already.
    pub fn start(&self, branch: Branch, by: Branch) -> bool {
        if lock(&self.draft).starts.contains_key(&branch) {
            return false;
        }
        let edge = self.record(by);
        lock(&self.draft).starts.insert(branch, edge);
        true
    }

    /// A branch of a graph that is built which could not come to its end: it waits for a record of a branch
    /// that never begins.
    pub fn stuck(&self) -> Option<Branch> {
        lock(&self.draft).order().stuck
    }

    /// Copies before and behind this are not coalesced: those before it have ended when those behind it
    /// begin.
    pub fn barrier(&self, branch: Branch) {
        let mut draft = lock(&self.draft);
        draft.barriers += 1;
        self.add(&mut draft, branch, Work::Barrier);
    }

    /// Keeps something for as long as the graph is there.
    pub fn keep(&self, what: Box<dyn Any + Send + Sync>) {
        lock(&self.draft).kept.push(what);
    }

    /// Makes the graph. The capture is empty afterwards.
    pub fn finish(&self) -> Result<Arc<Graph>, Unjoined> {
        let mut draft = mem::take(&mut *lock(&self.draft));
        let mut tails = Vec::new();
        if draft.is_built {
            tails = (1..draft.streams.len()).collect();
            let order = draft.order();
            draft.tasks = order.apply(draft.tasks);
        } else {
            draft.heads = vec![0];
            let joined = draft.is_joined();
            self.memory.tell(|observer| observer.capture_ended(self.number, joined.is_ok()));
            joined?;
        }
        let tasks = merge_copies(draft.tasks);
        let memory = (self.memory.clone(), self.number);
        let graph = Graph::new(memory, draft.streams, tasks, draft.footprints, draft.kept)
            .with_ends(draft.heads, tails);
        Ok(if draft.is_built { graph.detached() } else { graph }.launchable())
    }
}

impl Draft {
    /// The order of the tasks of a graph that is built.
    fn order(&self) -> TaskOrder {
        TaskOrder::new(&self.tasks, self.streams.len(), &self.heads, &self.starts)
    }

    /// Whether every branch leads back to the first one with all of its tasks. Goes back through the tasks,
    /// from the end of the first branch: what is in front of a record that was waited for leads back if the
    /// wait does. A record at the end of a branch is no work, and need not.
    fn is_joined(&self) -> Result<(), Unjoined> {
        let mut joined_before = vec![0; self.streams.len()];
        joined_before.iter_mut().take(1).for_each(|before| *before = self.tasks.len());
        for (number, task) in self.tasks.iter().enumerate().rev() {
            let leads_back = number < joined_before[task.branch];
            match task.work {
                Work::Wait(edge) if leads_back => {
                    let record = self.records[edge];
                    let branch = self.tasks[record].branch;
                    joined_before[branch] = joined_before[branch].max(record);
                }
                Work::Record(_) | Work::Barrier => {}
                _ if leads_back => {}
                _ => return Err(Unjoined(task.branch)),
            }
        }
        Ok(())
    }
}
