//! Exclusion between streams that the host holds and driver calls that synchronize implicitly, that is, that
//! wait for all streams: freeing memory, unlocking pages, closing memory of another process, loading kernels,
//! creating streams.
//!
//! The two never happen at once, for the held stream may be waiting for the very thread that is in such a
//! call, and the driver lets no other thread in meanwhile. While a stream is held such calls are deferred;
//! and while one is being made, a thread that wants to hold a stream waits for it. Holds are made by
//! `shared/` alone; the floors below it know only that a call may be deferred.

use crate::pool::{Job, Pool};
use ferry_core::{
    Result,
    sync::{Arc, AtomicBool, Condvar, Mutex, Ordering, lock},
};
use std::{mem, time::Instant};

/// The holds and calls of all devices of a backend.
#[derive(Default)]
pub struct ImplicitSync {
    state: Mutex<HoldState>,
    changed: Condvar,
    /// Whether a stream may ever be held. Most programs share none.
    is_expected: AtomicBool,
}

#[derive(Default)]
struct HoldState {
    /// Holds that have begun and not ended.
    held: usize,
    /// Calls that are being made.
    calls: usize,
    /// Calls that are deferred.
    later: Vec<Job>,
    /// How many deferred calls are not done.
    left: usize,
}

impl HoldState {
    fn defer(&mut self, call: Job) {
        self.left += 1;
        self.later.push(call);
    }
}

/// A call that is being made, until this is dropped.
struct CallGuard<'a>(&'a ImplicitSync);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).calls -= 1;
        self.0.changed.notify_all();
    }
}

impl ImplicitSync {
    /// A stream may be held from now on.
    pub fn expect_holds(&self) {
        self.is_expected.store(true, Ordering::Relaxed);
    }

    /// Whether a stream may be held now or later.
    pub fn may_hold(&self) -> bool {
        self.is_expected.load(Ordering::Relaxed)
    }

    /// A stream is held: one more.
    pub fn begin(&self) {
        let mut state = lock(&self.state);
        while state.calls > 0 {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.held += 1;
    }

    /// A stream is held no more: one less. After the last one a thread of `pool` makes the deferred calls.
    pub fn end(self: &Arc<Self>, pool: &Arc<Pool>) {
        let mut state = lock(&self.state);
        state.held -= 1;
        self.changed.notify_all();
        if state.held > 0 || state.later.is_empty() {
            return;
        }
        state.calls += 1;
        let (holds, later) = (self.clone(), mem::take(&mut state.later));
        drop(state);
        let make = move || {
            let _call = CallGuard(&holds);
            later.into_iter().for_each(|call| {
                call();
                lock(&holds.state).left -= 1;
            });
        };
        // Without a thread of the pool, this one makes them.
        pool.run(Box::new(make)).unwrap_or_else(|refused| (refused.job)());
    }

    /// Makes the call when no stream is held any more. If it has to wait it does so here and not in the
    /// driver, which would let no other thread in.
    pub fn when_free<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.state);
        while state.held > 0 {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.calls += 1;
        drop(state);
        let _call = CallGuard(self);
        call()
    }

    /// Makes the call, if no stream is held.
    pub fn unless_held<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let mut state = lock(&self.state);
        if state.held > 0 {
            return None;
        }
        state.calls += 1;
        drop(state);
        let _call = CallGuard(self);
        Some(call())
    }

    /// Makes the call now, or defers it until no stream is held; then its result is dropped.
    pub fn now_or_later(&self, call: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let mut state = lock(&self.state);
        if state.held == 0 {
            state.calls += 1;
            drop(state);
            let _call = CallGuard(self);
            return call();
        }
        state.defer(Box::new(move || drop(call())));
        Ok(())
    }

    /// Defers the call until no stream is held. False, and it is not made, if none is now.
    pub fn later(&self, call: impl FnOnce() + Send + 'static) -> bool {
        let mut state = lock(&self.state);
        let is_held = state.held > 0;
        if is_held {
            state.defer(Box::new(call));
        }
        is_held
    }

    /// Whether deferred calls are left.
    #[cfg(all(test, not(loom)))]
    fn is_behind(&self) -> bool {
        lock(&self.state).left > 0
    }

    /// Waits until no deferred call is left. False if that takes too long.
    pub fn catch_up(&self, deadline: Instant) -> bool {
        let mut state = lock(&self.state);
        while state.left > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = match self.changed.wait_timeout(state, left) {
                Ok((state, _)) => state,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread, time::Duration};

    #[test]
    fn calls_are_deferred_until_nothing_is_held() {
        let (holds, workers) = (Arc::new(ImplicitSync::default()), Pool::new("ferry-test"));
        let (told, hear) = mpsc::channel();
        let call = |name: &'static str| {
            let told = told.clone();
            holds.now_or_later(move || {
                told.send(name).expect("heard");
                Ok(())
            })
        };
        call("at once").expect("made");
        assert_eq!(hear.try_recv(), Ok("at once"));
        holds.begin();
        holds.begin();
        call("first").and(call("second")).expect("put off");
        assert_eq!(holds.unless_held(|| ()), None);
        holds.end(&workers);
        assert!(holds.is_behind() && hear.try_recv().is_err(), "one is left");
        assert!(!holds.catch_up(Instant::now()));
        holds.end(&workers);
        assert!(holds.catch_up(Instant::now() + Duration::from_secs(60)) && !holds.is_behind());
        assert_eq!([hear.recv(), hear.recv()], [Ok("first"), Ok("second")]);
    }

    #[test]
    fn nothing_is_held_while_a_call_is_made() {
        let holds = Arc::new(ImplicitSync::default());
        let (told, hear) = mpsc::channel();
        let also = holds.clone();
        let made = holds.unless_held(|| {
            let holder = thread::spawn(move || {
                also.begin();
                told.send(()).expect("heard");
            });
            // It cannot have begun, however long we look.
            (0..1000).for_each(|_| thread::yield_now());
            assert!(hear.try_recv().is_err());
            holder
        });
        made.expect("nothing is held").join().expect("no panic");
        assert_eq!((hear.recv(), holds.unless_held(|| ())), (Ok(()), None));
        let (also, workers) = (holds.clone(), Pool::new("ferry-test"));
        let waits = thread::spawn(move || also.when_free(|| lock(&also.state).held));
        holds.end(&workers);
        assert_eq!(waits.join().expect("no panic"), 0, "made when nothing is");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use ferry_core::sync::AtomicUsize;

    /// One that holds, a call that is made or not, and one that waits its turn: a call never meets the hold.
    #[test]
    fn loom_nothing_is_held_while_a_call_is_made() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (holds, workers) = (Arc::new(ImplicitSync::default()), Pool::new("ferry-test"));
            let held = Arc::new(AtomicUsize::new(0));
            let (its_holds, its_held) = (holds.clone(), held.clone());
            let holder = loom::thread::spawn(move || {
                its_holds.begin();
                its_held.store(1, Ordering::SeqCst);
                its_held.store(0, Ordering::SeqCst);
                its_holds.end(&workers);
            });
            let call = || assert_eq!(held.load(Ordering::SeqCst), 0, "held meanwhile");
            holds.unless_held(call);
            holds.when_free(call);
            holder.join().expect("no panic");
            assert_eq!(holds.unless_held(|| ()), Some(()), "it is over");
        });
    }
}
