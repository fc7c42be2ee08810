//! Dropping work that did not run: what an abort or a halt leaves behind.
//!
//! An abort is a ticket: tasks up to it are dropped. The owner of the lane does that before it runs
//! anything else, and without an owner the aborting thread becomes it. Functions of the user's are dropped
//! on a thread of the user's, or, where there is none, on a thread of the pool.

use super::{Lane, Phase};
use crate::{host::task::Task, litter::drop_each, pool::Job};
use ferry_core::{
    Fence,
    sync::{Arc, Ordering, lock},
};
use std::{collections::VecDeque, mem};

impl Lane {
    /// Drops the tasks that have not passed by now, or has their owner do it and waits for that. Tasks
    /// submitted later are not concerned. Functions of the user's are dropped here, on the user's thread.
    pub(super) fn abort(self: &Arc<Self>) {
        let dropped = self.take_aborted();
        // The lock is not held while destructors of the user's run: one may abort this very stream.
        let kept = mem::take(&mut *lock(&self.aborted));
        drop_each(kept.into_iter().chain(dropped));
    }

    /// Has the work pass that an abort drops. Returns what has not been dropped by then.
    fn take_aborted(self: &Arc<Self>) -> VecDeque<Task> {
        let mut state = lock(&self.state);
        let last = self.submitted.load(Ordering::Relaxed);
        self.signs.aborted.store(last, Ordering::Release);
        match state.phase {
            Phase::Idle => VecDeque::new(),
            Phase::Running => {
                drop(state);
                // Whatever the owner does next, it looks at the sign first; nothing that it may wait for lies
                // before `last`.
                let _ = self.fence_at(last).wait(None);
                VecDeque::new()
            }
            Phase::Ready | Phase::Blocked => {
                let mut hand = self.take(&mut state);
                drop(state);
                while self.drop_unwanted(&mut hand) {}
                self.put_back(hand);
                VecDeque::new()
            }
            Phase::Calling => {
                let behind = state.take_work();
                // The function's own ticket passes too: as far as the stream goes, what it was launched for
                // is over. The phase stays, so that later work still comes after it.
                if self.status.passed() < last {
                    self.status.drop_through(last);
                    self.status.pass(last);
                }
                drop(state);
                self.announce();
                behind
            }
        }
    }

    /// Whether the first op in hand was aborted, or is about to be: an abort of several streams marks what it
    /// drops in all of them before the first one passes any of it.
    pub(super) fn is_aborted(&self) -> bool {
        let passed = self.status.passed();
        passed < self.signs.aborted.load(Ordering::Acquire) || self.status.is_aborted(passed + 1)
    }

    /// Drops the first op in hand if it was aborted, or all of them if the stream has stopped for good.
    pub(super) fn drop_unwanted(&self, hand: &mut VecDeque<Task>) -> bool {
        let aborted = self.is_aborted();
        if !aborted && !self.status.is_halted() || hand.is_empty() {
            return false;
        }
        let count = if aborted { 1 } else { hand.len() };
        let dropped = hand.drain(..count).map(|mut work| {
            work.stop();
            work
        });
        if aborted {
            let users: Vec<_> = dropped.filter(Task::is_users).collect();
            lock(&self.aborted).extend(users);
        } else {
            self.dispose(dropped);
        }
        (0..count).for_each(|_| self.drop_one(aborted));
        true
    }

    /// Drops tasks that did not run, on a thread of the pool: no thread of the user's is here.
    pub(super) fn dispose(&self, work: impl IntoIterator<Item = Task>) {
        let functions = work.into_iter().filter_map(|work| match work {
            Task::Call(function) => Some(function),
            Task::After(_) => Some(Box::new(move || drop(work)) as Job),
            _ => None,
        });
        self.engine.drop_later(functions);
    }

    /// The next op is complete without having run. Who is told so may ask at once about an op behind it: all
    /// that the abort drops counts as dropped before the first of it passes.
    pub(super) fn drop_one(&self, aborted: bool) {
        if aborted {
            self.status.drop_through(self.signs.aborted.load(Ordering::Acquire));
        }
        self.pass();
    }
}
