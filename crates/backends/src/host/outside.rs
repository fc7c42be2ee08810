//! Addresses of the user's that are not in one of our regions: memory of the user's that was page-locked, addresses that were
//! reserved, and memory of other processes.

use super::mapping::Mapping;
use ferry_core::{
    Block, DeviceId, Home, Kind, Origin, Result, Shared,
    sync::{Mutex, lock},
    table::GRANULE,
};
use std::{
    collections::{BTreeMap, HashMap},
    os::fd::AsFd,
};

/// What there is of it.
#[derive(Default)]
pub struct Outside {
    /// Where pages of the user's are locked, and how many bytes.
    locked: Mutex<Vec<(usize, usize)>>,
    reserved: Mutex<HashMap<usize, Mapping>>,
    imported: Mutex<Imports>,
}

/// Memory of other processes.
#[derive(Default)]
struct Imports {
    by_base: HashMap<usize, Imported>,
    /// All addresses of it, the engine's too: where each mapping begins and ends.
    ends: BTreeMap<usize, usize>,
}

/// The user's addresses of imported memory, and the engine's view of it where that is another one.
struct Imported {
    user: Mapping,
    bytes: Option<Mapping>,
    /// The file, where the CPU may touch device memory: it is laid at reserved addresses too. Elsewhere nobody needs it.
    shared: Option<Shared>,
}

impl Imported {
    fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        [Some(&self.user), self.bytes.as_ref()].into_iter().flatten()
    }
}

impl Imports {
    fn add(&mut self, imported: Imported) {
        self.ends.extend(imported.mappings().map(|mapping| (mapping.addr(), mapping.addr() + mapping.len())));
        self.by_base.insert(imported.user.addr(), imported);
    }

    /// Unmaps it, too: the addresses may be somebody else's then, so they go first.
    fn remove(&mut self, base: usize) {
        let Some(imported) = self.by_base.remove(&base) else { return };
        for mapping in imported.mappings() {
            self.ends.remove(&mapping.addr());
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
        let mapping = Mapping::bare_near("ferry:reserved", whole, wish)
            .map_err(|error| Kind::OutOfMemory.because(error.note.clone()))?;
        let base = mapping.addr().next_multiple_of(align.max(GRANULE));
        lock(&self.reserved).insert(base, mapping);
        Ok(base)
    }

    /// Gives reserved addresses back to the system.
    pub fn release(&self, base: usize) {
        lock(&self.reserved).remove(&base);
    }

    /// Lets the CPU see a part of a file at reserved addresses.
    pub fn show(&self, base: usize, shared: &Shared) -> Result<()> {
        let reserved = lock(&self.reserved);
        let inside = reserved.values().find(|mapping| mapping.contains(base, shared.len));
        let mapping = inside.ok_or_else(|| Kind::BadAddress.because(format!("{base:#x} is not reserved")))?;
        mapping.lay(base, shared.file.as_fd(), shared.offset, shared.len)
    }

    /// Undoes `show`.
    pub fn hide(&self, base: usize, len: usize) {
        let reserved = lock(&self.reserved);
        if let Some(mapping) = reserved.values().find(|mapping| mapping.contains(base, len)) {
            mapping.bare_again(base, len);
        }
    }

    /// Maps memory of another process: for the engine, and, where the CPU may touch device memory, for the user too.
    pub fn import(
        &self,
        shared: &Shared,
        device: DeviceId,
        origin: Origin,
        is_unified: bool,
    ) -> Result<Block> {
        let whole = shared.len.checked_next_multiple_of(GRANULE).ok_or_else(|| {
            Kind::OutOfBounds.because(format!("{} bytes are more than there are addresses", shared.len))
        })?;
        let name = format!("ferry:device{device}-imported");
        let bytes = Mapping::of_file(&name, shared.file.as_fd(), shared.offset, whole)?;
        let at = bytes.addr();
        let (user, bytes) = match is_unified {
            true => (bytes, None),
            false => (Mapping::bare(&name, whole)?, Some(bytes)),
        };
        let (base, len) = (user.addr(), shared.len);
        let shared = is_unified.then(|| clone(shared)).transpose()?;
        lock(&self.imported).add(Imported { user, bytes, shared });
        Ok(Block { base, len, home: Home::Device(device), at, page: GRANULE, origin })
    }

    /// Whether any of the range lies in addresses of imported memory, or in the engine's view of it, which is nobody else's.
    pub fn meets_imported(&self, addr: usize, len: usize) -> bool {
        let imported = lock(&self.imported);
        let past = addr.saturating_add(len.max(1));
        imported.ends.range(..past).next_back().is_some_and(|(_, end)| *end > addr)
    }

    /// The file behind imported memory, where it was kept.
    pub fn share(&self, block: &Block) -> Result<Shared> {
        let imported = lock(&self.imported);
        let found = imported.by_base.get(&block.base).and_then(|imported| imported.shared.as_ref());
        clone(found.ok_or_else(|| Kind::BadAddress.because(format!("there is no file of {block}")))?)
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

    /// Undoes `register` or `import`, when nothing uses the memory any more.
    pub fn free(&self, block: &Block) {
        match block.origin {
            Origin::Registered => self.unlock(block.base, block.len),
            _ => lock(&self.imported).remove(block.base),
        }
    }
}

fn clone(shared: &Shared) -> Result<Shared> {
    let file = shared.file.try_clone();
    let file = file.map_err(|why| Kind::Device.because(format!("keeping a file of shared memory: {why}")))?;
    Ok(Shared { file, offset: shared.offset, len: shared.len })
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
    fn imported_bytes_are_the_exporters() {
        let region = Region::device(0, 1 << 20, Span::up_to(usize::MAX), false).expect("a small device");
        let block = region.alloc(&Request { home: Home::Device(0), len: 5000, page: 4096 }).expect("room");
        let shared = region.share(&block).expect("a file");
        let outside = Outside::default();
        let there = outside.import(&shared, 1, Origin::Imported, false).expect("mapped");
        // SAFETY: both are engine's addresses of live memory.
        unsafe {
            std::ptr::write_bytes(block.at as *mut u8, 7, 5000);
            assert_eq!(*((there.at + 4999) as *const u8), 7);
        }
        assert_ne!(there.base, there.at);
        assert!(outside.share(&there).is_err(), "nobody needs the file");
        let again = outside.import(&shared, 0, Origin::Imported, true).expect("mapped for the CPU");
        assert!(outside.share(&again).is_ok(), "to be laid elsewhere");
        // SAFETY: as above; where memory is one, the user's address is the engine's.
        assert_eq!((again.base, unsafe { *((again.base + 4999) as *const u8) }), (again.at, 7));
        for len in [0, 1 << 50, usize::MAX] {
            let bad = Shared { len, ..region.share(&block).expect("a file") };
            assert!(outside.import(&bad, 1, Origin::Imported, false).is_err(), "{len} bytes");
        }
        for block in [there, again] {
            outside.free(&block);
            assert!(outside.share(&block).is_err(), "given back");
        }
    }

    #[test]
    fn all_addresses_of_imported_memory_are_told_from_others() {
        let region = Region::device(0, 1 << 20, Span::up_to(usize::MAX), false).expect("a small device");
        let block = region.alloc(&Request { home: Home::Device(0), len: 8192, page: 4096 }).expect("room");
        let outside = Outside::default();
        let shared = region.share(&block).expect("a file");
        let there = outside.import(&shared, 0, Origin::Imported, false).expect("mapped");
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
