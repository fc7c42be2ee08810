//! Real NVIDIA GPUs through the CUDA driver, which is loaded at run time: nothing is linked, and a machine without one can
//! still build and run everything else.
//!
//! Device pointers are the GPU's own (`Block::at` equals `Block::base`, but for mapped memory), and memory of other libraries
//! in the process is recognised. Descriptors are read on the GPU when their copy runs, and their seal is checked there, and that
//! the memory it names is still there: live.rs. Only memory of other libraries is not watched; if they have given it back the
//! GPU faults and every later call fails, as in any CUDA program.

mod coalesce;
mod descriptors;
mod device;
mod driver;
mod host;
mod memory;
mod order;
mod shared;
mod staging;
mod stream;

use crate::{
    os::{
        fault,
        ranges::{HostPages, Reservations},
    },
    pool::Pool,
    usage::Usage,
};
use device::Device;
use driver::Driver;
use ferry_core::{
    Access, AddressSpace, Backend, Block, BlockWatch, DeviceId, DeviceMemory, Features, Home, Kind,
    NativeStreams, Origin, Queue, QueueOptions, Request, Result, Shared, Sharing, Sheet, Status,
    sync::{Arc, Mutex, Weak, lock},
    table::GRANULE,
};
use memory::blocks::whole;
use memory::ipc::Import;
use memory::ipc::Imports;
use memory::ipc::Ticket;
use memory::pieces::Pieces;
use memory::quota::Quota;
use memory::registered::Registered;
use order::fence::Watcher;
use order::queue::CudaQueue;
use order::queue::Lane;
use shared::holds::Holds;
use std::sync::OnceLock;
use stream::page::Page;
pub use stream::settings;
use stream::settings::Settings;

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
    /// Where other processes read what this one has.
    pub usage: Option<Arc<Usage>>,
}

/// The cuda backend.
pub struct Cuda {
    me: Weak<Cuda>,
    driver: Arc<Driver>,
    pool: Arc<Pool>,
    watcher: Arc<Watcher>,
    holds: Arc<Holds>,
    /// Opened when first used: a context takes time and memory of its GPU.
    devices: Vec<OnceLock<Arc<Device>>>,
    /// What the driver calls them: not all GPUs need be visible here.
    ordinals: Vec<u32>,
    quotas: Vec<Quota>,
    pieces: Mutex<Pieces>,
    registered: Arc<Mutex<Registered>>,
    imports: Arc<Mutex<Imports>>,
    usage: Option<Arc<Usage>>,
    settings: Settings,
    /// Addresses that were set aside: for registered memory as devices see it.
    reservations: Arc<Reservations>,
    host_pages: HostPages,
}

impl CudaOptions {
    /// The devices by their numbers on this machine, where there are so many GPUs.
    fn numbers(&self, gpus: u32) -> Vec<u32> {
        let devices = 0..self.devices.map_or(gpus, |count| count as u32);
        match &self.visible {
            None => devices.collect(),
            Some(visible) => visible.iter().copied().filter(|id| devices.contains(id)).collect(),
        }
    }

    /// The GPU of each device.
    fn ordinals(&self, gpus: u32) -> Vec<u32> {
        self.numbers(gpus).iter().map(|number| number % gpus).collect()
    }
}

