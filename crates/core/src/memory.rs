//! Which memory exists: allocations by address, what an address belongs to, and freed memory that work in flight still uses.

use crate::{
    AddressTable, Backend, Error, Kind, Observer, Result,
    limbo::{LOOK_AGAIN, Limbo, PATIENCE},
    line::Lines,
    sync::{Arc, Mutex, MutexGuard, lock},
};
use std::{
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    time::Instant,
};

/// The number of a device, from 0.
pub type DeviceId = u32;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// Page-locked memory of the host.
    Host,
    /// Memory of a device.
    Device(DeviceId),
}

/// An allocation: `base` is what the user holds, `at` is where the engine finds the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// The user's address of the first byte.
    pub base: usize,
    /// Bytes that may be used.
    pub len: usize,
    /// Where the bytes live.
    pub home: Home,
    /// The engine's address of the first byte.
    pub at: usize,
    /// The size of the pages it was asked to be made of.
    pub page: usize,
}

/// What is asked of a backend's allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where.
    pub home: Home,
    /// Bytes that must be usable.
    pub len: usize,
    /// Pages to make it of; `base` is aligned to it and whole pages are taken.
    pub page: usize,
}

/// What will be done with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It is a source.
    Read,
    /// It is a destination.
    Write,
}

/// What an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An allocation that the engine knows, or that another library made on a device.
    Known(Block),
    /// Pageable host memory.
    Plain,
}

impl Block {
    /// The engine's address of the user's `addr`, if `len` bytes from there lie inside the block.
    pub fn translate(&self, addr: usize, len: usize) -> Option<usize> {
        let offset = addr.checked_sub(self.base)?;
        (offset <= self.len && len <= self.len - offset).then(|| self.at + offset)
    }
}

impl Block {
    /// The error of a range that starts in the block and leaves it.
    #[cold]
    pub(crate) fn left_by(&self, addr: usize, len: usize) -> Error {
        let room = self.len.saturating_sub(addr - self.base);
        Kind::OutOfBounds
            .because(format!("{len} bytes at {addr:#x} leave their block, {self}: {room} bytes fit there"))
    }
}

impl Place {
    /// The device, for device memory.
    pub fn device(&self) -> Option<DeviceId> {
        match self {
            Place::Known(Block { home: Home::Device(device), .. }) => Some(*device),
            _ => None,
        }
    }

    /// The engine's address of the user's `addr`, which lies in this place.
    pub fn engine_address(&self, addr: usize) -> usize {
        match self {
            Place::Known(block) => block.at + (addr - block.base),
            Place::Plain => addr,
        }
    }

    /// Whether this is pageable host memory: copies of it finish before the call returns.
    pub fn is_plain(&self) -> bool {
        matches!(self, Place::Plain)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.home {
            Home::Host => write!(f, "page-locked host allocation {:#x} of {} bytes", self.base, self.len),
            Home::Device(device) => {
                write!(f, "device {device} allocation {:#x} of {} bytes", self.base, self.len)
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Known(block) => block.fmt(f),
            Place::Plain => f.write_str("plain host memory"),
        }
    }
}

/// All memory of a runtime: the address table, the backend that makes memory, and limbo.
pub struct Memory {
    table: AddressTable,
    backend: Arc<dyn Backend>,
    limbo: Mutex<Limbo>,
    /// Held while blocks are on their way from limbo to the backend.
    giving: Mutex<()>,
    lines: Lines,
    seal_key: u64,
    observer: Option<Arc<dyn Observer>>,
}

impl Memory {
    pub(crate) fn new(backend: Arc<dyn Backend>, observer: Option<Arc<dyn Observer>>) -> Self {
        let seal_key = RandomState::new().build_hasher().finish();
        Memory {
            table: AddressTable::new(),
            backend,
            limbo: Mutex::default(),
            giving: Mutex::default(),
            lines: Lines::default(),
            seal_key,
            observer,
        }
    }

    /// The address table.
    pub fn table(&self) -> &AddressTable {
        &self.table
    }

    /// The key that seals copy descriptors of this runtime, so that bytes nobody sealed are recognised.
    pub fn seal_key(&self) -> u64 {
        self.seal_key
    }

