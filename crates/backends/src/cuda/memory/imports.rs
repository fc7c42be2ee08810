//! Memory of other processes on the same GPU: sharing ours, importing theirs.
//!
//! The driver opens an allocation of another process as a whole, and several imports may lie in one: what is
//! opened beside them is the other process's, and refused. Where the same memory is here already, or where it
//! does not start at a page, an import has addresses that are set aside for it and stand for it in the core's
//! table only. To close one the driver waits for all streams, so that is deferred while a stream is held.

use crate::cuda::{
    driver::{Contexts, ImplicitSync},
    memory::ipc::IpcMessage,
};
use crate::os::ranges::{CountedRanges, Reservations};
use ferry_core::{
    Block, DeviceId, Home, Origin, Result, Shared,
    sync::{Arc, Mutex, lock},
    table::GRANULE,
};
use std::collections::HashMap;

/// The imported memory of a backend.
pub struct Imports {
    contexts: Arc<Contexts>,
    sync: Arc<ImplicitSync>,
    reservations: Arc<Reservations>,
    table: Arc<Mutex<ImportTable>>,
}

impl Imports {
    /// None yet; addresses for them come from `reservations`.
    pub fn new(contexts: Arc<Contexts>, sync: Arc<ImplicitSync>, reservations: Arc<Reservations>) -> Imports {
        Imports { contexts, sync, reservations, table: Arc::default() }
    }

    /// What another process imports `block` with, which lies in the driver's allocation with this start and
    /// length.
    pub fn export(&self, block: &Block, allocation: (usize, usize)) -> Result<Shared> {
        let handle = self.contexts.of(block.home)?.enter()?.ipc_handle(allocation.0)?;
        IpcMessage::new(handle, allocation, block.at).write(block.len)
    }

    /// As [`Sharing::import`](ferry_core::Sharing::import).
    pub fn import(&self, shared: &Shared, device: DeviceId, origin: Origin) -> Result<Block> {
        let current = self.contexts.open(device)?.enter()?;
        let message = IpcMessage::read(shared)?;
        let opened = (!message.is_ours()).then(|| current.open_ipc(message.handle)).transpose()?;
        let at = opened.map_or(message.at, |start| start + message.skip);
        let (mut table, mut base) = (lock(&self.table), at);
        // The same memory may be here already: then it has addresses that only the core knows.
        let is_reserved = opened.is_none() || at % GRANULE != 0 || table.has_import(at, shared.len);
        if is_reserved {
            let reserved = self.reservations.reserve(shared.len, GRANULE, 0);
            base = reserved.inspect_err(|_| self.close_again(device, opened))?;
        }
        let opened = opened.map(|start| (start, message.whole));
        table.add(base, Import { opened, at, is_reserved, len: shared.len });
        Ok(Block { base, len: shared.len, home: Home::Device(device), at, page: GRANULE, origin })
    }

    /// Closes what was opened for an import that failed.
    fn close_again(&self, device: DeviceId, opened: Option<usize>) {
        let (Some(start), Ok(context)) = (opened, self.contexts.open(device)) else { return };
        let context = context.clone();
        // Nobody hears of it if that fails, too.
        let _ = self.sync.now_or_later(move || {
            // SAFETY: opened just before, and nobody else knows it.
            context.unless_lost(|current| unsafe { current.close_ipc(start) })
        });
    }

    /// Undoes `import`.
    ///
    /// # Safety
    /// Nothing uses the memory any more.
    pub unsafe fn close(&self, block: &Block) -> Result<()> {
        let Some(import) = lock(&self.table).remove(block.base) else { return Ok(()) };
        let (table, reservations, base) = (self.table.clone(), self.reservations.clone(), block.base);
        let opened = import.opened;
        let forget = move || {
            lock(&table).forget(base, &import);
            if import.is_reserved {
                reservations.release(base);
            }
        };
        let Some((start, _)) = opened else {
            forget();
            return Ok(());
        };
        let context = self.contexts.of(block.home)?.clone();
        self.sync.now_or_later(move || {
            // SAFETY: opened by `import`, and the core has seen every op that could reach it complete.
            let closed = context.unless_lost(|current| unsafe { current.close_ipc(start) });
            forget();
            closed
        })
    }

    /// Whether the range, or its address if it is empty, reaches into imported memory, or into what was
    /// opened with it.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        lock(&self.table).meets(addr, len)
    }
}

