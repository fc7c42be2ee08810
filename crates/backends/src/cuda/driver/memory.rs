//! Memory: making it, page-locking it, asking what an address is, and passing it on to other processes.

use super::{
    context::Current,
    library::Driver,
    table::{Attribute, IpcHandle, SUCCESS},
};
use ferry_core::{Error, Kind, Result, sync::lock};
use std::ffi::c_void;

/// Page-locked for every context, and readable by devices.
const HOST_PORTABLE_AND_MAPPED: u32 = 1 | 2;
/// Memory of a device, as `Attribute::MemoryType` says it.
const MEMORY_DEVICE: u32 = 2;
/// The mapping of an imported allocation is made when a device first uses it.
const IPC_LAZILY: u32 = 1;

/// An allocation that the driver knows, of whatever library of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Its first address.
    pub base: usize,
    /// Its bytes.
    pub len: usize,
    /// The GPU whose memory it is; none for page-locked memory of the host.
    pub gpu: Option<u32>,
    /// Whether it belongs to a context. Memory of a pool, and mapped memory, do not.
    pub has_context: bool,
}

/// Taking memory and giving it back.
impl Current<'_> {
    /// Free and total bytes of the GPU.
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both receive a number.
        let code = unsafe { (self.driver().calls.cuMemGetInfo)(&mut free, &mut total) };
        self.check("cuMemGetInfo", code).map(|()| (free, total))
    }

    /// Memory of the GPU.
    pub fn alloc_device(&self, len: usize) -> Result<usize> {
        let mut at = 0;
        // SAFETY: `at` receives the address.
        let code = unsafe { (self.driver().calls.cuMemAlloc)(&mut at, len) };
        self.check(format_args!("cuMemAlloc of {len} bytes"), code).map(|()| at)
    }

    /// Pinned (page-locked) memory of the host, at the same address for every device.
    pub fn alloc_pinned(&self, len: usize) -> Result<usize> {
        let mut at = 0;
        // SAFETY: `at` receives the address.
        let code = unsafe { (self.driver().calls.cuMemHostAlloc)(&mut at, len, HOST_PORTABLE_AND_MAPPED) };
        self.check(format_args!("cuMemHostAlloc of {len} bytes"), code).map(|()| at)
    }

    /// Frees memory of the GPU. The driver waits for all that the GPU has to do.
    ///
    /// # Safety
    /// It came from `alloc_device`, and nothing uses it any more.
    pub unsafe fn free_device(&self, at: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemFree)(at) };
        self.check(format_args!("cuMemFree of {at:#x}"), code)
    }

    /// Frees pinned memory.
    ///
    /// # Safety
    /// It came from `alloc_pinned`, and nothing uses it any more.
    pub unsafe fn free_pinned(&self, at: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemFreeHost)(at) };
        self.check(format_args!("cuMemFreeHost of {at:#x}"), code)
    }

    /// Whether every device reaches pinned memory by the host's addresses.
    pub fn shares_host_addresses(&self) -> bool {
        self.driver().shares_host_addresses()
    }

    /// Pins (page-locks) memory that exists. The driver refuses what it cannot lock, and pages that it has
    /// locked already.
    pub fn pin(&self, base: usize, len: usize) -> Result<()> {
        // SAFETY: locking changes nothing of the pages, and the driver refuses addresses with nothing behind
        // them.
        let code = unsafe { (self.driver().calls.cuMemHostRegister)(base, len, HOST_PORTABLE_AND_MAPPED) };
        self.check(format_args!("cuMemHostRegister of {len} bytes at {base:#x}"), code)
    }

    /// Undoes [`pin`](Self::pin).
    ///
    /// # Safety
    /// It was pinned from this address on, and no device uses it any more.
    pub unsafe fn unpin(&self, base: usize) -> Result<()> {
        // SAFETY: the caller's promise.
        let code = unsafe { (self.driver().calls.cuMemHostUnregister)(base) };
        self.check(format_args!("cuMemHostUnregister of {base:#x}"), code)
    }
}

/// Memory that this library takes for itself: lists of batches, staging buffers, doorbells. To the driver it
/// is an allocation like those of other libraries in the process, and it may lie right behind memory of the
/// user's. So it is remembered, and a caller's address that reaches into it is refused instead of being taken
/// for another library's.
impl Current<'_> {
    /// Pinned memory for this library, which every device can reach.
    pub fn own_pinned(&self, len: usize) -> Result<usize> {
        self.alloc_pinned(len).inspect(|at| lock(&self.driver().own).add(*at, len))
    }

    /// Memory of the GPU for this library.
    pub fn own_device(&self, len: usize) -> Result<usize> {
        self.alloc_device(len).inspect(|at| lock(&self.driver().own).add(*at, len))
    }

    /// Frees it. Where the driver refuses that, as at the end of the process, the result is dropped.
    ///
    /// # Safety
    /// `at` came from `own_pinned`, and nothing uses the memory any more.
    pub unsafe fn free_own_pinned(&self, at: usize) {
        lock(&self.driver().own).remove(at);
        // SAFETY: the caller's promise.
        let _ = unsafe { self.free_pinned(at) };
    }

    /// Frees it, like [`free_own_pinned`](Self::free_own_pinned).
    ///
    /// # Safety
    /// `at` came from `own_device`, and nothing uses the memory any more.
    pub unsafe fn free_own_device(&self, at: usize) {
        lock(&self.driver().own).remove(at);
        // SAFETY: the caller's promise.
        let _ = unsafe { self.free_device(at) };
    }
}

