//! Workers that sleep, and which of them is woken.
//!
//! Linux wakes a thread on the CPU where it ran last, if the others seem busy enough: with two CPUs, of which
//! the waker uses one, that is often the waker's own. The worker then runs in place of the thread that is
//! about to submit more, while another CPU has nothing to do. So each worker says where it ran last, and one
//! that was elsewhere is woken first.

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
    /// The worker is about to sleep, on this CPU.
    pub fn add(&mut self, sleeper: &Arc<Sleeper>, cpu: usize) {
        sleeper.cpu.store(cpu, Ordering::Relaxed);
        self.0.push(sleeper.clone());
    }

    /// The worker is awake. Returns whether nobody has taken it out to wake it.
    pub fn remove(&mut self, sleeper: &Arc<Sleeper>) -> bool {
        let index = self.0.iter().position(|other| Arc::ptr_eq(other, sleeper));
        index.map(|index| self.0.remove(index)).is_some()
    }

    /// Takes one out to be woken by a thread on this CPU: the one that fell asleep last on another one, if
    /// there is one.
    pub fn take(&mut self, cpu: usize) -> Option<Arc<Sleeper>> {
        let elsewhere = self.0.iter().rposition(|sleeper| sleeper.cpu.load(Ordering::Relaxed) != cpu);
        elsewhere.map(|index| self.0.remove(index)).or_else(|| self.0.pop())
    }

    /// How many there are.
    #[cfg(all(test, not(loom)))]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Wakes them all.
    pub fn wake_all(&mut self) {
        self.0.drain(..).for_each(|sleeper| sleeper.wake());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_that_ran_elsewhere_is_woken_first_and_the_latest_of_those() {
        let workers: Vec<_> = (0..4).map(|_| Sleeper::new()).collect();
        let mut sleepers = Sleepers::default();
        for (worker, cpu) in workers.iter().zip([0, 1, 1, 0]) {
            sleepers.add(worker, cpu);
        }
        let mut woken = |cpu| {
            let taken = sleepers.take(cpu)?;
            workers.iter().position(|worker| Arc::ptr_eq(worker, &taken))
        };
        assert_eq!(
            [woken(0), woken(0), woken(0), woken(0), woken(0)],
            [Some(2), Some(1), Some(3), Some(0), None]
        );
    }

    #[test]
    fn one_that_was_taken_is_told_from_one_whose_time_is_over() {
        let (one, other) = (Sleeper::new(), Sleeper::new());
        let mut sleepers = Sleepers::default();
        sleepers.add(&one, 0);
        sleepers.add(&other, 0);
        assert!(sleepers.remove(&one) && !sleepers.remove(&one));
        assert!(sleepers.take(0).is_some() && !sleepers.remove(&other));
    }
}
