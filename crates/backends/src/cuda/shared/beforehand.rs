//! What is made before a shared stream is held, since the driver would wait for that stream to make it: kernels, and a stock of
//! streams. Of all devices, for a function in a stream of one may use any.

use crate::cuda::device::Device;
use ferry_core::{
    Result,
    sync::{Arc, Mutex, Weak, lock},
};

/// The devices of a backend.
#[derive(Default)]
pub struct Beforehand(Mutex<Vec<Weak<Device>>>);

impl Beforehand {
    /// A device was opened.
    pub fn add(&self, device: &Arc<Device>) {
        let mut devices = lock(&self.0);
        devices.push(Arc::downgrade(device));
        let is_wanted = device.sync.may_hold();
        drop(devices);
        if is_wanted {
            // What could not be loaded is told when it is needed.
            let _ = prepare(device);
        }
    }

    /// A stream of this device is to be shared.
    pub fn prepare_all(&self, own: &Arc<Device>) -> Result<()> {
        let devices = lock(&self.0);
        own.sync.expect_holds();
        let all: Vec<_> = devices.iter().filter_map(Weak::upgrade).collect();
        drop(devices);
        all.iter().filter(|device| !Arc::ptr_eq(device, own)).for_each(|device| drop(prepare(device)));
        prepare(own)
    }
}

/// Now, or as soon as nothing is held.
fn prepare(device: &Arc<Device>) -> Result<()> {
    let its = device.clone();
    device.sync.now_or_later(move || {
        let _here = its.enter()?;
        its.load_all()
    })
}
