//! Where memory comes from: the driver, what rests, and what is page-locked already; and how it goes back.

use crate::cuda::{
    Cuda,
    driver::Current,
    memory::pieces::Pieces,
    memory::registered::Registered,
    memory::{pool, quota},
};
use crate::unallocated;
use ferry_core::{
    Block, DeviceId, Error, Home, Kind, Result,
    sync::{MutexGuard, lock},
    table::GRANULE,
};
use std::time::{Duration, Instant};

/// How long a registration waits for pages that are yet to be unlocked.
const PATIENCE: Duration = Duration::from_millis(750);

impl Cuda {
    /// Free and total bytes of the GPU behind a device; what nobody uses there is as good as free.
    pub fn gpu_memory(&self, device: DeviceId) -> Result<(usize, usize)> {
        let gpu = self.device(device)?;
        let (free, total) = gpu.enter()?.memory_info()?;
        let pieces = lock(&self.pieces);
        let unused: usize = self.beside(Home::Device(device)).map(|home| pieces.unused(home)).sum();
        Ok(((free + unused).min(total), total))
    }

    /// The places that have their memory from where this one has: devices of one GPU.
    fn beside(&self, home: Home) -> impl Iterator<Item = Home> {
        let gpu = |home| match home {
            Home::Device(id) => self.ordinals.get(id as usize),
            Home::Host => None,
        };
        let all = (0..).take(self.ordinals.len()).map(Home::Device).chain([Home::Host]);
        all.filter(move |other| gpu(*other) == gpu(home))
    }

    /// Counts the pages of some bytes for a device, if it may have so many.
    pub fn charge(&self, home: Home, (len, whole): (usize, usize)) -> Result<()> {
        let Home::Device(id) = home else { return Ok(()) };
        let quota = &self.quotas[id as usize];
        let total = quota.total(|| Ok(self.gpu_memory(id)?.1))?;
        quota.take(id, (len, whole), total)
    }

    /// Undoes `charge`.
    pub fn refund(&self, home: Home, len: usize) {
        if let Home::Device(id) = home {
            self.quotas[id as usize].give(len);
        }
    }

    /// Takes memory from the driver. Where it has none left, what nobody uses goes back to it, as far as that is needed.
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

    /// Whether so much could be had if all that nobody uses were given back. A request beyond all bounds must not end the rest of
    /// anything.
    fn could_ever_have(&self, home: Home, len: usize) -> Result<bool> {
        Ok(match home {
            Home::Device(id) => len <= self.gpu_memory(id)?.0,
            Home::Host => len <= machine_memory(),
        })
    }

    /// Gives back what nobody uses, the oldest first, until that is `len` bytes. False if there was nothing, or a stream is held.
    fn make_room(&self, home: Home, len: usize) -> Result<bool> {
        let (mut pieces, mut given) = (lock(&self.pieces), 0);
        for place in self.beside(home) {
            while given < len
                && let Some(start) = pieces.oldest(place)
            {
                match self.holds.unless_held(|| self.give_unused(place, start)) {
                    Some(gone) => gone?,
                    None => return Ok(given > 0),
                }
                given += pieces.forget(start);
            }
        }
        Ok(given > 0)
    }

