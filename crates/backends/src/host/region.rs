//! Address ranges that the host backend hands memory out of.
//!
//! A device's range is a bare reservation: the user's addresses have no access rights and nothing behind
//! them, so a program that dereferences a device pointer dies as it would with a real card. The bytes live in
//! a second mapping, at the same offset, that only the engine knows. Page-locked memory has one mapping for
//! both, and so has a device of a product whose host and device memory are one. All show by name in
//! `/proc/self/maps`.

use super::budget::Share;
use crate::{
    os::{
        files::Kept,
        mapping::{Mapping, identity},
        probe::page_size,
        refusal,
    },
    usage::Account,
};
use ferry_core::{Block, Error, Home, Kind, Origin, Request, Result, Shared, table::GRANULE};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Freed ranges spend some time in quarantine before they are used again, so that a stale pointer is met by
/// an error and not by another block: at most so many ranges, and so many bytes.
const QUARANTINE_RANGES: usize = 256;
const QUARANTINE_BYTES: usize = 256 << 20;
/// Page-locked blocks of this size on are unlocked when they are freed.
const UNLOCK_FROM: usize = 1 << 20;
/// A huge page.
const HUGE: usize = 2 << 20;
/// A region smaller than this is of no use.
const MIN_MAPPING: usize = 64 << 20;
/// The engine's mapping is made accessible in steps of at least this, so that tools which look at every
/// accessible page of a process (valgrind's leak search, core dumps) see little more than what is used.
const OPEN_STEP: usize = 64 << 20;

/// A range of the user's addresses, the engine's view of it, and what is free in it.
pub struct Region {
    home: Home,
    capacity: usize,
    lock_pages: AtomicBool,
    space: Mutex<FreeRanges>,
    user: Mapping,
    /// The engine's view, where it is another one than the user's.
    bytes: Option<Mapping>,
    /// The file behind the engine's view, where there is one. For other processes: what is done here is done
    /// by the mappings.
    file: Option<Arc<Kept>>,
    /// Where processes share device memory, what they have of it: the last to go.
    share: Option<Share>,
    /// What others are told that this process has of it.
    account: Option<Account>,
}

/// Free offsets: by place to merge neighbours, by size to find the best fit.
#[derive(Default)]
struct FreeRanges {
    by_place: BTreeMap<usize, usize>,
    by_size: BTreeSet<(usize, usize)>,
    resting: VecDeque<(usize, usize)>,
    resting_bytes: usize,
    used: usize,
    /// The most that was ever used.
    peak: usize,
    /// Offset up to which the engine's mapping is accessible.
    open: usize,
}

impl Region {
    /// Device memory of `capacity` bytes, in mappings of `span`. Where memory is unified there is one
    /// mapping, which the CPU may touch. What the CPU does with the user's addresses can be watched if
    /// that is said here.
    pub fn device(
        device: u32,
        capacity: usize,
        span: MappingSize,
        is_unified: bool,
        is_watched: bool,
    ) -> Result<Region> {
        span.shrinking(capacity, |len| {
            let (bytes, file) = Mapping::shared(&format!("ferry:device{device}-memory"), len)?;
            bytes.advise(0, len, libc::MADV_DONTFORK);
            bytes.advise(0, len, libc::MADV_DONTDUMP);
            let (user, bytes) = match is_unified {
                true => (bytes, None),
                // An empty file cannot be watched.
                false if is_watched => {
                    let (user, _) = Mapping::shared(&format!("ferry:device{device}"), len)?;
                    user.advise(0, len, libc::MADV_DONTDUMP);
                    (user, Some(bytes))
                }
                false => (Mapping::bare(&format!("ferry:device{device}"), len)?, Some(bytes)),
            };
            Ok(Region::new(Home::Device(device), user, bytes, file, capacity))
        })
    }

    /// Page-locked host memory, of which there can be as much as `capacity` bytes.
    pub fn page_locked(capacity: usize, span: MappingSize) -> Result<Region> {
        span.shrinking(capacity, |len| {
            Ok(Region::new(Home::Host, Mapping::private(c"ferry:page-locked", len)?, None, None, capacity))
        })
    }

    /// As [`page_locked`](Self::page_locked), but the engine has a view of its own: what the program does in
    /// its view can be watched.
    pub fn page_locked_twice(capacity: usize, span: MappingSize) -> Result<Region> {
        span.shrinking(capacity, |len| {
            let (bytes, _) = Mapping::shared("ferry:page-locked", len)?;
            let user = bytes.again("page-locked memory")?;
            bytes.advise(0, len, libc::MADV_DONTFORK);
            bytes.advise(0, len, libc::MADV_DONTDUMP);
            Ok(Region::new(Home::Host, user, Some(bytes), None, capacity))
        })
    }

