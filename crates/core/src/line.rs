//! What is left of a stream while its work is in flight, whether or not the stream itself still lives.

use crate::{
    Fence, Queue, Result, Status, Ticket,
    sync::{Arc, Mutex, lock},
};

/// A queue, its status, and the newest tickets. Shared by the stream and the list of lines, so that memory freed later waits
/// for work that outlived its stream.
pub(crate) struct Line {
    pub(crate) queue: Box<dyn Queue>,
    pub(crate) status: Arc<Status>,
    pub(crate) last: Mutex<Last>,
}

/// Tickets handed out so far. The lock around it orders submissions.
#[derive(Default)]
pub(crate) struct Last {
    /// The newest.
    pub(crate) ticket: Ticket,
    /// The newest of an op that has addresses: only such ops can still need freed memory.
    pub(crate) touching: Ticket,
}

impl Line {
    /// A fence to wait for before memory that is unknown by now may be used again; `None` if no op in flight has addresses.
    fn busy(&self) -> Result<Option<Arc<dyn Fence>>> {
        let last = lock(&self.last);
        if self.status.passed() >= last.touching {
            return Ok(None);
        }
        self.queue.flush();
        let fence = self.queue.fence()?;
        Ok((!fence.is_done()).then_some(fence))
    }
}

/// All lines of a runtime.
#[derive(Default)]
pub(crate) struct Lines(Mutex<Vec<Arc<Line>>>);

impl Lines {
    /// Adds the line of a new stream, and lets go of those whose stream is gone and whose work is done.
    pub(crate) fn add(&self, line: Arc<Line>) {
        let mut lines = lock(&self.0);
        // Whoever is the only owner is gone for good: nobody can submit to it any more.
        lines.retain(|line| Arc::strong_count(line) > 1 || !matches!(line.busy(), Ok(None)));
        lines.push(line);
    }

    /// A fence of every line that is busy now.
    pub(crate) fn busy(&self) -> Result<Vec<Arc<dyn Fence>>> {
        let lines = lock(&self.0);
        let mut fences = Vec::new();
        for line in lines.iter() {
            fences.extend(line.busy()?);
        }
        Ok(fences)
    }
}
