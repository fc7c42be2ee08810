//! Callbacks: Python functions that a thread of the program's runs when a stream gets to them.

use crate::{
    call::{Address, Int, callable, cast, enter, enter_to_rest, functions, take},
    exit::{self, Calling},
};
use pyo3::{exceptions::PyException, prelude::*, types::PyList};
use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    panic::catch_unwind,
};

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(launch_callback, module)?)?;
    module.add_function(wrap_pyfunction!(process_report, module)?)
}

functions! { "acl.rt":
    /// Has a thread run the callbacks of a stream.
    ///
    /// thread_id: what acl.util.start_thread returned, or threading.get_ident() in the thread that will call
    /// acl.rt.process_report. One thread may have several streams of one device, a stream has one thread.
    ///
    /// Returns ret: 0, 100033 if the stream has a thread, or another error code. C: aclrtSubscribeReport.
    fn subscribe_report(thread_id: u64, stream: Address)
        = aclrtSubscribeReport(thread_id, stream);

    /// Takes subscribe_report back. Callbacks that have not run never will.
    ///
    /// thread_id: as given to acl.rt.subscribe_report.
    ///
    /// Returns ret: 0, or 107011 if the stream has not this thread. C: aclrtUnSubscribeReport.
    fn unsubscribe_report(thread_id: u64, stream: Address)
        = aclrtUnSubscribeReport(thread_id, stream);
}

/// A function and its argument, on the way from launch to call.
struct PythonCallback {
    function: Py<PyAny>,
    data: Py<PyList>,
}

thread_local! {
    /// What a callback of this thread's raised that is meant for the thread and not for the callback:
    /// KeyboardInterrupt, SystemExit.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// Whether this thread is in acl.rt.process_report, which raises it; C code may call aclrtProcessReport
    /// by itself.
    static PROCESSING: Cell<bool> = const { Cell::new(false) };
}

/// Has the stream's thread call fn(user_data_list) when the stream gets here.
///
/// The thread is the one that acl.rt.subscribe_report named, and calls from inside acl.rt.process_report.
/// block_type: 0, the stream goes on at once, or 1, what comes behind in the stream waits until the function
/// has returned. An exception that leaves the function is shown by sys.unraisablehook.
///
/// Returns ret: 0, 107015 if the stream has no thread, or another error code. C: aclrtLaunchCallback.
#[pyfunction]
#[pyo3(signature = (r#fn, user_data_list, block_type, stream, /))]
fn launch_callback(
    py: Python<'_>,
    r#fn: &Bound<'_, PyAny>,
    user_data_list: &Bound<'_, PyAny>,
    block_type: Int<i32>,
    stream: Int<Address>,
) -> PyResult<i32> {
    let function = callable("fn", r#fn)?.clone().unbind();
    let data = cast::<PyList>(user_data_list, "user_data_list", "list")?.clone().unbind();
    take!(py, "acl.rt.launch_callback", [block_type, stream], |code| code);
    let callback = Box::into_raw(Box::new(PythonCallback { function, data })) as usize;
    enter(py, |library| {
        let launch = library.private.ferryLaunchCallback;
        // SAFETY: the library calls `run` or `forget` once with the callback, whatever becomes of the call.
        unsafe { launch(run, forget, callback as *mut c_void, block_type, stream as _) }
    })
}

/// Runs the callbacks of this thread that are due; waits for one if there is none.
///
/// timeout: milliseconds, more than 0, or -1 for as long as it takes. KeyboardInterrupt and SystemExit of a
/// callback are raised here.
///
/// Returns ret: 0, 107012 if no stream has this thread, 507012 if the time was up, or another error code. C:
/// aclrtProcessReport.
#[pyfunction]
#[pyo3(signature = (timeout, /))]
fn process_report(py: Python<'_>, timeout: Int<i32>) -> PyResult<i32> {
    take!(py, "acl.rt.process_report", [timeout], |code| code);
    let outer = PROCESSING.replace(true);
    // SAFETY: takes a number.
    let code = enter_to_rest(py, |library| unsafe { (library.functions.aclrtProcessReport)(timeout) });
    PROCESSING.set(outer);
    RAISED.take().map_or(code, Err)
}

/// Calls the function of a callback, on the thread that asked for it.
///
/// # Safety
/// `callback` came from `launch_callback` and is used no more.
unsafe extern "C" fn run(callback: *mut c_void) {
    // SAFETY: the caller's word; a callback is a box.
    let callback = unsafe { Box::from_raw(callback.cast::<PythonCallback>()) };
    let call = move || {
        let Some(_calling) = Calling::begin() else {
            // The objects belong to an interpreter that is going away.
            std::mem::forget(callback);
            return;
        };
        Python::attach(|py| {
            let (function, data) = (callback.function.into_bound(py), callback.data.into_bound(py));
            let called = (data,).into_pyobject(py).and_then(|args| exit::call(&function, &args));
            if let Err(error) = called {
                tell(py, error, &function);
            }
        });
    };
    // No panic may cross into C; pyo3 has printed it.
    let _ = catch_unwind(std::panic::AssertUnwindSafe(call));
}

/// An exception of a callback's: those that end a thread are for the thread, the others are shown.
fn tell(py: Python<'_>, error: PyErr, function: &Bound<'_, PyAny>) {
    let for_the_thread = PROCESSING.get() && !error.is_instance_of::<PyException>(py);
    // Only one can be raised: the first.
    if for_the_thread && RAISED.with_borrow(Option::is_none) {
        RAISED.set(Some(error));
    } else {
        error.write_unraisable(py, Some(function));
    }
}

/// Lets go of a callback that will never be called.
///
/// # Safety
/// As `run`.
unsafe extern "C" fn forget(callback: *mut c_void) {
    // SAFETY: the caller's word. pyo3 defers the release of objects that are dropped without the interpreter.
    drop(unsafe { Box::from_raw(callback.cast::<PythonCallback>()) });
}
