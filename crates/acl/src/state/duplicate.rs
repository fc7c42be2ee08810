//! Refuses to be a second copy of this library in one process.
//!
//! Each copy would have an engine of its own, and neither would know the other's memory and streams. A
//! program that has found two files of the library is told which. This asks the dynamic loader, in C: every
//! library of the process is searched for the function by which a copy says that it has been used.

use crate::{Result, constants as c, error::fail};
use std::{
    ffi::{CStr, CString},
    mem::transmute,
};

/// The function that tells whether a copy has been used; `private.rs` of the C library exports it.
const IN_USE: &CStr = c"ferryInUse";

/// Refuses to be the second engine of this process.
pub(crate) fn none_in_use() -> Result<()> {
    match names().iter().find_map(|name| in_use(name)) {
        None => Ok(()),
        Some(other) => {
            let note = format!(
                "this process uses Ferry from {other} already, and now from {} too: they do not know each \
                 other's memory; see that all that use it find the same file (LD_LIBRARY_PATH)",
                this_library()
            );
            Err(fail(c::ACL_ERROR_INTERNAL_ERROR, note))
        }
    }
}

/// The file of the copy that a library is, or needs, if that has been used.
fn in_use(name: &CStr) -> Option<String> {
    // SAFETY: the name is a C string; nothing is loaded, so no initialiser runs.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: a library that is loaded, and a C string.
    let function = unsafe { libc::dlsym(handle, IN_USE.as_ptr()) };
    // This library's own answers that it is not, for as long as it is being opened.
    // SAFETY: this is the function's type in every version that has it.
    let used = !function.is_null()
        && unsafe { transmute::<*mut libc::c_void, extern "C" fn() -> i32>(function)() } != 0;
    let file = used.then(|| library_of(function));
    // SAFETY: opened above, once; the reference of the one who loaded it stays.
    unsafe { libc::dlclose(handle) };
    file
}

/// The names of all libraries of the process.
fn names() -> Vec<CString> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, names: *mut libc::c_void) -> i32 {
        // SAFETY: the list below, and a C string that lives while its library is loaded.
        let (names, name) =
            unsafe { (&mut *names.cast::<Vec<CString>>(), CStr::from_ptr((*info).dlpi_name)) };
        // The program itself has none.
        if !name.is_empty() {
            names.push(name.to_owned());
        }
        0
    }
    let mut names = Vec::new();
    // SAFETY: the function only adds to the list that it is given.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut names).cast()) };
    names
}

/// The file this code was loaded from.
pub(super) fn this_library() -> String {
    library_of(this_library as *const libc::c_void)
}

/// The file that a function was loaded from.
fn library_of(function: *const libc::c_void) -> String {
    // SAFETY: plain data for dladdr to fill.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about; the name stays valid while the library is loaded, and it is
    // never unloaded.
    let found = unsafe { libc::dladdr(function, &mut info) } != 0 && !info.dli_fname.is_null();
    if !found {
        return "?".into();
    }
    // SAFETY: dladdr gave a C string.
    unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}
