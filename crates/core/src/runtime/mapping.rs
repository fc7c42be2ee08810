//! Virtual memory: reserved addresses, and physical memory that is mapped there piece by piece.
//!
//! A mapping is a block of the address table whose user's address lies in a reservation and whose engine's
//! address is the physical memory's own. So work that was submitted before an unmap still moves the bytes it
//! meant, whatever is mapped there next; the physical memory is used again when its last owner is gone and
//! that work has passed.

use crate::{
    Block, DeviceId, Home, Kind, Origin, Physical, Purpose, RECLAIM_TIMEOUT, Request, Result, Runtime,
    memory::spaces::Reservation,
    sync::{Arc, Ordering, lock},
};
use std::{collections::BTreeMap, time::Duration};

impl Runtime {
    /// Reserves `len` addresses, a multiple of `align`, near `wish` if that can be.
    pub fn reserve(&self, len: usize, align: usize, wish: usize, purpose: Purpose) -> Result<usize> {
        let spaces = &self.memory().spaces;
        let base = self.memory().address_space()?.reserve(len, align, wish)?;
        lock(&spaces.all).insert(base, Reservation { len, purpose, mapped: BTreeMap::new() });
        spaces.count.fetch_add(1, Ordering::Relaxed);
        Ok(base)
    }

    /// Gives reserved addresses up. `BadAddress` if they were not reserved like this, or if something is
    /// mapped there.
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
        // Under the lock: the backend may reserve these addresses again at once, and that reservation must
        // not be in the list before this one has left it.
        self.memory().address_space()?.release(base);
        Ok(())
    }

    /// Makes physical memory: `len` bytes in whole pages.
    pub fn physical(&self, device: DeviceId, len: usize, page: usize) -> Result<Arc<Physical>> {
        self.physical_within(device, len, page, RECLAIM_TIMEOUT)
    }

    /// As [`physical`](Self::physical), with another [`RECLAIM_TIMEOUT`].
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

    /// Makes physical memory of the host, page-locked: `len` bytes in whole pages, of a memory node if one is
    /// named.
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
        let addresses = self.memory().address_space()?;
        self.memory().know_once(block, || addresses.show(base, &physical.block))?;
        space.mapped.insert(base, physical.clone());
        Ok(block)
    }

    /// Undoes [`map`](Self::map): the addresses are unknown from here on. Work submitted before still uses
    /// the memory.
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
