//! Workers that sleep, and which of them is woken.
//!
//! Linux wakes a thread on the CPU where it ran last, if the others seem busy enough: with two CPUs, of which
//! the waker uses one, that is often the waker's own. The worker then runs in place of the thread that is
//! about to submit more, while another CPU has nothing to do. So each worker says where it ran last, and one
//! that was elsewhere is woken first.

use crate::os::threads::current_cpu;
use ferry_core::sync::{Arc, AtomicUsize, Condvar, MutexGuard, Ordering};
use std::time::Duration;

/// A worker, as those that wake it know it.
pub struct Sleeper {
    wake: Condvar,
    /// Where it ran when it went to sleep.
    cpu: AtomicUsize,
}

/// Those that sleep and that nobody has woken, in the order in which they went to sleep.
#[derive(Default)]
pub struct Sleepers(Vec<Arc<Sleeper>>);

impl Sleeper {
    /// A worker that is awake.
    pub fn new() -> Arc<Sleeper> {
        Arc::new(Sleeper { wake: Condvar::new(), cpu: AtomicUsize::new(0) })
    }

    /// Wakes it. Whoever does has taken it out of [`Sleepers`] before.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Sleeps until it is woken, or for so long: then it returns true.
    pub fn sleep<'a, T>(&self, guard: MutexGuard<'a, T>, limit: Duration) -> (MutexGuard<'a, T>, bool) {
        // In a model there is no time.
        if cfg!(loom) {
            return (self.wake.wait(guard).unwrap_or_else(|poisoned| poisoned.into_inner()), false);
        }
        let waited = self.wake.wait_timeout(guard, limit);
        let (guard, time) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        (guard, time.timed_out())
    }
}

impl Sleepers {
    /// The worker is about to sleep.
    pub fn add(&mut self, sleeper: &Arc<Sleeper>) {
        sleeper.cpu.store(current_cpu(), Ordering::Relaxed);
        self.0.push(sleeper.clone());
    }

    /// The worker is awake. Returns whether nobody has taken it out to wake it.
    pub fn remove(&mut self, sleeper: &Arc<Sleeper>) -> bool {
        let index = self.0.iter().position(|other| Arc::ptr_eq(other, sleeper));
        index.map(|index| self.0.remove(index)).is_some()
    }

    /// Takes one out to be woken: the one that fell asleep last on another CPU than the caller's, if there is
    /// one.
    pub fn take(&mut self) -> Option<Arc<Sleeper>> {
        let here = current_cpu();
        let elsewhere = self.0.iter().rposition(|sleeper| sleeper.cpu.load(Ordering::Relaxed) != here);
        match elsewhere {
            Some(index) => Some(self.0.remove(index)),
            None => self.0.pop(),
        }
    }

    /// Wakes them all.
    pub fn wake_all(&mut self) {
        self.0.drain(..).for_each(|sleeper| sleeper.wake());
    }
}
