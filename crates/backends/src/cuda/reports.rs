//! What the kernels of one queue need to read descriptors: a ring in page-locked memory where they say what they found wrong, and
//! memory of the GPU's to work in.

use super::{
    device::Device,
    driver::Handle,
    sealed::{JOB_COUNTS, JOB_LEN},
};
use ferry_core::{
    Result,
    indirect::DESCRIPTOR_WORDS,
    sync::{Arc, lock},
};
use std::{
    ptr,
    sync::atomic::{Ordering, fence},
};

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

/// Where such memory lies. Between two queues it is kept: giving memory back to the driver waits for all of the GPU.
#[derive(Clone, Copy, Debug)]
pub struct Desk {
    /// The ring; the address is the same for the GPU.
    pub ring: usize,
    /// The memory of the GPU, `Job` in sealed.cu.
    pub job: usize,
}

/// A desk that one queue has.
pub struct Reports {
    device: Arc<Device>,
    desk: Desk,
}

impl Reports {
    /// An empty ring, and memory that is as a kernel wants it when `stream` gets here. The context is current.
    pub fn new(device: &Arc<Device>, stream: Handle) -> Result<Reports> {
        let spare = lock(&device.desks).pop();
        let desk = spare.map_or_else(|| Desk::new(device), Ok)?;
        // SAFETY: the memory is ours, and nothing uses it before the stream gets here.
        let code = unsafe { (device.driver.calls.cuMemsetD8Async)(desk.job, 0, JOB_COUNTS, stream) };
        device.check("cuMemsetD8Async", code)?;
        let ring = Ring {
            written: 0,
            taken: 0,
            room: ROOM as u64,
            spare: [0; 5],
            reports: [Report::default(); ROOM],
        };
        // SAFETY: memory of that size, page-aligned, that nobody else knows now.
        unsafe { ptr::write(desk.ring as *mut Ring, ring) };
        Ok(Reports { device: device.clone(), desk })
    }

    /// Where everything is.
    pub fn desk(&self) -> Desk {
        self.desk
    }

    /// What was reported since the last time. The caller holds a lock that keeps others out.
    pub fn take(&self) -> Vec<Report> {
        let ring = self.desk.ring as *mut Ring;
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
        lock(&self.device.desks).push(self.desk);
    }
}

impl Desk {
    fn new(device: &Device) -> Result<Desk> {
        let (ring, mut job) = (device.page_locked(size_of::<Ring>())?, 0);
        // SAFETY: `job` receives the address.
        let code = unsafe { (device.driver.calls.cuMemAlloc)(&mut job, JOB_LEN) };
        device.check("cuMemAlloc", code).map(|()| Desk { ring, job })
    }
}

impl Device {
    /// Gives back all that was made for descriptors. The context is current.
    pub(super) fn close_desks(&self) {
        let desks = std::mem::take(&mut *lock(&self.desks));
        let calls = &self.driver.calls;
        for Desk { ring, job } in desks {
            // SAFETY: made by `Desk::new`, and the queue that had it has waited for its kernels.
            unsafe { (calls.cuMemFreeHost)(ring) };
            // SAFETY: as above.
            unsafe { (calls.cuMemFree)(job) };
        }
        if let Some(at) = self.live.made() {
            // SAFETY: made by `live`; queues and their kernels are gone.
            unsafe { (calls.cuMemFreeHost)(at) };
        }
    }
}
