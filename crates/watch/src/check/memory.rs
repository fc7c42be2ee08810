//! The memory that a process knows and knew: for findings about frees, and for what is still allocated.

use std::collections::{HashMap, VecDeque};

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

/// The blocks of a process.
#[derive(Default)]
pub struct OwnedMemory {
    known: HashMap<u64, OwnedBlock>,
    freed: VecDeque<ForgottenBlock>,
}

impl OwnedMemory {
    /// How many blocks are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.known.len() + self.freed.len()
    }

    /// Memory became known.
    pub fn know(&mut self, block: Block, site: CallSite) {
        self.known.insert(block.base, OwnedBlock { block, site });
    }

    /// The memory at `base` was freed.
    pub fn free(&mut self, base: u64, freed: CallSite) -> Option<OwnedBlock> {
        let owned = self.known.remove(&base)?;
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

    /// What was allocated and not freed, in the order of addresses.
    pub fn leaks(&self) -> Vec<OwnedBlock> {
        let is_allocated = |owned: &&OwnedBlock| owned.block.origin == Origin::Allocated;
        let mut all: Vec<OwnedBlock> = self.known.values().filter(is_allocated).copied().collect();
        all.sort_by_key(|owned| owned.block.base);
        all
    }
}
