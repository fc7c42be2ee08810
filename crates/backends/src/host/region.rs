//! Address ranges that the host backend hands memory out of.
//!
//! A device's range is a bare reservation: the user's addresses have no access rights and nothing behind them, so a program
//! that dereferences a device pointer dies as it would with a real card. The bytes live in a second mapping, at the same
//! offset, that only the engine knows. Page-locked memory has one mapping for both. Both show by name in `/proc/self/maps`.

use ferry_core::{Block, Home, Kind, Request, Result, table::GRANULE};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ffi::CString,
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Freed ranges rest before they are used again, so that a stale pointer is met by an error and not by a stranger's block.
const RESTING_RANGES: usize = 256;
const RESTING_BYTES: usize = 256 << 20;
/// The engine's mapping is made accessible in steps of at least this, so that tools which look at every accessible page of a
/// process (valgrind's leak search, core dumps) see little more than what is used.
const STEP: usize = 64 << 20;

/// A range of the user's addresses, the engine's view of it, and what is free in it.
pub struct Region {
    home: Home,
    base: usize,
    len: usize,
    at: usize,
    capacity: usize,
    lock_pages: AtomicBool,
    space: Mutex<Space>,
}

/// Free offsets: by place to merge neighbours, by size to find the best fit.
#[derive(Default)]
struct Space {
    by_place: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    resting: VecDeque<(usize, usize)>,
    resting_bytes: usize,
    used: usize,
    /// Offset up to which the engine's mapping is accessible.
    open: usize,
}

impl Region {
    /// Device memory of `capacity` bytes.
    pub fn device(device: u32, capacity: usize) -> Result<Region> {
        let (at, len) = shared_mapping(&format!("ferry:device{device}-memory"), span_for(capacity))?;
        let base = bare_mapping(&format!("ferry:device{device}"), len)?;
        advise(at, len, libc::MADV_DONTFORK);
        advise(at, len, libc::MADV_DONTDUMP);
        Ok(Region::new(Home::Device(device), base, len, at, capacity))
    }

    /// Page-locked host memory, of which there can be as much as `capacity` bytes.
    pub fn page_locked(capacity: usize) -> Result<Region> {
        let (base, len) = private_mapping(span_for(capacity))?;
        Ok(Region::new(Home::Host, base, len, base, capacity))
    }

    fn new(home: Home, base: usize, len: usize, at: usize, capacity: usize) -> Region {
        let mut space = Space { open: GRANULE.max(crate::probe::page_size()), ..Space::default() };
        // The first and last granule stay out of use: nothing that runs off the end of its own mapping reaches a block.
        space.give(space.open, len - 2 * space.open);
        let lock_pages = AtomicBool::new(home == Home::Host);
        Region { home, base, len, at, capacity, lock_pages, space: Mutex::new(space) }
    }

    /// What the region is called in messages.
    pub fn name(&self) -> String {
        match self.home {
            Home::Host => "page-locked memory".into(),
            Home::Device(device) => format!("device {device}"),
        }
    }

    /// The first of the user's addresses.
    #[cfg(test)]
    pub fn base(&self) -> usize {
        self.base
    }

    /// Free and total bytes.
    pub fn info(&self) -> (usize, usize) {
        (self.capacity - self.space().used, self.capacity)
    }

