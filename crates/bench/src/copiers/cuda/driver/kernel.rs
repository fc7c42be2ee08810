//! Kernels of the driver: loaded from PTX, launched on a stream.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use ferry_abi::Result;

use super::context::CudaDriver;
use super::stream::CudaStream;
use super::table::CudaHandle;

/// A kernel of a module that is never unloaded.
pub struct CudaKernel(CudaHandle);

/// How many blocks a kernel is launched with, and what each has.
#[derive(Clone, Copy)]
pub struct LaunchShape {
    /// Blocks.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of shared memory of a block, beside what the kernel declares.
    pub shared: u32,
}

impl CudaKernel {
    /// The kernel of this name, which may use `shared` bytes of memory that is not declared in it.
    pub fn load(cuda: &Arc<CudaDriver>, ptx: &CStr, name: &CStr, shared: u32) -> Result<CudaKernel> {
        const MAX_DYNAMIC_SHARED_SIZE_BYTES: i32 = 8;
        let (functions, mut module, mut kernel) = (&cuda.functions, 0, 0);
        cuda.within(|| {
            // SAFETY: the text is a string, and `module` is writable.
            let code = unsafe { (functions.cuModuleLoadData)(&mut module, ptx.as_ptr().cast()) };
            cuda.check("cuModuleLoadData", code)?;
            // SAFETY: the module was loaded, the name is a string, and `kernel` is writable.
            let code = unsafe { (functions.cuModuleGetFunction)(&mut kernel, module, name.as_ptr()) };
            cuda.check("cuModuleGetFunction", code)?;
            // SAFETY: the kernel is of a module that stays loaded.
            let code = unsafe {
                (functions.cuFuncSetAttribute)(kernel, MAX_DYNAMIC_SHARED_SIZE_BYTES, shared as i32)
            };
            cuda.check("cuFuncSetAttribute", code)
        })?;
        Ok(CudaKernel(kernel))
    }
}

impl CudaStream {
    /// cuLaunchKernel, with pointers to the arguments.
    ///
    /// # Safety
    /// The arguments are those that the kernel declares, and what they point to on the device lives until the
    /// stream has passed the kernel. The context is current.
    pub unsafe fn launch(
        &self,
        kernel: &CudaKernel,
        shape: LaunchShape,
        arguments: &mut [*mut c_void],
    ) -> Result<()> {
        let (call, LaunchShape { blocks, threads, shared }) = (self.driver().functions.cuLaunchKernel, shape);
        let (stream, arguments) = (self.handle(), arguments.as_mut_ptr());
        // SAFETY: passed on to the caller; the driver copies the arguments before it returns.
        let code =
            unsafe { call(kernel.0, blocks, 1, 1, threads, 1, 1, shared, stream, arguments, null_mut()) };
        self.driver().check("cuLaunchKernel", code)
    }
}
