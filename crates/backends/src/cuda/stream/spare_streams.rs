//! CUDA streams that are made beforehand.
//!
//! While a shared stream is held the driver may wait for it to make another one, where the two would share a
//! hardware channel, and lets no other thread in meanwhile. So some are made before.

use crate::cuda::driver::{Current, StreamHandle};
use ferry_core::{
    Result,
    sync::{Mutex, lock},
};

/// Streams that are kept.
const KEPT: usize = 16;

/// The free list of a device's streams, with nothing in them.
#[derive(Default)]
pub struct SpareStreams(Mutex<Vec<StreamHandle>>);

impl SpareStreams {
    /// One of them.
    pub fn take(&self) -> Option<StreamHandle> {
        lock(&self.0).pop()
    }

    /// Makes some, until there are enough or `make` makes none.
    pub fn stock(&self, make: impl Fn() -> Option<Result<StreamHandle>>) -> Result<()> {
        while lock(&self.0).len() < KEPT {
            let Some(made) = make() else { break };
            lock(&self.0).push(made?);
        }
        Ok(())
    }

    /// Gives all back.
    pub fn close(&self, current: &Current<'_>) {
        for stream in lock(&self.0).drain(..) {
            // SAFETY: ours, and not in use.
            unsafe { current.destroy_stream(stream) };
        }
    }
}
