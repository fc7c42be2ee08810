//! Kernels: loading them, and launching them in a stream.

use super::{
    context::Current,
    handles::{KernelHandle, StreamHandle},
};
use ferry_core::Result;
use std::{
    ffi::{CStr, c_void},
    ptr,
};

impl Current<'_> {
    /// Kernels of a module in PTX. It stays loaded as long as the context. The driver waits for all streams
    /// meanwhile.
    pub fn load<const N: usize>(&self, ptx: &CStr, names: [&CStr; N]) -> Result<[KernelHandle; N]> {
        let calls = &self.driver().calls;
        let mut module = 0;
        // SAFETY: the text ends with a zero, and `module` receives the module.
        let code = unsafe { (calls.cuModuleLoadData)(&mut module, ptx.as_ptr().cast::<c_void>()) };
        self.check("cuModuleLoadData", code)?;
        let mut found = [KernelHandle(0); N];
        for (kernel, name) in found.iter_mut().zip(names) {
            // SAFETY: the module is loaded and the name ends with a zero.
            let code = unsafe { (calls.cuModuleGetFunction)(&mut kernel.0, module, name.as_ptr()) };
            self.check("cuModuleGetFunction", code)?;
        }
        Ok(found)
    }

    /// Launches a kernel with a grid of `blocks` blocks in one dimension, each of `threads` threads.
    ///
    /// # Safety
    /// The kernel takes arguments of the types that `args` point at, and what these say stays valid until the
    /// stream has done it. The arguments themselves are copied before this returns.
    pub unsafe fn launch(
        &self,
        kernel: KernelHandle,
        (blocks, threads): (u32, u32),
        args: &mut [*mut c_void],
        stream: StreamHandle,
    ) -> Result<()> {
        let launch = self.driver().calls.cuLaunchKernel;
        let (args, more) = (args.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the caller's promise.
        let code = unsafe { launch(kernel.0, blocks, 1, 1, threads, 1, 1, 0, stream.0, args, more) };
        self.check("cuLaunchKernel", code)
    }
}
