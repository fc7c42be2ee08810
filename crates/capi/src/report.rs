//! Callbacks that a thread of the program's runs.

use crate::{
    enter::{callable, enter},
    types::{aclError, aclrtCallback, aclrtStream},
};
use ferry_acl::{
    callback::{Callback, turns::Frame},
    constants::ACL_SUCCESS,
    functions,
    rules::report::{self},
};
use std::ffi::c_void;

/// Callbacks of the stream are for this thread.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSubscribeReport(threadId: u64, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtSubscribeReport, |here| report::subscribe(here, threadId, stream as usize))
}

/// Runs the callbacks of this thread that are due, or waits for one.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtProcessReport(timeout: i32) -> aclError {
    let frame = Frame::of(&timeout);
    let code = enter(&functions::aclrtProcessReport, |here| report::begin(here, timeout, frame));
    if code == ACL_SUCCESS {
        report::run(frame);
    }
    code
}

/// Has the stream's thread run a function when the stream gets here.
///
/// # Safety
/// `fn_` may be called with `userData` on the subscribed thread until it has run or the stream is
/// unsubscribed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtLaunchCallback(
    fn_: aclrtCallback,
    userData: *mut c_void,
    blockType: i32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtLaunchCallback, |here| {
        let function = callable("fn", fn_)?;
        // SAFETY: the C contract lets the subscribed thread call the function with its argument.
        let callback = unsafe { Callback::new("aclrtLaunchCallback", function, userData as usize, None) };
        report::launch(here, stream as usize, blockType, callback)
    })
}

/// Callbacks of the stream are for this thread no longer.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnSubscribeReport(threadId: u64, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtUnSubscribeReport, |here| report::unsubscribe(here, threadId, stream as usize))
}
