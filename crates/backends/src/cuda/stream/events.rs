//! CUDA events, which mark points of streams. They are kept in a free list: making one takes longer than a
//! small copy.

use crate::cuda::{
    driver::{Current, EventHandle, StreamHandle},
    stream::device::Device,
};
use ferry_core::{
    Result,
    sync::{Arc, Mutex, lock},
};
use std::sync::OnceLock;

/// Events that the free list keeps; more are given back to the driver.
const KEPT: usize = 1024;

/// The free list of the events of one device.
#[derive(Default)]
pub struct Events {
    untimed: Mutex<Vec<EventHandle>>,
    timed: Mutex<Vec<EventHandle>>,
    /// The epoch of the device's clock: the event that times are measured from.
    epoch: OnceLock<EventHandle>,
}

impl Events {
    fn kept(&self, timed: bool) -> &Mutex<Vec<EventHandle>> {
        if timed { &self.timed } else { &self.untimed }
    }

    /// An event that is not in use.
    fn take(&self, current: &Current<'_>, timed: bool) -> Result<EventHandle> {
        let kept = lock(self.kept(timed)).pop();
        kept.map_or_else(|| current.create_event(timed), Ok)
    }

    /// Keeps an event to be used again, if there is room. A stream that waits for it waits for what it stood
    /// for then, and not for what it will stand for.
    fn keep(&self, handle: EventHandle, timed: bool) -> bool {
        let mut kept = lock(self.kept(timed));
        let fits = kept.len() < KEPT;
        if fits {
            kept.push(handle);
        }
        fits
    }

    /// Gives all back to the driver: none is needed any more.
    pub fn give_back(&self, current: &Current<'_>) {
        let (mut untimed, mut timed) = (lock(&self.untimed), lock(&self.timed));
        for handle in untimed.drain(..).chain(timed.drain(..)).chain(self.epoch.get().copied()) {
            // SAFETY: made by `take` and known to no other code.
            unsafe { current.destroy_event(handle) };
        }
    }
}

/// A point of a CUDA stream.
pub struct Event {
    device: Arc<Device>,
    handle: EventHandle,
    timed: bool,
}

impl Event {
    /// Marks where `stream` of this device is now.
    pub(super) fn record(
        device: &Arc<Device>,
        current: &Current<'_>,
        stream: StreamHandle,
        timed: bool,
    ) -> Result<Arc<Event>> {
        let Events { epoch, .. } = &device.events;
        if timed && epoch.get().is_none() {
            let first = device.events.take(current, true)?;
            current.record(first, stream)?;
            let _ = epoch.set(first);
        }
        let handle = device.events.take(current, timed)?;
        let event = Event { device: device.clone(), handle, timed };
        current.record(handle, stream)?;
        Ok(Arc::new(event))
    }

    /// Whether it was reached.
    pub fn is_reached(&self) -> Result<bool> {
        self.device.enter()?.is_reached(self.handle)
    }

    /// Waits until it is reached or the device has failed.
    pub fn wait(&self) -> Result<()> {
        self.synchronize_in(&self.device.enter()?, "the GPU's work")
    }

    /// Blocks until it is reached; `work` names what is before it in the error if that has failed.
    pub fn synchronize_in(&self, current: &Current<'_>, work: &str) -> Result<()> {
        current.wait_for_event(self.handle, work)
    }

    /// Has `stream`, of any device, wait until it is reached.
    pub(super) fn wait_in(&self, current: &Current<'_>, stream: StreamHandle) -> Result<()> {
        current.wait_in_stream(stream, self.handle, &self.device)
    }

    /// Milliseconds since `start` was reached: both timed, reached, and of one device.
    pub fn ms_since(&self, start: &Event) -> Option<f64> {
        self.ms_after(start.handle)
    }

    /// Milliseconds of the device's clock when this was reached, if it is timed.
    pub fn ms(&self) -> Option<f64> {
        self.ms_after(*self.device.events.epoch.get()?)
    }

    fn ms_after(&self, start: EventHandle) -> Option<f64> {
        self.device.enter().ok()?.elapsed_ms(start, self.handle)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.events.keep(self.handle, self.timed) {
            return;
        }
        let Ok(current) = self.device.enter() else { return };
        // SAFETY: made by `record` and known to no other code.
        unsafe { current.destroy_event(self.handle) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_by_kind_and_no_more_than_needed() {
        let (events, handle) = (Events::default(), EventHandle::of_nothing);
        assert!((0..KEPT).all(|number| events.keep(handle(number), false)));
        assert!(!events.keep(handle(KEPT), false), "the driver gets it");
        assert!(events.keep(handle(7), true), "there is room for the other kind");
        let kept = (lock(&events.untimed).pop(), lock(&events.timed).pop());
        assert_eq!(kept, (Some(handle(KEPT - 1)), Some(handle(7))));
    }
}
