//! Holding a stream, to see without a clock what waits for it and what does not.
//!
//! A host function that does not return keeps everything behind it in its stream from running. A call that comes back
//! meanwhile has not waited; one that comes back only after the hold was let go has.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::error::{Result, ensure};
use crate::stream::Stream;

/// A stream held by a host function until `release` or drop.
pub struct Hold {
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, bool> {
        self.open.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn open(&self) {
        *self.state() = true;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let mut open = self.state();
        while !*open {
            open = self.opened.wait(open).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

impl Hold {
    /// Holds `stream` from here on: what was submitted before still runs.
    pub fn new(stream: &Stream) -> Result<Hold> {
        let gate = Arc::new(Gate::default());
        let inside = gate.clone();
        stream.call(move || inside.wait())?;
        Ok(Hold { gate })
    }

    /// Lets the stream go on.
    pub fn release(self) {}

    fn is_released(&self) -> bool {
        *self.gate.state()
    }

    /// Lets go from another thread, once the calling thread sleeps (in the call that it makes next).
    fn release_once_i_sleep(&self) {
        let gate = self.gate.clone();
        // SAFETY: takes no argument and cannot fail.
        let thread = unsafe { libc::gettid() };
        std::thread::spawn(move || {
            wait_until_asleep(thread);
            gate.open();
        });
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.gate.open();
    }
}

/// Makes `call` while `stream` is held, and fails if it comes back before the stream was let go.
pub fn must_wait(what: &str, stream: &Stream, call: impl FnOnce() -> Result<()>) -> Result<()> {
    let hold = Hold::new(stream)?;
    hold.release_once_i_sleep();
    call()?;
    ensure(
        hold.is_released(),
        what,
        "to come back when its copy is done",
        "it back while its stream was held",
    )
}

/// Looks at the thread's state until it has been asleep several times in a row. A backend whose waits spin never
/// sleeps, so it gives up after a while: letting go late or early cannot turn a wrong answer into a right one.
fn wait_until_asleep(thread: libc::pid_t) {
    let mut asleep = 0;
    for _ in 0..200 {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        asleep = if state == Some('S') { asleep + 1 } else { 0 };
        if asleep == 3 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
