//! The sizes of pages of memory: that of this machine, and the smallest of any machine; bringing pages in;
//! and reading memory that may not be there.

use ferry_core::Access;
use std::{io, sync::OnceLock};

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

/// Brings pages in that will be accessed so, as far as they are not there. An error if some may not be, or
/// cannot be brought in. Linux can do so since 5.14.
pub fn populate(first: usize, len: usize, access: Access) -> io::Result<()> {
    const POPULATE_READ: i32 = 22;
    const POPULATE_WRITE: i32 = 23;
    let advice = if access == Access::Write { POPULATE_WRITE } else { POPULATE_READ };
    loop {
        // SAFETY: populating changes no byte; a range that is not ours to touch is refused by the kernel.
        if unsafe { libc::madvise(first as *mut libc::c_void, len, advice) } == 0 {
            return Ok(());
        }
        let why = io::Error::last_os_error();
        // The kernel was interrupted, or had no page just now.
        if !matches!(why.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) {
            return Err(why);
        }
    }
}

/// Reads memory of this process up to where there is none, and says how many bytes.
pub fn read_up_to(at: u64, to: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let remote = libc::iovec { iov_base: at as *mut libc::c_void, iov_len: to.len() };
    // SAFETY: it writes `to` and nothing else, whatever lies at the other address.
    let moved = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    usize::try_from(moved).unwrap_or(0)
}
