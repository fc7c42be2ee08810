//! Which memory exists: allocations by address, what an address belongs to, and freed memory that work in
//! flight still uses.
//!
//! [`Memory`] joins the address table, which is read without a lock, with the backend that makes memory.
//! Freed blocks leave the table at once and wait in `limbo.rs` (deferred reclamation) until no work in flight
//! can reach them. Reserved addresses (`spaces.rs`) and memory of several processes (`exports.rs`) are kept
//! beside it. This folder plans no copies and submits nothing: arrows point to the backend's traits, the
//! table and the submission states of streams.

pub(crate) mod exports;
pub(crate) mod limbo;
pub(crate) mod spaces;

use crate::{
    Access, AddressTable, Backend, Block, DeviceId, DeviceMemory, Error, Home, Kind, Observer, Observers,
    Origin, Place, Request, Result,
    plan::segments::FreeLists,
    submissions::StreamStates,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering, lock},
};
use exports::{Exports, Leases};
use limbo::{Limbo, RECLAIM_POLL};
use spaces::Reservations;
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    ops::Range,
    time::{Duration, Instant},
};

/// What the address table knows of a range.
pub(crate) enum Known {
    /// All of it lies in this block.
    Whole(Block),
    /// It starts in this block and goes on through blocks mapped next to it.
    Pieces(Block),
    /// It starts in registered memory and leaves it, so as a whole it is pageable.
    Pageable,
    /// Nothing: it is another library's, or plain host memory, or not mapped at all.
    Not,
}

/// All memory of a runtime: the address table, the backend that makes memory, and limbo.
pub struct Memory {
    table: AddressTable,
    backend: Arc<dyn Backend>,
    limbo: Mutex<Limbo>,
    /// Locked while blocks are on their way from limbo to the backend.
    reclaiming: Mutex<()>,
    streams: StreamStates,
    pub(crate) spaces: Reservations,
    pub(crate) exports: Exports,
    pub(crate) leases: Leases,
    free_lists: Arc<FreeLists>,
    seal_key: u64,
    has_mappings: AtomicBool,
    observers: Option<Arc<Observers>>,
    /// How many graphs were begun.
    graphs: AtomicU64,
}

impl Memory {
    pub(crate) fn new(backend: Arc<dyn Backend>, observers: Option<Arc<Observers>>) -> Self {
        let seal_key = RandomState::new().build_hasher().finish();
        Memory {
            table: AddressTable::new(),
            free_lists: Arc::default(),
            backend,
            limbo: Mutex::default(),
            reclaiming: Mutex::default(),
            streams: StreamStates::default(),
            spaces: Reservations::default(),
            exports: Exports::default(),
            leases: Leases::default(),
            seal_key,
            has_mappings: AtomicBool::new(false),
            observers,
            graphs: AtomicU64::new(0),
        }
    }

    /// Tells observers, if there are any.
    #[inline]
    pub(crate) fn tell(&self, what: impl Fn(&dyn Observer)) {
        if let Some(observers) = &self.observers {
            observers.tell(what);
        }
    }

    /// A number for a graph of this runtime.
    pub(crate) fn number_graph(&self) -> u32 {
        self.graphs.fetch_add(1, Ordering::Relaxed) as u32 + 1
    }

    /// The address table.
    pub fn table(&self) -> &AddressTable {
        &self.table
    }

    /// The key that seals copy descriptors of this runtime, so that other bytes are recognised.
    pub fn seal_key(&self) -> u64 {
        self.seal_key
    }

    /// What `len` bytes at the user's `addr` are. A range that starts in an allocation must end in it, or go
    /// on through blocks mapped next to each other (the first of them is told); plain host memory must be
    /// accessible.
    pub fn place(&self, addr: usize, len: usize, access: Access) -> Result<Place> {
        match self.known(addr, len)? {
            Known::Whole(block) | Known::Pieces(block) => Ok(Place::Known(block)),
            Known::Pageable => self.plain(addr, len, access).map(|()| Place::Plain),
            Known::Not => Ok(self.locate(addr, len, access)?.map_or(Place::Plain, Place::Known)),
        }
    }

    /// What the table knows of a range.
    pub(crate) fn known(&self, addr: usize, len: usize) -> Result<Known> {
        let Some(block) = self.table.find(addr) else { return Ok(Known::Not) };
        match block.translate(addr, len) {
            Some(_) => Ok(Known::Whole(block)),
            None => self.leaves(block, addr, len),
        }
    }

