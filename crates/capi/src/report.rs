//! Callbacks that a thread of the program's runs.

use crate::{aclError, aclrtCallback, aclrtStream, enter::enter};
use ferry_acl::{call::not_null, functions, report};
use std::ffi::c_void;

/// Callbacks of the stream are for this thread.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSubscribeReport(threadId: u64, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtSubscribeReport, || report::subscribe(threadId, stream as usize))
}

/// Runs the callbacks of this thread that are due, or waits for one.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtProcessReport(timeout: i32) -> aclError {
    enter(&functions::aclrtProcessReport, || report::process(timeout))
}

/// Has the stream's thread run a function when the stream gets here.
///
/// # Safety
/// `fn_` may be called with `userData` on the subscribed thread until it has run or the stream is unsubscribed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtLaunchCallback(
    fn_: aclrtCallback,
    userData: *mut c_void,
    blockType: i32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtLaunchCallback, || {
        not_null("fn", fn_.map_or(0, |function| function as usize))?;
        let (function, data) = (fn_, userData as usize);
        report::launch(stream as usize, blockType, move || {
            // SAFETY: the C contract lets the subscribed thread call the function with its argument.
            function.into_iter().for_each(|function| unsafe { function(data as *mut c_void) });
        })
    })
}

/// Callbacks of the stream are for this thread no longer.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnSubscribeReport(threadId: u64, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtUnSubscribeReport, || report::unsubscribe(threadId, stream as usize))
}
