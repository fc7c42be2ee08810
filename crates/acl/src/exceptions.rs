//! aclrtSetExceptionInfoCallback: a function of the user's that is called for every failed task of a stream.
//!
//! A failure is noted on the thread where it happens, which may hold locks. The function runs on the thread
//! of `waits.rs`, or, if that comes first, on a thread whose call is about to return an error: by the time a
//! program sees the code of a failure, the function has run.

use crate::{
    callback::{Callback, UserFunction},
    error::Error,
    fork::is_forked,
    handles::{HandleKind, Handles},
    waits,
};
use ferry_core::{Kind, Ticket, sync::lock};
use std::{cell::Cell, collections::VecDeque, sync::Mutex};

/// The value of what is not known of a failure.
const UNKNOWN: u32 = u32::MAX;
/// The most failures that wait to be reported; later ones are dropped.
const MAX_DUE: usize = 1024;

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

impl HandleKind for Exception {
    const TAG: usize = 5;
}

/// The function of the user's, and the failures that it was not called for yet.
struct Due {
    function: Option<UserFunction>,
    failures: VecDeque<Exception>,
    /// A failure was taken out, and the call for it has not returned.
    is_telling: bool,
}

static DUE: Mutex<Due> = Mutex::new(Due { function: None, failures: VecDeque::new(), is_telling: false });
/// Locked while the function runs.
static RUNNING: Mutex<()> = Mutex::new(());
/// The failure that the function is being called for, by handle.
static TOLD: Handles<Exception> = Handles::new();

thread_local! {
    /// Whether the function runs on this thread.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// aclrtSetExceptionInfoCallback: the last one counts, and `None` is none.
///
/// # Safety
/// The function may be called on any thread, with a handle of an exception, until another one is set.
pub unsafe fn set(function: Option<UserFunction>) {
    let mut due = lock(&DUE);
    due.function = function;
    if function.is_none() {
        due.failures.clear();
    }
}

impl Exception {
    /// The failure of a task: its number, its stream's number, the thread that used the stream last, and the
    /// device.
    pub(crate) fn new(
        task: Ticket,
        stream: u32,
        thread: u32,
        device: u32,
        error: &ferry_core::Error,
    ) -> Exception {
        let code = match error.kind {
            Kind::Lost => UNKNOWN,
            _ => Error::from(error.clone()).code as u32,
        };
        Exception { handle: 0, task: task as u32, stream, thread, device, code }
    }
}

/// Queues a failure, if there is a function to call.
pub(crate) fn note(failure: impl FnOnce() -> Exception) {
    let mut due = lock(&DUE);
    if due.function.is_none() || due.failures.len() == MAX_DUE {
        return;
    }
    due.failures.push_back(failure());
    drop(due);
    waits::run_soon(run_due);
}

/// Whether there are failures for which the function has not returned.
fn are_due() -> bool {
    let due = lock(&DUE);
    due.is_telling || !due.failures.is_empty()
}

/// Calls the function for every failure so far, and waits for another thread that does so, unless the
/// function is what runs on this thread.
pub(crate) fn run_due() {
    if are_due() && !TELLS.replace(true) {
        tell_all();
        TELLS.set(false);
    }
}

fn tell_all() {
    let _running = lock(&RUNNING);
    while let Some((function, failure)) = next() {
        tell(function, failure);
    }
}

/// The next failure to call the function for; the call for the one before it has returned.
fn next() -> Option<(UserFunction, Exception)> {
    let mut due = lock(&DUE);
    let next = due.function.zip(due.failures.pop_front());
    due.is_telling = next.is_some();
    next
}

fn tell(function: UserFunction, failure: Exception) {
    let told = TOLD.insert(|handle| Exception { handle, ..failure });
    // SAFETY: the promise to `set`.
    let callback = unsafe { Callback::new("aclrtSetExceptionInfoCallback", function, told.handle, None) };
    callback.take().run_here();
    TOLD.remove(told.handle);
}

/// What aclrtGet...FromExceptionInfo tell, while the function runs that was given `info`; 0xFFFFFFFF
/// otherwise.
pub fn of(info: usize, part: impl FnOnce(&Exception) -> u32) -> u32 {
    let found = if is_forked() { None } else { TOLD.get(info) };
    found.map_or(UNKNOWN, |exception| part(&exception))
}
