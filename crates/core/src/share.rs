//! Memory between processes: what is lent to others keeps its bytes until they are done with it, whatever happens here.

use crate::{
    Block, DeviceId, Home, Kind, Memory, Origin, Physical, Result, Runtime,
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

/// What keeps borrowed memory with the process that lent it. Dropped when nothing here uses the memory any more; its drop does not
/// call back.
pub type Lease = Box<dyn Any + Send>;

/// While this lives, the bytes of an allocation are not used for anything else, even if it is freed meanwhile.
pub struct Loan {
    memory: Weak<Memory>,
    base: usize,
}

/// The allocations that are lent, by their base.
#[derive(Default)]
pub(crate) struct Loans(Mutex<HashMap<usize, Lent>>);

#[derive(Default)]
struct Lent {
    loans: usize,
    /// The block, once it was freed.
    freed: Option<Block>,
}

/// The leases of what is borrowed, by its base.
#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<usize, Lease>>);

impl Leases {
    fn add(&self, block: &Block, lease: Lease) {
        lock(&self.0).insert(block.base, lease);
    }

    /// The lease of a block that is on its way back to the backend, if it has one. Taken before the backend has the block, and
    /// dropped after: its address may be somebody else's by then.
    pub(crate) fn take(&self, block: &Block) -> Option<Lease> {
        match block.origin {
            Origin::Imported | Origin::ImportedFar => lock(&self.0).remove(&block.base),
            _ => None,
        }
    }
}

impl Loans {
    /// Keeps a block that was just freed, if it is lent.
    pub(crate) fn hold(&self, block: &Block) -> bool {
        let mut loans = lock(&self.0);
        let lent = loans.get_mut(&block.base);
        lent.map(|lent| lent.freed = Some(*block)).is_some()
    }

    fn add(&self, base: usize) {
        lock(&self.0).entry(base).or_default().loans += 1;
    }

    /// One loan less. The block that was freed in the meantime, if this was the last.
    fn end(&self, base: usize) -> Option<Block> {
        let mut loans = lock(&self.0);
        let lent = loans.get_mut(&base)?;
        lent.loans -= 1;
        if lent.loans > 0 {
            return None;
        }
        loans.remove(&base)?.freed
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.upgrade()
            && let Some(freed) = memory.loans.end(self.base)
        {
            // What cannot be given back now is given back with the next free.
            let _ = memory.retire(freed);
        }
    }
}

impl Runtime {
    /// Lends the device allocation that starts at `base`, its first `len` bytes, to other processes.
    pub fn lend(&self, base: usize, len: usize) -> Result<(Loan, Shared)> {
        let memory = self.memory();
        // The loan first: a free by another thread from here on leaves the bytes in place.
        memory.loans.add(base);
        let loan = Loan { memory: Arc::downgrade(memory), base };
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
        let shared = self.backend().share(&block)?;
        Ok((loan, Shared { len, ..shared }))
    }

    /// Makes memory of another process known here, as memory of `device`. `lease` is held until all work on it has passed, too.
    pub fn borrow(&self, shared: &Shared, device: DeviceId, origin: Origin, lease: Lease) -> Result<Block> {
        let block = self.backend().import(shared, device, origin)?;
        let block = self.memory().introduce(block)?;
        self.memory().leases.add(&block, lease);
        Ok(block)
    }

    /// Undoes [`borrow`](Self::borrow): the addresses are unknown from here on, and nothing is behind them any more when all
    /// work submitted before has passed.
    pub fn give_back(&self, base: usize) -> Result<Block> {
        self.free(base, |block| match block.origin {
            Origin::Imported | Origin::ImportedFar => Ok(()),
            _ => Err(Kind::BadAddress.because(format!("{block} was not imported"))),
        })
    }

    /// Physical memory of another process, to be mapped here. `lease` is held as long as anybody holds the memory, or works on it.
    pub fn borrow_physical(&self, shared: &Shared, device: DeviceId, lease: Lease) -> Result<Arc<Physical>> {
        let block = self.backend().import(shared, device, Origin::Imported)?;
        self.memory().leases.add(&block, lease);
        Ok(Physical::new(block, self.memory()))
    }
}
