//! Callbacks that a thread of the user's runs: aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport.
//!
//! A callback that ends its thread, or leaves by longjmp, does not return to its caller. So what is to be
//! done after it is kept with the thread and not on its stack (`callback/turns.rs`), and aclrtProcessReport
//! has two parts: [`begin`], which is a call like others, and [`run`], whose frame has nothing to drop.

use crate::{
    Result,
    arguments::{limit_ms, refuse},
    callback::{
        Callback, ReadyCallback,
        mailbox::{self, CallbackPlace},
        turns::Frame,
    },
    capture::{self, TaskKind},
    constants::*,
    error::fail,
    interrupt,
    state::{Here, engine, with_here},
};
use ferry::engine::threads::cancel::Cancelling;
use ferry_core::JoinKind;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Instant,
};

/// aclrtSubscribeReport: callbacks of the stream are for this thread.
pub fn subscribe(here: &Here, thread: u64, stream: usize) -> Result<()> {
    let entry = here.stream(stream)?;
    if thread == 0 {
        return Err(refuse(
            "threadId is 0: give what pthread_self() returns in the thread that is to run the callbacks",
        ));
    }
    mailbox::subscribe(thread, entry.handle, entry.device, || entry.is_alive())
}

/// aclrtUnSubscribeReport: callbacks that have not run never will.
pub fn unsubscribe(here: &Here, thread: u64, stream: usize) -> Result<()> {
    mailbox::unsubscribe(thread, here.stream(stream)?.handle)
}

/// aclrtLaunchCallback: `callback` becomes due when the stream gets here.
pub fn launch(here: &Here, stream: usize, block_type: i32, callback: Callback) -> Result<()> {
    let entry = here.stream(stream)?;
    let blocks = match block_type {
        ACL_CALLBACK_NO_BLOCK => false,
        ACL_CALLBACK_BLOCK => true,
        _ => {
            let note = format!(
                "blockType is {block_type}: give ACL_CALLBACK_NO_BLOCK (0) or ACL_CALLBACK_BLOCK (1)"
            );
            return Err(refuse(note));
        }
    };
    let handle = entry.handle;
    let Some(part) = capture::of_stream(handle) else {
        return mailbox::launch(handle, &entry.stream, blocks, callback);
    };
    part.each(TaskKind::Call, move |stream| mailbox::launch(handle, stream, blocks, callback.again()))
}

/// The first part of aclrtProcessReport, which is at `frame`: waits for a callback that is due. [`run`]
/// follows.
pub fn begin(here: &Here, timeout: i32, frame: Frame) -> Result<()> {
    let limit = limit_ms(timeout)?;
    let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
    let engine = engine()?;
    let mailbox = mailbox::of_this_thread()?;
    let slice = here.is_watched().then_some(interrupt::SLICE);
    loop {
        let found = mailbox.wait(deadline, slice, || Ok(interrupt::ask(here)?))?;
        let mut pending = found.ok_or_else(|| {
            let note = format!("no callback was due within {timeout} ms");
            fail(ACL_ERROR_RT_REPORT_TIMEOUT, note)
        })?;
        if let Some(ready) = pending.open() {
            pending.place().tell_joined(&engine.runtime, JoinKind::Wait);
            here.turns.push(frame, mailbox, pending, ready);
            return Ok(());
        }
    }
}

/// The second part of aclrtProcessReport, which is at `frame`: runs the callback that was waited for, and
/// those that are due. Nothing in this frame has a destructor while a callback runs.
pub fn run(frame: Frame) {
    while let Some(ready) = next(frame) {
        ready.run_deep();
    }
}

/// Between two callbacks the thread cannot be cancelled.
fn next(frame: Frame) -> Option<ReadyCallback> {
    let cancelling = Cancelling::off();
    let next = catch_unwind(AssertUnwindSafe(|| with_here(|here| Ok(next_here(here, frame)))));
    cancelling.back_unseen();
    next.ok()?.ok()?
}

/// The thread does not run this callback any more.
pub(crate) fn returned(place: CallbackPlace) {
    if let Ok(engine) = engine() {
        place.tell_returned(&engine.runtime);
    }
}

/// What is due without a wait: the thread learns that its stream has come there.
fn next_here(here: &Here, frame: Frame) -> Option<ReadyCallback> {
    let (ready, found) = here.turns.next(frame, returned)?;
    if let (Some(place), Ok(engine)) = (found, engine()) {
        place.tell_joined(&engine.runtime, JoinKind::Query);
    }
    Some(ready)
}
