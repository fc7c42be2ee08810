//! Streams and host functions.

use crate::{
    enter::{Out, callable, enter},
    types::{aclError, aclrtEvent, aclrtHostFunc, aclrtStream},
};
use ferry_acl::{
    arguments::not_null,
    callback::Callback,
    functions,
    rules::{event, stream},
};
use std::ffi::c_void;

/// Makes a stream of the current context.
///
/// # Safety
/// `stream` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateStream(stream: *mut aclrtStream) -> aclError {
    enter(&functions::aclrtCreateStream, |here| {
        let out = Out::new("stream", stream)?;
        out.set(stream::create(here, 0, 0)? as aclrtStream);
        Ok(())
    })
}

/// Makes a stream with a priority, which is kept and told, and flags.
///
/// # Safety
/// `stream` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateStreamWithConfig(
    stream: *mut aclrtStream,
    priority: u32,
    flag: u32,
) -> aclError {
    enter(&functions::aclrtCreateStreamWithConfig, |here| {
        let out = Out::new("stream", stream)?;
        out.set(stream::create(here, priority, flag)? as aclrtStream);
        Ok(())
    })
}

/// Waits for a stream's tasks and destroys it.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyStream(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtDestroyStream, |here| stream::destroy(here, stream as usize))
}

/// Destroys a stream and drops its tasks.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyStreamForce(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtDestroyStreamForce, |here| stream::destroy_force(here, stream as usize))
}

/// Drops a stream's tasks.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamAbort(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtStreamAbort, |here| stream::abort(here, stream as usize))
}

/// Waits for everything submitted to a stream.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStream(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtSynchronizeStream, |here| stream::synchronize(here, stream as usize, None))
}

/// Waits for everything submitted to a stream, for at most `timeout` milliseconds; -1 waits for ever.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeStreamWithTimeout(stream: aclrtStream, timeout: i32) -> aclError {
    enter(&functions::aclrtSynchronizeStreamWithTimeout, |here| {
        stream::synchronize_within(here, stream as usize, timeout)
    })
}

/// Whether everything submitted to a stream is done.
///
/// # Safety
/// `status` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtStreamQuery(stream: aclrtStream, status: *mut i32) -> aclError {
    enter(&functions::aclrtStreamQuery, |here| {
        let out = Out::new("status", status)?;
        out.set(stream::query(here, stream as usize)?);
        Ok(())
    })
}

/// What a failure of a stream's work does to the streams of its context.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetStreamFailureMode(stream: aclrtStream, mode: u64) -> aclError {
    enter(&functions::aclrtSetStreamFailureMode, |here| stream::set_failure_mode(here, stream as usize, mode))
}

/// A small number of a stream.
///
/// # Safety
/// `streamId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtStreamGetId(stream: aclrtStream, streamId: *mut i32) -> aclError {
    enter(&functions::aclrtStreamGetId, |here| {
        let out = Out::new("streamId", streamId)?;
        out.set(stream::id(here, stream as usize)?);
        Ok(())
    })
}

/// Later tasks of the stream wait for what the event has captured.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamWaitEvent(stream: aclrtStream, event: aclrtEvent) -> aclError {
    enter(&functions::aclrtStreamWaitEvent, |here| {
        not_null("event", event as usize)?;
        event::stream_wait(here, stream as usize, event as usize)
    })
}

/// Runs a function on a thread of the library, in stream order.
///
/// # Safety
/// `fn_` may be called with `args` on another thread until the stream has passed it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtLaunchHostFunc(
    stream: aclrtStream,
    fn_: aclrtHostFunc,
    args: *mut c_void,
) -> aclError {
    enter(&functions::aclrtLaunchHostFunc, |here| {
        let function = callable("fn", fn_)?;
        // SAFETY: the C contract lets a thread of ours call the function with its argument.
        let callback = unsafe { Callback::new("aclrtLaunchHostFunc", function, args as usize, None) };
        stream::launch_host_func(here, stream as usize, callback)
    })
}
