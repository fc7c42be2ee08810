//! Streams, events and the calls that take a stream, one short method each.

use std::ffi::c_void;

pub use ferry_blocker::Blocker;

use crate::error::Result;
use crate::library::Library;
use crate::memory::{BlockPart, Grid};
use crate::types::{Handle, HostFunction};
use crate::{call, kind};

/// A stream, destroyed on drop unless it is a context's default one.
pub struct Stream {
    library: &'static Library,
    handle: Handle,
    owned: bool,
}

// SAFETY: all that is done with the handle is to give it to the library, which any thread may do.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// aclrtCreateStream.
    pub fn new(library: &'static Library) -> Result<Stream> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        library.check("aclrtCreateStream", unsafe { (library.functions.aclrtCreateStream)(&mut handle) })?;
        Ok(Stream { library, handle, owned: true })
    }

    /// aclrtCreateStreamWithConfig.
    pub fn with_flags(library: &'static Library, flags: u32) -> Result<Stream> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        let code = unsafe { (library.functions.aclrtCreateStreamWithConfig)(&mut handle, 0, flags) };
        library.check("aclrtCreateStreamWithConfig", code)?;
        Ok(Stream { library, handle, owned: true })
    }

    /// The default stream of the current context: NULL.
    pub fn default_of_context(library: &'static Library) -> Stream {
        Stream { library, handle: std::ptr::null_mut(), owned: false }
    }

    /// aclrtSynchronizeStream.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: takes a handle, which the library looks up.
        let code = unsafe { (self.library.functions.aclrtSynchronizeStream)(self.handle) };
        self.library.check("aclrtSynchronizeStream", code)
    }

    /// aclrtSynchronizeStreamWithTimeout.
    pub fn synchronise_within(&self, limit_ms: i32) -> Result<()> {
        // SAFETY: takes a handle, which the library looks up.
        let code =
            unsafe { (self.library.functions.aclrtSynchronizeStreamWithTimeout)(self.handle, limit_ms) };
        self.library.check("aclrtSynchronizeStreamWithTimeout", code)
    }

    /// aclrtStreamQuery: whether everything is done.
    pub fn is_done(&self) -> Result<bool> {
        let mut status = -1;
        // SAFETY: `status` is writable for the time of the call.
        let code = unsafe { (self.library.functions.aclrtStreamQuery)(self.handle, &mut status) };
        self.library.check("aclrtStreamQuery", code)?;
        Ok(status == 0)
    }

    /// aclrtRecordEvent.
    pub fn record(&self, event: &Event) -> Result<()> {
        // SAFETY: takes handles, which the library looks up.
        let code = unsafe { (self.library.functions.aclrtRecordEvent)(event.handle, self.handle) };
        self.library.check("aclrtRecordEvent", code)
    }

    /// aclrtStreamWaitEvent.
    pub fn wait_for(&self, event: &Event) -> Result<()> {
        // SAFETY: takes handles, which the library looks up.
        let code = unsafe { (self.library.functions.aclrtStreamWaitEvent)(self.handle, event.handle) };
        self.library.check("aclrtStreamWaitEvent", code)
    }

    /// aclrtLaunchHostFunc.
    pub fn call(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let launch = self.library.functions.aclrtLaunchHostFunc;
        // SAFETY: takes a handle, which the library looks up, and a function with its argument.
        let code = boxed(work, |function, argument| unsafe { launch(self.handle, function, argument) });
        self.library.check("aclrtLaunchHostFunc", code)
    }

    /// Blocks the stream from here on: what was submitted before still runs.
    pub fn block(&self) -> Result<Blocker> {
        let (blocker, function) = Blocker::without_limit();
        self.call(function)?;
        Ok(blocker)
    }

    /// aclrtLaunchCallback.
    pub fn call_back(&self, blocks: bool, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let launch = self.library.functions.aclrtLaunchCallback;
        let code = boxed(work, |function, argument| {
            // SAFETY: as for `call`.
            unsafe { launch(function, argument, i32::from(blocks), self.handle) }
        });
        self.library.check("aclrtLaunchCallback", code)
    }

    /// aclrtMemcpyAsync. `dst` is the room there is, `src` the bytes to copy.
    pub fn copy(&self, dst: BlockPart, src: BlockPart, kind: i32) -> Result<()> {
        let call = self.library.functions.aclrtMemcpyAsync;
        // SAFETY: both spans lie in memory that the library keeps, or waits for, until the copy has passed.
        let code = unsafe { call(dst.at(), dst.len(), src.at(), src.len(), kind, self.handle) };
        self.library.check("aclrtMemcpyAsync", code)
    }

    /// aclrtMemcpyAsyncWithCondition.
    pub fn copy_with_condition(&self, dst: BlockPart, src: BlockPart, kind: i32) -> Result<()> {
        let call = self.library.functions.aclrtMemcpyAsyncWithCondition;
        // SAFETY: as for `copy`.
        let code = unsafe { call(dst.at(), dst.len(), src.at(), src.len(), kind, self.handle) };
        self.library.check("aclrtMemcpyAsyncWithCondition", code)
    }

    /// aclrtMemcpy2dAsync.
    pub fn copy_2d(&self, dst: Grid, src: Grid, width: usize, height: usize, kind: i32) -> Result<()> {
        dst.assert_holds(width, height);
        src.assert_holds(width, height);
        let call = self.library.functions.aclrtMemcpy2dAsync;
        let (to, from) = (dst.span.at(), src.span.at());
        // SAFETY: as for `copy`; both matrices lie inside their spans.
        let code = unsafe { call(to, dst.pitch, from, src.pitch, width, height, kind, self.handle) };
        self.library.check("aclrtMemcpy2dAsync", code)
    }

    /// aclrtMemcpyAsyncWithDesc.
    pub fn copy_by_descriptor(&self, descriptor: BlockPart, kind: i32) -> Result<()> {
        // SAFETY: the library checks what the descriptor says against the memory it knows, when the copy
        // runs.
        let code =
            unsafe { (self.library.functions.aclrtMemcpyAsyncWithDesc)(descriptor.at(), kind, self.handle) };
        self.library.check("aclrtMemcpyAsyncWithDesc", code)
    }

    /// aclrtMemcpyAsyncWithOffset: the addresses are in the cells, `room` and `count` are lengths.
    pub fn copy_by_cells(&self, dst: Cell, room: usize, src: Cell, count: usize) -> Result<()> {
        let call = self.library.functions.aclrtMemcpyAsyncWithOffset;
        let (to, from) = (dst.span.at().cast(), src.span.at().cast());
        let kind = kind::INNER_DEVICE_TO_DEVICE;
        // SAFETY: the library checks what the cells say against the memory it knows, when the copy runs.
        let code = unsafe { call(to, room, dst.offset, from, count, src.offset, kind, self.handle) };
        self.library.check("aclrtMemcpyAsyncWithOffset", code)
    }

    /// aclrtMemsetAsync.
    pub fn fill(&self, dst: BlockPart, value: i32, count: usize) -> Result<()> {
        let call = self.library.functions.aclrtMemsetAsync;
        // SAFETY: the span lies in memory that the library keeps until the fill has passed.
        let code = unsafe { call(dst.at(), dst.len(), value, count, self.handle) };
        self.library.check("aclrtMemsetAsync", code)
    }

    /// aclrtMemsetD32Async.
    pub fn fill_words(&self, dst: BlockPart, value: u32, count: usize) -> Result<()> {
        let call = self.library.functions.aclrtMemsetD32Async;
        // SAFETY: as for `fill`.
        let code = unsafe { call(dst.at(), dst.len(), value, count, self.handle) };
        self.library.check("aclrtMemsetD32Async", code)
    }

    /// aclrtReduceAsync.
    pub fn reduce(&self, dst: BlockPart, src: BlockPart, kind: i32, element: i32) -> Result<()> {
        assert!(dst.len() >= src.len(), "a reduction of {} bytes in {}", src.len(), dst.len());
        let (call, none) = (self.library.functions.aclrtReduceAsync, std::ptr::null_mut());
        // SAFETY: as for `fill`.
        let code = unsafe { call(dst.at(), src.at(), src.len() as u64, kind, element, self.handle, none) };
        self.library.check("aclrtReduceAsync", code)
    }

    /// aclrtDestroyStream, keeping the handle to see it refused.
    pub fn destroyed(mut self) -> Result<Stream> {
        self.owned = false;
        // SAFETY: takes a handle, which the library looks up.
        let code = unsafe { (self.library.functions.aclrtDestroyStream)(self.handle) };
        self.library.check("aclrtDestroyStream", code)?;
        Ok(self)
    }

    /// The handle, for calls that have no method here.
    pub fn handle(&self) -> Handle {
        self.handle
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned {
            // SAFETY: takes a handle, which the library looks up.
            unsafe { (self.library.functions.aclrtDestroyStream)(self.handle) };
        }
    }
}

