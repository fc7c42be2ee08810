//! Python's buffers: the memory of bytes, bytearray, memoryview, array and NumPy objects, without a copy.
//!
//! The stable interface has them since Python 3.11 only, and so has pyo3; but the functions are exported, and
//! the struct has had this layout, since 3.3. So they are declared here.

use crate::call::Why;
use pyo3::{exceptions::PyTypeError, ffi, prelude::*};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    mem::MaybeUninit,
};

/// `Py_buffer`.
#[repr(C)]
struct View {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

unsafe extern "C" {
    fn PyObject_CheckBuffer(object: *mut ffi::PyObject) -> c_int;
    fn PyObject_GetBuffer(object: *mut ffi::PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// PyBUF_SIMPLE: bytes in one piece.
const SIMPLE: c_int = 0;
/// PyBUF_STRIDES | PyBUF_FORMAT: items at any distance, with their type.
const ITEMS: c_int = 0x0010 | 0x0008 | 0x0004;

/// The memory of an object, which cannot go away or move while this lives. Let go of it while holding the
/// interpreter.
pub struct Buffer(Box<View>);

impl Buffer {
    /// The memory in one piece, as bytes. An object whose memory is not in one piece, or that has none,
    /// raises.
    pub fn bytes(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        Buffer::get(object, SIMPLE)
    }

    /// Whether an object has a buffer at all.
    pub fn has_one(object: &Bound<'_, PyAny>) -> bool {
        // SAFETY: the object is alive and the interpreter held.
        unsafe { PyObject_CheckBuffer(object.as_ptr()) != 0 }
    }

    fn get(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Buffer> {
        let mut view = Box::new(MaybeUninit::<View>::uninit());
        // SAFETY: the object is alive, the interpreter held and the view writable; it does not move until it
        // is released.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: filled in.
        Ok(Buffer(unsafe { Box::from_raw(Box::into_raw(view).cast::<View>()) }))
    }

    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.0.buf as usize
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: got by PyObject_GetBuffer and released once; a Buffer is only dropped with the interpreter
        // held.
        unsafe { PyBuffer_Release(&mut *self.0) }
    }
}

/// Integers of an object's buffer as C's size_t: where they lie, or converted if they are of another width or
/// not side by side.
pub enum SizeArray {
    /// In the object's memory.
    There(Buffer, usize),
    /// Converted.
    Here(Vec<usize>),
}

impl SizeArray {
    /// The integers of a one-dimensional buffer; a negative one is the error.
    pub fn of_buffer(name: &str, object: &Bound<'_, PyAny>) -> PyResult<Result<SizeArray, Why>> {
        // Whatever an object says about why its items are not to be had, they are none that can be read here.
        let buffer = Buffer::get(object, ITEMS).map_err(|error| {
            PyTypeError::new_err(format!("argument '{name}': {}", error.value(object.py())))
        })?;
        let view = &buffer.0;
        if view.ndim != 1 {
            return Err(PyTypeError::new_err(format!(
                "argument '{name}': an array of {} dimensions; one is needed",
                view.ndim
            )));
        }
        // SAFETY: a view with strides has shape and strides of `ndim` numbers.
        let (count, stride) = unsafe { (*view.shape as usize, *view.strides) };
        let (signed, width) = integer(view).ok_or_else(|| not_integers(name, view))?;
        if count == 0 {
            return Ok(Ok(SizeArray::Here(Vec::new())));
        }
        let in_a_row = stride as usize == size_of::<usize>() && view.buf.cast::<usize>().is_aligned();
        if width == size_of::<usize>() && in_a_row {
            // SAFETY: `count` items of this width lie one behind the other, aligned, for as long as the view
            // is held.
            let items = unsafe { std::slice::from_raw_parts(view.buf.cast::<isize>(), count) };
            if !signed || items.iter().all(|item| *item >= 0) {
                return Ok(Ok(SizeArray::There(buffer, count)));
            }
        }
        // SAFETY: `count` items of `width` bytes lie `stride` apart from `buf` on, for as long as the view is
        // held.
        let items = (0..count).map(|index| unsafe {
            let at = view.buf.cast::<u8>().offset(index as isize * stride);
            read(at, width, signed)
        });
        let outside = |index, item| format!("{name}[{index}] is {item}: it must be in 0 to {}", usize::MAX);
        let sizes = items
            .enumerate()
            .map(|(index, item)| usize::try_from(item).map_err(|_| Why::unfit(outside(index, item))));
        Ok(sizes.collect::<Result<Vec<_>, _>>().map(SizeArray::Here))
    }

    /// The first and how many.
    pub fn parts(&self) -> (usize, usize) {
        match self {
            SizeArray::There(buffer, count) => (buffer.address(), *count),
            SizeArray::Here(sizes) => (sizes.as_ptr() as usize, sizes.len()),
        }
    }
}

/// Whether the items are signed integers, and their bytes; `None` if they are no integers of this machine.
fn integer(view: &View) -> Option<(bool, usize)> {
    // SAFETY: a view with a format has a C string there, or NULL for bytes.
    let format = if view.format.is_null() { c"B" } else { unsafe { CStr::from_ptr(view.format) } };
    let native = if cfg!(target_endian = "little") { b'<' } else { b'>' };
    let code = match format.to_bytes() {
        [code] => *code,
        [order, code] if *order == b'@' || *order == b'=' || *order == native => *code,
        _ => return None,
    };
    let width = view.itemsize as usize;
    let signed = code.is_ascii_lowercase();
    (b"bBhHiIlLqQnN".contains(&code) && matches!(width, 1 | 2 | 4 | 8)).then_some((signed, width))
}

fn not_integers(name: &str, view: &View) -> PyErr {
    // SAFETY: as in `integer`.
    let format = if view.format.is_null() { c"B" } else { unsafe { CStr::from_ptr(view.format) } };
    PyTypeError::new_err(format!(
        "argument '{name}': an array of items '{}', which are no integers of this machine",
        format.to_string_lossy()
    ))
}

/// One integer of any width.
///
/// # Safety
/// `width` bytes at `at` can be read.
unsafe fn read(at: *const u8, width: usize, signed: bool) -> i128 {
    // SAFETY: the caller's word; no alignment is asked for.
    unsafe {
        match (width, signed) {
            (1, false) => i128::from(at.read()),
            (1, true) => i128::from(at.cast::<i8>().read()),
            (2, false) => i128::from(at.cast::<u16>().read_unaligned()),
            (2, true) => i128::from(at.cast::<i16>().read_unaligned()),
            (4, false) => i128::from(at.cast::<u32>().read_unaligned()),
            (4, true) => i128::from(at.cast::<i32>().read_unaligned()),
            (_, false) => i128::from(at.cast::<u64>().read_unaligned()),
            (_, true) => i128::from(at.cast::<i64>().read_unaligned()),
        }
    }
}
