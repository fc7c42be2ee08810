//! Notifies: what the documents name for Python.

use crate::call::{Address, Int, Text, enter, list_of, refuse_as, take};
use pyo3::prelude::*;
use std::ffi::c_void;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(notify_batch_reset, module)?)?;
    module.add_function(wrap_pyfunction!(notify_set_import_pid, module)?)?;
    module.add_function(wrap_pyfunction!(notify_import_by_key, module)?)
}

/// Takes back records of notifies that no wait has used up.
///
/// notifies: a list of notifies, not empty; a bad one among them, and nothing happens.
///
/// Returns ret: 0, or an error code. C: aclrtNotifyBatchReset.
#[pyfunction]
#[pyo3(signature = (notifies, /))]
fn notify_batch_reset(py: Python<'_>, notifies: &Bound<'_, PyAny>) -> PyResult<i32> {
    let name = "acl.rt.notify_batch_reset";
    let mut notifies = match list_of::<Address>(notifies, "notifies")? {
        Ok(notifies) => notifies,
        Err((code, note)) => return Ok(refuse_as(py, name, code, note)),
    };
    enter(py, |library| {
        let function = library.functions.aclrtNotifyBatchReset;
        // SAFETY: that many handles, which are numbers, for the time of the call.
        unsafe { function(notifies.as_mut_ptr().cast::<*mut c_void>(), notifies.len()) }
    })
}

/// Says which processes may import a notify, which has a key already.
///
/// pid: a list of process ids; it adds to those named before.
///
/// Returns ret: 0, or an error code. C: aclrtNotifySetImportPid.
#[pyfunction]
#[pyo3(signature = (notify, pid, /))]
fn notify_set_import_pid(py: Python<'_>, notify: Int<Address>, pid: &Bound<'_, PyAny>) -> PyResult<i32> {
    let name = "acl.rt.notify_set_import_pid";
    let pids = list_of::<i32>(pid, "pid")?;
    take!(py, name, [notify], |code| code);
    let mut pids = match pids {
        Ok(pids) => pids,
        Err((code, note)) => return Ok(refuse_as(py, name, code, note)),
    };
    enter(py, |library| {
        let function = library.functions.aclrtNotifySetImportPid;
        // SAFETY: `pids` is that many numbers for the time of the call.
        unsafe { function(notify as _, pids.as_mut_ptr(), pids.len()) }
    })
}

/// Imports a notify that another process exported under a key, to record it.
///
/// key: a str. flags: 0, or 2 to enable peer access to its device too.
///
/// Returns (notify, ret): ret is 507899 if this process is not allowed to. C: aclrtNotifyImportByKey.
#[pyfunction]
#[pyo3(signature = (key, flags, /))]
fn notify_import_by_key(py: Python<'_>, key: Text, flags: Int<u64>) -> PyResult<(Address, i32)> {
    take!(py, "acl.rt.notify_import_by_key", [key, flags], |code| (0, code));
    enter(py, |library| {
        let mut notify = std::ptr::null_mut();
        // SAFETY: `notify` is writable and `key` a C string for the time of the call.
        let code = unsafe { (library.functions.aclrtNotifyImportByKey)(&mut notify, key.as_ptr(), flags) };
        (notify as Address, code)
    })
}