impl Driver {
    /// Whether the range, or its address if it is empty, reaches into memory of this library.
    pub fn is_own(&self, addr: usize, len: usize) -> bool {
        lock(&self.own).meets(addr, len)
    }
}

/// What an address is.
impl Current<'_> {
    /// The allocation around `addr`, of a device or page-locked, if it is in one.
    pub fn allocation(&self, addr: usize) -> Result<Option<Allocation>> {
        let (mut kind, mut device, mut base, mut len, mut context) =
            (0_u32, 0_u32, 0_usize, 0_usize, 0_usize);
        let questions = [
            (Attribute::MemoryType, (&raw mut kind).cast()),
            (Attribute::Device, (&raw mut device).cast()),
            (Attribute::Start, (&raw mut base).cast()),
            (Attribute::Len, (&raw mut len).cast()),
            (Attribute::Context, (&raw mut context).cast()),
        ];
        // SAFETY: each answer has room for its kind.
        let code = unsafe { self.ask(addr, questions) };
        self.driver().check("cuPointerGetAttributes", code)?;
        let gpu = (kind == MEMORY_DEVICE).then_some(device);
        let found = Allocation { base, len, gpu, has_context: context != 0 };
        Ok((kind != 0 && base != 0 && len != 0).then_some(found))
    }

    /// The start and length of what was mapped at once around `addr` (cuMemMap), if it was mapped: memory of
    /// a pool is an allocation, though of no context either. Older drivers do not know.
    pub fn mapping(&self, addr: usize) -> Option<(usize, usize)> {
        let (mut pool, mut base, mut len) = (0_usize, 0_usize, 0_usize);
        let questions = [
            (Attribute::Pool, (&raw mut pool).cast()),
            (Attribute::MappingStart, (&raw mut base).cast()),
            (Attribute::MappingLen, (&raw mut len).cast()),
        ];
        // SAFETY: each answer has room for its kind.
        let code = unsafe { self.ask(addr, questions) };
        (code == SUCCESS && pool == 0 && len > 0).then_some((base, len))
    }

    /// Asks several things about `addr`. Memory unknown to the driver answers 0.
    ///
    /// # Safety
    /// Each pointer has room for the answer of its kind.
    unsafe fn ask<const N: usize>(&self, addr: usize, questions: [(Attribute, *mut c_void); N]) -> i32 {
        let (attributes, mut answers) =
            (questions.map(|question| question.0), questions.map(|question| question.1));
        let call = self.driver().calls.cuPointerGetAttributes;
        // SAFETY: as many answers as questions; the caller vouches for their room.
        unsafe { call(N as u32, attributes.as_ptr(), answers.as_mut_ptr(), addr) }
    }
}

/// Memory of several processes.
impl Current<'_> {
    /// What another process opens the allocation with that starts at `start`.
    pub fn ipc_handle(&self, start: usize) -> Result<IpcHandle> {
        let mut handle = IpcHandle([0; 64]);
        let call = self.driver().calls.cuIpcGetMemHandle.ok_or_else(no_sharing)?;
        // SAFETY: `handle` receives the bytes.
        let code = unsafe { call(&mut handle, start) };
        self.driver().check("cuIpcGetMemHandle", code).map(|()| handle)
    }

    /// Opens an allocation of another process on the same GPU: where it starts here.
    pub fn open_ipc(&self, handle: IpcHandle) -> Result<usize> {
        let mut start = 0;
        let call = self.driver().calls.cuIpcOpenMemHandle.ok_or_else(no_sharing)?;
        // SAFETY: `start` receives the address.
        let code = unsafe { call(&mut start, handle, IPC_LAZILY) };
        self.driver().check("cuIpcOpenMemHandle", code).map(|()| start)
    }

    /// Undoes [`open_ipc`](Self::open_ipc).
    ///
    /// # Safety
    /// `start` came from there, and nothing uses the memory any more.
    pub unsafe fn close_ipc(&self, start: usize) -> Result<()> {
        let call = self.driver().calls.cuIpcCloseMemHandle.ok_or_else(no_sharing)?;
        // SAFETY: the caller's promise.
        let code = unsafe { call(start) };
        self.driver().check("cuIpcCloseMemHandle", code)
    }
}

fn no_sharing() -> Error {
    Kind::Unsupported.because("this CUDA driver cannot share memory between processes")
}
