//! The allocator: blocks of device memory and of page-locked memory, made of the driver's allocations.
//!
//! Memory comes from the free list or from the driver, and counts against the quota of its device. Freed
//! memory goes into quarantine, from there into the free list, and what is too much goes back to the driver:
//! at once, or deferred while a stream is held, since to take memory back the driver waits for all streams.

use crate::cuda::{
    driver::{Contexts, Current, ImplicitSync},
    memory::allocations::Allocations,
    memory::{free_list, quota::Quota, quota::out_of_memory},
};
use crate::unallocated;
use ferry_core::{
    Block, DeviceId, DeviceMemory, Error, Home, Kind, Origin, Request, Result,
    sync::{Arc, Mutex, Weak, lock},
    table::GRANULE,
};

/// The allocator of all devices of a backend.
pub struct Allocator {
    me: Weak<Allocator>,
    contexts: Arc<Contexts>,
    sync: Arc<ImplicitSync>,
    quotas: Vec<Quota>,
    allocations: Mutex<Allocations>,
}

impl Allocator {
    /// An allocator for devices with these quotas.
    pub fn new(contexts: Arc<Contexts>, sync: Arc<ImplicitSync>, quotas: Vec<Quota>) -> Arc<Allocator> {
        let allocations = Mutex::default();
        Arc::new_cyclic(|me| Allocator { me: me.clone(), contexts, sync, quotas, allocations })
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

    /// The driver's allocation around `addr` is lent to another process: where it starts, if it is one of
    /// ours.
    pub fn lend(&self, addr: usize) -> Option<usize> {
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

    /// Takes memory from the driver. Where it has none left, memory that is not in use goes back to it, as
    /// far as that is needed.
    fn take(&self, current: &Current<'_>, home: Home, len: usize) -> Result<usize> {
        loop {
            match try_take(current, home, len) {
                Err(error) if error.kind == Kind::OutOfMemory => {
                    if !self.could_ever_have(home, len)? || !self.make_room(home, len)? {
                        return Err(error);
                    }
                }
                taken => return taken,
            }
        }
    }

    /// Whether so much could be had if all that is not in use were given back. A request beyond all bounds
    /// must not end the quarantine of anything.
    fn could_ever_have(&self, home: Home, len: usize) -> Result<bool> {
        Ok(match home {
            Home::Device(id) => len <= self.gpu_memory(id)?.0,
            Home::Host => len <= machine_memory(),
        })
    }

    /// Gives back what is not in use, the oldest first, until that is `len` bytes. False if there was
    /// nothing, or a stream is held.
    fn make_room(&self, home: Home, len: usize) -> Result<bool> {
        let (mut allocations, mut given) = (lock(&self.allocations), 0);
        for home in self.contexts.homes_beside(home) {
            while given < len
                && let Some(start) = allocations.oldest(home)
            {
                match self.sync.unless_held(|| self.give_unused(home, start)) {
                    Some(gone) => gone?,
                    None => return Ok(given > 0),
                }
                given += allocations.forget(start);
            }
        }
        Ok(given > 0)
    }

    /// Memory of the free list, or of page-locked memory a part of a new slab if that will do.
    fn reuse(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Option<usize> {
        let again = lock(&self.allocations).reuse(home, len, align);
        if again.is_some() || home != Home::Host {
            return again;
        }
        let part = free_list::part(len).filter(|_| align == GRANULE)?;
        let start = try_take(current, Home::Host, free_list::SLAB).ok()?;
        if start % GRANULE != 0 {
            // SAFETY: taken just now.
            unsafe { give(current, Home::Host, start).ok()? };
            return None;
        }
        let mut allocations = lock(&self.allocations);
        allocations.add_slab(start, part);
        allocations.reuse(home, len, align)
    }

    /// Memory of `len` bytes at a multiple of `align`, which is returned.
    fn make(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Result<usize> {
        if let Some(start) = self.reuse(current, home, len, align) {
            return Ok(start);
        }
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
            allocations.forget(start);
        }
        Ok(())
    }

    /// Gives an allocation back that is not in use. What a lost device had is gone with it.
    fn give_unused(&self, home: Home, start: usize) -> Result<()> {
        // SAFETY: it is or was in quarantine: the core has seen every op that could reach it complete.
        self.contexts.of(home)?.unless_lost(|current| unsafe { give(current, home, start) })
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
            while let Some(start) = allocations.oldest(home) {
                // Where the driver is gone already, at the end of the process, there is nothing to give back
                // to.
                if self.give_unused(home, start).is_err() {
                    break;
                }
                allocations.forget(start);
            }
        }
    }
}

impl Drop for Allocator {
    fn drop(&mut self) {
        self.give_back_all();
    }
}

/// Takes memory from the driver.
fn try_take(current: &Current<'_>, home: Home, len: usize) -> Result<usize> {
    match home {
        Home::Host => current.alloc_pinned(len),
        Home::Device(_) => current.alloc_device(len),
    }
}

/// Gives it back.
///
/// # Safety
/// `start` came from `try_take` with this home, and nothing uses the memory.
unsafe fn give(current: &Current<'_>, home: Home, start: usize) -> Result<()> {
    match home {
        // SAFETY: the caller's promise.
        Home::Host => unsafe { current.free_pinned(start) },
        // SAFETY: the caller's promise.
        Home::Device(_) => unsafe { current.free_device(start) },
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
