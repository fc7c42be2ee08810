//! Starting threads of the backends inside a process that belongs to a program.
//!
//! They block all signals sent to the process: a handler of the user's must not run on them, and a thread
//! of the user's that waits for signals must get them. One that has had nothing to do for a while ends, so
//! that a process whose own threads have ended does, too; what happens until then: `threads/end.rs`.

pub mod cancel;
pub mod end;
#[cfg(not(loom))]
mod start;

#[cfg(not(loom))]
use cancel::Cancelling;
use std::{
    io,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Users' functions get what a main thread usually has.
pub const CALL_STACK: usize = 8 << 20;
/// A thread that has had nothing to do for this long ends.
pub const IDLE: Duration = Duration::from_secs(2);

/// How many threads of ours there are.
static OURS: AtomicUsize = AtomicUsize::new(0);

/// The CPU that the thread runs on, which may be another one by now.
pub fn current_cpu() -> usize {
    // SAFETY: it takes no arguments.
    let cpu = if cfg!(loom) { 0 } else { unsafe { libc::sched_getcpu() } };
    usize::try_from(cpu).unwrap_or(0)
}

/// Starts a thread that takes none of the signals sent to the process. Faults of its own code stay its own.
#[cfg(not(loom))]
pub fn spawn(name: String, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let body = move || {
        // By the thread itself: one that has not come so far is taken for a thread of the user's, which only
        // delays an end.
        let _one = One::of(&OURS);
        body();
    };
    without_signals(|| start::detached(&name, stack, Box::new(body)))
}

/// Runs `work` here and on up to `more` threads beside, as far as the system grants them, and returns when
/// all are through.
#[cfg(not(loom))]
pub fn together(name: &str, more: usize, work: &(dyn Fn() + Sync)) {
    let crew = start::JoinedThreads::default();
    for _ in 0..more {
        // SAFETY: it is the caller's, and the crew is gone when this returns.
        if !without_signals(|| unsafe { crew.join(name, work) }) {
            break;
        }
    }
    work();
}

/// The caller does it alone.
#[cfg(loom)]
pub fn together(_: &str, _: usize, work: &(dyn Fn() + Sync)) {
    work();
}

/// In a model of loom there are no threads but its own: none is granted.
#[cfg(loom)]
pub fn spawn(_: String, _: usize, _: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Counts for one as long as it lives.
pub struct One(&'static AtomicUsize);

impl One {
    fn of(count: &'static AtomicUsize) -> One {
        count.fetch_add(1, Ordering::SeqCst);
        One(count)
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Signals that a thread blocks.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// What the first thread had that started one of ours.
static FIRST: OnceLock<Mask> = OnceLock::new();

impl Mask {
    /// What a thread of ours blocks: all but the faults that a copy may meet, which our handler tells from
    /// signals that were sent (`fault/handler.rs`), and what a sandbox answers system calls with. Other
    /// faults end the process, blocked or not.
    fn ours() -> Mask {
        const OWN: [i32; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGSYS];
        let Mask(mut all) = Mask::all();
        OWN.iter().for_each(|signal| {
            // SAFETY: a set, and a signal that exists.
            unsafe { libc::sigdelset(&mut all, *signal) };
        });
        Mask(all)
    }

    /// All signals: what a thread blocks that meets no faults of copies.
    pub fn all() -> Mask {
        // SAFETY: plain data, which `sigfillset` fills.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&mut all);
            Mask(all)
        }
    }

    /// The mask of the calling thread.
    fn now() -> Mask {
        // SAFETY: no new mask is given, and the old one has room; cannot fail.
        unsafe {
            let mut now: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut now);
            Mask(now)
        }
    }

    /// Makes this the mask of the calling thread, and returns what that was.
    pub fn set(&self) -> Mask {
        // SAFETY: both sets are valid for the call, which cannot fail with this `how`.
        unsafe {
            let mut old: libc::sigset_t = std::mem::zeroed();
            libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, &mut old);
            Mask(old)
        }
    }
}

/// Runs `start`; threads that it starts begin with all signals blocked. The calling thread cannot be
/// cancelled meanwhile.
#[cfg(not(loom))]
fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    let cancelling = Cancelling::off();
    let old = Mask::all().set();
    FIRST.get_or_init(|| old);
    let started = start();
    old.set();
    cancelling.back_unseen();
    started
}

/// `function`, to be run on a thread of ours with the signals that the calling thread takes now: programs
/// that it starts inherit them.
pub fn as_here(function: impl FnOnce() + Send + 'static) -> impl FnOnce() + Send + 'static {
    let mask = Mask::now();
    move || {
        let _back = Back(mask.set());
        function();
    }
}

/// As [`as_here`], of a function that is run many times.
pub fn as_here_each(function: impl Fn() + Send + Sync + 'static) -> impl Fn() + Send + Sync + 'static {
    let mask = Mask::now();
    move || {
        let _back = Back(mask.set());
        function();
    }
}

/// Puts a mask back, also if a function panics.
struct Back(Mask);

impl Drop for Back {
    fn drop(&mut self) {
        self.0.set();
    }
}
