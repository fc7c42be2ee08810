//! Events.

use crate::{
    enter::{Out, enter},
    types::{aclError, aclrtEvent, aclrtIpcEventHandle, aclrtStream},
};
use ferry_acl::{
    arguments::not_null,
    functions,
    rules::event::{self, EventMaker},
};
use std::ffi::c_char;

/// Makes an event for waiting and timing.
///
/// # Safety
/// `event` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateEvent(event: *mut aclrtEvent) -> aclError {
    enter(&functions::aclrtCreateEvent, |here| {
        let out = Out::new("event", event)?;
        out.set(event::create_plain(here)? as aclrtEvent);
        Ok(())
    })
}

/// Makes an event for what the flags say.
///
/// # Safety
/// `event` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateEventWithFlag(event: *mut aclrtEvent, flag: u32) -> aclError {
    enter(&functions::aclrtCreateEventWithFlag, |here| {
        let out = Out::new("event", event)?;
        out.set(event::create(here, flag, EventMaker::WithFlag)? as aclrtEvent);
        Ok(())
    })
}

/// Makes an event that counts as complete until it is first recorded.
///
/// # Safety
/// `event` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateEventExWithFlag(event: *mut aclrtEvent, flag: u32) -> aclError {
    enter(&functions::aclrtCreateEventExWithFlag, |here| {
        let out = Out::new("event", event)?;
        out.set(event::create(here, flag, EventMaker::ExWithFlag)? as aclrtEvent);
        Ok(())
    })
}

/// Destroys an event; never blocks.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyEvent(event: aclrtEvent) -> aclError {
    enter(&functions::aclrtDestroyEvent, |_| {
        not_null("event", event as usize)?;
        event::destroy(event as usize)
    })
}

/// Captures what was submitted to the stream so far.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtRecordEvent(event: aclrtEvent, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtRecordEvent, |here| {
        not_null("event", event as usize)?;
        event::record(here, event as usize, stream as usize)
    })
}

/// From here on in the stream the event counts as not recorded.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetEvent(event: aclrtEvent, stream: aclrtStream) -> aclError {
    enter(&functions::aclrtResetEvent, |here| {
        not_null("event", event as usize)?;
        event::reset(here, event as usize, stream as usize)
    })
}

/// Whether what the event captured is done.
///
/// # Safety
/// `status` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtQueryEventStatus(event: aclrtEvent, status: *mut i32) -> aclError {
    enter(&functions::aclrtQueryEventStatus, |_| {
        not_null("event", event as usize)?;
        let out = Out::new("status", status)?;
        out.set(event::query_status(event as usize)?);
        Ok(())
    })
}

/// Whether what the event captured is done, in the numbers of the deprecated query.
///
/// # Safety
/// `status` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtQueryEvent(event: aclrtEvent, status: *mut i32) -> aclError {
    enter(&functions::aclrtQueryEvent, |_| {
        not_null("event", event as usize)?;
        let out = Out::new("status", status)?;
        out.set(event::query(event as usize)?);
        Ok(())
    })
}

/// Whether some stream still waits for the event.
///
/// # Safety
/// `status` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtQueryEventWaitStatus(event: aclrtEvent, status: *mut i32) -> aclError {
    enter(&functions::aclrtQueryEventWaitStatus, |_| {
        not_null("event", event as usize)?;
        let out = Out::new("status", status)?;
        out.set(event::query_waits(event as usize)?);
        Ok(())
    })
}

/// Waits for what the event captured.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeEvent(event: aclrtEvent) -> aclError {
    enter(&functions::aclrtSynchronizeEvent, |here| {
        not_null("event", event as usize)?;
        event::synchronize(here, event as usize, None)
    })
}

/// Waits for what the event captured, for at most `timeout` milliseconds; -1 waits for ever.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeEventWithTimeout(event: aclrtEvent, timeout: i32) -> aclError {
    enter(&functions::aclrtSynchronizeEventWithTimeout, |here| {
        not_null("event", event as usize)?;
        event::synchronize_within(here, event as usize, timeout)
    })
}

/// Milliseconds between two events.
///
/// # Safety
/// `ms` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtEventElapsedTime(
    ms: *mut f32,
    startEvent: aclrtEvent,
    endEvent: aclrtEvent,
) -> aclError {
    enter(&functions::aclrtEventElapsedTime, |_| {
        let out = Out::new("ms", ms)?;
        not_null("startEvent", startEvent as usize)?;
        not_null("endEvent", endEvent as usize)?;
        out.set(event::elapsed_ms(startEvent as usize, endEvent as usize)?);
        Ok(())
    })
}

/// When the event was reached, in microseconds of its device's clock.
///
/// # Safety
/// `timestamp` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtEventGetTimestamp(event: aclrtEvent, timestamp: *mut u64) -> aclError {
    enter(&functions::aclrtEventGetTimestamp, |_| {
        not_null("event", event as usize)?;
        let out = Out::new("timestamp", timestamp)?;
        out.set(event::timestamp_us(event as usize)?);
        Ok(())
    })
}

/// A number of the event.
///
/// # Safety
/// `eventId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetEventId(event: aclrtEvent, eventId: *mut u32) -> aclError {
    enter(&functions::aclrtGetEventId, |_| {
        not_null("event", event as usize)?;
        let out = Out::new("eventId", eventId)?;
        out.set(event::id(event as usize)?);
        Ok(())
    })
}

/// What other processes open an event by.
///
/// # Safety
/// `handle` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtIpcGetEventHandle(
    event: aclrtEvent,
    handle: *mut aclrtIpcEventHandle,
) -> aclError {
    enter(&functions::aclrtIpcGetEventHandle, |_| {
        not_null("event", event as usize)?;
        let out = Out::new("handle", handle)?;
        let bytes = event::export_handle(event as usize)?;
        out.set(aclrtIpcEventHandle { reserved: bytes.map(|byte| byte as c_char) });
        Ok(())
    })
}

/// Opens an event of another process, or of this one.
///
/// # Safety
/// `event` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtIpcOpenEventHandle(
    handle: aclrtIpcEventHandle,
    event: *mut aclrtEvent,
) -> aclError {
    enter(&functions::aclrtIpcOpenEventHandle, |here| {
        let out = Out::new("event", event)?;
        let bytes = handle.reserved.map(|byte| byte.to_ne_bytes()[0]);
        out.set(event::open_handle(here, &bytes)? as aclrtEvent);
        Ok(())
    })
}

/// How long streams wait for events at most, in seconds; 0 is no limit.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetOpWaitTimeout(timeout: u32) -> aclError {
    enter(&functions::aclrtSetOpWaitTimeout, |_| {
        event::limit_waits(timeout);
        Ok(())
    })
}
