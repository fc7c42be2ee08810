//! Bounce buffers: pinned memory of a stream that copies go through where they must.
//!
//! Pageable memory in a shared stream goes through one, and so do copies inside a device whose two ends
//! overlap, where no kernel may do them: copy engines move those portion by portion, in an order in which
//! nothing is overwritten before it was read.

use crate::cuda::driver::Current;
use ferry_core::{
    Result,
    sync::{Arc, AtomicBool, Mutex, Ordering, lock},
};

/// Chunks: while the CPU has one the device has the other.
pub const CHUNKS: usize = 2;
/// Bytes of a chunk.
pub const CHUNK: usize = 512 << 10;

/// The bounce buffer of one stream, whose order keeps portions apart.
pub struct Bounce {
    pool: Arc<Bounces>,
    at: usize,
    is_used: AtomicBool,
}

/// The free list of the bounce buffers of a device. They are kept: to give memory back the driver waits for
/// all streams.
#[derive(Default)]
pub struct Bounces(Mutex<Vec<usize>>);

impl Bounce {
    /// A buffer, from the free list if there is one.
    pub fn new(pool: &Arc<Bounces>, current: &Current<'_>) -> Result<Bounce> {
        let spare = lock(&pool.0).pop();
        let at = spare.map_or_else(|| current.own_pinned(CHUNKS * CHUNK), Ok)?;
        Ok(Bounce { pool: pool.clone(), at, is_used: AtomicBool::new(false) })
    }

    /// Where the chunks are, for a caller that uses them.
    pub fn chunks(&self) -> [usize; CHUNKS] {
        self.is_used.store(true, Ordering::Relaxed);
        std::array::from_fn(|index| self.at + index * CHUNK)
    }

    /// Whether something may be on its way through it.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

impl Drop for Bounce {
    /// The stream has done what went through it.
    fn drop(&mut self) {
        lock(&self.pool.0).push(self.at);
    }
}

impl Bounces {
    /// Gives all memory back. All streams are gone.
    pub fn close(&self, current: &Current<'_>) {
        for at in lock(&self.0).drain(..) {
            // SAFETY: made by `Bounce::new`, and the stream that had it has done its work.
            unsafe { current.free_own_pinned(at) };
        }
    }
}
