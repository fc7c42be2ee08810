//! The one place where the engine's synchronisation primitives come from: `std`, or loom's checked twins when the model
//! checker drives the queue (`--cfg loom`). `Arc` stays `std`'s, since loom's cannot hold trait objects.

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

/// Locks, and goes on with the value if another thread panicked while it held the lock: every value behind our locks is
/// whole between two statements, so there is nothing to fear from a poisoned one.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.lock() {
        Ok(guard) => guard,
        Err(poisoned) => poisoned.into_inner(),
    }
}
