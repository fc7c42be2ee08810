//! A runtime: one backend, the memory it made, and the streams that may be using it.

use crate::{
    Backend, Block, DeviceId, Fence, Memory, Observer, QueueOptions, Request, Result, Status, Stream,
    sync::{Arc, AtomicU64, Mutex, Ordering, Weak, lock},
};
use smallvec::SmallVec;

/// Everything there is of one backend. Cheap to share by reference; has no global state.
pub struct Runtime {
    backend: Arc<dyn Backend>,
    memory: Arc<Memory>,
    streams: Mutex<Vec<Weak<Stream>>>,
    orphans: Arc<Orphans>,
    born: AtomicU64,
    observer: Option<Arc<dyn Observer>>,
}

/// Work that outlived its stream.
#[derive(Default)]
pub(crate) struct Orphans(Mutex<Vec<Arc<dyn Fence>>>);

impl Orphans {
    pub(crate) fn keep(&self, fence: Arc<dyn Fence>) {
        lock(&self.0).push(fence);
    }

    fn busy(&self) -> Vec<Arc<dyn Fence>> {
        let mut fences = lock(&self.0);
        fences.retain(|fence| !fence.is_done());
        fences.clone()
    }
}

impl Runtime {
    /// A runtime over `backend`, watched by `observer`.
    pub fn new(backend: Arc<dyn Backend>, observer: Option<Arc<dyn Observer>>) -> Self {
        Runtime {
            memory: Arc::new(Memory::new(backend.clone(), observer.clone())),
            backend,
            streams: Mutex::new(Vec::new()),
            orphans: Arc::default(),
            born: AtomicU64::new(0),
            observer,
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
        self.memory.info(device)
    }

    /// Makes memory and lets its addresses be known.
    pub fn alloc(&self, request: &Request) -> Result<Block> {
        self.memory.alloc(request)
    }

    /// Frees the block that starts at `base`, if `fits` agrees, and returns at once. Its addresses are unknown from here on;
    /// the memory is used again only when everything that was submitted before has passed.
    pub fn free(&self, base: usize, fits: impl FnOnce(&Block) -> Result<()>) -> Result<Block> {
        let block = self.memory.forget(base, fits)?;
        let mut until: SmallVec<[Arc<dyn Fence>; 2]> = self.orphans.busy().into();
        for stream in self.streams() {
            until.extend(stream.busy()?);
        }
        self.memory.bury(block, until)?;
        Ok(block)
    }

    /// Makes a stream on a device.
    pub fn stream(&self, device: DeviceId, options: QueueOptions) -> Result<Arc<Stream>> {
        let id = self.born.fetch_add(1, Ordering::Relaxed);
        let status = Arc::new(Status::new(id, self.observer.clone()));
        let stream = Arc::new(Stream {
            id,
            device,
            queue: self.backend.queue(device, options, status.clone())?,
            status,
            last: Mutex::new(0),
            memory: self.memory.clone(),
            orphans: self.orphans.clone(),
            observer: self.observer.clone(),
        });
        lock(&self.streams).push(Arc::downgrade(&stream));
        Ok(stream)
    }

    fn streams(&self) -> Vec<Arc<Stream>> {
        let mut streams = lock(&self.streams);
        streams.retain(|stream| stream.strong_count() > 0);
        streams.iter().filter_map(Weak::upgrade).collect()
    }
}
