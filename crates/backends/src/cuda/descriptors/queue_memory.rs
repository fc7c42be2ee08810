//! Memory that the kernels of one queue need to read descriptors: a ring buffer in pinned memory where they
//! report errors, lists where they find the descriptors, and memory of the GPU to work in.

use crate::cuda::{
    descriptors::growing_list::{GrowingLists, LISTS_LEN},
    descriptors::liveness::Liveness,
    driver::{Current, KernelHandle},
    stream::Stream,
    stream::device::{Device, text},
};
use ferry_core::{
    Result,
    indirect::DESCRIPTOR_WORDS,
    sync::{Arc, Mutex, lock},
};
use std::{
    ffi::CStr,
    mem, ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering, fence},
    },
};

/// The kernel, made of sealed.cu by regenerate.sh.
const PTX: &CStr = text(concat!(include_str!("../kernels/sealed.ptx"), "\0"));

/// What a kernel found wrong: `DeviceError` in sealed.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceError {
    /// The op that failed.
    pub ticket: u64,
    /// What it read where a descriptor should be.
    pub words: [u64; DESCRIPTOR_WORDS],
}

/// The ring buffer of errors: `ErrorRing` in sealed.cu.
#[repr(C)]
struct ErrorRing {
    written: u64,
    taken: u64,
    room: u64,
    spare: [u64; 5],
    errors: [DeviceError; ERRORS_MAX],
}

/// Errors that the ring buffer holds.
const ERRORS_MAX: usize = 16;
/// How far behind the ring buffer the lists begin, in bytes.
const LISTS_OFFSET: usize = 4096;
const _: () = assert!(size_of::<ErrorRing>() <= LISTS_OFFSET);

/// The addresses of the memory of one queue. It is kept from one queue to the next: giving memory back to the
/// driver waits for the whole GPU.
#[derive(Clone, Copy, Debug)]
pub struct QueueBuffers {
    /// The address of the ring buffer of errors, and of the lists behind it, in pinned memory; the same for
    /// the GPU.
    pub ring: usize,
    /// The address of the device memory that kernels work in, `Scratch` in sealed.cu.
    pub scratch: usize,
}

/// The memory of one queue. The stream [retains](Stream::retain) it until its kernels are done.
pub struct QueueMemory {
    shared: Arc<DeviceDescriptors>,
    buffers: QueueBuffers,
    launches: AtomicU64,
    /// The lists of descriptors.
    pub lists: GrowingLists,
}

impl QueueMemory {
    /// An empty ring buffer, and memory that is as a kernel wants it when `stream` gets here.
    pub fn new(
        shared: &Arc<DeviceDescriptors>,
        stream: &Stream,
        current: &Current<'_>,
        zeroes: usize,
        scratch_len: usize,
    ) -> Result<Arc<QueueMemory>> {
        let spare = lock(&shared.spare).pop();
        let buffers = spare.map_or_else(|| QueueBuffers::new(current, scratch_len), Ok)?;
        stream.fill_bytes(current, buffers.scratch, 0, zeroes)?;
        let ring = ErrorRing {
            written: 0,
            taken: 0,
            room: ERRORS_MAX as u64,
            spare: [0; 5],
            errors: [DeviceError::default(); ERRORS_MAX],
        };
        // SAFETY: memory of that size, page-aligned, that nothing else uses now.
        unsafe { ptr::write(buffers.ring as *mut ErrorRing, ring) };
        // SAFETY: as above.
        unsafe { ptr::write_bytes((buffers.ring + LISTS_OFFSET) as *mut u8, 0, LISTS_LEN) };
        // SAFETY: the lists go with the buffers, which are reused when no kernel of this queue is left.
        let lists = unsafe { GrowingLists::new(buffers.ring + LISTS_OFFSET) };
        let (shared, launches) = (shared.clone(), AtomicU64::new(0));
        let memory = Arc::new(QueueMemory { shared, buffers, launches, lists });
        stream.retain(memory.clone());
        Ok(memory)
    }

