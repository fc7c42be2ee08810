//! The options that say what machine the library should pretend to be. They travel as the library's own
//! environment variables, so that `ferry run` and a plain `FERRY_DEVICES=4 program` mean the same.

use clap::ValueEnum;
use ferry::{BackendName, FaultPlan, RunOrder};

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
    /// When copies run: only when they are waited for, at once, or in a random order [FERRY_SCHEDULE]
    #[arg(long, value_name = "late|early|shuffle", value_parser = order)]
    schedule: Option<RunOrder>,
    /// What random choices start from [FERRY_SEED, else 0]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// What is to fail, as in 'copy#3=507013', 'alloc>1GiB=207018', 'sync#1=507000' or 'p=0.01:507056';
    /// may be given more than once [FERRY_FAULT]
    #[arg(long, value_name = "SPEC", value_parser = fault)]
    fault: Vec<String>,
}

/// The machine of a program that a command starts.
#[derive(clap::Args)]
pub struct ProgramMachine {
    #[command(flatten)]
    machine: Machine,
    /// Run operators of torch_npu's device on the CPU, as `import ferry_acl.torch` does [FERRY_TORCH]
    #[arg(long)]
    torch: bool,
}

impl ProgramMachine {
    /// As [`Machine::variables`].
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let mut variables = self.machine.variables();
        variables.extend(self.torch.then(|| ("FERRY_TORCH", "1".to_owned())));
        variables
    }

    /// As [`Machine::has_schedule`].
    pub fn has_schedule(&self) -> bool {
        self.machine.has_schedule()
    }
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
            ("FERRY_SCHEDULE", self.schedule.map(|order| order.to_string())),
            ("FERRY_SEED", self.seed.map(|seed| seed.to_string())),
            ("FERRY_FAULT", Some(self.fault.join("; ")).filter(|all| !all.is_empty())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }

    /// Whether it says in which order work runs.
    fn has_schedule(&self) -> bool {
        self.schedule.is_some()
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

fn order(text: &str) -> ferry::Result<RunOrder> {
    text.parse()
}

fn fault(text: &str) -> ferry::Result<String> {
    text.parse::<FaultPlan>().map(|plan| plan.to_string())
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
