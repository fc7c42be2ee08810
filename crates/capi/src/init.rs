//! Initialisation and messages.

use crate::{
    enter::{Out, bytes, enter},
    types::aclError,
};
use ferry_acl::{
    Result,
    functions::{self, ApiFunction},
    messages,
    rules::init,
    state::Here,
};
use std::{
    ffi::{OsString, c_char},
    os::unix::ffi::OsStringExt,
    path::Path,
    ptr,
};

/// Initialises acl, with the path of a JSON configuration or NULL.
///
/// # Safety
/// `configPath` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclInit(configPath: *const c_char) -> aclError {
    enter(&functions::aclInit, |_| {
        // SAFETY: the C contract.
        let path = unsafe { bytes("configPath", configPath) }?.map(OsString::from_vec);
        init::init(path.as_deref().map(Path::new))
    })
}

/// Shuts acl down.
#[unsafe(no_mangle)]
pub extern "C" fn aclFinalize() -> aclError {
    enter(&functions::aclFinalize, init::finalize)
}

/// Takes one aclInit back and shuts down with the last one; `refCount` receives how many are left.
///
/// # Safety
/// `refCount` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclFinalizeReference(refCount: *mut u64) -> aclError {
    enter(&functions::aclFinalizeReference, |here| {
        let out = Out::unless_null("refCount", refCount)?;
        let left = init::finalize_reference(here)?;
        if let Some(out) = out {
            out.set(left);
        }
        Ok(())
    })
}

/// The code of this thread's last call that failed.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtPeekAtLastError(level: i32) -> aclError {
    or_refusal(&functions::aclrtPeekAtLastError, |here| messages::last_error(here, level, false))
}

/// The code of this thread's last call that failed, which is forgotten.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetLastError(level: i32) -> aclError {
    or_refusal(&functions::aclrtGetLastError, |here| messages::last_error(here, level, true))
}

/// What `ask` finds, or the code of its refusal.
#[inline(always)]
fn or_refusal(function: &ApiFunction, ask: impl FnOnce(&Here) -> Result<aclError>) -> aclError {
    let mut found = 0;
    let refused = enter(function, |here| {
        found = ask(here)?;
        Ok(())
    });
    if refused != 0 { refused } else { found }
}

/// Returns and clears the messages of this thread's failed calls, newest on top; NULL if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    let mut shown = ptr::null();
    messages::take(|text| shown = text.as_ptr());
    shown
}

/// The name of the SoC.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSocName() -> *const c_char {
    let mut name = ptr::null();
    enter(&functions::aclrtGetSocName, |_| {
        name = init::soc_name()?.as_ptr();
        Ok(())
    });
    name
}
