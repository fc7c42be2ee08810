//! Initialisation and messages.

use crate::{
    aclError,
    enter::{enter, text},
};
use ferry_acl::{call, functions, init};
use std::{
    ffi::{CStr, c_char},
    ptr,
};

/// Initialises acl, with the path of a JSON configuration or NULL.
///
/// # Safety
/// `configPath` is NULL or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclInit(configPath: *const c_char) -> aclError {
    enter(&functions::aclInit, || {
        // SAFETY: the C contract.
        let path = unsafe { text("configPath", configPath) }?;
        init::init(path.as_deref())
    })
}

/// Shuts acl down.
#[unsafe(no_mangle)]
pub extern "C" fn aclFinalize() -> aclError {
    enter(&functions::aclFinalize, init::finalize)
}

/// Returns and clears the messages of this thread's failed calls, newest on top; NULL if there are none.
#[unsafe(no_mangle)]
pub extern "C" fn aclGetRecentErrMsg() -> *const c_char {
    call::take_messages(|text| text.map_or(ptr::null(), CStr::as_ptr))
}

/// The name of the SoC.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetSocName() -> *const c_char {
    let mut name = ptr::null();
    enter(&functions::aclrtGetSocName, || {
        name = init::soc_name()?.as_ptr();
        Ok(())
    });
    name
}