    fn new(home: Home, user: Mapping, bytes: Option<Mapping>, file: Option<Kept>, capacity: usize) -> Region {
        let (edge, len) = (edge(), user.len());
        let mut space = FreeRanges { open: edge, ..FreeRanges::default() };
        // The first and last granule stay out of use: nothing that runs off the end of its own mapping
        // reaches a block.
        space.give(edge, len - 2 * edge);
        Region {
            home,
            capacity: capacity.min(len - 2 * edge),
            lock_pages: AtomicBool::new(home == Home::Host),
            space: Mutex::new(space),
            user,
            bytes,
            file: file.map(Arc::new),
            share: None,
            account: None,
        }
    }

    /// Gives the region a budget that other processes take from as well.
    pub fn sharing(self, share: Option<Share>) -> Region {
        Region { share, ..self }
    }

    /// Has other processes told what is taken.
    pub fn telling(self, account: Option<Account>) -> Region {
        Region { account, ..self }
    }

    /// What the region is called in messages.
    pub fn name(&self) -> String {
        crate::unallocated::name(self.home)
    }

    /// The user's view, and where the engine's begins.
    pub fn views(&self) -> (Range<usize>, usize) {
        let start = self.base() + edge();
        (start..self.base() + self.user.len() - edge(), self.engine().addr() + edge())
    }

    /// All of the user's addresses.
    pub fn addresses(&self) -> Range<usize> {
        self.base()..self.base() + self.user.len()
    }

    /// The first of the user's addresses.
    pub fn base(&self) -> usize {
        self.user.addr()
    }

    fn engine(&self) -> &Mapping {
        self.bytes.as_ref().unwrap_or(&self.user)
    }

    /// Free and total bytes.
    pub fn info(&self) -> Result<(usize, usize)> {
        let used = self.space().used;
        Ok(((self.capacity - used).saturating_sub(self.others()?), self.capacity))
    }

    /// Used bytes: now, and the most so far.
    pub fn usage(&self) -> (usize, usize) {
        let space = self.space();
        (space.used, space.peak)
    }

    /// What other processes have of it.
    fn others(&self) -> Result<usize> {
        self.share.as_ref().map_or(Ok(0), Share::others)
    }