/// What is imported, by the address it has here.
#[derive(Default)]
pub struct ImportTable {
    by_base: HashMap<usize, Import>,
    /// All addresses of it, the driver's too.
    ranges: CountedRanges,
    /// The allocations that it lies in.
    opened: CountedRanges,
}

/// An import, and how it is given back.
#[derive(Debug)]
pub struct Import {
    /// The start and the length of what the driver opened, unless the memory is this process's.
    pub opened: Option<(usize, usize)>,
    /// Where the driver has it. Several imports of the same memory have this in common.
    pub at: usize,
    /// Whether its addresses were set aside for it.
    pub is_reserved: bool,
    /// How long it is.
    pub len: usize,
}

impl ImportTable {
    /// Remembers it.
    pub fn add(&mut self, base: usize, import: Import) {
        let len = import.len.next_multiple_of(GRANULE);
        import.starts(base).for_each(|start| self.ranges.add(start, len));
        import.opened.iter().for_each(|(start, len)| self.opened.add(*start, *len));
        self.by_base.insert(base, import);
    }

    /// It is to be given back. Its addresses are known until they are [forgotten](Self::forget).
    pub fn remove(&mut self, base: usize) -> Option<Import> {
        self.by_base.remove(&base)
    }

    /// It was given back.
    pub fn forget(&mut self, base: usize, import: &Import) {
        import.starts(base).for_each(|start| self.ranges.remove(start));
        import.opened.iter().for_each(|(start, _)| self.opened.remove(*start));
    }

    /// Whether any of the range is imported.
    pub fn has_import(&self, addr: usize, len: usize) -> bool {
        self.ranges.meets(addr, len)
    }

    /// Whether any of the range is imported, or was opened with what is.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        self.has_import(addr, len) || self.opened.meets(addr, len)
    }
}

impl Import {
    /// Where its addresses start: the user's, and the driver's where it opened others.
    fn starts(&self, base: usize) -> impl Iterator<Item = usize> + use<> {
        let others = self.opened.map(|_| self.at).filter(|at| *at != base);
        [Some(base), others].into_iter().flatten()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn imported_addresses_are_known_until_they_are_given_back() {
        let mut imports = ImportTable::default();
        let opened = Some((0x4000, 0x2000));
        imports.add(0x4000, Import { opened, at: 0x4000, is_reserved: false, len: 5000 });
        assert!(imports.meets(0x5fff, 1) && imports.meets(0, 0x4001) && !imports.meets(0x6000, 1));
        let import = imports.remove(0x4000).expect("imported");
        assert!(imports.remove(0x4000).is_none() && imports.meets(0x4000, 1));
        imports.forget(0x4000, &import);
        assert!(!imports.meets(0, usize::MAX));
    }

    #[test]
    fn addresses_that_two_imports_share_are_known_until_the_last_is_given_back() {
        for order in [[0x4000, 0x9000], [0x9000, 0x4000]] {
            let mut imports = ImportTable::default();
            for (base, is_reserved) in [(0x4000, false), (0x9000, true)] {
                let opened = Some((0x4000, 0x1000));
                imports.add(base, Import { opened, at: 0x4000, is_reserved, len: 4096 });
            }
            let [first, last] = order;
            let import = imports.remove(first).expect("imported");
            imports.forget(first, &import);
            assert!(imports.meets(0x4000, 1) && imports.meets(last, 1), "{first:#x} first");
            assert!(first == 0x4000 || !imports.meets(first, 1));
            let import = imports.remove(last).expect("imported");
            imports.forget(last, &import);
            assert!(!imports.meets(0, usize::MAX), "{first:#x} first");
        }
    }

    #[test]
    fn what_was_opened_beside_an_import_is_known_until_the_last_import_there_is_given_back() {
        let mut imports = ImportTable::default();
        let opened = Some((0x10_0000, 0x1_0000));
        for base in [0x10_2000, 0x10_8000] {
            assert!(!imports.has_import(base, 4096), "another import of the same allocation is no obstacle");
            imports.add(base, Import { opened, at: base, is_reserved: false, len: 4096 });
        }
        assert!(imports.meets(0x10_0000, 1) && imports.meets(0x10_ffff, 1) && !imports.meets(0x11_0000, 9));
        let first = imports.remove(0x10_2000).expect("imported");
        imports.forget(0x10_2000, &first);
        assert!(!imports.has_import(0x10_2000, 4096) && imports.meets(0x10_2000, 1), "opened for the other");
        let last = imports.remove(0x10_8000).expect("imported");
        imports.forget(0x10_8000, &last);
        assert!(!imports.meets(0, usize::MAX));
    }
}
