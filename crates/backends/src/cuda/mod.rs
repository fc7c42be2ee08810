//! Real NVIDIA GPUs through the CUDA driver, which is loaded at run time: nothing is linked, and a machine without one can
//! still build and run everything else.
//!
//! Thin so far: it is right, not yet fast. Device pointers are the GPU's own (`Block::at` equals `Block::base`), and memory
//! of other libraries in the process is recognised. Descriptors are read on the GPU when their copy runs, and their seal is
//! checked there, and that the memory it names is still there: live.rs. Only memory of other libraries is not watched; if they
//! have given it back the GPU faults and every later call fails, as in any CUDA program.

mod adopt;
mod backlog;
mod commands;
mod device;
mod driver;
mod errors;
mod events;
mod fence;
mod gather;
mod host;
mod latch;
mod ledger;
mod live;
mod pieces;
mod planner;
mod points;
mod pool;
mod queue;
mod quota;
mod reduce;
mod registered;
mod reports;
mod ring;
mod sealed;
mod sender;
mod sending;
pub mod settings;
mod stage;
mod visits;
mod workers;

use crate::{host::outside::Outside, probe};
use device::Device;
use driver::Driver;
use fence::Watcher;
use ferry_core::{
    Access, Backend, Block, DeviceId, Home, Kind, Origin, Queue, QueueOptions, Request, Result, Status,
    sync::{Arc, Mutex, lock},
    table::GRANULE,
};
use pieces::{Pieces, Rest};
use queue::{CudaQueue, Lane};
use quota::Quota;
use registered::Registered;
use settings::Settings;
use std::sync::OnceLock;
use workers::Workers;

/// Which GPUs are devices, and how much of them.
#[derive(Clone, Debug, Default)]
pub struct CudaOptions {
    /// Number of devices. If it is larger than the number of GPUs, some share one: device `i` is GPU `i` modulo that number.
    /// `None` is as many as there are GPUs.
    pub devices: Option<usize>,
    /// Only these of the devices are opened, in this order; numbers that none has are passed over.
    pub visible: Option<Vec<u32>>,
    /// Bytes of each device; `None` is what its GPU has, or an equal part where devices share it.
    pub device_memory: Option<usize>,
    /// How copies are done.
    pub settings: Settings,
}

/// The cuda backend.
pub struct Cuda {
    driver: Arc<Driver>,
    workers: Arc<Workers>,
    watcher: Arc<Watcher>,
    /// Opened when first used: a context takes time and memory of its GPU.
    devices: Vec<OnceLock<Arc<Device>>>,
    /// What the driver calls them: not all GPUs need be visible here.
    ordinals: Vec<u32>,
    quotas: Vec<Quota>,
    pieces: Mutex<Pieces>,
    registered: Mutex<Registered>,
    settings: Settings,
    /// Addresses that were set aside: for registered memory as devices see it.
    outside: Outside,
}

impl CudaOptions {
    /// The GPU of each device, where there are so many.
    fn ordinals(&self, gpus: u32) -> Vec<u32> {
        let devices = 0..self.devices.map_or(gpus, |count| count as u32);
        let seen: Vec<u32> = match &self.visible {
            None => devices.collect(),
            Some(visible) => visible.iter().copied().filter(|id| devices.contains(id)).collect(),
        };
        seen.iter().map(|id| id % gpus).collect()
    }
}

impl Cuda {
    /// Loads the driver and looks for GPUs. `Unsupported`, with the reason, where there is none.
    pub fn open(options: &CudaOptions) -> Result<Arc<dyn Backend>> {
        let driver = Arc::new(Driver::load("libcuda.so.1")?);
        let ordinals = options.ordinals(driver.gpus()?);
        let sharers = |ordinal| ordinals.iter().filter(|other| *other == ordinal).count();
        let quota = |ordinal| Quota::new(options.device_memory, sharers(ordinal));
        Ok(Arc::new(Cuda {
            driver,
            workers: Arc::default(),
            watcher: Arc::default(),
            devices: ordinals.iter().map(|_| OnceLock::new()).collect(),
            quotas: ordinals.iter().map(quota).collect(),
            ordinals,
            pieces: Mutex::default(),
            registered: Mutex::default(),
            settings: options.settings.clone(),
            outside: Outside::default(),
        }))
    }

