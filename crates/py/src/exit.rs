//! The end of the interpreter. It takes memory away that copies in flight may use, and ends every thread that tries to come
//! back to it, in the middle of whatever that thread does. So when the program is over, all work is dropped, callbacks that run
//! are waited for, and threads that wait in the library stay there.

use crate::{call::enter, library::library};
use pyo3::prelude::*;
use std::{
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// The thread that ends the program; 0 before.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// Python functions that the library is calling.
static CALLING: AtomicUsize = AtomicUsize::new(0);

/// The process that imported the module.
static HOME: AtomicU32 = AtomicU32::new(0);

/// How long callbacks that run are waited for. One that takes longer may be cut off.
const PATIENCE: Duration = Duration::from_secs(5);

/// Has the interpreter tell us when the program is over.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    HOME.store(std::process::id(), Ordering::Relaxed);
    let at_exit = wrap_pyfunction!(at_exit, module)?;
    module.py().import("atexit")?.call_method1("register", (at_exit,)).map(drop)
}

#[pyfunction]
fn at_exit(py: Python<'_>) {
    ENDING.store(this_thread(), Ordering::SeqCst);
    enter(py, |_| {
        // SAFETY: takes no argument.
        unsafe { (library().private.ferryStop)() };
        let start = Instant::now();
        while CALLING.load(Ordering::SeqCst) > 0 && !is_child() && start.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(1));
        }
    });
}

/// In the threads of a program that is over: never returns.
pub fn stay_away_if_over() {
    while is_over_for_this_thread() {
        thread::park();
    }
}

/// Whether another thread is ending the program.
fn is_over_for_this_thread() -> bool {
    let ending = ENDING.load(Ordering::SeqCst);
    ending != 0 && ending != this_thread()
}

/// Counts a call of a Python function, unless the program is over.
pub struct Calling(());

impl Calling {
    /// `None` when the program is over.
    pub fn begin() -> Option<Calling> {
        CALLING.fetch_add(1, Ordering::SeqCst);
        let calling = Calling(());
        (!is_over_for_this_thread()).then_some(calling)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLING.fetch_sub(1, Ordering::SeqCst);
    }
}

fn this_thread() -> u64 {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

/// Whether this process was forked from the one that imported the module: what other threads began there never ends here.
fn is_child() -> bool {
    HOME.load(Ordering::Relaxed) != std::process::id()
}
