//! Groups of ops that can be replaced after the graph was made: each execution runs what the group has when
//! it comes there.

use super::task::RepeatedOp;
use crate::{
    Footprint, Memory, Op, Result, Stream,
    footprint::{Footprints, was_freed},
    sync::{Arc, Mutex, lock},
};
use std::{any::Any, mem::discriminant};

/// The ops of a group.
#[derive(Default)]
pub struct OpList {
    ops: Vec<RepeatedOp>,
    footprints: Footprints,
    /// What the ops use and nothing else owns.
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

impl OpList {
    /// Adds an op, and says whether it could, as [`Capture::op`](super::capture::Capture::op) does.
    pub fn push(&mut self, op: Op, footprint: Footprint) -> bool {
        let Some(op) = RepeatedOp::new(op) else { return false };
        self.footprints.add(footprint, self.ops.len());
        self.ops.push(op);
        true
    }

    /// Keeps something for as long as the ops are there.
    pub fn keep(&mut self, what: Box<dyn Any + Send + Sync>) {
        self.kept.push(what);
    }

    /// How many ops there are.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Whether the other list has ops of the same kinds in the same order.
    pub fn is_like(&self, other: &OpList) -> bool {
        let kinds = |list: &OpList| list.ops.iter().map(discriminant).collect::<Vec<_>>();
        kinds(self) == kinds(other)
    }
}

/// A group, which is one task of its branch.
pub struct OpGroup {
    memory: Arc<Memory>,
    /// The stream that the ops run on, which nothing else is submitted to.
    stream: Arc<Stream>,
    ops: Mutex<Arc<OpList>>,
    /// Held while ops are submitted, and while they are aborted.
    turn: Mutex<()>,
}

impl OpGroup {
    /// A group of these ops, which run on `stream`.
    pub fn new(memory: Arc<Memory>, stream: Arc<Stream>, ops: OpList) -> OpGroup {
        OpGroup { memory, stream, ops: Mutex::new(Arc::new(ops)), turn: Mutex::default() }
    }

    /// The ops that an execution would run now.
    pub fn ops(&self) -> Arc<OpList> {
        lock(&self.ops).clone()
    }

    /// Executions that come to the group from here on run these ops.
    pub fn replace(&self, ops: OpList) {
        *lock(&self.ops) = Arc::new(ops);
    }

    /// Runs the ops and waits for them, unless `is_dropped`.
    pub(super) fn run(&self, is_dropped: impl FnOnce() -> bool) -> Result<()> {
        let ops = self.ops();
        let turn = lock(&self.turn);
        if is_dropped() {
            return Ok(());
        }
        let submitted = ops.ops.iter().try_for_each(|op| self.submit(&ops, op));
        drop(turn);
        let done = self.stream.synchronize(None);
        submitted.and(done)
    }

    fn submit(&self, list: &OpList, op: &RepeatedOp) -> Result<()> {
        let make = |_: &Memory| match list.footprints.gone(self.memory.table()) {
            Some((block, number)) => Err(was_freed(&block, &format!("op {number} of a task group"))),
            None => Ok(op.op()),
        };
        // SAFETY: as for the ops of the graph itself: the memory is known and still the same, or belongs to
        // another library, which the caller vouched for.
        unsafe { self.stream.submit(make) }.map(drop)
    }

    /// Drops what runs. Called when the branch has dropped its task, so that nothing is submitted any more.
    pub(super) fn abort(&self) {
        let _turn = lock(&self.turn);
        self.stream.abort();
        // The execution that was dropped is told so by its own stream.
        drop(self.stream.status().take_error());
    }
}