    /// Whether any of the range lies in these addresses, or in the engine's view of them, which is nobody else's.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        let within = |start: usize| addr < start + self.len && addr.saturating_add(len.max(1)) > start;
        within(self.base) || within(self.at)
    }

    /// Takes whole pages for a block.
    pub fn alloc(&self, request: &Request) -> Result<Block> {
        let page = request.page.max(GRANULE).max(crate::probe::page_size());
        let short = |space: &Space| {
            Kind::OutOfMemory.because(format!(
                "{} bytes of {} were asked for, {} of {} are free",
                request.len,
                self.name(),
                self.capacity - space.used,
                self.capacity
            ))
        };
        let mut space = self.space();
        let bytes = request.len.checked_next_multiple_of(page).ok_or_else(|| short(&space))?;
        if bytes > self.capacity - space.used {
            return Err(short(&space));
        }
        let offset = space.take(bytes, page, self.base).ok_or_else(|| short(&space))?;
        if let Err(error) = self.open_up_to(&mut space, offset + bytes) {
            space.give(offset, bytes);
            return Err(error);
        }
        space.used += bytes;
        drop(space);
        if self.lock_pages.load(Ordering::Relaxed) && !lock_on_fault(self.at + offset, bytes) {
            self.lock_pages.store(false, Ordering::Relaxed); // past the limit of this process: best effort
        }
        Ok(Block { base: self.base + offset, len: request.len, home: self.home, at: self.at + offset, page })
    }

    /// Gives the pages of a block back to the system.
    pub fn free(&self, block: &Block) {
        let (offset, bytes) = (block.base - self.base, block.len.next_multiple_of(block.page));
        match self.home {
            Home::Device(_) => advise(self.at + offset, bytes, libc::MADV_REMOVE),
            Home::Host => {
                const DONTNEED_LOCKED: i32 = 24;
                if !advise(self.at + offset, bytes, DONTNEED_LOCKED) {
                    advise(self.at + offset, bytes, libc::MADV_DONTNEED);
                }
                true
            }
        };
        let mut space = self.space();
        space.used -= bytes;
        space.rest(offset, bytes);
    }

    fn open_up_to(&self, space: &mut Space, end: usize) -> Result<()> {
        if end <= space.open {
            return Ok(());
        }
        let open = end
            .max(space.open * 2)
            .next_multiple_of(STEP)
            .min(self.len - GRANULE.max(crate::probe::page_size()));
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a part of our own mapping, and none of it is in use yet.
        if unsafe { libc::mprotect((self.at + space.open) as *mut libc::c_void, open - space.open, rights) }
            != 0
        {
            return Err(system(&format!("opening {open} bytes of {}", self.name())));
        }
        space.open = open;
        Ok(())
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: both mappings were made for this region, and whoever can run work on them keeps the region alive.
        unsafe {
            libc::munmap(self.base as *mut libc::c_void, self.len);
            if self.at != self.base {
                libc::munmap(self.at as *mut libc::c_void, self.len);
            }
        }
    }
}

impl Space {
    /// The smallest free range that holds `bytes` at a multiple of `page` (as an address from `base`).
    fn take(&mut self, bytes: usize, page: usize, base: usize) -> Option<usize> {
        let fit = |(len, offset): &(usize, usize)| {
            let start = (base + offset).next_multiple_of(page) - base;
            (start + bytes <= offset + len).then_some((*offset, *len, start))
        };
        let mut found = self.by_size.range((bytes, 0)..).find_map(fit);
        while found.is_none() && !self.resting.is_empty() {
            self.wake_oldest();
            found = self.by_size.range((bytes, 0)..).find_map(fit);
        }
        let (offset, len, start) = found?;
        self.by_place.remove(&offset);
        self.by_size.remove(&(len, offset));
        self.give(offset, start - offset);
        self.give(start + bytes, offset + len - (start + bytes));
        Some(start)
    }

    /// Puts a freed range to rest.
    fn rest(&mut self, offset: usize, bytes: usize) {
        self.resting.push_back((offset, bytes));
        self.resting_bytes += bytes;
        while self.resting.len() > RESTING_RANGES || self.resting_bytes > RESTING_BYTES {
            self.wake_oldest();
        }
    }

    fn wake_oldest(&mut self) {
        if let Some((offset, bytes)) = self.resting.pop_front() {
            self.resting_bytes -= bytes;
            self.give(offset, bytes);
        }
    }

    /// Makes a range free and merges it with its neighbours.
    fn give(&mut self, mut offset: usize, mut len: usize) {
        if len == 0 {
            return;
        }
        if let Some((&before, &size)) = self.by_place.range(..offset).next_back()
            && before + size == offset
        {
            self.by_place.remove(&before);
            self.by_size.remove(&(size, before));
            (offset, len) = (before, size + len);
        }
        if let Some(size) = self.by_place.remove(&(offset + len)) {
            self.by_size.remove(&(size, offset + len));
            len += size;
        }
        self.by_place.insert(offset, len);
        self.by_size.insert((len, offset));
    }
}

/// More addresses than bytes, so that holes between blocks do not matter; only touched pages cost memory.
fn span_for(capacity: usize) -> usize {
    (capacity * 2).next_multiple_of(1 << 30) + (1 << 30)
}

/// A mapping, not accessible yet, of a file that exists in memory only, as large as the system grants up to `len`.
fn shared_mapping(name: &str, mut len: usize) -> Result<(usize, usize)> {
    loop {
        let fd = memory_file(name)?;
        // SAFETY: the descriptor is ours and open.
        let sized = unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } == 0;
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        match map(len, libc::PROT_NONE, flags, fd.as_raw_fd()).filter(|_| sized) {
            Some(at) => return Ok((at, len)),
            None if len > 1 << 28 => len /= 2,
            None => return Err(system(&format!("mapping {len} bytes of {name}"))),
        }
    }
}

