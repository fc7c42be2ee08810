//! Work for a lane, as its order sees it: something that knows how to put itself into the stream when its
//! turn comes.
//!
//! The floors above bring their work as a [`Task`]: a copy, a run of coalesced copies, copies through
//! descriptors, staging. The order decides when; the task decides what to put into the stream then. A task
//! that has to wait is kept in the backlog as a [`WaitingTask`], which every task is.

use crate::cuda::{
    driver::Current,
    order::backlog::{Counted, HostPart},
    order::lane::Lane,
    order::progress::StreamProgress,
    stream::Stream,
};
use crate::pool::{Job, ThreadReservation};
use ferry_core::{Result, Ticket, sync::Arc};
use std::any::Any;

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
}

impl LaunchTurn<'_> {
    /// How far the stream has come.
    pub fn progress(&self) -> &Arc<StreamProgress> {
        &self.lane.progress
    }

    /// The stream.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.lane.progress.stream
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
    pub before: Option<&'a mut Box<dyn WaitingTask>>,
}

/// What comes after a launch.
pub enum Next {
    /// The next op may follow at once.
    Follows,
    /// The host has to do its part first; [`Lane::resume`] will be called.
    Blocked(HostPart),
    /// The stream takes no more launches now: this is left, and the thread goes on with it when there is
    /// room.
    Full(Box<dyn WaitingTask>, ThreadReservation),
    /// Nothing was done: these are to be done instead, in this order.
    Instead(Vec<(Ticket, Box<dyn WaitingTask>)>),
}

/// One op, or several with tickets in a row.
pub trait Task: Send + Sized + 'static {
    /// Puts it into the stream. An error is the failure of its first op.
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next>;

    /// Tickets besides the first.
    fn more(&self) -> Ticket {
        0
    }

    /// Puts the task into the backlog: by itself, or as part of what waits right before it, and then `None`.
    fn park(self, _at: BacklogEnd<'_>) -> Option<Box<dyn WaitingTask>> {
        Some(Box::new(self))
    }

    /// The function of the user's that it would have run. A destructor of it may want the lane, which is
    /// locked when a task is dropped.
    fn into_function(self) -> Option<Job> {
        None
    }
}

/// A task that waits.
pub trait WaitingTask: Any + Send {
    /// As [`Task::launch`].
    fn launch(self: Box<Self>, turn: &LaunchTurn<'_>) -> Result<Next>;

    /// As [`Task::more`].
    fn more(&self) -> Ticket;

    /// As [`Task::into_function`].
    fn into_function(self: Box<Self>) -> Option<Job>;
}

impl<T: Task> WaitingTask for T {
    fn launch(self: Box<Self>, turn: &LaunchTurn<'_>) -> Result<Next> {
        Task::launch(*self, turn)
    }

    fn more(&self) -> Ticket {
        Task::more(self)
    }

    fn into_function(self: Box<Self>) -> Option<Job> {
        Task::into_function(*self)
    }
}

impl Task for Box<dyn WaitingTask> {
    fn launch(self, turn: &LaunchTurn<'_>) -> Result<Next> {
        <dyn WaitingTask as WaitingTask>::launch(self, turn)
    }

    fn more(&self) -> Ticket {
        (**self).more()
    }

    fn park(self, _: BacklogEnd<'_>) -> Option<Box<dyn WaitingTask>> {
        Some(self)
    }

    fn into_function(self) -> Option<Job> {
        <dyn WaitingTask as WaitingTask>::into_function(self)
    }
}

impl Counted for Box<dyn WaitingTask> {
    fn more(&self) -> Ticket {
        (**self).more()
    }
}
