//! The executions of a graph that are not over: which stream launched each, and which ops are of it.

use super::task::Branch;
use crate::{
    Fence, Stream, Ticket,
    submissions::StreamState,
    sync::{Arc, Mutex, MutexGuard, lock},
};
use std::collections::VecDeque;

/// Executions in the order of their launches. Only one thread at a time adds one.
#[derive(Default)]
pub(super) struct Executions(Mutex<ExecutionList>);

#[derive(Default)]
struct ExecutionList {
    queued: VecDeque<Execution>,
    /// The newest op of each stream that launched executions: one entry for a stream, however many it
    /// launched.
    launchers: Vec<LaunchPoint>,
}

/// An execution.
struct Execution {
    /// The newest ticket of each branch's own stream before it.
    before: Vec<Ticket>,
    /// The newest one of each behind it, if it uses these streams.
    after: Vec<Ticket>,
    launcher: Arc<StreamState>,
    /// The first op of the launching stream that belongs to it.
    first: Ticket,
    /// The last one.
    last: Ticket,
}

/// An op of a stream that launched executions.
struct LaunchPoint {
    launcher: Arc<StreamState>,
    ticket: Ticket,
}

impl LaunchPoint {
    fn has_passed(&self) -> bool {
        has_passed(&self.launcher, self.ticket)
    }
}

fn has_passed(stream: &StreamState, ticket: Ticket) -> bool {
    stream.status.passed() >= ticket || stream.queue.fence_after(ticket).is_done()
}

impl Executions {
    /// Adds an execution that is about to be submitted to these branches, with its first op in the launching
    /// stream. [`end`](Self::end) follows before the next one.
    pub(super) fn begin(&self, branches: &[Arc<Stream>], launcher: &Arc<StreamState>, first: Ticket) {
        let before = branches.iter().map(|stream| stream.newest()).collect();
        let (after, launcher) = (Vec::new(), launcher.clone());
        let execution = Execution { before, after, launcher, first, last: Ticket::MAX };
        lock(&self.0).queued.push_back(execution);
    }

    /// The newest execution has been submitted to these streams of the graph's own.
    pub(super) fn note_ends(&self, branches: &[Arc<Stream>]) {
        if let Some(newest) = lock(&self.0).queued.back_mut() {
            newest.after = branches.iter().map(|stream| stream.newest()).collect();
        }
    }

    /// How far the branches' own streams have come with the executions that are over.
    pub(super) fn ends_reached(&self) -> Vec<Ticket> {
        let list = lock(&self.0);
        let over = list.queued.iter().take_while(|it| has_passed(&it.launcher, it.last));
        over.last().map_or_else(Vec::new, |execution| execution.after.clone())
    }

    /// The newest execution has been submitted up to this op of its launching stream.
    pub(super) fn end(&self, last: Ticket) {
        let ExecutionList { queued, launchers } = &mut *lock(&self.0);
        let Some(newest) = queued.back_mut() else { return };
        newest.last = last;
        match launchers.iter_mut().find(|point| Arc::ptr_eq(&point.launcher, &newest.launcher)) {
            Some(point) => point.ticket = last,
            None => launchers.push(LaunchPoint { launcher: newest.launcher.clone(), ticket: last }),
        }
    }

    /// The list, without executions at its front that are over: only the oldest is asked, however many are
    /// queued. One behind it that was aborted stays until those before it are over.
    fn unfinished(&self) -> MutexGuard<'_, ExecutionList> {
        let mut list = lock(&self.0);
        while list.queued.front().is_some_and(|oldest| has_passed(&oldest.launcher, oldest.last)) {
            list.queued.pop_front();
        }
        list
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.unfinished().queued.is_empty()
    }

    /// The ends of the executions that other streams than this one launched. One for each stream: an
    /// execution that was aborted says nothing about those before it on other streams.
    pub(super) fn ends_elsewhere(&self, stream: &Arc<StreamState>) -> Vec<Arc<dyn Fence>> {
        let mut list = self.unfinished();
        list.launchers.retain(|point| !point.has_passed());
        let others = list.launchers.iter().filter(|point| !Arc::ptr_eq(&point.launcher, stream));
        others.map(|point| point.launcher.queue.fence_after(point.ticket)).collect()
    }

    /// The launching stream and the first op there of the execution that the op `ticket` of a branch belongs
    /// to.
    pub(super) fn launch_of(&self, branch: Branch, ticket: Ticket) -> Option<(Arc<StreamState>, Ticket)> {
        let list = lock(&self.0);
        let execution = list.queued.iter().rev().find(|execution| execution.before[branch] < ticket)?;
        Some((execution.launcher.clone(), execution.first))
    }

    /// The launching stream and the first op there of each execution that is not over.
    pub(super) fn launches(&self) -> Vec<(Arc<StreamState>, Ticket)> {
        let list = self.unfinished();
        let unfinished = list.queued.iter().filter(|it| !has_passed(&it.launcher, it.last));
        unfinished.map(|execution| (execution.launcher.clone(), execution.first)).collect()
    }
}