/// Addresses without access rights over an empty file: nothing is behind them, and the name shows in the maps.
fn bare_mapping(name: &str, len: usize) -> Result<usize> {
    let fd = memory_file(name)?;
    map(len, libc::PROT_NONE, libc::MAP_SHARED | libc::MAP_NORESERVE, fd.as_raw_fd())
        .ok_or_else(|| system(&format!("reserving {len} bytes of addresses for {name}")))
}

/// Private memory: in a forked child the parent's bytes are not touched.
fn private_mapping(mut len: usize) -> Result<(usize, usize)> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    loop {
        match map(len, libc::PROT_NONE, flags, -1) {
            Some(base) => {
                name_mapping(base, len, c"ferry:page-locked");
                return Ok((base, len));
            }
            None if len > 1 << 28 => len /= 2,
            None => return Err(system(&format!("mapping {len} bytes of page-locked memory"))),
        }
    }
}

fn memory_file(name: &str) -> Result<OwnedFd> {
    let name_c = CString::new(name).expect("our names have no NUL");
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(name_c.as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(system(&format!("creating {name}")));
    }
    // SAFETY: the call just returned this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn map(len: usize, rights: i32, flags: i32, fd: i32) -> Option<usize> {
    // SAFETY: no address is asked for, so no existing mapping is touched.
    let addr = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, fd, 0) };
    (addr != libc::MAP_FAILED).then_some(addr as usize)
}

fn advise(addr: usize, len: usize, advice: i32) -> bool {
    // SAFETY: the range lies in a mapping of this module and holds no live block.
    unsafe { libc::madvise(addr as *mut libc::c_void, len, advice) == 0 }
}

/// Locks pages as they are touched. Never undone: the range is used again for page-locked memory only.
fn lock_on_fault(addr: usize, len: usize) -> bool {
    // SAFETY: the range lies in our private mapping.
    unsafe { libc::syscall(libc::SYS_mlock2, addr, len, libc::MLOCK_ONFAULT) == 0 }
}

fn name_mapping(addr: usize, len: usize, name: &std::ffi::CStr) {
    const SET_VMA: i32 = 0x5356_4d41;
    const ANON_NAME: usize = 0;
    // SAFETY: names a mapping of ours; the string outlives the call. Kernels without the feature refuse, which is fine.
    unsafe { libc::prctl(SET_VMA, ANON_NAME, addr, len, name.as_ptr()) };
}

fn system(doing: &str) -> ferry_core::Error {
    let why = io::Error::last_os_error();
    Kind::Device.because(format!("{doing}: {why}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn request(len: usize, page: usize) -> Request {
        Request { home: Home::Device(0), len, page }
    }

    #[test]
    fn freed_addresses_rest_and_bytes_come_back() {
        let region = Region::device(0, 64 << 20).expect("a small device");
        let first = region.alloc(&request(100, 4096)).expect("room");
        assert_eq!(region.info(), ((64 << 20) - 4096, 64 << 20));
        region.free(&first);
        assert_eq!(region.info(), (64 << 20, 64 << 20));
        assert_ne!(region.alloc(&request(100, 4096)).expect("room").base, first.base, "still resting");
    }

    #[test]
    fn large_pages_are_aligned_and_counted_whole() {
        let region = Region::device(0, 64 << 20).expect("a small device");
        let block = region.alloc(&request((2 << 20) + 1, 2 << 20)).expect("room");
        assert_eq!(block.base % (2 << 20), 0);
        assert_eq!(region.info().0, 60 << 20);
        let error = region.alloc(&request(61 << 20, 4096)).expect_err("too much");
        assert_eq!(error.kind, Kind::OutOfMemory);
        assert!(region.alloc(&request(usize::MAX, 4096)).is_err());
    }

    #[test]
    fn everything_is_used_again_when_space_runs_short() {
        let region = Region::device(0, 1 << 20).expect("a small device");
        for round in 0..20_000 {
            let block =
                region.alloc(&request(1 << 20, 4096)).unwrap_or_else(|e| panic!("round {round}: {e}"));
            region.free(&block);
        }
    }

    #[test]
    fn mappings_show_by_name() {
        let region = Region::device(7, 1 << 20).expect("a small device");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line =
            maps.lines().find(|line| line.starts_with(&format!("{:x}-", region.base))).expect("our mapping");
        assert!(line.contains("ferry:device7") && line.contains(" ---s "), "{line}");
    }
}
