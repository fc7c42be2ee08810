//! Pages that are open for a system call are armed again when it returns: a breakpoint of the processor
//! stands at the instruction behind the call, for that one thread.
//!
//! A thread inside a system call cannot be stepped, and a signal would interrupt the call. The kernel's
//! breakpoints (perf_event_open) interrupt nothing: SIGTRAP comes when the thread is back in the program.
//! Where there are none (another processor, a sandbox, four others in use), pages stay open.
//!
//! The monitor opens and closes breakpoints; the handler of SIGTRAP makes system calls and uses atomics.

use super::{
    place::{self, ThreadPlace},
    uffd::take_out,
};
use crate::os::{files::Kept, page::page_size};
use std::{
    io,
    ops::Range,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
};

/// Threads that can be inside such calls at the same time.
const THREADS: usize = 64;
/// Ranges of pages that one call may touch: more stay open.
const RANGES: usize = 8;

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

/// A call that has pages open.
struct OpenCall {
    /// The thread; 0 if the entry is free.
    thread: AtomicI32,
    /// The breakpoint; -1 for none.
    breakpoint: AtomicI32,
    /// Who changes the ranges or arms them has this.
    is_locked: AtomicBool,
    ranges: [[AtomicUsize; 2]; RANGES],
}

static CALLS: [OpenCall; THREADS] = [const { OpenCall::new() }; THREADS];

/// The breakpoints of the entries, of which each is closed when its entry is taken again.
static BREAKPOINTS: Mutex<[Option<(Kept, u64)>; THREADS]> = Mutex::new([const { None }; THREADS]);

/// Has this page armed when the thread has left the call that it is in. Called by the monitor. False if that
/// cannot be, and then nothing has changed. The page is of a view that is not unmapped before [`leave`]: to
/// arm memory of somebody else's would lose its bytes.
pub fn arm_behind(thread: i32, place: ThreadPlace, page: usize) -> bool {
    let mut breakpoints = BREAKPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(number) = entry_of(thread) else { return false };
    let call = &CALLS[number];
    let stands = breakpoints[number].as_ref().filter(|(file, pc)| *pc == place.pc && file.is_ours());
    let is_there = stands.is_some() && call.breakpoint.load(Ordering::SeqCst) >= 0;
    if !is_there {
        // The thread has left another call by a jump, or the entry is new.
        call.arm();
        breakpoints[number] = None;
    }
    if !call.add(page) {
        return !is_there && call.release();
    }
    if is_there {
        return true;
    }
    match Kept::open(|| open_breakpoint(thread, place.pc)) {
        Ok(file) => {
            let fd = file.get().map_or(-1, |file| file.as_raw_fd());
            call.breakpoint.store(fd, Ordering::SeqCst);
            breakpoints[number] = Some((file, place.pc));
            true
        }
        Err(_) => call.release(),
    }
}

/// The entry of a thread, or one that is free.
fn entry_of(thread: i32) -> Option<usize> {
    let owner = |call: &OpenCall| call.thread.load(Ordering::SeqCst);
    CALLS.iter().position(|call| owner(call) == thread).or_else(|| {
        let is_gone = |call: &OpenCall| owner(call) != 0 && !place::is_ours(owner(call));
        for gone in CALLS.iter().filter(|call| is_gone(call)) {
            gone.arm();
            gone.release();
        }
        let free = CALLS.iter().position(|call| owner(call) == 0)?;
        CALLS[free].thread.store(thread, Ordering::SeqCst);
        Some(free)
    })
}

/// These pages are somebody else's from now on: they are not armed any more.
pub fn leave(range: &Range<usize>) {
    CALLS.iter().for_each(|call| call.leave(range));
}

/// SIGTRAP came. Says whether it was for the end of a call; the pages that were open for it are armed then.
///
/// # Safety
/// `info` is the kernel's.
pub unsafe fn has_ended(info: *const libc::siginfo_t) -> bool {
    /// Where the kernel puts the word that a breakpoint was opened with.
    const DATA_WORD: usize = 3;
    // SAFETY: the kernel's, which has so many words.
    let (code, data) = unsafe { ((*info).si_code, *info.cast::<u64>().add(DATA_WORD)) };
    if code != TRAP_PERF || data != mark() {
        return false;
    }
    // SAFETY: asks for a number.
    let me = unsafe { libc::gettid() };
    if let Some(call) = CALLS.iter().find(|call| call.thread.load(Ordering::SeqCst) == me) {
        // SAFETY: asks a descriptor to stop; another one that the program has put in its place refuses.
        unsafe { libc::ioctl(call.breakpoint.swap(-1, Ordering::SeqCst), IOCTL_DISABLE as _, 0) };
        call.arm();
        call.release();
    }
    true
}

