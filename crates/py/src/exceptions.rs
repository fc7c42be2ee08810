//! A Python function that hears of tasks that failed, and what it may ask.

use crate::{
    call::{Address, Int, Why, callable, enter, enter_briefly},
    exit::{self, Calling},
};
use pyo3::prelude::*;
use std::{
    ffi::c_void,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The function. The lock is held by threads that hold the interpreter, and only for a moment.
static FUNCTION: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

fn function() -> MutexGuard<'static, Option<Py<PyAny>>> {
    FUNCTION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has fn(exception_info) called for every task of a stream that fails, on any thread.
///
/// fn: takes an int, for acl.rt.get_task_id_from_exception_info and its kin to ask about, which is good while
/// it runs. None, or nothing, ends that; the last one counts. It has been called when a call returns the
/// error of the task. An exception that leaves the function is shown by sys.unraisablehook.
///
/// Returns ret: 0, or an error code. C: aclrtSetExceptionInfoCallback.
#[pyfunction]
#[pyo3(signature = (r#fn = None, /))]
fn set_exception_info_callback(py: Python<'_>, r#fn: Option<&Bound<'_, PyAny>>) -> PyResult<i32> {
    let given =
        r#fn.map(|object| callable("fn", object).map(|object| object.clone().unbind())).transpose()?;
    let listener = given.is_some().then_some(hear as unsafe extern "C" fn(*mut c_void));
    // SAFETY: `hear` may be called on any thread, at any time.
    let code = enter(py, |library| unsafe { (library.functions.aclrtSetExceptionInfoCallback)(listener) })?;
    if code == 0 {
        let old = std::mem::replace(&mut *function(), given);
        drop(old); // which may run Python code, when the lock is free again
    }
    Ok(code)
}

/// # Safety
/// Called by the library, with what stands for an exception.
unsafe extern "C" fn hear(info: *mut c_void) {
    let info = info as Address;
    let call = || {
        let Some(_calling) = Calling::begin() else { return };
        Python::attach(|py| {
            let Some(function) = function().as_ref().map(|function| function.clone_ref(py)) else { return };
            let function = function.into_bound(py);
            let called = (info,).into_pyobject(py).and_then(|args| exit::call(&function, &args));
            if let Err(error) = called {
                error.write_unraisable(py, Some(&function));
            }
        });
    };
    // No panic may cross into C; pyo3 has printed it.
    let _ = catch_unwind(AssertUnwindSafe(call));
}

/// Declares the functions that tell a number of an exception.
macro_rules! getters {
    ($($(#[doc = $doc:expr])+ $number:ident = $name:ident: $c:ident;)*) => {
        $(
            $(#[doc = $doc])+
            ///
            /// info: what the function of acl.rt.set_exception_info_callback was given.
            ///
            #[doc = concat!("Returns ", stringify!($number), ": an int, 4294967295 if info is not that. C: ",
                stringify!($c), ".")]
            #[pyfunction]
            #[pyo3(signature = (info, /))]
            fn $name(py: Python<'_>, info: Int<Address>) -> PyResult<u32> {
                let info = match info.get("info") {
                    Ok(info) => info,
                    Err(Why::Value(..)) => 0, // no number that C cannot have stands for one
                    Err(Why::Type(error)) => return Err(error),
                };
                // SAFETY: the library looks the number up.
                Ok(enter_briefly(py, |library| unsafe { (library.functions.$c)(info as _) }))
            }
        )*

        /// Adds the functions of this file.
        pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
            $(module.add_function(wrap_pyfunction!($name, module)?)?;)*
            module.add_function(wrap_pyfunction!(set_exception_info_callback, module)?)
        }
    };
}

getters! {
    /// Tells the number of the task that failed, in its stream.
    task_id = get_task_id_from_exception_info: aclrtGetTaskIdFromExceptionInfo;

    /// Tells the number of the stream of the task that failed.
    stream_id = get_stream_id_from_exception_info: aclrtGetStreamIdFromExceptionInfo;

    /// Tells the system's number of the thread that began to use the stream last.
    thread_id = get_thread_id_from_exception_info: aclrtGetThreadIdFromExceptionInfo;

    /// Tells the device of the task that failed.
    device_id = get_device_id_from_exception_info: aclrtGetDeviceIdFromExceptionInfo;

    /// Tells the code that the stream's next synchronise returns; 4294967295 if the device is lost.
    error_code = get_error_code_from_exception_info: aclrtGetErrorCodeFromExceptionInfo;
}
