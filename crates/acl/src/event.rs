//! Events by handle.

use crate::{
    Error, Result,
    call::refuse,
    constants::{self as c, *},
    error::fail,
    handles::Named,
    state::{Engine, engine, with_here},
    stream::limit_ms,
};
use ferry_core::{Event, Fence, Kind};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// An event of a device.
pub struct EventEntry {
    handle: usize,
    device: u32,
    event: Event,
    flags: u32,
    /// Made by aclrtCreateEventExWithFlag: counts as complete before it is first recorded.
    extended: bool,
}

impl Named for EventEntry {
    const TAG: usize = 3;
}

const ALL_FLAGS: u32 = (ACL_EVENT_SYNC
    | ACL_EVENT_CAPTURE_STREAM_PROGRESS
    | ACL_EVENT_TIME_LINE
    | ACL_EVENT_DEVICE_USE_ONLY
    | ACL_EVENT_EXTERNAL
    | ACL_EVENT_IPC) as u32;

/// What aclrtCreateEvent gives: cross-stream waiting and timing.
pub const PLAIN_FLAGS: u32 =
    (ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS | ACL_EVENT_TIME_LINE) as u32;

/// aclrtCreateEvent, aclrtCreateEventWithFlag, aclrtCreateEventExWithFlag.
pub fn create(flags: u32, extended: bool) -> Result<usize> {
    let engine = engine()?;
    let device = with_here(|here| Ok(here.context()?.device))?;
    let alone = [ACL_EVENT_EXTERNAL as u32, ACL_EVENT_IPC as u32].into_iter().find(|flag| flags & flag != 0);
    if flags == 0 || flags & !ALL_FLAGS != 0 || alone.is_some_and(|flag| flags != flag) {
        return Err(refuse(format!(
            "flag is {flags:#x}: give a combination of ACL_EVENT_SYNC (0x1), CAPTURE_STREAM_PROGRESS (0x2), TIME_LINE (0x8) and \
             DEVICE_USE_ONLY (0x10), or EXTERNAL (0x20) or IPC (0x40) alone"
        )));
    }
    let most = engine.settings.product.max_events;
    let state = engine.device(device)?;
    if state.events.fetch_add(1, Ordering::Relaxed) >= most {
        state.events.fetch_sub(1, Ordering::Relaxed);
        return Err(fail(
            c::ACL_ERROR_RT_NO_EVENT_RESOURCE,
            format!("device {device} has {most} events, the most there can be"),
        ));
    }
    let make = |handle| EventEntry { handle, device, event: Event::new(), flags, extended };
    Ok(engine.events.insert(make).handle)
}

/// aclrtDestroyEvent: never blocks.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = engine.events.remove(handle).ok_or_else(|| unknown(handle))?;
    engine.device(entry.device)?.events.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// aclrtRecordEvent.
pub fn record(handle: usize, stream: usize) -> Result<()> {
    let engine = engine()?;
    let stream = with_here(|here| here.stream(engine, stream))?;
    let entry = find(engine, handle)?;
    entry.same_device(stream.device)?;
    Ok(entry.event.record(&stream.stream)?)
}

/// aclrtStreamWaitEvent: later work of the stream waits for what the event has captured by now.
pub fn stream_wait(stream: usize, handle: usize) -> Result<()> {
    let engine = engine()?;
    let stream = with_here(|here| here.stream(engine, stream))?;
    let entry = find(engine, handle)?;
    entry.same_device(stream.device)?;
    if entry.flags & ACL_EVENT_SYNC as u32 == 0 {
        return Err(refuse(format!(
            "event {handle:#x} was made without ACL_EVENT_SYNC: streams cannot wait for it"
        )));
    }
    if let Some(mark) = entry.event.latest() {
        stream.stream.wait_for(mark)?;
    }
    Ok(())
}

/// aclrtQueryEventStatus: the recorded-status number.
pub fn query_status(handle: usize) -> Result<i32> {
    let entry = find(engine()?, handle)?;
    let complete = match entry.event.latest() {
        None => entry.extended,
        Some(mark) => mark.is_done() && !mark.failed(),
    };
    Ok(if complete { ACL_EVENT_RECORDED_STATUS_COMPLETE } else { ACL_EVENT_RECORDED_STATUS_NOT_READY })
}

/// aclrtSynchronizeEventWithTimeout: for ever if -1.
pub fn synchronize_within(handle: usize, timeout: i32) -> Result<()> {
    find(engine()?, handle)?;
    synchronize(handle, limit_ms(timeout)?)
}

/// aclrtSynchronizeEvent.
pub fn synchronize(handle: usize, limit: Option<Duration>) -> Result<()> {
    let entry = find(engine()?, handle)?;
    let Some(mark) = entry.event.latest() else { return Ok(()) };
    mark.wait(limit).map_err(|error| match (error.kind, limit) {
        (Kind::Timeout, Some(limit)) => {
            let note = format!("event {handle:#x} is not complete after {} ms", limit.as_millis());
            fail(c::ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, note)
        }
        _ => error.into(),
    })
}

/// aclrtEventElapsedTime in milliseconds.
pub fn elapsed_ms(start: usize, end: usize) -> Result<f32> {
    let engine = engine()?;
    let (first, second) = (find(engine, start)?, find(engine, end)?);
    let (first, second) = (first.timed()?, second.timed()?);
    let elapsed = second.elapsed_ms(&*first).ok_or_else(|| {
        fail(
            c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
            "both events must be complete and of one device: synchronise first",
        )
    })?;
    if elapsed < 0.0 {
        let note = format!("event {end:#x} was reached {} ms before event {start:#x}", -elapsed);
        return Err(fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, note));
    }
    Ok(elapsed as f32)
}

impl EventEntry {
    fn same_device(&self, device: u32) -> Result<()> {
        if self.device == device {
            return Ok(());
        }
        let note =
            format!("event {:#x} is of device {}, the stream of device {device}", self.handle, self.device);
        Err(fail(c::ACL_ERROR_RT_STREAM_CONTEXT, note))
    }

    fn timed(&self) -> Result<Arc<dyn Fence>> {
        let missing =
            |why| fail(c::ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, format!("event {:#x} {why}", self.handle));
        if self.flags & ACL_EVENT_TIME_LINE as u32 == 0 {
            return Err(missing("was made without ACL_EVENT_TIME_LINE"));
        }
        self.event.latest().ok_or_else(|| missing("was never recorded"))
    }
}

fn find(engine: &Engine, handle: usize) -> Result<Arc<EventEntry>> {
    engine.events.get(handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no event, or one that was destroyed"))
}
