//! The sizes of pages of memory: that of this machine, and the smallest of any machine; and reading memory
//! that may not be there.

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

/// Reads memory of this process up to where there is none, and says how many bytes.
pub fn read_up_to(at: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: it writes `to` and nothing else, whatever lies at the other address.
    let moved = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(moved).unwrap_or(0)
}
