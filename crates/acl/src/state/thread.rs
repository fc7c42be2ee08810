//! The state of a thread: its current context, the stream it used last, its messages and its last error.
//!
//! The first call of a thread makes its [`Here`], and the end of the thread frees it. Every call finds it
//! once, in `call.rs`, and hands it down: a function that takes `&Here` runs inside a call of this thread. It
//! is found through a plain pointer and freed by a destructor of pthread's, because destructors of C++
//! objects and of other libraries' keys still free memory while a thread's Rust locals are gone.

use super::{
    context::Context,
    process::{OpenedEngine, engine},
    pthread_key,
    stream::{StreamEntry, this_thread},
};
use crate::{
    Result, arguments::refuse, callback::turns::ReportTurns, constants as c, error::fail, fork::is_forked,
    watched,
};
use ferry::engine::{
    fork,
    threads::{cancel::Cancelling, end},
};
use ferry_core::{QueueOptions, Stream};
use ferry_watch::fact::StreamPurpose;
use std::{
    cell::{Cell, RefCell},
    ffi::CString,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

/// Handles signals; not 0 if one of them is to end the wait. See `interrupt.rs`.
pub type Check = unsafe extern "C" fn() -> i32;

/// The state of a thread.
pub struct Here {
    /// The current context. It may have ended since it became current.
    pub(crate) context: RefCell<Option<Arc<Context>>>,
    /// The stream the thread used last, so that the next call need not look it up.
    pub(crate) stream: Cell<Option<Arc<StreamEntry>>>,
    /// The handle of the context that it has without having asked for one, or 0.
    implicit: Cell<usize>,
    /// Messages of calls that failed, oldest first.
    pub(crate) messages: RefCell<Vec<String>>,
    /// The text that aclGetRecentErrMsg returned last, which stays valid until its next call.
    pub(crate) shown: RefCell<Option<CString>>,
    /// The code of the last call that failed.
    pub(crate) last_error: Cell<i32>,
    /// How many calls the thread has made.
    pub(crate) calls: Cell<u64>,
    /// A number of its own, never used again.
    pub(crate) number: u64,
    /// Gone when the thread has ended, for others that want to know.
    pub(crate) life: Arc<()>,
    /// What its waits ask between two slices, if a signal may end them.
    pub(crate) check: Cell<Option<Check>>,
    /// The hidden streams of the thread, one for each device that it has used.
    hidden: RefCell<Vec<Arc<Stream>>>,
    /// The calls of aclrtProcessReport that are under way.
    pub(crate) turns: ReportTurns,
    /// The stream whose limits of cores the thread uses, or 0.
    pub(crate) limits_of: Cell<usize>,
    /// The C function that it called last, for messages about the call. Fast paths are not noted.
    pub(crate) function: Cell<&'static str>,
    /// aclmdlRICaptureMode of the thread: how strict captures are with it.
    pub(crate) capture_mode: Cell<i32>,
    /// How often its key was destroyed.
    round: Cell<u32>,
}

thread_local! {
    /// The state of this thread, or null.
    static HERE: Cell<*const Here> = const { Cell::new(ptr::null()) };
}

/// The state of this thread, made at first use. Calls do this once, in `call.rs`.
pub(crate) fn with_here<T>(body: impl FnOnce(&Here) -> Result<T>) -> Result<T> {
    HERE.with(|cell| {
        if cell.get().is_null() {
            watched::begin();
            cell.set(Here::make()?);
        }
        // SAFETY: set to a leaked box, which `leave` frees only after it has set the cell to null on this
        // thread, and no call of this thread is under way when its keys are destroyed.
        body(unsafe { &*cell.get() })
    })
}

/// Runs a call's fast path, if the state of this thread is there; it counts as a call if that returns true.
#[inline(always)]
pub(crate) fn if_here(fast: impl FnOnce(&Here) -> bool) -> bool {
    let here = HERE.get();
    // SAFETY: as in `with_here`.
    let Some(here) = (unsafe { here.as_ref() }) else { return false };
    let is_done = fast(here);
    if is_done {
        here.count_call();
    }
    is_done
}

/// How often a thread's key is destroyed before its state goes: other keys' destructors may still call us.
const LAST_ROUND: u32 = 3;

/// Called by pthread when a thread ends, with its state. The thread may have been cancelled without knowing
/// it yet.
unsafe extern "C" fn leave(here: *mut libc::c_void) {
    let cancelling = Cancelling::off();
    // SAFETY: the key has what `Here::make` stored: a live state of this thread.
    unsafe { leave_once(here.cast()) };
    cancelling.back_unseen();
}

/// # Safety
/// `here` is the live state of this thread.
unsafe fn leave_once(here: *mut Here) {
    // SAFETY: the caller's promise.
    let round = unsafe { &(*here).round };
    round.set(round.get() + 1);
    if round.get() == 1 && !is_forked() {
        end::thread_leaves();
    }
    let asks_again = |key| pthread_key::store(key, here.cast()).is_ok();
    if round.get() < LAST_ROUND && pthread_key::get_or_create(leave).is_ok_and(asks_again) {
        return;
    }
    HERE.with(|cell| cell.set(ptr::null()));
    // SAFETY: made by `Box::into_raw`, and the only pointer to it was just cleared.
    drop(unsafe { Box::from_raw(here) });
}

/// Called when the library is loaded: takes what is scarce in a process before other libraries take all of
/// it. What fails now is tried again by the first call.
pub fn load() {
    drop(pthread_key::get_or_create(leave));
    drop(fork::watch());
}

impl Here {
    fn make() -> Result<*const Here> {
        static BORN: AtomicU64 = AtomicU64::new(0);
        let key = pthread_key::get_or_create(leave)?;
        let here = Box::into_raw(Box::new(Here {
            context: RefCell::default(),
            stream: Cell::default(),
            implicit: Cell::new(0),
            messages: RefCell::default(),
            shown: RefCell::default(),
            last_error: Cell::new(c::ACL_SUCCESS),
            calls: Cell::new(0),
            number: BORN.fetch_add(1, Ordering::Relaxed),
            life: Arc::default(),
            check: Cell::new(None),
            hidden: RefCell::default(),
            turns: ReportTurns::default(),
            limits_of: Cell::new(0),
            function: Cell::new(""),
            capture_mode: Cell::new(c::ACL_MODEL_RI_CAPTURE_MODE_GLOBAL),
            round: Cell::new(0),
        }));
        pthread_key::store(key, here.cast()).inspect_err(|_| {
            // SAFETY: made above, and stored nowhere.
            drop(unsafe { Box::from_raw(here) });
        })?;
        Ok(here)
    }

    /// Counts a call, for messages such as "freed 12 calls ago".
    #[inline(always)]
    pub(crate) fn count_call(&self) {
        self.calls.set(self.calls.get() + 1);
    }

    /// The current context, alive.
    pub(crate) fn context(&self) -> Result<Arc<Context>> {
        if let Some(context) = &*self.context.borrow()
            && context.is_alive()
        {
            return Ok(context.clone());
        }
        self.implicit_context()
    }

    /// The current device.
    pub(crate) fn device(&self) -> Result<u32> {
        Ok(self.context()?.device)
    }

    /// Fails if the thread has no current context.
    pub(crate) fn need_context(&self) -> Result<()> {
        self.context().map(drop)
    }

    /// Makes a context current.
    pub(crate) fn set_context(&self, context: Arc<Context>) {
        *self.context.borrow_mut() = Some(context);
    }

    /// The default context of the default device, for a thread that never chose one itself; it becomes
    /// current.
    #[cold]
    fn implicit_context(&self) -> Result<Arc<Context>> {
        let had = self.context.borrow().as_ref().map(|context| context.handle);
        let chose = had.is_some_and(|handle| handle != self.implicit.get());
        if let Some(id) = default_device().filter(|_| !chose) {
            let context = engine()?.primary(id, |primary| primary.implicit = true)?;
            self.implicit.set(context.handle);
            return Ok(self.context.borrow_mut().insert(context).clone());
        }
        let note = match had {
            Some(_) => {
                "the current context of this thread was destroyed, or its device was reset: call \
                 aclrtSetDevice or aclrtSetCurrentContext again"
            }
            None => "this thread has no current context: call aclrtSetDevice or aclrtSetCurrentContext first",
        };
        Err(fail(c::ACL_ERROR_RT_CONTEXT_NULL, note))
    }

    /// The hidden stream of this thread and device, on which synchronous calls run: never behind other
    /// streams' work, not counted among the streams, and not waited for by a device synchronise. It is the
    /// thread's own, so that a call finds it without a lock.
    pub(crate) fn hidden_stream(&self, engine: &OpenedEngine, device: u32) -> Result<Arc<Stream>> {
        let mut hidden = self.hidden.borrow_mut();
        if let Some(stream) = hidden.iter().find(|stream| stream.device() == device) {
            return Ok(stream.clone());
        }
        let stream = engine.runtime.stream(device, QueueOptions { waited: true })?;
        watched::name_stream(&stream, StreamPurpose::Synchronous, 0);
        hidden.push(stream.clone());
        Ok(stream)
    }
}

/// Streams by handle.
impl Here {
    /// The stream of this handle, which must be of the current context; 0 is that context's default stream.
    pub(crate) fn stream(&self, handle: usize) -> Result<Arc<StreamEntry>> {
        let entry = self.take_stream(handle)?;
        self.stream.set(Some(entry.clone()));
        Ok(entry)
    }

    /// The stream of this handle, for a call that gives it back at its end with `self.stream.set`: that is
    /// cheaper than to count its references.
    pub(crate) fn take_stream(&self, handle: usize) -> Result<Arc<StreamEntry>> {
        self.remembered(handle).map_or_else(|| self.come_to_stream(handle), Ok)
    }

    /// A stream that is not the one that this thread used last.
    #[cold]
    fn come_to_stream(&self, handle: usize) -> Result<Arc<StreamEntry>> {
        let entry = self.find_stream(engine()?, handle)?;
        entry.user.store(this_thread(), Ordering::Relaxed);
        Ok(entry)
    }

    /// The stream that this thread used last, if it is the one that is meant.
    #[inline(always)]
    pub(crate) fn remembered(&self, handle: usize) -> Option<Arc<StreamEntry>> {
        let entry = self.stream.take().filter(|entry| entry.is_meant(handle))?;
        let context = self.context.borrow();
        let is_current =
            context.as_ref().is_some_and(|context| context.handle == entry.context && context.is_alive());
        is_current.then_some(entry)
    }

    #[cold]
    fn find_stream(&self, engine: &OpenedEngine, handle: usize) -> Result<Arc<StreamEntry>> {
        let mut context = self.context.borrow();
        if !context.as_ref().is_some_and(|context| context.is_alive()) {
            drop(context);
            self.context()?; // the default device's may become current here
            context = self.context.borrow();
        }
        let Some(context) = &*context else { return Err(refuse("no context")) };
        if handle == 0 {
            return context.default_stream();
        }
        let entry = engine.streams.get(handle).ok_or_else(|| {
            fail(
                c::ACL_ERROR_RT_INVALID_HANDLE,
                format!("{handle:#x} is no stream, or one that was destroyed"),
            )
        })?;
        if entry.context != context.handle {
            let note = format!(
                "stream {handle:#x} belongs to another context (of device {}) than the current one (of \
                 device {}): make its context current first",
                entry.device, context.device
            );
            return Err(fail(c::ACL_ERROR_RT_STREAM_CONTEXT, note));
        }
        Ok(entry)
    }
}

/// The device of threads that never chose one; below 0 is none.
static DEFAULT_DEVICE: AtomicI64 = AtomicI64::new(-1);

/// Gives threads that never chose a device this one, or none any more.
pub(crate) fn set_default_device(id: Option<u32>) {
    DEFAULT_DEVICE.store(id.map_or(-1, i64::from), Ordering::Relaxed);
}

fn default_device() -> Option<u32> {
    u32::try_from(DEFAULT_DEVICE.load(Ordering::Relaxed)).ok()
}
