//! The memory that a process knows and knew: for findings about frees, and for what is still allocated.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::fact::{Block, CallSite, Origin};

/// Freed blocks that are kept.
const KEPT_FREED: usize = 1 << 14;

/// A block and the call that made it known.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBlock {
    /// The memory.
    pub block: Block,
    /// The call.
    pub site: CallSite,
}

/// A block that was freed.
#[derive(Clone, Copy, Debug)]
pub struct ForgottenBlock {
    /// The memory, and the call that made it known.
    pub owned: OwnedBlock,
    /// The call that freed it.
    pub freed: CallSite,
}

/// Memory that was not freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakedMemory {
    /// The call that allocated it.
    pub site: CallSite,
    /// How many bytes the program asked for.
    pub len: u64,
    /// What the program calls the first byte; physical memory that is not mapped has no address.
    pub base: Option<u64>,
    /// Whether it is physical memory whose handle was freed, or was not; `None` of other memory.
    pub has_handle: Option<bool>,
}

/// Physical memory that has a handle or is mapped.
#[derive(Clone, Copy, Debug)]
struct PhysicalMemory {
    /// The call that made it.
    site: CallSite,
    len: u64,
    handles: u64,
    mappings: u64,
}

/// The blocks of a process.
#[derive(Default)]
pub struct OwnedMemory {
    known: HashMap<u64, OwnedBlock>,
    /// By where the first byte is.
    physical: BTreeMap<u64, PhysicalMemory>,
    freed: VecDeque<ForgottenBlock>,
}

impl OwnedMemory {
    /// How many blocks are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len() + self.freed.len() + self.physical.len()
    }

    /// Memory became known.
    pub fn know(&mut self, block: Block, site: CallSite) {
        self.known.insert(block.base, OwnedBlock { block, site });
        if block.origin == Origin::Mapped {
            self.physical.entry(block.at).and_modify(|physical| physical.mappings += 1);
        }
    }

    /// The memory at `base` was freed.
    pub fn free(&mut self, base: u64, freed: CallSite) -> Option<OwnedBlock> {
        let owned = self.known.remove(&base)?;
        if owned.block.origin == Origin::Mapped {
            self.release(owned.block.at, |physical| &mut physical.mappings);
        }
        self.freed.push_back(ForgottenBlock { owned, freed });
        if self.freed.len() > KEPT_FREED {
            self.freed.pop_front();
        }
        Some(owned)
    }

    /// The freed block that an address of the program's lies in, the newest first.
    /// An address that is in use again is no freed one.
    pub fn freed_at(&self, address: u64) -> Option<&ForgottenBlock> {
        let holds = |block: &Block| (block.base..block.base + block.len).contains(&address);
        if self.known.values().any(|owned| holds(&owned.block)) {
            return None;
        }
        self.freed.iter().rev().find(|freed| holds(&freed.owned.block))
    }

    /// Physical memory has one handle more.
    pub fn name_physical(&mut self, (at, len): (u64, u64), site: CallSite) {
        let new = PhysicalMemory { site, len, handles: 0, mappings: 0 };
        self.physical.entry(at).or_insert(new).handles += 1;
    }

    /// The physical memory has one handle less.
    pub fn free_physical(&mut self, at: u64) {
        self.release(at, |physical| &mut physical.handles);
    }

    /// Physical memory is gone when it has neither a handle nor a mapping.
    fn release(&mut self, at: u64, count: impl Fn(&mut PhysicalMemory) -> &mut u64) {
        let Some(physical) = self.physical.get_mut(&at) else { return };
        let count = count(physical);
        *count = count.saturating_sub(1);
        if (physical.handles, physical.mappings) == (0, 0) {
            self.physical.remove(&at);
        }
    }

    /// What was allocated and not freed, in the order of addresses; then physical memory.
    pub fn leaks(&self) -> Vec<LeakedMemory> {
        let of_origin = |origin| self.known.values().filter(move |owned| owned.block.origin == origin);
        let allocated = of_origin(Origin::Allocated).map(|OwnedBlock { block, site }| LeakedMemory {
            site: *site,
            len: block.asked(),
            base: Some(block.base),
            has_handle: None,
        });
        let mut all: Vec<LeakedMemory> = allocated.collect();
        all.sort_by_key(|leaked| leaked.base);
        let mut mapped: HashMap<u64, u64> = HashMap::new();
        for Block { at, base, .. } in of_origin(Origin::Mapped).map(|owned| owned.block) {
            let first = mapped.entry(at).or_insert(base);
            *first = base.min(*first);
        }
        all.extend(self.physical.iter().map(|(at, physical)| LeakedMemory {
            site: physical.site,
            len: physical.len,
            base: mapped.get(at).copied(),
            has_handle: Some(physical.handles > 0),
        }));
        all
    }
}
