//! A promise: a fence for something still to come, an event that is yet to be recorded, a callback that is
//! yet to run.
//!
//! The maker of a gate opens it in the end, or binds it to the fence of the work that was waited for; until
//! then a wait for it blocks.

use crate::{
    Fence, Kind, Point, Result, fence,
    sync::{Arc, Condvar, Mutex, lock},
};
use std::{
    any::Any,
    mem,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Done when it was opened, or when the fence that it was bound to is done, whichever came first.
pub struct Gate {
    number: u64,
    behind: Option<Point>,
    state: Mutex<State>,
    moved: Condvar,
}

enum State {
    /// Nothing is known; these run when it is done.
    Shut(Vec<Box<dyn FnOnce() + Send>>),
    /// As done as this one.
    Bound(Arc<dyn Fence>),
    Open,
}

impl Default for State {
    fn default() -> Self {
        State::Shut(Vec::new())
    }
}

impl Gate {
    /// A gate that is shut.
    pub fn new() -> Arc<Gate> {
        Gate::behind(None)
    }

    /// As [`new`](Self::new), where it is known already that it is opened behind this point, and that this is
    /// all that it stands for.
    pub fn behind(point: Option<Point>) -> Arc<Gate> {
        // Numbers and nothing else, so runtimes may share it. An address would be used again, and observers
        // are not told when a gate that was opened is gone.
        static GATES: AtomicU64 = AtomicU64::new(1);
        let number = GATES.fetch_add(1, Ordering::Relaxed);
        Arc::new(Gate { number, behind: point, state: Mutex::default(), moved: Condvar::default() })
    }

    /// What it stands for, if that was known when it was made. Unlike its [`point`](Fence::point) this is
    /// never decided later.
    pub fn stands_for(&self) -> Option<Point> {
        self.behind
    }

    /// What observers know it by; no two gates of a process have the same.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Completes the gate. No effect on a gate that is already bound.
    pub fn open(&self) {
        fence::tell(self.decide(State::Open));
    }

    /// From here on the gate is done when `fence` is. No effect on a gate that is already open or bound.
    pub fn bind(&self, fence: Arc<dyn Fence>) {
        let watchers = self.decide(State::Bound(fence.clone()));
        fence::tell(watchers.into_iter().map(|then| || fence.when_done(then)));
    }

    /// Changes the state of a gate that is shut, and hands out what is to run when it is done. No effect on
    /// any other.
    fn decide(&self, to: State) -> Vec<Box<dyn FnOnce() + Send>> {
        let mut state = lock(&self.state);
        let State::Shut(watchers) = &mut *state else { return Vec::new() };
        let watchers = mem::take(watchers);
        *state = to;
        drop(state);
        self.moved.notify_all();
        watchers
    }

    /// The fence that the gate is bound to, if it is.
    fn bound_to(state: &State) -> Option<Arc<dyn Fence>> {
        match state {
            State::Bound(fence) => Some(fence.clone()),
            State::Shut(_) | State::Open => None,
        }
    }
}

impl Fence for Gate {
    fn is_done(&self) -> bool {
        let state = lock(&self.state);
        let bound = Gate::bound_to(&state);
        let open = matches!(*state, State::Open);
        drop(state);
        bound.map_or(open, |fence| fence.is_done())
    }

    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let mut state = lock(&self.state);
        while let State::Shut(_) = *state {
            state = match left() {
                Some(Duration::ZERO) => return Err(Kind::Timeout.because("nothing opened the gate in time")),
                Some(left) => {
                    self.moved.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0
                }
                None => self.moved.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
            };
        }
        let bound = Gate::bound_to(&state);
        drop(state);
        bound.map_or(Ok(()), |fence| fence.wait(left()))
    }

    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        let mut state = lock(&self.state);
        if let State::Shut(watchers) = &mut *state {
            return watchers.push(then);
        }
        let bound = Gate::bound_to(&state);
        drop(state);
        match bound {
            Some(fence) => fence.when_done(then),
            None => then(),
        }
    }

    fn point(&self) -> Option<Point> {
        Gate::bound_to(&lock(&self.state))?.point()
    }

    fn native(&self) -> &dyn Any {
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts how often it was told that `gate` is done.
    fn told(gate: &Gate) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let told = count.clone();
        gate.when_done(Box::new(move || {
            told.fetch_add(1, Ordering::Relaxed);
        }));
        count
    }

    #[test]
    fn an_opened_gate_is_done_and_says_so_once() {
        let gate = Gate::new();
        let early = told(&gate);
        assert!(!gate.is_done());
        assert_eq!(gate.wait(Some(Duration::from_millis(1))).map_err(|e| e.kind), Err(Kind::Timeout));
        gate.open();
        gate.open();
        let late = told(&gate);
        assert!(gate.is_done() && gate.wait(None).is_ok());
        assert_eq!((early.load(Ordering::Relaxed), late.load(Ordering::Relaxed)), (1, 1));
    }

    #[test]
    fn a_watcher_that_panics_takes_no_other_with_it() {
        let opened = |gate: &Gate| gate.open();
        let bound = |gate: &Gate| {
            let open = Gate::new();
            open.open();
            gate.bind(open);
        };
        for settle in [&opened as &dyn Fn(&Gate), &bound] {
            let gate = Gate::new();
            let before = told(&gate);
            gate.when_done(Box::new(|| panic!("a user's waker")));
            let after = told(&gate);
            settle(&gate);
            assert_eq!((before.load(Ordering::Relaxed), after.load(Ordering::Relaxed)), (1, 1));
        }
    }

    #[test]
    fn a_bound_gate_is_as_done_as_its_fence() {
        let (gate, other, third) = (Gate::new(), Gate::new(), Gate::new());
        let count = told(&gate);
        gate.bind(other.clone());
        gate.bind(third.clone());
        gate.open();
        third.open();
        assert!(!gate.is_done() && count.load(Ordering::Relaxed) == 0, "the first one decides");
        assert_eq!(gate.wait(Some(Duration::from_millis(1))).map_err(|e| e.kind), Err(Kind::Timeout));
        let waiter = std::thread::spawn({
            let gate = gate.clone();
            move || gate.wait(None)
        });
        other.open();
        assert_eq!(waiter.join().expect("no panic"), Ok(()));
        assert!(gate.is_done() && count.load(Ordering::Relaxed) == 1);
    }
}
