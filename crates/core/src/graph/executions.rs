//! The executions of a graph that are not over: which stream launched each, and which ops are of it.

use super::task::Branch;
use crate::{
    Fence, Point, Stream, Ticket,
    submissions::StreamState,
    sync::{Arc, Mutex, MutexGuard, lock},
};
use std::collections::VecDeque;

/// Executions in the order of their launches. Only one thread at a time adds one.
pub(super) struct Executions {
    /// The streams of the graph's own, one for each branch.
    branches: Vec<Arc<StreamState>>,
    list: Mutex<ExecutionList>,
}

#[derive(Default)]
struct ExecutionList {
    queued: VecDeque<Execution>,
    /// The newest op of each stream that launched executions: one entry for a stream, however many it
    /// launched.
    launchers: Vec<LaunchPoint>,
    /// The newest number that was given to an execution.
    newest: u64,
}

/// An execution.
struct Execution {
    /// Told apart from all others of its graph by this, if it waits for its turn; else 0.
    number: u64,
    /// The newest ticket of each branch's own stream before it. `None` while it waits for its turn: nothing
    /// of it has been submitted to these then.
    before: Option<Vec<Ticket>>,
    /// The newest one of each behind it, if it uses these streams.
    after: Vec<Ticket>,
    launcher: Arc<StreamState>,
    /// The first op of the launching stream that belongs to it.
    first: Ticket,
    /// The last one.
    last: Ticket,
}

impl Execution {
    /// Whether the launching stream has come to its end. If that stream was aborted, branches may still be at
    /// it.
    fn has_passed(&self) -> bool {
        // While it is being submitted, other threads may ask. A queue that is asked for a ticket which it
        // never gave could take it for one that has passed.
        self.last != UNKNOWN && has_passed(&self.launcher, self.last)
    }

    /// Whether nothing of it is left to be done.
    fn is_over(&self, branches: &[Arc<StreamState>]) -> bool {
        let mut ends = branches.iter().zip(&self.after);
        let is_dropped = self.launcher.status.is_dropped(self.last);
        self.has_passed() && (!is_dropped || ends.all(|(branch, end)| has_passed(branch, *end)))
    }
}