impl Cuda {
    /// Loads the driver and looks for GPUs. `Unsupported`, with the reason, where there is none.
    pub fn open(options: &CudaOptions) -> Result<Arc<dyn Backend>> {
        fault::install();
        let driver = Arc::new(Driver::load("libcuda.so.1")?);
        let gpus = driver.gpus()?;
        let (numbers, ordinals) = (options.numbers(gpus), options.ordinals(gpus));
        let sharers = |ordinal: u32| ordinals.iter().filter(|other| **other == ordinal).count();
        let quota = |(ordinal, number): (&u32, &u32)| {
            let account = options.usage.as_ref().map(|usage| usage.of_device(*number));
            Quota::new(options.device_memory, sharers(*ordinal)).telling(account)
        };
        let quotas = ordinals.iter().zip(&numbers).map(quota).collect();
        Ok(Arc::new_cyclic(|me| Cuda {
            me: me.clone(),
            driver,
            pool: Pool::new("ferry-cuda"),
            watcher: Arc::default(),
            holds: Arc::default(),
            devices: ordinals.iter().map(|_| OnceLock::new()).collect(),
            quotas,
            ordinals,
            pieces: Mutex::default(),
            registered: Arc::default(),
            imports: Arc::default(),
            usage: options.usage.clone(),
            settings: options.settings.clone(),
            reservations: Arc::default(),
            host_pages: HostPages::default(),
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
        let (driver, workers, watcher) = (self.driver.clone(), self.pool.clone(), self.watcher.clone());
        let (holds, registered) = (self.holds.clone(), self.registered.clone());
        let device = Device::open(driver, workers, watcher, holds, registered, ordinal, &self.settings)?;
        Ok(slot.get_or_init(|| {
            let device = Arc::new(device);
            self.holds.beforehand.add(&device);
            device
        }))
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
}

impl Drop for Cuda {
    fn drop(&mut self) {
        self.close_pieces();
    }
}

impl Backend for Cuda {
    fn name(&self) -> &'static str {
        "cuda"
    }

    fn device_count(&self) -> usize {
        self.devices.len()
    }

    fn features(&self) -> Features {
        Features { is_unified: false, can_reduce: true }
    }

    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        let gpu = self.gpu_memory(device)?;
        let quota = &self.quotas[device as usize];
        let ((free, total), (used, peak)) = (quota.info(gpu), quota.usage());
        Ok(DeviceMemory { free, total, used, peak })
    }

    fn alloc(&self, request: &Request) -> Result<Block> {
        let Request { home, len, page } = *request;
        let current = self.device_of(home)?.enter()?;
        let (page, whole) = (page.max(GRANULE), whole(len, page));
        self.charge(home, (len, whole))?;
        let base = self.make(&current, home, whole, page).map_err(|why| {
            self.refund(home, whole);
            self.refused(why, home, len)
        })?;
        if let Home::Device(id) = home {
            self.quotas[id as usize].granted();
        }
        Ok(Block { base, len, home, at: base, page, origin: Origin::Allocated })
    }

    fn register(&self, base: usize, len: usize) -> Result<Block> {
        let current = self.any_device()?.enter()?;
        let whole = whole(len, GRANULE);
        let mut registered = self.registered_for(base, whole)?;
        let gaps = registered.gaps(base, whole);
        let locked = gaps.into_iter().try_for_each(|(base, len)| {
            current.pin(base, len)?;
            registered.add(base, len);
            Ok(())
        });
        registered.join(base, whole);
        drop(registered);
        match locked {
            Ok(()) => {
                Ok(Block { base, len, home: Home::Host, at: base, page: GRANULE, origin: Origin::Registered })
            }
            Err(why) => self.unregister(base, whole).and(Err(why)),
        }
    }

    unsafe fn free(&self, block: &Block) -> Result<()> {
        match block.origin {
            Origin::Registered => return self.unregister(block.base, whole(block.len, GRANULE)),
            Origin::Allocated => {}
            _ => return self.close(block),
        }
        let mut pieces = lock(&self.pieces);
        let Some(home) = pieces.rest(block.base) else { unreachable!("{block} is not of this backend") };
        self.refund(block.home, whole(block.len, block.page));
        self.give_back(&mut pieces, home)
    }

    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        self.locate_foreign(addr, len, access)
    }

    /// Of the only device; where there are several nobody knows yet which one reads the list.
    fn sheet(&self, lines: usize) -> Option<Box<dyn Sheet>> {
        let [device] = &self.devices[..] else { return None };
        Some(Box::new(Page::lend(device.get()?, lines)?))
    }

    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        Ok(Box::new(CudaQueue::new(Lane::new(self.device(device)?.clone(), device, options, status)?)))
    }

    fn address_space(&self) -> Option<&dyn AddressSpace> {
        Some(self)
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        Some(self)
    }

    fn block_watch(&self) -> Option<&dyn BlockWatch> {
        Some(self)
    }

    fn native_streams(&self) -> Option<&dyn NativeStreams> {
        Some(self)
    }
}

impl AddressSpace for Cuda {
    fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize> {
        self.reservations.reserve(len, align, wish)
    }

    fn release(&self, base: usize) {
        self.reservations.release(base);
    }

    fn show(&self, base: usize, block: &Block) -> Result<()> {
        if block.home == Home::Host { self.reservations.show(base, block) } else { Ok(()) }
    }

    fn hide(&self, base: usize, block: &Block) {
        if block.home == Home::Host {
            self.reservations.hide(base, block.len);
        }
    }

    fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block> {
        let pages = HostPages::make(len, node)?;
        let block = self.register(pages.addr(), len)?;
        self.host_pages.add(pages);
        Ok(Block { page, ..block })
    }
}

impl Sharing for Cuda {
    fn share(&self, block: &Block) -> Result<Shared> {
        let start = lock(&self.pieces).lend(block.at);
        let imported = || Kind::BadAddress.because(format!("{block} is another process's, which shares it"));
        let start = start.ok_or_else(imported)?;
        let handle = self.device_of(block.home)?.enter()?.ipc_handle(start)?;
        Ticket::new(handle, start, block.at).write(block.len)
    }

    fn import(&self, shared: &Shared, device: DeviceId, origin: Origin) -> Result<Block> {
        let current = self.device(device)?.enter()?;
        let ticket = Ticket::read(shared)?;
        let opened = (!ticket.is_ours()).then(|| current.open_ipc(ticket.handle)).transpose()?;
        let at = opened.map_or(ticket.at, |start| start + ticket.skip);
        let (mut imports, mut base) = (lock(&self.imports), at);
        // The same memory may be here already: then it has addresses that only the core knows.
        let is_reserved = opened.is_none() || at % GRANULE != 0 || imports.meets(at, shared.len);
        if is_reserved {
            base = self.reservations.reserve(shared.len, GRANULE, 0)?;
        }
        imports.add(base, Import { opened, at, is_reserved, len: shared.len });
        Ok(Block { base, len: shared.len, home: Home::Device(device), at, page: GRANULE, origin })
    }
}

impl BlockWatch for Cuda {
    fn stamp(&self, block: &Block) -> Result<u64> {
        let Home::Device(id) = block.home else { return Ok(0) };
        // Where mapped memory lies only the core knows.
        if block.base != block.at {
            return Ok(descriptors::live::FOR_THE_HOST);
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
}

impl NativeStreams for Cuda {
    unsafe fn adopt(&self, device: DeviceId, native: usize, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        // SAFETY: passed on from the caller.
        Ok(Box::new(unsafe { self.adopt_stream(device, native, status)? }))
    }
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
