//! `acl.util`: between Python's objects and addresses, and threads. Nothing copies unless it says so.

use crate::{
    buffer::Buffer,
    call::{Address, Int, Size, Why, callable, cast, enter_briefly, refuse, take, type_name},
    exit,
};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    ffi,
    prelude::*,
    types::{PyBytes, PyDict, PyList, PyTuple},
};
use std::ffi::{c_char, c_int};

/// The most bytes that are copied until signals are handled.
const PIECE: usize = 256 << 20;

/// Adds the functions to the module `acl.util`.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.setattr(
        "__doc__",
        "Addresses of Python's objects, objects of addresses, and threads.\n\n\
         An address is good only while the object it came from lives. NumPy is needed only by the functions \
         that name it.",
    )?;
    module.add_function(wrap_pyfunction!(bytes_to_ptr, module)?)?;
    module.add_function(wrap_pyfunction!(ptr_to_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_to_ptr, module)?)?;
    module.add_function(wrap_pyfunction!(numpy_contiguous_to_ptr, module)?)?;
    module.add_function(wrap_pyfunction!(ptr_to_numpy, module)?)?;
    module.add_function(wrap_pyfunction!(start_thread, module)?)?;
    module.add_function(wrap_pyfunction!(stop_thread, module)?)?;
    // Kept here: where the interpreter takes modules apart, nothing can be imported.
    module.setattr("_start", module.py().import("acl._threads")?.getattr("start")?)?;
    module.setattr("_threads", PyDict::new(module.py()))
}

/// Tells where the bytes of an object are. Nothing is copied.
///
/// data: bytes; also a bytearray, a memoryview or an array, if its memory is in one piece. Keep it alive, and
/// do not resize it, while the address is used; do not have copies write to bytes, which never change.
///
/// Returns ptr: an int.
#[pyfunction]
#[pyo3(signature = (data, /))]
fn bytes_to_ptr(data: &Bound<'_, PyAny>) -> PyResult<Address> {
    if !Buffer::has_one(data) {
        let kind = data.get_type().name()?;
        let note =
            format!("argument 'data': '{kind}' object is not bytes, bytearray, memoryview or an array");
        return Err(PyTypeError::new_err(note));
    }
    Ok(Buffer::bytes(data)?.address())
}

/// Copies host memory into bytes.
///
/// ptr: an address that the host can read. What it cannot, such as device memory on a host with cards, raises
/// ValueError. size: how many bytes.
///
/// Returns bytes_out: bytes.
#[pyfunction]
#[pyo3(signature = (ptr, size, /))]
fn ptr_to_bytes<'py>(py: Python<'py>, ptr: Int<Address>, size: Int<Size>) -> PyResult<Bound<'py, PyBytes>> {
    let (ptr, size) = (number(ptr, "ptr")?, number(size, "size")?);
    readable(py, ptr, size, false)?;
    // SAFETY: the interpreter is held. Without a source the bytes are new, and not filled in: pages that are
    // written for the first time take longer than the copy, so that is left for when others can run.
    let bytes = unsafe {
        let len = ffi::Py_ssize_t::try_from(size)?;
        Bound::from_owned_ptr_or_err(py, ffi::PyBytes_FromStringAndSize(std::ptr::null(), len))?
    };
    // SAFETY: these are bytes, alive until the end of this function.
    let copy = unsafe { ffi::PyBytes_AsString(bytes.as_ptr()) } as usize;
    for done in (0..size).step_by(PIECE) {
        let (from, to, len) = (ptr + done, copy + done, PIECE.min(size - done));
        enter_briefly(py, |_| {
            // SAFETY: that many bytes were just found readable, and the caller keeps them so; nobody else has
            // the new bytes.
            unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
        });
        py.check_signals()?;
    }
    Ok(bytes.cast_into()?)
}

/// Tells where the items of a NumPy array are. Nothing is copied. Deprecated: use bytes_to_ptr.
///
/// An ndarray whose items are not row by row in one piece prints a warning; the address is that of its first
/// item. Keep the array alive while the address is used.
///
/// Returns ptr: an int.
#[pyfunction]
#[pyo3(signature = (ndarray, /))]
fn numpy_to_ptr(py: Python<'_>, ndarray: &Bound<'_, PyAny>) -> PyResult<Address> {
    const WARNING: &str =
        "Warning:The input ndarray is discontiguous. Please use acl.util.numpy_contiguous_to_ptr instead.";
    array(py, ndarray)?;
    if !is_contiguous(ndarray)? {
        exit::call(&py.import("builtins")?.getattr("print")?, &(WARNING,).into_pyobject(py)?)?;
    }
    address(ndarray)
}

