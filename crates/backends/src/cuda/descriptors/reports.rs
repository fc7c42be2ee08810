//! What the kernels of one queue need to read descriptors: a ring in page-locked memory where they say what they found wrong, lists
//! where they find the descriptors, and memory of the GPU's to work in.

use crate::cuda::{
    descriptors::late::{LISTS_LEN, Lists},
    descriptors::live::Live,
    descriptors::sealed::{JOB_LEN, JOB_ZEROES},
    device::{Device, text},
    driver::{Current, KernelHandle, StreamHandle},
};
use ferry_core::{
    Result,
    indirect::DESCRIPTOR_WORDS,
    sync::{Arc, Mutex, lock},
};
use std::{
    ffi::CStr,
    ptr,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering, fence},
    },
};

/// The kernel, made of sealed.cu by regenerate.sh.
const PTX: &CStr = text(concat!(include_str!("../kernels/sealed.ptx"), "\0"));

/// What a kernel found wrong: the same as in sealed.cu.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The op that failed.
    pub ticket: u64,
    /// What it read where a descriptor should be.
    pub words: [u64; DESCRIPTOR_WORDS],
}

#[repr(C)]
struct Ring {
    written: u64,
    taken: u64,
    room: u64,
    spare: [u64; 5],
    reports: [Report; ROOM],
}

const ROOM: usize = 16;
/// The lists lie so far behind the ring.
const PAGE: usize = 4096;

/// Where such memory lies. Between two queues it is kept: giving memory back to the driver waits for all of the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Tray {
    /// The ring, and the lists in the next page; the address is the same for the GPU.
    pub ring: usize,
    /// The memory of the GPU, `Job` in sealed.cu.
    pub job: usize,
}

/// A tray that one queue has.
pub struct Reports {
    device: Arc<Device>,
    tray: Tray,
    launches: AtomicU64,
    pub lists: Lists,
}

impl Reports {
    /// An empty ring, and memory that is as a kernel wants it when `stream` gets here. The context is current.
    pub fn new(device: &Arc<Device>, stream: StreamHandle) -> Result<Reports> {
        // SAFETY: it is current, as our caller says.
        let current = unsafe { device.assume_current() };
        let spare = lock(&device.sealing.trays).pop();
        let tray = spare.map_or_else(|| Tray::new(&current), Ok)?;
        // SAFETY: the memory is ours, and nothing uses it before the stream gets here.
        unsafe { current.fill_bytes(tray.job, 0, JOB_ZEROES, stream) }?;
        let ring = Ring {
            written: 0,
            taken: 0,
            room: ROOM as u64,
            spare: [0; 5],
            reports: [Report::default(); ROOM],
        };
        // SAFETY: memory of that size, page-aligned, that nobody else knows now.
        unsafe { ptr::write(tray.ring as *mut Ring, ring) };
        // SAFETY: as above.
        unsafe { ptr::write_bytes((tray.ring + PAGE) as *mut u8, 0, LISTS_LEN) };
        // SAFETY: the lists go with the tray, which `drop` hands on when no kernel of this queue is left.
        let lists = unsafe { Lists::new(tray.ring + PAGE) };
        Ok(Reports { device: device.clone(), tray, launches: AtomicU64::new(0), lists })
    }

    /// Where everything is.
    pub fn tray(&self) -> Tray {
        self.tray
    }

    /// Whether the next launch is the second, the fourth, and so on.
    pub fn is_odd(&self) -> bool {
        self.launches.load(Ordering::Relaxed) % 2 == 1
    }

    /// A kernel that works in the tray is in the stream. Only whoever may put things there says so.
    pub fn count_launch(&self) {
        self.launches.fetch_add(1, Ordering::Relaxed);
    }

    /// What was reported since the last time. The caller holds a lock that keeps others out.
    pub fn take(&self) -> Vec<Report> {
        let ring = self.tray.ring as *mut Ring;
        // SAFETY: the ring lives as long as `self`. The GPU writes a report before it counts it, and no report again before
        // `taken` has passed it.
        unsafe {
            let (taken, written) = ((*ring).taken, ptr::read_volatile(&raw const (*ring).written));
            fence(Ordering::Acquire);
            let slot = |count: u64| &raw const (*ring).reports[count as usize % ROOM];
            let reports = (taken..written).map(|count| ptr::read_volatile(slot(count))).collect();
            fence(Ordering::Release);
            ptr::write_volatile(&raw mut (*ring).taken, written);
            reports
        }
    }
}

impl Drop for Reports {
    /// The queue has waited for its kernels.
    fn drop(&mut self) {
        lock(&self.device.sealing.trays).push(self.tray);
    }
}

impl Tray {
    fn new(current: &Current<'_>) -> Result<Tray> {
        Ok(Tray { ring: current.own_pinned(PAGE + LISTS_LEN)?, job: current.own_device(JOB_LEN)? })
    }
}

/// What the queues of one device have in common.
#[derive(Default)]
pub struct Sealing {
    kernel: OnceLock<[KernelHandle; 1]>,
    /// Allocations that descriptors name.
    pub live: Live,
    /// Trays that queues have left.
    trays: Mutex<Vec<Tray>>,
}

impl Sealing {
    /// Gives all memory back. All queues are gone.
    pub fn close(&self, current: &Current<'_>) {
        for Tray { ring, job } in std::mem::take(&mut *lock(&self.trays)) {
            // SAFETY: made by `Tray::new`, and the queue that had it has waited for its kernels.
            unsafe { current.free_own_pinned(ring) };
            // SAFETY: as above.
            unsafe { current.free_own_device(job) };
        }
        if let Some(at) = self.live.made() {
            // SAFETY: made by `Device::live`; no kernel looks there any more.
            unsafe { current.free_own_pinned(at) };
        }
    }
}

impl Device {
    /// The kernel of sealed.cu. The context is current.
    pub fn sealing(&self) -> Result<KernelHandle> {
        self.loaded(&self.sealing.kernel, PTX, [c"ferry_copy_sealed"]).map(|[kernel]| kernel)
    }
}
