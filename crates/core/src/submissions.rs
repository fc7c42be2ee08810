//! The submission state of streams: what has been submitted, and what of it is still in flight. It outlives
//! the stream, so that memory freed later waits for work whose stream is gone.

use crate::{
    Fence, JoinKind, Queue, Recorder, Result, Status, Ticket,
    plan::linear::{Recent, RecentBlock},
    sync::{Arc, CachePadded, Mutex, MutexGuard, Weak, lock},
    uses::Uses,
};

/// The part of a stream that lives as long as its work. Owned by the stream and by [`StreamStates`].
pub(crate) struct StreamState {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) status: Arc<Status>,
    /// What was submitted so far. On cache lines of its own: the submitting thread writes it for every op.
    pub(crate) submitted: CachePadded<Mutex<Submitted>>,
}

impl StreamState {
    /// The work on queues of its own that ops of the stream wait for, or have waited for.
    pub(crate) fn nested(&self) -> Vec<Arc<dyn NestedWork>> {
        lock(&self.submitted).nested.iter().filter_map(|(_, work)| work.upgrade()).collect()
    }
}

/// Work that an op of a stream stands for and that runs on queues of its own.
pub(crate) trait NestedWork: Send + Sync {
    /// Marks what this stream has launched as dropped, if some of it waits for ops of the stream that have
    /// not passed: an abort of the stream passes these, and what waits for them must not begin.
    fn mark_dropped_of(&self, launcher: &Arc<StreamState>);

    /// Drops what this stream has launched and has not begun, and stops what runs; returns when no byte of it
    /// moves any more.
    fn abort_of(&self, launcher: &Arc<StreamState>);

    /// Observers are told that what has ended by now has passed, for an abort of the stream that would have
    /// told so.
    fn tell_ended(&self);

    /// Has failures told of what has ended. A device may tell them only when it is asked.
    fn collect_failures(&self);
}

/// Whose a function in a stream is.
#[derive(Clone, Copy, Default)]
pub(crate) enum FunctionOf {
    /// The program's.
    #[default]
    Program,
    /// The library's own.
    Library,
    /// The library's own, and submits the tasks of a graph.
    Graph,
}

impl FunctionOf {
    /// What observers are told when it begins.
    pub(crate) fn told(self) -> Option<JoinKind> {
        match self {
            FunctionOf::Program => Some(JoinKind::Function),
            FunctionOf::Library => None,
            FunctionOf::Graph => Some(JoinKind::Launch),
        }
    }
}

/// The newest tickets. The lock around it orders submissions.
#[derive(Default)]
pub(crate) struct Submitted {
    /// The newest ticket.
    pub(crate) ticket: Ticket,
    /// The newest ticket of a copy submitted by `Stream::submit_linear`.
    pub(crate) linear: Ticket,
    /// The newest ticket of any other op that has addresses. Ops without addresses need no freed memory.
    pub(crate) other: Ticket,
    /// Other libraries put work into the stream, too, and tickets know nothing of it.
    pub(crate) is_shared: bool,
    /// Work does not go straight to the queue: it is recorded, or an observer is told of it first.
    pub(crate) is_diverted: bool,
    /// Whose the function is that is being submitted.
    pub(crate) function_of: FunctionOf,
    /// What takes work in place of the queue.
    pub(crate) recorder: Option<Arc<dyn Recorder>>,
    /// Work on queues of its own that ops of this stream wait for or have waited for, each with the ticket of
    /// the newest such op.
    pub(crate) nested: Vec<(Ticket, Weak<dyn NestedWork>)>,
    /// What the last linear copy went between.
    pub(crate) recent: Recent,
    /// What the last descriptor lay in.
    pub(crate) descriptors: RecentBlock,
    /// Which registered memory ops use. Linear copies are noted when the next one goes between other blocks.
    pub(crate) uses: Uses,
}

impl Submitted {
    /// The newest of an op that has addresses.
    fn touching(&self) -> Ticket {
        self.linear.max(self.other)
    }

    /// The newest of an op that may use the registered memory that starts at `base`.
    fn newest_use(&self, base: usize) -> Ticket {
        let recent = if self.recent.registered().contains(&base) { self.linear } else { 0 };
        self.uses.newest(base).max(recent)
    }
}

/// Work of a stream that was in flight at some moment: freed memory is reused only when it has passed.
pub(crate) struct PendingWork {
    status: Arc<Status>,
    touching: Ticket,
    /// A fence after everything the stream had then; work without addresses behind it need not be waited for.
    pub(crate) fence: Arc<dyn Fence>,
}

impl PendingWork {
    /// Whether every op that has addresses has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.status.has_passed(self.touching, || self.fence.is_done())
    }
}

impl StreamState {
    /// What memory that is unknown by now must wait for before it may be used again; `None` if no op in
    /// flight has addresses.
    fn pending(&self) -> Result<Option<PendingWork>> {
        let last = lock(&self.submitted);
        let touching = last.touching();
        if self.status.passed() >= touching {
            return Ok(None);
        }
        self.queue.flush();
        let work = PendingWork { status: self.status.clone(), touching, fence: self.queue.fence()? };
        Ok((!work.is_over()).then_some(work))
    }

    /// Whether an op in flight may use the registered memory that starts at `base`, which is unknown by now.
    fn is_using(&self, base: usize) -> bool {
        let last = lock(&self.submitted);
        let newest = last.newest_use(base);
        !self.status.has_passed(newest, || self.queue.fence_after(newest).is_done())
    }
}

/// The submission states of all streams of a runtime.
#[derive(Default)]
pub(crate) struct StreamStates {
    all: Mutex<Vec<Arc<StreamState>>>,
    claims: Mutex<Vec<Arc<dyn Fence>>>,
}

impl StreamStates {
    /// Adds that of a new stream, and drops those whose stream is gone and whose work is done.
    pub(crate) fn add(&self, stream: Arc<StreamState>) {
        let mut streams = lock(&self.all);
        // If this is the only owner, the stream is gone and nothing more is submitted.
        streams.retain(|stream| Arc::strong_count(stream) > 1 || !matches!(stream.pending(), Ok(None)));
        streams.push(stream);
    }

    /// Whether an op in flight may use the registered memory that starts at `base`, which is unknown by now.
    pub(crate) fn are_using(&self, base: usize) -> bool {
        !self.open_claims().is_empty() || lock(&self.all).iter().any(|stream| stream.is_using(base))
    }

    /// Memory that becomes unknown from here on is not reused before `until` is done: work that is still to
    /// be submitted uses it.
    pub(crate) fn claim(&self, until: Arc<dyn Fence>) {
        lock(&self.claims).push(until);
    }

    fn open_claims(&self) -> MutexGuard<'_, Vec<Arc<dyn Fence>>> {
        let mut claims = lock(&self.claims);
        claims.retain(|claim| !claim.is_done());
        claims
    }

    /// The work in flight of every stream that has some now.
    pub(crate) fn pending(&self) -> Result<Vec<PendingWork>> {
        let claimed = |fence: &Arc<dyn Fence>| {
            let status = Arc::new(Status::of_no_stream());
            PendingWork { status, touching: Ticket::MAX, fence: fence.clone() }
        };
        let mut pending: Vec<_> = self.open_claims().iter().map(claimed).collect();
        let streams = lock(&self.all);
        for stream in streams.iter() {
            pending.extend(stream.pending()?);
        }
        Ok(pending)
    }
}