/// Makes a NumPy array row by row in one piece, if it is not, and tells where its items are. Deprecated: use
/// bytes_to_ptr.
///
/// ndarray: an array of any shape.
///
/// Returns (ptr, data_out): the address, and the array it belongs to, which is the one that was given if
/// nothing had to be copied. Keep it alive while the address is used.
#[pyfunction]
#[pyo3(signature = (ndarray, /))]
fn numpy_contiguous_to_ptr<'py>(
    py: Python<'py>,
    ndarray: &Bound<'py, PyAny>,
) -> PyResult<(Address, Bound<'py, PyAny>)> {
    let numpy = array(py, ndarray)?;
    let whole = match is_contiguous(ndarray)? {
        true => ndarray.clone(),
        false => exit::call(&numpy.getattr("ascontiguousarray")?, &(ndarray,).into_pyobject(py)?)?,
    };
    Ok((address(&whole)?, whole))
}

/// Makes a NumPy array of host memory. It is a view: nothing is copied; what is written to it is written
/// there. Deprecated.
///
/// ptr: an address that the host can read and write; what it cannot, such as device memory on a host with
/// cards, raises ValueError. shape: a tuple of ints. npy_type: NumPy's number of the type: 0 bool, 1 int8, 2
/// uint8, 3 int16, 4 uint16, 5 int32, 6 uint32, 7 int64, 8 uint64, 9 longlong, 10 ulonglong, 11 float32, 12
/// float64, 23 float16.
///
/// The memory must stay while the array is used: the array does not keep it.
///
/// Returns arr: an ndarray.
#[pyfunction]
#[pyo3(signature = (ptr, shape, npy_type, /))]
fn ptr_to_numpy<'py>(
    py: Python<'py>,
    ptr: Int<Address>,
    shape: &Bound<'py, PyAny>,
    npy_type: Int<i32>,
) -> PyResult<Bound<'py, PyAny>> {
    let (ptr, number_of_type) = (number(ptr, "ptr")?, number(npy_type, "npy_type")?);
    let (name, width) = type_of(number_of_type).ok_or_else(|| {
        PyValueError::new_err(format!("npy_type is {number_of_type}: it must be one of 0 to 12, or 23"))
    })?;
    let shape = cast::<PyTuple>(shape, "shape", "tuple")?;
    let extent = |(index, extent): (usize, Bound<'_, PyAny>)| {
        number(extent.extract::<Int<usize>>()?, &format!("shape[{index}]"))
    };
    let len = shape.iter().enumerate().map(extent).try_fold(width, |len, extent| {
        let too_large = || PyValueError::new_err("shape: more bytes than there can be");
        len.checked_mul(extent?).filter(|len| isize::try_from(*len).is_ok()).ok_or_else(too_large)
    })?;
    readable(py, ptr, len, true)?;
    // SAFETY: the range was just found readable and writable, and the caller keeps it while the view lives.
    let view = unsafe {
        let view = ffi::PyMemoryView_FromMemory(ptr as *mut c_char, len as ffi::Py_ssize_t, WRITE);
        Bound::from_owned_ptr_or_err(py, view)?
    };
    let named = PyDict::new(py);
    named.set_item("buffer", view)?;
    numpy(py)?.getattr("ndarray")?.call((shape, name), Some(&named))
}

/// PyBUF_WRITE of PyMemoryView_FromMemory.
const WRITE: c_int = 0x200;

