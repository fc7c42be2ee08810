//! Runs of coalesced copies as tasks of a lane, and the copies that may become part of one.
//!
//! A run is put into the stream portion by portion: copies of one portion are independent and go together.
//! Where a lane is blocked, copies wait in the backlog, and join the run that waits right before them.

use crate::cuda::{
    coalesce::window::{Run, RunKind, Window},
    descriptors::copies::{self as descriptors, DescriptorCopies},
    order::backlog::HostPart,
    order::host_work,
    order::task::{BacklogEnd, LaunchTurn, Next, Task, WaitingTask},
    stream::copies::{self, StreamCopier},
    stream::planner::Direction,
};
use crate::pool::ThreadReservation;
use ferry_core::{Indirect, Plan, Result, Segment, Ticket, sync::Arc};
use std::any::Any;

/// What the runs of one lane share.
pub struct RunParts {
    /// The lane's copies through descriptors.
    pub descriptors: Arc<DescriptorCopies>,
    /// The lane's window.
    pub window: Window,
}

impl RunParts {
    /// A run as a task.
    pub fn task(self: &Arc<Self>, run: Run) -> Box<dyn WaitingTask> {
        Box::new(RunTask { run, parts: self.clone() })
    }

    /// A copy whose addresses are read when it runs, as a task.
    pub fn late_bound(self: &Arc<Self>, through: Box<Indirect>) -> LateBoundCopy {
        LateBoundCopy { through, parts: self.clone() }
    }

    /// Adds the op that comes next to the run that waits right before it, or to a new one.
    fn join(
        self: &Arc<Self>,
        before: Option<&mut Box<dyn WaitingTask>>,
        kind: RunKind,
        add: impl FnOnce(&mut Run),
    ) -> Option<Box<dyn WaitingTask>> {
        let before = before.and_then(|work| (&mut **work as &mut dyn Any).downcast_mut::<RunTask>());
        if let Some(task) = before.filter(|task| task.run.has_room(kind)) {
            add(&mut task.run);
            return None;
        }
        let mut run = Run::default();
        add(&mut run);
        Some(self.task(run))
    }
}

/// A run of coalesced copies.
struct RunTask {
    run: Run,
    parts: Arc<RunParts>,
}

impl Task for RunTask {
    fn more(&self) -> Ticket {
        self.run.count() as Ticket - 1
    }

    fn launch(mut self, turn: &LaunchTurn<'_>) -> Result<Next> {
        match self.run.kind() {
            Some(RunKind::Copies(direction)) => {
                if let Some(thread) = self.send(turn, direction) {
                    return Ok(Next::Full(Box::new(self), thread));
                }
            }
            None => {}
            Some(RunKind::Descriptors) => return self.send_descriptors(turn),
        }
        self.parts.window.recycle(self.run);
        Ok(Next::Follows)
    }
}

impl RunTask {
    /// Sends copies, one portion after the other, until the stream takes no more. If these were not all the
    /// others are left, for the thread that goes on with them.
    fn send(&mut self, turn: &LaunchTurn<'_>, direction: Direction) -> Option<ThreadReservation> {
        let copier = StreamCopier::new(turn.stream(), turn.current, direction);
        let (mut sent, mut thread) = (0, None);
        for portion in self.run.portions() {
            // The lane has asked for the first one.
            if sent > 0 {
                thread = turn.thread_if_full();
            }
            if thread.is_some() {
                break;
            }
            let done = match portion {
                // One alone goes to a copy engine.
                [copy] => copier.copy_alone(*copy),
                _ => copier.send(portion),
            };
            turn.progress().note(turn.ticket, done);
            sent += portion.len();
        }
        self.run.leave_out(sent);
        thread
    }

    /// Sends copies through descriptors. While they waited it may have become the host's to read these: then
    /// they are ops of their own again.
    fn send_descriptors(self, turn: &LaunchTurn<'_>) -> Result<Next> {
        let RunTask { run, parts } = self;
        let ops = run.descriptors();
        if turn.has_waited {
            let back = parts.descriptors.take_back(turn.progress(), ops);
            if !back.is_empty() {
                let tasks = back.into_iter().map(|(ticket, through)| {
                    (ticket, Box::new(parts.late_bound(through)) as Box<dyn WaitingTask>)
                });
                return Ok(Next::Instead(tasks.collect()));
            }
        }
        let sent = parts.descriptors.send(turn.progress(), turn.current, ops);
        parts.window.recycle(run);
        sent.map(|()| Next::Follows)
    }
}

/// A small copy that was not taken into the window.
pub struct SmallCopy {
    /// Its direction.
    pub direction: Direction,
    /// What it copies.
    pub segment: Segment,
    /// The plan that it was submitted as.
    pub plan: Plan,
    /// What the runs of the lane share.
    pub parts: Arc<RunParts>,
}

impl Task for SmallCopy {
    fn launch(mut self, turn: &LaunchTurn<'_>) -> Result<Next> {
        copies::copy(turn.stream(), turn.current, &mut self.plan).map(|()| Next::Follows)
    }

    fn park(self, BacklogEnd { ticket, before, .. }: BacklogEnd<'_>) -> Option<Box<dyn WaitingTask>> {
        let SmallCopy { direction, segment, parts, .. } = self;
        parts.join(before, RunKind::Copies(direction), |run| run.add(ticket, direction, segment))
    }
}

/// A copy whose addresses are read when it runs: by the GPU if that can be, else by the host.
pub struct LateBoundCopy {
    through: Box<Indirect>,
    parts: Arc<RunParts>,
}

impl Task for LateBoundCopy {
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next> {
        let LateBoundCopy { through, parts } = self;
        let (progress, ticket) = (turn.progress(), turn.ticket);
        match DescriptorCopies::read_by_gpu(progress, &through) {
            Some(at) => {
                let op = parts.descriptors.expect(ticket, at, through);
                parts.descriptors.send(progress, turn.current, &[op]).map(|()| Next::Follows)
            }
            None => {
                let progress = progress.clone();
                let copy = move || descriptors::copy_by_host(&progress, ticket, &through);
                host_work::when_reached(turn, HostPart::Bytes, copy)
            }
        }
    }

    fn park(self, BacklogEnd { progress, ticket, before }: BacklogEnd<'_>) -> Option<Box<dyn WaitingTask>> {
        match DescriptorCopies::read_by_gpu(progress, &self.through) {
            Some(at) => {
                let LateBoundCopy { through, parts } = self;
                let op = parts.descriptors.expect(ticket, at, through);
                parts.join(before, RunKind::Descriptors, |run| run.add_descriptor(op))
            }
            None => Some(Box::new(self)),
        }
    }
}
