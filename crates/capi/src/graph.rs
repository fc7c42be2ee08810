//! Models that are captured from streams or built of them: aclmdlRI.

use crate::{
    enter::{Out, bytes, callable, enter, text},
    types::{aclError, aclmdlRI, aclrtCallback, aclrtEvent, aclrtStream, aclrtTaskGrp},
};
use ferry_acl::{
    arguments::{is_null, not_null, refuse, writable},
    callback::Callback,
    functions,
    rules::{event, graph, graph_build, graph_print, task_group},
};
use std::{
    ffi::{c_char, c_void},
    path::Path,
    ptr,
};

/// Begins to capture a stream.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureBegin(stream: aclrtStream, mode: i32) -> aclError {
    enter(&functions::aclmdlRICaptureBegin, |here| graph::capture_begin(here, stream as usize, mode))
}

/// Whether a stream is captured, and into which model.
///
/// # Safety
/// Both outputs are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRICaptureGetInfo(
    stream: aclrtStream,
    status: *mut i32,
    modelRI: *mut aclmdlRI,
) -> aclError {
    enter(&functions::aclmdlRICaptureGetInfo, |_| {
        let (status, model) = (Out::unless_null("status", status)?, Out::unless_null("modelRI", modelRI)?);
        let (now, handle) = graph::capture_info(stream as usize)?;
        status.into_iter().for_each(|out| out.set(now));
        model.into_iter().for_each(|out| out.set(handle as aclmdlRI));
        Ok(())
    })
}

/// Gives the thread another mode, and returns the one it had.
///
/// # Safety
/// `mode` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRICaptureThreadExchangeMode(mode: *mut i32) -> aclError {
    enter(&functions::aclmdlRICaptureThreadExchangeMode, |here| {
        if mode.is_null() {
            return Err(refuse("mode is NULL"));
        }
        let out = Out::new("mode", mode)?;
        // SAFETY: just found readable and writable.
        let wanted = unsafe { mode.read_unaligned() };
        out.set(graph::exchange_mode(here, wanted)?);
        Ok(())
    })
}

/// Ends a capture.
///
/// # Safety
/// `modelRI` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRICaptureEnd(stream: aclrtStream, modelRI: *mut aclmdlRI) -> aclError {
    enter(&functions::aclmdlRICaptureEnd, |here| {
        let out = Out::new("modelRI", modelRI)?;
        let ended = graph::capture_end(here, stream as usize);
        out.set(ended.as_ref().map_or(ptr::null_mut(), |model| *model as aclmdlRI));
        ended.map(drop)
    })
}

/// Begins a task group.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureTaskGrpBegin(stream: aclrtStream) -> aclError {
    enter(&functions::aclmdlRICaptureTaskGrpBegin, |here| task_group::begin(here, stream as usize))
}

/// Ends a task group.
///
/// # Safety
/// `handle` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRICaptureTaskGrpEnd(
    stream: aclrtStream,
    handle: *mut aclrtTaskGrp,
) -> aclError {
    enter(&functions::aclmdlRICaptureTaskGrpEnd, |here| {
        let out = Out::new("handle", handle)?;
        out.set(task_group::end(here, stream as usize)? as aclrtTaskGrp);
        Ok(())
    })
}

/// Begins to update a task group.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureTaskUpdateBegin(stream: aclrtStream, handle: aclrtTaskGrp) -> aclError {
    enter(&functions::aclmdlRICaptureTaskUpdateBegin, |here| {
        task_group::update_begin(here, stream as usize, handle as usize)
    })
}

/// Ends the update of a task group.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRICaptureTaskUpdateEnd(stream: aclrtStream) -> aclError {
    enter(&functions::aclmdlRICaptureTaskUpdateEnd, |here| task_group::update_end(here, stream as usize))
}

/// Writes the tasks of a model to a file.
///
/// # Safety
/// `path` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRIDebugJsonPrint(
    modelRI: aclmdlRI,
    path: *const c_char,
    flags: u32,
) -> aclError {
    enter(&functions::aclmdlRIDebugJsonPrint, |_| {
        // SAFETY: passed on from the caller.
        let path = unsafe { text("path", path) }?.ok_or_else(|| is_null("path"))?;
        graph_print::print_json(modelRI as usize, Path::new(&path), flags)
    })
}

/// Writes the tasks of a model to the log.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIDebugPrint(modelRI: aclmdlRI) -> aclError {
    enter(&functions::aclmdlRIDebugPrint, |_| graph_print::print(modelRI as usize))
}

/// Begins to build a model.
///
/// # Safety
/// `modelRI` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRIBuildBegin(modelRI: *mut aclmdlRI, flag: u32) -> aclError {
    enter(&functions::aclmdlRIBuildBegin, |here| {
        let out = Out::new("modelRI", modelRI)?;
        out.set(graph_build::begin(here, flag)? as aclmdlRI);
        Ok(())
    })
}

/// Binds a stream to a model that is being built.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIBindStream(modelRI: aclmdlRI, stream: aclrtStream, flag: u32) -> aclError {
    enter(&functions::aclmdlRIBindStream, |here| {
        graph_build::bind(here, modelRI as usize, stream as usize, flag)
    })
}