impl OpenCall {
    /// A free entry.
    const fn new() -> OpenCall {
        OpenCall {
            thread: AtomicI32::new(0),
            breakpoint: AtomicI32::new(-1),
            is_locked: AtomicBool::new(false),
            ranges: [const { [const { AtomicUsize::new(0) }; 2] }; RANGES],
        }
    }

    /// With the lock, which is held for some system calls at most.
    fn locked<T>(&self, then: impl FnOnce() -> T) -> T {
        while self.is_locked.swap(true, Ordering::Acquire) {
            // SAFETY: lets another thread run.
            unsafe { libc::sched_yield() };
        }
        let result = then();
        self.is_locked.store(false, Ordering::Release);
        result
    }

    /// Adds a page. False if there is no room.
    fn add(&self, page: usize) -> bool {
        self.locked(|| {
            let fits = |[start, end]: &&[AtomicUsize; 2]| {
                let (start, end) = (start.load(Ordering::SeqCst), end.load(Ordering::SeqCst));
                end <= start || end == page || (start..end).contains(&page)
            };
            let Some([start, end]) = self.ranges.iter().find(fits) else { return false };
            if end.load(Ordering::SeqCst) <= start.load(Ordering::SeqCst) {
                start.store(page, Ordering::SeqCst);
            }
            end.fetch_max(page + page_size(), Ordering::SeqCst);
            true
        })
    }

    fn leave(&self, range: &Range<usize>) {
        self.locked(|| {
            for [start, end] in &self.ranges {
                if start.load(Ordering::SeqCst) < range.end && range.start < end.load(Ordering::SeqCst) {
                    end.store(0, Ordering::SeqCst);
                }
            }
        });
    }

    /// Arms the pages.
    fn arm(&self) {
        self.locked(|| {
            for [start, end] in &self.ranges {
                let range = start.load(Ordering::SeqCst)..end.swap(0, Ordering::SeqCst);
                if !range.is_empty() {
                    take_out(&range);
                }
            }
        });
    }

    /// The entry is free. Always false.
    fn release(&self) -> bool {
        self.breakpoint.store(-1, Ordering::SeqCst);
        self.thread.store(0, Ordering::SeqCst);
        false
    }
}

/// A word that no other breakpoint has.
fn mark() -> u64 {
    (&raw const CALLS).addr() as u64
}

/// A breakpoint of one thread, which sends SIGTRAP.
fn open_breakpoint(thread: i32, pc: u64) -> io::Result<OwnedFd> {
    // The kernel's `struct perf_event_attr` in words.
    let mut about = [0_u64; 16];
    about[0] = TYPE_BREAKPOINT | (size_of_val(&about) as u64) << 32;
    about[2] = 1; // every time
    about[5] = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | REMOVE_ON_EXEC | SEND_SIGTRAP;
    about[6] = ON_EXECUTION << 32;
    (about[7], about[8]) = (pc, size_of::<usize>() as u64);
    about[15] = mark();
    // SAFETY: the layout is the kernel's, and it is read only.
    let fd =
        unsafe { libc::syscall(libc::SYS_perf_event_open, about.as_ptr(), thread, -1, -1, CLOSE_ON_EXEC) };
    match fd {
        ..0 => Err(io::Error::last_os_error()),
        // SAFETY: the call just returned this descriptor, which has no other owner.
        _ => Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pages_are_armed_unless_they_were_left() {
        let page = page_size();
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address of the system's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 8 * page, access, flags, -1, 0) }.addr();
        let first = |number: usize| (at + number * page) as *mut u8;
        // SAFETY: pages of the mapping.
        (0..8).for_each(|number| unsafe { first(number).write(1) });
        let call = OpenCall::new();
        assert!([0, 1, 1, 3, 5].into_iter().all(|number| call.add(at + number * page)));
        call.leave(&(at + 3 * page..at + 4 * page));
        // Armed memory without a file loses its bytes: the kernel makes new pages.
        call.arm();
        // SAFETY: as above.
        let left = [0, 1, 2, 3, 4, 5].map(|number| unsafe { first(number).read() });
        assert_eq!(left, [0, 0, 1, 1, 1, 0]);
        assert!((0..RANGES).all(|number| call.add(at + 2 * number * page)));
        assert!(!call.add(at + 2 * RANGES * page), "no room");
        // SAFETY: the mapping from above, which nobody uses any more.
        unsafe { libc::munmap(at as *mut libc::c_void, 8 * page) };
    }
}
