//! A lock for a few instructions at a time: half the price of a mutex where nobody else wants it. The model checker has a mutex
//! in its place, since it cannot follow threads that look again and again.

#![cfg_attr(loom, allow(dead_code))]

use ferry_core::sync::{AtomicBool, Ordering, spin_loop};
use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    thread,
};

/// Whoever waits looks so often before others may run.
const LOOKS: u32 = 100;

/// A value behind a lock. Whoever holds it does nothing that could wait.
#[derive(Default)]
pub struct Quick<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

/// While this lives, the value is its owner's.
pub struct Held<'a, T>(&'a Quick<T>);

// SAFETY: one thread at a time gets at the value.
unsafe impl<T: Send> Sync for Quick<T> {}

impl<T> Quick<T> {
    pub fn new(value: T) -> Self {
        Quick { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    #[inline]
    pub fn lock(&self) -> Held<'_, T> {
        if self.held.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Held(self)
    }

    #[cold]
    fn wait(&self) {
        let mut looks = 0;
        while self.held.swap(true, Ordering::Acquire) {
            looks += 1;
            if looks % LOOKS == 0 {
                thread::yield_now();
            }
            spin_loop();
        }
    }
}

#[cfg(loom)]
pub type Lock<T> = ferry_core::sync::Mutex<T>;
#[cfg(not(loom))]
pub type Lock<T> = Quick<T>;

/// Locks it.
#[cfg(loom)]
pub fn quickly<T>(lock: &Lock<T>) -> ferry_core::sync::MutexGuard<'_, T> {
    ferry_core::sync::lock(lock)
}

/// Locks it.
#[cfg(not(loom))]
#[inline]
pub fn quickly<T>(lock: &Lock<T>) -> Held<'_, T> {
    lock.lock()
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `lock` let one thread in, and this is its guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
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
        let value = Arc::new(Quick::new((0_u64, 0_u64)));
        let count = |value: Arc<Quick<(u64, u64)>>| {
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
