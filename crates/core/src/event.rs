//! An event: the latest mark that was recorded into it.

use crate::{
    Fence, Gate, Mark, Observers, Result, Stream, Ticket,
    submissions::StreamState,
    sync::{Arc, Mutex, Weak, lock},
};

/// Keeps the latest mark recorded on any stream. Recording again replaces it; waits that were bound before
/// keep the old one.
#[derive(Default)]
pub struct Event {
    state: Mutex<EventState>,
}

#[derive(Default)]
struct EventState {
    mark: Option<Arc<dyn Mark>>,
    reset: Option<Reset>,
    /// The waits that streams were given for this event.
    waits: Vec<EventWait>,
    /// The latest of what streams have waited for, one for each stream that recorded; kept for observers.
    awaited: Vec<Arc<dyn Fence>>,
    /// The event is never recorded again, so nothing may wait for the next record.
    ended: bool,
}

/// A wait of a stream for an event: the op `ticket` of the stream.
struct EventWait {
    stream: Weak<StreamState>,
    ticket: Ticket,
    /// What it waits for, if observers may be told that it is over.
    awaits: Option<Arc<dyn Fence>>,
    /// Made when it is first asked for, which few programs do.
    fence: Option<Arc<dyn Fence>>,
}

/// Keeps what a wait that is over was for, in place of what the same stream recorded before. A wait that its
/// limit has ended was for nothing.
fn keep_awaited(all: &mut Vec<Arc<dyn Fence>>, wait: &mut EventWait) {
    let Some(awaited) = wait.awaits.take().filter(|awaited| awaited.is_done()) else { return };
    let Some(point) = awaited.point() else { return };
    let is_newer = |old: &Arc<dyn Fence>| {
        old.point().is_some_and(|old| old.stream == point.stream && old.ticket >= point.ticket)
    };
    if !all.iter().any(is_newer) {
        all.retain(|old| old.point().is_some_and(|old| old.stream != point.stream));
        all.push(awaited);
    }
}

impl EventWait {
    /// Whether the stream is known to have passed the wait. A stream that is gone has passed everything.
    fn has_passed(&self) -> bool {
        self.stream.upgrade().is_none_or(|stream| stream.status.passed() >= self.ticket)
    }

    /// Whether the stream has passed the wait; asks the device if it is not known.
    fn is_over(&mut self) -> bool {
        let Some(stream) = self.stream.upgrade() else { return true };
        let is_known = stream.status.passed() >= self.ticket;
        is_known || self.fence.get_or_insert_with(|| stream.queue.fence_after(self.ticket)).is_done()
    }
}

/// A reset after the latest record.
struct Reset {
    /// Done when the reset has run.
    ran: Arc<dyn Fence>,
    /// What waits that come after the reset are bound to: the next record.
    next: Arc<Gate>,
    observers: Option<Arc<Observers>>,
}

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Self {
        Self::default()
    }

    /// Captures the work submitted to `stream` so far.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let mark = stream.mark()?;
        let mut state = lock(&self.state);
        state.mark = Some(mark.clone());
        let reset = state.reset.take();
        drop(state);
        if let Some(reset) = reset {
            stream.tell(|observer| observer.bound(reset.next.number(), mark.point()));
            reset.next.bind(mark);
        }
        Ok(())
    }

    /// When `stream` gets here the event counts as not recorded. Waits that are called after this wait for
    /// the next record.
    pub fn reset(&self, stream: &Stream) -> Result<()> {
        let ran = stream.mark()?;
        let mut state = lock(&self.state);
        if !state.ended {
            let observers = stream.observers.clone();
            state.reset.get_or_insert_with(|| Reset { ran, next: Gate::new(), observers });
        }
        Ok(())
    }

    /// The latest mark; `None` if never recorded, or if a reset has run since.
    pub fn latest(&self) -> Option<Arc<dyn Mark>> {
        let state = lock(&self.state);
        match &state.reset {
            Some(reset) if reset.ran.is_done() => None,
            _ => state.mark.clone(),
        }
    }

    /// Later work of `stream` waits for the latest record, or after a reset for the next one; not at all if
    /// there was neither.
    pub fn block(&self, stream: &Stream) -> Result<()> {
        self.block_by(stream, |what| stream.wait_for(what))
    }

    /// As [`block`](Self::block), where `wait` has the stream wait and gives the ticket of that op.
    pub fn block_by(
        &self,
        stream: &Stream,
        wait: impl FnOnce(Arc<dyn Fence>) -> Result<Ticket>,
    ) -> Result<()> {
        let state = lock(&self.state);
        let what = match &state.reset {
            Some(reset) => Some(reset.next.clone() as Arc<dyn Fence>),
            None => state.mark.clone().map(|mark| mark as Arc<dyn Fence>),
        };
        drop(state);
        let Some(what) = what else { return Ok(()) };
        let awaits = stream.observers.as_ref().map(|_| what.clone());
        let ticket = wait(what)?;
        let EventState { waits, awaited, .. } = &mut *lock(&self.state);
        // Cleaned when it is full and not each time, or many waits would take the square of their number.
        if waits.len() == waits.capacity() {
            waits.retain_mut(|wait| {
                let has_passed = wait.has_passed();
                if has_passed {
                    keep_awaited(awaited, wait);
                }
                !has_passed
            });
        }
        waits.push(EventWait { stream: Arc::downgrade(&stream.state), ticket, awaits, fence: None });
        Ok(())
    }

    /// Whether a stream still waits, or will wait, because of [`block`](Self::block). Work of the device
    /// behind the wait may delay the answer that it is over.
    pub fn is_waited_for(&self) -> bool {
        let EventState { waits, awaited, .. } = &mut *lock(&self.state);
        // Stops at the first that is not over, so that asking often costs no more than waiting did.
        while let Some(mut over) = waits.pop_if(EventWait::is_over) {
            keep_awaited(awaited, &mut over);
        }
        !waits.is_empty()
    }

    /// What streams have waited for that [`is_waited_for`](Self::is_waited_for) found over: the latest of
    /// each stream that recorded. Empty if the runtime has no observers.
    pub fn awaited(&self) -> Vec<Arc<dyn Fence>> {
        lock(&self.state).awaited.clone()
    }

    /// The event is never recorded again: waits for the next record are over.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        let reset = state.reset.take();
        drop(state);
        if let Some(Reset { next, observers, .. }) = reset {
            observers.iter().for_each(|all| all.tell(|observer| observer.bound(next.number(), None)));
            next.open();
        }
    }
}
