//! What AscendCL does not have: streams that other libraries of the process know as well. Declared in
//! `ferry_ext.h`.

use crate::{
    enter::{Out, enter},
    types::{aclError, aclrtStream},
};
use ferry_acl::{functions, rules::stream};
use std::ffi::c_void;

/// Makes a stream of the current context over a stream of another library.
///
/// # Safety
/// `native` is a stream of the backend's driver that outlives the new one; `stream` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryStreamAdopt(native: *mut c_void, stream: *mut aclrtStream) -> aclError {
    enter(&functions::ferryStreamAdopt, |here| {
        let out = Out::new("stream", stream)?;
        // SAFETY: the C contract.
        out.set(unsafe { stream::adopt(here, native as usize)? } as aclrtStream);
        Ok(())
    })
}

/// Shares a stream with other libraries, and says what the backend's driver calls it.
///
/// # Safety
/// `native` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferryStreamNative(stream: aclrtStream, native: *mut *mut c_void) -> aclError {
    enter(&functions::ferryStreamNative, |here| {
        let out = Out::new("native", native)?;
        out.set(stream::native(here, stream as usize)? as *mut c_void);
        Ok(())
    })
}