/// A bound stream has all of its tasks.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIEndTask(modelRI: aclmdlRI, stream: aclrtStream) -> aclError {
    enter(&functions::aclmdlRIEndTask, |here| graph_build::end_task(here, modelRI as usize, stream as usize))
}

/// The model is complete.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIBuildEnd(modelRI: aclmdlRI, reserve: *mut c_void) -> aclError {
    enter(&functions::aclmdlRIBuildEnd, |_| {
        if !reserve.is_null() {
            return Err(refuse(format!("reserve is {reserve:p}: it must be NULL")));
        }
        graph_build::end(modelRI as usize)
    })
}

/// Takes a stream from a model.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIUnbindStream(modelRI: aclmdlRI, stream: aclrtStream) -> aclError {
    enter(&functions::aclmdlRIUnbindStream, |here| {
        graph_build::unbind(here, modelRI as usize, stream as usize)
    })
}

/// Executes a model and waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIExecute(modelRI: aclmdlRI, timeout: i32) -> aclError {
    enter(&functions::aclmdlRIExecute, |here| graph::execute(here, modelRI as usize, timeout))
}

/// Executes a model as one task of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIExecuteAsync(modelRI: aclmdlRI, stream: aclrtStream) -> aclError {
    enter(&functions::aclmdlRIExecuteAsync, |here| {
        graph::execute_async(here, modelRI as usize, stream as usize)
    })
}

/// Destroys a model.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIDestroy(modelRI: aclmdlRI) -> aclError {
    enter(&functions::aclmdlRIDestroy, |_| graph::destroy(modelRI as usize))
}

/// Names a model.
///
/// # Safety
/// `name` is NULL or a C string that does not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRISetName(modelRI: aclmdlRI, name: *const c_char) -> aclError {
    enter(&functions::aclmdlRISetName, |_| {
        // SAFETY: passed on from the caller.
        let name = unsafe { bytes("name", name) }?.ok_or_else(|| is_null("name"))?;
        graph::set_name(modelRI as usize, &name)
    })
}

/// The name of a model.
///
/// # Safety
/// `name` is NULL or has room for `maxLen` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRIGetName(modelRI: aclmdlRI, maxLen: u32, name: *mut c_char) -> aclError {
    enter(&functions::aclmdlRIGetName, |_| {
        let text = graph::name(modelRI as usize)?;
        let Some(room) = (maxLen as usize).checked_sub(1) else {
            return Err(refuse("maxLen is 0: there is no room for the end of the name"));
        };
        let len = text.len().min(room);
        writable("name", name as usize, len + 1)?;
        // SAFETY: so many bytes were just found writable, and the caller gave them to us to write.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), name.cast::<u8>(), len);
            name.add(len).write(0);
        }
        Ok(())
    })
}

/// A number that no other model of the process has.
///
/// # Safety
/// `modelRIId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRIGetId(modelRI: aclmdlRI, modelRIId: *mut u32) -> aclError {
    enter(&functions::aclmdlRIGetId, |_| {
        let out = Out::new("modelRIId", modelRIId)?;
        out.set(graph::id(modelRI as usize)?);
        Ok(())
    })
}

/// Stops the execution of a model that was built.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIAbort(modelRI: aclmdlRI) -> aclError {
    enter(&functions::aclmdlRIAbort, |_| graph::abort(modelRI as usize))
}

/// Has a function run when a model is destroyed.
///
/// # Safety
/// `func` may be called with `userData` when the model is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclmdlRIDestroyRegisterCallback(
    modelRI: aclmdlRI,
    func: aclrtCallback,
    userData: *mut c_void,
) -> aclError {
    enter(&functions::aclmdlRIDestroyRegisterCallback, |_| {
        let function = callable("func", func)?;
        let by = "aclmdlRIDestroyRegisterCallback";
        // SAFETY: the C contract lets the destroying thread call the function with its argument.
        let callback = unsafe { Callback::new(by, function, userData as usize, None) };
        graph::on_destroy(modelRI as usize, function, callback)
    })
}

/// Takes that back.
#[unsafe(no_mangle)]
pub extern "C" fn aclmdlRIDestroyUnregisterCallback(modelRI: aclmdlRI, func: aclrtCallback) -> aclError {
    enter(&functions::aclmdlRIDestroyUnregisterCallback, |_| {
        graph::not_on_destroy(modelRI as usize, callable("func", func)?)
    })
}

/// In a model that is being built: `activeStream` begins when `stream` comes here.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtActiveStream(activeStream: aclrtStream, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtActiveStream, |here| {
        graph_build::activate(here, activeStream as usize, stream as usize)
    })
}

/// Records an event; with flag 1 as a task of a captured model that streams outside can wait for.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtRecordEventWithFlag(event: aclrtEvent, stream: aclrtStream, flag: u32) -> aclError {
    enter(&functions::aclrtRecordEventWithFlag, |here| {
        not_null("event", event as usize)?;
        event::record_with_flag(here, event as usize, stream as usize, flag)
    })
}

/// Waits for an event; with flag 1 as a task of a captured model that waits for a record outside.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtStreamWaitEventWithFlag(
    stream: aclrtStream,
    event: aclrtEvent,
    timeout: u32,
    flag: u32,
) -> aclError {
    enter(&functions::aclrtStreamWaitEventWithFlag, |here| {
        not_null("event", event as usize)?;
        event::wait_with_flag(here, stream as usize, event as usize, timeout, flag)
    })
}
