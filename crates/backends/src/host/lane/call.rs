//! Users' functions: a lane has no owner while one runs, on a thread of the pool.

use super::{Lane, Phase};
use crate::{host::task::Task, pool::Job};
use ferry_core::{
    Kind, Ticket,
    fence::survives,
    sync::{Arc, lock},
};
use std::collections::VecDeque;

impl Lane {
    /// Lets go of the lane until the function has returned. Gives the work back if the function was aborted
    /// in the last moment.
    pub(super) fn start_call(
        self: &Arc<Self>,
        hand: VecDeque<Task>,
        function: Job,
    ) -> Option<VecDeque<Task>> {
        let mut state = self.restore(hand);
        if self.is_aborted() {
            let hand = state.take_work();
            drop(state);
            lock(&self.aborted).push(Task::Call(function));
            self.drop_one(true);
            return Some(hand);
        }
        state.phase = Phase::Calling;
        let (lane, ticket) = (self.clone(), self.status.passed() + 1);
        drop(state);
        let started = self.engine.call(Box::new(move || {
            // A panic cannot leave a C function; one of a Rust closure is the stream's failure.
            if !survives(function) {
                lane.status.fail(Kind::Device.because("a function launched on this stream panicked"));
            }
            lane.called(ticket);
        }));
        if let Err(why) = started {
            self.status.fail(why);
            self.called(ticket);
        }
        None
    }

    /// The function of this ticket has returned. An abort may have passed it before.
    pub(super) fn called(self: &Arc<Self>, ticket: Ticket) {
        let state = lock(&self.state);
        if self.status.passed() < ticket {
            self.status.pass(ticket);
        }
        drop(state);
        self.announce();
        self.put_back(VecDeque::new());
    }
}
