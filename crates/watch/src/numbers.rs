//! The numbers of this process and its threads as /proc has them: what the reader of facts knows them by. In
//! a PID namespace of its own, with the /proc of the reader's, a process calls itself otherwise.

use std::{
    fs,
    path::Path,
    process,
    sync::atomic::{AtomicBool, Ordering},
};

/// Whether the process is called otherwise in /proc.
static IS_NESTED: AtomicBool = AtomicBool::new(false);

/// The number of this process.
pub(crate) fn process() -> u32 {
    let number = number_of(Path::new("/proc/self")).unwrap_or_else(process::id);
    IS_NESTED.store(number != process::id(), Ordering::Relaxed);
    number
}

/// The number of the calling thread.
pub(crate) fn thread() -> u32 {
    let in_proc = || number_of(Path::new("/proc/thread-self"));
    let nested = if IS_NESTED.load(Ordering::Relaxed) { in_proc() } else { None };
    // SAFETY: it only asks.
    nested.unwrap_or_else(|| unsafe { libc::syscall(libc::SYS_gettid) } as u32)
}

/// The last part of what a link of /proc says.
fn number_of(link: &Path) -> Option<u32> {
    fs::read_link(link).ok()?.file_name()?.to_str()?.parse().ok()
}

/// Whether there is a process of this number.
pub(crate) fn has_process(number: u32) -> bool {
    // SAFETY: asks whether there is such a process. One of another user is refused.
    let is_here = unsafe { libc::kill(number as i32, 0) == 0 }
        || std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM);
    is_here || Path::new(&format!("/proc/{number}")).exists()
}
