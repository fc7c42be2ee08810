//! The host backend: devices made of memory and threads. It is faithful to what the documents say of a
//! card, on a machine that has none.
//!
//! Memory: a `region` for each device and one for page-locked memory, of which blocks are allocated;
//! `budget` shares a device's memory with other processes. Work: a `lane` for each stream, a list of
//! `task`s that workers of the `engine` run, or threads that wait; large copies are shared by a `team`. Where
//! a `schedule` is asked for, a `pacer` decides when.
//!
//! What it does not do: check anything that the core has checked, and talk to the operating system, which
//! is `os/`. Arrows: lane -> task -> engine -> team, pacer -> schedule, and region -> budget; this module,
//! which implements the core's `Backend`, knows all of them, and none knows it.

mod budget;
mod engine;
mod lane;
mod pacer;
mod region;
pub mod schedule;
mod sleepers;
mod task;
mod team;

use crate::{
    os::{
        fault,
        machine::half_of_memory,
        mapping,
        page::page_size,
        probe::{self, survey::MappingSurvey},
        ranges::{HostPages, Imports, PageLocks, Reservations},
    },
    unallocated,
    usage::Usage,
};
use budget::Share;
use engine::Engine;
use ferry_core::{
    Access, AddressSpace, Backend, Block, DeviceId, DeviceMemory, Features, Home, Kind, Origin, Queue,
    QueueOptions, Request, Result, Shared, Sharing, Status, Survey, sync::Arc, table::GRANULE,
};
use lane::{Lane, LaneQueue};
use pacer::Pacer;
use region::{MappingSize, Region};
use schedule::Schedule;
use std::{fmt::Debug, ops::Range, path::PathBuf};

/// How many devices there are, and how large.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// The devices, by their numbers on this machine.
    pub devices: Vec<u32>,
    /// Where other processes take from the same memory: the folder by which they find each other.
    pub shared: Option<PathBuf>,
    /// Bytes of each device; `None` is half of what this machine has.
    pub device_memory: Option<usize>,
    /// Host and device memory are one: the CPU may touch device memory.
    pub is_unified: bool,
    /// Where other processes read what this one has.
    pub usage: Option<Arc<Usage>>,
    /// Who watches what the program does in page-locked memory, which then has two views.
    pub views: Option<Arc<dyn ViewWatch>>,
    /// The order in which work runs; `None` is as soon as a thread is free.
    pub schedule: Option<Schedule>,
}

/// Is told of memory that is mapped twice: for the program and for the engine.
pub trait ViewWatch: Debug + Send + Sync {
    /// The program's view `user` is there, of which the engine's begins at `at`.
    fn viewed(&self, user: Range<usize>, at: usize);

    /// The program has these addresses of a device, with nothing behind them that the CPU could use.
    fn reserved(&self, addresses: Range<usize>) {
        let _ = addresses;
    }

    /// The program's view is about to end.
    fn gone(&self, user: Range<usize>);

    /// Maps whole pages of the program's own memory twice, if they can be; says the engine's address.
    fn double(&self, user: Range<usize>) -> Option<usize>;
}

/// The host backend.
pub struct Host {
    regions: Arc<Regions>,
    engine: Arc<Engine>,
    is_unified: bool,
    views: Option<Arc<dyn ViewWatch>>,
}

struct Regions {
    devices: Vec<Region>,
    page_locked: Region,
    page_locks: PageLocks,
    reservations: Reservations,
    imports: Imports,
    host_pages: HostPages,
    usage: Option<Arc<Usage>>,
}

impl Regions {
    /// Whose addresses any of the range lies in, if they are ours.
    fn owner(&self, addr: usize, len: usize) -> Option<String> {
        let mut regions = self.devices.iter().chain([&self.page_locked]);
        let imported = || {
            let meets = self.imports.meets(addr, len);
            meets.then(|| unallocated::IMPORTED.into())
        };
        let own = || {
            let usage = self.usage.as_ref().filter(|usage| usage.meets(addr, len));
            usage.map(|_| unallocated::OWN.into())
        };
        regions.find(|region| region.meets(addr, len)).map(Region::name).or_else(imported).or_else(own)
    }
}

