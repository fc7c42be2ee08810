//! The boundary: every C function runs inside [`enter`], and every pointer argument is made sense of here.

use ferry_acl::{
    Result,
    arguments::{ArrayArgument, not_null, readable, writable},
    callback::UserFunction,
};
use std::{
    borrow::Cow,
    ffi::{c_char, c_void},
};

/// Runs the body of a C function.
pub use ferry_acl::call::call as enter;

/// Runs the body of a C function that has a fast path.
pub use ferry_acl::call::call_fast as enter_fast;

/// An output argument that can be written.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Refuses NULL and what cannot be written.
    pub fn new(name: &'static str, pointer: *mut T) -> Result<Out<T>> {
        writable(name, pointer as usize, size_of::<T>())?;
        Ok(Out(pointer))
    }

    /// Refuses what cannot be written, for an argument that may be NULL.
    pub fn unless_null(name: &'static str, pointer: *mut T) -> Result<Option<Out<T>>> {
        if pointer.is_null() { Ok(None) } else { Out::new(name, pointer).map(Some) }
    }

    /// Writes the value, at any alignment.
    pub fn set(self, value: T) {
        // SAFETY: the bytes were just found writable, and the caller of the C function gave them to us to
        // write.
        unsafe { self.0.write_unaligned(value) }
    }
}

/// A function of the user's; refuses NULL. It is declared as one that returns, as C has it, and called as one
/// that may not.
pub fn callable(
    name: &'static str,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
) -> Result<UserFunction> {
    let function = function.ok_or_else(|| not_null(name, 0).expect_err("it is NULL"))?;
    // SAFETY: the two types differ only in what the caller expects of it.
    Ok(unsafe { std::mem::transmute::<unsafe extern "C" fn(*mut c_void), UserFunction>(function) })
}

/// A C string that can be read, or `None` for NULL. What is no UTF-8 in it is replaced.
///
/// # Safety
/// As [`bytes`].
pub unsafe fn text(name: &'static str, pointer: *const c_char) -> Result<Option<String>> {
    // SAFETY: passed on to the caller.
    let bytes = unsafe { bytes(name, pointer) }?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The bytes of a C string that can be read, 4096 at most, or `None` for NULL.
///
/// # Safety
/// The string does not change during the call.
pub unsafe fn bytes(name: &'static str, pointer: *const c_char) -> Result<Option<Vec<u8>>> {
    const MAX_TEXT: usize = 4096;
    if pointer.is_null() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    for index in 0..MAX_TEXT {
        let byte = pointer.wrapping_add(index).cast::<u8>();
        if index == 0 || (byte as usize).is_multiple_of(64) {
            readable((name, byte as usize, 1, 1))?;
        }
        // SAFETY: every page of the string is found readable before the first byte in it is read.
        match unsafe { byte.read() } {
            0 => break,
            other => bytes.push(other),
        }
    }
    Ok(Some(bytes))
}

/// Makes sure that a C string of any length can be read to its end.
///
/// # Safety
/// The string does not change during the call.
pub unsafe fn ends(name: &'static str, pointer: *const c_char) -> Result<()> {
    const PAGE: usize = 4096;
    let mut at = pointer as usize;
    loop {
        let len = PAGE - at % PAGE;
        readable((name, at, len, 1))?;
        // SAFETY: every byte up to the end of the page was just found readable.
        if unsafe { std::slice::from_raw_parts(at as *const u8, len) }.contains(&0) {
            return Ok(());
        }
        at += len;
    }
}

/// An array argument of `count` elements that can be read, at any alignment.
///
/// # Safety
/// The array does not change during the call.
pub unsafe fn array<'a, T: Copy>(
    name: &'static str,
    pointer: *const T,
    count: usize,
) -> Result<Cow<'a, [T]>> {
    readable(given(name, pointer, count))?;
    // SAFETY: found readable.
    Ok(unsafe { seen(pointer, count) })
}

/// An array as the rules about arrays want it.
pub fn given<T>(name: &'static str, pointer: *const T, count: usize) -> ArrayArgument {
    (name, pointer as usize, count, size_of::<T>())
}

/// As [`array`], of one that was found readable before.
///
/// # Safety
/// Every byte of it can be read, and stays as it is as long as the result is used.
pub unsafe fn seen<'a, T: Copy>(pointer: *const T, count: usize) -> Cow<'a, [T]> {
    if count == 0 {
        return Cow::Borrowed(&[]);
    }
    if pointer.is_aligned() {
        // SAFETY: the caller's promise; C arrays of pointers, sizes and plain structs have no invalid values.
        return Cow::Borrowed(unsafe { std::slice::from_raw_parts(pointer, count) });
    }
    // SAFETY: as above, read one by one since they are not aligned.
    (0..count).map(|index| unsafe { pointer.wrapping_add(index).read_unaligned() }).collect()
}
