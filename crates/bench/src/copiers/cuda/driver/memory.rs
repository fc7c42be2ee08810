//! Memory of the driver: on the device, page-locked, and registered.

use std::ptr::null_mut;
use std::sync::Arc;

use ferry_abi::Result;

use crate::bytes::Bytes;

use super::context::CudaDriver;

impl CudaDriver {
    /// cuMemAlloc: the address of `len` bytes on the device.
    pub fn allocate(&self, len: usize) -> Result<usize> {
        let (mut at, call) = (0, self.functions.cuMemAlloc_v2);
        // SAFETY: `at` is writable, and the context is current.
        self.within(|| self.check("cuMemAlloc", unsafe { call(&mut at, len) }))?;
        Ok(at)
    }

    /// cuMemFree.
    ///
    /// # Safety
    /// `allocate` gave the address, it is freed once, and nothing that was submitted uses it.
    pub unsafe fn free(&self, at: usize) -> Result<()> {
        let call = self.functions.cuMemFree_v2;
        // SAFETY: passed on to the caller; the context is current.
        self.within(|| self.check("cuMemFree", unsafe { call(at) }))
    }

    /// cuMemHostAlloc: the address of `len` bytes of page-locked memory.
    pub fn allocate_locked(&self, len: usize) -> Result<usize> {
        let (mut at, call) = (null_mut(), self.functions.cuMemHostAlloc);
        // SAFETY: `at` is writable, and the context is current; no flags.
        self.within(|| self.check("cuMemHostAlloc", unsafe { call(&mut at, len, 0) }))?;
        Ok(at as usize)
    }

    /// cuMemFreeHost.
    ///
    /// # Safety
    /// As for `free`, of `allocate_locked`.
    pub unsafe fn free_locked(&self, at: usize) -> Result<()> {
        let call = self.functions.cuMemFreeHost;
        // SAFETY: passed on to the caller; the context is current.
        self.within(|| self.check("cuMemFreeHost", unsafe { call(at as _) }))
    }

    /// cuMemHostRegister.
    ///
    /// # Safety
    /// `len` bytes at `at` are memory of the process that stays mapped until it is unregistered.
    pub unsafe fn register(&self, at: usize, len: usize) -> Result<()> {
        let call = self.functions.cuMemHostRegister_v2;
        // SAFETY: passed on to the caller; the context is current, and there are no flags.
        self.within(|| self.check("cuMemHostRegister", unsafe { call(at as _, len, 0) }))
    }

    /// cuMemHostUnregister.
    ///
    /// # Safety
    /// The address was registered, and nothing that was submitted uses it.
    pub unsafe fn unregister(&self, at: usize) -> Result<()> {
        let call = self.functions.cuMemHostUnregister;
        // SAFETY: passed on to the caller; the context is current.
        self.within(|| self.check("cuMemHostUnregister", unsafe { call(at as _) }))
    }
}

/// Device memory of cuMemAlloc, freed when dropped.
pub struct CudaBlock {
    cuda: Arc<CudaDriver>,
    at: usize,
    len: usize,
}

impl CudaBlock {
    /// `len` bytes.
    pub fn new(cuda: &Arc<CudaDriver>, len: usize) -> Result<CudaBlock> {
        Ok(CudaBlock { cuda: cuda.clone(), at: cuda.allocate(len)?, len })
    }

    /// The address.
    pub fn at(&self) -> usize {
        self.at
    }

    fn assert_holds(&self, offset: usize, len: usize) {
        assert!(offset <= self.len && len <= self.len - offset, "bytes outside of their own block");
    }
}

impl Bytes for CudaBlock {
    fn len(&self) -> usize {
        self.len
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.assert_holds(offset, bytes.len());
        let (dst, src) = (self.at + offset, bytes.as_ptr() as usize);
        // SAFETY: the part lies in the block, the bytes are borrowed until the call is over, and the context
        // is current.
        self.cuda.within(|| unsafe { self.cuda.copy_to_device(dst, src, bytes.len()) })
    }

    fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        self.assert_holds(offset, bytes.len());
        let (dst, src) = (bytes.as_mut_ptr() as usize, self.at + offset);
        // SAFETY: as for `put`.
        self.cuda.within(|| unsafe { self.cuda.copy_from_device(dst, src, bytes.len()) })
    }
}

impl Drop for CudaBlock {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` and freed once; whoever submitted work with it has waited.
        let _ = unsafe { self.cuda.free(self.at) };
    }
}
