//! Shared streams that we hold, and calls for which the driver waits for all streams: giving memory back, unlocking pages, closing
//! what another process lent. Never both at once, for the stream may be waiting for the very thread in such a call. While a stream
//! is held they are put off; and while one is made, whoever wants to hold a stream waits for it.

use crate::cuda::shared::beforehand::Beforehand;
use crate::pool::{Job, Pool};
use ferry_core::{
    Result,
    sync::{Arc, Condvar, Mutex, lock},
};
use std::{mem, time::Instant};

/// Those of all devices of a backend.
#[derive(Default)]
pub struct Holds {
    state: Mutex<State>,
    changed: Condvar,
    /// What is made before the first one begins.
    pub beforehand: Beforehand,
}

#[derive(Default)]
struct State {
    held: usize,
    /// Calls that are being made.
    calls: usize,
    later: Vec<Job>,
    /// How many calls were put off and are not done.
    left: usize,
}

impl State {
    fn put_off(&mut self, call: Job) {
        self.left += 1;
        self.later.push(call);
    }
}

/// A call that is being made, until this goes.
struct Call<'a>(&'a Holds);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        lock(&self.0.state).calls -= 1;
        self.0.changed.notify_all();
    }
}

impl Holds {
    /// One more.
    pub fn begin(&self) {
        let mut state = lock(&self.state);
        while state.calls > 0 {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.held += 1;
    }

    /// One less. After the last one a thread of `workers` makes the calls that were put off.
    pub fn end(self: &Arc<Self>, workers: &Arc<Pool>) {
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
            let _call = Call(&holds);
            later.into_iter().for_each(|call| {
                call();
                lock(&holds.state).left -= 1;
            });
        };
        // Without a thread, whoever lets go makes them.
        workers.run(Box::new(make)).unwrap_or_else(|refused| (refused.job)());
    }

    /// Makes the call when nothing is held any more: if it has to wait then not in the driver, which would let nobody else in.
    pub fn when_none<T>(&self, call: impl FnOnce() -> T) -> T {
        let mut state = lock(&self.state);
        while state.held > 0 {
            state = self.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
        state.calls += 1;
        drop(state);
        let _call = Call(self);
        call()
    }

    /// Makes the call, if nothing is held.
    pub fn unless_held<T>(&self, call: impl FnOnce() -> T) -> Option<T> {
        let mut state = lock(&self.state);
        if state.held > 0 {
            return None;
        }
        state.calls += 1;
        drop(state);
        let _call = Call(self);
        Some(call())
    }

    /// Makes the call now, or when nothing is held any more; then nobody hears what became of it.
    pub fn now_or_later(&self, call: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
        let mut state = lock(&self.state);
        if state.held == 0 {
            state.calls += 1;
            drop(state);
            let _call = Call(self);
            return call();
        }
        state.put_off(Box::new(move || drop(call())));
        Ok(())
    }

    /// Makes the call when nothing is held any more. False, and it is not made, if nothing is now.
    pub fn later(&self, call: impl FnOnce() + Send + 'static) -> bool {
        let mut state = lock(&self.state);
        let is_held = state.held > 0;
        if is_held {
            state.put_off(Box::new(call));
        }
        is_held
    }

    /// Whether calls were put off that are not done.
    #[cfg(all(test, not(loom)))]
    fn is_behind(&self) -> bool {
        lock(&self.state).left > 0
    }

    /// Waits until no call that was put off is left. False if that takes too long.
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
    fn calls_are_put_off_until_nothing_is_held() {
        let (holds, workers) = (Arc::new(Holds::default()), Pool::new("ferry-test"));
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
        let holds = Arc::new(Holds::default());
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
        let waits = thread::spawn(move || also.when_none(|| lock(&also.state).held));
        holds.end(&workers);
        assert_eq!(waits.join().expect("no panic"), 0, "made when nothing is");
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use ferry_core::sync::{AtomicUsize, Ordering};

    /// One that holds, a call that is made or not, and one that waits its turn: a call never meets the hold.
    #[test]
    fn loom_nothing_is_held_while_a_call_is_made() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (holds, workers) = (Arc::new(Holds::default()), Pool::new("ferry-test"));
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
            holds.when_none(call);
            holder.join().expect("no panic");
            assert_eq!(holds.unless_held(|| ()), Some(()), "it is over");
        });
    }
}
