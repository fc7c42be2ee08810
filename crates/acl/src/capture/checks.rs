//! Unsafe calls: those that would wait while a capture goes on.

use super::{
    entry::{CaptureEntry, break_all},
    mode::{CaptureMode, forbids},
    registry::{any, of_context, of_stream, update_of_stream},
};
use crate::{
    Result,
    constants::*,
    settings::settings,
    state::{Here, StreamEntry},
};
use std::sync::Arc;

/// Refuses a synchronous copy or fill if a capture in the current context forbids it.
#[inline]
pub(crate) fn check_synchronous(here: &Here) -> Result<()> {
    if !any() {
        return Ok(());
    }
    let what = "a synchronous copy or fill waits and cannot be captured: a capture forbids it to this thread";
    check_unsafe(here, here.context()?.handle, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, what)
}

/// Refuses an asynchronous copy or fill of pageable memory: on a captured stream always, on others where a
/// capture forbids it.
#[inline]
pub(crate) fn check_pageable(here: &Here, stream: &StreamEntry) -> Result<()> {
    if !any() {
        return Ok(());
    }
    let code = ACL_ERROR_RT_CAPTURE_MODE_BLOCK_ASYNC;
    if let Some(part) = of_stream(stream.handle) {
        let (what, instead) = match part.entry.is_built() {
            true => ("be part of a model", "copy on a stream that is not bound"),
            false => ("be captured, in any mode", "copy outside of the capture"),
        };
        let note = format!(
            "host memory that is not page-locked cannot {what}. Ways out: allocate it with aclrtMallocHost, \
             or register it with aclrtHostRegister; or {instead}"
        );
        return Err(part.entry.break_by(code, note));
    }
    if let Some(update) = update_of_stream(stream.handle) {
        return Err(update.is_pageable());
    }
    let what = "an asynchronous copy or fill of host memory that is not page-locked waits: a capture \
                forbids it to this thread";
    check_unsafe(here, stream.context, code, what)
}

#[cold]
fn check_unsafe(here: &Here, context: usize, code: i32, what: &str) -> Result<()> {
    let quirks = settings()?.quirks;
    let thread = CaptureMode::try_from(here.capture_mode.get()).unwrap_or_default();
    let refuses = |capture: &&Arc<CaptureEntry>| {
        capture.mode.is_some_and(|mode| forbids(mode, capture.is_by(here), thread))
    };
    let captures = of_context(context);
    let Some(first) = captures.iter().find(refuses) else { return Ok(()) };
    let note = format!(
        "{what}. Ways out: make the call before the capture or after it; use page-locked memory and an \
         asynchronous call on a stream that is not captured; let this thread make the call at its own risk, \
         by aclmdlRICaptureThreadExchangeMode with RELAXED before it and back after it; or capture in a mode \
         that forbids less"
    );
    let survives = code == ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT && quirks.capture_survives_unsafe_calls();
    if survives {
        return Err(first.refusal(code, &note));
    }
    break_all(captures.iter().filter(refuses), code, &note).map_or(Ok(()), Err)
}

/// F2: a synchronous copy to a device by another thread breaks a capture of mode THREAD_LOCAL, though it is
/// not refused.
#[cold]
pub(crate) fn note_upload(here: &Here, context: usize) {
    let quirks = settings().map(|settings| settings.quirks).unwrap_or_default();
    if !quirks.thread_local_capture_breaks_on_other_threads_uploads() {
        return;
    }
    let note = "another thread made a synchronous copy to the device (quirk F2)";
    let is_meant =
        |capture: &&Arc<CaptureEntry>| capture.mode == Some(CaptureMode::ThreadLocal) && !capture.is_by(here);
    of_context(context).iter().filter(is_meant).for_each(|capture| capture.invalidate(note));
}
