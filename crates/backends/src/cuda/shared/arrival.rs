//! Hears from the driver when a shared stream has come somewhere.

use crate::cuda::{
    driver::{Code, StreamCallback},
    order::lane::Lane,
    order::progress::StreamProgress,
};
use crate::pool::ThreadReservation;
use ferry_core::{Fence, Gate, Point, Result, Ticket, sync::Arc};
use std::{any::Any, time::Duration};

/// Called by the driver when the stream comes to it.
pub struct StreamArrival {
    progress: Arc<StreamProgress>,
    /// The op before it.
    behind: Ticket,
    gate: Arc<Gate>,
    /// Tells it on.
    thread: ThreadReservation,
}

impl StreamArrival {
    /// A fence that is done when the lane's stream has come to its end as it is now, behind the op `behind`.
    pub fn announce(lane: &Lane, behind: Ticket) -> Result<Arc<dyn Fence>> {
        let (progress, stream) = (lane.progress.clone(), lane.stream());
        let (gate, thread) = (Gate::new(), stream.device().pool.reserve()?);
        let fence = ArrivalFence { gate: gate.clone(), point: progress.status.point(behind) };
        let arrival = Box::new(StreamArrival { progress, behind, gate, thread });
        stream.call_back(&stream.device().enter()?, arrival).map_err(|(why, _)| why)?;
        Ok(Arc::new(fence))
    }
}

impl StreamCallback for StreamArrival {
    fn reached(self: Box<Self>, code: Code) {
        let StreamArrival { progress, behind, gate, thread } = *self;
        thread.run(Box::new(move || {
            progress.note(behind, progress.stream.device().check("the GPU's work", code));
            progress.pass(behind);
            gate.open();
        }));
    }
}

/// Done when the stream has come to the arrival, and stands for the op before it.
struct ArrivalFence {
    gate: Arc<Gate>,
    point: Option<Point>,
}

impl Fence for ArrivalFence {
    fn is_done(&self) -> bool {
        self.gate.is_done()
    }

    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        self.gate.wait(limit)
    }

    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        self.gate.when_done(then);
    }

    fn point(&self) -> Option<Point> {
        self.point
    }

    fn native(&self) -> &dyn Any {
        self
    }
}
