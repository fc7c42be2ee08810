//! Copies whose addresses are read when they run, as tasks of a lane: one by one, or a run of them.

use crate::cuda::{
    descriptors::copies::{self, DescriptorCopies},
    order::backlog::HostPart,
    order::host_work,
    order::task::{BacklogEnd, DescriptorLauncher, LaunchTurn, Next, Task, WaitingWork},
    order::window::{DescriptorOp, RunKind},
};
use ferry_core::{Indirect, Result, sync::Arc};

/// A copy whose addresses are read when it runs: by the GPU if that can be, else by the host.
pub struct LateBoundCopy {
    /// What is read, and how it is checked.
    pub late: Indirect,
    /// The copies through descriptors of its queue.
    pub descriptors: Arc<DescriptorCopies>,
}

impl Task for LateBoundCopy {
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next> {
        let LateBoundCopy { late, descriptors } = self;
        let (progress, ticket) = (turn.progress(), turn.ticket);
        match DescriptorCopies::read_by_gpu(progress, &late) {
            Some(at) => {
                let op = descriptors.expect(ticket, at, late);
                descriptors.send(progress, turn.current, &[op]).map(|()| Next::Follows)
            }
            None => {
                let progress = progress.clone();
                let copy = move || copies::copy_by_host(&progress, ticket, &late);
                host_work::when_reached(turn, HostPart::Bytes, copy)
            }
        }
    }

    fn park(self, end: BacklogEnd<'_>) -> Option<WaitingWork> {
        match DescriptorCopies::read_by_gpu(end.progress, &self.late) {
            Some(at) => {
                let op = self.descriptors.expect(end.ticket, at, self.late);
                end.join(RunKind::Descriptors, |run| run.add_descriptor(op))
            }
            None => Some(WaitingWork::Task(Box::new(self))),
        }
    }
}

impl DescriptorLauncher for DescriptorCopies {
    /// While they waited it may have become the host's to read the descriptors: then they are ops of their
    /// own again.
    fn launch(self: Arc<Self>, turn: &LaunchTurn<'_>, ops: &[DescriptorOp]) -> Result<Next> {
        if turn.has_waited {
            let back = self.take_back(turn.progress(), ops);
            if !back.is_empty() {
                let tasks = back.into_iter().map(|(ticket, late)| {
                    let copy = LateBoundCopy { late, descriptors: self.clone() };
                    (ticket, WaitingWork::Task(Box::new(copy)))
                });
                return Ok(Next::Instead(tasks.collect()));
            }
        }
        self.send(turn.progress(), turn.current, ops).map(|()| Next::Follows)
    }
}
