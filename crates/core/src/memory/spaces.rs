//! Reserved addresses, and the physical memory that is mapped there.

use crate::{
    AddressSpace, Block, Home, Kind, Memory, Result, Shared,
    backend::lacks,
    sync::{Arc, AtomicUsize, Mutex, Ordering, Weak, lock},
};
use std::{collections::BTreeMap, fmt};

/// Physical memory, without addresses of the user's. It stays as long as anything refers to it: handles,
/// mappings, exports.
pub struct Physical {
    pub(crate) block: Block,
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
pub(crate) struct Reservations {
    pub(crate) count: AtomicUsize,
    pub(crate) all: Mutex<BTreeMap<usize, Reservation>>,
}

pub(crate) struct Reservation {
    pub(crate) len: usize,
    pub(crate) purpose: Purpose,
    pub(crate) mapped: BTreeMap<usize, Arc<Physical>>,
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

    /// Where the engine finds its first byte.
    pub fn at(&self) -> usize {
        self.block.at
    }

    /// Where it is.
    pub fn home(&self) -> Home {
        self.block.home
    }

    /// The file behind it, for another process. The exporter keeps `self` as long as that may use it.
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

impl Reservations {
    /// Refuses a range that reaches into reserved addresses: the address table knows what is mapped, and
    /// there nothing is.
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
                format!(
                    "{what}, which stand for registered host memory at {host:#x}: copies take the host \
                     address"
                )
            }
        }))
    }

    /// The purpose of the reservation that contains `addr`.
    fn purpose(&self, addr: usize) -> Option<Purpose> {
        let all = lock(&self.all);
        let (base, space) = all.range(..=addr).next_back()?;
        (addr - base < space.len).then_some(space.purpose)
    }
}

impl Memory {
    /// Where the backend maps memory.
    pub(crate) fn address_space(&self) -> Result<&dyn AddressSpace> {
        self.backend().address_space().ok_or_else(|| lacks("memory mapped at reserved addresses".into()))
    }

    /// What the reserved addresses around `addr` are for; `None` if they are not reserved.
    pub fn reserved_for(&self, addr: usize) -> Option<Purpose> {
        self.spaces.purpose(addr)
    }
}
