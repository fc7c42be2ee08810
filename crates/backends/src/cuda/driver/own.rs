//! Memory that this library takes from the driver for itself: lists of batches, staging buffers, completion words. To the driver it is
//! an allocation like those of other libraries in the process, and it may lie right behind memory of the user's. So it is
//! remembered here, and a caller's address that reaches into it is refused instead of being taken for another library's.

use crate::cuda::driver::{Code, Driver, HOST_PORTABLE_AND_MAPPED, Handle, SUCCESS};
use ferry_core::sync::lock;

impl Driver {
    /// Page-locked memory that every device can reach. A context is current.
    pub fn take_page_locked(&self, len: usize) -> Result<Handle, Code> {
        let mut at = 0;
        // SAFETY: `at` receives the address.
        let code = unsafe { (self.calls.cuMemHostAlloc)(&mut at, len, HOST_PORTABLE_AND_MAPPED) };
        self.remember(code, at, len)
    }

    /// Memory of the GPU whose context is current.
    pub fn take_device_memory(&self, len: usize) -> Result<Handle, Code> {
        let mut at = 0;
        // SAFETY: `at` receives the address.
        let code = unsafe { (self.calls.cuMemAlloc)(&mut at, len) };
        self.remember(code, at, len)
    }

    /// # Safety
    /// `at` came from `take_page_locked`, and nothing uses the memory any more. A context is current.
    pub unsafe fn give_page_locked(&self, at: Handle) {
        lock(&self.own).remove(at);
        // SAFETY: the caller's promise.
        unsafe { (self.calls.cuMemFreeHost)(at) };
    }

    /// # Safety
    /// `at` came from `take_device_memory`, and nothing uses the memory any more. Its context is current.
    pub unsafe fn give_device_memory(&self, at: Handle) {
        lock(&self.own).remove(at);
        // SAFETY: the caller's promise.
        unsafe { (self.calls.cuMemFree)(at) };
    }

    /// Whether the range, or its address if it is empty, reaches into such memory.
    pub fn is_own(&self, addr: usize, len: usize) -> bool {
        lock(&self.own).meets(addr, len)
    }

    fn remember(&self, code: Code, at: Handle, len: usize) -> Result<Handle, Code> {
        if code != SUCCESS {
            return Err(code);
        }
        lock(&self.own).add(at, len);
        Ok(at)
    }
}
