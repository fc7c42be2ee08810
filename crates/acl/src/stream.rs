//! Streams by handle. What can be set and asked of one besides its work: `stream/attributes.rs`.

pub mod attributes;

use crate::{
    Error, Result,
    call::refuse,
    callback::Callback,
    constants::{self as c, *},
    context::Context,
    error::fail,
    exceptions,
    handles::{Handles, Named},
    interrupt,
    report::Mailbox,
    state::{Engine, Here, engine, with_here},
};
use attributes::{Attributes, LEAST_PRIORITY};
use ferry::engine::threads::as_here;
use ferry_core::{Kind, QueueOptions, Stream};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

/// The system's number of the calling thread.
fn this_thread() -> u32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// A stream of a context.
pub struct StreamEntry {
    pub(crate) handle: usize,
    pub(crate) context: usize,
    pub(crate) device: u32,
    pub(crate) stream: Arc<Stream>,
    flags: u32,
    is_default: bool,
    alive: AtomicBool,
    /// Its failure mode was set, which can be done once.
    has_mode: AtomicBool,
    pub(crate) attributes: Attributes,
    /// The system's number of the thread that came to the stream last.
    user: AtomicU32,
    /// Where its callbacks go.
    pub(crate) mailbox: Mutex<Option<Arc<Mailbox>>>,
}

/// The flags there are; a stream with others is a plain one.
const ALL_FLAGS: u32 = 0x3f;

impl Named for StreamEntry {
    const TAG: usize = 2;
}

impl StreamEntry {
    pub(crate) fn make(
        engine: &Engine,
        context: &Context,
        flags: u32,
        is_default: bool,
    ) -> Result<Arc<StreamEntry>> {
        let (halt, options) = (Some(&context.halt), QueueOptions::default());
        let stream = || engine.runtime.stream_under(halt, context.device, options);
        StreamEntry::enter(engine, context, flags, is_default, stream)
    }

    /// Enters a stream into the tables, if the device may have one more.
    fn enter(
        engine: &Engine,
        context: &Context,
        flags: u32,
        is_default: bool,
        stream: impl FnOnce() -> ferry_core::Result<Arc<Stream>>,
    ) -> Result<Arc<StreamEntry>> {
        let device = engine.device(context.device)?;
        let most = engine.settings.options.product.max_streams;
        if device.streams.fetch_add(1, Ordering::Relaxed) >= most {
            device.streams.fetch_sub(1, Ordering::Relaxed);
            let note = format!(
                "device {} has {most} streams, which is as many as {} allows",
                context.device, engine.settings.options.soc
            );
            return Err(fail(c::ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, note));
        }
        let stream = stream().inspect_err(|_| {
            device.streams.fetch_sub(1, Ordering::Relaxed);
        })?;
        let entry = engine.streams.insert(|handle| StreamEntry {
            handle,
            context: context.handle,
            device: context.device,
            stream,
            flags: if flags & !ALL_FLAGS == 0 { flags } else { 0 },
            is_default,
            alive: AtomicBool::new(true),
            has_mode: AtomicBool::new(false),
            attributes: Attributes::default(),
            user: AtomicU32::new(this_thread()),
            mailbox: Mutex::new(None),
        });
        let weak = Arc::downgrade(&entry);
        entry.stream.status().listen(Box::new(move |ticket, error| {
            if let Some(entry) = weak.upgrade() {
                exceptions::note(&entry, ticket, error);
            }
        }));
        // A context that ended meanwhile may have listed its streams before this one was among them.
        if !context.is_alive() {
            entry.end(engine);
            return Err(fail(c::ACL_ERROR_RT_CONTEXT_NULL, "the context ended while its stream was made"));
        }
        Ok(entry)
    }

