//! Memory that the driver makes, pins, recognises and shares.
//!
//! Blocks come from an [`allocator`] of the driver's allocations, with a quarantine, a free list and a quota
//! for each device. Memory of the user's is pinned by [`registrations`], memory of other processes is opened
//! by [`imports`], and memory of other libraries in the process is recognised by what the driver says of its
//! addresses ([`foreign`]). [`Memory`] is all of them together, as the backend has them.
//!
//! Nothing here puts work into a stream or waits for one. What makes the driver wait for all streams goes
//! through [`ImplicitSync`], which may defer it. The folder stands on
//! `driver/` alone.

mod allocations;
mod allocator;
mod chunks;
mod foreign;
mod free_list;
mod imports;
mod ipc;
mod mapped_pinned;
mod pinned_ranges;
mod quota;
mod registrations;

use crate::cuda::driver::{Contexts, ImplicitSync};
use crate::os::{probe, ranges::Reservations};
use crate::{unallocated, usage::Usage};
use allocator::Allocator;
use ferry_core::{
    Access, Block, Home, Kind, Origin, Result, Shared,
    sync::{Arc, lock},
};
use imports::Imports;
pub use pinned_ranges::PinnedRanges;
pub use quota::Quota;
use registrations::Registrations;
use std::{borrow::Cow, cell::Cell, ops::Range};

thread_local! {
    /// The address that was located last, if only that one byte was asked about and the driver does not know
    /// it. The core asks where a range begins first, and next about all of it: the driver has said it then.
    static UNKNOWN_TO_DRIVER: Cell<Option<usize>> = const { Cell::new(None) };
}

/// All memory that a backend knows.
pub struct Memory {
    contexts: Arc<Contexts>,
    /// Blocks that this backend makes.
    pub allocator: Arc<Allocator>,
    /// Memory of the user's that is pinned.
    pub registrations: Registrations,
    /// Memory of other processes.
    pub imports: Imports,
    /// Addresses that were set aside: for imports, and for mapped memory as devices see it.
    pub reservations: Arc<Reservations>,
    /// Where other processes read how much this one has.
    usage: Option<Arc<Usage>>,
}

impl Memory {
    /// The memory of devices with these contexts and quotas.
    pub fn new(
        contexts: &Arc<Contexts>,
        sync: &Arc<ImplicitSync>,
        quotas: Vec<Quota>,
        usage: Option<Arc<Usage>>,
    ) -> Memory {
        let reservations = Arc::<Reservations>::default();
        Memory {
            contexts: contexts.clone(),
            allocator: Allocator::new(contexts.clone(), sync.clone(), quotas),
            registrations: Registrations::new(contexts.clone(), sync.clone()),
            imports: Imports::new(contexts.clone(), sync.clone(), reservations.clone()),
            reservations,
            usage,
        }
    }

    /// As [`Backend::free`](ferry_core::Backend::free).
    ///
    /// # Safety
    /// The block came from here, and nothing uses it any more.
    pub unsafe fn free(&self, block: &Block) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match block.origin {
                Origin::Registered => self.registrations.unregister(block.base, block.len),
                Origin::Allocated => self.allocator.free(block),
                _ => self.imports.close(block),
            }
        }
    }

    /// As [`Sharing::share`](ferry_core::Sharing::share).
    pub fn share(&self, block: &Block) -> Result<Shared> {
        let imported = || Kind::BadAddress.because(format!("{block} is another process's, which shares it"));
        let allocation = self.allocator.lend(block.at).ok_or_else(imported)?;
        self.imports.export(block, allocation)
    }

    /// As [`Backend::locate`](ferry_core::Backend::locate). The core asks about addresses that are in no
    /// block it knows: a freed one, or the neighbour of a plain range.
    pub fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        if let Some(owner) = self.owner(addr, len) {
            return Err(unallocated::refusal(addr, len, &owner));
        }
        // The core knows of no registration here: it is over, though copies may still use the pages, or does
        // not reach so far.
        let is_known = UNKNOWN_TO_DRIVER.take() == Some(addr) && len > 0;
        let is_plain = is_known || lock(self.registrations.pinned()).meets(addr, len);
        let found = if is_plain { None } else { foreign::locate(&self.contexts, addr, len)? };
        if len == 0 && found.is_none() {
            UNKNOWN_TO_DRIVER.set(Some(addr));
        }
        match found {
            // Host memory that is page-locked in part only is pageable.
            Some(block) if block.home != Home::Host || block.translate(addr, len).is_some() => {
                Ok(Some(block))
            }
            _ => probe::remembered::accessible(addr, len, access).map(|()| None),
        }
    }

    /// Whether the mapping around `addr` is plain memory: nothing in it is ours, and the driver does not know
    /// that address. Other parts of it that another library page-locked are then copied as plain memory.
    pub fn is_plain_around(&self, addr: usize, mapping: &Range<usize>) -> bool {
        self.owner(mapping.start, mapping.len()).is_none()
            && matches!(foreign::locate(&self.contexts, addr, 1), Ok(None))
    }

    /// Whose these addresses are that are not the program's.
    fn owner(&self, addr: usize, len: usize) -> Option<Cow<'static, str>> {
        if let Some(home) = self.allocator.reached(addr, len) {
            return Some(unallocated::name(home).into());
        }
        if self.imports.meets(addr, len) {
            return Some(unallocated::IMPORTED.into());
        }
        let is_table = self.usage.as_ref().is_some_and(|usage| usage.meets(addr, len));
        (is_table || self.contexts.driver().is_own(addr, len)).then_some(unallocated::OWN.into())
    }
}
