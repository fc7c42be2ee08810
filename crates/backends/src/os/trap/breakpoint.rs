//! A breakpoint of the processor for one thread (perf_event_open), which sends SIGTRAP and interrupts no
//! system call.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
};

const TYPE_BREAKPOINT: u64 = 5;
const ON_EXECUTION: u64 = 4;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SEND_SIGTRAP: u64 = 1 << 37;
const CLOSE_ON_EXEC: u64 = 1 << 3;
const IOCTL_DISABLE: u64 = 0x2401;
/// What `si_code` of its signals is.
const TRAP_PERF: i32 = 6;

/// Opens one at the instruction `pc`. Its signals carry `mark`.
pub fn open(thread: i32, pc: u64, mark: u64) -> io::Result<OwnedFd> {
    // The kernel's `struct perf_event_attr` in words.
    let mut about = [0_u64; 16];
    about[0] = TYPE_BREAKPOINT | (size_of_val(&about) as u64) << 32;
    about[2] = 1; // every time
    about[5] = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC | SEND_SIGTRAP;
    about[6] = ON_EXECUTION << 32;
    (about[7], about[8]) = (pc, size_of::<usize>() as u64);
    about[15] = mark;
    // SAFETY: the layout is the kernel's, and it is read only.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, about.as_ptr(), thread, -1, -1, CLOSE_ON_EXEC) };
    match fd {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the call just returned this descriptor, which has no other owner.
        _ => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

/// Whether the signal is of a breakpoint with this mark.
///
/// # Safety
/// `info` is the kernel's.
pub unsafe fn has_sent(info: *const libc::siginfo_t, mark: u64) -> bool {
    /// Where the kernel puts the word that a breakpoint was opened with.
    const DATA_WORD: usize = 3;
    // SAFETY: the kernel's, which has so many words.
    let (code, data) = unsafe { ((*info).si_code, *info.cast::<u64>().add(DATA_WORD)) };
    code == TRAP_PERF && data == mark
}

/// No more signals come. Only a system call is made.
pub fn disable(descriptor: i32) {
    // SAFETY: asks a descriptor to stop; another one that the program has put in its place refuses.
    unsafe { libc::ioctl(descriptor, IOCTL_DISABLE as _, 0) };
}
