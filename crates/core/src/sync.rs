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

/// Padded and aligned against false sharing: the value shares no cache line with its neighbours, one of which
/// is written often by one thread while another thread reads the other. Two lines of 64 bytes, since CPUs
/// prefetch them in pairs.
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

/// Locks, and ignores poisoning: every value behind our locks is consistent between two statements, so that a
/// panic of another thread while it held the lock leaves nothing half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
