//! The options that say what machine the library should pretend to be. They travel as the library's own
//! environment variables, so that `ferry run` and a plain `FERRY_DEVICES=4 program` mean the same.

use clap::ValueEnum;
use ferry::BackendName;

/// Where the devices come from.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// Devices made of memory and threads of this machine
    Host,
    /// NVIDIA GPUs
    Cuda,
}

/// What to open; anything not given is left to the environment and the library's defaults.
#[derive(clap::Args)]
pub struct Machine {
    /// Devices made of memory and threads, or GPUs [FERRY_BACKEND, else host]
    #[arg(long, value_enum, value_name = "host|cuda", hide_possible_values = true)]
    backend: Option<Backend>,
    /// How many devices [FERRY_DEVICES, else 2 or as many as GPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    devices: Option<u32>,
    /// Memory of each, as in 512M or 8G [FERRY_DEVICE_MEMORY, else half of RAM or the GPU's]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    device_memory: Option<String>,
}

impl From<Backend> for BackendName {
    fn from(backend: Backend) -> BackendName {
        match backend {
            Backend::Host => BackendName::Host,
            Backend::Cuda => BackendName::Cuda,
        }
    }
}

impl Machine {
    /// The environment variables that say the same, in the library's words.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let backend = self.backend.map(|backend| match backend {
            Backend::Host => "host".to_owned(),
            Backend::Cuda => "cuda".to_owned(),
        });
        [
            ("FERRY_BACKEND", backend),
            ("FERRY_DEVICES", self.devices.map(|count| count.to_string())),
            ("FERRY_DEVICE_MEMORY", self.device_memory.clone()),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Sets them for this process, and turns log files off unless ASCEND_GLOBAL_LOG_LEVEL is set: what this
    /// command provokes, it reports itself.
    ///
    /// # Safety
    /// No other thread runs yet: setting a variable races with any thread that reads one.
    pub unsafe fn export(&self) {
        let quiet = Some(("ASCEND_GLOBAL_LOG_LEVEL", "4".to_owned()));
        let quiet = quiet.filter(|(name, _)| std::env::var_os(name).is_none());
        for (name, value) in self.variables().into_iter().chain(quiet) {
            // SAFETY: passed on to the caller.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Accepts what the library accepts.
fn size(text: &str) -> ferry::Result<String> {
    ferry::parse_size(text).map(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn a_size_is_what_the_library_takes_for_one() {
        for (text, want) in [
            ("4096", Some("4096")),
            ("512M", Some("512M")),
            ("8g", Some("8g")),
            ("", None),
            ("G", None),
            ("8GiB", Some("8GiB")),
            ("-1", None),
            ("1.5G", None),
        ] {
            assert_eq!(size(text).ok().as_deref(), want, "{text:?}");
        }
    }
}
