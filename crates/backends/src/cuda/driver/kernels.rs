//! Kernels: loading them, and launching them in a stream.

use super::{
    context::Current,
    handles::{KernelHandle, StreamHandle},
    table::{LaunchAttribute, LaunchConfig},
};
use ferry_core::{Kind, Result};
use std::{
    ffi::{CStr, c_void},
    ptr,
};

/// Where an argument of a kernel is. The driver only reads it.
pub fn arg<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast()
}

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

    /// As [`launch`](Self::launch), with each two blocks on neighbouring multiprocessors. An error if this
    /// GPU or its driver has no such launches; then nothing was launched.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn launch_in_pairs(
        &self,
        kernel: KernelHandle,
        (blocks, threads): (u32, u32),
        args: &mut [*mut c_void],
        stream: StreamHandle,
    ) -> Result<()> {
        let lacking = || Kind::Unsupported.because("this CUDA driver has no cuLaunchKernelEx");
        let launch = self.driver().calls.cuLaunchKernelEx.ok_or_else(lacking)?;
        let pairs = LaunchAttribute::clusters_of(2);
        let config = LaunchConfig {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            shared: 0,
            stream: stream.0,
            attributes: &pairs,
            attribute_count: 1,
        };
        // SAFETY: the configuration and its one attribute are read before the call returns; for the rest the
        // caller's promise.
        let code = unsafe { launch(&config, kernel.0, args.as_mut_ptr(), ptr::null_mut()) };
        self.check("cuLaunchKernelEx", code)
    }
}
