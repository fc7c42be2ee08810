//! The memory that watched processes knew, over time: from an engine's address to block and offset.
//!
//! A [`BlockMap`] takes the facts about memory ([`Fact::Known`], [`Fact::Forgotten`], [`Fact::Reused`]). Work
//! has the engine's addresses; an answer says which block that is in, at which offset, and so what the
//! program calls the byte. Memory that is mapped twice has several blocks at one engine's address: all are
//! found, the newest first. Freed blocks are found until their memory is reused, since work that was
//! submitted before may still be in flight.
//!
//! Pageable memory is in no block: there both addresses are the same. What is kept of freed memory is
//! bounded. Arrows: it knows facts; the readers know it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::fact::{Block, CallSite, Fact, FactReader, FactSource, Nanos};

/// Freed blocks of one process that are kept although nothing said that their memory was reused.
const KEPT_FREED: usize = 1 << 14;
/// Of these, freed blocks that began at one engine's address.
const KEPT_FREED_AT_ONE_ADDRESS: usize = 8;

/// One block, and when the process knew it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownBlock {
    /// Its number in the run, from 1, in the order in which blocks became known.
    pub number: u64,
    /// The memory.
    pub block: Block,
    /// The call that made it known.
    pub site: CallSite,
    /// When it became known.
    pub known: Nanos,
    /// When it was freed, unregistered or unmapped; `None` while it is known.
    pub forgotten: Option<Nanos>,
}

impl KnownBlock {
    fn was_known_at(&self, time: Nanos) -> bool {
        self.known <= time && self.forgotten.is_none_or(|end| time <= end)
    }
}

/// A byte in a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BytePlace<'a> {
    /// The block.
    pub block: &'a KnownBlock,
    /// How many bytes of the block are before it.
    pub offset: u64,
}

impl BytePlace<'_> {
    /// What the program calls the byte.
    pub fn address(&self) -> u64 {
        self.block.block.base.wrapping_add(self.offset)
    }
}

/// The blocks of every process.
#[derive(Default)]
pub struct BlockMap {
    processes: HashMap<u32, ProcessBlocks>,
    count: u64,
}

/// The blocks of one process.
#[derive(Default)]
struct ProcessBlocks {
    all: HashMap<u64, KnownBlock>,
    /// The blocks that are known, by the program's address of their first byte.
    by_base: HashMap<u64, u64>,
    /// Numbers of blocks by the engine's address, one map for each power of two of their length: a map has
    /// only a few blocks that can hold a given byte.
    by_length: BTreeMap<u32, BTreeSet<(u64, u64)>>,
    /// Numbers of freed blocks, the oldest first; some are gone.
    freed: VecDeque<u64>,
}

impl FactReader for BlockMap {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        match fact {
            // The number of a process that is gone may be that of a new one.
            Fact::Started(_) => drop(self.processes.remove(&source.process)),
            Fact::Known { time, site, block } => {
                self.count += 1;
                let (number, site, block, known) = (self.count, *site, *block, *time);
                let block = KnownBlock { number, block, site, known, forgotten: None };
                self.processes.entry(source.process).or_default().add(block);
            }
            Fact::Forgotten { time, base, .. } => {
                if let Some(process) = self.processes.get_mut(&source.process) {
                    process.forget(*base, *time);
                }
            }
            Fact::Reused { base, at, .. } => {
                if let Some(process) = self.processes.get_mut(&source.process) {
                    process.drop_freed(*base, *at);
                }
            }
            _ => {}
        }
    }
}

impl BlockMap {
    /// The blocks that hold the byte which the engine finds at `at`: first those that were known at `time`,
    /// of these the newest first.
    pub fn find_all(&self, process: u32, at: u64, time: Nanos) -> Vec<BytePlace<'_>> {
        let Some(blocks) = self.processes.get(&process) else { return Vec::new() };
        let mut found: Vec<_> = blocks.holding(at).collect();
        found.sort_unstable_by_key(|found| {
            std::cmp::Reverse((found.block.was_known_at(time), found.block.number))
        });
        found
    }

    /// The newest block that holds the byte which the program calls `address`.
    pub fn named(&self, process: u32, address: u64) -> Option<&KnownBlock> {
        let blocks = self.processes.get(&process)?;
        let begins_here = blocks.by_base.get(&address).and_then(|number| blocks.all.get(number));
        if begins_here.is_some_and(|known| known.block.len > 0) {
            return begins_here;
        }
        let holding = blocks.all.values().filter(|known| {
            let Block { base, len, .. } = known.block;
            (base..base.saturating_add(len)).contains(&address)
        });
        holding.max_by_key(|known| (known.forgotten.is_none(), known.number))
    }

    /// The block that holds the byte which the engine finds at `at`: the first of
    /// [`find_all`](Self::find_all).
    pub fn find(&self, process: u32, at: u64, time: Nanos) -> Option<BytePlace<'_>> {
        let holding = self.processes.get(&process)?.holding(at);
        holding.max_by_key(|found| (found.block.was_known_at(time), found.block.number))
    }

    /// What the program calls the byte which the engine finds at `at`; the same address if it is in no block.
    pub fn address(&self, process: u32, at: u64, time: Nanos) -> u64 {
        self.find(process, at, time).map_or(at, |found| found.address())
    }
}

