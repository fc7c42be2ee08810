//! What is made before a shared stream is held, since the driver would wait for that stream to make it:
//! kernels, and a stock of streams. For all devices, since a function in a stream of one may use any.

use crate::cuda::dispatch::Gpu;
use ferry_core::{
    Result,
    sync::{Arc, Mutex, Weak, lock},
};

/// The devices of a backend.
#[derive(Default)]
pub struct Preload(Mutex<Vec<Weak<Gpu>>>);

impl Preload {
    /// A device was opened.
    pub fn add(&self, gpu: &Arc<Gpu>) {
        let mut gpus = lock(&self.0);
        gpus.push(Arc::downgrade(gpu));
        let is_wanted = gpu.device.sync.may_hold();
        drop(gpus);
        if is_wanted {
            // What could not be loaded is reported when it is needed.
            let _ = load(gpu);
        }
    }

    /// A stream of this device is to be shared.
    pub fn load_all(&self, own: &Arc<Gpu>) -> Result<()> {
        let gpus = lock(&self.0);
        own.device.sync.expect_holds();
        let all: Vec<_> = gpus.iter().filter_map(Weak::upgrade).collect();
        drop(gpus);
        all.iter().filter(|gpu| !Arc::ptr_eq(gpu, own)).for_each(|gpu| drop(load(gpu)));
        load(own)
    }
}

/// Now, or as soon as no stream is held.
fn load(gpu: &Arc<Gpu>) -> Result<()> {
    let its = gpu.clone();
    gpu.device.sync.now_or_later(move || its.load_all())
}