    /// Whether any of the range lies in these addresses, or in the engine's view of them: both belong to
    /// the library alone.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        [&self.user, self.engine()].iter().any(|mapping| mapping.meets(addr, len))
    }

    /// Takes whole pages for a block.
    pub fn alloc(&self, request: &Request) -> Result<Block> {
        let page = request.page.max(GRANULE).max(page_size());
        let short = |space: &FreeRanges| self.short(request.len, space.used);
        let mut space = self.space();
        let bytes = request.len.checked_next_multiple_of(page).ok_or_else(|| short(&space))?;
        if bytes > self.capacity - space.used || !self.take_share(bytes)? {
            return Err(short(&space));
        }
        let found = space.take(bytes, page, self.base()).ok_or_else(|| short(&space));
        let offset = found.inspect_err(|_| self.give_share(bytes))?;
        if let Err(error) = self.open_up_to(&mut space, offset + bytes) {
            space.give(offset, bytes);
            self.give_share(bytes);
            return Err(error);
        }
        space.used += bytes;
        space.peak = space.peak.max(space.used);
        drop(space);
        self.account.iter().for_each(|account| account.take(bytes));
        if self.lock_pages.load(Ordering::Relaxed) && !self.engine().lock_on_fault(offset, bytes) {
            self.lock_pages.store(false, Ordering::Relaxed); // past the limit of this process: best effort
        }
        let (base, at) = (self.base() + offset, self.engine().addr() + offset);
        Ok(Block { base, len: request.len, home: self.home, at, page, origin: Origin::Allocated })
    }

    /// The file behind a block.
    pub fn share(&self, block: &Block) -> Result<Shared> {
        let file = self.file.as_ref().ok_or_else(|| {
            Kind::Unsupported.because("files may not be large enough here (RLIMIT_FSIZE) to share memory")
        })?;
        file.get().map_err(|why| Kind::Device.because(format!("sharing {block}: {why}")))?;
        Ok(Shared { file: file.clone(), offset: (block.at - self.engine().addr()) as u64, len: block.len })
    }

    /// The engine's address of memory that is shared, if it lies in this region: it came back to the process
    /// that lent it.
    pub fn holding(&self, shared: &Shared) -> Option<usize> {
        let ours = identity(self.file.as_ref()?.get().ok()?);
        let offset = usize::try_from(shared.offset).ok()?;
        let is_open = offset.checked_add(shared.len).is_some_and(|end| end <= self.space().open);
        (ours.is_some() && ours == identity(shared.file.get().ok()?) && is_open)
            .then(|| self.engine().addr() + offset)
    }

    /// Gives the pages of a block back to the system.
    pub fn free(&self, block: &Block) {
        let (offset, bytes) = (block.base - self.base(), block.len.next_multiple_of(block.page));
        match self.home {
            Home::Host if self.bytes.is_none() => self.unlock(offset, bytes),
            _ => self.punch(offset, bytes),
        }
        let mut space = self.space();
        space.used -= bytes;
        space.rest(offset, bytes);
        self.give_share(bytes);
        self.account.iter().for_each(|account| account.give(bytes));
    }

    /// Takes bytes of the budget that processes share, where they do, if there are so many.
    fn take_share(&self, bytes: usize) -> Result<bool> {
        self.share.as_ref().map_or(Ok(true), |share| share.take(bytes))
    }

    fn give_share(&self, bytes: usize) {
        if let Some(share) = &self.share {
            share.give(bytes);
        }
    }

    /// The error of a request for more than there is.
    fn short(&self, len: usize, used: usize) -> Error {
        let others = match self.others() {
            Ok(others) => others,
            Err(error) => return error,
        };
        let free = self.capacity.saturating_sub(used).saturating_sub(others);
        let mut note =
            format!("{len} bytes of {} were asked for, {free} of {} are free", self.name(), self.capacity);
        if others > 0 {
            note += &format!("; other processes have {others} (FERRY_DEVICE_SHARED)");
        }
        Kind::OutOfMemory.because(note)
    }

    /// By the mapping: a descriptor may be the program's by now. Pages that the program has locked (mlockall)
    /// are unlocked first.
    fn punch(&self, offset: usize, bytes: usize) {
        let remove = || self.engine().advise(offset, bytes, libc::MADV_REMOVE);
        let _ = remove() || self.engine().unlock(offset, bytes) && remove();
    }

    /// Pages of large blocks are unlocked; small ones stay locked, since every border between the two costs
    /// one of the mappings that a process can have.
    fn unlock(&self, offset: usize, bytes: usize) {
        const DONTNEED_LOCKED: i32 = 24;
        if bytes >= UNLOCK_FROM {
            self.engine().unlock(offset, bytes);
            self.lock_pages.store(true, Ordering::Relaxed);
        }
        if !self.engine().advise(offset, bytes, libc::MADV_DONTNEED) {
            self.engine().advise(offset, bytes, DONTNEED_LOCKED);
        }
    }

    /// Makes the engine's view accessible up to `end`.
    fn open_up_to(&self, space: &mut FreeRanges, end: usize) -> Result<()> {
        if end <= space.open {
            return Ok(());
        }
        let generous = end.max(space.open * 2).next_multiple_of(OPEN_STEP).min(self.user.len() - edge());
        // Limits on memory may forbid the larger step and grant the smaller one.
        let opened = [generous, end].into_iter().find(|to| {
            let is_users = self.home == Home::Host && self.bytes.is_some();
            self.engine().open(space.open, *to) && (!is_users || self.user.open(space.open, *to))
        });
        space.open = opened.ok_or_else(|| {
            let why = io::Error::last_os_error();
            Kind::OutOfMemory.because(format!(
                "opening {end} bytes of {}: {}",
                self.name(),
                refusal::explain(&why)
            ))
        })?;
        Ok(())
    }

    fn space(&self) -> MutexGuard<'_, FreeRanges> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FreeRanges {
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

    /// Puts a freed range to rest, unless it is so large that it would wake all others.
    fn rest(&mut self, offset: usize, bytes: usize) {
        if bytes > QUARANTINE_BYTES {
            return self.give(offset, bytes);
        }
        self.resting.push_back((offset, bytes));
        self.resting_bytes += bytes;
        while self.resting.len() > QUARANTINE_RANGES || self.resting_bytes > QUARANTINE_BYTES {
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

/// How long the mappings of a region may be.
#[derive(Clone, Copy)]
pub struct MappingSize {
    least: usize,
    most: usize,
}

impl MappingSize {
    /// At most `most`, and less if the system grants less; then the region is smaller than was asked for.
    pub fn up_to(most: usize) -> MappingSize {
        MappingSize { least: MIN_MAPPING, most: most.max(MIN_MAPPING) }
    }

    /// At most `most`, but never too little for all of `capacity`, with room to align the first and the last
    /// page.
    pub fn holding(capacity: usize, most: usize) -> MappingSize {
        let least = capacity.saturating_add(3 * HUGE).max(MIN_MAPPING) / HUGE * HUGE;
        MappingSize { least, most: most.max(least) }
    }

    /// The least that is tried.
    pub fn least(self) -> usize {
        self.least
    }

    /// More addresses than bytes, so that holes between blocks do not matter: only touched pages cost memory.
    /// Halved until the system grants it.
    fn shrinking(self, capacity: usize, make: impl Fn(usize) -> Result<Region>) -> Result<Region> {
        let plenty = capacity.saturating_mul(2).saturating_add(1 << 30);
        let mut len = plenty.clamp(self.least, self.most) / HUGE * HUGE;
        loop {
            match make(len) {
                Err(_) if len > self.least => len = (len / 2 / HUGE * HUGE).max(self.least),
                other => return other,
            }
        }
    }
}

/// What stays out of use at each end.
fn edge() -> usize {
    GRANULE.max(page_size())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn request(len: usize, page: usize) -> Request {
        Request { home: Home::Device(0), len, page }
    }

    #[test]
    fn freed_addresses_rest_and_bytes_come_back() {
        let region = Region::device(0, 64 << 20, MappingSize::up_to(usize::MAX), false, false)
            .expect("a small device");
        let first = region.alloc(&request(100, 4096)).expect("room");
        assert_eq!(region.info(), Ok(((64 << 20) - 4096, 64 << 20)));
        region.free(&first);
        assert_eq!(region.info(), Ok((64 << 20, 64 << 20)));
        assert_ne!(region.alloc(&request(100, 4096)).expect("room").base, first.base, "still resting");
    }

    #[test]
    fn a_range_that_is_too_large_to_rest_wakes_no_other() {
        let region =
            Region::device(0, 1 << 30, MappingSize::up_to(usize::MAX), false, false).expect("a device");
        let [small, large] =
            [4096, QUARANTINE_BYTES + 1].map(|len| region.alloc(&request(len, 4096)).expect("room"));
        region.free(&small);
        region.free(&large);
        assert_ne!(region.alloc(&request(4096, 4096)).expect("room").base, small.base, "still resting");
    }

    #[test]
    fn large_pages_are_aligned_and_counted_whole() {
        let region = Region::device(0, 64 << 20, MappingSize::up_to(usize::MAX), false, false)
            .expect("a small device");
        let block = region.alloc(&request((2 << 20) + 1, 2 << 20)).expect("room");
        assert_eq!(block.base % (2 << 20), 0);
        assert_eq!(region.info(), Ok((60 << 20, 64 << 20)));
        let error = region.alloc(&request(61 << 20, 4096)).expect_err("too much");
        assert_eq!(error.kind, Kind::OutOfMemory);
        assert!(region.alloc(&request(usize::MAX, 4096)).is_err());
    }

    #[test]
    fn everything_is_used_again_when_space_runs_short() {
        let region =
            Region::device(0, 1 << 20, MappingSize::up_to(usize::MAX), false, false).expect("a small device");
        for round in 0..20_000 {
            let block =
                region.alloc(&request(1 << 20, 4096)).unwrap_or_else(|e| panic!("round {round}: {e}"));
            region.free(&block);
        }
    }

    #[test]
    fn a_region_holds_all_that_was_asked_for_or_is_not_made() {
        let (capacity, little) = (1 << 40, 1 << 30);
        let made =
            |span| Region::device(0, capacity, span, false, false).and_then(|region| Ok(region.info()?.1));
        assert_eq!(made(MappingSize::holding(capacity, little)), Ok(capacity));
        assert!(made(MappingSize::up_to(little)).is_ok_and(|total| total < little));
        assert!(made(MappingSize::holding(1 << 47, little)).is_err(), "no process has so many addresses");
    }

    #[test]
    fn mappings_show_by_name() {
        let region =
            Region::device(7, 1 << 20, MappingSize::up_to(usize::MAX), false, false).expect("a small device");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let line = maps
            .lines()
            .find(|line| line.starts_with(&format!("{:x}-", region.base())))
            .expect("our mapping");
        assert!(line.contains("ferry:device7") && line.contains(" ---s "), "{line}");
    }
}

#[cfg(all(test, not(loom)))]
mod import_tests;
