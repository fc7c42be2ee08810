//! Streams: made, destroyed, waited for, asked. What else can be set of one: `attributes.rs`.

use crate::{
    Error, Result,
    arguments::{limit_ms, refuse},
    callback::Callback,
    capture::{self, TaskKind},
    constants::{self as c, *},
    error::fail,
    faults,
    fork::is_forked,
    handles::Handles,
    interrupt,
    state::{Here, LEAST_PRIORITY, StreamEntry, engine, opened},
};
use ferry::engine::threads::as_here;
use ferry_core::{JoinKind, Kind};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// aclrtCreateStream and aclrtCreateStreamWithConfig. Unknown flags make a plain stream; a priority out of
/// range is the lowest, and all streams are served alike.
pub fn create(here: &Here, priority: u32, flags: u32) -> Result<usize> {
    let engine = engine()?;
    let entry = engine.make_stream(&*here.context()?, flags, false)?;
    entry.settings.priority.store(priority.min(LEAST_PRIORITY), Ordering::Relaxed);
    Ok(entry.handle)
}

/// ferryStreamAdopt: a stream over one of another library's.
///
/// # Safety
/// `native` is a stream of the backend's driver, and outlives this one.
pub unsafe fn adopt(here: &Here, native: usize) -> Result<usize> {
    let engine = engine()?;
    let context = here.context()?;
    // SAFETY: passed on from the caller.
    let stream = || unsafe { engine.runtime.adopt(Some(&context.halt), context.device, native) };
    Ok(engine.add_stream(&context, 0, false, stream)?.handle)
}

/// ferryStreamNative: what the backend's driver calls the stream, which is shared from here on.
pub fn native(here: &Here, handle: usize) -> Result<usize> {
    let entry = here.stream(handle)?;
    if let Some(part) = capture::of_stream(entry.handle) {
        let note = format!(
            "stream {:#x} is captured, or bound to a model: what other libraries put there would run at once",
            entry.handle
        );
        return Err(part.entry.refusal(c::ACL_ERROR_RT_STREAM_CAPTURED, &note));
    }
    Ok(entry.stream.share()?)
}

/// Refuses what would end a captured stream, or drop its work.
fn not_captured(entry: &StreamEntry) -> Result<()> {
    match capture::of_stream(entry.handle) {
        None => Ok(()),
        Some(part) => {
            let note = format!(
                "stream {:#x} is captured, or bound to a model: it can be neither destroyed nor aborted \
                 before aclmdlRICaptureEnd, or aclmdlRIUnbindStream",
                entry.handle
            );
            Err(part.entry.refusal(c::ACL_ERROR_RT_STREAM_CAPTURED, &note))
        }
    }
}

/// Refuses a wait for a captured stream, which breaks the capture: recorded work does not run.
fn not_waited_for(entry: &StreamEntry) -> Result<()> {
    match capture::of_stream(entry.handle).filter(|part| part.entry.mode.is_some()) {
        None => Ok(()),
        Some(part) => {
            let note = format!(
                "stream {:#x} is captured: its work is recorded and does not run, so that it can be neither \
                 waited for nor queried. Ways out: do it before the capture or after aclmdlRICaptureEnd; or \
                 use a stream that is not captured",
                entry.handle
            );
            Err(part.entry.break_by(c::ACL_ERROR_RT_STREAM_CAPTURED, note))
        }
    }
}

/// aclrtDestroyStream: waits for its tasks.
pub fn destroy(here: &Here, handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = here.stream(handle)?.not_default()?;
    not_captured(&entry)?;
    let work = entry.stream.fence()?;
    interrupt::wait(here, None, |limit| work.wait(limit))?;
    engine.runtime.joined(&*work, JoinKind::Wait);
    capture::cancel_update(&entry);
    engine.end_stream(&entry);
    here.stream.take();
    Ok(())
}

/// aclrtDestroyStreamForce: drops its tasks.
pub fn destroy_force(here: &Here, handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = here.stream(handle)?.not_default()?;
    not_captured(&entry)?;
    entry.stream.abort();
    capture::cancel_update(&entry);
    engine.end_stream(&entry);
    here.stream.take();
    Ok(())
}

/// aclrtStreamAbort: drops its tasks; waits for the stream end with an error. It can be used again
/// afterwards.
pub fn abort(here: &Here, handle: usize) -> Result<()> {
    let entry = here.stream(handle)?;
    not_captured(&entry)?;
    entry.stream.abort();
    Ok(())
}

