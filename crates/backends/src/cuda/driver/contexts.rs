//! The primary contexts of all devices of a backend, each opened when first used: a context takes time, and
//! memory of its GPU.

use super::{context::Context, library::Driver};
use ferry_core::{DeviceId, Home, Kind, Result, sync::Arc};
use std::sync::OnceLock;

/// The contexts by the numbers of the devices. Several devices may share one GPU, and so its primary context.
pub struct Contexts {
    driver: Arc<Driver>,
    /// The number that the driver has for the GPU of each device: not all GPUs need be visible here.
    gpus: Vec<u32>,
    opened: Vec<OnceLock<Arc<Context>>>,
}

impl Contexts {
    /// For one device on each of these GPUs.
    pub fn new(driver: Arc<Driver>, gpus: Vec<u32>) -> Contexts {
        let opened = gpus.iter().map(|_| OnceLock::new()).collect();
        Contexts { driver, gpus, opened }
    }

    /// The driver.
    pub fn driver(&self) -> &Driver {
        &self.driver
    }

    /// The context of a device.
    pub fn open(&self, id: DeviceId) -> Result<&Arc<Context>> {
        let slot = self
            .opened
            .get(id as usize)
            .ok_or_else(|| Kind::NoDevice.because(format!("device {id} of {} devices", self.opened.len())))?;
        if let Some(context) = slot.get() {
            return Ok(context);
        }
        let context = Arc::new(Context::open(self.driver.clone(), self.gpus[id as usize])?);
        Ok(slot.get_or_init(|| context))
    }

    /// A context, for what needs one but not which. One that is not lost, if there is any.
    pub fn any(&self) -> Result<&Arc<Context>> {
        let sound = self.opened.iter().filter_map(OnceLock::get).find(|context| context.lost().is_none());
        let other = || self.opened.iter().position(|slot| slot.get().is_none()).unwrap_or(0);
        sound.map_or_else(|| self.open(other() as DeviceId), Ok)
    }

    /// The context that memory of this home is made and freed in.
    pub fn of(&self, home: Home) -> Result<&Arc<Context>> {
        match home {
            Home::Host => self.any(),
            Home::Device(id) => self.open(id),
        }
    }

    /// The device on the GPU that the driver calls `gpu`; the first if there are several.
    pub fn device_on(&self, gpu: u32) -> Option<DeviceId> {
        self.gpus.iter().position(|known| *known == gpu).map(|id| id as DeviceId)
    }

    /// All homes whose memory comes from where that of `home` does: the devices on the same GPU, or the host.
    pub fn homes_beside(&self, home: Home) -> impl Iterator<Item = Home> {
        let gpu = |home| match home {
            Home::Device(id) => self.gpus.get(id as usize),
            Home::Host => None,
        };
        let all = (0..).take(self.gpus.len()).map(Home::Device).chain([Home::Host]);
        all.filter(move |other| gpu(*other) == gpu(home))
    }
}
