//! The backend for NVIDIA GPUs, through the CUDA driver.
//!
//! The driver is loaded at run time: nothing is linked, and a machine without one can build and run
//! everything else. Device pointers are the GPU's own (`Block::at` equals `Block::base`, but for mapped
//! memory), and memory of other libraries in the process is recognised. Descriptors are read on the GPU when
//! their copy runs; their seal is checked there, and that the memory it names is still allocated. Memory of
//! other libraries is not watched in that way: if they have freed it the GPU faults and every later call
//! fails, as in any CUDA program.
//!
//! The folders are floors, and imports point down only: `driver/` calls the driver; `memory/` makes and
//! recognises memory; `stream/` puts work into a CUDA stream; `order/` keeps the order of a queue;
//! `coalesce/`, `descriptors/` and `staging/` are ways to do copies; `dispatch.rs` hands each op to the part
//! that does it; `shared/` is for streams that other libraries use as well; `queue.rs` is the queue that the
//! core sees. Here is what binds them together: the backend of the core's traits, which hands each call on.

mod coalesce;
mod descriptors;
mod dispatch;
mod driver;
mod memory;
mod order;
mod queue;
mod shared;
mod staging;
mod stream;

use crate::{
    os::{fault, probe::survey::MappingSurvey},
    pool::Pool,
    usage::Usage,
};
use descriptors::queue_memory::DeviceDescriptors;
use dispatch::{Gpu, OpQueue};
use driver::{Contexts, Driver, ImplicitSync};
use ferry_core::{
    Access, AddressSpace, Backend, Block, BlockWatch, DeviceId, DeviceMemory, Features, Home, NativeStreams,
    Origin, Queue, QueueOptions, Request, Result, SegmentSink, Shared, Sharing, Status, Survey, sync::Arc,
};
use memory::{Memory, Quota};
use order::{gpu_clock::GpuClock, watcher::Watcher};
use queue::CudaQueue;
use shared::{
    preload::Preload,
    queue::{SharedQueue, SharingDevice},
};
use staging::{Staging, StagingPool};
use std::{collections::HashMap, ops::Range, sync::OnceLock};
use stream::list_sink::ListSink;
pub use stream::settings;
use stream::{Stream, StreamKind, device::Device, settings::Settings};

/// Which GPUs are devices, and how much of them.
#[derive(Clone, Debug, Default)]
pub struct CudaOptions {
    /// Number of devices. If it is larger than the number of GPUs, some share one: device `i` is GPU `i`
    /// modulo that number. `None` is as many as there are GPUs.
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
    contexts: Arc<Contexts>,
    memory: Memory,
    /// Made when first used.
    devices: Vec<OnceLock<Arc<SharingDevice>>>,
    pool: Arc<Pool>,
    watcher: Arc<Watcher>,
    /// The clock of each device's GPU.
    clocks: Vec<Arc<GpuClock>>,
    sync: Arc<ImplicitSync>,
    preload: Arc<Preload>,
    settings: Settings,
    /// How many devices are on the GPU of each.
    sharers: Vec<usize>,
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

/// One clock for each GPU: devices that share it share the clock.
fn clocks(ordinals: &[u32]) -> Vec<Arc<GpuClock>> {
    let mut of_gpus: HashMap<u32, Arc<GpuClock>> = HashMap::new();
    ordinals.iter().map(|ordinal| of_gpus.entry(*ordinal).or_default().clone()).collect()
}

impl Cuda {
    /// Loads the driver and counts the GPUs. `Unsupported`, with the reason, where there is none.
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
        let all_sharers = ordinals.iter().map(|ordinal| sharers(*ordinal)).collect();
        let quotas = ordinals.iter().zip(&numbers).map(quota).collect();
        let devices = ordinals.iter().map(|_| OnceLock::new()).collect();
        let clocks = clocks(&ordinals);
        let (contexts, sync) = (Arc::new(Contexts::new(driver, ordinals)), Arc::default());
        Ok(Arc::new(Cuda {
            memory: Memory::new(&contexts, &sync, quotas, options.usage.clone()),
            contexts,
            devices,
            pool: Pool::new("ferry-cuda"),
            watcher: Arc::default(),
            clocks,
            sync,
            preload: Arc::default(),
            settings: options.settings.clone(),
            sharers: all_sharers,
        }))
    }

