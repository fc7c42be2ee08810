//! What happens around every call: the fork check, product support, panics, and what becomes of a failure.

use crate::{
    Error, Result, constants as c,
    functions::Function,
    log::{self, Level, Module},
    messages,
    state::{self, Here},
};
use ferry::engine::probe;
use ferry_core::Access;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of a C function: no panic leaves it, and a failure becomes a code and a message of this thread.
#[inline]
pub fn call(function: &Function, body: impl FnOnce() -> Result<()>) -> i32 {
    call_here(function, |_| body())
}

/// The same for a body that needs the state of this thread.
#[inline]
pub fn call_here(function: &Function, body: impl FnOnce(&Here) -> Result<()>) -> i32 {
    let guarded = || {
        state::not_forked()?;
        state::with_here(|here| {
            // For "freed 12 calls ago".
            here.calls.set(here.calls.get() + 1);
            function.allowed()?;
            body(here)
        })
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

/// Refuses a call whose arguments do not get as far as the C function: `name` is what the caller called.
pub fn refuse_call(name: &str, note: String) -> i32 {
    report(name, &state::not_forked().err().unwrap_or_else(|| refuse(note)))
}

/// Keeps the code and the message for those who ask, and logs a line.
#[cold]
fn report(name: &str, error: &Error) -> i32 {
    let text = format!("{name} failed with {} {}: {}", error.code, c::error_name(error.code), error.note);
    log::write(Module::Ascendcl, Level::Error, || text.clone());
    messages::keep(error.code, text);
    error.code
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
pub fn refuse(note: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    crate::error::fail(c::ACL_ERROR_RT_PARAM_INVALID, note)
}