    /// What `len` bytes at the user's `addr` are. A range that starts in an allocation must end in it; plain host memory
    /// must be accessible.
    pub fn place(&self, addr: usize, len: usize, access: Access) -> Result<Place> {
        match self.known(addr, len) {
            Some(known) => known.map(Place::Known),
            None => Ok(self.backend.locate(addr, len, access)?.map_or(Place::Plain, Place::Known)),
        }
    }

    /// The allocation in which `addr` lies, if there is one; `len` bytes from there must lie in it too.
    #[inline]
    pub(crate) fn known(&self, addr: usize, len: usize) -> Option<Result<Block>> {
        let block = self.table.find(addr)?;
        Some(match block.translate(addr, len) {
            Some(_) => Ok(block),
            None => Err(block.left_by(addr, len)),
        })
    }

    /// Makes sure that `len` bytes at `addr` are plain host memory that can be accessed.
    pub(crate) fn plain(&self, addr: usize, len: usize, access: Access) -> Result<()> {
        match self.backend.locate(addr, len, access)? {
            None => Ok(()),
            Some(block) => {
                Err(Kind::BadAddress.because(format!("{len} bytes at {addr:#x} reach into {block}")))
            }
        }
    }

    /// The lines of all streams: whose work may still need freed memory.
    pub(crate) fn lines(&self) -> &Lines {
        &self.lines
    }

    pub(crate) fn alloc(&self, request: &Request) -> Result<Block> {
        let block = self.find_room(request)?;
        if let Err(error) = self.table.insert(block) {
            // SAFETY: just made, and nobody has seen it.
            unsafe { self.backend.free(&block)? };
            return Err(error);
        }
        if let Some(observer) = &self.observer {
            observer.allocated(&block);
        }
        Ok(block)
    }

    /// Asks the backend; if it has no room while freed memory waits for work in flight, waits a little for that work.
    fn find_room(&self, request: &Request) -> Result<Block> {
        self.settle_in_passing()?;
        let out_of_memory = match self.backend.alloc(request) {
            Err(error) if error.kind == Kind::OutOfMemory && self.could_fit(request) => error,
            other => return other,
        };
        let end = Instant::now() + PATIENCE;
        loop {
            self.settle()?;
            match self.backend.alloc(request) {
                Err(error) if error.kind == Kind::OutOfMemory => {}
                other => return other,
            }
            let held_by = lock(&self.limbo).held_by(request.home);
            match held_by {
                // The fence may lie behind work that nobody needs to wait for: look again soon.
                Some(fence) if Instant::now() < end => drop(fence.wait(Some(LOOK_AGAIN))),
                _ => return Err(out_of_memory),
            }
        }
    }

    /// Whether the request could be met if nothing else were allocated.
    fn could_fit(&self, request: &Request) -> bool {
        match request.home {
            Home::Host => true,
            Home::Device(device) => self.backend.memory(device).is_ok_and(|(_, total)| request.len <= total),
        }
    }

    /// Forgets the block at `base`, if `fits` agrees: from here on its addresses are unknown. Its memory is given back when
    /// everything that was submitted until now has passed.
    pub(crate) fn free(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        let block = self.table.remove(base, fits)?;
        if let Some(observer) = &self.observer {
            observer.freed(&block);
        }
        lock(&self.limbo).add(block);
        self.settle_in_passing()?;
        Ok(block)
    }

    /// Free and total bytes of a device, after giving back all that can be.
    pub(crate) fn info(&self, device: DeviceId) -> Result<(usize, usize)> {
        self.settle()?;
        self.backend.memory(device)
    }

    /// Gives back what in limbo has been passed by now, and waits for whoever is giving back already: afterwards, what could be
    /// given back has been.
    fn settle(&self) -> Result<()> {
        self.give_back(&lock(&self.giving))
    }

    /// As `settle`, unless somebody else is at it: giving much back takes the system a while, and nobody needs to wait for it.
    fn settle_in_passing(&self) -> Result<()> {
        self.giving.try_lock().map_or(Ok(()), |giving| self.give_back(&giving))
    }

    fn give_back(&self, _giving: &MutexGuard<'_, ()>) -> Result<()> {
        let due = lock(&self.limbo).due(&self.lines)?;
        // SAFETY: the blocks came from `alloc`, they left the table when they were freed, and every op of the lines that were
        // busy after that and could reach them has passed.
        let given = due.iter().map(|block| unsafe { self.backend.free(block) });
        given.fold(Ok(()), Result::and)
    }
}
