//! Ferry for Rust programs. Today: [`open`], which picks a backend by [`Options`] and gives a [`Runtime`]. Typed buffers and
//! async/await come next.
//!
//! ```
//! let runtime = ferry::open(&ferry::Options { device_memory: Some(1 << 20), ..Default::default() })?;
//! assert_eq!(runtime.backend().device_count(), 2);
//! # Ok::<(), ferry::Error>(())
//! ```

pub mod products;

pub use ferry_backends::probe;
pub use ferry_core::{Error, Kind, Observer, Result, Runtime};

use ferry_backends::{
    cuda::Cuda,
    host::{Host, HostOptions},
};
use std::{str::FromStr, sync::Arc};

/// Which backend to open, and how.
#[derive(Clone)]
pub struct Options {
    /// The way to reach devices.
    pub backend: BackendName,
    /// Number of devices of the host backend.
    pub devices: usize,
    /// Only the devices with these numbers are opened, and numbered anew in this order; those that do not exist are passed
    /// over. `None` is all of them.
    pub visible: Option<Vec<u32>>,
    /// Bytes of each device of the host backend; `None` is half of what this machine has.
    pub device_memory: Option<usize>,
    /// Host and device memory are one, as on boards where the application runs on the device. The host backend only.
    pub is_unified: bool,
    /// Watches everything.
    pub observer: Option<Arc<dyn Observer>>,
}

/// The backends by the names users choose them by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BackendName {
    /// Devices made of memory and threads.
    #[default]
    Host,
    /// A real NVIDIA GPU.
    Cuda,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            backend: BackendName::Host,
            devices: 2,
            visible: None,
            device_memory: None,
            is_unified: false,
            observer: None,
        }
    }
}

impl FromStr for BackendName {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        match name {
            "host" => Ok(BackendName::Host),
            "cuda" => Ok(BackendName::Cuda),
            other => Err(Kind::BadSetting.because(format!("backend '{other}' is not one of: host, cuda"))),
        }
    }
}

/// Opens a backend.
pub fn open(options: &Options) -> Result<Runtime> {
    let backend = match options.backend {
        BackendName::Host => {
            // One device made of memory is like the other: as many as are visible will do.
            let seen = |list: &Vec<u32>| list.iter().filter(|id| (**id as usize) < options.devices).count();
            let devices = options.visible.as_ref().map_or(options.devices, seen);
            let Options { device_memory, is_unified, .. } = *options;
            Host::open(HostOptions { devices, device_memory, is_unified })?
        }
        BackendName::Cuda if options.is_unified => {
            return Err(Kind::Unsupported.because(
                "the cuda backend has host and device memory apart: forms in which they are one need FERRY_BACKEND=host",
            ));
        }
        BackendName::Cuda => Cuda::open_some(options.visible.as_deref())?,
    };
    Ok(Runtime::new(backend, options.observer.clone()))
}

/// Reads a size in bytes: a number, or a number with K, M, G or T behind it (powers of 1024).
pub fn parse_size(text: &str) -> Result<usize> {
    let bad = || {
        Kind::BadSetting.because(format!("'{text}' is not a size: give bytes, or a number with K, M, G or T"))
    };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(bad()),
    };
    digits.parse::<usize>().ok().and_then(|number| number.checked_mul(1 << shift)).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        for (text, want) in [
            ("4096", Some(4096)),
            ("64K", Some(64 << 10)),
            ("8G", Some(8 << 30)),
            ("8GiB", Some(8 << 30)),
            ("2m", Some(2 << 20)),
            ("", None),
            ("G", None),
            ("-1", None),
            ("1X", None),
            ("99999999999T", None),
        ] {
            assert_eq!(parse_size(text).ok(), want, "{text:?}");
        }
    }
}
