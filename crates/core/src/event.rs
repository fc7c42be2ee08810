//! An event: a slot for the latest fence recorded into it.

use crate::{
    Fence, Gate, Mark, Result, Stream,
    sync::{Arc, Mutex, lock},
};

/// Holds the latest mark recorded on any stream. Recording again replaces it; waits that were bound before keep the old one.
#[derive(Default)]
pub struct Event {
    slot: Mutex<Slot>,
}

#[derive(Default)]
struct Slot {
    mark: Option<Arc<dyn Mark>>,
    reset: Option<Reset>,
    /// Fences behind the waits that streams were given for this event.
    waits: Vec<Arc<dyn Fence>>,
    /// Nobody will record it any more, so nothing may wait for the next record.
    ended: bool,
}

/// A reset after the latest record.
struct Reset {
    /// Done when the reset has run.
    ran: Arc<dyn Fence>,
    /// What waits that come after the reset are bound to: the next record.
    next: Arc<Gate>,
}

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Captures the work submitted to `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let mark = stream.mark()?;
        let mut slot = lock(&self.slot);
        slot.mark = Some(mark.clone());
        let reset = slot.reset.take();
        drop(slot);
        if let Some(reset) = reset {
            reset.next.bind(mark);
        }
        Ok(())
    }

    /// When `stream` gets here the event counts as not recorded. Waits that are called after this wait for the next record.
    pub fn reset(&self, stream: &Stream) -> Result<()> {
        let ran = stream.mark()?;
        let mut slot = lock(&self.slot);
        if !slot.ended {
            slot.reset.get_or_insert_with(|| Reset { ran, next: Gate::new() });
        }
        Ok(())
    }

    /// The latest mark; `None` if never recorded, or if a reset has run since.
    pub fn latest(&self) -> Option<Arc<dyn Mark>> {
        let slot = lock(&self.slot);
        match &slot.reset {
            Some(reset) if reset.ran.is_done() => None,
            _ => slot.mark.clone(),
        }
    }

    /// Later work of `stream` waits for the latest record, or after a reset for the next one; not at all if there was neither.
    pub fn hold(&self, stream: &Stream) -> Result<()> {
        self.hold_by(|what| stream.wait_for(what))
    }

    /// As [`hold`](Self::hold), where `wait` has a stream wait and gives the fence after that wait.
    pub fn hold_by(&self, wait: impl FnOnce(Arc<dyn Fence>) -> Result<Arc<dyn Fence>>) -> Result<()> {
        let slot = lock(&self.slot);
        let what = match &slot.reset {
            Some(reset) => Some(reset.next.clone() as Arc<dyn Fence>),
            None => slot.mark.clone().map(|mark| mark as Arc<dyn Fence>),
        };
        drop(slot);
        let Some(what) = what else { return Ok(()) };
        let passed = wait(what)?;
        let waits = &mut lock(&self.slot).waits;
        // Looked through when it is full and not each time, or many waits would take the square of their number.
        if waits.len() == waits.capacity() {
            waits.retain(|wait| !wait.is_done());
        }
        waits.push(passed);
        Ok(())
    }

    /// Whether some stream still waits, or will wait, because of [`hold`](Self::hold).
    pub fn is_waited_for(&self) -> bool {
        let waits = &mut lock(&self.slot).waits;
        // Looks no further than to one that is not done, so that asking often costs no more than waiting did.
        while waits.pop_if(|wait| wait.is_done()).is_some() {}
        !waits.is_empty()
    }

    /// Nobody will record it any more: lets those go who wait for the next record.
    pub fn end(&self) {
        let mut slot = lock(&self.slot);
        slot.ended = true;
        let reset = slot.reset.take();
        drop(slot);
        if let Some(reset) = reset {
            reset.next.open();
        }
    }
}
