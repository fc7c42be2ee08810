//! Page-locked memory of a lane, which what it copies goes through where it must: pageable memory in a shared stream (relay.rs), and
//! copies inside a device whose two ends share bytes, where no kernel may do them. Copy engines move those portion by portion,
//! in an order in which nothing is written over before it was read.

use crate::bytes::portions;
use crate::cuda::{device::Device, driver::Current, order::queue::Lane};
use ferry_core::{
    Result,
    sync::{Arc, AtomicBool, Mutex, Ordering, lock},
};

/// Chunks: while the CPU has one the device has the other.
pub const CHUNKS: usize = 2;
/// Bytes of a chunk.
pub const CHUNK: usize = 512 << 10;

/// What one lane has of it: its stream keeps portions apart.
pub struct Bounce {
    device: Arc<Device>,
    at: usize,
    is_used: AtomicBool,
}

/// Those that no lane has. They are kept: to give memory back the driver waits for all streams.
#[derive(Default)]
pub struct Bounces(Mutex<Vec<usize>>);

impl Bounce {
    /// Some room. The context is current.
    pub fn new(device: &Arc<Device>) -> Result<Bounce> {
        let spare = lock(&device.bounces.0).pop();
        // SAFETY: it is current, as our caller says.
        let current = unsafe { device.assume_current() };
        let at = spare.map_or_else(|| current.own_pinned(CHUNKS * CHUNK), Ok)?;
        Ok(Bounce { device: device.clone(), at, is_used: AtomicBool::new(false) })
    }

    /// Where the chunks are, for somebody who uses them.
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
    /// The lane has waited for its stream.
    fn drop(&mut self) {
        lock(&self.device.bounces.0).push(self.at);
    }
}

impl Bounces {
    /// Gives all memory back. All lanes are gone.
    pub fn close(&self, current: &Current<'_>) {
        for at in lock(&self.0).drain(..) {
            // SAFETY: made by `Bounce::new`, and the lane that had it has waited for its stream.
            unsafe { current.free_own_pinned(at) };
        }
    }
}

impl Lane {
    /// The lane's own, made when first needed: in a shared stream, and beside one, that is when the stream is shared, for later the
    /// driver may wait for that stream. The context is current.
    pub fn bounce(&self) -> Result<&Bounce> {
        match self.bounce.get() {
            Some(bounce) => Ok(bounce),
            None => Ok(self.bounce.get_or_init({
                let made = Bounce::new(&self.device)?;
                || made
            })),
        }
    }

    /// A row whose ends may share bytes. The context is current.
    pub fn copy_bounced(&self, dst: usize, src: usize, len: usize) -> Result<()> {
        let [chunk, _] = self.bounce()?.chunks();
        portions::steps(len, CHUNK, dst > src).try_for_each(|(skip, part)| {
            self.copy_row(chunk, src + skip, part)?;
            self.copy_row(dst + skip, chunk, part)
        })
    }
}
