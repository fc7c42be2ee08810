//! aclrtSetExceptionInfoCallback: a function of the user's that hears of every task of a stream that failed.
//!
//! A failure is noted on the thread where it happens, which may hold locks. The function runs on the thread of `waits.rs`, or, if that
//! comes first, on a thread whose call is about to return an error: whoever learns of a failure by a code has had the function run.

use crate::{
    Result,
    callback::{Callback, Function},
    error::Error,
    handles::{Handles, Named},
    state::{self, lock, with_here},
    stream::StreamEntry,
    waits,
};
use ferry_core::{Kind, Ticket};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

/// What is told of a failure that nothing is known of.
const NOTHING: u32 = u32::MAX;
/// As many failures wait to be told at most; the latest are left out.
const MOST: usize = 1024;

/// A task that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    handle: usize,
    /// Its number in its stream.
    pub task: u32,
    /// The stream's number, as aclrtStreamGetId tells it.
    pub stream: u32,
    /// The thread that came to the stream last.
    pub thread: u32,
    /// The device.
    pub device: u32,
    /// aclError, or 0xFFFFFFFF if the device is lost.
    pub code: u32,
}

impl Named for Exception {
    const TAG: usize = 5;
}

/// The function of the user's, and what it is yet to hear of.
struct Due {
    function: Option<Function>,
    failures: VecDeque<Exception>,
}

static DUE: Mutex<Due> = Mutex::new(Due { function: None, failures: VecDeque::new() });
/// Held while the function runs.
static RUNNING: Mutex<()> = Mutex::new(());

/// aclrtSetExceptionInfoCallback: the last one counts, and `None` is none.
///
/// # Safety
/// The function may be called on any thread, with a handle of an exception, until another one is set.
pub unsafe fn set(function: Option<Function>) {
    let mut due = lock(&DUE);
    due.function = function;
    if function.is_none() {
        due.failures.clear();
    }
}

/// Notes that a task of a stream failed.
pub(crate) fn note(entry: &StreamEntry, ticket: Ticket, error: &ferry_core::Error) {
    let mut due = lock(&DUE);
    if due.function.is_none() || due.failures.len() == MOST {
        return;
    }
    let code = match error.kind {
        Kind::Lost => NOTHING,
        _ => Error::from(error.clone()).code as u32,
    };
    due.failures.push_back(Exception {
        handle: 0,
        task: ticket as u32,
        stream: Handles::<StreamEntry>::index(entry.handle) as u32,
        thread: entry.user(),
        device: entry.device,
        code,
    });
    drop(due);
    waits::nudge();
}

/// Whether the function is yet to hear of something.
pub(crate) fn are_due() -> bool {
    !lock(&DUE).failures.is_empty()
}

/// Has the function hear of every failure so far. On a thread that it runs on there is nothing to do.
pub(crate) fn run_due() {
    if !are_due() {
        return;
    }
    let _ = with_here(|here| {
        if here.tells.replace(true) {
            return Ok(());
        }
        let told = tell_all();
        here.tells.set(false);
        told
    });
}

fn tell_all() -> Result<()> {
    let _running = lock(&RUNNING);
    while let Some((function, failure)) = next() {
        tell(function, failure)?;
    }
    Ok(())
}

fn next() -> Option<(Function, Exception)> {
    let mut due = lock(&DUE);
    let failure = due.failures.pop_front()?;
    due.function.map(|function| (function, failure))
}

fn tell(function: Function, failure: Exception) -> Result<()> {
    let exceptions = &state::engine()?.exceptions;
    let told = exceptions.insert(|handle| Exception { handle, ..failure });
    // SAFETY: the promise to `set`.
    let callback = unsafe { Callback::new("aclrtSetExceptionInfoCallback", function, told.handle, None) };
    callback.take().run_here();
    exceptions.remove(told.handle);
    Ok(())
}

/// What aclrtGet...FromExceptionInfo tell, while the function runs that was given `info`; 0xFFFFFFFF otherwise.
pub fn of(info: usize, part: impl FnOnce(&Exception) -> u32) -> u32 {
    let engine = if state::is_forked() { None } else { state::opened() };
    let found: Option<Arc<Exception>> = engine.and_then(|engine| engine.exceptions.get(info));
    found.map_or(NOTHING, |exception| part(&exception))
}
