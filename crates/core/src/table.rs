//! The address table: from any address to the allocation around it, without a lock.
//!
//! A radix tree over granules of 4 KiB, three levels of 12 bits for 48-bit addresses. Its leaves hold slot
//! numbers; a slot holds a block and is read like a sequence lock, so that a reader never waits and never
//! sees half a block. A block of one granule is told by its leaf as well: among very many small blocks that
//! saves a load that no cache has. Nodes are made when first needed and stay. A region of 16 MiB that belongs
//! to one block is marked whole, so that large allocations cost little. Writers take turns under a mutex.

mod slot;
mod small;

use crate::{Block, Kind, Result};
use slot::BlockSlot;
pub(crate) use slot::Lookup;
use small::Classes;
use std::{
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// The smallest piece of address space the table tells apart. Every block starts at a multiple of it.
pub const GRANULE: usize = 1 << GRANULE_BITS;
const GRANULE_BITS: u32 = 12;
const FAN_BITS: u32 = 12;
const FAN: usize = 1 << FAN_BITS;
const REGION_BITS: u32 = GRANULE_BITS + FAN_BITS;
const ADDRESS_BITS: u32 = REGION_BITS + 2 * FAN_BITS;

/// Tells a block from every other one that was in the table before, at the same address too: the number of
/// its slot, and how often that was written.
pub(crate) type BlockGeneration = u64;

/// Blocks and their generations, in the order of the engine's addresses.
pub(crate) type EngineIndex = Vec<(Block, BlockGeneration)>;

/// One level of a tree: as many children as bits choose among.
type Fan<T> = Box<[T; FAN]>;

/// Allocations by address. Lookups are lock-free; see the text of the module.
pub struct AddressTable {
    root: Fan<OnceLock<Fan<TableRegion>>>,
    slots: Fan<OnceLock<Fan<BlockSlot>>>,
    classes: Classes,
    removals: AtomicU64,
    writer: Mutex<Writer>,
    /// All blocks in the order of the engine's addresses, as they were after so many changes.
    by_engine_address: Mutex<(u64, Arc<EngineIndex>)>,
}

/// 16 MiB of address space. Slot numbers are stored plus one: 0 means none. In a leaf, the upper half of a
/// cell describes a block of one granule (`small.rs`).
#[derive(Default)]
struct TableRegion {
    whole: AtomicU32,
    leaf: OnceLock<Fan<AtomicU64>>,
}

#[derive(Default)]
struct Writer {
    spare: Vec<u32>,
    made: u32,
    /// How often a block has come or gone.
    changes: u64,
}

impl Default for AddressTable {
    fn default() -> Self {
        Self::new()
    }
}

impl AddressTable {
    /// An empty table.
    pub fn new() -> Self {
        AddressTable {
            root: fan(),
            slots: fan(),
            classes: Classes::default(),
            removals: AtomicU64::new(0),
            writer: Mutex::new(Writer::default()),
            by_engine_address: Mutex::default(),
        }
    }

    /// A table of these blocks, for tests and tools.
    pub fn of(blocks: impl IntoIterator<Item = Block>) -> Self {
        let table = Self::new();
        blocks.into_iter().for_each(|block| table.insert(block).expect("few blocks"));
        table
    }

    /// Goes up whenever a block leaves the table: a plan made before must be made again.
    #[inline]
    pub fn removals(&self) -> u64 {
        self.removals.load(Ordering::SeqCst)
    }

    /// The block whose granules hold `addr`. The address may lie in the rest of the last granule, past the
    /// block's end.
    #[inline]
    pub fn find(&self, addr: usize) -> Option<Block> {
        loop {
            let number = self.entry(addr)? as usize;
            let found = self.slots[number >> FAN_BITS].get()?[number & (FAN - 1)].read();
            if found.is_some_and(|block| addr.wrapping_sub(block.base) < granules(block.len) << GRANULE_BITS)
            {
                return found;
            }
            // The slot was freed, and perhaps reused, between reading the cell and the slot. If the cell
            // still names it the writer is about to change that: retry.
            std::hint::spin_loop();
        }
    }

    /// The block that all of a range lies in, if one attempt without retries finds it: the common case, and
    /// cheap.
    #[inline(always)]
    pub(crate) fn containing(&self, addr: usize, len: usize) -> Option<Block> {
        self.look_up(addr, len).map(Block::from)
    }

    /// What a copy needs to know of the block that all of a range lies in, if one attempt without retries
    /// finds it.
    #[inline(always)]
    pub(crate) fn look_up(&self, addr: usize, len: usize) -> Option<Lookup> {
        let cell = self.cell(addr)?;
        let part = match self.classes.small(cell, addr) {
            Some(part) => part,
            None => {
                let number = number(cell)? as usize;
                self.slots[number >> FAN_BITS].get()?[number & (FAN - 1)].glance_packed()?
            }
        };
        // Fails if the slot was reused for another block between reading the cell and the slot.
        part.contains(addr, len).then_some(part)
    }

    /// Whether no block has a granule in the range.
    pub(crate) fn is_clear(&self, range: &Range<usize>) -> bool {
        self.first_in(range.start, range.len()).is_none()
    }

    /// Whether no block has the granule of `addr`.
    #[inline(always)]
    pub(crate) fn is_unknown(&self, addr: usize) -> bool {
        self.entry(addr).is_none()
    }

    /// Adds a block. `BadAddress` if one of its granules belongs to another block.
    pub fn insert(&self, block: Block) -> Result<()> {
        debug_assert!(
            block.base.is_multiple_of(GRANULE) && block.len > 0 && block.page.is_power_of_two(),
            "backends align blocks to granules, and pages are powers of two"
        );
        if block.base.checked_add(block.len).is_none_or(|end| end as u64 >> ADDRESS_BITS != 0) {
            return Err(Kind::BadAddress
                .because(format!("{} bytes at {:#x} lie above all user addresses", block.len, block.base)));
        }
        let mut writer = self.writer();
        if let Some(other) = self.first_in(block.base, block.len) {
            return Err(Kind::BadAddress
                .because(format!("{} bytes at {:#x} reach into {other}", block.len, block.base)));
        }
        let number = match writer.spare.pop() {
            Some(number) => number,
            None if (writer.made as usize) < FAN * FAN => {
                writer.made += 1;
                writer.made - 1
            }
            None => {
                return Err(Kind::OutOfMemory
                    .because(format!("there are {} allocations, the most there can be", FAN * FAN)));
            }
        };
        writer.changes += 1;
        self.slot(number).write(&block);
        let small = if block.len <= GRANULE { self.classes.tell(&block) } else { 0 };
        self.spread(&block, u64::from(number + 1) | small);
        Ok(())
    }

    /// Removes the block that starts at `base`, if `fits` agrees. `BadAddress` if no block starts there.
    pub fn remove(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        let mut writer = self.writer();
        let number = self.entry(base).ok_or_else(|| unknown(base))?;
        let block = self.slot(number).read().ok_or_else(|| unknown(base))?;
        if block.base != base {
            return Err(Kind::BadAddress.because(format!("{base:#x} is inside, not the start of, {block}")));
        }
        fits(&block)?;
        self.spread(&block, 0);
        self.slot(number).clear();
        self.removals.fetch_add(1, Ordering::SeqCst);
        writer.spare.push(number);
        writer.changes += 1;
        Ok(block)
    }

    /// All blocks, with their generations, in the order of the engine's addresses. Made anew only when a
    /// block has come or gone.
    pub(crate) fn by_engine_address(&self) -> Arc<EngineIndex> {
        let mut index = self.by_engine_address.lock().unwrap_or_else(PoisonError::into_inner);
        let writer = self.writer();
        if index.0 != writer.changes {
            let mut blocks: EngineIndex =
                (0..writer.made).filter_map(|number| self.instance(number)).collect();
            blocks.sort_unstable_by_key(|(block, generation)| (block.at, *generation));
            *index = (writer.changes, Arc::new(blocks));
        }
        index.1.clone()
    }

    /// The generation of the block that starts at `base`, if there is one.
    pub(crate) fn generation(&self, base: usize) -> Option<BlockGeneration> {
        let (block, generation) = self.instance(self.entry(base)?)?;
        (block.base == base).then_some(generation)
    }

    fn instance(&self, number: u32) -> Option<(Block, BlockGeneration)> {
        let shelf = self.slots[number as usize >> FAN_BITS].get()?;
        let (block, turn) = shelf[number as usize & (FAN - 1)].read_instance()?;
        Some((block, u64::from(number) << 32 | u64::from(turn)))
    }

    /// The first block with a granule in the range.
    fn first_in(&self, base: usize, len: usize) -> Option<Block> {
        let end = base + (granules(len) << GRANULE_BITS);
        let mut addr = base;
        while addr < end {
            let (top, index, leaf) = split(addr)?;
            let stop = end.min(((addr >> REGION_BITS) + 1) << REGION_BITS);
            if let Some(region) = self.root[top].get().map(|regions| &regions[index]) {
                let whole = region.whole.load(Ordering::Relaxed);
                let cells = region
                    .leaf
                    .get()
                    .map_or(&[][..], |leaves| &leaves[leaf..leaf + ((stop - addr) >> GRANULE_BITS)]);
                let single = || cells.iter().map(|cell| cell.load(Ordering::Relaxed)).find(|cell| *cell > 0);
                let cell = Some(u64::from(whole)).filter(|cell| *cell > 0).or_else(single);
                if let Some(number) = cell.and_then(number) {
                    return self.slot(number).read();
                }
            }
            addr = stop;
        }
        None
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the tree has for `addr`.
    #[inline(always)]
    fn cell(&self, addr: usize) -> Option<u64> {
        let (top, region, leaf) = split(addr)?;
        let region = &self.root[top].get()?[region];
        Some(match region.whole.load(Ordering::Acquire) {
            0 => region.leaf.get()?[leaf].load(Ordering::Acquire),
            whole => u64::from(whole),
        })
    }

    /// The slot number that the tree has for `addr`.
    #[inline(always)]
    fn entry(&self, addr: usize) -> Option<u32> {
        number(self.cell(addr)?)
    }

    /// Writes `entry` over all granules of `block`.
    fn spread(&self, block: &Block, entry: u64) {
        let end = block.base + (granules(block.len) << GRANULE_BITS);
        let mut addr = block.base;
        while addr < end {
            let (top, index, leaf) = split(addr).expect("backends allocate below 2^48");
            let region = &self.root[top].get_or_init(fan)[index];
            let stop = end.min(((addr >> REGION_BITS) + 1) << REGION_BITS);
            if stop - addr == 1 << REGION_BITS {
                region.whole.store(entry as u32, Ordering::Release);
            } else {
                let entries = region.leaf.get_or_init(fan);
                for cell in &entries[leaf..leaf + ((stop - addr) >> GRANULE_BITS)] {
                    cell.store(entry, Ordering::Release);
                }
            }
            addr = stop;
        }
    }

    /// The slot of this number, made if it was never used. For writers.
    fn slot(&self, number: u32) -> &BlockSlot {
        let (shelf, index) = (number as usize >> FAN_BITS, number as usize & (FAN - 1));
        &self.slots[shelf].get_or_init(fan)[index]
    }
}

/// The slot number in a cell.
#[inline(always)]
fn number(cell: u64) -> Option<u32> {
    (cell as u32).checked_sub(1)
}

fn unknown(base: usize) -> crate::Error {
    Kind::BadAddress.because(format!("no allocation starts at {base:#x}"))
}

fn fan<T: Default>() -> Fan<T> {
    let all: Box<[T]> = (0..FAN).map(|_| T::default()).collect();
    all.try_into().unwrap_or_else(|_| unreachable!("made of FAN elements"))
}

fn granules(len: usize) -> usize {
    len.div_ceil(GRANULE)
}

#[inline(always)]
fn split(addr: usize) -> Option<(usize, usize, usize)> {
    let part = |shift: u32| addr >> shift & (FAN - 1);
    (addr as u64 >> ADDRESS_BITS == 0)
        .then(|| (part(REGION_BITS + FAN_BITS), part(REGION_BITS), part(GRANULE_BITS)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Home, Origin};
    use std::sync::atomic::AtomicBool;

    fn block(base: usize, len: usize) -> Block {
        Block {
            base,
            len,
            home: Home::Device(1),
            at: base + 0x7000_0000_0000,
            page: 4096,
            origin: Origin::Mapped,
        }
    }

    #[test]
    fn addresses_find_their_block_and_neighbours_do_not() {
        let far = 0x7f12_3400_0000;
        let blocks =
            [block(0x1000, 1), block(0x2000, 4096), block(far, (1 << 25) + 5), block(far + (1 << 26), 64)];
        let table = AddressTable::of(blocks);
        for block in blocks {
            for offset in [0, block.len / 2, block.len - 1] {
                assert_eq!(table.find(block.base + offset), Some(block), "{block} + {offset}");
            }
            assert_ne!(table.find(block.base.wrapping_sub(1)), Some(block));
            assert_ne!(table.find(block.base + granules(block.len) * GRANULE), Some(block));
        }
        assert_eq!(table.find(usize::MAX), None);
        assert_eq!(table.find(1 << 48), None);
    }

    #[test]
    fn a_block_is_found_as_it_was_added_whatever_its_home_origin_and_pages() {
        use Origin::*;
        for home in [Home::Host, Home::Device(0), Home::Device(63)] {
            for origin in [Allocated, Registered, Mapped, Imported, ImportedFar] {
                for page in [4 << 10, 64 << 10, 2 << 20, 1 << 30] {
                    let block = Block { home, origin, page, ..block(0x1000, 100) };
                    let table = AddressTable::of([block]);
                    assert_eq!(table.find(0x1000), Some(block));
                    assert_eq!(table.containing(0x1000, 100), Some(block));
                }
            }
        }
    }

    #[test]
    fn small_blocks_are_found_whatever_they_have_in_common() {
        // More classes and distances than the leaves can tell, and every length that one granule has.
        let block = |index: usize| Block {
            at: 0x6000_0000_0000 + (index % 700) * GRANULE * 3,
            home: Home::Device((index % 5) as u32),
            ..block(0x1000_0000 + index * GRANULE, 1 + index % GRANULE)
        };
        let blocks: Vec<Block> = (0..2 * GRANULE).map(block).collect();
        let table = AddressTable::of(blocks.iter().copied());
        for block in &blocks {
            assert_eq!(table.containing(block.base, block.len), Some(*block));
            assert_eq!(table.containing(block.base + block.len - 1, 1), Some(*block));
            assert_eq!(table.containing(block.base, block.len + 1), None);
            assert!(table.containing(block.base + block.len, 0).is_none_or(|next| next.base > block.base));
        }
        for block in blocks.iter().step_by(3) {
            table.remove(block.base, |_| Ok(())).expect("there");
            assert_eq!(table.containing(block.base, 1), None);
            let other = Block { len: block.len / 2 + 1, home: Home::Host, ..*block };
            table.insert(other).expect("room");
            assert_eq!(table.containing(block.base, 1), Some(other));
        }
    }

    #[test]
    fn a_block_holds_the_ranges_that_start_and_end_in_it() {
        let table = AddressTable::of([block(0x1000, 0x1800)]);
        for (addr, len, held) in [
            (0x1000, 0x1800, true),
            (0x1000, 0x1801, false),
            (0x27ff, 1, true),
            (0x27ff, 2, false),
            (0x2000, 0, true),
            (0x2900, 0, false),
            (0x1001, usize::MAX, false),
            (0xfff, 1, false),
        ] {
            assert_eq!(table.containing(addr, len).is_some(), held, "{len} bytes at {addr:#x}");
        }
    }

    #[test]
    fn no_granule_belongs_to_two_blocks() {
        const REGION: usize = 1 << REGION_BITS;
        const G: usize = GRANULE;
        // Two whole regions; two granules on either side of a border between regions; one byte.
        let there = [block(5 * REGION, 2 * REGION), block(10 * REGION - G, 2 * G), block(20 * REGION + G, 1)];
        let table = AddressTable::of(there);
        for (base, len, free) in [
            (5 * REGION - G, G, true),
            (5 * REGION - G, G + 1, false),
            (6 * REGION, REGION, false),
            (7 * REGION - G, 1, false),
            (7 * REGION, REGION, true),
            (4 * REGION, 4 * REGION, false),
            (10 * REGION - 2 * G, G, true),
            (9 * REGION, REGION - G, true),
            (9 * REGION, REGION, false),
            (10 * REGION, 1, false),
            (10 * REGION, REGION, false),
            (10 * REGION + G, REGION - G, true),
            (20 * REGION, G, true),
            (20 * REGION, G + 1, false),
            (20 * REGION + G, 1, false),
            (20 * REGION + 2 * G, 1, true),
            (19 * REGION, 3 * REGION, false),
            ((1 << ADDRESS_BITS) - G, G - 1, true),
            ((1 << ADDRESS_BITS) - G, G + 1, false),
            (1 << 60, G, false),
        ] {
            let added = table.insert(block(base, len));
            assert_eq!(added.is_ok(), free, "{len} bytes at {base:#x}: {added:?}");
            if free {
                table.remove(base, |_| Ok(())).expect("just inserted");
            }
            for block in there {
                assert_eq!(table.find(block.base + block.len - 1), Some(block), "after {len} at {base:#x}");
            }
        }
    }

    #[test]
    fn removed_blocks_are_unknown_and_counted() {
        let table = AddressTable::of([block(0x1000, 64), block(0x2000, 64)]);
        assert!(table.remove(0x1040, |_| Ok(())).is_err(), "not a start");
        assert!(table.remove(0x1000, |_| Err(Kind::BadRoute.because("no"))).is_err(), "refused");
        assert_eq!(table.removals(), 0);
        assert_eq!(table.remove(0x1000, |_| Ok(())).map(|b| b.base), Ok(0x1000));
        assert_eq!((table.find(0x1000), table.removals()), (None, 1));
        assert!(table.remove(0x1000, |_| Ok(())).is_err(), "twice");
        table.insert(block(0x9000, 64)).expect("room");
        assert_eq!(table.find(0x9010), Some(block(0x9000, 64)), "the slot is used again");
        assert_eq!(table.find(0x2000), Some(block(0x2000, 64)));
    }

    #[test]
    fn readers_never_see_half_a_block() {
        let (table, stop) = (AddressTable::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000 {
                    let base = 0x10_0000 + (round % 3) * GRANULE;
                    table.insert(block(base, 100 + round)).expect("room");
                    table.remove(base, |_| Ok(())).expect("just inserted");
                }
                stop.store(true, Ordering::Relaxed);
            });
            while !stop.load(Ordering::Relaxed) {
                for addr in [0x10_0000, 0x10_1000, 0x10_2000] {
                    for found in table.find(addr).into_iter().chain(table.containing(addr, 1)) {
                        assert_eq!(found, block(found.base, found.len), "torn");
                        assert!(addr.wrapping_sub(found.base) < granules(found.len) * GRANULE, "another's");
                    }
                }
            }
        });
    }
}
