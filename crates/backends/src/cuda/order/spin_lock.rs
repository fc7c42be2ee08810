//! A spin lock, for a few instructions at a time: half the price of a mutex where it is not contended. The
//! model checker has a mutex in its place, since it cannot follow threads that spin.

#![cfg_attr(loom, allow(dead_code))]

use ferry_core::sync::{AtomicBool, Ordering, spin_loop};
use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    thread,
};

/// Spins before other threads may run.
const SPINS_PER_YIELD: u32 = 100;

/// A value behind a spin lock. Code that holds it does nothing that could block.
#[derive(Default)]
pub struct SpinLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

/// While this lives its owner has the value.
pub struct SpinGuard<'a, T>(&'a SpinLock<T>);

// SAFETY: one thread at a time gets at the value.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    pub fn new(value: T) -> Self {
        SpinLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub fn lock(&self) -> SpinGuard<'_, T> {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        SpinGuard(self)
    }

    #[cold]
    fn wait(&self) {
        let mut spins = 0;
        while self.held.swap(true, Ordering::Acquire) {
            spins += 1;
            if spins % SPINS_PER_YIELD == 0 {
                thread::yield_now();
            }
            spin_loop();
        }
    }
}

#[cfg(loom)]
pub type Lock<T> = ferry_core::sync::Mutex<T>;
#[cfg(not(loom))]
pub type Lock<T> = SpinLock<T>;

/// Locks it.
#[cfg(loom)]
pub fn acquire<T>(lock: &Lock<T>) -> ferry_core::sync::MutexGuard<'_, T> {
    ferry_core::sync::lock(lock)
}

/// Locks it.
#[cfg(not(loom))]
#[inline]
pub fn acquire<T>(lock: &Lock<T>) -> SpinGuard<'_, T> {
    lock.lock()
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `lock` let one thread in, and this is its guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn one_thread_at_a_time_gets_in() {
        let value = Arc::new(SpinLock::new((0_u64, 0_u64)));
        let count = |value: Arc<SpinLock<(u64, u64)>>| {
            move || {
                for _ in 0..20_000 {
                    let (first, second) = &mut *value.lock();
                    *first += 1;
                    *second += 1;
                    assert_eq!(first, second);
                }
            }
        };
        let threads: Vec<_> = (0..3).map(|_| thread::spawn(count(value.clone()))).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("counted"));
        assert_eq!(*value.lock(), (60_000, 60_000));
    }
}
