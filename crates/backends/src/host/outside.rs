//! Addresses of the user's that are not in one of our regions: memory of the user's that was page-locked, addresses that were
//! reserved, and memory of other processes.

use super::{
    half_of_this_machine,
    mapping::{Mapping, identity},
};
use crate::ranges::Ranges;
use ferry_core::{
    Block, DeviceId, Home, Kind, Origin, Result, Shared,
    sync::{Arc, Mutex, Weak, lock},
    table::GRANULE,
};
use std::{
    collections::{HashMap, VecDeque},
    os::fd::BorrowedFd,
};

/// Addresses that were given up rest before anybody gets them again, as far as they are not many.
const RESTING_RANGES: usize = 64;
const RESTING_BYTES: usize = 1 << 30;

/// What there is of it.
#[derive(Default)]
pub struct Outside {
    /// Where pages of the user's are locked, and how many bytes.
    locked: Mutex<Vec<(usize, usize)>>,
    reserved: Mutex<HashMap<usize, Mapping>>,
    resting: Mutex<Resting>,
    imported: Mutex<Imports>,
    /// Host memory that is made to be mapped, by the engine's address.
    pages: Mutex<HashMap<usize, Mapping>>,
}

/// Addresses that were reserved and given up, the oldest first: without access rights, so that a stale pointer is met by an error and not
/// by whatever the system puts there next.
#[derive(Default)]
struct Resting {
    mappings: VecDeque<Mapping>,
    bytes: usize,
}

