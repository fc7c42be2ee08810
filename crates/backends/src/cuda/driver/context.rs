//! The primary context of one GPU, and the proof that it is current on the calling thread.
//!
//! The driver works on the context that is current. [`Context::enter`] makes ours that and answers with a
//! [`Current`]; the functions that need a context are methods of it (`streams.rs`, `copies.rs`, `memory.rs`,
//! `kernels.rs`), so that none can be called without one. What a result code says about the whole device is
//! remembered here: a lost device stays lost.

use super::{
    errors::meaning,
    library::Driver,
    table::{Code, Handle, SUCCESS},
};
use crate::os::threads::cancel::Cancelling;
use ferry_core::{
    Error, Result,
    sync::{Arc, CachePadded},
};
use std::{fmt, marker::PhantomData, sync::OnceLock};

/// Attribute of a device: how many multiprocessors it has.
const MULTIPROCESSORS: i32 = 16;
/// Attribute of a device: whether its streams can wait for a number of 64 bits in memory, and write one.
const STREAMS_USE_NUMBERS: i32 = 122;

/// The primary context of a GPU, the one that other users of CUDA in the process have too.
pub struct Context {
    driver: Arc<Driver>,
    device: i32,
    handle: Handle,
    /// What broke the device for good. Read by every submission, so it has a cache line to itself.
    lost: CachePadded<OnceLock<Error>>,
}

/// Proof that a context is current on the calling thread: it is while this lives, and the one before is again
/// afterwards. Several on one thread nest like scopes, and only the innermost is current. The thread cannot
/// be cancelled meanwhile: it may be in the fast path of a copy, where it otherwise can, and the driver makes
/// system calls.
pub struct Current<'a> {
    context: &'a Context,
    cancelling: Cancelling,
    of_this_thread: PhantomData<*mut ()>,
}

impl Context {
    /// Retains the primary context of the GPU with this number, creating it if the process has none yet.
    pub fn open(driver: Arc<Driver>, ordinal: u32) -> Result<Context> {
        let (mut device, mut handle) = (0, 0);
        // SAFETY: `device` receives the device.
        let code = unsafe { (driver.calls.cuDeviceGet)(&mut device, ordinal as i32) };
        driver.check("cuDeviceGet", code)?;
        // SAFETY: the device is valid and `handle` receives its context.
        let code = unsafe { (driver.calls.cuDevicePrimaryCtxRetain)(&mut handle, device) };
        driver.check("cuDevicePrimaryCtxRetain", code)?;
        Ok(Context { driver, device, handle, lost: CachePadded::default() })
    }

    /// The driver's handle of it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// How many multiprocessors the GPU has, if the driver says so.
    pub fn multiprocessors(&self) -> Option<usize> {
        self.attribute(MULTIPROCESSORS).map(|count| count.max(1) as usize)
    }

    /// Whether streams can wait for a number in memory, as far as the driver says.
    pub fn can_wait_for_numbers(&self) -> bool {
        self.driver.calls.cuStreamWaitValue64.is_some() && self.attribute(STREAMS_USE_NUMBERS) != Some(0)
    }

    /// Whether streams can write a number into memory, as the driver says.
    pub fn can_write_numbers(&self) -> bool {
        self.driver.calls.cuStreamWriteValue64.is_some() && self.attribute(STREAMS_USE_NUMBERS) == Some(1)
    }

    /// Bytes of the GPU's memory, in use or not, as far as the driver says. It knows that without asking the
    /// GPU.
    pub fn gpu_memory(&self) -> usize {
        let (ask, mut bytes) = (self.driver.calls.cuDeviceTotalMem, 0);
        // SAFETY: `bytes` receives the number.
        let code = ask.map(|ask| unsafe { ask(&mut bytes, self.device) });
        if code == Some(SUCCESS) { bytes } else { usize::MAX }
    }

    fn attribute(&self, which: i32) -> Option<i32> {
        let (ask, mut value) = (self.driver.calls.cuDeviceGetAttribute?, 0);
        // SAFETY: `value` receives the number.
        let code = unsafe { ask(&mut value, which, self.device) };
        (code == SUCCESS).then_some(value)
    }

    /// Makes the context the calling thread's until the result is dropped. Fails at once if the device is
    /// lost.
    pub fn enter(&self) -> Result<Current<'_>> {
        if let Some(why) = self.lost() {
            return Err(why.clone());
        }
        let cancelling = Cancelling::off();
        // SAFETY: the context is retained as long as `self`.
        let code = unsafe { (self.driver.calls.cuCtxPushCurrent)(self.handle) };
        self.check("cuCtxPushCurrent", code).inspect_err(|_| cancelling.back_unseen())?;
        Ok(Current { context: self, cancelling, of_this_thread: PhantomData })
    }

    /// Does what can fail only because the device is lost, and then need not be done.
    pub fn unless_lost(&self, task: impl FnOnce(&Current<'_>) -> Result<()>) -> Result<()> {
        let done = self.enter().and_then(|current| task(&current));
        if self.lost().is_some() { Ok(()) } else { done }
    }

    /// What broke the device for good, if anything has: the first such error, which every later call answers
    /// with.
    #[inline]
    pub fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Makes a result of a code that `call` returned, and remembers what broke the device for good.
    #[inline]
    pub fn check(&self, call: impl fmt::Display, code: Code) -> Result<()> {
        match code {
            SUCCESS => Ok(()),
            code => Err(self.error(call, code)),
        }
    }

    #[cold]
    fn error(&self, call: impl fmt::Display, code: Code) -> Error {
        let error = self.driver.error(call, code);
        if meaning(code).is_final {
            return self.lost.get_or_init(|| error).clone();
        }
        error
    }
}

impl Current<'_> {
    /// The context that is current.
    pub fn context(&self) -> &Context {
        self.context
    }

    /// The driver.
    pub(super) fn driver(&self) -> &Driver {
        &self.context.driver
    }

    /// See [`Context::check`].
    #[inline]
    pub(super) fn check(&self, call: impl fmt::Display, code: Code) -> Result<()> {
        self.context.check(call, code)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained by `open`; streams, events and memory of ours keep this context alive and so are
        // gone.
        unsafe { (self.driver.calls.cuDevicePrimaryCtxRelease)(self.device) };
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut ours = 0;
        // SAFETY: pops what `enter` pushed: guards are dropped in the reverse order of their making.
        unsafe { (self.driver().calls.cuCtxPopCurrent)(&mut ours) };
        self.cancelling.back_unseen();
    }
}
