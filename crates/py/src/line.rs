//! Which lines of the Python program make a call: what `ferry trace` and its relatives name in place of an
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

/// Frames of a stack that are noted.
const MAX_FRAMES: usize = 64;

/// Has the library know which line of the program makes the call that follows on this thread, and, where
/// whole stacks are wanted, which lines have led there.
#[inline]
pub fn note(py: Python<'_>) {
    static WATCHED: OnceLock<i32> = OnceLock::new();
    // SAFETY: it takes no argument and only asks.
    match *WATCHED.get_or_init(|| unsafe { (library().private.ferryIsWatched)() }) {
        0 => {}
        1 => note_lines(py, 1),
        _ => note_lines(py, MAX_FRAMES),
    }
}

#[cold]
fn note_lines(py: Python<'_>, most: usize) {
    // A frame that cannot be asked is no reason to fail the call.
    let numbers = numbers(py, most).unwrap_or_default();
    // SAFETY: numbers of lines, as many as are said.
    unsafe { (library().private.ferrySetLines)(numbers.as_ptr(), numbers.len()) };
}

/// The numbers of the lines that the innermost Python frames are at.
fn numbers(py: Python<'_>, most: usize) -> PyResult<Vec<u32>> {
    static SYS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let sys = SYS.get_or_try_init(py, || py.import("sys").map(Bound::unbind))?;
    // As a method: pyo3 calls a function without arguments by PyObject_CallObject, which `exit.rs` declares
    // as one that may unwind.
    let mut frame = sys.bind(py).call_method0(intern!(py, "_getframe"))?;
    let mut numbers = vec![number(py, &frame)?];
    while numbers.len() < most {
        frame = frame.getattr(intern!(py, "f_back"))?;
        if frame.is_none() {
            break;
        }
        numbers.push(number(py, &frame)?);
    }
    Ok(numbers)
}

/// The number of the line that a frame is at.
fn number(py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<u32> {
    let code = frame.getattr(intern!(py, "f_code"))?;
    // None in code that the compiler has put in by itself.
    let line = frame.getattr(intern!(py, "f_lineno"))?.extract::<Option<u32>>()?.unwrap_or_default();
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
