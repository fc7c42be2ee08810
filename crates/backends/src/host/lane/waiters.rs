//! The waiters of a lane, by ticket: threads that sleep and functions that are to be called. There may be
//! thousands, so neither adding nor notifying one costs more than a walk down a tree.

use crate::pool::Job;
use ferry_core::Ticket;
use std::collections::BTreeMap;

/// No ticket: there are no waiters.
pub const NONE: Ticket = Ticket::MAX;

/// The threads and functions that wait for one lane.
#[derive(Default)]
pub struct Waiters {
    /// How many threads sleep until this ticket has passed; never 0.
    sleepers: BTreeMap<Ticket, usize>,
    /// By ticket, and for one ticket in the order they came.
    watchers: BTreeMap<(Ticket, u64), Job>,
    /// How many watchers have come so far.
    came: u64,
}

impl Waiters {
    /// The lowest ticket that is waited for.
    pub fn wanted(&self) -> Ticket {
        let slept_for = self.sleepers.first_key_value().map_or(NONE, |(ticket, _)| *ticket);
        let watched = self.watchers.first_key_value().map_or(NONE, |((ticket, _), _)| *ticket);
        slept_for.min(watched)
    }

    /// A function is to run when `ticket` has passed.
    pub fn watch(&mut self, ticket: Ticket, then: Job) {
        self.came += 1;
        self.watchers.insert((ticket, self.came), then);
    }

    /// A thread goes to sleep until `ticket` has passed.
    pub fn sleep(&mut self, ticket: Ticket) {
        *self.sleepers.entry(ticket).or_default() += 1;
    }

    /// A thread that slept until `ticket` had passed, or until its time was over, is awake.
    pub fn wake(&mut self, ticket: Ticket) {
        // Those whose ticket has passed were taken off the list before they woke.
        let Some(count) = self.sleepers.get_mut(&ticket) else { return };
        *count -= 1;
        if *count == 0 {
            self.sleepers.remove(&ticket);
        }
    }

    /// Whether threads sleep.
    pub fn has_sleepers(&self) -> bool {
        !self.sleepers.is_empty()
    }

    /// Whether functions are to be called.
    pub fn has_watchers(&self) -> bool {
        !self.watchers.is_empty()
    }

    /// Takes those off the list who wait for nothing after `passed`: whether threads sleep that must wake,
    /// and what must run.
    pub fn take_due(&mut self, passed: Ticket) -> (bool, Vec<Job>) {
        let mut wakes = false;
        while self.sleepers.first_key_value().is_some_and(|(ticket, _)| *ticket <= passed) {
            self.sleepers.pop_first();
            wakes = true;
        }
        let mut due = Vec::new();
        while let Some(first) = self.watchers.first_entry().filter(|first| first.key().0 <= passed) {
            due.push(first.remove());
        }
        (wakes, due)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    type Said = Arc<Mutex<Vec<(Ticket, u64)>>>;

    /// Twenty tickets in disorder, three times over: each watcher says its ticket and the round it came in.
    fn crowd(said: &Said) -> Waiters {
        let mut waiting = Waiters::default();
        for turn in 0..60 {
            let (ticket, round, said) = (turn * 7 % 20 + 1, turn / 20, said.clone());
            waiting.watch(ticket, Box::new(move || said.lock().expect("whole").push((ticket, round))));
        }
        waiting
    }

    #[test]
    fn watchers_are_due_once_by_ticket_and_then_in_the_order_they_came() {
        let all = || (1..=20).flat_map(|ticket| (0..3).map(move |round| (ticket, round)));
        for steps in [&[20][..], &[5, 5, 6, 19, 20], &[0, 1, 2, 3, 10, 25]] {
            let said = Said::default();
            let mut waiting = crowd(&said);
            for passed in steps {
                let (wakes, due) = waiting.take_due(*passed);
                due.into_iter().for_each(|then| then());
                let want: Vec<_> = all().filter(|(ticket, _)| ticket <= passed).collect();
                assert_eq!(*said.lock().expect("whole"), want, "{steps:?}, {passed} passed");
                assert_eq!(waiting.wanted(), if *passed < 20 { passed + 1 } else { NONE });
                assert!(!wakes, "nobody sleeps");
            }
        }
    }

    #[test]
    fn a_ticket_is_wanted_until_the_last_sleeper_has_left_or_it_has_passed() {
        let mut waiting = Waiters::default();
        [5, 3, 5, 9].into_iter().for_each(|ticket| waiting.sleep(ticket));
        assert_eq!((waiting.wanted(), waiting.take_due(2).0), (3, false));
        assert_eq!((waiting.take_due(3).0, waiting.wanted()), (true, 5));
        for (awake, wanted) in [(3, 5), (5, 5), (5, 9)] {
            waiting.wake(awake);
            assert_eq!((waiting.wanted(), waiting.has_sleepers()), (wanted, true), "after {awake}");
        }
        waiting.watch(7, Box::new(|| ()));
        assert_eq!(waiting.wanted(), 7);
        assert!(waiting.take_due(9).0);
        assert_eq!((waiting.wanted(), waiting.has_sleepers()), (NONE, false));
    }
}
