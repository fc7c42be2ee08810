//! Forwarding of signals to the program that `ferry run` started.
//!
//! The signals are blocked and taken one by one, so there are no handlers. A signal from the keyboard reaches
//! the program by itself, because it is in the same group; only those that were sent to this process alone
//! are forwarded.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The signals that are forwarded. Stopping and continuing are left to the terminal, which signals the whole
/// group.
const FORWARDED: [(i32, &str); 7] = [
    (libc::SIGHUP, "SIGHUP"),
    (libc::SIGINT, "SIGINT"),
    (libc::SIGQUIT, "SIGQUIT"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGUSR1, "SIGUSR1"),
    (libc::SIGUSR2, "SIGUSR2"),
    (libc::SIGWINCH, "SIGWINCH"),
];

/// Those by which a user or a system asks a program to end.
pub const ENDING: [i32; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];

/// The other signals that end programs.
const DEADLY: [(i32, &str); 9] = [
    (libc::SIGILL, "SIGILL"),
    (libc::SIGTRAP, "SIGTRAP"),
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGPIPE, "SIGPIPE"),
    (libc::SIGALRM, "SIGALRM"),
];

/// What was blocked before this command blocked anything: programs start with that, one after the other.
static FIRST_MASK: OnceLock<libc::sigset_t> = OnceLock::new();

/// The blocked signals, and the mask as it was before.
#[derive(Clone, Copy)]
pub struct Signals {
    ours: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks the signals that are passed on, and SIGCHLD, which says that the program ended.
    pub fn block() -> Signals {
        let (mut ours, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: `sigemptyset` initialises the set, `sigaddset` and `pthread_sigmask` then use it; all three
        // fail only on bad arguments, and these are constants.
        unsafe {
            libc::sigemptyset(ours.as_mut_ptr());
            for signal in FORWARDED.iter().map(|(signal, _)| *signal).chain([libc::SIGCHLD]) {
                libc::sigaddset(ours.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, ours.as_ptr(), before.as_mut_ptr());
        }
        // SAFETY: both were initialised just above.
        let (ours, before) = unsafe { (ours.assume_init(), before.assume_init()) };
        Signals { ours, before: *FIRST_MASK.get_or_init(|| before) }
    }

    /// Gives the calling process the mask from before the first `block`.
    pub fn restore(&self) -> std::io::Result<()> {
        // SAFETY: `before` is an initialised set; the old mask is not asked for.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(std::io::Error::from_raw_os_error(error)),
        }
    }

    /// Waits for the next signal and forwards it to `process` if it was sent to this process alone. Says
    /// which it was, unless `process` has ended.
    pub fn pass_next_to(&self, process: u32) -> Option<i32> {
        let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
        // SAFETY: `ours` is an initialised set and `info` has room for the answer.
        let signal = unsafe { libc::sigwaitinfo(&self.ours, info.as_mut_ptr()) };
        if signal <= 0 || signal == libc::SIGCHLD {
            return None;
        }
        // SAFETY: sigwaitinfo returned a signal, so it has filled `info`.
        let from_the_terminal = unsafe { info.assume_init() }.si_code == libc::SI_KERNEL;
        if !from_the_terminal {
            // SAFETY: `process` is our child and not yet waited for, so the number is still its own.
            unsafe { libc::kill(process as libc::pid_t, signal) };
        }
        Some(signal)
    }

    /// Whether this process was sent the signal and has not taken it yet.
    pub fn is_pending(signal: i32) -> bool {
        let mut pending = MaybeUninit::uninit();
        // SAFETY: there is room for a set, which is initialised where the call has succeeded.
        unsafe {
            libc::sigpending(pending.as_mut_ptr()) == 0 && libc::sigismember(pending.as_ptr(), signal) == 1
        }
    }
}

/// The signal's name, for those a program is likely to die of.
pub fn name(signal: i32) -> Option<&'static str> {
    FORWARDED.iter().chain(&DEADLY).find(|(number, _)| *number == signal).map(|(_, name)| *name)
}
