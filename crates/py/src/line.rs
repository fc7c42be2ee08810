//! Which line of the Python program makes a call: what `ferry trace` and its relatives name in place of an
//! address in the interpreter. Costs nothing where nobody watches.

use crate::library::library;
use pyo3::{intern, prelude::*, sync::PyOnceLock};
use std::{
    collections::HashMap,
    ffi::CString,
    sync::{Mutex, OnceLock, PoisonError},
};

/// The numbers of lines that were defined, by code object and line. Code objects are kept, so that no other
/// one has the address.
static NUMBERS: Mutex<Option<HashMap<(usize, u32), u32>>> = Mutex::new(None);

/// Has the library know which line of the program makes the call that follows on this thread.
#[inline]
pub fn note(py: Python<'_>) {
    static IS_WATCHED: OnceLock<bool> = OnceLock::new();
    // SAFETY: it takes no argument and only asks.
    if *IS_WATCHED.get_or_init(|| unsafe { (library().private.ferryIsWatched)() } == 1) {
        // A frame that cannot be asked is no reason to fail the call.
        let number = number(py).unwrap_or_default();
        // SAFETY: a number of a line, or 0 for none.
        unsafe { (library().private.ferrySetLine)(number) };
    }
}

/// The number of the line that the innermost Python frame is at.
#[cold]
fn number(py: Python<'_>) -> PyResult<u32> {
    static SYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let sys = SYS.get_or_try_init(py, || py.import("sys").map(Bound::unbind))?;
    // As a method: pyo3 calls a function without arguments by PyObject_CallObject, which `exit.rs` declares
    // as one that may unwind.
    let frame = sys.bind(py).call_method0(intern!(py, "_getframe"))?;
    let (code, line) = (frame.getattr("f_code")?, frame.getattr("f_lineno")?.extract::<u32>()?);
    let key = (code.as_ptr() as usize, line);
    let known =
        |numbers: &Option<HashMap<_, _>>| numbers.as_ref().and_then(|numbers| numbers.get(&key).copied());
    let locked = || NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(number) = known(&locked()) {
        return Ok(number);
    }
    let text = |name| -> PyResult<CString> {
        let text: String = code.getattr(name)?.extract()?;
        Ok(CString::new(text.replace('\0', "?"))?)
    };
    let (file, function) = (text("co_filename")?, text("co_name")?);
    // SAFETY: both are C strings.
    let number = unsafe { (library().private.ferryDefineLine)(file.as_ptr(), function.as_ptr(), line) };
    std::mem::forget(code);
    locked().get_or_insert_default().insert(key, number);
    Ok(number)
}
