//! The sizes of pages of memory: that of this machine, and the smallest of any machine.

use std::sync::OnceLock;

/// The size of the smallest page of any machine: every page begins at a multiple of it.
pub const SMALLEST_PAGE: usize = 4096;

/// The size of a page of this machine.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| {
        // SAFETY: sysconf has no preconditions.
        usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(SMALLEST_PAGE)
    })
}
