//! Addresses of the user's that are not in one of our regions: memory of the user's that was page-locked, addresses that were
//! reserved, and memory of other processes.

use super::mapping::Mapping;
use ferry_core::{
    Block, DeviceId, Home, Kind, Origin, Result, Shared,
    sync::{Mutex, lock},
    table::GRANULE,
};
use std::{collections::HashMap, os::fd::AsFd};

/// What there is of it.
#[derive(Default)]
pub struct Outside {
    /// Where pages of the user's are locked, and how many bytes.
    locked: Mutex<Vec<(usize, usize)>>,
    reserved: Mutex<HashMap<usize, Mapping>>,
    imported: Mutex<HashMap<usize, Imported>>,
}

/// The user's addresses of imported memory, and the engine's view of it where that is another one.
struct Imported {
    _user: Mapping,
    _bytes: Option<Mapping>,
    shared: Shared,
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
        let base = user.addr();
        let shared = clone(shared)?;
        let len = shared.len;
        lock(&self.imported).insert(base, Imported { _user: user, _bytes: bytes, shared });
        Ok(Block { base, len, home: Home::Device(device), at, page: GRANULE, origin })
    }

    /// The file behind imported memory.
    pub fn share(&self, block: &Block) -> Result<Shared> {
        let imported = lock(&self.imported);
        let found = imported.get(&block.base);
        let found = found.ok_or_else(|| Kind::BadAddress.because(format!("{block} is not shared memory")))?;
        clone(&found.shared)
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
            _ => drop(lock(&self.imported).remove(&block.base)),
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
    use crate::host::region::Region;
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
        let region = Region::device(0, 1 << 20, usize::MAX, false).expect("a small device");
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
        let again = outside.import(&outside.share(&there).expect("a file"), 0, Origin::Imported, true);
        let again = again.expect("imported memory can be lent on");
        // SAFETY: as above; where memory is one, the user's address is the engine's.
        assert_eq!((again.base, unsafe { *((again.base + 4999) as *const u8) }), (again.at, 7));
        for len in [0, 1 << 50, usize::MAX] {
            let bad = Shared { len, ..region.share(&block).expect("a file") };
            assert!(outside.import(&bad, 1, Origin::Imported, false).is_err(), "{len} bytes");
        }
        outside.free(&there);
        assert!(outside.share(&there).is_err(), "given back");
    }
}
