//! Memory that is mapped twice, across a fork: the child gets bytes of its own, as it has of private memory.
//!
//! Both views are shared memory, so that a child would write into its parent's. Before a fork the bytes are
//! copied into private memory, which the child moves over its view; the parent drops the copy.

use crate::os::page::page_size;
use std::{ffi::c_void, ops::Range, ptr};

/// A private copy of the bytes of a view.
pub struct Snapshot {
    copy: *mut u8,
    user: Range<usize>,
}

// SAFETY: the copy is memory of this value's alone.
unsafe impl Send for Snapshot {}

impl Snapshot {
    /// Copies whole pages, given by the program's view and the engine's address of them; `None` without
    /// memory for it.
    pub fn take(user: Range<usize>, at: usize) -> Option<Snapshot> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let mut present = vec![0_u8; user.len() / page_size()];
        // SAFETY: a new mapping at an address of the system's choice.
        let copy = unsafe { libc::mmap(ptr::null_mut(), user.len(), access, flags, -1, 0) };
        if copy == libc::MAP_FAILED {
            return None;
        }
        let snapshot = Snapshot { copy: copy.cast(), user };
        // SAFETY: the engine's view is mapped, and the list has a byte for each of its pages.
        unsafe { libc::mincore(at as *mut c_void, snapshot.user.len(), present.as_mut_ptr()) };
        for (page, _) in present.iter().enumerate().filter(|(_, state)| **state & 1 == 1) {
            let offset = page * page_size();
            // SAFETY: a page of the engine's view, and one of the copy.
            unsafe {
                ptr::copy_nonoverlapping((at + offset) as *const u8, snapshot.copy.add(offset), page_size());
            }
        }
        Some(snapshot)
    }

    /// In a forked child: the view has the copy from here on. Only a system call is made.
    pub fn lay_over_view(self) {
        let (flags, to) = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, self.user.start as *mut c_void);
        // SAFETY: the copy is moved over the view, which is not used by an engine in this process.
        unsafe { libc::mremap(self.copy.cast(), self.user.len(), self.user.len(), flags, to) };
        std::mem::forget(self);
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        // SAFETY: made by `take`, and nothing refers to it any more.
        unsafe { libc::munmap(self.copy.cast(), self.user.len()) };
    }
}

/// Has these functions be called around each fork by the C library.
pub fn at_fork(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) -> bool {
    // SAFETY: they are there until the process ends: the library is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) == 0 }
}
