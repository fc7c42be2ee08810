//! How much memory there is for this process: the machine's, or what its control group allows.

use super::{files::read_to_string, refusal::kib_of};

/// Half of the smaller of the machine's memory and the limit of our control group.
pub fn half_of_memory() -> usize {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total_kib(&text)).unwrap_or(1 << 20);
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .filter_map(|path| read_to_string(path).ok()?.trim().parse::<usize>().ok())
        .min();
    (machine << 10).min(limit.unwrap_or(usize::MAX)) / 2
}

fn total_kib(meminfo: &str) -> Option<usize> {
    kib_of(meminfo, "MemTotal:")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_machine_and_group_counts() {
        assert_eq!(total_kib("MemFree: 1 kB\nMemTotal:       24000000 kB\n"), Some(24_000_000));
        assert_eq!(total_kib("nothing"), None);
        assert!(half_of_memory() > 1 << 20);
    }
}
