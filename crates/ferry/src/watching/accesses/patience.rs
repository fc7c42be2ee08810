//! The lock around what is in flight, which threads of the program's hold while they submit.
//!
//! The monitor of accesses waits for it, but not for ever: the thread that has it may have touched watched
//! memory, and be waiting for the monitor in turn. Such a thread gets nothing done. One that arms gigabytes
//! does, and says so, however long it takes: so the monitor's patience begins anew with each step.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How long an access waits for a thread that gets nothing done.
pub(super) const PATIENCE: Duration = Duration::from_millis(50);

/// A lock whose holders say that they go on.
#[derive(Default)]
pub(super) struct SteppedLock<T> {
    inside: Mutex<T>,
    steps: AtomicU64,
}

impl<T> SteppedLock<T> {
    pub(super) fn new(inside: T) -> SteppedLock<T> {
        SteppedLock { inside: Mutex::new(inside), steps: AtomicU64::new(0) }
    }

    /// Waits for it, for ever.
    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for it as long as its holders get something done.
    pub(super) fn lock_soon(&self) -> Option<MutexGuard<'_, T>> {
        let mut patience = StepPatience { since: Instant::now(), seen: self.steps.load(Ordering::Relaxed) };
        loop {
            match self.inside.try_lock() {
                Ok(inside) => return Some(inside),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => {
                    if patience.is_over(self.steps.load(Ordering::Relaxed), Instant::now()) {
                        return None;
                    }
                    std::thread::yield_now();
                }
            }
        }
    }

    /// The holder has got something done: to be called every few milliseconds.
    pub(super) fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
}

struct StepPatience {
    since: Instant,
    seen: u64,
}

impl StepPatience {
    /// Whether nothing has been done for too long.
    fn is_over(&mut self, steps: u64, now: Instant) -> bool {
        if steps != self.seen {
            *self = StepPatience { since: now, seen: steps };
        }
        now.duration_since(self.since) > PATIENCE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_when_nothing_is_done_however_long_that_took_before() {
        let since = Instant::now();
        let mut patience = StepPatience { since, seen: 3 };
        for (ms, steps, want) in [
            (40, 3, false),
            (80, 4, false),
            (120, 5, false),
            (170, 5, false),
            (171, 5, true),
            (172, 6, false),
        ] {
            let now = since + Duration::from_millis(ms);
            assert_eq!(patience.is_over(steps, now), want, "after {ms} ms and {steps} steps");
        }
    }

    #[test]
    fn a_lock_that_is_held_for_ever_is_not_waited_for() {
        let lock = SteppedLock::new(7);
        let held = lock.lock();
        assert!(lock.lock_soon().is_none());
        drop(held);
        assert_eq!(lock.lock_soon().as_deref(), Some(&7));
    }
}