/// Starts a thread that calls func(args_list).
///
/// The thread has no context: it calls acl.rt.set_context first. An exception that leaves the function is
/// shown by threading.excepthook. A program that is over does not wait for it.
///
/// Returns (thr_id, ret): the id for acl.rt.subscribe_report and acl.util.stop_thread.
#[pyfunction]
#[pyo3(signature = (func, args_list, /), pass_module)]
fn start_thread(
    module: &Bound<'_, PyModule>,
    func: &Bound<'_, PyAny>,
    args_list: &Bound<'_, PyAny>,
) -> PyResult<(u64, i32)> {
    let py = module.py();
    callable("func", func)?;
    let args_list = cast::<PyList>(args_list, "args_list", "list")?;
    let started = match exit::call(&module.getattr("_start")?, &(func, args_list).into_pyobject(py)?) {
        Ok(started) => started,
        Err(error) => {
            let note = format_args!("no thread was started: {error}");
            return Ok((0, refuse(py, "acl.util.start_thread", note)));
        }
    };
    let (thread, id): (Bound<'_, PyAny>, u64) = started.extract()?;
    module.getattr("_threads")?.set_item(id, thread)?;
    Ok((id, 0))
}

/// Waits until a thread that start_thread started has ended. It does not stop it.
///
/// Returns ret: 0, or 107000 if thr_id is none of them, has been waited for, or is the thread that calls.
#[pyfunction]
#[pyo3(signature = (thr_id, /), pass_module)]
fn stop_thread(module: &Bound<'_, PyModule>, thr_id: Int<u64>) -> PyResult<i32> {
    let (py, name) = (module.py(), "acl.util.stop_thread");
    take!(py, name, [thr_id], |code| code);
    let threads = module.getattr("_threads")?;
    let threads = threads.cast::<PyDict>()?;
    let Some(thread) = threads.get_item(thr_id)? else {
        let note = format!(
            "thr_id {thr_id} is no thread that acl.util.start_thread started, or has been waited for"
        );
        return Ok(refuse(py, name, note));
    };
    if exit::this_thread() == thr_id {
        return Ok(refuse(py, name, format!("thr_id {thr_id} is this thread, which cannot wait for itself")));
    }
    // Where the program is over its threads run no more, and none of them comes to an end.
    if !exit::is_over() {
        exit::call(&thread.getattr("join")?, &PyTuple::empty(py))?;
    }
    // Another thread may have the number by now.
    if threads.get_item(thr_id)?.is_some_and(|found| found.is(&thread)) {
        threads.del_item(thr_id)?;
    }
    Ok(0)
}

/// A number that C can have; these functions have no code to return.
fn number<T: crate::call::Number>(given: Int<T>, name: &str) -> PyResult<T::C> {
    given.get(name).map_err(|why| match why {
        Why::Type(error) => error,
        Why::Value(_, note) => PyValueError::new_err(note),
    })
}

/// Raises unless the host can read, or also write, a range.
fn readable(py: Python<'_>, ptr: usize, len: usize, write: bool) -> PyResult<()> {
    let (code, note) = enter_briefly(py, |library| {
        let mut note = [0_u8; 512];
        let function = library.private.ferryHostRange;
        // SAFETY: the function takes any range, and the note has that room.
        let code =
            unsafe { function(ptr as *const _, len, write.into(), note.as_mut_ptr().cast(), note.len()) };
        (code, note)
    });
    if code == 0 {
        return Ok(());
    }
    let note = note.split(|byte| *byte == 0).next().unwrap_or_default();
    Err(PyValueError::new_err(String::from_utf8_lossy(note).into_owned()))
}

fn numpy(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("numpy")
}

/// NumPy, if `object` is an array of it.
fn array<'py>(py: Python<'py>, object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyModule>> {
    let numpy = numpy(py)?;
    if object.is_instance(&numpy.getattr("ndarray")?)? {
        return Ok(numpy);
    }
    let words = format!("argument 'ndarray': '{}' object is not a numpy.ndarray", type_name(object));
    Err(PyTypeError::new_err(words))
}

fn is_contiguous(array: &Bound<'_, PyAny>) -> PyResult<bool> {
    array.getattr("flags")?.getattr("c_contiguous")?.extract()
}

/// Where the items of an array are, whatever their type.
fn address(array: &Bound<'_, PyAny>) -> PyResult<Address> {
    array.getattr("__array_interface__")?.get_item("data")?.get_item(0)?.extract()
}

/// The name and the bytes of one of NumPy's numbered types.
fn type_of(number: i32) -> Option<(&'static str, usize)> {
    Some(match number {
        0 => ("bool", 1),
        1 => ("int8", 1),
        2 => ("uint8", 1),
        3 => ("int16", 2),
        4 => ("uint16", 2),
        5 => ("int32", 4),
        6 => ("uint32", 4),
        7 => ("int64", 8),
        8 => ("uint64", 8),
        9 => ("longlong", 8),
        10 => ("ulonglong", 8),
        11 => ("float32", 4),
        12 => ("float64", 8),
        23 => ("float16", 2),
        _ => return None,
    })
}