    /// Memory that was used before, or of page-locked memory a part of a slab if that will do.
    fn reuse(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Option<usize> {
        let again = lock(&self.pieces).reuse(home, len, align);
        if again.is_some() || home != Home::Host {
            return again;
        }
        let part = pool::part(len).filter(|_| align == GRANULE)?;
        let start = try_take(current, Home::Host, pool::SLAB).ok()?;
        if start % GRANULE != 0 {
            // SAFETY: taken just now.
            unsafe { give(current, Home::Host, start).ok()? };
            return None;
        }
        let mut pieces = lock(&self.pieces);
        pieces.add_slab(start, part);
        pieces.reuse(home, len, align)
    }

    /// A piece of memory with `len` bytes at a multiple of `align`, which is returned.
    pub fn make(&self, current: &Current<'_>, home: Home, len: usize, align: usize) -> Result<usize> {
        if let Some(start) = self.reuse(current, home, len, align) {
            return Ok(start);
        }
        let (mut size, mut start) = (len, self.take(current, home, len)?);
        if start % align != 0 {
            {
                let mut pieces = lock(&self.pieces);
                pieces.add(start, size, home);
                pieces.rest(start);
                self.give_back(&mut pieces, home)?;
            }
            size = size.saturating_add(align);
            start = self.take(current, home, size)?;
        }
        lock(&self.pieces).add(start, size, home);
        Ok(start.next_multiple_of(align))
    }

    /// What somebody is told whom the driver refused `len` bytes.
    #[cold]
    pub fn refused(&self, why: Error, home: Home, len: usize) -> Error {
        if why.kind != Kind::OutOfMemory {
            return why;
        }
        let asked = || format!("{len} bytes of {} were asked for", unallocated::name(home));
        let note = match home {
            Home::Device(id) => {
                self.gpu_memory(id).map_or_else(|_| asked(), |memory| quota::short(id, len, memory))
            }
            Home::Host => asked(),
        };
        Kind::OutOfMemory.because(format!("{note}: {why}"))
    }

    /// Undoes `register`, or `host_pages`, whose memory goes back to the system when the driver has unlocked it.
    pub fn unregister(&self, base: usize, len: usize) -> Result<()> {
        let pages = self.host_pages.take(base);
        let unused = lock(&self.registered).leave(base, len);
        if unused.is_empty() {
            return Ok(());
        }
        let (registered, device) = (self.registered.clone(), self.any_device()?.clone());
        let unlock = move |start: &usize| {
            lock(&registered).unlock(*start, || {
                // SAFETY: locked by `register`, and nothing uses it any more.
                device.unless_lost(|current| unsafe { current.unpin(*start) })
            })
        };
        // All of them, whatever becomes of the first: nobody else would.
        self.holds.now_or_later(move || {
            let unlocked = unused.iter().map(unlock).fold(Ok(()), Result::and);
            drop(pages);
            unlocked
        })
    }

    /// What is locked, for somebody who registers this range. None of that is yet to be unlocked: there may be other memory at these
    /// addresses by now, and the driver would go on using the pages that it has locked.
    pub fn registered_for(&self, base: usize, len: usize) -> Result<MutexGuard<'_, Registered>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let registered = lock(&self.registered);
            if !registered.is_leaving(base, len) {
                return Ok(registered);
            }
            drop(registered);
            // Where nothing was put off, somebody is unlocking them just now.
            if !self.holds.catch_up(deadline) || Instant::now() >= deadline {
                let note = format!(
                    "{len} bytes at {base:#x} are still page-locked from before: that ends when no stream shared with other libraries waits for the host"
                );
                return Err(Kind::OutOfMemory.because(note));
            }
        }
    }

    /// Undoes `import`.
    pub fn close(&self, block: &Block) -> Result<()> {
        let Some(import) = lock(&self.imports).remove(block.base) else { return Ok(()) };
        let (imports, reservations, base) = (self.imports.clone(), self.reservations.clone(), block.base);
        let opened = import.opened;
        let forget = move || {
            lock(&imports).forget(base, &import);
            if import.is_reserved {
                reservations.release(base);
            }
        };
        let Some(start) = opened else {
            forget();
            return Ok(());
        };
        let device = self.device_of(block.home)?.clone();
        self.holds.now_or_later(move || {
            // SAFETY: the core has seen every op that could reach it complete.
            let closed = device.unless_lost(|current| unsafe { current.close_ipc(start) });
            forget();
            closed
        })
    }

    /// Gives pieces of a place back until no more rest there than may.
    pub fn give_back(&self, pieces: &mut Pieces, home: Home) -> Result<()> {
        while let Some(start) = pieces.overdue(home) {
            match self.holds.unless_held(|| self.give_unused(home, start)) {
                Some(given) => given?,
                // While a stream is held it rests on.
                None if self.give_back_later(pieces) => return Ok(()),
                None => continue,
            }
            pieces.forget(start);
        }
        Ok(())
    }

    /// Gives a piece back that nobody uses. What a lost device had is gone with it.
    fn give_unused(&self, home: Home, start: usize) -> Result<()> {
        // SAFETY: it rests or has rested: the core has seen every op that could reach it complete.
        self.device_of(home)?.unless_lost(|current| unsafe { give(current, home, start) })
    }

    /// When no stream is held. False if none is now.
    fn give_back_later(&self, pieces: &mut Pieces) -> bool {
        let me = self.me.clone();
        let give_back = move || {
            let Some(cuda) = me.upgrade() else { return };
            let mut pieces = lock(&cuda.pieces);
            pieces.is_put_off = false;
            for home in pieces.places() {
                // As with all calls that are put off, nobody hears of it; what stays is tried again with the next one.
                let _ = cuda.give_back(&mut pieces, home);
            }
        };
        pieces.is_put_off = pieces.is_put_off || self.holds.later(give_back);
        pieces.is_put_off
    }

    /// Gives back all that nobody uses, at the end.
    pub fn close_pieces(&self) {
        let mut pieces = lock(&self.pieces);
        for home in pieces.places() {
            while let Some(start) = pieces.oldest(home) {
                // Where the driver is gone already, at the end of the process, there is nothing to give back to.
                if self.give_unused(home, start).is_err() {
                    break;
                }
                pieces.forget(start);
            }
        }
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

/// Bytes that a block takes.
pub fn whole(len: usize, page: usize) -> usize {
    len.checked_next_multiple_of(page.max(GRANULE)).unwrap_or(usize::MAX)
}

/// Bytes of memory that the machine has. Nobody can have more of it page-locked.
fn machine_memory() -> usize {
    // SAFETY: asks for two constants.
    let [pages, page] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    usize::try_from(pages)
        .and_then(|pages| Ok(pages.saturating_mul(usize::try_from(page)?)))
        .unwrap_or(usize::MAX)
}
