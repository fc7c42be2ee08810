//! The one place where the engine's synchronisation primitives come from: `std`, or loom's checked twins when
//! the model checker drives the queue (`--cfg loom`). `Arc` stays `std`'s, since loom's cannot hold trait
//! objects.

use std::ops::Deref;
pub use std::sync::{Arc, Weak};

#[cfg(loom)]
pub use loom::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

#[cfg(not(loom))]
pub use std::{
    hint::spin_loop,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
};

/// Shares no cache line with its neighbours: one thread writes it again and again while others look at those,
/// or the other way round, and each would have to wait for the line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Locks, and goes on with the value if another thread panicked while it held the lock: every value behind
/// our locks is whole between two statements, so there is nothing to fear from a poisoned one.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
