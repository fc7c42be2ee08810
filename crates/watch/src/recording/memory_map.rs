//! Which allocation of a recording the addresses of a process belong to.

use super::model::Location;
use crate::fact::{Block, Origin};
use std::collections::{BTreeMap, HashMap};

/// Addresses this far from the first one of a region of pageable memory still belong to it: a heap and the
/// mapped files of a process are regions of their own.
const REGION_REACH: u64 = 1 << 38;

/// What a process has at which of the engine's addresses.
#[derive(Default)]
pub struct MemoryMap {
    /// Blocks by the engine's address of their first byte. None overlaps another.
    blocks: BTreeMap<u64, MappedBlock>,
    /// Where the block is that the program knows by an address.
    by_base: HashMap<u64, u64>,
    /// Regions of pageable memory: the first address that was seen, and the number.
    regions: Vec<(u64, u32)>,
}

struct MappedBlock {
    len: u64,
    allocation: u32,
    /// By how many addresses the program knows it: physical memory may be mapped more than once. With none
    /// of them the block is freed, and is kept for facts that come late.
    names: u32,
    origin: Origin,
}

impl MemoryMap {
    /// A block became known; `number` is what its allocation is called, unless it is an alias of one that is
    /// known.
    pub fn add(&mut self, block: &Block, number: u32) -> bool {
        self.by_base.insert(block.base, block.at);
        if let Some(alias) = self.blocks.get_mut(&block.at)
            && alias.names > 0
            && alias.len == block.len
        {
            alias.names += 1;
            return false;
        }
        let end = block.at.saturating_add(block.len);
        let overlapped: Vec<u64> = self.overlapping(block.at, end).collect();
        for at in overlapped {
            self.blocks.remove(&at);
        }
        let added = MappedBlock { len: block.len, allocation: number, names: 1, origin: block.origin };
        self.blocks.insert(block.at, added);
        true
    }

    fn overlapping(&self, from: u64, end: u64) -> impl Iterator<Item = u64> {
        let starts = self.blocks.range(..end.max(from.saturating_add(1))).rev();
        starts.take_while(move |(at, block)| at.saturating_add(block.len.max(1)) > from).map(|(at, _)| *at)
    }

    /// The block that the program knows by `base` was freed. Its allocation, unless it has other names.
    pub fn remove(&mut self, base: u64) -> Option<u32> {
        let at = self.by_base.remove(&base)?;
        let block = self.blocks.get_mut(&at)?;
        block.names = block.names.saturating_sub(1);
        if block.names > 0 {
            return None;
        }
        let allocation = block.allocation;
        // The memory is the program's own, and pageable from here on.
        if block.origin == Origin::Registered {
            self.blocks.remove(&at);
        }
        Some(allocation)
    }

    /// Where an address of the engine is; `None` if it is in no block that is known.
    pub fn find(&self, address: u64) -> Option<Location> {
        let (at, block) = self.blocks.range(..=address).next_back()?;
        let offset = address - at;
        (offset < block.len).then_some(Location { allocation: block.allocation, offset: offset as i64 })
    }

    /// Where pageable memory is. `add` numbers a region that is new.
    pub fn pageable(&mut self, address: u64, add: impl FnOnce() -> u32) -> Location {
        let near = self.regions.iter().find(|(first, _)| first.abs_diff(address) < REGION_REACH);
        let (first, allocation) = near.copied().unwrap_or_else(|| {
            let region = (address, add());
            self.regions.push(region);
            region
        });
        Location { allocation, offset: address.wrapping_sub(first) as i64 }
    }
}
