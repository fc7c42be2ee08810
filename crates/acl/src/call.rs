//! What happens around every call: the fork check, product support, panics, and messages.

use crate::{Error, Result, constants as c, functions::Function, state};
use ferry::probe;
use ferry_core::Access;
use std::{
    ffi::{CStr, CString},
    panic::{AssertUnwindSafe, catch_unwind},
};

/// Messages kept for a thread that never asks for them.
const MOST_MESSAGES: usize = 16;

/// Runs the body of a C function: no panic leaves it, and a failure becomes a code and a message of this thread.
#[inline]
pub fn call(function: &Function, body: impl FnOnce() -> Result<()>) -> i32 {
    let guarded = || {
        state::not_forked()?;
        state::count_call();
        function.allowed()?;
        body()
    };
    match catch_unwind(AssertUnwindSafe(guarded)) {
        Ok(Ok(())) => c::ACL_SUCCESS,
        Ok(Err(error)) => report(function.name, &error),
        Err(_) => {
            let note = "a bug in Ferry: please report it with the panic message on standard error";
            report(function.name, &crate::error::fail(c::ACL_ERROR_INTERNAL_ERROR, note))
        }
    }
}

/// Keeps the message for aclGetRecentErrMsg.
#[cold]
fn report(name: &str, error: &Error) -> i32 {
    let text = format!("{name} failed with {} {}: {}", error.code, c::error_name(error.code), error.note);
    let _ = state::with_here(|here| {
        let mut messages = here.messages.borrow_mut();
        if messages.len() == MOST_MESSAGES {
            messages.remove(0);
        }
        messages.push(text);
        Ok(())
    });
    error.code
}

/// The messages of this thread, newest on top, once. The text is valid until the next call of this.
pub fn take_messages<T>(show: impl FnOnce(Option<&CStr>) -> T) -> T {
    let mut show = Some(show);
    let shown = state::with_here(|here| {
        let messages = here.messages.take();
        let text = messages.iter().rev().cloned().collect::<Vec<_>>().join("\n").replace('\0', "?");
        let text = (!messages.is_empty()).then(|| CString::new(text).unwrap_or_default());
        let mut shown = here.shown.borrow_mut();
        *shown = text;
        let show = show.take().expect("called once");
        Ok(show(shown.as_deref()))
    });
    match (shown, show) {
        (Ok(value), _) => value,
        (Err(_), Some(show)) => show(None),
        (Err(_), None) => unreachable!("with_here fails before it calls its body"),
    }
}

/// `addr`, unless it is NULL.
#[inline]
pub fn not_null(name: &'static str, addr: usize) -> Result<()> {
    if addr != 0 { Ok(()) } else { Err(is_null(name)) }
}

#[cold]
fn is_null(name: &'static str) -> Error {
    crate::error::fail(c::ACL_ERROR_INVALID_PARAM, format!("{name} is NULL"))
}

/// Makes sure that `len` bytes at an output argument can be written.
pub fn writable(name: &'static str, addr: usize, len: usize) -> Result<()> {
    not_null(name, addr)?;
    probe::accessible(addr, len, Access::Write).map_err(|why| refuse(format!("{name}: {why}")))
}

/// Makes sure that an array of `count` elements of `size` bytes can be read.
pub fn readable(name: &'static str, addr: usize, count: usize, size: usize) -> Result<()> {
    not_null(name, addr)?;
    let len = count.checked_mul(size).ok_or_else(|| refuse(format!("{name}: {count} elements overflow")))?;
    probe::accessible(addr, len, Access::Read).map_err(|why| refuse(format!("{name}: {why}")))
}

/// Refuses an argument whose value breaks a rule of the runtime.
pub(crate) fn refuse(note: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    crate::error::fail(c::ACL_ERROR_RT_PARAM_INVALID, note)
}