impl ProcessBlocks {
    fn add(&mut self, block: KnownBlock) {
        let (base, at, number) = (block.block.base, block.block.at, block.number);
        // A block that is still known there was forgotten, and the fact is late or lost.
        self.forget(base, block.known);
        self.by_base.insert(base, number);
        self.by_length.entry(class(&block)).or_default().insert((at, number));
        self.all.insert(number, block);
    }

    fn forget(&mut self, base: u64, time: Nanos) {
        let Some(number) = self.by_base.remove(&base) else { return };
        let Some(block) = self.all.get_mut(&number) else { return };
        block.forgotten = Some(time);
        let (class, at) = (class(block), block.block.at);
        self.freed.push_back(number);
        self.thin_out(class, at);
        while self.freed.len() > KEPT_FREED {
            let oldest = self.freed.pop_front();
            oldest.into_iter().for_each(|number| self.remove(number));
        }
    }

    /// Drops the oldest freed blocks that began at `at`, if they are many.
    fn thin_out(&mut self, class: u32, at: u64) {
        let Some(map) = self.by_length.get(&class) else { return };
        let numbers = map.range((at, 0)..=(at, u64::MAX)).map(|(_, number)| *number);
        let is_freed = |number: &u64| self.all.get(number).is_some_and(|block| block.forgotten.is_some());
        let freed: Vec<u64> = numbers.filter(is_freed).collect();
        let surplus = freed.len().saturating_sub(KEPT_FREED_AT_ONE_ADDRESS);
        freed.into_iter().take(surplus).for_each(|number| self.remove(number));
    }

    /// Drops the freed blocks that were at both of these addresses.
    fn drop_freed(&mut self, base: u64, at: u64) {
        let holding = self.holding(at).filter(|found| found.offset == 0 && found.block.forgotten.is_some());
        let gone: Vec<u64> =
            holding.filter(|found| found.block.block.base == base).map(|found| found.block.number).collect();
        gone.into_iter().for_each(|number| self.remove(number));
    }

    fn remove(&mut self, number: u64) {
        let Some(block) = self.all.remove(&number) else { return };
        let class = class(&block);
        if let Some(map) = self.by_length.get_mut(&class) {
            map.remove(&(block.block.at, number));
            if map.is_empty() {
                self.by_length.remove(&class);
            }
        }
    }

    fn holding(&self, at: u64) -> impl Iterator<Item = BytePlace<'_>> {
        let in_class = move |(class, map): (&u32, &BTreeSet<(u64, u64)>)| {
            // Blocks of this class are shorter than twice the power of two.
            let reach = (1u64 << class).saturating_mul(2);
            let starts = (at.saturating_sub(reach), 0)..=(at, u64::MAX);
            map.range(starts).copied().collect::<Vec<_>>()
        };
        let starts = self.by_length.iter().flat_map(in_class);
        let places = starts.filter_map(move |(start, number)| {
            self.all.get(&number).map(|block| BytePlace { block, offset: at - start })
        });
        places.filter(|found| found.offset < found.block.block.len)
    }
}

