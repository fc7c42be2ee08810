//! A runtime: one backend, the memory it made, and the streams that may be using it.
//!
//! The top of the core: what a front end opens and calls. It makes memory known, makes streams, maps physical
//! memory at reserved addresses (`mapping.rs`) and exchanges memory with other processes (`share.rs`). It
//! plans and submits nothing itself: that is done by a [`Stream`]. It has no global state, so that a process
//! may have several.

mod mapping;
pub(crate) mod share;

use crate::{
    Backend, Block, CopyFaults, DeviceId, DeviceMemory, Fence, Halt, JoinKind, Memory, Observer, Observers,
    Queue, QueueOptions, RECLAIM_TIMEOUT, Request, Resolver, Result, Status, Stream,
    faulty::FaultyQueue,
    queue::unshared,
    submissions::StreamState,
    sync::{Arc, AtomicU64, CachePadded, Ordering, Weak, lock},
};
use std::time::Duration;

/// Everything there is of one backend. Cheap to share by reference; has no global state.
pub struct Runtime {
    backend: Arc<dyn Backend>,
    memory: Arc<Memory>,
    born: AtomicU64,
    observers: Option<Arc<Observers>>,
    faults: Option<Arc<dyn CopyFaults>>,
}

impl Runtime {
    /// A runtime over `backend`, watched by `observers`.
    pub fn new(backend: Arc<dyn Backend>, observers: Vec<Arc<dyn Observer>>) -> Self {
        let observers = Observers::new(observers);
        let memory = Arc::new(Memory::new(backend.clone(), observers.clone()));
        Runtime { memory, backend, born: AtomicU64::new(0), observers, faults: None }
    }

    /// The same runtime, in which these copies fail.
    pub fn with_faults(self, faults: Option<Arc<dyn CopyFaults>>) -> Self {
        Runtime { faults, ..self }
    }

    /// The calling thread has learnt that the work that `fence` stands for has passed: observers are told.
    #[inline]
    pub fn joined(&self, fence: &dyn Fence, how: JoinKind) {
        if let Some(observers) = &self.observers
            && let Some(point) = fence.point()
        {
            observers.tell(|observer| observer.joined(point, how));
        }
    }

    /// A function that the calling thread ran as the next op behind what `fence` stands for has returned:
    /// observers are told before the stream goes on.
    pub fn returned(&self, fence: &dyn Fence) {
        if let (Some(observers), Some(point)) = (&self.observers, fence.point()) {
            observers.tell(|observer| observer.returned(point));
        }
    }

    /// The backend.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// All memory, for planning.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Free and total bytes of a device. Memory that work in flight still uses is not free.
    pub fn memory_info(&self, device: DeviceId) -> Result<(usize, usize)> {
        self.device_memory(device).map(|memory| (memory.free, memory.total))
    }

    /// The memory of a device, after what was freed and no work in flight uses any more was given back.
    pub fn device_memory(&self, device: DeviceId) -> Result<DeviceMemory> {
        self.memory.info(device)
    }

    /// Makes memory and lets its addresses be known.
    pub fn alloc(&self, request: &Request) -> Result<Block> {
        self.alloc_within(request, RECLAIM_TIMEOUT)
    }

    /// As [`alloc`](Self::alloc), with another [`RECLAIM_TIMEOUT`].
    pub fn alloc_within(&self, request: &Request, patience: Duration) -> Result<Block> {
        self.memory.alloc(request, patience)
    }

    /// Frees the block that starts at `base`, if `fits` agrees, and returns at once. Its addresses are
    /// unknown from here on; the memory is used again only when everything that was submitted before has
    /// passed.
    pub fn free(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        self.memory.free(base, fits)
    }

    /// Lets memory of the user's, page-locked, be known. `BadAddress` if some of it is known already.
    pub fn register(&self, base: usize, len: usize) -> Result<Block> {
        self.memory.make_way(base, len)?;
        let block = self.backend.register(base, len)?;
        self.memory.introduce(block)
    }

    /// Makes a stream on a device.
    pub fn stream(&self, device: DeviceId, options: QueueOptions) -> Result<Arc<Stream>> {
        self.stream_under(None, device, options)
    }

    /// Makes a stream that stops for good, with all others like it, when `halt` trips.
    pub fn stream_under(
        &self,
        halt: Option<&Arc<Halt>>,
        device: DeviceId,
        options: QueueOptions,
    ) -> Result<Arc<Stream>> {
        self.stream_over(halt, device, |status| self.backend.queue(device, options, status))
    }

    /// Makes a stream over one of another library's, which that library goes on using: see [`Stream::share`].
    /// It stops as [`stream_under`](Self::stream_under) says, and leaves the other library's stream alone
    /// when it goes.
    ///
    /// # Safety
    /// `native` is what the backend's driver calls a stream, and outlives this one.
    pub unsafe fn adopt(
        &self,
        halt: Option<&Arc<Halt>>,
        device: DeviceId,
        native: usize,
    ) -> Result<Arc<Stream>> {
        let streams = self.backend.native_streams();
        let streams = streams.ok_or_else(|| unshared(format!("adopting stream {native:#x}")))?;
        // SAFETY: passed on from the caller.
        let adopt = |status| unsafe { streams.adopt(device, native, status) };
        let stream = self.stream_over(halt, device, adopt)?;
        lock(&stream.state.submitted).is_shared = true;
        Ok(stream)
    }

    fn stream_over(
        &self,
        halt: Option<&Arc<Halt>>,
        device: DeviceId,
        queue: impl FnOnce(Arc<Status>) -> Result<Box<dyn Queue>>,
    ) -> Result<Arc<Stream>> {
        let id = self.born.fetch_add(1, Ordering::Relaxed);
        let resolver: Weak<dyn Resolver> = Arc::<Memory>::downgrade(&self.memory);
        let status = Status::new(id, self.observers.clone()).resolving_with(resolver);
        let status = Arc::new(match halt {
            Some(halt) => status.under(halt.clone()),
            None => status,
        });
        let mut queue = queue(status.clone())?;
        if let Some(faults) = &self.faults {
            queue = Box::new(FaultyQueue::new(queue, status.clone(), faults.clone()));
        }
        let state = Arc::new(StreamState { queue, status, submitted: CachePadded::default() });
        lock(&state.submitted).is_diverted = self.observers.is_some();
        self.memory.streams().add(state.clone());
        if let Some(halt) = halt {
            halt.add(&state.status);
        }
        let (memory, observers) = (self.memory.clone(), self.observers.clone());
        let stream = Stream { id, device, state, memory, observers };
        stream.tell(|observer| observer.stream_made(id, device));
        Ok(Arc::new(stream))
    }
}
