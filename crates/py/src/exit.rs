//! The end of the interpreter. It takes memory away that copies in flight may use, and ends every thread that
//! tries to come back to it, in the middle of whatever that thread does. So when the program is over, all
//! work is dropped, calls that touch memory and callbacks that run are waited for, and threads that wait in
//! the library stay there.
//!
//! The program tells us by `atexit`, whose functions run in turn: those that were there before the module
//! come after ours, and may wait for a thread of the program's that wants to call once more. So if the
//! interpreter does not go on to its end, threads come back after a while.

use crate::library::library;
use pyo3::{ffi, prelude::*, types::PyTuple};
use std::{
    cell::Cell,
    ffi::c_int,
    sync::{
        OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// The thread that ends the program; 0 before.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// When all that the end waits for was done.
static ENDED: OnceLock<Instant> = OnceLock::new();

/// How long after that the interpreter may take to go on to its end. If it takes longer, it may be waiting
/// for a thread.
const ON_ITS_WAY: Duration = Duration::from_secs(1);

/// Calls of the library that may touch memory, and how long the end waits for them: they come to an end once
/// the work of all streams is dropped, but a large copy takes its time.
static CALLS: Count = Count::new(Duration::from_secs(30));

/// Python functions that the library is calling. One that takes longer is cut off.
static CALLING: Count = Count::new(Duration::from_secs(2));

thread_local! {
    /// How many callbacks this thread is inside of.
    static CALLBACKS: Cell<usize> = const { Cell::new(0) };
}

/// Has the interpreter tell us when the program is over.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // SAFETY: the handler only stores to atomics.
    let code = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if code != 0 {
        return Err(std::io::Error::from_raw_os_error(code).into());
    }
    let at_exit = wrap_pyfunction!(at_exit, module)?;
    module.py().import("atexit")?.call_method1("register", (at_exit,)).map(drop)
}

/// What other threads began in the parent never ends here.
extern "C" fn in_child() {
    CALLS.now.store(0, Ordering::SeqCst);
    CALLING.now.store(0, Ordering::SeqCst);
}

#[pyfunction]
fn at_exit(py: Python<'_>) {
    ENDING.store(this_thread(), Ordering::SeqCst);
    py.detach(|| {
        let start = Instant::now();
        loop {
            // Looked at first: what a call submits while it is under way is dropped by the next round.
            let at_rest = CALLS.is_waited_for(start) && CALLING.is_waited_for(start);
            // SAFETY: takes no argument.
            unsafe { (library().private.ferryStop)() };
            if at_rest {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    let _ = ENDED.set(Instant::now());
}

/// Whether the program is over.
pub fn is_over() -> bool {
    ENDING.load(Ordering::SeqCst) != 0
}

/// Whether this thread is one of those that must not come back to a program that is over. A callback may come
/// to its end.
fn is_over_for_this_thread() -> bool {
    let ending = ENDING.load(Ordering::SeqCst);
    ending != 0 && ending != this_thread() && CALLBACKS.get() == 0 && !is_waited_for_by_the_program()
}

/// Whether the program, though it is over, has not got to the end of the interpreter for so long that
/// something must wait.
fn is_waited_for_by_the_program() -> bool {
    ENDED.get().is_some_and(|ended| ended.elapsed() > ON_ITS_WAY) && is_finalizing() == Some(false)
}

/// Whether the interpreter has begun to take itself apart, and stays so; `None` if it has no way to tell.
fn is_finalizing() -> Option<bool> {
    type Function = unsafe extern "C" fn() -> c_int;
    static FUNCTION: OnceLock<Option<Function>> = OnceLock::new();
    let function = FUNCTION.get_or_init(|| {
        // Of this name since Python 3.13, and before it under one that was exported all the same.
        [c"Py_IsFinalizing", c"_Py_IsFinalizing"].into_iter().find_map(|name| {
            // SAFETY: a name for dlsym; what has it has this type.
            unsafe {
                let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
                (!found.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Function>(found))
            }
        })
    });
    // SAFETY: it may be called without the interpreter, at any time.
    function.map(|function| unsafe { function() } != 0)
}

/// The id of this thread, as threading.get_ident and acl.util.start_thread tell it.
pub fn this_thread() -> u64 {
    // SAFETY: no preconditions.
    unsafe { libc::pthread_self() as u64 }
}

/// In the threads of a program that is over: never returns, unless the program waits for them.
pub fn stay_away_if_over() {
    while is_over_for_this_thread() {
        if is_finalizing() != Some(false) {
            stay_away();
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn stay_away() -> ! {
    loop {
        thread::park();
    }
}

/// Things under way that the end of the program waits for.
struct Count {
    now: AtomicUsize,
    patience: Duration,
}

impl Count {
    const fn new(patience: Duration) -> Count {
        Count { now: AtomicUsize::new(0), patience }
    }

    fn begin(&'static self) -> Busy {
        self.now.fetch_add(1, Ordering::SeqCst);
        Busy(self)
    }

    fn is_waited_for(&self, since: Instant) -> bool {
        self.now.load(Ordering::SeqCst) == 0 || since.elapsed() > self.patience
    }
}

/// One of them.
struct Busy(&'static Count);

impl Drop for Busy {
    fn drop(&mut self) {
        // A child may have forgotten the count of the parent.
        let _ = self.0.now.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |count| count.checked_sub(1));
    }
}

/// Runs a call of the library that may touch memory. Does not come back to a program that is over.
pub fn within<T>(body: impl FnOnce() -> T) -> T {
    let busy = loop {
        let busy = CALLS.begin();
        // Read after the count was changed: the end of the program does the two in the opposite order.
        if !is_over_for_this_thread() {
            break busy;
        }
        drop(busy);
        stay_away_if_over();
    };
    let value = body();
    drop(busy);
    stay_away_if_over();
    value
}

/// A callback under way.
pub struct Calling {
    _busy: Busy,
}

impl Calling {
    /// `None` when the program is over.
    pub fn begin() -> Option<Calling> {
        let busy = CALLING.begin();
        if is_over_for_this_thread() {
            return None;
        }
        CALLBACKS.set(CALLBACKS.get() + 1);
        Some(Calling { _busy: busy })
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLBACKS.set(CALLBACKS.get() - 1);
    }
}

/// Calls a Python function that may wait. The interpreter ends a thread by unwinding its stack, and native
/// frames of ours cannot be unwound so: a thread that is ended inside stays here.
pub fn call<'py>(function: &Bound<'py, PyAny>, args: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
    struct Stay;
    impl Drop for Stay {
        fn drop(&mut self) {
            stay_away();
        }
    }
    let stay = Stay;
    // SAFETY: both objects are alive and the interpreter is held.
    let result = unsafe { PyObject_CallObject(function.as_ptr(), args.as_ptr()) };
    std::mem::forget(stay);
    // SAFETY: a new reference, or NULL with an exception.
    unsafe { Bound::from_owned_ptr_or_err(function.py(), result) }
}

// Declared here because it may unwind, and chosen because pyo3 does not use it: two declarations of one
// function that differ in that are one to the compiler.
unsafe extern "C-unwind" {
    fn PyObject_CallObject(function: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject;
}
