//! The size of a page of memory.

use std::sync::OnceLock;

/// The size of a page of this machine.
pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: sysconf has no preconditions.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096))
}