    fn device(&self, id: DeviceId) -> Result<&Arc<Device>> {
        let slot = self.devices.get(id as usize).ok_or_else(|| {
            Kind::NoDevice.because(format!("device {id} of {} devices", self.devices.len()))
        })?;
        if let Some(device) = slot.get() {
            return Ok(device);
        }
        let ordinal = self.ordinals[id as usize];
        let (driver, workers, watcher) = (self.driver.clone(), self.workers.clone(), self.watcher.clone());
        let device = Device::open(driver, workers, watcher, ordinal, &self.settings)?;
        Ok(slot.get_or_init(|| Arc::new(device)))
    }

    /// A device with a context, for what needs one but not which. One that is not lost, if there is any.
    fn any_device(&self) -> Result<&Arc<Device>> {
        let sound = self.devices.iter().filter_map(OnceLock::get).find(|device| device.lost().is_none());
        let other = || self.devices.iter().position(|slot| slot.get().is_none()).unwrap_or(0);
        sound.map_or_else(|| self.device(other() as DeviceId), Ok)
    }

    fn device_of(&self, home: Home) -> Result<&Arc<Device>> {
        match home {
            Home::Host => self.any_device(),
            Home::Device(id) => self.device(id),
        }
    }

    /// Memory of another library's around `addr`.
    fn foreign(&self, addr: usize) -> Result<Option<Block>> {
        let _here = self.any_device()?.enter()?;
        self.driver.locate(addr)?.map(|block| self.as_seen_here(block)).transpose()
    }

    /// Another library's block, with its GPU by our number.
    fn as_seen_here(&self, block: Block) -> Result<Block> {
        let Home::Device(ordinal) = block.home else { return Ok(block) };
        match self.ordinals.iter().position(|known| *known == ordinal) {
            Some(id) => Ok(Block { home: Home::Device(id as DeviceId), ..block }),
            None => {
                let note = format!("{:#x} is memory of GPU {ordinal}, which is not visible here", block.base);
                Err(Kind::BadAddress.because(note))
            }
        }
    }

    /// Free and total bytes of the GPU behind a device; what rests there is as good as free.
    fn gpu_memory(&self, device: DeviceId) -> Result<(usize, usize)> {
        let gpu = self.device(device)?;
        let _here = gpu.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both receive a number.
        let code = unsafe { (self.driver.calls.cuMemGetInfo)(&mut free, &mut total) };
        gpu.check("cuMemGetInfo", code)?;
        let pieces = lock(&self.pieces);
        let same = (0..).zip(&self.ordinals).filter(|(_, gpu)| **gpu == self.ordinals[device as usize]);
        let resting: usize = same.map(|(id, _)| pieces.resting(Home::Device(id))).sum();
        Ok(((free + resting).min(total), total))
    }

    /// Counts `len` bytes for a device, if it may have so many.
    fn charge(&self, home: Home, len: usize) -> Result<()> {
        let Home::Device(id) = home else { return Ok(()) };
        let quota = &self.quotas[id as usize];
        let total = if quota.is_limited() { self.gpu_memory(id)?.1 } else { 0 };
        quota.take(id, len, total)
    }

    /// Undoes `charge`.
    fn refund(&self, home: Home, len: usize) {
        if let Home::Device(id) = home {
            self.quotas[id as usize].give(len);
        }
    }

    /// Takes memory from the driver, after giving back what rests if that makes enough. The context is current.
    fn take(&self, home: Home, len: usize) -> Result<usize> {
        let error = match self.try_take(home, len) {
            Err(error) if error.kind == Kind::OutOfMemory => error,
            taken => return taken,
        };
        match home {
            Home::Device(id) if len > self.gpu_memory(id)?.0 => Err(error),
            _ => {
                self.give_back(&mut lock(&self.pieces), Rest::NONE)?;
                self.try_take(home, len)
            }
        }
    }

    /// Page-locked memory that was used before, or a part of a slab if that will do. The context is current.
    fn reuse(&self, len: usize, align: usize) -> Option<usize> {
        let again = lock(&self.pieces).reuse(len, align);
        if again.is_some() {
            return again;
        }
        let part = pool::part(len).filter(|_| align == GRANULE)?;
        let start = self.try_take(Home::Host, pool::SLAB).ok()?;
        if start % GRANULE != 0 {
            // SAFETY: taken just now.
            unsafe { self.give(Home::Host, start).ok()? };
            return None;
        }
        let mut pieces = lock(&self.pieces);
        pieces.add_slab(start, part);
        pieces.reuse(len, align)
    }