/// The last op of an execution that is being submitted.
const UNKNOWN: Ticket = Ticket::MAX;

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
    /// None yet, of a graph that has these streams of its own.
    pub(super) fn new(branches: &[Arc<Stream>]) -> Executions {
        let branches = branches.iter().map(|stream| stream.state.clone()).collect();
        Executions { branches, list: Mutex::default() }
    }

    /// The newest ticket of each branch.
    fn newest_of_branches(&self) -> Vec<Ticket> {
        self.branches.iter().map(|branch| lock(&branch.submitted).ticket).collect()
    }

    /// Adds an execution that is about to be submitted to the branches, with its first op in the launching
    /// stream. [`end`](Self::end) follows before the next one.
    pub(super) fn begin(&self, launcher: &Arc<StreamState>, first: Ticket) {
        self.add(0, Some(self.newest_of_branches()), launcher, first);
    }

    /// A number for an execution that is to wait for its turn.
    pub(super) fn next_number(&self) -> u64 {
        let mut list = lock(&self.list);
        list.newest += 1;
        list.newest
    }

    /// Adds an execution that waits for its turn. [`end`](Self::end) follows as for others.
    pub(super) fn defer(&self, number: u64, launcher: &Arc<StreamState>, first: Ticket) {
        self.add(number, None, launcher, first);
    }

    fn add(&self, number: u64, before: Option<Vec<Ticket>>, launcher: &Arc<StreamState>, first: Ticket) {
        let (after, launcher, last) = (Vec::new(), launcher.clone(), UNKNOWN);
        let execution = Execution { number, before, after, launcher, first, last };
        lock(&self.list).queued.push_back(execution);
    }

    /// It is the turn of the execution of this number, which is about to be submitted to the branches: these
    /// have no work, so that all that were submitted before are over. The last op of the launching stream
    /// that belongs to it; `None` if it was dropped.
    pub(super) fn begin_deferred(&self, number: u64) -> Option<Ticket> {
        let before = self.newest_of_branches();
        let mut list = lock(&self.list);
        // Asked later, a branch may say that they are not: a fence may wait for later work, too.
        list.queued.retain(|it| it.before.is_none());
        let execution = list.queued.iter_mut().find(|it| it.number == number)?;
        if execution.launcher.status.is_dropped(execution.last) {
            return None;
        }
        execution.before = Some(before);
        Some(execution.last)
    }

    /// Executions that wait for their turn will do nothing.
    pub(super) fn cancel_deferred(&self) {
        lock(&self.list).queued.retain(|execution| execution.before.is_some());
    }

    /// Whether an execution that this stream launches has to wait for its turn: the branches have work of
    /// another stream's, maybe of one that was aborted and has passed it, or an execution waits already. It
    /// is enough to ask the oldest and the newest, since the branches have executions of one stream, and
    /// those behind one that waits do so as well.
    pub(super) fn must_wait(&self, launcher: &Arc<StreamState>) -> bool {
        let mut list = self.unfinished();
        // Those that were dropped before their turn say nothing about the ones in front of them.
        while list.queued.back().is_some_and(|newest| newest.before.is_none() && newest.has_passed()) {
            list.queued.pop_back();
        }
        let is_others = |oldest: &Execution| !Arc::ptr_eq(&oldest.launcher, launcher);
        let waits = |newest: &Execution| newest.before.is_none();
        list.queued.front().is_some_and(is_others) || list.queued.back().is_some_and(waits)
    }

    /// Whether the branches have work of an execution that this stream launched.
    pub(super) fn is_launched_by(&self, launcher: &Arc<StreamState>) -> bool {
        let list = self.unfinished();
        let mut submitted = list.queued.iter().filter(|it| it.before.is_some());
        submitted.any(|it| Arc::ptr_eq(&it.launcher, launcher) && !it.is_over(&self.branches))
    }

    /// The newest execution that does not wait for its turn has been submitted to the branches.
    pub(super) fn note_ends(&self) {
        let after = self.newest_of_branches();
        let mut list = lock(&self.list);
        if let Some(newest) = list.queued.iter_mut().rev().find(|it| it.before.is_some()) {
            newest.after = after;
        }
    }

    /// How far the branches' own streams have come with the executions that are over.
    pub(super) fn ends_reached(&self) -> Vec<Ticket> {
        let list = lock(&self.list);
        let over = list.queued.iter().take_while(|it| it.has_passed());
        over.filter(|it| it.before.is_some())
            .last()
            .map_or_else(Vec::new, |execution| execution.after.clone())
    }

    /// The newest op of each branch that belongs to no execution which is not over.
    pub(super) fn ends_before_unfinished(&self) -> Vec<Ticket> {
        let list = self.unfinished();
        let before = list.queued.front().and_then(|oldest| oldest.before.clone());
        before.unwrap_or_else(|| self.newest_of_branches())
    }

    /// The newest execution has been submitted up to this op of its launching stream.
    pub(super) fn end(&self, last: Ticket) {
        let ExecutionList { queued, launchers, .. } = &mut *lock(&self.list);
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
        let mut list = lock(&self.list);
        while list.queued.front().is_some_and(|oldest| oldest.is_over(&self.branches)) {
            list.queued.pop_front();
        }
        list
    }

    /// Whether the launching streams have come to the end of all.
    pub(super) fn is_empty(&self) -> bool {
        self.unfinished().queued.iter().all(Execution::has_passed)
    }

    /// The ends of the executions that other streams than this one launched: fences for those that are not
    /// over, and the points of those that were found to be over since the last launch. One for each stream:
    /// an execution that was aborted says nothing about those before it on other streams.
    pub(super) fn ends_elsewhere(&self, stream: &Arc<StreamState>) -> (Vec<Arc<dyn Fence>>, Vec<Point>) {
        let mut list = self.unfinished();
        let is_elsewhere = |point: &&LaunchPoint| !Arc::ptr_eq(&point.launcher, stream);
        let passed: Vec<_> = list.launchers.extract_if(.., |point| point.has_passed()).collect();
        let over = passed.iter().filter(is_elsewhere);
        let open = list.launchers.iter().filter(is_elsewhere);
        (
            open.map(|point| point.launcher.queue.fence_after(point.ticket)).collect(),
            over.filter_map(|point| point.launcher.status.point(point.ticket)).collect(),
        )
    }

    /// The launching stream and the first op there of the execution that the op `ticket` of a branch belongs
    /// to.
    pub(super) fn launch_of(&self, branch: Branch, ticket: Ticket) -> Option<(Arc<StreamState>, Ticket)> {
        let list = lock(&self.list);
        let is_behind = |before: &Vec<Ticket>| before[branch] < ticket;
        let execution = list.queued.iter().rev().find(|it| it.before.as_ref().is_some_and(is_behind))?;
        Some((execution.launcher.clone(), execution.first))
    }

    /// The launching stream and the first op there of each execution that is not over: of those that have
    /// been submitted to the branches, or of those that wait for their turn.
    pub(super) fn launches(&self, are_submitted: bool) -> Vec<(Arc<StreamState>, Ticket)> {
        let list = self.unfinished();
        let meant = list.queued.iter().filter(|it| it.before.is_some() == are_submitted && !it.has_passed());
        meant.map(|execution| (execution.launcher.clone(), execution.first)).collect()
    }
}
