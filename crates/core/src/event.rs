//! An event: a slot for the latest fence recorded into it.

use crate::{
    Fence, Result, Stream,
    sync::{Arc, Mutex, lock},
};

/// Holds the latest mark recorded on any stream. Recording again replaces it; waits that were bound before keep the old one.
#[derive(Default)]
pub struct Event {
    mark: Mutex<Option<Arc<dyn Fence>>>,
}

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Captures the work submitted to `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let mark = stream.mark()?;
        *lock(&self.mark) = Some(mark);
        Ok(())
    }

    /// The latest mark, or `None` if never recorded.
    pub fn latest(&self) -> Option<Arc<dyn Fence>> {
        lock(&self.mark).clone()
    }
}