    fn try_take(&self, home: Home, len: usize) -> Result<usize> {
        let mut start = 0;
        let calls = &self.driver.calls;
        let (call, code) = match home {
            Home::Host => {
                let flags = driver::HOST_PORTABLE_AND_MAPPED;
                // SAFETY: `start` receives the address.
                ("cuMemHostAlloc", unsafe { (calls.cuMemHostAlloc)(&mut start, len, flags) })
            }
            // SAFETY: `start` receives the address.
            Home::Device(_) => ("cuMemAlloc", unsafe { (calls.cuMemAlloc)(&mut start, len) }),
        };
        self.device_of(home)?.check(format_args!("{call} of {len} bytes"), code).map(|()| start)
    }

    /// A piece of memory with `len` bytes at a multiple of `align`, which is returned. The context is current.
    fn make(&self, home: Home, len: usize, align: usize) -> Result<usize> {
        if let Some(start) = (home == Home::Host).then(|| self.reuse(len, align)).flatten() {
            return Ok(start);
        }
        let (mut size, mut start) = (len, self.take(home, len)?);
        if start % align != 0 {
            // SAFETY: taken just now.
            unsafe { self.give(home, start)? };
            size = size.saturating_add(align);
            start = self.take(home, size)?;
        }
        lock(&self.pieces).add(start, size, home);
        Ok(start.next_multiple_of(align))
    }

    /// Gives it back. The context is current.
    ///
    /// # Safety
    /// `start` came from `take` with this home, and nothing uses the memory.
    unsafe fn give(&self, home: Home, start: usize) -> Result<()> {
        let calls = &self.driver.calls;
        let (call, code) = match home {
            // SAFETY: the caller's promise.
            Home::Host => ("cuMemFreeHost", unsafe { (calls.cuMemFreeHost)(start) }),
            // SAFETY: the caller's promise.
            Home::Device(_) => ("cuMemFree", unsafe { (calls.cuMemFree)(start) }),
        };
        self.device_of(home)?.check(format_args!("{call} of {start:#x}"), code)
    }

    /// Undoes `register`.
    fn unregister(&self, base: usize) -> Result<()> {
        let mut registered = lock(&self.registered);
        let Some(start) = registered.leave(base) else { return Ok(()) };
        let device = self.any_device()?;
        device.unless_lost(|_here| {
            // SAFETY: locked by `register`, and nothing uses it any more.
            let code = unsafe { (self.driver.calls.cuMemHostUnregister)(start) };
            device.check(format_args!("cuMemHostUnregister of {start:#x}"), code)
        })
    }

    /// Gives pieces back until no more rest than may. What a lost device had is gone with it.
    fn give_back(&self, pieces: &mut Pieces, most: Rest) -> Result<()> {
        while let Some((start, home)) = pieces.overdue(most) {
            let device = self.device_of(home)?;
            // SAFETY: it rests: the core has seen every op that could reach it complete.
            device.unless_lost(|_here| unsafe { self.give(home, start) })?;
            pieces.forget(start);
        }
        Ok(())
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // Where the driver is gone already, at the end of the process, there is nothing to give back to.
        let _ = self.give_back(&mut lock(&self.pieces), Rest::NONE);
    }
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn device_count(&self) -> usize {
        self.devices.len()
    }

    fn memory(&self, device: DeviceId) -> Result<(usize, usize)> {
        let gpu = self.gpu_memory(device)?;
        Ok(self.quotas[device as usize].info(gpu))
    }

    fn alloc(&self, request: &Request) -> Result<Block> {
        let Request { home, len, page } = *request;
        let _here = self.device_of(home)?.enter()?;
        let (page, whole) = (page.max(GRANULE), whole(len, page));
        self.charge(home, whole)?;
        let base = self.make(home, whole, page).inspect_err(|_| self.refund(home, whole))?;
        Ok(Block { base, len, home, at: base, page, origin: Origin::Allocated })
    }

