//! Memory that this library takes from the driver for itself: lists of batches, staging buffers, doorbells.
//!
//! To the driver it is an allocation like those of other libraries in the process, and it may lie right
//! behind memory of the user's. So it is remembered here, and a caller's address that reaches into it is
//! refused instead of being taken for another library's.

use super::{context::Current, library::Driver};
use ferry_core::{Result, sync::lock};

impl Current<'_> {
    /// Pinned memory for this library, which every device can reach.
    pub fn own_pinned(&self, len: usize) -> Result<usize> {
        self.alloc_pinned(len).inspect(|at| lock(&self.driver().own).add(*at, len))
    }

    /// Memory of the GPU for this library.
    pub fn own_device(&self, len: usize) -> Result<usize> {
        self.alloc_device(len).inspect(|at| lock(&self.driver().own).add(*at, len))
    }

    /// Frees it. Where the driver refuses that, as at the end of the process, the result is dropped.
    ///
    /// # Safety
    /// `at` came from `own_pinned`, and nothing uses the memory any more.
    pub unsafe fn free_own_pinned(&self, at: usize) {
        lock(&self.driver().own).remove(at);
        // SAFETY: the caller's promise.
        let _ = unsafe { self.free_pinned(at) };
    }

    /// Frees it, like [`free_own_pinned`](Self::free_own_pinned).
    ///
    /// # Safety
    /// `at` came from `own_device`, and nothing uses the memory any more.
    pub unsafe fn free_own_device(&self, at: usize) {
        lock(&self.driver().own).remove(at);
        // SAFETY: the caller's promise.
        let _ = unsafe { self.free_device(at) };
    }
}

impl Driver {
    /// Whether the range, or its address if it is empty, reaches into memory of this library.
    pub fn is_own(&self, addr: usize, len: usize) -> bool {
        lock(&self.own).meets(addr, len)
    }
}
