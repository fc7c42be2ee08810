//! Threads of the backends, inside a process that is somebody else's.

use std::io;

/// Users' functions get what a main thread usually has.
pub const CALL_STACK: usize = 8 << 20;

/// Starts a thread that takes none of the signals sent to the process: those belong to the user's threads. Faults of its own
/// code stay its own.
#[cfg(not(loom))]
pub fn spawn(name: String, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    without_signals(|| std::thread::Builder::new().name(name).stack_size(stack).spawn(body)).map(drop)
}

/// In a model there are no threads but its own: whoever wants one has to do without.
#[cfg(loom)]
pub fn spawn(_: String, _: usize, _: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Runs `start`; threads that it starts take none of the signals sent to the process.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    const OWN: [i32; 7] =
        [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT, libc::SIGSYS];
    // SAFETY: plain data, filled before use; the old mask is put back below.
    let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets are valid for the calls.
    unsafe {
        let mut outside: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut outside);
        OWN.iter().for_each(|signal| {
            libc::sigdelset(&mut outside, *signal);
        });
        libc::pthread_sigmask(libc::SIG_SETMASK, &outside, &mut old);
    }
    let started = start();
    // SAFETY: the mask that this thread had before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, std::ptr::null_mut()) };
    started
}