/// Where an address is to be read when a copy runs, and what to add to it.
#[derive(Clone, Copy)]
pub struct Cell<'m> {
    /// Where the address lies.
    pub span: BlockPart<'m>,
    /// What is added to it, in bytes.
    pub offset: usize,
}

/// An event, destroyed on drop.
pub struct Event {
    library: &'static Library,
    handle: Handle,
}

impl Event {
    /// aclrtCreateEvent.
    pub fn new(library: &'static Library) -> Result<Event> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        library.check("aclrtCreateEvent", unsafe { (library.functions.aclrtCreateEvent)(&mut handle) })?;
        Ok(Event { library, handle })
    }

    /// aclrtCreateEventWithFlag.
    pub fn with_flags(library: &'static Library, flags: u32) -> Result<Event> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        unsafe { call!(library, aclrtCreateEventWithFlag(&mut handle, flags)) }?;
        Ok(Event { library, handle })
    }

    /// aclrtCreateEventExWithFlag.
    pub fn newest(library: &'static Library, flags: u32) -> Result<Event> {
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable for the time of the call.
        unsafe { call!(library, aclrtCreateEventExWithFlag(&mut handle, flags)) }?;
        Ok(Event { library, handle })
    }

    /// The handle, for calls that have no method here.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// aclrtQueryEventStatus: whether everything recorded is done.
    pub fn is_done(&self) -> Result<bool> {
        let mut status = -1;
        // SAFETY: `status` is writable for the time of the call.
        let code = unsafe { (self.library.functions.aclrtQueryEventStatus)(self.handle, &mut status) };
        self.library.check("aclrtQueryEventStatus", code)?;
        Ok(status == 1)
    }

