//! Work for a lane, as its order sees it: something that knows how to put itself into the stream when its
//! turn comes.
//!
//! The floors above bring their work as a [`Task`]: a copy, a run of coalesced copies, copies through
//! descriptors, staging. The order decides when; the task decides what to put into the stream then. A task
//! that has to wait is kept in the backlog, as [`WaitingWork`].

use crate::cuda::{
    driver::Current,
    order::backlog::{Counted, HostPart},
    order::lane::Lane,
    order::progress::StreamProgress,
    order::timing::OpenSpan,
    order::window::{DescriptorOp, Run, RunKind},
    stream::Stream,
};
use crate::pool::{Job, ThreadReservation};
use ferry_core::{Result, Ticket, sync::Arc};
use std::cell::Cell;

/// What a task finds when its turn has come: the stream is its own until [`Task::launch`] returns.
pub struct LaunchTurn<'a> {
    /// The lane whose stream it is.
    pub lane: &'a Arc<Lane>,
    /// The stream's context is current.
    pub current: &'a Current<'a>,
    /// The task's ticket; that of its first op if there are several.
    pub ticket: Ticket,
    /// Whether it has waited in the backlog.
    pub has_waited: bool,
    /// When it began, while somebody watches.
    pub span: Cell<Option<OpenSpan>>,
}

impl LaunchTurn<'_> {
    /// How far the stream has come.
    pub fn progress(&self) -> &Arc<StreamProgress> {
        &self.lane.progress
    }

    /// The task has had the stream wait for something: what it does begins here.
    pub fn begin_here(&self) {
        if self.span.take().is_some() {
            let StreamProgress { timings, status, stream, .. } = &**self.progress();
            self.span.set(timings.open(status, stream, self.current));
        }
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.lane.progress.stream
    }

    /// Blocks until the stream has done all that came before.
    pub fn wait_for_stream(&self) -> Result<()> {
        self.lane.wait_before(self.ticket, self.current)
    }

    /// The op is done, and all before it.
    pub fn pass(&self) {
        // While somebody watches it passes when its times are known.
        if !self.progress().status.is_observed() {
            self.progress().pass(self.ticket);
        }
    }

    /// Counts one more launch. If the stream takes no more of them now: a thread that goes on when it does.
    pub fn thread_if_full(&self) -> Option<ThreadReservation> {
        self.lane.thread_if_full()
    }
}

/// What a task finds that comes to a lane which is blocked: the end of its backlog.
pub struct BacklogEnd<'a> {
    /// How far the stream has come.
    pub progress: &'a StreamProgress,
    /// The task's ticket.
    pub ticket: Ticket,
    /// What waits right before it, if anything does.
    pub before: Option<&'a mut WaitingWork>,
}

impl BacklogEnd<'_> {
    /// Adds an op of this kind to the run that waits right before it, or to a new one.
    pub fn join(self, kind: RunKind, add: impl FnOnce(&mut Run)) -> Option<WaitingWork> {
        match self.before {
            Some(WaitingWork::Run(run)) if run.has_room(kind) => {
                add(run);
                None
            }
            _ => {
                let mut run = Run::default();
                add(&mut run);
                Some(WaitingWork::Run(run))
            }
        }
    }
}

/// What comes after a launch.
pub enum Next {
    /// The next op may follow at once.
    Follows,
    /// The host has to do its part first; [`Lane::resume`] will be called.
    Blocked(HostPart),
    /// The stream takes no more launches now: this is left, and the thread goes on with it when there is
    /// room.
    Full(WaitingWork, ThreadReservation),
    /// Nothing was done: these are to be done instead, in this order.
    Instead(Vec<(Ticket, WaitingWork)>),
}

/// Launches copies through descriptors, which the order itself does not know how to do.
pub trait DescriptorLauncher: Send + Sync {
    /// Launches these, or says what is to be done instead.
    fn launch(self: Arc<Self>, turn: &LaunchTurn<'_>, ops: &[DescriptorOp]) -> Result<Next>;
}

/// One op, or several with tickets in a row.
pub trait Task: Send + Sized + 'static {
    /// Puts it into the stream. An error is the failure of its first op.
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next>;

    /// How many ops it has besides the first.
    fn more(&self) -> Ticket {
        0
    }

    /// Puts the task into the backlog: by itself, or as part of what waits right before it, and then `None`.
    fn park(self, _at: BacklogEnd<'_>) -> Option<WaitingWork> {
        Some(WaitingWork::Task(Box::new(self)))
    }

    /// The function of the user's that it would have run. A destructor of it may want the lane, which is
    /// locked when a task is dropped.
    fn into_function(self) -> Option<Job> {
        None
    }
}

/// What waits in a backlog.
pub enum WaitingWork {
    /// Coalesced copies, which later ones may join.
    Run(Run),
    /// One op.
    Task(Box<dyn WaitingTask>),
}

/// A task that waits.
pub trait WaitingTask: Send {
    /// As [`Task::launch`].
    fn launch(self: Box<Self>, turn: &LaunchTurn<'_>) -> Result<Next>;

    /// As [`Task::into_function`].
    fn into_function(self: Box<Self>) -> Option<Job>;
}

impl<T: Task> WaitingTask for T {
    fn launch(self: Box<Self>, turn: &LaunchTurn<'_>) -> Result<Next> {
        Task::launch(*self, turn)
    }

    fn into_function(self: Box<Self>) -> Option<Job> {
        Task::into_function(*self)
    }
}

impl Task for WaitingWork {
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next> {
        match self {
            WaitingWork::Run(run) => Task::launch(run, turn),
            WaitingWork::Task(task) => task.launch(turn),
        }
    }

    fn more(&self) -> Ticket {
        Counted::more(self)
    }

    fn park(self, _: BacklogEnd<'_>) -> Option<WaitingWork> {
        Some(self)
    }

    fn into_function(self) -> Option<Job> {
        match self {
            WaitingWork::Run(_) => None,
            WaitingWork::Task(task) => task.into_function(),
        }
    }
}

impl Counted for WaitingWork {
    fn more(&self) -> Ticket {
        match self {
            WaitingWork::Run(run) => run.last() - run.first(),
            WaitingWork::Task(_) => 0,
        }
    }
}
