//! What happens around every call: the fork check, product support, panics, and what becomes of a failure.

use crate::{
    Error, Result, constants as c,
    error::fail,
    functions::Function,
    log::{self, Level, Module},
    messages,
    state::{self, Here},
    stream,
};
use ferry::engine::{
    fork, probe,
    threads::cancel::{self, Cancelling},
};
use ferry_core::Access;
use std::{
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
};

/// Runs the body of a C function: no panic leaves it, and a failure becomes a code and a message of this thread.
#[inline]
pub fn call(function: &Function, body: impl FnOnce() -> Result<()>) -> i32 {
    call_here(function, |_| body())
}

/// The same for a body that needs the state of this thread.
#[inline]
pub fn call_here(function: &Function, body: impl FnOnce(&Here) -> Result<()>) -> i32 {
    let cancelling = Cancelling::off();
    let code = guarded(function, body);
    cancelling.back();
    code
}

/// The same for a body with a short way, which returns false if it has done nothing and `body` has to. In the short way the thread can be
/// cancelled, so it makes no system call where that happens.
#[inline(always)]
pub fn call_quickly(
    function: &Function,
    short: impl FnOnce(&Here) -> bool,
    body: impl FnOnce(&Here) -> Result<()>,
) -> i32 {
    let quick = || state::with_settled(|here| function.allowed().is_ok() && short(here));
    if !state::is_forked() && matches!(catch_unwind(AssertUnwindSafe(quick)), Ok(true)) {
        cancel::look();
        return c::ACL_SUCCESS;
    }
    call_here(function, body)
}