    /// aclrtSynchronizeEvent.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: takes a handle, which the library looks up.
        let code = unsafe { (self.library.functions.aclrtSynchronizeEvent)(self.handle) };
        self.library.check("aclrtSynchronizeEvent", code)
    }

    /// aclrtEventElapsedTime from `start` to this one, in milliseconds.
    pub fn ms_since(&self, start: &Event) -> Result<f32> {
        let mut ms = f32::NAN;
        // SAFETY: `ms` is writable for the time of the call.
        let code =
            unsafe { (self.library.functions.aclrtEventElapsedTime)(&mut ms, start.handle, self.handle) };
        self.library.check("aclrtEventElapsedTime", code)?;
        Ok(ms)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: takes a handle, which the library looks up.
        unsafe { (self.library.functions.aclrtDestroyEvent)(self.handle) };
    }
}

/// Passes a closure to `launch` as a C function and its argument, which the library calls at most once if it
/// accepts it. A closure that it accepts and then drops is leaked: the library does not report that.
fn boxed(work: impl FnOnce() + Send + 'static, launch: impl FnOnce(HostFunction, *mut c_void) -> i32) -> i32 {
    let work: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(work));
    let argument = Box::into_raw(work);
    let code = launch(run_boxed, argument.cast());
    if code != 0 {
        // SAFETY: the library refused it, so the box is still ours alone.
        drop(unsafe { Box::from_raw(argument) });
    }
    code
}

/// Runs and frees the closure that `boxed` made an argument of.
///
/// # Safety
/// `arguments` is the pointer that `boxed` made, given here once.
unsafe extern "C" fn run_boxed(arguments: *mut c_void) {
    // SAFETY: passed on to the caller.
    let work = unsafe { Box::from_raw(arguments.cast::<Box<dyn FnOnce() + Send>>()) };
    work();
}