    /// A range that starts in `block` and leaves it.
    #[cold]
    fn leaves(&self, block: Block, addr: usize, len: usize) -> Result<Known> {
        if block.origin == Origin::Registered {
            return Ok(Known::Pageable);
        }
        // The address may lie behind the block, in the rest of its last granule.
        let is_inside = addr - block.base < block.len;
        let mut last = block;
        while let Some(more) = self.mapped_behind(&last).filter(|_| is_inside) {
            if len <= more.base + more.len - addr {
                return Ok(Known::Pieces(block));
            }
            last = more;
        }
        let whole = Block { len: last.base + last.len - block.base, ..block };
        Err(whole.left_by(addr, len))
    }

    /// The piece that is mapped right behind a mapped one, on the same device.
    fn mapped_behind(&self, block: &Block) -> Option<Block> {
        let next = block.base + block.len;
        let more = self.table.find(next).filter(|_| block.origin == Origin::Mapped)?;
        ((more.base, more.home, more.origin) == (next, block.home, Origin::Mapped)).then_some(more)
    }

    /// What a range that the table does not know belongs to, by its first byte; nothing is touched.
    pub(crate) fn beyond(&self, addr: usize, access: Access) -> Result<Place> {
        Ok(self.locate(addr, 0, access)?.map_or(Place::Plain, Place::Known))
    }

    /// The backend's word on addresses that the table does not know.
    fn locate(&self, addr: usize, len: usize, access: Access) -> Result<Option<Block>> {
        self.spaces.refuse(addr, len)?;
        self.backend.locate(addr, len, access)
    }

    /// Whether none of a range was reserved for memory that is mapped.
    pub(crate) fn is_unreserved(&self, range: &Range<usize>) -> bool {
        self.spaces.refuse(range.start, range.len()).is_ok()
    }

    /// Makes sure that `len` bytes at `addr` are plain host memory that can be accessed.
    pub(crate) fn plain(&self, addr: usize, len: usize, access: Access) -> Result<()> {
        match self.locate(addr, len, access)? {
            None => Ok(()),
            Some(block) => {
                Err(Kind::BadAddress.because(format!("{len} bytes at {addr:#x} reach into {block}")))
            }
        }
    }

    /// Memory for the lists of plans of many pieces.
    pub(crate) fn free_lists(&self) -> &Arc<FreeLists> {
        &self.free_lists
    }

    /// The submission states of all streams, whose work may still need freed memory.
    pub(crate) fn streams(&self) -> &StreamStates {
        &self.streams
    }

    pub(crate) fn alloc(&self, request: &Request, patience: Duration) -> Result<Block> {
        let block = self.find_room(request, patience)?;
        self.introduce(block)
    }

    /// Whether memory was ever mapped at an address that is not the engine's. Until then the user's addresses
    /// are the engine's.
    pub fn has_mappings(&self) -> bool {
        self.has_mappings.load(Ordering::Relaxed)
    }

    /// Makes a block of the backend's known.
    pub(crate) fn introduce(&self, block: Block) -> Result<Block> {
        if let Err(error) = self.know(block) {
            // SAFETY: just made, and no op can know its addresses.
            unsafe { self.backend.free(&block)? };
            return Err(error);
        }
        Ok(block)
    }

    /// Lets the addresses of `block` be known.
    pub(crate) fn know(&self, block: Block) -> Result<()> {
        self.know_once(block, || Ok(()))
    }

    /// The same for memory that `show` makes accessible, which is called if the addresses are free: observers
    /// are told of memory that is there.
    pub(crate) fn know_once(&self, block: Block, show: impl FnOnce() -> Result<()>) -> Result<()> {
        if block.base != block.at {
            self.has_mappings.store(true, Ordering::Relaxed);
        }
        self.table.insert(block)?;
        if let Err(error) = show() {
            self.leave_table(block.base, |_| Ok(()))?;
            return Err(error);
        }
        self.tell(|observer| observer.known(&block));
        Ok(())
    }

    /// Makes the addresses of the block at `base` unknown, if `fits` agrees.
    pub(crate) fn forget(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        let block = self.leave_table(base, fits)?;
        self.tell(|observer| observer.forgotten(&block));
        Ok(block)
    }