impl Host {
    /// Reserves the devices' addresses; memory is committed when it is touched.
    pub fn open(options: HostOptions) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(Host::new(options)?))
    }

    fn new(options: HostOptions) -> Result<Host> {
        fault::install();
        // Each device has two mappings, page-locked memory one or two; half of what the process may map stays
        // the program's.
        let most = mapping::address_limit() / 2 / (2 * options.devices.len() + 2);
        let devices = devices(&options, most)?;
        if let Some(views) = options.views.as_ref().filter(|_| !options.is_unified) {
            devices.iter().for_each(|region| views.reserved(region.addresses()));
        }
        let page_locked = page_locked(options.views.as_deref(), MappingSize::up_to(most))?;
        let regions = Arc::new(Regions {
            devices,
            page_locked,
            page_locks: PageLocks::default(),
            reservations: Reservations::default(),
            imports: Imports::default(),
            host_pages: HostPages::default(),
            usage: options.usage,
        });
        let cpus = std::thread::available_parallelism().map_or(1, |count| count.get());
        let engine = match options.schedule {
            None if options.views.is_some() => Engine::watched(regions.clone(), cpus),
            None => Engine::new(regions.clone(), cpus),
            Some(schedule) => Engine::paced(regions.clone(), cpus, Pacer::new(schedule)),
        };
        engine.fork.set().map_err(|why| Kind::Device.because(format!("a page of memory: {why}")))?;
        Ok(Host { engine, regions, is_unified: options.is_unified, views: options.views })
    }

    fn region(&self, home: Home) -> Result<&Region> {
        match home {
            Home::Host => Ok(&self.regions.page_locked),
            Home::Device(device) => self.regions.devices.get(device as usize).ok_or_else(|| {
                Kind::NoDevice.because(format!("device {device} of {} devices", self.regions.devices.len()))
            }),
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.engine.fork.is_child() {
            // It has no device memory, and what it has at those addresses is its own: nothing is unmapped.
            return std::mem::forget(self.regions.clone());
        }
        self.engine.pacer.iter().for_each(|pacer| pacer.let_all_go());
        self.engine.close();
    }
}

impl Backend for Host {
    fn name(&self) -> &'static str {
        "host"
    }

    fn device_count(&self) -> usize {
        self.regions.devices.len()
    }

    fn features(&self) -> Features {
        Features { is_unified: self.is_unified, can_reduce: true }
    }

    fn memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.engine.fork.is_no_child()?;
        let region = self.region(Home::Device(device))?;
        let ((free, total), (used, peak)) = (region.info()?, region.usage());
        Ok(DeviceMemory { free, total, used, peak })
    }

    fn alloc(&self, request: &Request) -> Result<Block> {
        self.engine.fork.is_no_child()?;
        self.region(request.home)?.alloc(request)
    }

    unsafe fn free(&self, block: &Block) -> Result<()> {
        if self.engine.fork.is_child() {
            return Ok(()); // it has none of it, and what it has at these addresses may be its own
        }
        match block.origin {
            Origin::Allocated => self.region(block.home)?.free(block),
            Origin::Registered if self.regions.host_pages.take(block.base).is_some() => {}
            Origin::Registered if block.base != block.at && forget_doubled(block) => {}
            Origin::Registered => self.regions.page_locks.remove(block.base, block.len),
            _ => self.regions.imports.remove(block.base),
        }
        Ok(())
    }

    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        if let Some(owner) = self.regions.owner(addr, len) {
            return Err(unallocated::refusal(addr, len, &owner));
        }
        probe::accessible(addr, len, access)?;
        Ok(None)
    }

    fn survey(&self) -> Option<Box<dyn Survey + '_>> {
        // Who watches the program's accesses sees those of a survey as the program's.
        if self.views.is_some() {
            return None;
        }
        let awake = self.engine.keep_one_awake();
        let is_nobodys = move |_, range: &Range<usize>| {
            let _until_it_is_over = &awake;
            self.regions.owner(range.start, range.len()).is_none()
        };
        Some(Box::new(MappingSurvey::begin(is_nobodys)?))
    }

    fn register(&self, base: usize, len: usize) -> Result<Block> {
        self.engine.fork.is_no_child()?;
        let user = whole_pages(base, len);
        let doubled = self.views.as_ref().and_then(|views| views.double(user.clone()));
        let at = doubled.map_or(base, |at| at + (base - user.start));
        if at == base {
            self.regions.page_locks.add(base, len);
        }
        Ok(Block { base, len, home: Home::Host, at, page: GRANULE, origin: Origin::Registered })
    }

    fn queue(&self, device: DeviceId, options: QueueOptions, status: Arc<Status>) -> Result<Box<dyn Queue>> {
        self.engine.fork.is_no_child()?;
        self.region(Home::Device(device))?;
        if !options.waited {
            self.engine.start()?;
        }
        Ok(Box::new(LaneQueue::new(Lane::new(self.engine.clone(), status, options.waited))))
    }

    fn address_space(&self) -> Option<&dyn AddressSpace> {
        Some(self)
    }

    fn sharing(&self) -> Option<&dyn Sharing> {
        Some(self)
    }
}