    /// Where everything is.
    pub fn buffers(&self) -> QueueBuffers {
        self.buffers
    }

    /// Whether the next launch is the second, the fourth, and so on.
    pub fn is_odd(&self) -> bool {
        self.launches.load(Ordering::Relaxed) % 2 == 1
    }

    /// A kernel that works in this memory is in the stream. Called under the lock of the stream's lane.
    pub fn count_launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// The errors since the last time. The caller holds a lock that keeps other threads out.
    pub fn take_errors(&self) -> Vec<DeviceError> {
        let ring = self.buffers.ring as *mut ErrorRing;
        // SAFETY: the ring buffer lives as long as `self`. The GPU writes an error before it counts it, and
        // none again before `taken` has passed it.
        unsafe {
            let (taken, written) = ((*ring).taken, ptr::read_volatile(&raw const (*ring).written));
            fence(Ordering::Acquire);
            let slot = |count: u64| &raw const (*ring).errors[count as usize % ERRORS_MAX];
            let errors = (taken..written).map(|count| ptr::read_volatile(slot(count))).collect();
            fence(Ordering::Release);
            ptr::write_volatile(&raw mut (*ring).taken, written);
            errors
        }
    }
}

impl Drop for QueueMemory {
    /// The stream has waited for its kernels.
    fn drop(&mut self) {
        lock(&self.shared.spare).push(self.buffers);
    }
}

impl QueueBuffers {
    fn new(current: &Current<'_>, scratch_len: usize) -> Result<QueueBuffers> {
        Ok(QueueBuffers {
            ring: current.own_pinned(LISTS_OFFSET + LISTS_LEN)?,
            scratch: current.own_device(scratch_len)?,
        })
    }
}

/// What the descriptors of all queues of one device share.
pub struct DeviceDescriptors {
    /// The device.
    pub device: Arc<Device>,
    kernel: OnceLock<[KernelHandle; 1]>,
    /// Allocations that descriptors name.
    pub liveness: Liveness,
    /// Memory that queues have left.
    spare: Mutex<Vec<QueueBuffers>>,
}

impl DeviceDescriptors {
    /// For the queues of this device.
    pub fn new(device: Arc<Device>) -> Arc<DeviceDescriptors> {
        let (kernel, liveness, spare) = (OnceLock::new(), Liveness::default(), Mutex::default());
        Arc::new(DeviceDescriptors { device, kernel, liveness, spare })
    }

    /// The kernel of sealed.cu.
    pub fn kernel(&self, current: &Current<'_>) -> Result<KernelHandle> {
        let [kernel] = self.device.loaded(current, &self.kernel, PTX, [c"ferry_copy_sealed"])?;
        Ok(kernel)
    }

    /// Where kernels see which allocations are alive.
    pub fn liveness_at(&self, current: &Current<'_>) -> Result<usize> {
        self.liveness.at(|len| {
            let at = current.own_pinned(len)?;
            // SAFETY: fresh memory of that length.
            unsafe { ptr::write_bytes(at as *mut u8, 0, len) };
            Ok(at)
        })
    }
}

impl Drop for DeviceDescriptors {
    /// All queues are gone.
    fn drop(&mut self) {
        let Ok(current) = self.device.enter() else { return };
        for QueueBuffers { ring, scratch } in mem::take(&mut *lock(&self.spare)) {
            // SAFETY: made by `QueueBuffers::new`, and the stream of the queue that had it has waited for its
            // kernels.
            unsafe { current.free_own_pinned(ring) };
            // SAFETY: as above.
            unsafe { current.free_own_device(scratch) };
        }
        if let Some(at) = self.liveness.made() {
            // SAFETY: made by `liveness_at`; no kernel reads it any more.
            unsafe { current.free_own_pinned(at) };
        }
    }
}
