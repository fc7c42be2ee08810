//! Executions of graphs that are submitted later than they are launched.
//!
//! While a graph runs for one stream, its execution for another is deferred: a function of the library's own
//! stands in the launching stream, and submits the tasks when the stream comes there. By the program they
//! belong to the call that launched them: what the host has joined meanwhile does not come before them, and
//! that the function runs tells the program nothing.

use std::collections::HashMap;

use super::order::HostView;
use crate::fact::{Awaited, CallSite, Nanos, Point, SubmittedOp, Work};

/// A call that launched an execution.
#[derive(Clone)]
pub struct Launch {
    site: CallSite,
    time: Nanos,
    /// What the host knew then.
    pub view: HostView,
}

/// The deferred executions of a process.
#[derive(Default)]
pub struct DeferredLaunches {
    /// By the function that submits the tasks.
    launched: HashMap<Point, Launch>,
    /// What each thread submits, and the point that comes before it.
    running: HashMap<u32, (Point, Launch)>,
}

impl DeferredLaunches {
    /// An op was submitted by a call of this name, when the host knew so much.
    pub fn submitted(&mut self, op: &SubmittedOp, call: &str, view: HostView) {
        if op.work == Work::Function && op.task.is_none() && call.contains("RIExecute") {
            let launch = Launch { site: op.site, time: op.time, view };
            self.launched.insert(op.point, launch);
        }
    }

    /// A thread runs a function behind a point. Says whether it is one of the library's own.
    pub fn begin(&mut self, thread: u32, behind: Point) -> bool {
        self.running.remove(&thread);
        let function = Point { ticket: behind.ticket + 1, ..behind };
        let launch = self.launched.remove(&function);
        launch.is_some_and(|launch| self.running.insert(thread, (behind, launch)).is_none())
    }

    /// The launch that a thread submits this op for: it then belongs to that call, and comes behind what the
    /// function came behind.
    pub fn adopt(&self, thread: u32, op: &mut SubmittedOp) -> Option<&Launch> {
        let (behind, launch) = self.running.get(&thread).filter(|_| op.site.function == 0)?;
        op.awaits.push(Awaited::Point(*behind));
        (op.site, op.time) = (launch.site, launch.time);
        Some(launch)
    }
}
