//! Large blocks of page-locked memory: mapped and brought in by us, then registered with the driver.
//!
//! The driver brings in the pages of what it makes itself one after the other, small ones; to register pages
//! that are there takes it a tenth of that. Copies of either are equally fast. Small blocks are the driver's.

use crate::{cuda::driver::Current, os::prefault::PrefaultedPages};
use ferry_core::{
    Result,
    sync::{Mutex, lock},
};
use std::{collections::HashMap, mem};

/// Blocks of this size on: less takes the driver a few milliseconds at most, and is often part of what a
/// forked child may look at.
const MAPPED_FROM: usize = 16 << 20;

/// Such memory, by its first address.
#[derive(Default)]
pub struct MappedPinned(Mutex<HashMap<usize, PrefaultedPages>>);

impl MappedPinned {
    /// Memory of `len` bytes, in one registration: the driver refuses copies that run from one into another.
    /// `None` where that is better left to the driver: of little, where devices would have other addresses
    /// for it, and where the system or the driver refuses any of it, which may say why when it is asked.
    pub fn make(&self, current: &Current<'_>, len: usize) -> Option<usize> {
        if len < MAPPED_FROM || !current.shares_host_addresses() {
            return None;
        }
        let pages = PrefaultedPages::make(c"ferry:page-locked", len)?;
        let start = pages.addr();
        current.pin(start, len).ok()?;
        lock(&self.0).insert(start, pages);
        Some(start)
    }

    /// Gives back what starts at `start`, if it was made here.
    ///
    /// # Safety
    /// No device uses it any more.
    pub unsafe fn free(&self, current: &Current<'_>, start: usize) -> Option<Result<()>> {
        if !lock(&self.0).contains_key(&start) {
            return None;
        }
        // SAFETY: registered by `make`, and the caller's promise.
        let freed = unsafe { current.unpin(start) };
        // Dropped when the lock is free again: it takes its time.
        let pages = if freed.is_ok() { lock(&self.0).remove(&start) } else { None };
        drop(pages);
        Some(freed)
    }
}

impl Drop for MappedPinned {
    /// What the user has not freed stays where it is, as the driver's own memory does.
    fn drop(&mut self) {
        mem::take(&mut *lock(&self.0)).into_values().for_each(PrefaultedPages::leak);
    }
}