impl AddressSpace for Host {
    fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize> {
        self.engine.fork.is_no_child()?;
        self.regions.reservations.reserve(len, align, wish)
    }

    fn release(&self, base: usize) {
        if !self.engine.fork.is_child() {
            self.regions.reservations.release(base);
        }
    }

    fn show(&self, base: usize, block: &Block) -> Result<()> {
        self.engine.fork.is_no_child()?;
        match self.is_unified || block.home == Home::Host {
            true => self.regions.reservations.show(base, block),
            false => Ok(()),
        }
    }

    fn hide(&self, base: usize, block: &Block) {
        if (self.is_unified || block.home == Home::Host) && !self.engine.fork.is_child() {
            self.regions.reservations.hide(base, block.len);
        }
    }

    fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block> {
        self.engine.fork.is_no_child()?;
        let mapping = HostPages::make(len, node)?;
        mapping.lock_on_fault(0, len);
        let base = self.regions.host_pages.add(mapping);
        Ok(Block { base, len, home: Home::Host, at: base, page, origin: Origin::Registered })
    }
}

impl Sharing for Host {
    fn share(&self, block: &Block) -> Result<Shared> {
        self.engine.fork.is_no_child()?;
        match block.origin {
            Origin::Allocated => self.region(block.home)?.share(block),
            _ => Err(Kind::BadAddress.because(format!("{block} is not this process's to share"))),
        }
    }

    fn import(&self, shared: &Shared, device: DeviceId, origin: Origin) -> Result<Block> {
        self.engine.fork.is_no_child()?;
        self.region(Home::Device(device))?;
        let own = self.regions.devices.iter().find_map(|region| region.holding(shared));
        self.regions.imports.import(shared, device, origin, self.is_unified, own)
    }
}

/// The pages that a range lies in.
fn whole_pages(base: usize, len: usize) -> Range<usize> {
    base / page_size() * page_size()..(base + len).next_multiple_of(page_size())
}

/// Gives the engine's view of registered memory back, if it has one of its own.
fn forget_doubled(block: &Block) -> bool {
    #[cfg(not(loom))]
    return crate::os::trap::doubled::forget(whole_pages(block.base, block.len).start);
    #[cfg(loom)]
    return block.len == 0;
}

/// Page-locked memory, with a view for the program alone if somebody watches that.
fn page_locked(views: Option<&dyn ViewWatch>, span: MappingSize) -> Result<Region> {
    let Some(views) = views else { return Region::page_locked(2 * half_of_memory(), span) };
    let region = Region::page_locked_twice(2 * half_of_memory(), span)?;
    let (user, at) = region.views();
    views.viewed(user, at);
    Ok(region)
}

