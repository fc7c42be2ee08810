//! A function of the user's that hears of failed tasks, and what it may ask.

use crate::{
    enter::enter,
    types::{aclError, aclrtExceptionInfo, aclrtExceptionInfoCallback},
};
use ferry_acl::{callback::UserFunction, exceptions, functions};

/// Has `callback` called for every task that fails; NULL ends that.
///
/// # Safety
/// `callback` may be called on any thread until another one is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtSetExceptionInfoCallback(callback: aclrtExceptionInfoCallback) -> aclError {
    enter(&functions::aclrtSetExceptionInfoCallback, |_| {
        type Given = unsafe extern "C" fn(*mut aclrtExceptionInfo);
        // SAFETY: the two types differ in what the argument is called and in what the caller expects of the
        // function.
        let function =
            callback.map(|function| unsafe { std::mem::transmute::<Given, UserFunction>(function) });
        // SAFETY: the C contract.
        unsafe { exceptions::set(function) };
        Ok(())
    })
}

/// The number of the task that failed, in its stream; 0xFFFFFFFF if `info` is not what the callback was
/// given.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetTaskIdFromExceptionInfo(info: *const aclrtExceptionInfo) -> u32 {
    exceptions::of(info as usize, |exception| exception.task)
}

/// The number of its stream; 0xFFFFFFFF if `info` is not what the callback was given.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetStreamIdFromExceptionInfo(info: *const aclrtExceptionInfo) -> u32 {
    exceptions::of(info as usize, |exception| exception.stream)
}

/// The thread that came to its stream last; 0xFFFFFFFF if `info` is not what the callback was given.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetThreadIdFromExceptionInfo(info: *const aclrtExceptionInfo) -> u32 {
    exceptions::of(info as usize, |exception| exception.thread)
}

/// Its device; 0xFFFFFFFF if `info` is not what the callback was given.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetDeviceIdFromExceptionInfo(info: *const aclrtExceptionInfo) -> u32 {
    exceptions::of(info as usize, |exception| exception.device)
}

/// Why it failed: aclError; 0xFFFFFFFF if `info` is not what the callback was given.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtGetErrorCodeFromExceptionInfo(info: *const aclrtExceptionInfo) -> u32 {
    exceptions::of(info as usize, |exception| exception.code)
}
