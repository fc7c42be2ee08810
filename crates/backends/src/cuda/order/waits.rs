//! Waits of a stream for fences. The stream waits by itself where it can, for an event of another CUDA
//! stream; else the lane is held until the fence is done.

use crate::cuda::{
    order::backlog::HostPart,
    order::fence::{WaitBy, of_cuda},
    order::task::{LaunchTurn, Next, Task, WaitingTask},
};
use crate::pool::Job;
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
        while let Some(fence) = self.fences.pop() {
            // This call takes what is left to do, or the job that asks again does.
            let left = Arc::new(Mutex::new(Some(self)));
            let again = again(turn, &left, &fence);
            let how = of_cuda(&*fence).map_or(Ok(WaitBy::Polling), |point| point.wait_in_stream(again))?;
            match how {
                WaitBy::Passed => {}
                WaitBy::Event(event) => {
                    turn.stream().wait_for(turn.current, &event)?;
                    turn.lane.congestion.add(event);
                }
                WaitBy::Later => return Ok(Next::Held(HostPart::Wait)),
                WaitBy::Polling => {
                    take(&left).retry_when_done(turn, &*fence)?;
                    return Ok(Next::Held(HostPart::Wait));
                }
            }
            self = take(&left);
        }
        self.then.map_or(Ok(Next::Follows), |then| Task::launch(then, turn))
    }

    fn into_function(self) -> Option<Job> {
        self.then.and_then(Task::into_function)
    }
}

impl WaitFor {
    /// Goes on when the fence is done.
    fn retry_when_done(self, turn: &LaunchTurn<'_>, fence: &dyn Fence) -> Result<()> {
        let (lane, ticket) = (turn.lane.clone(), turn.ticket);
        let thread = turn.stream().device().pool.reserve()?;
        fence.when_done(Box::new(move || {
            thread.run(Box::new(move || lane.retry(ticket, self.into_work())));
        }));
        Ok(())
    }

    fn into_work(self) -> Option<Box<dyn WaitingTask>> {
        let is_over = self.fences.is_empty() && self.then.is_none();
        (!is_over).then(|| Box::new(self) as Box<dyn WaitingTask>)
    }
}

fn take(left: &Mutex<Option<WaitFor>>) -> WaitFor {
    lock(left).take().expect("taken once")
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
