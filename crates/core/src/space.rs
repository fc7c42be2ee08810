//! Virtual memory: reserved addresses, and physical memory that is mapped there piece by piece.
//!
//! A mapping is a block of the address table whose user's address lies in a reservation and whose engine's address is the
//! physical memory's own. So work that was submitted before an unmap still moves the bytes it meant, whatever is mapped there
//! next; the physical memory is used again when its last owner is gone and that work has passed.

use crate::{
    AddressSpace, Block, DeviceId, Home, Kind, Memory, Origin, PATIENCE, Request, Result, Runtime, Shared,
    backend::lacks,
    sync::{Arc, AtomicUsize, Mutex, Ordering, Weak, lock},
};
use std::{collections::BTreeMap, fmt, time::Duration};

/// Memory without addresses of the user's. Whoever holds it keeps it: handles, mappings, other processes.
pub struct Physical {
    block: Block,
    memory: Weak<Memory>,
}

/// What reserved addresses are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Physical memory may be mapped there.
    Mappings,
    /// They stand for host memory at this address, as devices see it; copies must not use them.
    ViewOf(usize),
}

/// The reservations of a runtime, by their first address.
#[derive(Default)]
pub(crate) struct Spaces {
    count: AtomicUsize,
    all: Mutex<BTreeMap<usize, Space>>,
}

struct Space {
    len: usize,
    purpose: Purpose,
    mapped: BTreeMap<usize, Arc<Physical>>,
}

impl Physical {
    pub(crate) fn new(block: Block, memory: &Arc<Memory>) -> Arc<Physical> {
        Arc::new(Physical { block, memory: Arc::downgrade(memory) })
    }

    /// How many bytes.
    pub fn size(&self) -> usize {
        self.block.len
    }

    /// The pages it is made of.
    pub fn page(&self) -> usize {
        self.block.page
    }

    /// Where it is.
    pub fn home(&self) -> Home {
        self.block.home
    }

    /// The file behind it, for another process. Whoever lends it holds on to `self`.
    pub fn share(&self) -> Result<Shared> {
        let memory = self.memory.upgrade();
        let memory = memory.ok_or_else(|| Kind::Device.because("the runtime of this memory is gone"))?;
        memory.sharing()?.share(&self.block)
    }
}

impl Drop for Physical {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.upgrade() {
            // What cannot be given back now is given back with the next free.
            let _ = memory.retire(self.block);
        }
    }
}

impl fmt::Debug for Physical {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "physical memory of {} bytes, {:?}", self.block.len, self.block.home)
    }
}

impl Spaces {
    /// Refuses a range that reaches into reserved addresses: the address table knows what is mapped, and there nothing is.
    pub(crate) fn refuse(&self, addr: usize, len: usize) -> Result<()> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Ok(());
        }
        let end = addr.saturating_add(len.max(1));
        let all = lock(&self.all);
        let Some((base, space)) =
            all.range(..end).next_back().filter(|(base, space)| *base + space.len > addr)
        else {
            return Ok(());
        };
        let what = match len {
            0 => format!("{addr:#x} is one of {} reserved addresses at {base:#x}", space.len),
            _ => format!("{len} bytes at {addr:#x} reach into {} reserved addresses at {base:#x}", space.len),
        };
        Err(Kind::BadAddress.because(match space.purpose {
            Purpose::Mappings => format!("{what}, where nothing is mapped"),
            Purpose::ViewOf(host) => {
                format!("{what}, which stand for registered host memory at {host:#x}: copies take the host address")
            }
        }))
    }

    /// The purpose of the reservation that holds `addr`.
    fn purpose(&self, addr: usize) -> Option<Purpose> {
        let all = lock(&self.all);
        let (base, space) = all.range(..=addr).next_back()?;
        (addr - base < space.len).then_some(space.purpose)
    }
}

impl Memory {
    /// Where the backend maps memory.
    fn address_space(&self) -> Result<&dyn AddressSpace> {
        self.backend().address_space().ok_or_else(|| lacks("memory mapped at reserved addresses".into()))
    }

    /// What the reserved addresses around `addr` are for; `None` if they are not reserved.
    pub fn reserved_for(&self, addr: usize) -> Option<Purpose> {
        self.spaces.purpose(addr)
    }
}

