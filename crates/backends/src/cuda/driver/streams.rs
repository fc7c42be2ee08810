//! Streams and events: making them, waiting for them, and letting them wait.

use super::{
    context::{Context, Current},
    handles::{EventHandle, StreamHandle},
    table::{Code, Handle, NOT_READY, SUCCESS},
};
use ferry_core::{Error, Kind, Result, fence::survives};
use std::{ffi::c_void, fmt};

/// The stream does not wait for the default stream, nor that for it.
const STREAM_NON_BLOCKING: u32 = 1;
/// The event remembers when it was reached.
const EVENT_TIMED: u32 = 0;
/// The event does not remember when it was reached.
const EVENT_UNTIMED: u32 = 2;
/// A stream waits until the number in memory is no less than the one given.
const WAIT_UNTIL_AS_LARGE: u32 = 0;
/// A stream writes a number behind a memory fence: whoever sees it sees all that came before it.
const WRITE_BEHIND_A_FENCE: u32 = 0;
/// A stream that takes work to run, and not into a graph.
const CAPTURES_NOTHING: i32 = 0;

/// What the driver calls when a stream gets somewhere.
pub trait StreamCallback: Send + 'static {
    /// Called once, with the result of the work so far, on a thread of the driver's that serves other streams
    /// as well: it must not call the driver and should not take long.
    fn reached(self: Box<Self>, code: Code);
}

/// What happens in a stream.
impl Current<'_> {
    /// A stream of this context.
    pub fn create_stream(&self) -> Result<StreamHandle> {
        let mut stream = 0;
        // SAFETY: `stream` receives the stream.
        let code = unsafe { (self.driver().calls.cuStreamCreate)(&mut stream, STREAM_NON_BLOCKING) };
        self.check("cuStreamCreate", code).map(|()| StreamHandle(stream))
    }

    /// A stream of this context whose work goes before that of others when a multiprocessor is free, if the
    /// driver has such streams.
    pub fn create_urgent_stream(&self) -> Result<StreamHandle> {
        let calls = &self.driver().calls;
        let (Some(ask), Some(create)) = (calls.cuCtxGetStreamPriorityRange, calls.cuStreamCreateWithPriority)
        else {
            return self.create_stream();
        };
        let (mut least, mut most, mut stream) = (0, 0, 0);
        // SAFETY: both receive a number.
        self.check("cuCtxGetStreamPriorityRange", unsafe { ask(&mut least, &mut most) })?;
        // SAFETY: `stream` receives the stream.
        let code = unsafe { create(&mut stream, STREAM_NON_BLOCKING, most) };
        self.check("cuStreamCreateWithPriority", code).map(|()| StreamHandle(stream))
    }

    /// Destroys a stream; the driver finishes what is in it.
    ///
    /// # Safety
    /// It came from `create_stream`, and its handle is not used any more.
    pub unsafe fn destroy_stream(&self, stream: StreamHandle) {
        // SAFETY: the caller's promise.
        unsafe { (self.driver().calls.cuStreamDestroy)(stream.0) };
    }

    /// Blocks until all work in the stream is done; `work` names it in the error if it has failed.
    pub fn synchronize(&self, stream: StreamHandle, work: impl fmt::Display) -> Result<()> {
        // SAFETY: the stream is alive, as every handle.
        let code = unsafe { (self.driver().calls.cuStreamSynchronize)(stream.0) };
        self.check(work, code)
    }

    /// Whether all work in the stream is done.
    pub fn is_idle(&self, stream: StreamHandle) -> Result<bool> {
        // SAFETY: the stream is alive, as every handle.
        self.is_done(unsafe { (self.driver().calls.cuStreamQuery)(stream.0) })
    }

    /// The stream waits for what the event, of the context `of`, stands for now. If the driver says that a
    /// device is lost it is the event's.
    pub fn wait_in_stream(&self, stream: StreamHandle, event: EventHandle, of: &Context) -> Result<()> {
        // SAFETY: both are alive, as all handles; the driver keeps what it needs of the event.
        let code = unsafe { (self.driver().calls.cuStreamWaitEvent)(stream.0, event.0, 0) };
        of.check("cuStreamWaitEvent", code)
    }

    /// The stream waits until the number at `at` is no less than `number`.
    ///
    /// # Safety
    /// There is a number of 64 bits in page-locked memory at `at`, and it stays there until the stream has
    /// come past.
    pub unsafe fn wait_for_number(&self, stream: StreamHandle, at: usize, number: u64) -> Result<()> {
        let lacking = || Kind::Unsupported.because("this CUDA driver has no cuStreamWaitValue64");
        let call = self.driver().calls.cuStreamWaitValue64.ok_or_else(lacking)?;
        // SAFETY: the stream is alive, as every handle; the caller vouches for the number.
        let code = unsafe { call(stream.0, at, number, WAIT_UNTIL_AS_LARGE) };
        self.check("cuStreamWaitValue64", code)
    }

    /// The stream writes `number` to `at`. Whoever sees it there sees all that the stream did before.
    ///
    /// # Safety
    /// There is a number of 64 bits in page-locked memory at `at`, and it stays there until the stream has
    /// written it.
    pub unsafe fn write_number(&self, stream: StreamHandle, at: usize, number: u64) -> Result<()> {
        let lacking = || Kind::Unsupported.because("this CUDA driver has no cuStreamWriteValue64");
        let call = self.driver().calls.cuStreamWriteValue64.ok_or_else(lacking)?;
        // SAFETY: the stream is alive, as every handle; the caller vouches for the number.
        let code = unsafe { call(stream.0, at, number, WRITE_BEHIND_A_FENCE) };
        self.check("cuStreamWriteValue64", code)
    }

    /// Has the driver call `callback` when the stream gets here. If it refuses, the callback comes back.
    pub fn call_back<T: StreamCallback>(
        &self,
        stream: StreamHandle,
        callback: Box<T>,
    ) -> Result<(), (Error, Box<T>)> {
        let data = Box::into_raw(callback);
        let call = self.driver().calls.cuStreamAddCallback;
        // SAFETY: the driver hands `data` to `reached` once, failed device or not.
        let code = unsafe { call(stream.0, reached::<T>, data.cast(), 0) };
        // SAFETY: the driver has refused it, so it is still ours.
        self.check("cuStreamAddCallback", code).map_err(|why| (why, unsafe { Box::from_raw(data) }))
    }

    /// Whether the stream is being captured into a graph, as far as the driver says.
    pub fn is_captured(&self, stream: StreamHandle) -> Result<bool> {
        let Some(ask) = self.driver().calls.cuStreamIsCapturing else { return Ok(false) };
        let mut state = CAPTURES_NOTHING;
        // SAFETY: the stream is alive, as every handle, and `state` receives a number.
        self.check("cuStreamIsCapturing", unsafe { ask(stream.0, &mut state) })?;
        Ok(state != CAPTURES_NOTHING)
    }

    /// The context of a stream, if the driver says it.
    pub fn context_of(&self, stream: StreamHandle) -> Result<Option<Handle>> {
        let Some(ask) = self.driver().calls.cuStreamGetCtx else { return Ok(None) };
        let mut context = 0;
        // SAFETY: the stream is alive, as every handle, and `context` receives its context.
        self.check("cuStreamGetCtx", unsafe { ask(stream.0, &mut context) })?;
        Ok(Some(context))
    }
}