#[inline]
fn guarded(function: &Function, body: impl FnOnce(&Here) -> Result<()>) -> i32 {
    if state::is_forked() {
        return refuse_in_child(function.name);
    }
    let checked = || {
        state::with_here(|here| {
            here.count_call();
            here.turns.end_those_left();
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

/// Refuses a call whose arguments do not get as far as the C function: `name` is what the caller called.
pub fn refuse_call(name: &str, code: i32, note: String) -> i32 {
    if state::is_forked() { refuse_in_child(name) } else { report(name, &fail(code, note)) }
}

/// An operator of a companion library fails, as all of them do: its stream and all others of the context stop for good. Says so on standard
/// error once in a process, since callers that launch operators from a thread of their own are told of the first failure only.
pub fn fail_operator(name: &str, stream: usize, code: i32, note: String) -> i32 {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if state::is_forked() {
        return refuse_in_child(name);
    }
    let cancelling = Cancelling::off();
    let failed = || stream::stop(stream, code, &note).err().unwrap_or_else(|| fail(code, note.clone()));
    let error = catch_unwind(AssertUnwindSafe(failed)).unwrap_or_else(|_| a_bug());
    if error.code == code && !TOLD.swap(true, Ordering::Relaxed) {
        log::print(libc::STDERR_FILENO, format!("ferry: {note}\n").as_bytes());
    }
    let code = report(name, &error);
    cancelling.back();
    code
}

/// Every call in a child of a process that used Ferry. A child that the C library does not know of may use none of its locks, the
/// allocator's included: it gets the code, and a message that is always there.
#[cold]
fn refuse_in_child(name: &str) -> i32 {
    match fork::by_c_library() {
        true => report(name, &fail(c::ACL_ERROR_RT_CONTEXT_NULL, state::FORKED.to_str().unwrap_or_default())),
        false => c::ACL_ERROR_RT_CONTEXT_NULL,
    }
}

/// Keeps the code and the message for those who ask, and logs a line.
#[cold]
fn report(name: &str, error: &Error) -> i32 {
    if !state::is_forked() {
        crate::exceptions::run_due();
    }
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
    fail(c::ACL_ERROR_INVALID_PARAM, format!("{name} is NULL"))
}

/// Makes sure that `len` bytes at an output argument can be written.
pub fn writable(name: &'static str, addr: usize, len: usize) -> Result<()> {
    not_null(name, addr)?;
    probe::accessible(addr, len, Access::Write).map_err(|why| refuse(format!("{name}: {why}")))
}

/// An array that a caller gave: its name, its address, how many elements it has and how large they are.
pub type Given = (&'static str, usize, usize, usize);

/// Makes sure that an array of `count` elements of `size` bytes can be read.
pub fn readable((name, addr, count, size): Given) -> Result<()> {
    not_null(name, addr)?;
    let len = count.checked_mul(size).ok_or_else(|| refuse(format!("{name}: {count} elements overflow")))?;
    probe::accessible(addr, len, Access::Read).map_err(|why| refuse(format!("{name}: {why}")))
}

/// Makes sure of several arrays. Asking costs a system call, so those whose pages touch, as they mostly do, are asked for at
/// once; if that is refused, one by one. Nobody is asked about those on the stack.
pub fn all_readable<const N: usize>(arrays: [Given; N]) -> Result<()> {
    if together(arrays).is_some_and(|mut ranges| {
        ranges.all(|range| probe::accessible(range.start, range.len(), Access::Read).is_ok())
    }) {
        return Ok(());
    }
    arrays.into_iter().try_for_each(readable)
}

/// The pages of the arrays as few ranges; `None` if one is no array at all.
fn together<const N: usize>(arrays: [Given; N]) -> Option<impl Iterator<Item = Range<usize>>> {
    let page = probe::page_size();
    let (mut pages, mut found) = ([const { 0..0 }; N], 0);
    for (_, addr, count, size) in arrays {
        let len = count.checked_mul(size)?;
        let end = addr.checked_add(len)?.checked_next_multiple_of(page)?;
        let start = (addr != 0).then_some(addr & !(page - 1))?;
        if !probe::is_on_stack(addr, len) {
            pages[found] = start..end;
            found += 1;
        }
    }
    pages[..found].sort_unstable_by_key(|range| range.start);
    let mut last = 0;
    for index in 1..found {
        let range = pages[index].clone();
        if range.start <= pages[last].end {
            pages[last].end = pages[last].end.max(range.end);
        } else {
            last += 1;
            pages[last] = range;
        }
    }
    Some(pages.into_iter().take(found.min(last + 1)))
}

/// Refuses an argument whose value breaks a rule of the runtime.
pub fn refuse(note: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    fail(c::ACL_ERROR_RT_PARAM_INVALID, note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_asked_about_the_stack() {
        let (page, words) = (probe::page_size(), [0_u64; 4]);
        let here = ("a", words.as_ptr() as usize, 4, 8);
        let asked =
            |arrays| together::<2>(arrays).expect("arrays").map(|range| range.start).collect::<Vec<_>>();
        assert!(asked([here, here]).is_empty());
        assert_eq!(asked([("b", 1000 * page, 1, 1), here]), [1000 * page]);
        assert!(all_readable([here, here]).is_ok());
    }

    #[test]
    fn arrays_whose_pages_touch_are_asked_for_at_once() {
        let page = probe::page_size();
        let at = |first: usize, offset: usize| 1000 * page + first * page + offset;
        let few = |arrays: [Given; 3]| {
            let found = together(arrays)?;
            Some(found.map(|range| (range.start / page - 1000, range.end / page - 1000)).collect::<Vec<_>>())
        };
        let array = |addr, bytes| ("a", addr, bytes, 1);
        for (arrays, want) in [
            // Next to each other, given in any order; one inside another; one on its own.
            ([array(at(2, 0), page), array(at(0, 8), 8), array(at(1, 0), page)], Some(vec![(0, 3)])),
            (
                [array(at(0, 0), 4 * page), array(at(1, 5), 9), array(at(9, 0), 1)],
                Some(vec![(0, 4), (9, 10)]),
            ),
            (
                [array(at(0, 0), 1), array(at(2, 0), 1), array(at(4, 0), 1)],
                Some(vec![(0, 1), (2, 3), (4, 5)]),
            ),
            ([array(at(0, 0), 1), array(0, 8), array(at(0, 0), 1)], None),
            ([array(at(0, 0), 1), array(usize::MAX - 8, 9), array(at(0, 0), 1)], None),
        ] {
            assert_eq!(few(arrays), want);
        }
    }
}
