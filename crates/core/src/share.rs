//! Memory shared between processes: exports of this process, and imports from another one.
//!
//! Four words, in the whole stack. An *export* is an allocation that others may map, and its bytes stay as
//! long as the export does. An *import* is memory of another process that is known here. [`Shared`] says
//! where the bytes lie. A *lease* is what an import keeps, so that its exporter does not use the bytes for
//! anything else.

use crate::{
    Block, DeviceId, Home, Kind, Memory, Origin, Physical, Result, Runtime, Sharing,
    backend::lacks,
    sync::{Arc, Mutex, Weak, lock},
};
use std::{any::Any, collections::HashMap, fmt::Debug, io, os::fd::BorrowedFd};

/// A file that is open for as long as this lives, unless the program closes its descriptor.
pub trait OpenFile: Debug + Send + Sync {
    /// Its descriptor, if that is still this file's.
    fn get(&self) -> io::Result<BorrowedFd<'_>>;
}

/// Where bytes lie that more than one process can map.
#[derive(Debug)]
pub struct Shared {
    /// The file behind them, which exists in memory only.
    pub file: std::sync::Arc<dyn OpenFile>,
    /// Where they start in it.
    pub offset: u64,
    /// How many they are.
    pub len: usize,
}

/// Keeps imported memory alive in the process that exported it. Dropped when nothing here uses the memory any
/// more; its drop does not call back.
pub type Lease = Box<dyn Any + Send>;

/// While this lives, the bytes of an allocation are not used for anything else, even if it is freed
/// meanwhile.
pub struct Export {
    memory: Weak<Memory>,
    base: usize,
}

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
    fn add(&self, block: &Block, lease: Lease) {
        lock(&self.0).insert(block.base, lease);
    }

    /// The lease of a block that is on its way back to the backend, if it has one. Taken before the backend
    /// has the block, and dropped after: its address may be somebody else's by then.
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

    fn add(&self, base: usize) {
        lock(&self.0).entry(base).or_default().count += 1;
    }

    /// One export less. The block that was freed in the meantime, if this was the last.
    fn end(&self, base: usize) -> Option<Block> {
        let mut exports = lock(&self.0);
        let exported = exports.get_mut(&base)?;
        exported.count -= 1;
        if exported.count > 0 {
            return None;
        }
        exports.remove(&base)?.freed
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.upgrade()
            && let Some(freed) = memory.exports.end(self.base)
        {
            // What cannot be given back now is given back with the next free.
            let _ = memory.retire(freed);
        }
    }
}

impl Memory {
    /// What the backend has for memory of several processes.
    pub(crate) fn sharing(&self) -> Result<&dyn Sharing> {
        self.backend().sharing().ok_or_else(|| lacks("memory shared with other processes".into()))
    }
}

impl Runtime {
    /// Exports the first `len` bytes of the device allocation that starts at `base`.
    pub fn export(&self, base: usize, len: usize) -> Result<(Export, Shared)> {
        let memory = self.memory();
        // Counted first: a free by another thread from here on leaves the bytes in place.
        memory.exports.add(base);
        let export = Export { memory: Arc::downgrade(memory), base };
        let found = memory.table().find(base).filter(|block| block.base == base);
        let block =
            found.ok_or_else(|| Kind::BadAddress.because(format!("no allocation starts at {base:#x}")))?;
        if block.origin != Origin::Allocated || block.home == Home::Host {
            return Err(
                Kind::BadAddress.because(format!("only device allocations are lent; this is {block}"))
            );
        }
        if len == 0 || len > block.len {
            return Err(Kind::OutOfBounds.because(format!("{len} bytes of {block}: give 1 to {}", block.len)));
        }
        let shared = memory.sharing()?.share(&block)?;
        Ok((export, Shared { len, ..shared }))
    }

    /// Makes memory of another process known here, as memory of `device`. `lease` is kept until all work on
    /// it has passed, too.
    pub fn import(&self, shared: &Shared, device: DeviceId, origin: Origin, lease: Lease) -> Result<Block> {
        let block = self.memory().sharing()?.import(shared, device, origin)?;
        let block = self.memory().introduce(block)?;
        self.memory().leases.add(&block, lease);
        Ok(block)
    }

    /// Undoes [`import`](Self::import): the addresses are unknown from here on, and nothing is behind them
    /// any more when all work submitted before has passed.
    pub fn end_import(&self, base: usize) -> Result<Block> {
        self.free(base, |block| match block.origin {
            Origin::Imported | Origin::ImportedFar => Ok(()),
            _ => Err(Kind::BadAddress.because(format!("{block} was not imported"))),
        })
    }

    /// Physical memory of another process, to be mapped here. `lease` is kept as long as the memory is
    /// referred to, or worked on.
    pub fn import_physical(&self, shared: &Shared, device: DeviceId, lease: Lease) -> Result<Arc<Physical>> {
        let block = self.memory().sharing()?.import(shared, device, Origin::Imported)?;
        self.memory().leases.add(&block, lease);
        Ok(Physical::new(block, self.memory()))
    }
}