/// Points of streams.
impl Current<'_> {
    /// An event, which counts as reached until it is recorded.
    pub fn create_event(&self, is_timed: bool) -> Result<EventHandle> {
        let (mut event, flags) = (0, if is_timed { EVENT_TIMED } else { EVENT_UNTIMED });
        // SAFETY: `event` receives the event.
        let code = unsafe { (self.driver().calls.cuEventCreate)(&mut event, flags) };
        self.check("cuEventCreate", code).map(|()| EventHandle(event))
    }

    /// Destroys an event; the driver finishes what waits for it.
    ///
    /// # Safety
    /// It came from `create_event`, and its handle is not used any more.
    pub unsafe fn destroy_event(&self, event: EventHandle) {
        // SAFETY: the caller's promise.
        unsafe { (self.driver().calls.cuEventDestroy)(event.0) };
    }

    /// The event stands for the end of the stream as it is now, a stream of this context.
    pub fn record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        // SAFETY: both are alive, as all handles.
        let code = unsafe { (self.driver().calls.cuEventRecord)(event.0, stream.0) };
        self.check("cuEventRecord", code)
    }

    /// Whether the event was reached.
    pub fn is_reached(&self, event: EventHandle) -> Result<bool> {
        // SAFETY: the event is alive, as every handle.
        self.is_done(unsafe { (self.driver().calls.cuEventQuery)(event.0) })
    }

    /// Blocks until the event is reached; `work` names what is before it in the error if that has failed.
    pub fn wait_for_event(&self, event: EventHandle, work: impl fmt::Display) -> Result<()> {
        // SAFETY: the event is alive, as every handle.
        let code = unsafe { (self.driver().calls.cuEventSynchronize)(event.0) };
        self.check(work, code)
    }

    /// Milliseconds from one event to the other, if both are timed, reached, and of one device.
    pub fn elapsed_ms(&self, start: EventHandle, end: EventHandle) -> Option<f64> {
        let mut ms = 0.0;
        // SAFETY: both are alive, as all handles.
        let code = unsafe { (self.driver().calls.cuEventElapsedTime)(&mut ms, start.0, end.0) };
        (code == SUCCESS).then_some(f64::from(ms))
    }

    fn is_done(&self, code: Code) -> Result<bool> {
        match code {
            NOT_READY => Ok(false),
            code => self.check("the GPU's work", code).map(|()| true),
        }
    }
}

/// Called by the driver.
unsafe extern "C" fn reached<T: StreamCallback>(_: Handle, code: Code, data: *mut c_void) {
    // SAFETY: `call_back` gave this box away to be taken here, once.
    let callback = unsafe { Box::from_raw(data.cast::<T>()) };
    // The driver's frames cannot be unwound.
    survives(|| callback.reached(code));
}
