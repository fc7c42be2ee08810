//! What the numbers of a run hold for: the machine and the settings.

use std::collections::BTreeMap;

/// The variables that change how the cuda backend copies.
pub fn settings() -> BTreeMap<String, String> {
    let is_meant = |name: &str| name.starts_with("FERRY_CUDA_") || name == "CUDA_DEVICE_MAX_CONNECTIONS";
    std::env::vars().filter(|(name, _)| is_meant(name)).collect()
}

/// The processor's model, and how many of its cores this process may use.
pub fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = line.map_or("unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} core{} of {model}", if cores == 1 { "" } else { "s" })
}

/// The name and version of the system's kernel.
pub fn kernel() -> Option<String> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    Some(format!("Linux {}", release.trim()))
}
