//! For the workspace's own crates, not for programs: opens the engine itself, and reads settings as
//! [`Options`] does.

pub use crate::faults::{FaultClass, FaultCounter};
pub use crate::options::{VISIBLE, count, setting, switch, var};
pub use ferry_backends::{
    os::{fault::explain as explain_faults, files, fork, nodes, probe, refusal, shared_table, threads},
    usage,
};

use crate::{BackendName, Kind, Options, Result, watching};
use ferry_backends::{
    cuda::{Cuda, CudaOptions},
    host::{Host, HostOptions, schedule::Schedule},
};
use ferry_core::{CopyFaults, Runtime};
use std::sync::Arc;
use usage::Usage;

/// The number of devices of the host backend, unless the options say otherwise.
const HOST_DEVICES: usize = 2;

/// Opens the backend that `options` ask for.
pub fn open(options: &Options) -> Result<Runtime> {
    open_telling(options, &Usage::new(options.backend))
}

/// Opens the backend that `options` ask for, which tells other processes by `usage` what this one has.
pub fn open_telling(options: &Options, usage: &Arc<Usage>) -> Result<Runtime> {
    options.check()?;
    let (is_unified, usage) = (options.is_unified(), Some(usage.clone()));
    let backend = match options.backend {
        BackendName::Host => {
            let all = 0..options.devices.unwrap_or(HOST_DEVICES) as u32;
            let seen = |list: &Vec<u32>| list.iter().copied().filter(|id| all.contains(id)).collect();
            // One device made of memory is like the other, but other processes know it by its number.
            let devices: Vec<u32> = options.visible.as_ref().map_or_else(|| all.clone().collect(), seen);
            let (device_memory, shared) = (options.device_memory, options.device_shared.clone());
            let views = watching::views();
            let schedule = options.schedule.map(|order| Schedule { order, seed: options.seed });
            Host::open(HostOptions { devices, device_memory, shared, is_unified, usage, views, schedule })?
        }
        BackendName::Cuda if is_unified => {
            return Err(Kind::Unsupported.because(
                "the cuda backend has host and device memory apart: forms in which they are one need \
                 FERRY_BACKEND=host",
            ));
        }
        BackendName::Cuda if options.device_shared.is_some() => {
            return Err(Kind::BadSetting.because(
                "FERRY_DEVICE_SHARED: processes share the memory of a GPU anyway; it is for \
                 FERRY_BACKEND=host",
            ));
        }
        BackendName::Cuda => {
            let Options { devices, device_memory, .. } = *options;
            let (visible, settings) = (options.visible.clone(), options.cuda.clone());
            Cuda::open(&CudaOptions { devices, visible, device_memory, settings, usage })?
        }
    };
    let mut observers = options.observers.clone();
    observers.extend(watching::observers(options.backend));
    let faults = || Arc::new(FaultCounter::new(options.faults.clone(), options.seed)) as Arc<dyn CopyFaults>;
    Ok(Runtime::new(backend, observers).with_faults((!options.faults.is_empty()).then(faults)))
}

/// What copies of the backend take from other work of the device, in words for the line that says what was
/// opened. The words are the backend's own.
pub fn footprint(options: &Options) -> String {
    match options.backend {
        BackendName::Cuda => options.cuda.footprint(),
        BackendName::Host => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::products::Form;

    #[test]
    fn devices_are_those_that_exist_and_are_visible() {
        for (devices, visible, want) in [
            (None, None, 2),
            (Some(3), Some(vec![0, 2]), 2),
            (None, Some(vec![1, 2]), 1),
            (None, Some(vec![]), 0),
        ] {
            let options = Options { devices, visible, device_memory: Some(1 << 20), ..Options::default() };
            let runtime = open(&options).expect("devices of memory");
            assert_eq!(runtime.backend().device_count(), want, "{options:?}");
        }
    }

    #[test]
    fn memory_is_one_where_the_form_says_so() {
        for (soc, form, want) in [("Ascend310B1", Form::Ep, false), ("Ascend310B1", Form::Rc, true)] {
            let options = Options::default().soc(soc).expect("a product");
            let options = Options { form, device_memory: Some(1 << 20), ..options };
            assert_eq!(open(&options).expect("devices of memory").memory().is_unified(), want, "{form:?}");
        }
        let on_a_card = Options { form: Form::Rc, ..Options::default() };
        assert_eq!(open(&on_a_card).err().map(|error| error.kind), Some(Kind::BadSetting));
    }
}
