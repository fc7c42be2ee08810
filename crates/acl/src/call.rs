//! What happens around every call: the fork check, product support, panics, and what becomes of a failure.
//!
//! This is the top of the crate: `capi` runs the body of every C function in [`call`], which finds the state
//! of the thread once and hands it to the rules.

use crate::{
    Error, Result, constants as c,
    error::fail,
    exceptions,
    fork::{FORKED, is_forked},
    functions::ApiFunction,
    log::{self, Level, Module},
    messages,
    rules::{learnt_elsewhere, report as callbacks, stream},
    state::{Here, if_here, with_here},
    watched,
};
use ferry::engine::{
    fork,
    threads::cancel::{self, Cancelling},
};
use ferry_watch::{caller::CodePosition, site};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
};

/// Runs the body of a C function with the state of this thread: no panic leaves it, and a failure becomes a
/// code and a message of this thread.
#[inline(always)]
pub fn call(function: &ApiFunction, body: impl FnOnce(&Here) -> Result<()>) -> i32 {
    let is_watched = enter(function);
    run(function, is_watched, body)
}

/// As [`call`], for a function with a fast path, which returns false if it has done nothing and `body` has
/// to. The thread can be cancelled in the fast path, so it makes no system call that is a cancellation point.
#[inline(always)]
pub fn call_fast(
    function: &ApiFunction,
    fast: impl FnOnce(&Here) -> bool,
    body: impl FnOnce(&Here) -> Result<()>,
) -> i32 {
    let is_watched = enter(function);
    let quick = || if_here(|here| function.allowed().is_ok() && fast(here));
    // The facts of the fast path are its ops.
    if !is_forked() && matches!(catch_unwind(AssertUnwindSafe(quick)), Ok(true)) {
        cancel::end_if_cancelled();
        return c::ACL_SUCCESS;
    }
    run(function, is_watched, body)
}

/// Notes a call of a process that is watched. Inlined into the C function, whose return address is meant.
#[inline(always)]
fn enter(function: &ApiFunction) -> bool {
    let is_watched = site::is_on();
    if is_watched {
        watched::enter(function, CodePosition::note());
    }
    is_watched
}

#[inline]
fn run(function: &ApiFunction, is_watched: bool, body: impl FnOnce(&Here) -> Result<()>) -> i32 {
    let cancelling = Cancelling::off();
    if is_watched {
        site::begin();
        learnt_elsewhere::learn();
    }
    let code = guarded(function, body);
    if is_watched {
        watched::leave(code);
    }
    cancelling.back();
    code
}

#[inline]
fn guarded(function: &ApiFunction, body: impl FnOnce(&Here) -> Result<()>) -> i32 {
    if is_forked() {
        return refuse_in_child(function.name);
    }
    let checked = || {
        with_here(|here| {
            here.count_call();
            here.function.set(function.name);
            here.turns.end_those_left(callbacks::returned);
            function.allowed()?;
            body(here)
        })
    };
    match catch_unwind(AssertUnwindSafe(checked)) {
        Ok(Ok(())) => c::ACL_SUCCESS,
        Ok(Err(error)) => report(function.name, &error),
        Err(_) => report(function.name, &a_bug()),
    }
}

#[cold]
fn a_bug() -> Error {
    let note = "a bug in Ferry: please report it with the panic message on standard error";
    fail(c::ACL_ERROR_INTERNAL_ERROR, note)
}

/// Refuses a call of a language binding whose arguments C cannot be given; `name` is the function that the
/// program called.
pub fn refuse_call(name: &str, code: i32, note: String) -> i32 {
    if is_forked() { refuse_in_child(name) } else { report(name, &fail(code, note)) }
}

/// An operator of a companion library fails, as all of them do: its stream and all others of the context stop
/// for good. Says so on standard error once in a process, since callers that launch operators from a thread
/// of their own are told of the first failure only.
pub fn fail_operator(name: &str, stream: usize, code: i32, note: String) -> i32 {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if is_forked() {
        return refuse_in_child(name);
    }
    let cancelling = Cancelling::off();
    let stop = || with_here(|here| stream::stop(here, stream, code, &note));
    let failed = || stop().err().unwrap_or_else(|| fail(code, note.clone()));
    let error = catch_unwind(AssertUnwindSafe(failed)).unwrap_or_else(|_| a_bug());
    if error.code == code && !TOLD.swap(true, Ordering::Relaxed) {
        log::print(libc::STDERR_FILENO, format!("ferry: {note}\n").as_bytes());
    }
    let code = report(name, &error);
    cancelling.back();
    code
}

/// The code of every call in a child of a process that used Ferry. A child that the C library does not know
/// of may use none of its locks, the allocator's included: its message is a constant (`messages.rs`).
#[cold]
fn refuse_in_child(name: &str) -> i32 {
    match fork::by_c_library() {
        true => report(name, &fail(c::ACL_ERROR_RT_CONTEXT_NULL, FORKED.to_str().unwrap_or_default())),
        false => c::ACL_ERROR_RT_CONTEXT_NULL,
    }
}

/// Keeps the code and the message for the functions that ask for them, and logs a line.
#[cold]
fn report(name: &str, error: &Error) -> i32 {
    if !is_forked() {
        exceptions::run_due();
    }
    let text = format!("{name} failed with {} {}: {}", error.code, c::error_name(error.code), error.note);
    log::write(Module::Ascendcl, Level::Error, || text.clone());
    if site::is_on() {
        watched::failed(error.code, &text);
    }
    messages::keep(error.code, text);
    error.code
}
