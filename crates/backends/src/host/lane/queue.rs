//! A lane as the core knows it: the [`Queue`] of a stream.

use super::Lane;
use crate::host::task::Task;
use ferry_core::{
    Fence, Linear, Mark, Op, Queue, Result, Segment, Ticket,
    sync::{Arc, Ordering},
};

/// The queue that a stream holds.
pub struct LaneQueue(pub Arc<Lane>);

impl LaneQueue {
    /// The queue of a lane, which drops its work when the stream is stopped for good.
    pub fn new(lane: Arc<Lane>) -> LaneQueue {
        lane.status.keep_current();
        let halted = Arc::downgrade(&lane);
        lane.status.on_halt(Box::new(move || {
            if let Some(lane) = halted.upgrade() {
                lane.resume();
            }
        }));
        LaneQueue(lane)
    }
}

impl Queue for LaneQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        self.0.engine.fork.is_no_child()?;
        let work = Task::from(op);
        Ok(self.0.push(|_| work))
    }

    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        self.0.engine.fork.is_no_child()?;
        let Segment { dst, src, len } = copy.segment();
        Ok(self.0.push(|_| Task::Linear { dst, src, len, done: 0 }))
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        Ok(self.0.fence_at(self.0.submitted.load(Ordering::Acquire)))
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        self.0.fence_at(ticket)
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        let mut mark = None;
        self.0.push(|ticket| Task::Mark(mark.insert(self.0.fence_at(ticket)).clone()));
        Ok(mark.expect("push makes the work"))
    }

    fn abort(&self) {
        self.0.abort();
    }
}