    /// Takes the stream out of the tables. The caller has waited, or does not care.
    pub(crate) fn end(&self, engine: &Engine) {
        self.alive.store(false, Ordering::Release);
        engine.reports.forget(self);
        if engine.streams.remove(self.handle).is_some()
            && let Ok(device) = engine.device(self.device)
        {
            device.streams.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    pub(crate) fn user(&self) -> u32 {
        self.user.load(Ordering::Relaxed)
    }

    /// Whether a call in the stream's context that says `handle` means this stream, alive.
    #[inline]
    fn is_meant(&self, handle: usize) -> bool {
        (self.handle == handle || handle == 0 && self.is_default) && self.is_alive()
    }

    fn not_default(self: Arc<Self>) -> Result<Arc<Self>> {
        if self.is_default {
            return Err(refuse("the default stream of a context cannot be destroyed"));
        }
        Ok(self)
    }

    /// Documented: synchronising such a stream returns at once.
    fn is_never_waited_for(&self) -> bool {
        self.flags & (ACL_STREAM_PERSISTENT | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY) as u32
            != 0
    }
}

impl Here {
    /// The stream of this handle, which must be of the current context; 0 is that context's default stream.
    pub(crate) fn stream(&self, engine: &Engine, handle: usize) -> Result<Arc<StreamEntry>> {
        let entry = self.take_stream(engine, handle)?;
        self.stream.set(Some(entry.clone()));
        Ok(entry)
    }

    /// The same for a call that gives it back at its end, with `self.stream.set`: that is cheaper than to count who holds it.
    pub(crate) fn take_stream(&self, engine: &Engine, handle: usize) -> Result<Arc<StreamEntry>> {
        self.remembered(handle).map_or_else(|| self.come_to_stream(engine, handle), Ok)
    }

    /// A stream that is not the one that this thread used last.
    #[cold]
    fn come_to_stream(&self, engine: &Engine, handle: usize) -> Result<Arc<StreamEntry>> {
        let entry = self.find_stream(engine, handle)?;
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
    fn find_stream(&self, engine: &Engine, handle: usize) -> Result<Arc<StreamEntry>> {
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
                "stream {handle:#x} belongs to another context (of device {}) than the current one (of device {}): make its \
                 context current first",
                entry.device, context.device
            );
            return Err(fail(c::ACL_ERROR_RT_STREAM_CONTEXT, note));
        }
        Ok(entry)
    }
}

/// aclrtCreateStream and aclrtCreateStreamWithConfig. Unknown flags make a plain stream; a priority out of range is the lowest, and
/// all streams are served alike.
pub fn create(priority: u32, flags: u32) -> Result<usize> {
    let engine = engine()?;
    with_here(|here| {
        let entry = StreamEntry::make(engine, &*here.context()?, flags, false)?;
        entry.attributes.set_priority(priority.min(LEAST_PRIORITY));
        Ok(entry.handle)
    })
}

/// ferryStreamAdopt: a stream over one of another library's.
///
/// # Safety
/// `native` is a stream of the backend's driver, and outlives this one.
pub unsafe fn adopt(native: usize) -> Result<usize> {
    let engine = engine()?;
    with_here(|here| {
        let context = here.context()?;
        // SAFETY: passed on from the caller.
        let stream = || unsafe { engine.runtime.adopt(Some(&context.halt), context.device, native) };
        Ok(StreamEntry::enter(engine, &context, 0, false, stream)?.handle)
    })
}

/// ferryStreamNative: what the backend's driver calls the stream, which is shared from here on.
pub fn native(handle: usize) -> Result<usize> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    Ok(entry.stream.share()?)
}

/// aclrtDestroyStream: waits for its tasks.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    with_here(|here| {
        let entry = here.stream(engine, handle)?.not_default()?;
        let work = entry.stream.fence()?;
        interrupt::wait(None, |limit| work.wait(limit))?;
        entry.end(engine);
        here.stream.take();
        Ok(())
    })
}

/// aclrtDestroyStreamForce: drops its tasks.
pub fn destroy_force(handle: usize) -> Result<()> {
    let engine = engine()?;
    with_here(|here| {
        let entry = here.stream(engine, handle)?.not_default()?;
        entry.stream.abort();
        entry.end(engine);
        here.stream.take();
        Ok(())
    })
}

/// aclrtStreamAbort: drops its tasks; whoever waits for the stream is told. It can be used again afterwards.
pub fn abort(handle: usize) -> Result<()> {
    let engine = engine()?;
    with_here(|here| here.stream(engine, handle))?.stream.abort();
    Ok(())
}

