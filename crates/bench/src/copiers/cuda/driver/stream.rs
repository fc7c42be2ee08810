//! Streams of the driver, and the work that is put into them.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use ferry_abi::Result;

use super::batch::CudaBatch;
use super::context::CudaDriver;
use super::event::CudaEvent;
use super::table::{CudaHandle, Rectangle};

/// A stream of the context, destroyed when dropped.
pub struct CudaStream {
    cuda: Arc<CudaDriver>,
    handle: CudaHandle,
}

impl CudaStream {
    /// A new one, which is not ordered with the default stream.
    pub fn new(cuda: &Arc<CudaDriver>) -> Result<CudaStream> {
        const NON_BLOCKING: u32 = 1;
        let mut handle = 0;
        cuda.within(|| {
            // SAFETY: `handle` is writable, and the context is current.
            cuda.check("cuStreamCreate", unsafe {
                (cuda.functions.cuStreamCreate)(&mut handle, NON_BLOCKING)
            })
        })?;
        Ok(CudaStream { cuda: cuda.clone(), handle })
    }

    /// The driver.
    pub fn driver(&self) -> &CudaDriver {
        &self.cuda
    }

    /// What other libraries know it by.
    pub fn handle(&self) -> usize {
        self.handle
    }

    /// cuMemcpyAsync.
    ///
    /// # Safety
    /// Both addresses are of memory that lives until the stream has passed the copy, and the context is
    /// current.
    pub unsafe fn copy(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        let call = self.cuda.functions.cuMemcpyAsync;
        // SAFETY: passed on to the caller.
        self.cuda.check("cuMemcpyAsync", unsafe { call(dst, src, len, self.handle) })
    }

    /// cuMemcpy2DAsync.
    ///
    /// # Safety
    /// As for `copy`, for all rows.
    pub unsafe fn copy_2d(&self, rectangle: &Rectangle) -> Result<()> {
        let call = self.cuda.functions.cuMemcpy2DAsync_v2;
        // SAFETY: passed on to the caller.
        self.cuda.check("cuMemcpy2DAsync", unsafe { call(rectangle, self.handle) })
    }

    /// cuMemcpyBatchAsync, where there is one.
    ///
    /// # Safety
    /// As for `copy`, for all segments.
    pub unsafe fn copy_batch(&self, batch: &mut CudaBatch) -> Result<()> {
        // SAFETY: passed on to the caller.
        unsafe { self.cuda.copy_batch(self.handle, batch) }
    }

    /// cuMemsetD8Async.
    ///
    /// # Safety
    /// `len` bytes at `dst` are memory of the device that lives until the stream has passed the fill, and the
    /// context is current.
    pub unsafe fn fill(&self, dst: usize, byte: u8, len: usize) -> Result<()> {
        let call = self.cuda.functions.cuMemsetD8Async;
        // SAFETY: passed on to the caller.
        self.cuda.check("cuMemsetD8Async", unsafe { call(dst, byte, len, self.handle) })
    }

    /// cuMemsetD32Async.
    ///
    /// # Safety
    /// As for `fill`, for `count` words of 32 bits.
    pub unsafe fn fill_words(&self, dst: usize, word: u32, count: usize) -> Result<()> {
        let call = self.cuda.functions.cuMemsetD32Async;
        // SAFETY: passed on to the caller.
        self.cuda.check("cuMemsetD32Async", unsafe { call(dst, word, count, self.handle) })
    }

    /// cuLaunchHostFunc of a function that does nothing.
    pub fn call_nothing(&self) -> Result<()> {
        unsafe extern "C" fn nothing(_: *mut c_void) {}
        let call = self.cuda.functions.cuLaunchHostFunc;
        // SAFETY: the stream lives, and the function ignores its argument.
        self.cuda.check("cuLaunchHostFunc", unsafe { call(self.handle, nothing, null_mut()) })
    }

    /// Records an event behind all that was submitted.
    pub fn record(&self, event: &CudaEvent) -> Result<()> {
        // SAFETY: both live.
        let code = unsafe { (self.cuda.functions.cuEventRecord)(event.handle(), self.handle) };
        self.cuda.check("cuEventRecord", code)
    }

    /// What is submitted from here on waits for an event.
    pub fn wait_for(&self, event: &CudaEvent) -> Result<()> {
        // SAFETY: both live, and there are no flags.
        let code = unsafe { (self.cuda.functions.cuStreamWaitEvent)(self.handle, event.handle(), 0) };
        self.cuda.check("cuStreamWaitEvent", code)
    }

    /// Waits for all that was submitted.
    pub fn synchronise(&self) -> Result<()> {
        // SAFETY: the stream lives.
        let code = unsafe { (self.cuda.functions.cuStreamSynchronize)(self.handle) };
        self.cuda.check("cuStreamSynchronize", code)
    }
}

impl Drop for CudaStream {
    fn drop(&mut self) {
        let _ = self.cuda.within(|| {
            // Where a sample failed, copies may still use the memory.
            let waited = self.synchronise();
            // SAFETY: made by `new` and destroyed once.
            let code = unsafe { (self.cuda.functions.cuStreamDestroy_v2)(self.handle) };
            waited.and(self.cuda.check("cuStreamDestroy", code))
        });
    }
}
