//! Points of CUDA streams. The driver's events are kept and used again: making one takes longer than a small copy.

use crate::cuda::{
    device::Device,
    driver::{self, Driver, Handle},
};
use ferry_core::{
    Result,
    sync::{Arc, Mutex, lock},
};
use std::sync::OnceLock;

/// More events than this are given back to the driver.
const KEPT: usize = 1024;

/// The events of one device that nobody uses now.
#[derive(Default)]
pub struct Events {
    untimed: Mutex<Vec<Handle>>,
    timed: Mutex<Vec<Handle>>,
    /// The event that the device's clock counts from.
    dawn: OnceLock<Handle>,
}

impl Events {
    fn kept(&self, timed: bool) -> &Mutex<Vec<Handle>> {
        if timed { &self.timed } else { &self.untimed }
    }

    /// An event that nobody uses. The context is current.
    fn take(&self, device: &Device, timed: bool) -> Result<Handle> {
        if let Some(handle) = lock(self.kept(timed)).pop() {
            return Ok(handle);
        }
        let mut handle = 0;
        let flags = if timed { driver::EVENT_TIMED } else { driver::EVENT_UNTIMED };
        // SAFETY: `handle` receives the event.
        let code = unsafe { (device.driver.calls.cuEventCreate)(&mut handle, flags) };
        device.check("cuEventCreate", code).map(|()| handle)
    }

    /// Keeps an event for the next who needs one, if there is room. What waits for it in a stream waits for what it stood for
    /// when that was said, and not for what it will stand for.
    fn keep(&self, handle: Handle, timed: bool) -> bool {
        let mut kept = lock(self.kept(timed));
        let fits = kept.len() < KEPT;
        if fits {
            kept.push(handle);
        }
        fits
    }

    /// Gives all back to the driver. The context is current, and nobody needs one any more.
    pub fn give_back(&self, driver: &Driver) {
        let (mut untimed, mut timed) = (lock(&self.untimed), lock(&self.timed));
        for handle in untimed.drain(..).chain(timed.drain(..)).chain(self.dawn.get().copied()) {
            // SAFETY: made by `take` and known to nobody else.
            unsafe { (driver.calls.cuEventDestroy)(handle) };
        }
    }
}

/// A point of a CUDA stream.
pub struct Event {
    device: Arc<Device>,
    handle: Handle,
    timed: bool,
}

impl Event {
    /// Marks where `stream` of this device is now. The context is current.
    pub fn record(device: &Arc<Device>, stream: Handle, timed: bool) -> Result<Arc<Event>> {
        let Events { dawn, .. } = &device.events;
        if timed && dawn.get().is_none() {
            let first = device.events.take(device, true)?;
            record(device, first, stream)?;
            let _ = dawn.set(first);
        }
        let handle = device.events.take(device, timed)?;
        let event = Event { device: device.clone(), handle, timed };
        record(device, handle, stream)?;
        Ok(Arc::new(event))
    }

    /// Whether it was reached.
    pub fn is_reached(&self) -> Result<bool> {
        let _here = self.device.enter()?;
        // SAFETY: the event is alive.
        match unsafe { (self.device.driver.calls.cuEventQuery)(self.handle) } {
            driver::NOT_READY => Ok(false),
            code => self.device.check("the GPU's work", code).map(|()| true),
        }
    }

    /// Waits until it is reached or the device has failed.
    pub fn wait(&self) -> Result<()> {
        let _here = self.device.enter()?;
        // SAFETY: the event is alive.
        let code = unsafe { (self.device.driver.calls.cuEventSynchronize)(self.handle) };
        self.device.check("the GPU's work", code)
    }

    /// Holds `stream`, of any device, until it is reached. The stream's context is current.
    pub fn hold(&self, stream: Handle) -> Result<()> {
        // SAFETY: both are alive; the driver keeps what it needs of the event.
        let code = unsafe { (self.device.driver.calls.cuStreamWaitEvent)(stream, self.handle, 0) };
        self.device.check("cuStreamWaitEvent", code)
    }

    /// Milliseconds since `start` was reached: both timed, reached, and of one device.
    pub fn ms_since(&self, start: &Event) -> Option<f64> {
        self.ms_after(start.handle)
    }

    /// Milliseconds of the device's clock when this was reached, if it is timed.
    pub fn ms(&self) -> Option<f64> {
        self.ms_after(*self.device.events.dawn.get()?)
    }

    fn ms_after(&self, start: Handle) -> Option<f64> {
        let _here = self.device.enter().ok()?;
        let mut ms = 0.0;
        // SAFETY: both are alive.
        let code = unsafe { (self.device.driver.calls.cuEventElapsedTime)(&mut ms, start, self.handle) };
        (code == driver::SUCCESS).then_some(f64::from(ms))
    }
}

fn record(device: &Device, event: Handle, stream: Handle) -> Result<()> {
    // SAFETY: both are alive and of one context.
    let code = unsafe { (device.driver.calls.cuEventRecord)(event, stream) };
    device.check("cuEventRecord", code)
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.events.keep(self.handle, self.timed) {
            return;
        }
        let Ok(_here) = self.device.enter() else { return };
        // SAFETY: made by `record` and known to nobody else; the driver finishes what waits for it.
        unsafe { (self.device.driver.calls.cuEventDestroy)(self.handle) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn events_are_kept_by_kind_and_no_more_than_needed() {
        let events = Events::default();
        assert!((0..KEPT).all(|handle| events.keep(handle, false)));
        assert!(!events.keep(KEPT, false), "the driver gets it");
        assert!(events.keep(7, true), "there is room for the other kind");
        assert_eq!((lock(&events.untimed).pop(), lock(&events.timed).pop()), (Some(KEPT - 1), Some(7)));
    }
}
