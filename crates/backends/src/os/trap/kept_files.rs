//! The kernel's files that say where threads are, kept open: a process that changes its user cannot open its
//! own ones afterwards, but may read those that it has.
//!
//! They are kept of threads that were there when the watch began, and of those that submit work. A thread
//! that was made after the change, and submits none before, has no such file.

use super::numbers;
use crate::os::files::Kept;
use std::{
    cell::Cell,
    fs::File,
    io,
    os::fd::AsRawFd,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// Of so many threads at most, the first.
const MOST: usize = 64;

/// Threads, by their numbers in /proc, and their files. The monitor reads them: there is no lock, and
/// nothing in memory that the program could have registered.
static KEPT: [OnceLock<(i32, Kept)>; MOST] = [const { OnceLock::new() }; MOST];
/// Whether a thread's file could not be opened, and was not kept.
static IS_HIDDEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_KEPT: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the file of the calling thread, if the process could change its user.
#[inline]
pub fn keep_here() {
    if IS_KEPT.try_with(|kept| !kept.replace(true)).unwrap_or(false) {
        // SAFETY: it only asks.
        numbers::in_proc(unsafe { libc::gettid() }).into_iter().for_each(keep);
    }
}

/// Keeps the files of all threads.
pub(super) fn keep_all() {
    numbers::threads().for_each(|(number, _)| keep(number));
}

#[cold]
fn keep(thread: i32) {
    if !may_change_user() {
        return;
    }
    let path = format!("/proc/self/task/{thread}/syscall");
    let Ok(file) = Kept::open(|| File::open(path)) else { return };
    let mut entry = (thread, file);
    for slot in &KEPT {
        match slot.set(entry) {
            Ok(()) => return,
            Err(refused) => entry = refused,
        }
    }
}

/// Whether another user is one call away, as it is for root and for programs that run as their owner.
fn may_change_user() -> bool {
    let [mut real, mut effective, mut saved] = [0; 3];
    // SAFETY: writes three numbers.
    unsafe { libc::getresuid(&mut real, &mut effective, &mut saved) };
    [real, effective, saved].contains(&0) || real != effective || effective != saved
}

/// The text of a thread's file that could not be opened, for that reason; how long it is.
pub(super) fn read(thread: i32, why: &io::Error, to: &mut [u8]) -> Option<usize> {
    if why.kind() != io::ErrorKind::PermissionDenied {
        return None;
    }
    // The number of a thread that has ended may be that of another one: of the former nothing can be read.
    let of_thread = KEPT.iter().filter_map(OnceLock::get).filter(|(kept, _)| *kept == thread);
    let got = of_thread.filter_map(|(_, file)| read_kept(file, to).ok()).next();
    if got.is_none() {
        IS_HIDDEN.store(true, Ordering::Relaxed);
    }
    got
}

/// Whether the kernel has hidden where some thread is, since the process has changed its user.
pub fn is_hidden() -> bool {
    IS_HIDDEN.load(Ordering::Relaxed)
}

fn read_kept(file: &Kept, to: &mut [u8]) -> io::Result<usize> {
    let fd = file.get()?;
    // SAFETY: the bytes are there for the call.
    let got = unsafe { libc::pread(fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len(), 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}
