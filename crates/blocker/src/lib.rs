//! A host function that blocks its stream until it is told to return, so that order is seen without a clock.
//!
//! Everything behind the function in its stream stays outstanding. A call that comes back meanwhile has not
//! waited for it; one that comes back only after [`Blocker::unblock`] has. How the function gets into a
//! stream is the caller's business: the tests of every layer, the tour and the benchmark each have their own
//! kind of stream, and this crate knows none of them. The C programs in `tests/c` include nothing but the
//! headers of the library, so `kit.h` has the same in C.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long [`Blocker::new`] blocks at most: a test that waits behind its own function fails instead of
/// hanging.
const LIMIT: Duration = Duration::from_secs(60);

/// A stream that is blocked until [`unblock`](Blocker::unblock) or drop.
#[must_use]
pub struct Blocker {
    shared: Arc<Inner>,
    limit: Duration,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The stream runs the function.
    is_reached: bool,
    /// The function may return.
    is_unblocked: bool,
    /// The function has returned because its limit had passed.
    has_given_up: bool,
}

impl Inner {
    /// A failed assertion elsewhere must not leave the stream blocked, so a poisoned lock is taken all the
    /// same.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, limit: Duration, condition: fn(&mut State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.changed.wait_timeout_while(self.state(), limit, condition);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn block(&self, limit: Duration) {
        self.state().is_reached = true;
        self.changed.notify_all();
        let mut state = self.wait_while(limit, |state| !state.is_unblocked);
        state.has_given_up = !state.is_unblocked;
    }
}

impl Blocker {
    /// A blocker, and the function that blocks the stream which runs it, for a minute at most.
    pub fn new() -> (Blocker, impl FnOnce() + Send + 'static) {
        Blocker::with_limit(LIMIT)
    }

    /// A blocker that blocks until it is told otherwise, for where a watchdog ends what hangs.
    pub fn without_limit() -> (Blocker, impl FnOnce() + Send + 'static) {
        Blocker::with_limit(Duration::MAX)
    }

    fn with_limit(limit: Duration) -> (Blocker, impl FnOnce() + Send + 'static) {
        let blocker = Blocker { shared: Arc::default(), limit };
        let shared = blocker.shared.clone();
        (blocker, move || shared.block(limit))
    }

    /// Returns once the stream runs the function, without a call that synchronises. Panics if it never does.
    pub fn wait_until_reached(&self) {
        let is_reached = self.shared.wait_while(self.limit, |state| !state.is_reached).is_reached;
        assert!(is_reached, "the stream never came to its host function");
    }

    /// Lets the stream go on. Panics if the limit had passed before: something waited that must not wait.
    #[track_caller]
    pub fn unblock(&self) {
        assert!(self.release(), "a call that should have come back waited for a stream that is blocked");
    }

    /// Lets the stream go on; false if the limit had passed before.
    pub fn release(&self) -> bool {
        let mut state = self.shared.state();
        state.is_unblocked = true;
        self.shared.changed.notify_all();
        !state.has_given_up
    }

    /// Whether the stream was told to go on.
    pub fn is_unblocked(&self) -> bool {
        self.shared.state().is_unblocked
    }
}

impl Drop for Blocker {
    fn drop(&mut self) {
        let in_time = self.release();
        assert!(in_time || std::thread::panicking(), "a call waited for a stream that is blocked");
    }
}

#[cfg(test)]
mod tests {
    use super::{Blocker, Duration};

    #[test]
    fn the_function_returns_when_told_or_when_its_blocker_is_dropped() {
        for is_told in [true, false] {
            let (blocker, function) = Blocker::new();
            let stream = std::thread::spawn(function);
            blocker.wait_until_reached();
            assert!(!stream.is_finished() && !blocker.is_unblocked());
            if is_told {
                blocker.unblock();
                assert!(blocker.is_unblocked());
            }
            drop(blocker);
            stream.join().expect("it returns");
        }
    }

    #[test]
    fn one_that_was_told_too_late_says_so() {
        let (blocker, function) = Blocker::with_limit(Duration::ZERO);
        function();
        assert!(!blocker.release());
        assert!(std::panic::catch_unwind(move || drop(blocker)).is_err());
    }
}
