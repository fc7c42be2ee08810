//! Waits of a stream for fences. The stream waits by itself where it can, for an event of another CUDA
//! stream; else the lane is blocked until the fence is done.

use crate::cuda::{
    order::backlog::HostPart,
    order::fence::{WaitBy, of_cuda},
    order::task::{LaunchTurn, Next, Task, WaitingTask, WaitingWork},
};
use crate::pool::{Job, ThreadReservation};
use ferry_core::{
    Fence, Result,
    sync::{Arc, Mutex, lock},
};

/// Waits for fences, the last one first, and then does the work if there is some.
pub struct WaitFor {
    /// Fences that are left to wait for.
    pub fences: Vec<Arc<dyn Fence>>,
    /// What is done then.
    pub then: Option<Box<dyn WaitingTask>>,
}

impl Task for WaitFor {
    fn launch(mut self, turn: &LaunchTurn<'_>) -> Result<Next> {
        let waits = !self.fences.is_empty();
        while let Some(fence) = self.fences.pop() {
            // This call takes what is left to do, or the job that asks again does.
            let left = Arc::new(Mutex::new(Some(self)));
            match wait_in_stream(turn, &left, &fence) {
                Ok(true) => self = take(&left),
                Ok(false) => return Ok(Next::Blocked(HostPart::Wait)),
                Err(why) => {
                    turn.lane.discard(take(&left).into_function());
                    return Err(why);
                }
            }
        }
        if waits {
            turn.begin_here();
        }
        self.then.map_or(Ok(Next::Follows), |then| then.launch(turn))
    }

    fn into_function(self) -> Option<Job> {
        self.then.and_then(WaitingTask::into_function)
    }
}

impl WaitFor {
    /// Goes on when the fence is done, on a thread of the pool.
    fn retry_when_done(self, turn: &LaunchTurn<'_>, fence: &dyn Fence, thread: ThreadReservation) {
        let (lane, ticket) = (turn.lane.clone(), turn.ticket);
        fence.when_done(Box::new(move || {
            thread.run(Box::new(move || lane.retry(ticket, self.into_work())));
        }));
    }

    fn into_work(self) -> Option<WaitingWork> {
        let is_over = self.fences.is_empty() && self.then.is_none();
        (!is_over).then(|| WaitingWork::Task(Box::new(self)))
    }
}

fn take(left: &Mutex<Option<WaitFor>>) -> WaitFor {
    lock(left).take().expect("taken once")
}

/// Has the stream wait for the fence. False if the lane is blocked instead, and goes on with what is left
/// when the fence is done. An error leaves that where it is: it may own a function of the user's, which must
/// not be dropped here, where the lane is locked.
fn wait_in_stream(
    turn: &LaunchTurn<'_>,
    left: &Arc<Mutex<Option<WaitFor>>>,
    fence: &Arc<dyn Fence>,
) -> Result<bool> {
    let again = again(turn, left, fence);
    match of_cuda(&**fence).map_or(Ok(WaitBy::Polling), |point| point.wait_in_stream(again))? {
        WaitBy::Passed => Ok(true),
        WaitBy::Event(event) => {
            turn.stream().wait_for(turn.current, &event)?;
            turn.lane.congestion.add(turn.ticket, event, turn.progress().passed());
            Ok(true)
        }
        WaitBy::Later => Ok(false),
        WaitBy::Polling => {
            let thread = turn.stream().device().pool.reserve()?;
            take(left).retry_when_done(turn, &**fence, thread);
            Ok(false)
        }
    }
}

/// Has a thread of the pool go on with what is left, from the fence on.
fn again(
    turn: &LaunchTurn<'_>,
    left: &Arc<Mutex<Option<WaitFor>>>,
    fence: &Arc<dyn Fence>,
) -> impl FnOnce() -> Result<Job> {
    let (lane, ticket, left, fence) = (turn.lane.clone(), turn.ticket, left.clone(), fence.clone());
    move || {
        let thread = lane.stream().device().pool.reserve()?;
        let ask_again = move || {
            let mut wait = take(&left);
            wait.fences.push(fence);
            lane.retry(ticket, wait.into_work());
        };
        Ok(Box::new(move || thread.run(Box::new(ask_again))))
    }
}