    fn device(&self, id: DeviceId) -> Result<&Arc<SharingDevice>> {
        if let Some(device) = self.devices.get(id as usize).and_then(OnceLock::get) {
            return Ok(device);
        }
        let context = self.contexts.open(id)?.clone();
        let buffers = StagingPool::new(self.pool.clone(), self.settings.stagers);
        let (pool, sync, sharers) = (self.pool.clone(), self.sync.clone(), self.sharers[id as usize]);
        let device = Device::new(context, pool, sync, &self.settings, sharers);
        let pinned = self.memory.registrations.pinned().clone();
        let gpu = Arc::new(Gpu {
            id,
            watcher: self.watcher.clone(),
            clock: self.clocks[id as usize].clone(),
            descriptors: DeviceDescriptors::new(device.clone()),
            staging: Staging::new(buffers, pinned),
            sender: Arc::default(),
            device,
        });
        Ok(self.devices[id as usize].get_or_init(|| SharingDevice::new(gpu, &self.preload)))
    }

    /// Makes the device of this home, if it is a device: what must be there before a stream is held is then
    /// made with it.
    fn open_home(&self, home: Home) -> Result<()> {
        match home {
            Home::Host => Ok(()),
            Home::Device(id) => self.device(id).map(drop),
        }
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
        self.memory.allocator.device_memory(device)
    }

    fn alloc(&self, request: &Request) -> Result<Block> {
        self.open_home(request.home)?;
        self.memory.allocator.alloc(request)
    }

    fn register(&self, base: usize, len: usize) -> Result<Block> {
        self.memory.registrations.register(base, len)
    }

    unsafe fn free(&self, block: &Block) -> Result<()> {
        // SAFETY: passed on from the caller.
        unsafe { self.memory.free(block) }
    }

    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        self.memory.locate(addr, len, access)
    }

    fn survey(&self) -> Option<Box<dyn Survey + '_>> {
        let is_plain = |addr, range: &Range<usize>| self.memory.is_plain_around(addr, range);
        Some(Box::new(MappingSurvey::begin(is_plain)?))
    }

    /// Of the only device; where there are several it is not known yet which one reads the list.
    fn segment_sink(&self, segments: usize) -> Option<Box<dyn SegmentSink>> {
        let [device] = &self.devices[..] else { return None };
        Some(Box::new(ListSink::lend(&device.get()?.gpu.device, segments)?))
    }

    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        let (device, kind) = (self.device(device)?, StreamKind::of_ours(options.waited));
        let queue = OpQueue::new(&device.gpu, kind, status)?;
        queue.lane.drop_when_halted(&queue.lane.progress.status);
        Ok(Box::new(CudaQueue::new(queue, device.clone())))
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
        self.memory.reservations.reserve(len, align, wish)
    }

    fn release(&self, base: usize) {
        self.memory.reservations.release(base);
    }

    fn show(&self, base: usize, block: &Block) -> Result<()> {
        if block.home == Home::Host { self.memory.reservations.show(base, block) } else { Ok(()) }
    }

    fn hide(&self, base: usize, block: &Block) {
        if block.home == Home::Host {
            self.memory.reservations.hide(base, block.len);
        }
    }

    fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block> {
        self.memory.registrations.host_pages(len, page, node)
    }
}

impl Sharing for Cuda {
    fn share(&self, block: &Block) -> Result<Shared> {
        self.memory.share(block)
    }

    fn import(&self, shared: &Shared, device: DeviceId, origin: Origin) -> Result<Block> {
        self.open_home(Home::Device(device))?;
        self.memory.imports.import(shared, device, origin)
    }
}

impl BlockWatch for Cuda {
    fn stamp(&self, block: &Block) -> Result<u64> {
        let Home::Device(id) = block.home else { return Ok(0) };
        // Where mapped memory lies only the core knows.
        if block.base != block.at {
            return Ok(descriptors::liveness::FOR_THE_HOST);
        }
        let gpu = &self.device(id)?.gpu;
        gpu.descriptors.liveness_at(&gpu.device.enter()?)?;
        Ok(gpu.descriptors.liveness.stamp(block.base))
    }

    fn forgotten(&self, block: &Block) {
        if let Home::Device(id) = block.home
            && let Some(device) = self.devices[id as usize].get()
        {
            device.gpu.descriptors.liveness.forget(block.base);
        }
    }
}

impl NativeStreams for Cuda {
    unsafe fn adopt(&self, device: DeviceId, native: usize, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        let device = self.device(device)?;
        // SAFETY: passed on from the caller.
        let stream = unsafe { Stream::adopt(&device.gpu.device, device.gpu.id, native)? };
        Ok(Box::new(SharedQueue::adopted(device, (native, stream), status)?))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use ferry_core::Kind;

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
