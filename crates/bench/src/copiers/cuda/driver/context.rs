//! A GPU's primary context, in which the driver is called.

use std::ffi::{CStr, c_char};
use std::sync::Arc;

use ferry_abi::{Error, Result};

use super::table::{
    BatchFunction, CuResult, CudaFunctions, CudaHandle, GraphFunctions, find_batch, find_graphs,
};

/// The driver, and the GPU's primary context, which is also the context of Ferry's backend. It is not
/// released before the process ends.
pub struct CudaDriver {
    pub(super) functions: CudaFunctions,
    pub(super) graphs: Option<GraphFunctions>,
    pub(super) batch: Option<BatchFunction>,
    device: i32,
    context: CudaHandle,
    /// The GPU and the newest CUDA that the driver knows.
    pub about: String,
}

impl CudaDriver {
    /// Looks for the driver and opens a GPU.
    pub fn open(ordinal: i32) -> Result<Arc<CudaDriver>> {
        // SAFETY: the driver under its usual name, which our library has loaded as well.
        let library = unsafe { libloading::Library::new("libcuda.so.1") };
        let library = library.map_err(|error| missing(&error.to_string()))?;
        // SAFETY: it is a CUDA driver, by its name.
        let functions =
            unsafe { CudaFunctions::load(&library) }.map_err(|error| missing(&error.to_string()))?;
        let (batch, graphs) = (find_batch(&library), find_graphs(&library));
        std::mem::forget(library);
        let mut cuda = CudaDriver { functions, graphs, batch, device: 0, context: 0, about: String::new() };
        cuda.set_up(ordinal)?;
        Ok(Arc::new(cuda))
    }

    fn set_up(&mut self, ordinal: i32) -> Result<()> {
        let (mut device, mut context, functions) = (0, 0, &self.functions);
        // SAFETY: what is written to is writable; our library has initialised the driver.
        self.check("cuDeviceGet", unsafe { (functions.cuDeviceGet)(&mut device, ordinal) })?;
        // SAFETY: the device is one of the driver's.
        let code = unsafe { (functions.cuDevicePrimaryCtxRetain)(&mut context, device) };
        self.check("cuDevicePrimaryCtxRetain", code)?;
        (self.device, self.context) = (device, context);
        self.about = self.describe()?;
        Ok(())
    }

    fn describe(&self) -> Result<String> {
        let (mut version, mut name) = (0, [0u8; 128]);
        // SAFETY: `version` is writable.
        let code = unsafe { (self.functions.cuDriverGetVersion)(&mut version) };
        self.check("cuDriverGetVersion", code)?;
        let room = name.len() as i32;
        // SAFETY: there is room for as many bytes as said.
        let code = unsafe { (self.functions.cuDeviceGetName)(name.as_mut_ptr().cast(), room, self.device) };
        self.check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default().to_string_lossy();
        Ok(format!("{name}, CUDA {}.{}", version / 1000, version % 1000 / 10))
    }

    /// How many multiprocessors the GPU has.
    pub fn multiprocessors(&self) -> Result<u32> {
        const MULTIPROCESSOR_COUNT: i32 = 16;
        let (mut count, ask) = (0, self.functions.cuDeviceGetAttribute);
        // SAFETY: `count` is writable, and the device is the one that was opened.
        self.check("cuDeviceGetAttribute", unsafe { ask(&mut count, MULTIPROCESSOR_COUNT, self.device) })?;
        Ok(count as u32)
    }

    /// Makes the context current in this thread.
    pub fn push(&self) -> Result<()> {
        // SAFETY: the context lives until the end.
        self.check("cuCtxPushCurrent", unsafe { (self.functions.cuCtxPushCurrent_v2)(self.context) })
    }

    /// Takes back a `push`.
    pub fn pop(&self) -> Result<()> {
        let mut popped = 0;
        // SAFETY: `popped` is writable.
        self.check("cuCtxPopCurrent", unsafe { (self.functions.cuCtxPopCurrent_v2)(&mut popped) })
    }

    /// Does `work` with the context current in this thread.
    pub fn within<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.push()?;
        let outcome = work();
        self.pop()?;
        outcome
    }

    /// cuMemcpyHtoD: returns when the source may be written again.
    ///
    /// # Safety
    /// `len` bytes at `src` are readable, and as many at `dst` are memory of the device. The context is
    /// current.
    pub unsafe fn copy_to_device(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        // SAFETY: passed on to the caller.
        self.check("cuMemcpyHtoD", unsafe { (self.functions.cuMemcpyHtoD_v2)(dst, src as _, len) })
    }

    /// cuMemcpyDtoH: returns when the bytes are there.
    ///
    /// # Safety
    /// `len` bytes at `dst` are writable, and as many at `src` are memory of the device. The context is
    /// current.
    pub unsafe fn copy_from_device(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        // SAFETY: passed on to the caller.
        self.check("cuMemcpyDtoH", unsafe { (self.functions.cuMemcpyDtoH_v2)(dst as _, src, len) })
    }

    /// Fails with the function's name unless it succeeded.
    pub(super) fn check(&self, name: &str, code: CuResult) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut at: *const c_char = std::ptr::null();
        // SAFETY: `at` is writable; what is written to it is a string that lives as long as the driver.
        let known = unsafe { (self.functions.cuGetErrorName)(code, &mut at) } == 0 && !at.is_null();
        // SAFETY: as above.
        let text = if known { unsafe { CStr::from_ptr(at) }.to_string_lossy() } else { "unknown".into() };
        Err(Error::Setup(format!("{name} answered {code} ({text})")))
    }
}

fn missing(what: &str) -> Error {
    Error::NotHere(format!("no CUDA peer: {what}"))
}