/// Devices as large as was asked for, or as the first process that shares them asked for, or an error.
/// Without a request they are as large as possible.
fn devices(options: &HostOptions, most: usize) -> Result<Vec<Region>> {
    let wish = options.device_memory.unwrap_or_else(|| half_of_memory() / 4096 * 4096);
    let is_exact = options.device_memory.is_some() || options.shared.is_some();
    let shares = shares(options, wish)?;
    let sizes = shares.iter().map(|share| share.as_ref().map_or(wish, Share::capacity));
    let spans: Vec<_> = sizes
        .map(|size| {
            (size, if is_exact { MappingSize::holding(size, most) } else { MappingSize::up_to(most) })
        })
        .collect();
    let largest = spans.iter().map(|(size, _)| *size).max().unwrap_or(0);
    let mappings = if options.is_unified { 1 } else { 2 };
    let needed = spans.iter().map(|(_, span)| span.least()).sum::<usize>().saturating_mul(mappings);
    let note = |why: &str| {
        format!(
            "FERRY_DEVICE_MEMORY and FERRY_DEVICES ask for {} devices of {largest} bytes, which take \
             {needed} bytes of addresses: {why}",
            options.devices.len()
        )
    };
    let limit = mapping::address_limit();
    if is_exact && needed > limit / 4 * 3 {
        return Err(Kind::BadSetting.because(note(&format!(
            "a process has {limit} ({}), and a quarter of them stays the program's",
            mapping::address_limit_name()
        ))));
    }
    let device = |(id, ((size, span), share)): (usize, ((usize, MappingSize), Option<Share>))| {
        let region = Region::device(id as u32, size, span, options.is_unified, options.views.is_some());
        let told = |error: ferry_core::Error| error.kind.because(note(&error.note));
        let region = region.map_err(|error| if is_exact { told(error) } else { error })?;
        Ok(region
            .sharing(share)
            .telling(options.usage.as_ref().map(|usage| usage.of_device(options.devices[id]))))
    };
    spans.into_iter().zip(shares).enumerate().map(device).collect()
}

/// Each device's part of the budget that processes share, if they do.
fn shares(options: &HostOptions, wish: usize) -> Result<Vec<Option<Share>>> {
    match &options.shared {
        Some(folder) => Ok(Share::join(folder, &options.devices, wish)?.map(Some).collect()),
        None => Ok(options.devices.iter().map(|_| None).collect()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_reach_into_ours_are_refused_and_say_so() {
        let options = HostOptions {
            devices: vec![0, 1],
            device_memory: Some(1 << 20),
            shared: None,
            is_unified: false,
            usage: None,
            views: None,
            schedule: None,
        };
        let regions = |host: &Host| (host.regions.devices[1].base(), host.regions.page_locked.base());
        let host = Host::new(options).expect("two small devices");
        let (device, page_locked) = regions(&host);
        for (base, name) in [(device, "device 1"), (page_locked, "page-locked memory")] {
            for (addr, len) in [
                (base - 64, 512),
                (base, 0),
                (base + 4096, 64),
                (base - 1, 2),
                (base - (1 << 40), usize::MAX >> 1),
            ] {
                let error = host.locate(addr, len, Access::Read).expect_err(name);
                assert_eq!(error.kind, Kind::BadAddress);
                assert!(addr + 4096 < base || error.note.contains(name), "{len} bytes at {addr:#x}: {error}");
            }
        }
        let plain = [0_u8; 64];
        assert_eq!(host.locate(plain.as_ptr() as usize, 64, Access::Read), Ok(None));
        assert_eq!(host.region(Home::Device(2)).err().map(|error| error.kind), Some(Kind::NoDevice));
    }

    #[test]
    fn imported_memory_is_shown_to_the_cpu() {
        let options = HostOptions {
            devices: vec![0],
            device_memory: Some(1 << 20),
            shared: None,
            is_unified: true,
            usage: None,
            views: None,
            schedule: None,
        };
        let host = Host::new(options).expect("a small board");
        let block = host.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
        let shared = host.share(&block).expect("a file");
        let there = host.import(&shared, 0, Origin::Imported).expect("mapped");
        let base = host.reserve(8192, 4096, 0).expect("addresses");
        host.show(base, &there).expect("laid over the reservation");
        // SAFETY: one memory at three addresses, all mapped.
        unsafe {
            ((base + 8191) as *mut u8).write(9);
            assert_eq!(((block.at + 8191) as *const u8).read(), 9);
        }
        host.hide(base, &there);
        host.release(base);
    }
}
