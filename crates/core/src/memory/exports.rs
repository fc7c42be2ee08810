//! Which memory is shared with other processes: exports of this process, and what keeps imports alive.

use crate::{
    Block, Memory, Origin, Result, Sharing,
    backend::lacks,
    sync::{Mutex, lock},
};
use std::{any::Any, collections::HashMap};

/// Keeps imported memory alive in the process that exported it. Dropped when nothing here uses the memory any
/// more; its drop does not call back.
pub type Lease = Box<dyn Any + Send>;

/// The allocations that are exported, by their base.
#[derive(Default)]
pub(crate) struct Exports(Mutex<HashMap<usize, Exported>>);

#[derive(Default)]
struct Exported {
    /// How many exports of it there are.
    count: usize,
    /// The block, once it was freed.
    freed: Option<Block>,
}

/// The leases of what is imported, by its base.
#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<usize, Lease>>);

impl Leases {
    pub(crate) fn add(&self, block: &Block, lease: Lease) {
        lock(&self.0).insert(block.base, lease);
    }

    /// The lease of a block that is on its way back to the backend, if it has one. Taken before the backend
    /// has the block, and dropped after: its address may be reused by then.
    pub(crate) fn take(&self, block: &Block) -> Option<Lease> {
        match block.origin {
            Origin::Imported | Origin::ImportedFar => lock(&self.0).remove(&block.base),
            _ => None,
        }
    }
}

impl Exports {
    /// Keeps a block that was just freed, if it is exported.
    pub(crate) fn retain(&self, block: &Block) -> bool {
        let mut exports = lock(&self.0);
        let exported = exports.get_mut(&block.base);
        exported.map(|exported| exported.freed = Some(*block)).is_some()
    }

    pub(crate) fn add(&self, base: usize) {
        lock(&self.0).entry(base).or_default().count += 1;
    }

    /// One export less. The block that was freed in the meantime, if this was the last.
    pub(crate) fn end(&self, base: usize) -> Option<Block> {
        let mut exports = lock(&self.0);
        let exported = exports.get_mut(&base)?;
        exported.count -= 1;
        if exported.count > 0 {
            return None;
        }
        exports.remove(&base)?.freed
    }
}

impl Memory {
    /// What the backend has for memory of several processes.
    pub(crate) fn sharing(&self) -> Result<&dyn Sharing> {
        self.backend().sharing().ok_or_else(|| lacks("memory shared with other processes".into()))
    }
}
