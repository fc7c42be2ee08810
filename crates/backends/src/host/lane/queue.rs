//! A lane as the core knows it: the [`Queue`] of a stream.

use super::Lane;
use crate::host::task::Task;
use ferry_core::{
    Fence, Indirect, Linear, Mark, Op, Queue, Result, Segment, Ticket,
    indirect::Through,
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

    /// Adds a copy whose addresses are read when it runs. If it goes through a descriptor, as the others in
    /// the lane do, the task says no more than where that is.
    fn push_late(&self, through: Box<Indirect>) -> Ticket {
        let Through::Descriptor { at, user } = through.through else {
            return self.0.push(|_| Task::Through(through));
        };
        let mut given = Some(through);
        let ticket = self.0.push_shared(|_, late| {
            let through = given.as_ref().expect("just given");
            let is_alike = |late: &Indirect| {
                (late.call, late.device) == (through.call, through.device)
                    && Arc::ptr_eq(&late.resolver, &through.resolver)
            };
            match late {
                None => *late = given.take().map(|through| *through),
                Some(late) if is_alike(late) => {}
                Some(_) => return Task::Through(given.take().expect("just given")),
            }
            Task::Descriptor { at, user }
        });
        // What is left of it goes without the lock.
        drop(given);
        ticket
    }
}

impl Queue for LaneQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        self.0.engine.fork.is_no_child()?;
        if let Op::CopyThrough(through) = op {
            return Ok(self.push_late(through));
        }
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