    fn register(&self, base: usize, len: usize) -> Result<Block> {
        let device = self.any_device()?;
        let _here = device.enter()?;
        let (whole, flags) = (whole(len, GRANULE), driver::HOST_PORTABLE_AND_MAPPED);
        let mut registered = lock(&self.registered);
        if !registered.join(base, whole) {
            // SAFETY: the pages are the user's, and the driver refuses what it cannot lock.
            let code = unsafe { (self.driver.calls.cuMemHostRegister)(base, whole, flags) };
            device.check(format_args!("cuMemHostRegister of {len} bytes at {base:#x}"), code)?;
            registered.add(base, whole);
        }
        Ok(Block { base, len, home: Home::Host, at: base, page: GRANULE, origin: Origin::Registered })
    }

    fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize> {
        self.outside.reserve(len, align, wish)
    }

    fn release(&self, base: usize) {
        self.outside.release(base);
    }

    unsafe fn free(&self, block: &Block) -> Result<()> {
        if block.origin == Origin::Registered {
            return self.unregister(block.base);
        }
        let mut pieces = lock(&self.pieces);
        if !pieces.rest(block.base) {
            unreachable!("{block} is not of this backend");
        }
        self.refund(block.home, whole(block.len, block.page));
        self.give_back(&mut pieces, Rest::SOME)
    }

    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        if lock(&self.pieces).reaches(addr, len) {
            // The core asks about addresses that are in no block it knows: a freed one, or the neighbour of a plain range.
            let note = format!(
                "{len} bytes at {addr:#x} reach into device or page-locked memory that they do not belong to"
            );
            return Err(Kind::BadAddress.because(note));
        }
        // The core knows of no registration here: it is over, though copies may still use the pages, or does not reach so far.
        let was_registered = lock(&self.registered).meets(addr, len);
        let found = if was_registered { None } else { self.foreign(addr)? };
        match found {
            // Host memory that is page-locked in part only is pageable.
            Some(block) if block.home != Home::Host || block.translate(addr, len).is_some() => {
                Ok(Some(block))
            }
            _ => probe::accessible(addr, len, access).map(|()| None),
        }
    }

    fn stamp(&self, block: &Block) -> Result<u64> {
        let Home::Device(id) = block.home else { return Ok(0) };
        // Where mapped memory lies only the core knows.
        if block.origin == Origin::Mapped {
            return Ok(live::FOR_THE_HOST);
        }
        let device = self.device(id)?;
        let _here = device.enter()?;
        device.live()?;
        Ok(device.sealing.live.stamp(block.base))
    }

    fn forgotten(&self, block: &Block) {
        if let Home::Device(id) = block.home
            && let Some(device) = self.devices[id as usize].get()
        {
            device.sealing.live.forget(block.base);
        }
    }

    fn can_reduce(&self) -> Result<()> {
        Ok(())
    }

    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(CudaQueue::new(Lane::new(self.device(device)?.clone(), device, options, status)?)))
    }

    unsafe fn adopt(&self, device: DeviceId, native: usize, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        // SAFETY: passed on from the caller.
        Ok(Box::new(unsafe { self.adopt_stream(device, native, status)? }))
    }
}

/// Bytes that a block takes.
fn whole(len: usize, page: usize) -> usize {
    len.checked_next_multiple_of(page.max(GRANULE)).unwrap_or(usize::MAX)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn devices_share_gpus_where_there_are_more_of_them() {
        for (gpus, devices, visible, want) in [
            (2, None, None, &[0, 1][..]),
            (1, Some(3), None, &[0, 0, 0]),
            (2, Some(3), None, &[0, 1, 0]),
            (4, Some(2), None, &[0, 1]),
            (2, Some(4), Some(vec![3, 9, 2]), &[1, 0]),
            (2, None, Some(vec![1, 2]), &[1]),
        ] {
            let options = CudaOptions { devices, visible, device_memory: None, ..CudaOptions::default() };
            assert_eq!(options.ordinals(gpus), want, "{options:?} with {gpus} GPUs");
        }
    }

    #[test]
    fn opening_without_a_gpu_says_why() {
        match Cuda::open(&CudaOptions::default()) {
            Ok(cuda) => assert!(cuda.device_count() > 0),
            Err(why) => {
                assert_eq!(why.kind, Kind::Unsupported, "{why}");
                assert!(why.note.starts_with("the cuda backend: "), "{why}");
            }
        }
    }
}
