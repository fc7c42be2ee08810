//! What is left of a stream while its work is in flight, whether or not the stream itself still lives.

use crate::{
    Fence, Queue, Result, Status, Ticket,
    plan::linear::Recent,
    sync::{Apart, Arc, Mutex, lock},
    uses::Uses,
};

/// A queue, its status, and the newest tickets. Shared by the stream and the list of lines, so that memory freed later waits
/// for work that outlived its stream.
pub(crate) struct StreamState {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) status: Arc<Status>,
    pub(crate) last: Apart<Mutex<Submitted>>,
}

/// Tickets handed out so far. The lock around it orders submissions.
#[derive(Default)]
pub(crate) struct Submitted {
    /// The newest.
    pub(crate) ticket: Ticket,
    /// The newest of a linear copy of the short way, and of any other op that has addresses: only such ops can still need freed
    /// memory.
    pub(crate) linear: Ticket,
    pub(crate) other: Ticket,
    /// Other libraries put work into the stream, too, and tickets know nothing of it.
    pub(crate) is_shared: bool,
    /// What the last linear copy went between.
    pub(crate) recent: Recent,
    /// Which registered memory ops use; those of the short way are noted when the next one goes between other blocks.
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

/// What keeps freed memory from being used again: work of a line that was in flight.
pub(crate) struct PendingWork {
    status: Arc<Status>,
    touching: Ticket,
    /// A fence after everything the line had then; work without addresses behind it need not be waited for.
    pub(crate) fence: Arc<dyn Fence>,
}

impl PendingWork {
    /// Whether every op that has addresses has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.status.passed() >= self.touching || self.fence.is_done()
    }
}

impl StreamState {
    /// What memory that is unknown by now must wait for before it may be used again; `None` if no op in flight has addresses.
    fn busy(&self) -> Result<Option<PendingWork>> {
        let last = lock(&self.last);
        let touching = last.touching();
        if self.status.passed() >= touching {
            return Ok(None);
        }
        self.queue.flush();
        let hold = PendingWork { status: self.status.clone(), touching, fence: self.queue.fence()? };
        Ok((!hold.is_over()).then_some(hold))
    }

    /// Whether an op in flight may use the registered memory that starts at `base`, which is unknown by now.
    fn is_using(&self, base: usize) -> bool {
        let last = lock(&self.last);
        let newest = last.newest_use(base);
        self.status.passed() < newest && !self.queue.fence_after(newest).is_done()
    }
}

/// All lines of a runtime.
#[derive(Default)]
pub(crate) struct StreamStates(Mutex<Vec<Arc<StreamState>>>);

impl StreamStates {
    /// Adds the line of a new stream, and lets go of those whose stream is gone and whose work is done.
    pub(crate) fn add(&self, line: Arc<StreamState>) {
        let mut lines = lock(&self.0);
        // Whoever is the only owner is gone for good: nobody can submit to it any more.
        lines.retain(|line| Arc::strong_count(line) > 1 || !matches!(line.busy(), Ok(None)));
        lines.push(line);
    }

    /// Whether an op in flight may use the registered memory that starts at `base`, which is unknown by now.
    pub(crate) fn are_using(&self, base: usize) -> bool {
        lock(&self.0).iter().any(|line| line.is_using(base))
    }

    /// A hold of every line that is busy now.
    pub(crate) fn busy(&self) -> Result<Vec<PendingWork>> {
        let lines = lock(&self.0);
        let mut holds = Vec::new();
        for line in lines.iter() {
            holds.extend(line.busy()?);
        }
        Ok(holds)
    }
}
