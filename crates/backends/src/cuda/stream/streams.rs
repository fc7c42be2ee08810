//! CUDA streams of our own. While a shared stream is held the driver may wait for it to make another one, where the two would share
//! their way into the GPU, and lets nobody else in meanwhile. So some are made beforehand.

use crate::cuda::{
    device::Device,
    driver::{Current, StreamHandle},
};
use ferry_core::{
    Result,
    sync::{Mutex, lock},
};

/// How many are kept.
const KEPT: usize = 16;

/// Streams that nobody uses, with nothing in them.
#[derive(Default)]
pub struct Spares(Mutex<Vec<StreamHandle>>);

impl Spares {
    /// Gives all back.
    pub fn close(&self, current: &Current<'_>) {
        for stream in lock(&self.0).drain(..) {
            // SAFETY: ours, and nobody uses it.
            unsafe { current.destroy_stream(stream) };
        }
    }
}

impl Device {
    /// A CUDA stream.
    pub fn make_stream(&self) -> Result<StreamHandle> {
        if let Some(made) = self.sync.unless_held(|| self.new_stream()) {
            return made;
        }
        let spare = lock(&self.spares.0).pop();
        spare.map_or_else(|| self.new_stream(), Ok)
    }

    /// Has some ready for the time when a stream is held.
    pub fn stock_streams(&self) -> Result<()> {
        while lock(&self.spares.0).len() < KEPT {
            let Some(made) = self.sync.unless_held(|| self.new_stream()) else { break };
            lock(&self.spares.0).push(made?);
        }
        Ok(())
    }

    fn new_stream(&self) -> Result<StreamHandle> {
        self.enter()?.create_stream()
    }
}
