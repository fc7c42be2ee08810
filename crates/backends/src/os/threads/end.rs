//! The end of a process whose main thread has left it with pthread_exit.
//!
//! Such a process ends with its last thread, and that must be the program's, not one of ours. Ours end when
//! they have nothing to do; in the meantime a thread has to take the signals sent to the process, which
//! they block, and some never end by themselves. So one more thread checks periodically whether only ours
//! are left. It is started when the main thread leaves, and costs other programs nothing.

use super::{CALL_STACK, FIRST, Mask, OURS, One, spawn};
use crate::os::files::read_to_string;
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// How often that thread checks.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// How many threads of ours never end by themselves.
static STAYING: AtomicUsize = AtomicUsize::new(0);
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

/// Counts the calling thread among those that never end by themselves, as long as what is returned lives. The
/// process does not wait for it.
pub fn never_ending() -> One {
    One::of(&STAYING)
}

/// Starts a thread that does not end by itself.
pub fn spawn_staying(name: String, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn(name, stack, move || {
        let _one = never_ending();
        body();
    })
}

/// Starts a thread that does not end by itself, and that no signal comes to which is sent to the process.
pub fn spawn_deaf(name: &str, stack: usize, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_staying(name.into(), stack, move || {
        Mask::all().set();
        body();
    })
}

/// A thread of the user's ends. If it is the main thread, or that has ended before, a thread checks from
/// now on whether it was the last.
pub fn thread_leaves() {
    let has_threads = OURS.load(Ordering::SeqCst) > 0;
    if has_threads && (is_main_thread() || ThreadCount::now().is_some_and(|seen| seen.main_is_gone)) {
        watch();
    }
}

fn is_main_thread() -> bool {
    // SAFETY: neither takes an argument or fails.
    unsafe { libc::gettid() == libc::getpid() }
}

fn watch() {
    if !IS_WATCHED.swap(true, Ordering::SeqCst)
        && spawn_staying("ferry-end".into(), CALL_STACK, look_on).is_err()
    {
        IS_WATCHED.store(false, Ordering::SeqCst);
    }
}

fn look_on() {
    let ours = Mask::ours();
    loop {
        if only_ours_are_left() {
            // No other thread takes signals any more, and those that came meanwhile wait.
            FIRST.get().unwrap_or(&ours).set();
            end_if_idle();
        } else {
            ours.set();
        }
        thread::sleep(CHECK_EVERY);
    }
}

fn only_ours_are_left() -> bool {
    let ours = OURS.load(Ordering::SeqCst);
    ThreadCount::now().is_some_and(|seen| seen.main_is_gone && seen.threads <= ours + 1)
}

/// Ends the process as the end of its last thread does, unless a thread of ours still works or was working a
/// moment ago.
fn end_if_idle() {
    if OURS.load(Ordering::SeqCst) <= STAYING.load(Ordering::SeqCst) {
        // SAFETY: no thread is left that could run into what exit handlers take down, but those that only
        // wait.
        unsafe { libc::exit(0) };
    }
}

/// What the system says of this process.
#[derive(Debug, PartialEq, Eq)]
struct ThreadCount {
    main_is_gone: bool,
    /// With the main thread, gone or not.
    threads: usize,
}

impl ThreadCount {
    fn now() -> Option<ThreadCount> {
        ThreadCount::parse(&read_to_string("/proc/self/stat").ok()?)
    }

    /// The state and the number of threads from a line of `/proc/PID/stat`. The name is in brackets and may
    /// hold anything.
    fn parse(line: &str) -> Option<ThreadCount> {
        let mut fields = line.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        Some(ThreadCount { main_is_gone: state == "Z", threads: fields.nth(16)?.parse().ok()? })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_the_process_is_read() {
        let line = "12 (a) b (c)) Z 1 12 12 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 99 0 0\n";
        assert_eq!(ThreadCount::parse(line), Some(ThreadCount { main_is_gone: true, threads: 3 }));
        assert_eq!(ThreadCount::parse("12 (a) Z 1"), None);
        let here = ThreadCount::now().expect("Linux tells");
        assert!(!here.main_is_gone && here.threads > 1, "{here:?}");
        assert!(!only_ours_are_left());
    }
}
