//! The allocator: blocks of device memory and of page-locked memory, made of the driver's allocations.
//!
//! Memory comes from the free list, from a chunk, from the driver or, if it is page-locked and large, from
//! the system ([`MappedPinned`]), and counts against the quota of its device. Freed memory goes into
//! quarantine, from there into the free list or its chunk, and what is too much goes back to the driver: at
//! once, or deferred while a stream is held, since to take memory back the driver waits for all streams.

use crate::cuda::{
    driver::{Contexts, Current, ImplicitSync},
    memory::allocations::{Allocations, Reclaimed},
    memory::mapped_pinned::MappedPinned,
    memory::{free_list, quota::Quota, quota::out_of_memory},
};
use crate::unallocated;
use ferry_core::{
    Block, DeviceId, DeviceMemory, Error, Home, Kind, Origin, Request, Result,
    sync::{Arc, Mutex, Weak, lock},
    table::GRANULE,
};

/// A GPU has room for so many chunks at least: on a small one they are small.
const MIN_CHUNKS: usize = 64;

/// The allocator of all devices of a backend.
pub struct Allocator {
    me: Weak<Allocator>,
    contexts: Arc<Contexts>,
    sync: Arc<ImplicitSync>,
    quotas: Vec<Quota>,
    allocations: Mutex<Allocations>,
    mapped: MappedPinned,
    /// Held to make a chunk or a slab: whoever needs one as well finds room in the one that is made.
    making: Mutex<()>,
}

impl Allocator {
    /// An allocator for devices with these quotas.
    pub fn new(contexts: Arc<Contexts>, sync: Arc<ImplicitSync>, quotas: Vec<Quota>) -> Arc<Allocator> {
        Arc::new_cyclic(|me| Allocator {
            me: me.clone(),
            contexts,
            sync,
            quotas,
            allocations: Mutex::default(),
            mapped: MappedPinned::default(),
            making: Mutex::default(),
        })
    }