    fn leave_table(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        let block = self.table.remove(base, fits)?;
        if let Some(watch) = self.backend.block_watch() {
            watch.forgotten(&block);
        }
        Ok(block)
    }

    /// Gives a block that has left the table back to the backend, once everything submitted until now has
    /// passed.
    pub(crate) fn retire(&self, block: Block) -> Result<()> {
        lock(&self.limbo).add(block);
        self.try_reclaim()
    }

    /// The backend.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Whether host and device memory are one.
    pub fn is_unified(&self) -> bool {
        self.backend.features().is_unified
    }

    /// Asks the backend; if it has no room while freed memory waits for work in flight, waits for that work,
    /// but no longer than `patience`.
    pub(crate) fn find_room(&self, request: &Request, patience: Duration) -> Result<Block> {
        self.try_reclaim()?;
        let out_of_memory = match self.backend.alloc(request) {
            Err(error) if error.kind == Kind::OutOfMemory && self.could_fit(request) => error,
            other => return other,
        };
        let end = Instant::now() + patience;
        loop {
            self.reclaim()?;
            match self.backend.alloc(request) {
                Err(error) if error.kind == Kind::OutOfMemory => {}
                other => return other,
            }
            let held_by = lock(&self.limbo).held_by(request.home);
            match held_by {
                // The fence may lie behind work without addresses, which need not be waited for: check again
                // soon.
                Some(fence) if Instant::now() < end => drop(fence.wait(Some(RECLAIM_POLL))),
                _ => return Err(self.and_what_waits(&out_of_memory, request.home)),
            }
        }
    }

    /// The error of a request that finds no room: memory that was freed may not be back.
    #[cold]
    fn and_what_waits(&self, error: &Error, home: Home) -> Error {
        match lock(&self.limbo).bytes(home) {
            0 => error.clone(),
            bytes => error.kind.because(format!(
                "{error}; {bytes} bytes that were freed come back when copies queued before that have passed"
            )),
        }
    }

    /// Whether the request could be met if nothing else were allocated.
    fn could_fit(&self, request: &Request) -> bool {
        match request.home {
            Home::Host => true,
            Home::Device(device) => {
                self.backend.memory(device).is_ok_and(|memory| request.len <= memory.total)
            }
        }
    }

    /// Forgets the block at `base`, if `fits` agrees: from here on its addresses are unknown. Its memory is
    /// given back when everything that was submitted until now has passed.
    pub(crate) fn free(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        let block = self.forget(base, fits)?;
        if !self.exports.retain(&block) {
            self.retire(block)?;
        }
        Ok(block)
    }

    /// The memory of a device, after giving back all that can be.
    pub(crate) fn info(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.reclaim()?;
        self.backend.memory(device)
    }

    /// Gives back every block of limbo that no work in flight can use. If another thread is reclaiming, waits
    /// for it first: afterwards everything that could be given back has been.
    fn reclaim(&self) -> Result<()> {
        self.free_due(&lock(&self.reclaiming))
    }

    /// As `reclaim`, unless another thread is reclaiming: giving much back takes the system a while.
    fn try_reclaim(&self) -> Result<()> {
        self.reclaiming.try_lock().map_or(Ok(()), |reclaiming| self.free_due(&reclaiming))
    }

    fn free_due(&self, reclaiming: &MutexGuard<'_, ()>) -> Result<()> {
        let due = lock(&self.limbo).due(&self.streams)?;
        self.free_all(reclaiming, &due)
    }

    /// Gives back what was registered in a range before and no op in flight uses, since the range is
    /// registered again and there may be other memory by now. What is in use is still the same memory: its
    /// user keeps it mapped until the op has passed.
    pub(crate) fn make_way(&self, base: usize, len: usize) -> Result<()> {
        let reclaiming = lock(&self.reclaiming);
        let unused = lock(&self.limbo).take_unused(base, len, |base| self.streams.are_using(base));
        self.free_all(&reclaiming, &unused)
    }

    fn free_all(&self, _reclaiming: &MutexGuard<'_, ()>, due: &[Block]) -> Result<()> {
        let given = due.iter().map(|block| {
            let _until_unmapped = self.leases.take(block);
            self.tell(|observer| observer.reused(block));
            // SAFETY: the block came from the backend, it left the table when it was freed, and every op of
            // the streams that were busy after that and could reach it has passed.
            unsafe { self.backend.free(block) }
        });
        given.fold(Ok(()), Result::and)
    }
}
