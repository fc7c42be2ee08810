//! Messages and codes of failed calls, for aclGetRecentErrMsg and aclrtGetLastError: those of this thread,
//! or, if aclInit's configuration says so, of all threads.

use crate::{
    Result, constants as c,
    error::fail,
    fork::{FORKED, is_forked},
    state::{Here, with_here},
};
use ferry::engine::fork;
use ferry_core::sync::lock;
use std::{
    ffi::{CStr, CString},
    mem,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// How many messages are kept for a thread that never asks for them.
const MAX_MESSAGES: usize = 16;

/// Whether threads share their messages.
static SHARING: AtomicBool = AtomicBool::new(false);
/// The messages that threads share.
static SHARED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Lets all threads share their messages from here on, or not; what was shared and not taken is gone.
pub(crate) fn share(on: bool) {
    SHARING.store(on, Ordering::Relaxed);
    lock(&SHARED).clear();
}

/// Not in a forked child, where the thread that had the lock may not exist.
fn is_sharing() -> bool {
    SHARING.load(Ordering::Relaxed) && !is_forked()
}

/// Remembers a failure.
pub(crate) fn keep(code: i32, text: String) {
    let push = |messages: &mut Vec<String>| {
        if messages.len() == MAX_MESSAGES {
            messages.remove(0);
        }
        messages.push(text);
    };
    let _ = with_here(|here| {
        here.last_error.set(code);
        if is_sharing() {
            push(&mut lock(&SHARED))
        } else {
            push(&mut here.messages.borrow_mut())
        }
        Ok(())
    });
}

/// Shows the messages, newest on top, once, if there are any. The text is valid until this thread's next
/// call of this.
pub fn take(show: impl FnOnce(&CStr)) {
    if is_forked() && !fork::by_c_library() {
        return show(FORKED); // nothing else can be kept there
    }
    let _ = with_here(|here| {
        let mut messages = here.messages.take();
        if is_sharing() {
            messages.append(&mut mem::take(&mut *lock(&SHARED)));
        }
        messages.reverse();
        let text = messages.join("\n").replace('\0', "?");
        let mut shown = here.shown.borrow_mut();
        *shown = (!messages.is_empty()).then(|| CString::new(text).unwrap_or_default());
        if let Some(text) = shown.as_deref() {
            show(text);
        }
        Ok(())
    });
}

/// aclrtPeekAtLastError, and with `reset` aclrtGetLastError: the code of this thread's last call that failed.
/// A call that succeeds does not change it.
pub fn last_error(here: &Here, level: i32, reset: bool) -> Result<i32> {
    if level != c::ACL_RT_THREAD_LEVEL {
        let note = format!("level is {level}: it must be ACL_RT_THREAD_LEVEL (0)");
        return Err(fail(c::ACL_ERROR_INVALID_PARAM, note));
    }
    let code = here.last_error.get();
    if reset {
        here.last_error.set(c::ACL_SUCCESS);
    }
    Ok(code)
}
