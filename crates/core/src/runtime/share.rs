//! Memory shared between processes: exports of this process, and imports from another one.
//!
//! Four words, in the whole stack. An *export* is an allocation that others may map, and its bytes stay as
//! long as the export does. An *import* is memory of another process that is known here. [`Shared`] says
//! where the bytes lie. A *lease* is what an import keeps, so that its exporter does not use the bytes for
//! anything else.

use crate::{
    Block, DeviceId, Home, Kind, Lease, Memory, Origin, Physical, Result, Runtime, Shared,
    sync::{Arc, Weak},
};

/// While this lives, the bytes of an allocation are not used for anything else, even if it is freed
/// meanwhile.
pub struct Export {
    memory: Weak<Memory>,
    base: usize,
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
