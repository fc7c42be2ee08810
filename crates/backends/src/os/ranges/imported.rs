//! Memory of other processes, mapped into this one.

use super::counted::CountedRanges;
use crate::os::mapping::{Mapping, identity};
use ferry_core::{
    Block, DeviceId, Home, Kind, Origin, Result, Shared,
    sync::{Arc, Mutex, Weak, lock},
    table::GRANULE,
};
use std::{collections::HashMap, os::fd::BorrowedFd};

/// The imported blocks, by the user's address.
#[derive(Default)]
pub struct Imports(Mutex<Mapped>);

/// Memory of other processes. Where the same bytes are imported again the engine finds them at the same
/// addresses, so that a copy whose ends overlap is seen to.
#[derive(Default)]
struct Mapped {
    by_base: HashMap<usize, Imported>,
    views: HashMap<FileOffset, Weak<Mapping>>,
    /// All addresses of it, the engine's too.
    ranges: CountedRanges,
}

/// Where bytes lie: the file, and the offset in it.
type FileOffset = ((u64, u64), u64);

struct Imported {
    /// The user's addresses.
    user: Arc<Mapping>,
    /// The engine's, unless the memory is this process's own.
    view: Option<(FileOffset, Arc<Mapping>)>,
}

impl Imported {
    fn mappings(&self) -> impl Iterator<Item = &Arc<Mapping>> {
        let view = self.view.as_ref().map(|(_, view)| view).filter(|view| !Arc::ptr_eq(view, &self.user));
        [Some(&self.user), view].into_iter().flatten()
    }
}

impl Mapped {
    /// The engine's view of some bytes: one that is there, if it is long enough.
    fn view(&mut self, name: &str, shared: &Shared, len: usize) -> Result<(FileOffset, Arc<Mapping>)> {
        let file = identity(open(shared)?);
        let spot = (file.ok_or_else(|| Kind::BadAddress.because("there is no such file"))?, shared.offset);
        if let Some(view) = self.views.get(&spot).and_then(Weak::upgrade).filter(|view| len <= view.len()) {
            return Ok((spot, view));
        }
        let view = Arc::new(Mapping::of_file(name, open(shared)?, shared.offset, len)?);
        self.views.insert(spot, Arc::downgrade(&view));
        Ok((spot, view))
    }

    fn add(&mut self, imported: Imported) {
        imported.mappings().for_each(|mapping| self.ranges.add(mapping.addr(), mapping.len()));
        self.by_base.insert(imported.user.addr(), imported);
    }

    /// Forgets the addresses and unmaps what no other import uses, in this order: once unmapped the
    /// addresses may be given to others.
    fn remove(&mut self, base: usize) {
        let Some(imported) = self.by_base.remove(&base) else { return };
        imported.mappings().for_each(|mapping| self.ranges.remove(mapping.addr()));
        let spot = imported.view.as_ref().map(|(spot, _)| *spot);
        drop(imported);
        if let Some(spot) = spot
            && self.views.get(&spot).is_some_and(|view| view.strong_count() == 0)
        {
            self.views.remove(&spot);
        }
    }
}

impl Imports {
    /// Maps memory of another process: for the engine, and, where the CPU may touch device memory, for the
    /// user too. `own` is the engine's address of memory that this process lent itself.
    pub fn import(
        &self,
        shared: &Shared,
        device: DeviceId,
        origin: Origin,
        is_unified: bool,
        own: Option<usize>,
    ) -> Result<Block> {
        let whole = shared.len.checked_next_multiple_of(GRANULE).ok_or_else(|| {
            Kind::OutOfBounds.because(format!("{} bytes are more than there are addresses", shared.len))
        })?;
        let name = format!("ferry:device{device}-imported");
        let mut imported = lock(&self.0);
        let view = own.is_none().then(|| imported.view(&name, shared, whole)).transpose()?;
        let user = match (is_unified, &view) {
            (false, _) => Arc::new(Mapping::bare(&name, whole)?),
            (true, Some((_, view))) if Arc::strong_count(view) == 1 => view.clone(),
            (true, _) => Arc::new(Mapping::of_file(&name, open(shared)?, shared.offset, whole)?),
        };
        let (base, len) = (user.addr(), shared.len);
        let at = own.or(view.as_ref().map(|(_, view)| view.addr())).unwrap_or(base);
        imported.add(Imported { user, view });
        Ok(Block { base, len, home: Home::Device(device), at, page: GRANULE, origin })
    }

    /// Whether any of the range lies in addresses of imported memory, or in the engine's view of it: both
    /// belong to the library alone.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        lock(&self.0).ranges.meets(addr, len)
    }

    /// Undoes `import`, when nothing uses the memory any more.
    pub fn remove(&self, base: usize) {
        lock(&self.0).remove(base);
    }
}

/// The descriptor of memory that is shared.
fn open(shared: &Shared) -> Result<BorrowedFd<'_>> {
    shared.file.get().map_err(|why| Kind::Device.because(format!("importing memory: {why}")))
}