    /// What a device has of its memory.
    pub fn device_memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        let gpu = self.gpu_memory(device)?;
        let quota = &self.quotas[device as usize];
        let ((free, total), (used, peak)) = (quota.info(gpu), quota.usage());
        Ok(DeviceMemory { free, total, used, peak })
    }

    /// As [`Backend::alloc`](ferry_core::Backend::alloc).
    pub fn alloc(&self, request: &Request) -> Result<Block> {
        let Request { home, len, page } = *request;
        let current = self.contexts.of(home)?.enter()?;
        let (page, whole) = (page.max(GRANULE), whole_pages(len, page));
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

    /// Frees a block that `alloc` made.
    ///
    /// # Safety
    /// Nothing uses it any more.
    pub unsafe fn free(&self, block: &Block) -> Result<()> {
        let mut allocations = lock(&self.allocations);
        let home = allocations.quarantine(block.base);
        let Some(home) = home else { unreachable!("{block} is not of this backend") };
        self.refund(block.home, whole_pages(block.len, block.page));
        self.give_back(&mut allocations, home)
    }

    /// The driver's allocation around `addr` is lent to another process: its start and its length, if it is
    /// one of ours.
    pub fn lend(&self, addr: usize) -> Option<(usize, usize)> {
        lock(&self.allocations).lend(addr)
    }

    /// The home of memory that the range reaches into, in use or not.
    pub fn reached(&self, addr: usize, len: usize) -> Option<Home> {
        lock(&self.allocations).reached(addr, len)
    }

    /// Free and total bytes of the GPU behind a device; what is not in use there is as good as free.
    fn gpu_memory(&self, device: DeviceId) -> Result<(usize, usize)> {
        let (free, total) = self.contexts.open(device)?.enter()?.memory_info()?;
        let allocations = lock(&self.allocations);
        let homes = self.contexts.homes_beside(Home::Device(device));
        let unused: usize = homes.map(|home| allocations.unused(home)).sum();
        Ok(((free + unused).min(total), total))
    }

    /// Counts the pages of some bytes for a device, if it may have so many.
    fn charge(&self, home: Home, (len, whole): (usize, usize)) -> Result<()> {
        let Home::Device(id) = home else { return Ok(()) };
        let quota = &self.quotas[id as usize];
        let total = quota.total(|| Ok(self.gpu_memory(id)?.1))?;
        quota.take(id, (len, whole), total)
    }

    /// Undoes `charge`.
    fn refund(&self, home: Home, len: usize) {
        if let Home::Device(id) = home {
            self.quotas[id as usize].give(len);
        }
    }

    /// Memory of `len` bytes at a multiple of `align`, which is returned. Where the driver has none left,
    /// memory that is not in use goes back to it, as far as that is needed.
    fn make(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Result<usize> {
        loop {
            if let Some(start) = self.reuse(current, home, len, align) {
                return Ok(start);
            }
            match self.make_alone(current, home, len, align) {
                Err(error) if error.kind == Kind::OutOfMemory => {
                    let may_come = self.could_ever_have(home, len, align)?;
                    if !may_come || !self.make_room(home, len, align)? {
                        return Err(error);
                    }
                }
                made => return made,
            }
        }
    }

    /// Memory that is there and not in use, or a part of a new chunk or slab if that will do.
    fn reuse(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Option<usize> {
        let again = || lock(&self.allocations).reuse(home, len, align);
        again().or_else(|| {
            let _one = lock(&self.making);
            again().or_else(|| {
                match home {
                    Home::Host => self.add_slab(current, len, align)?,
                    Home::Device(id) => self.add_chunk(current, id, len)?,
                }
                again()
            })
        })
    }

    /// Has the driver make a slab of page-locked memory, if `len` bytes are few.
    fn add_slab(&self, current: &Current<'_>, len: usize, align: usize) -> Option<()> {
        let part = free_list::part(len).filter(|_| align == GRANULE)?;
        let start = self.take(current, Home::Host, free_list::SLAB).ok()?;
        if start % GRANULE != 0 {
            // SAFETY: taken just now.
            unsafe { self.give(current, Home::Host, start).ok()? };
            return None;
        }
        lock(&self.allocations).add_slab(start, part);
        Some(())
    }

    /// Has the driver make a chunk for blocks like one of `len` bytes, if that is worth it and there is room.
    fn add_chunk(&self, current: &Current<'_>, id: DeviceId, len: usize) -> Option<()> {
        let (home, quota) = (Home::Device(id), &self.quotas[id as usize]);
        let total = quota.total(|| Ok(self.gpu_memory(id)?.1)).ok()?;
        let most = current.context().gpu_memory() / MIN_CHUNKS;
        let chunk = {
            let allocations = lock(&self.allocations);
            // What is idle beside pieces in use counts as if it were in use: other devices do not get it.
            let left = quota.left(total).saturating_sub(allocations.unused(home));
            allocations.chunk_len(home, len, left.min(most))?
        };
        let start = self.take(current, home, chunk).ok()?;
        lock(&self.allocations).add_chunk(start, chunk, home, len);
        Some(())
    }

    /// Memory of the driver's for one block.
    fn make_alone(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Result<usize> {
        let (mut size, mut start) = (len, self.take(current, home, len)?);
        if start % align != 0 {
            {
                let mut allocations = lock(&self.allocations);
                allocations.add(start, size, home);
                allocations.quarantine(start);
                self.give_back(&mut allocations, home)?;
            }
            size = size.saturating_add(align);
            start = self.take(current, home, size)?;
        }
        lock(&self.allocations).add(start, size, home);
        Ok(start.next_multiple_of(align))
    }

    /// Whether so much could be had if all that is not in use were given back. A request beyond all bounds
    /// must not end the quarantine of anything.
    fn could_ever_have(&self, home: Home, len: usize, align: usize) -> Result<bool> {
        let Home::Device(id) = home else { return Ok(len <= machine_memory()) };
        let (free, _) = self.contexts.open(id)?.enter()?.memory_info()?;
        let allocations = lock(&self.allocations);
        let reclaimable: usize =
            self.contexts.homes_beside(home).map(|home| allocations.reclaimable(home)).sum();
        Ok(len <= free + reclaimable || allocations.could_have_room(home, len, align))
    }

    /// Gives back what is not in use, the oldest first, until that is `len` bytes, or until there is room for
    /// them in a chunk. False if there was nothing, or a stream is held.
    fn make_room(&self, home: Home, len: usize, align: usize) -> Result<bool> {
        let (mut allocations, mut given) = (lock(&self.allocations), 0);
        for beside in self.contexts.homes_beside(home) {
            while given < len
                && let Some(next) = allocations.reclaim(beside)
            {
                match next {
                    Reclaimed::Part if allocations.has_room(home, len, align) => return Ok(true),
                    Reclaimed::Part => {}
                    Reclaimed::Whole(start) => {
                        match self.sync.unless_held(|| self.give_unused(beside, start)) {
                            Some(gone) => gone?,
                            None => return Ok(given > 0),
                        }
                        given += allocations.forget(beside, start);
                    }
                }
            }
        }
        Ok(given > 0)
    }

    /// The error of a request for `len` bytes that the driver refused.
    #[cold]
    fn refused(&self, why: Error, home: Home, len: usize) -> Error {
        if why.kind != Kind::OutOfMemory {
            return why;
        }
        let asked = || format!("{len} bytes of {} were asked for", unallocated::name(home));
        let note = match home {
            Home::Device(id) => {
                self.gpu_memory(id).map_or_else(|_| asked(), |memory| out_of_memory(id, len, memory))
            }
            Home::Host => asked(),
        };
        Kind::OutOfMemory.because(format!("{note}: {why}"))
    }

    /// Gives back memory of a home until no more of it is kept than may be.
    fn give_back(&self, allocations: &mut Allocations, home: Home) -> Result<()> {
        while let Some(start) = allocations.overdue(home) {
            match self.sync.unless_held(|| self.give_unused(home, start)) {
                Some(given) => given?,
                // While a stream is held it stays in quarantine.
                None if self.give_back_later(allocations) => return Ok(()),
                None => continue,
            }
            allocations.forget(home, start);
        }
        Ok(())
    }

    /// Gives an allocation back that is not in use. What a lost device had is gone with it.
    fn give_unused(&self, home: Home, start: usize) -> Result<()> {
        // SAFETY: nothing of it is in use: the core has seen every op that could reach any of it complete.
        self.contexts.of(home)?.unless_lost(|current| unsafe { self.give(current, home, start) })
    }

    /// Takes memory from the driver, or from the system.
    fn take(&self, current: &Current<'_>, home: Home, len: usize) -> Result<usize> {
        match home {
            Home::Host => self.mapped.make(current, len).map_or_else(|| current.alloc_pinned(len), Ok),
            Home::Device(_) => current.alloc_device(len),
        }
    }

    /// Gives it back.
    ///
    /// # Safety
    /// `start` came from `take` with this home, and nothing uses the memory.
    unsafe fn give(&self, current: &Current<'_>, home: Home, start: usize) -> Result<()> {
        match home {
            // SAFETY: the caller's promise.
            Home::Host => unsafe { self.mapped.free(current, start) }
                // SAFETY: the caller's promise.
                .unwrap_or_else(|| unsafe { current.free_pinned(start) }),
            // SAFETY: the caller's promise.
            Home::Device(_) => unsafe { current.free_device(start) },
        }
    }

    /// Does so when no stream is held. False if none is now.
    fn give_back_later(&self, allocations: &mut Allocations) -> bool {
        let me = self.me.clone();
        let give_back = move || {
            let Some(allocator) = me.upgrade() else { return };
            let mut allocations = lock(&allocator.allocations);
            allocations.is_deferred = false;
            for home in allocations.homes() {
                // As of all deferred calls the result is dropped; what stays is tried again with the next
                // one.
                let _ = allocator.give_back(&mut allocations, home);
            }
        };
        allocations.is_deferred = allocations.is_deferred || self.sync.later(give_back);
        allocations.is_deferred
    }

    /// Gives back all that is not in use, at the end.
    fn give_back_all(&self) {
        let mut allocations = lock(&self.allocations);
        for home in allocations.homes() {
            while let Some(next) = allocations.reclaim(home) {
                let Reclaimed::Whole(start) = next else { continue };
                // Where the driver is gone already, at the end of the process, there is nothing to give back
                // to.
                if self.give_unused(home, start).is_err() {
                    break;
                }
                allocations.forget(home, start);
            }
        }
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.give_back_all();
    }
}

/// Bytes of the pages that a block takes.
pub fn whole_pages(len: usize, page: usize) -> usize {
    len.checked_next_multiple_of(page.max(GRANULE)).unwrap_or(usize::MAX)
}

/// Bytes of memory that the machine has: no more of it can be page-locked.
fn machine_memory() -> usize {
    // SAFETY: asks for two constants.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    usize::try_from(pages)
        .and_then(|pages| Ok(pages.saturating_mul(usize::try_from(page)?)))
        .unwrap_or(usize::MAX)
}
