//! Runs of coalesced copies as tasks of a lane.
//!
//! A run is put into the stream portion by portion: copies of one portion are independent and go together.

use crate::cuda::{
    order::task::{BacklogEnd, LaunchTurn, Next, Task, WaitingWork},
    order::window::{Run, RunKind},
    stream::copies::StreamCopier,
    stream::planner::Direction,
};
use crate::pool::ThreadReservation;
use ferry_core::{Result, Ticket};

impl Task for Run {
    fn launch(mut self, turn: &LaunchTurn<'_>) -> Result<Next> {
        let next = match self.kind() {
            None => Ok(Next::Follows),
            Some(RunKind::Copies(direction)) => match send(&mut self, turn, direction) {
                Some(thread) => return Ok(Next::Full(WaitingWork::Run(self), thread)),
                None => Ok(Next::Follows),
            },
            Some(RunKind::Descriptors) => turn.lane.descriptors.clone().launch(turn, self.descriptors()),
        };
        turn.lane.window.recycle(self);
        next
    }

    fn more(&self) -> Ticket {
        self.last() - self.first()
    }

    fn park(self, _: BacklogEnd<'_>) -> Option<WaitingWork> {
        Some(WaitingWork::Run(self))
    }
}

/// Sends copies, one portion after the other, until the stream takes no more. If these were not all the
/// others are left in the run, for the thread that goes on with them.
fn send(run: &mut Run, turn: &LaunchTurn<'_>, direction: Direction) -> Option<ThreadReservation> {
    let copier = StreamCopier::new(turn.stream(), turn.current, direction);
    let (mut sent, mut thread) = (0, None);
    for portion in run.portions() {
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
    run.leave_out(sent);
    thread
}
