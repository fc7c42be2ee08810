//! Locks of parts of a file that belong to an open file (OFD locks), not to a process or a descriptor.
//!
//! A lock lives as long as the open file does, and a mapping keeps that open: so a lock that was taken by an
//! open file which is only mapped, in a process whose forked children do not inherit the mapping, tells that
//! the process lives and has not become another program.

use std::{
    mem::zeroed,
    os::fd::{AsRawFd, BorrowedFd},
};

/// Locks `len` bytes at `start`, which need not exist, for as long as the open file lives. False if another
/// open file has locked some of them.
pub fn lock_part(file: BorrowedFd, start: u64, len: u64) -> bool {
    let lock = part(start, len);
    // SAFETY: the descriptor is open, and the lock is valid for the call.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &lock) == 0 }
}

/// Whether another open file has locked some of `len` bytes at `start`. True if the system does not tell.
pub fn is_part_locked(file: BorrowedFd, start: u64, len: u64) -> bool {
    let mut lock = part(start, len);
    // SAFETY: the descriptor is open, and the lock is valid for the call, which writes to it.
    let known = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &mut lock) == 0 };
    !known || lock.l_type != libc::F_UNLCK as libc::c_short
}

fn part(start: u64, len: u64) -> libc::flock {
    // SAFETY: plain data.
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (start as libc::off_t, len as libc::off_t);
    lock
}
