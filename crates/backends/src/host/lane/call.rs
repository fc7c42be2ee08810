//! Users' functions: a lane has no owner while one runs, on a thread of the pool. That thread goes on with
//! the lane as a worker does, and stays near it for a while: where functions and copies take turns, nobody is
//! woken for either.

use super::{Lane, Phase, Quantum};
use crate::{host::task::Task, pool::Job};
use ferry_core::{
    Kind, Ticket,
    fence::survives,
    sync::{Arc, lock},
};
use std::collections::VecDeque;

impl Lane {
    /// Lets go of the lane until the function has returned. Gives the work back if the function was aborted
    /// in the last moment, or when it has returned on this thread, which `calls`.
    pub(super) fn start_call(
        self: &Arc<Self>,
        hand: VecDeque<Task>,
        function: Job,
        calls: bool,
    ) -> Option<VecDeque<Task>> {
        let mut state = self.restore(hand);
        if self.is_aborted() {
            let hand = state.take_work();
            drop(state);
            lock(&self.aborted).push(Task::Call(function));
            self.drop_one(true);
            return Some(hand);
        }
        if !calls && state.callers > 0 {
            // A thread is near that may call.
            state.work.push_front(Task::Call(function));
            self.make_ready(state);
            return None;
        }
        state.phase = Phase::Calling;
        let (lane, ticket) = (self.clone(), self.status.passed() + 1);
        drop(state);
        if calls {
            self.call(function, ticket);
            return Some(self.take(&mut lock(&self.state)));
        }
        let started = self.engine.call(Box::new(move || {
            lane.call(function, ticket);
            lane.go_on();
        }));
        if let Err(why) = started {
            self.status.fail(why);
            self.called(ticket);
            self.put_back(VecDeque::new());
        }
        None
    }

    /// Calls the function of this ticket.
    fn call(&self, function: Job, ticket: Ticket) {
        // A panic cannot leave a C function; one of a Rust closure is the stream's failure.
        if !survives(function) {
            self.status.fail(Kind::Device.because("a function launched on this stream panicked"));
        }
        self.called(ticket);
    }

    /// Goes on with the lane behind a function, on the thread of the pool that has called it.
    fn go_on(self: &Arc<Self>) {
        if self.pace.is_some() {
            return self.put_back(VecDeque::new());
        }
        let turn = Quantum::Worker { moved: 0, calls: true };
        let mut state = lock(&self.state);
        let hand = if state.spinners > 0 && !state.work.is_empty() && !state.is_at_call() {
            // Who waits is awake, and has nothing else to do.
            self.make_ready(state);
            self.stay_near(&turn, lock(&self.state))
        } else {
            let hand = self.take(&mut state);
            drop(state);
            Some(hand)
        };
        if let Some(hand) = hand {
            self.run(hand, turn);
        }
        self.engine.relieve();
    }

    /// The function of this ticket has returned. An abort may have passed it before.
    pub(super) fn called(&self, ticket: Ticket) {
        let state = lock(&self.state);
        if self.status.passed() < ticket {
            self.status.pass(ticket);
        }
        drop(state);
        self.announce();
    }
}