/// Drops all work of all streams, and returns when none of it touches memory any more: for a process that is
/// about to end, and takes memory away that copies in flight would use.
pub fn abort_all() {
    if let Some(engine) = opened().filter(|_| !is_forked()) {
        engine.streams.all().iter().for_each(|entry| entry.stream.abort());
    }
}

/// Work of the stream that was never ours has failed: all streams of its context stop for good, and every
/// synchronise fails with this code and note. What ends the context ends that: aclrtResetDevice for a default
/// one.
pub(crate) fn stop(here: &Here, handle: usize, code: i32, note: &str) -> Result<()> {
    let entry = here.stream(handle)?;
    entry.stream.status().stop_all(Kind::Native(code).because(note.to_owned()));
    Ok(())
}

/// aclrtSynchronizeStreamWithTimeout: for ever if -1.
pub fn synchronize_within(here: &Here, handle: usize, timeout: i32) -> Result<()> {
    here.stream(handle)?;
    synchronize(here, handle, limit_ms(timeout)?)
}

/// aclrtSynchronizeStream.
pub fn synchronize(here: &Here, handle: usize, limit: Option<Duration>) -> Result<()> {
    let entry = here.stream(handle)?;
    not_waited_for(&entry)?;
    if entry.is_never_waited_for() {
        return Ok(());
    }
    faults::sync()?;
    let work = entry.stream.so_far()?;
    interrupt::wait(here, limit, |limit| work.wait(limit))
        .and_then(|()| entry.stream.status().take_error().map_or(Ok(()), Err))
        .map_err(|error| timed_out(error, limit, format!("stream {handle:#x}")))
}

/// The error of a wait for streams that failed: if it took too long, the note says whose work is left.
pub(crate) fn timed_out(error: ferry_core::Error, limit: Option<Duration>, whose: String) -> Error {
    match (error.kind, limit) {
        (Kind::Timeout, Some(limit)) => {
            let note = format!("{whose} still has work after {} ms", limit.as_millis());
            fail(c::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, note)
        }
        _ => error.into(),
    }
}

/// aclrtStreamQuery: the status number.
pub fn query(here: &Here, handle: usize) -> Result<i32> {
    let entry = here.stream(handle)?;
    not_waited_for(&entry)?;
    if !entry.stream.is_idle()? {
        return Ok(ACL_STREAM_STATUS_NOT_READY);
    }
    entry.stream.status().take_error().map_or(Ok(ACL_STREAM_STATUS_COMPLETE), |error| Err(error.into()))
}

/// aclrtSetStreamFailureMode: 1 stops all streams of the context when work of this one fails. Documented:
/// once per stream.
pub fn set_failure_mode(here: &Here, handle: usize, mode: u64) -> Result<()> {
    let engine = engine()?;
    let entry = here.stream(handle)?;
    let options = &engine.settings.options;
    if handle == 0 && !options.product.is_newest() {
        return Err(refuse(format!(
            "stream is NULL: on {} the default stream keeps continuing after a failure",
            options.soc
        )));
    }
    let stop = match i32::try_from(mode) {
        Ok(ACL_CONTINUE_ON_FAILURE) => false,
        Ok(ACL_STOP_ON_FAILURE) => true,
        _ => {
            let note = format!("mode is {mode}: give ACL_CONTINUE_ON_FAILURE (0) or ACL_STOP_ON_FAILURE (1)");
            return Err(refuse(note));
        }
    };
    if entry.has_mode.swap(true, Ordering::AcqRel) {
        return Err(refuse(format!("the failure mode of stream {handle:#x} was set before: it is set once")));
    }
    if stop {
        entry.stream.status().stop_all_on_failure();
        entry.settings.stops.store(true, Ordering::Relaxed);
    }
    Ok(())
}

/// aclrtStreamGetId: a small number that no other living stream of the process has.
pub fn id(here: &Here, handle: usize) -> Result<i32> {
    let entry = here.stream(handle)?;
    Ok(Handles::<StreamEntry>::index(entry.handle) as i32)
}

/// aclrtLaunchHostFunc: `function` runs in stream order on a thread of ours.
pub fn launch_host_func(here: &Here, handle: usize, callback: Callback) -> Result<()> {
    let entry = here.stream(handle)?;
    match capture::of_stream(entry.handle) {
        Some(part) => part.add(TaskKind::Call, |recording, branch| {
            let call = move || {
                let again = callback.again();
                as_here(move || again.take().run_here())();
            };
            recording.call(branch, Arc::new(call));
        }),
        None => {
            entry.stream.call(as_here(move || callback.take().run_here()))?;
            Ok(())
        }
    }
}