/// Work of the stream that was never ours has failed: all streams of its context stop for good, and tell this code and note every time.
/// What ends the context ends that: aclrtResetDevice for a default one.
pub(crate) fn stop(handle: usize, code: i32, note: &str) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    entry.stream.status().stop_all(Kind::Native(code).because(note.to_owned()));
    Ok(())
}

/// aclrtSynchronizeStreamWithTimeout: for ever if -1.
pub fn synchronize_within(handle: usize, timeout: i32) -> Result<()> {
    let engine = engine()?;
    with_here(|here| here.stream(engine, handle).map(drop))?;
    synchronize(handle, limit_ms(timeout)?)
}

/// aclrtSynchronizeStream.
pub fn synchronize(handle: usize, limit: Option<Duration>) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    if entry.is_never_waited_for() {
        return Ok(());
    }
    let work = entry.stream.so_far()?;
    interrupt::wait(limit, |limit| work.wait(limit))
        .and_then(|()| entry.stream.status().take_error().map_or(Ok(()), Err))
        .map_err(|error| late(error, limit, format!("stream {handle:#x}")))
}

/// What came of a wait for streams that failed: if it took too long, the note says whose work is left.
pub(crate) fn late(error: ferry_core::Error, limit: Option<Duration>, whose: String) -> Error {
    match (error.kind, limit) {
        (Kind::Timeout, Some(limit)) => {
            let note = format!("{whose} still has work after {} ms", limit.as_millis());
            fail(c::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, note)
        }
        _ => error.into(),
    }
}

/// A wait in milliseconds as the C functions take it: -1 for ever, or more than 0.
pub fn limit_ms(timeout: i32) -> Result<Option<Duration>> {
    match timeout {
        -1 => Ok(None),
        1.. => Ok(Some(Duration::from_millis(timeout as u64))),
        _ => Err(refuse(format!("timeout is {timeout}: give -1 to wait for ever, or milliseconds above 0"))),
    }
}

/// aclrtStreamQuery: the status number.
pub fn query(handle: usize) -> Result<i32> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    if !entry.stream.is_idle()? {
        return Ok(ACL_STREAM_STATUS_NOT_READY);
    }
    entry.stream.status().take_error().map_or(Ok(ACL_STREAM_STATUS_COMPLETE), |error| Err(error.into()))
}

/// aclrtSetStreamFailureMode: 1 stops all streams of the context when work of this one fails. Documented: once per stream.
pub fn set_failure_mode(handle: usize, mode: u64) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    let options = &engine.settings.options;
    if handle == 0 && !options.product.is_newest() {
        return Err(refuse(format!(
            "stream is NULL: on {} the default stream keeps continuing after a failure",
            options.soc
        )));
    }
    let stop = match i32::try_from(mode) {
        Ok(ACL_CONTINUE_ON_FAILURE) => false,
        Ok(ACL_STOP_ON_FAILURE) => true,
        _ => {
            let note = format!("mode is {mode}: give ACL_CONTINUE_ON_FAILURE (0) or ACL_STOP_ON_FAILURE (1)");
            return Err(refuse(note));
        }
    };
    if entry.has_mode.swap(true, Ordering::AcqRel) {
        return Err(refuse(format!("the failure mode of stream {handle:#x} was set before: it is set once")));
    }
    if stop {
        entry.stream.status().stop_all_on_failure();
        entry.attributes.stops();
    }
    Ok(())
}

/// aclrtStreamGetId: a small number that no other living stream of the process has.
pub fn id(handle: usize) -> Result<i32> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    Ok(Handles::<StreamEntry>::index(entry.handle) as i32)
}

/// aclrtLaunchHostFunc: `function` runs in stream order on a thread of ours.
pub fn launch_host_func(handle: usize, callback: Callback) -> Result<()> {
    let engine = engine()?;
    let entry = with_here(|here| here.stream(engine, handle))?;
    entry.stream.call(as_here(move || callback.take().run_here()))?;
    Ok(())
}
