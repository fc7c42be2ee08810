//! Ctrl-C. Python handles signals in its main thread, and only while that runs Python code: a call that waits
//! in the library would keep them waiting too. So calls of that thread have the library ask, every 50 ms of a
//! wait, for signals to be handled (`check`). A handler that raises, as that of SIGINT does, ends the wait,
//! and the call raises what the handler raised. One that does not raise leaves the wait as it is.

use crate::{exit::this_thread, library::library};
use pyo3::prelude::*;
use std::{
    cell::RefCell,
    panic::catch_unwind,
    sync::atomic::{AtomicU64, Ordering},
};

/// Python's main thread, the only one that handles signals.
static MAIN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// What a signal handler raised inside the call that is under way.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Finds out which thread is the main one.
pub fn register(py: Python<'_>) -> PyResult<()> {
    let main = py.import("threading")?.call_method0("main_thread")?.getattr("ident")?;
    MAIN.store(main.extract()?, Ordering::Relaxed);
    Ok(())
}

/// Runs a call of the library's that a signal may end. The caller then raises what [`raised`] has.
pub fn within<T>(body: impl FnOnce() -> T) -> T {
    if this_thread() != MAIN.load(Ordering::Relaxed) {
        return body();
    }
    let watch = library().private.ferryCheckWhileWaiting;
    // SAFETY: `check` may be called at any time on a thread that has let go of the interpreter, and lets no
    // panic out.
    let before = unsafe { watch(Some(check)) };
    let value = body();
    // SAFETY: what was there before; its promise has not ended.
    unsafe { watch(before) };
    value
}

/// What a signal handler raised in the call that is over.
pub fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// Has Python handle signals; not 0 if a handler raised.
pub unsafe extern "C" fn check() -> i32 {
    let handle = || Python::attach(|py| py.check_signals());
    match catch_unwind(handle) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            RAISED.set(Some(error));
            1
        }
        // Printed by now; the wait goes on.
        Err(_) => 0,
    }
}