impl Resting {
    fn add(&mut self, mapping: Mapping) {
        if mapping.len() > RESTING_BYTES {
            return;
        }
        self.bytes += mapping.len();
        self.mappings.push_back(mapping);
        while self.mappings.len() > RESTING_RANGES || self.bytes > RESTING_BYTES {
            self.bytes -= self.mappings.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Somebody wants this very address.
    fn wake(&mut self, addr: usize) {
        self.mappings.retain(|mapping| !mapping.contains(addr, 1));
        self.bytes = self.mappings.iter().map(Mapping::len).sum();
    }
}

/// Memory of other processes. Where the same bytes are imported again the engine finds them at the same addresses, so that a copy
/// whose ends overlap is seen to.
#[derive(Default)]
struct Imports {
    by_base: HashMap<usize, Imported>,
    views: HashMap<Spot, Weak<Mapping>>,
    /// All addresses of it, the engine's too.
    ranges: Ranges,
}

/// Where bytes lie: the file, and the offset in it.
type Spot = ((u64, u64), u64);

struct Imported {
    /// The user's addresses.
    user: Arc<Mapping>,
    /// The engine's, unless the memory is this process's own.
    view: Option<(Spot, Arc<Mapping>)>,
}

impl Imported {
    fn mappings(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        let view = self.view.as_ref().map(|(_, view)| view).filter(|view| !Arc::ptr_eq(view, &self.user));
        [Some(&self.user), view].into_iter().flatten()
    }
}

impl Imports {
    /// The engine's view of some bytes: one that is there, if it is long enough.
    fn view(&mut self, name: &str, shared: &Shared, len: usize) -> Result<(Spot, Arc<Mapping>)> {
        let file = identity(open(shared)?);
        let spot = (file.ok_or_else(|| Kind::BadAddress.because("there is no such file"))?, shared.offset);
        if let Some(view) = self.views.get(&spot).and_then(Weak::upgrade).filter(|view| len <= view.len()) {
            return Ok((spot, view));
        }
        let view = Arc::new(Mapping::of_file(name, open(shared)?, shared.offset, len)?);
        self.views.insert(spot, Arc::downgrade(&view));
        Ok((spot, view))
    }

    fn add(&mut self, imported: Imported) {
        imported.mappings().for_each(|mapping| self.ranges.add(mapping.addr(), mapping.len()));
        self.by_base.insert(imported.user.addr(), imported);
    }

    /// Unmaps what nobody else uses, too: the addresses may be somebody else's then, so they go first.
    fn remove(&mut self, base: usize) {
        let Some(imported) = self.by_base.remove(&base) else { return };
        imported.mappings().for_each(|mapping| self.ranges.remove(mapping.addr()));
        let spot = imported.view.as_ref().map(|(spot, _)| *spot);
        drop(imported);
        if let Some(spot) = spot
            && self.views.get(&spot).is_some_and(|view| view.strong_count() == 0)
        {
            self.views.remove(&spot);
        }
    }
}

impl Outside {
    /// Locks the pages of memory of the user's; best effort, as with our own.
    pub fn register(&self, base: usize, len: usize) -> Block {
        if Mapping::lock_pages(base, len) {
            lock(&self.locked).push((base, len));
        }
        Block { base, len, home: Home::Host, at: base, page: GRANULE, origin: Origin::Registered }
    }

    /// Sets addresses aside.
    pub fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize> {
        // Room to align, and a page at the end that nothing is ever mapped to: blocks that touch are of one reservation.
        let slack = align.max(GRANULE).checked_add(GRANULE);
        let whole = slack.and_then(|slack| len.checked_next_multiple_of(GRANULE)?.checked_add(slack));
        let whole = whole.ok_or_else(|| {
            Kind::OutOfMemory.because(format!("{len} bytes are more than there are addresses"))
        })?;
        // A wish for high addresses would be met on machines that have them, and the address table has none.
        let wish = if wish >> 47 == 0 { wish } else { 0 };
        lock(&self.resting).wake(wish);
        let reserve = || Mapping::bare_near("ferry:reserved", whole, wish);
        let mapping = reserve().or_else(|_| {
            // There may be a limit on addresses.
            *lock(&self.resting) = Resting::default();
            reserve()
        });
        let mapping = mapping.map_err(|error| Kind::OutOfMemory.because(error.note.clone()))?;
        let base = mapping.addr().next_multiple_of(align.max(GRANULE));
        lock(&self.reserved).insert(base, mapping);
        Ok(base)
    }

    /// Gives reserved addresses back to the system, after a rest.
    pub fn release(&self, base: usize) {
        let released = lock(&self.reserved).remove(&base);
        if let Some(mapping) = released {
            lock(&self.resting).add(mapping);
        }
    }

    /// Lets the CPU see a block at reserved addresses too.
    pub fn show(&self, base: usize, block: &Block) -> Result<()> {
        let reserved = lock(&self.reserved);
        let inside = reserved.values().find(|mapping| mapping.contains(base, block.len));
        let mapping = inside.ok_or_else(|| Kind::BadAddress.because(format!("{base:#x} is not reserved")))?;
        mapping.lay(base, block.at, block.len)
    }

    /// Undoes `show`.
    pub fn hide(&self, base: usize, len: usize) {
        let reserved = lock(&self.reserved);
        if let Some(mapping) = reserved.values().find(|mapping| mapping.contains(base, len)) {
            mapping.bare_again(base, len);
        }
    }

    /// Host memory to be mapped, page-locked as far as this process may.
    pub fn host_pages(&self, len: usize, page: usize, node: Option<u32>) -> Result<Block> {
        let mapping = new_pages(len, node)?;
        mapping.lock_on_fault(0, len);
        let base = self.keep_pages(mapping);
        Ok(Block { base, len, home: Home::Host, at: base, page, origin: Origin::Registered })
    }

    /// Keeps what `new_pages` made until it is taken by its address, which is returned.
    pub fn keep_pages(&self, mapping: Mapping) -> usize {
        let base = mapping.addr();
        lock(&self.pages).insert(base, mapping);
        base
    }

    /// Host memory to be mapped that nothing uses any more; dropping it gives it back to the system.
    pub fn take_pages(&self, base: usize) -> Option<Mapping> {
        lock(&self.pages).remove(&base)
    }

    /// Maps memory of another process: for the engine, and, where the CPU may touch device memory, for the user too. `own` is the
    /// engine's address of memory that this process lent itself.
    pub fn import(
        &self,
        shared: &Shared,
        device: DeviceId,
        origin: Origin,
        is_unified: bool,
        own: Option<usize>,
    ) -> Result<Block> {
        let whole = shared.len.checked_next_multiple_of(GRANULE).ok_or_else(|| {
            Kind::OutOfBounds.because(format!("{} bytes are more than there are addresses", shared.len))
        })?;
        let name = format!("ferry:device{device}-imported");
        let mut imported = lock(&self.imported);
        let view = own.is_none().then(|| imported.view(&name, shared, whole)).transpose()?;
        let user = match (is_unified, &view) {
            (false, _) => Arc::new(Mapping::bare(&name, whole)?),
            (true, Some((_, view))) if Arc::strong_count(view) == 1 => view.clone(),
            (true, _) => Arc::new(Mapping::of_file(&name, open(shared)?, shared.offset, whole)?),
        };
        let (base, len) = (user.addr(), shared.len);
        let at = own.or(view.as_ref().map(|(_, view)| view.addr())).unwrap_or(base);
        imported.add(Imported { user, view });
        Ok(Block { base, len, home: Home::Device(device), at, page: GRANULE, origin })
    }

    /// Whether any of the range lies in addresses of imported memory, or in the engine's view of it, which is nobody else's.
    pub fn meets_imported(&self, addr: usize, len: usize) -> bool {
        lock(&self.imported).ranges.meets(addr, len)
    }

    /// Unlocks pages, but for those that were registered anew since: the system does not count how often a page is locked.
    fn unlock(&self, base: usize, len: usize) {
        let mut locked = lock(&self.locked);
        let Some(index) = locked.iter().position(|entry| *entry == (base, len)) else { return };
        locked.swap_remove(index);
        Mapping::unlock_pages(base, len);
        for (start, count) in
            locked.iter().filter(|(start, count)| *start < base + len && base < start + count)
        {
            Mapping::lock_pages(*start, *count);
        }
    }

    /// Undoes `register`, `host_pages` or `import`, when nothing uses the memory any more.
    pub fn free(&self, block: &Block) {
        match block.origin {
            Origin::Registered if self.take_pages(block.base).is_some() => {}
            Origin::Registered => self.unlock(block.base, block.len),
            _ => lock(&self.imported).remove(block.base),
        }
    }
}

/// Host memory to be mapped, neither locked nor known to anybody.
pub fn new_pages(len: usize, node: Option<u32>) -> Result<Mapping> {
    let most = 2 * half_of_this_machine();
    if len > most {
        let note =
            format!("{len} bytes of host memory were asked for, this machine lets a process have {most}");
        return Err(Kind::OutOfMemory.because(note));
    }
    let made = Mapping::pages("ferry:host-pages", len);
    let mapping = made.map_err(|error| Kind::OutOfMemory.because(error.note.clone()))?;
    if let Some(node) = node {
        mapping.prefer_node(node);
    }
    Ok(mapping)
}

/// The descriptor of memory that is shared.
fn open(shared: &Shared) -> Result<BorrowedFd<'_>> {
    shared.file.get().map_err(|why| Kind::Device.because(format!("importing memory: {why}")))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::host::region::{Region, Span};
    use ferry_core::Request;

    #[test]
    fn reserved_addresses_are_aligned_and_have_a_gap_behind_them() {
        let outside = Outside::default();
        for _ in 0..8 {
            let base = outside.reserve(4 << 20, 2 << 20, 0).expect("addresses");
            assert_eq!(base % (2 << 20), 0);
            let mapping = &lock(&outside.reserved)[&base];
            assert!(mapping.contains(base, (4 << 20) + GRANULE), "the gap is ours");
        }
        assert!(outside.reserve(usize::MAX, 4096, 0).is_err());
        assert!(outside.reserve(1 << 50, 4096, 0).is_err());
    }

    #[test]
    fn addresses_that_were_given_up_rest_unless_somebody_wishes_for_them() {
        let outside = Outside::default();
        let base = outside.reserve(1 << 20, 4096, 0).expect("addresses");
        outside.release(base);
        let others: Vec<_> = (0..8).map(|_| outside.reserve(1 << 20, 4096, 0).expect("addresses")).collect();
        assert!(!others.contains(&base), "{base:#x} rests: {others:x?}");
        assert_eq!(outside.reserve(1 << 20, 4096, base), Ok(base), "who wishes for it gets it");
        for turn in 0..2 * RESTING_RANGES {
            let len = if turn % 9 == 0 { 2 << 30 } else { 100 << 20 };
            outside.release(outside.reserve(len, 4096, 0).expect("addresses"));
            let resting = lock(&outside.resting);
            assert!(resting.mappings.len() <= RESTING_RANGES && resting.bytes <= RESTING_BYTES);
            assert_eq!(resting.bytes, resting.mappings.iter().map(Mapping::len).sum());
        }
        assert_eq!(lock(&outside.resting).mappings.len(), 10, "as many as may");
    }

    #[test]
    fn imported_bytes_are_the_exporters() {
        let region = Region::device(0, 1 << 20, Span::up_to(usize::MAX), false).expect("a small device");
        let block = region.alloc(&Request { home: Home::Device(0), len: 5000, page: 4096 }).expect("room");
        let shared = region.share(&block).expect("a file");
        let outside = Outside::default();
        let there = outside.import(&shared, 1, Origin::Imported, false, None).expect("mapped");
        // SAFETY: both are engine's addresses of live memory.
        unsafe {
            std::ptr::write_bytes(block.at as *mut u8, 7, 5000);
            assert_eq!(*((there.at + 4999) as *const u8), 7);
        }
        assert_ne!(there.base, there.at);
        for len in [0, 1 << 50, usize::MAX] {
            let bad = Shared { len, ..region.share(&block).expect("a file") };
            assert!(outside.import(&bad, 1, Origin::Imported, false, None).is_err(), "{len} bytes");
        }
        outside.free(&there);

        let there = outside.import(&shared, 0, Origin::Imported, true, None).expect("mapped for the CPU");
        // SAFETY: as above; where memory is one, the user's address is the engine's.
        assert_eq!((there.base, unsafe { *((there.base + 4999) as *const u8) }), (there.at, 7));
        outside.free(&there);
        assert!(!outside.meets_imported(there.base, 1), "given back");
    }

    #[test]
    fn bytes_have_one_engine_address_however_often_they_are_imported() {
        let region = Region::device(0, 1 << 20, Span::up_to(usize::MAX), false).expect("a small device");
        let block = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
        let shared = region.share(&block).expect("a file");
        let other = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
        for is_unified in [false, true] {
            let outside = Outside::default();
            let import = |shared: &Shared, own| {
                outside.import(shared, 0, Origin::Imported, is_unified, own).expect("mapped")
            };
            let (first, second) = (import(&shared, None), import(&shared, None));
            assert!(first.at == second.at && first.base != second.base, "unified: {is_unified}");
            assert_ne!(import(&region.share(&other).expect("a file"), None).at, first.at);
            let own = import(&shared, region.holding(&shared));
            assert!(own.at == block.at && own.base != block.base, "unified: {is_unified}");
            outside.free(&first);
            assert!(outside.meets_imported(second.at, 1), "the second still has it");
            // SAFETY: one memory under three addresses of the engine's and the user's, two of them mapped.
            unsafe {
                ((second.at + 100) as *mut u8).write(9);
                assert_eq!(((own.at + 100) as *const u8).read(), 9);
            }
            outside.free(&second);
            assert!(!outside.meets_imported(second.at, 1) && !outside.meets_imported(second.base, 1));
            let anew = import(&shared, None);
            // SAFETY: just mapped.
            assert_eq!(unsafe { ((anew.at + 100) as *const u8).read() }, 9);
        }
        let beyond = Shared { len: 1 << 40, ..shared };
        assert_eq!(region.holding(&beyond), None, "more than is open");
    }

    #[test]
    fn all_addresses_of_imported_memory_are_told_from_others() {
        let region = Region::device(0, 1 << 20, Span::up_to(usize::MAX), false).expect("a small device");
        let block = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
        let outside = Outside::default();
        let shared = region.share(&block).expect("a file");
        let there = outside.import(&shared, 0, Origin::Imported, false, None).expect("mapped");
        for base in [there.base, there.at] {
            for (addr, len) in [(base, 0), (base + 8191, 1), (base - 4096, 4097), (base - 1, usize::MAX)] {
                assert!(outside.meets_imported(addr, len), "{len} bytes at {addr:#x}");
            }
        }
        let (first, last) = (there.base.min(there.at), there.base.max(there.at) + 8192);
        for (addr, len) in [(first - 1, 1), (first - 4096, 4096), (last, 1), (0, 0)] {
            assert!(!outside.meets_imported(addr, len), "{len} bytes at {addr:#x}");
        }
        outside.free(&there);
        assert!(!outside.meets_imported(there.base, 1) && !outside.meets_imported(there.at, 1));
    }
}