fn class(block: &KnownBlock) -> u32 {
    block.block.len.max(1).ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fact::Origin;

    const SOURCE: FactSource = FactSource { process: 1, thread: 1 };

    fn known(time: Nanos, base: u64, at: u64, len: u64) -> Fact {
        let block = Block { base, at, len, padding: 0, device: Some(0), origin: Origin::Allocated };
        Fact::Known { time, site: CallSite::default(), block }
    }

    fn forgotten(time: Nanos, base: u64) -> Fact {
        Fact::Forgotten { time, site: CallSite::default(), base }
    }

    fn map(facts: impl IntoIterator<Item = Fact>) -> BlockMap {
        let mut map = BlockMap::default();
        facts.into_iter().for_each(|fact| map.take(SOURCE, &fact));
        map
    }

    #[test]
    fn a_byte_is_in_the_block_that_holds_it() {
        let map = map([known(1, 0x1000, 0x9000, 100), known(2, 0x2000, 0x9064, 1 << 20), known(3, 5, 0, 1)]);
        for (at, want) in [
            (0x8fff, None),
            (0x9000, Some((0x1000, 0))),
            (0x9063, Some((0x1063, 99))),
            (0x9064, Some((0x2000, 0))),
            (0x9064 + (1 << 20) - 1, Some((0x2000 + (1 << 20) - 1, (1 << 20) - 1))),
            (0x9064 + (1 << 20), None),
            (0, Some((5, 0))),
            (u64::MAX, None),
        ] {
            let found = map.find(1, at, 10).map(|found| (found.address(), found.offset));
            assert_eq!(found, want, "{at:#x}");
        }
        assert_eq!((map.address(1, 0x9001, 10), map.address(1, 0x77, 10)), (0x1001, 0x77));
        assert!(map.find(2, 0x9000, 10).is_none(), "another process");
    }

    #[test]
    fn memory_that_is_mapped_twice_has_two_blocks() {
        let map = map([known(1, 0x1000, 0x9000, 64), known(2, 0x5000, 0x9000, 64)]);
        let found = map.find_all(1, 0x9010, 10);
        assert_eq!(found.iter().map(BytePlace::address).collect::<Vec<_>>(), [0x5010, 0x1010]);
    }

    #[test]
    fn a_freed_block_is_found_until_its_memory_is_reused() {
        let mut map = map([known(1, 0x1000, 0x9000, 64), forgotten(5, 0x1000)]);
        assert_eq!(map.find(1, 0x9000, 6).map(|found| found.block.forgotten), Some(Some(5)));
        map.take(SOURCE, &Fact::Reused { time: 7, base: 0x1000, at: 0x9000 });
        assert!(map.find(1, 0x9000, 6).is_none());
        // Told late, when the same addresses have other memory already.
        let mut map =
            self::map([known(1, 0x1000, 0x9000, 64), forgotten(5, 0x1000), known(6, 0x1000, 0x9000, 64)]);
        map.take(SOURCE, &Fact::Reused { time: 5, base: 0x1000, at: 0x9000 });
        let left: Vec<_> = map.find_all(1, 0x9000, 9).iter().map(|found| found.block.known).collect();
        assert_eq!(left, [6]);
    }

    #[test]
    fn the_time_decides_between_blocks_that_followed_each_other() {
        let mut map = map([known(1, 0x1000, 0x9000, 64), forgotten(5, 0x1000)]);
        map.take(SOURCE, &known(8, 0x3000, 0x9000, 32));
        for (time, want) in [(3, 0x1000), (5, 0x1000), (8, 0x3000), (20, 0x3000), (6, 0x3000)] {
            assert_eq!(map.find(1, 0x9000, time).map(|found| found.address()), Some(want), "at {time}");
        }
        map.take(SOURCE, &Fact::Reused { time: 9, base: 0x1000, at: 0x9000 });
        assert_eq!(map.find_all(1, 0x9000, 3).len(), 1, "the one that is known stays");
    }

    #[test]
    fn a_block_at_the_same_address_ends_the_one_before() {
        let mut map = map([known(1, 0x1000, 0x9000, 64), known(4, 0x1000, 0x7000, 64)]);
        assert_eq!(map.find(1, 0x9000, 10).map(|found| found.block.forgotten), Some(Some(4)));
        map.take(SOURCE, &forgotten(5, 0x1000));
        assert_eq!(map.find(1, 0x7000, 10).map(|found| found.block.forgotten), Some(Some(5)));
        // Forgotten twice, and never known: nothing happens.
        map.take(SOURCE, &forgotten(6, 0x1000));
        map.take(SOURCE, &forgotten(6, 0x4444));
        map.take(SOURCE, &Fact::Reused { time: 7, base: 1, at: 2 });
        assert_eq!(map.find_all(1, 0x9000, 10).len() + map.find_all(1, 0x7000, 10).len(), 2);
    }

    #[test]
    fn freed_memory_that_nothing_reuses_is_bounded() {
        let count = 4 * KEPT_FREED as u64;
        let facts = (0..count).flat_map(|at| [known(at, 0x1000, at << 12, 4096), forgotten(at, 0x1000)]);
        let map = map(facts);
        let blocks = &map.processes[&1];
        assert_eq!(blocks.all.len(), KEPT_FREED);
        assert_eq!(blocks.by_length.values().map(BTreeSet::len).sum::<usize>(), KEPT_FREED);
        assert!(map.find(1, (count - 1) << 12, count).is_some() && map.find(1, 0, count).is_none());
    }

    #[test]
    fn freed_blocks_at_one_address_are_bounded() {
        let facts = (0..100)
            .flat_map(|time| [known(time, 0x1000 + time, 0x9000, 64), forgotten(time, 0x1000 + time)]);
        let found = map(facts);
        let bases: Vec<u64> = found.find_all(1, 0x9000, 1000).iter().map(BytePlace::address).collect();
        let newest = KEPT_FREED_AT_ONE_ADDRESS as u64;
        assert_eq!(bases, (0..newest).map(|age| 0x1000 + 99 - age).collect::<Vec<_>>());
    }
}