impl Runtime {
    /// Reserves `len` addresses, a multiple of `align`, near `wish` if that can be.
    pub fn reserve(&self, len: usize, align: usize, wish: usize, purpose: Purpose) -> Result<usize> {
        let spaces = &self.memory().spaces;
        let base = self.memory().address_space()?.reserve(len, align, wish)?;
        lock(&spaces.all).insert(base, Space { len, purpose, mapped: BTreeMap::new() });
        spaces.count.fetch_add(1, Ordering::Relaxed);
        Ok(base)
    }

    /// Gives reserved addresses up. `BadAddress` if they were not reserved like this, or if something is mapped there.
    pub fn release(&self, base: usize, purpose: Purpose) -> Result<()> {
        let spaces = &self.memory().spaces;
        let mut all = lock(&spaces.all);
        let space = all.get(&base).filter(|space| space.purpose == purpose);
        let Some(space) = space else {
            return Err(Kind::BadAddress.because(format!("no reservation starts at {base:#x}")));
        };
        if let Some((at, physical)) = space.mapped.first_key_value() {
            let note = format!(
                "the reservation at {base:#x} still has {} mapped, {} bytes at {at:#x} among it: unmap first",
                space.mapped.len(),
                physical.size()
            );
            return Err(Kind::BadAddress.because(note));
        }
        all.remove(&base);
        spaces.count.fetch_sub(1, Ordering::Relaxed);
        // Under the lock: nobody may be told of these addresses as another reservation before they are gone from the list.
        Ok(self.memory().address_space()?.release(base))
    }

    /// Makes physical memory: `len` bytes in whole pages.
    pub fn physical(&self, device: DeviceId, len: usize, page: usize) -> Result<Arc<Physical>> {
        self.physical_within(device, len, page, PATIENCE)
    }

    /// As [`physical`](Self::physical), with another [`PATIENCE`].
    pub fn physical_within(
        &self,
        device: DeviceId,
        len: usize,
        page: usize,
        patience: Duration,
    ) -> Result<Arc<Physical>> {
        let request = Request { home: Home::Device(device), len, page };
        let block = self.memory().find_room(&request, patience)?;
        Ok(Physical::new(block, self.memory()))
    }

    /// Makes physical memory of the host, page-locked: `len` bytes in whole pages, of a memory node if one is named.
    pub fn host_physical(&self, len: usize, page: usize, node: Option<u32>) -> Result<Arc<Physical>> {
        let block = self.memory().address_space()?.host_pages(len, page, node)?;
        Ok(Physical::new(block, self.memory()))
    }

    /// Maps physical memory at `base`, inside reserved addresses where nothing is mapped yet.
    pub fn map(&self, base: usize, physical: &Arc<Physical>) -> Result<Block> {
        let len = physical.size();
        let mut all = lock(&self.memory().spaces.all);
        let inside = all.range_mut(..=base).next_back().filter(|(start, space)| {
            space.purpose == Purpose::Mappings
                && base - *start <= space.len
                && len <= space.len - (base - *start)
        });
        let Some((_, space)) = inside else {
            let note = format!("{len} bytes at {base:#x} do not lie in addresses of one reservation");
            return Err(Kind::BadAddress.because(note));
        };
        let block = Block { base, origin: Origin::Mapped, ..physical.block };
        self.memory().know(block)?;
        if let Err(error) = self.memory().address_space()?.show(base, &physical.block) {
            self.memory().forget(base, |_| Ok(()))?;
            return Err(error);
        }
        space.mapped.insert(base, physical.clone());
        Ok(block)
    }

    /// Undoes [`map`](Self::map): the addresses are unknown from here on. Work submitted before still uses the memory.
    pub fn unmap(&self, base: usize) -> Result<Block> {
        let mut all = lock(&self.memory().spaces.all);
        let space = all.range_mut(..=base).next_back().map(|(_, space)| space);
        let Some(mapped) = space.and_then(|space| space.mapped.remove(&base)) else {
            return Err(Kind::BadAddress.because(format!("nothing that is mapped starts at {base:#x}")));
        };
        let block = self.memory().forget(base, |_| Ok(()))?;
        self.memory().address_space()?.hide(base, &block);
        drop(all);
        drop(mapped);
        Ok(block)
    }
}
