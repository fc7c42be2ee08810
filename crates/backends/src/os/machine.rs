//! How much memory there is for this process: the machine's, or what its control group allows.

use super::{files::read_to_string, refusal::kib_of};
use std::path::{Path, PathBuf};

/// Half of the smaller of the machine's memory and the limit of our control group.
pub fn half_of_memory() -> usize {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| total_kib(&text)).unwrap_or(1 << 20);
    let limit = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        .iter()
        .filter_map(|path| read_to_string(path).ok()?.trim().parse::<usize>().ok())
        .min();
    (machine << 10).min(limit.unwrap_or(usize::MAX)) / 2
}

/// Bytes of memory that this process can take without anything having to go for them but files' pages: the
/// machine's, or what our control groups leave. 0 where the kernel tells nothing.
pub fn available_memory() -> usize {
    let machine = read_to_string("/proc/meminfo").ok().and_then(|text| kib_of(&text, "MemAvailable:"));
    let groups = read_to_string("/proc/self/cgroup").unwrap_or_default();
    let read = |folder: &Path, name: &str| read_to_string(folder.join(name)).ok();
    let left =
        groups.lines().flat_map(group_folders).filter_map(|folder| group_left(|name| read(&folder, name)));
    left.min().unwrap_or(usize::MAX).min(machine.unwrap_or(0) << 10)
}

/// Where a line of `/proc/self/cgroup` has its limits of memory: in the folder of the group and in all above.
fn group_folders(line: &str) -> Vec<PathBuf> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { return Vec::new() };
    let root = match controllers {
        "" => "/sys/fs/cgroup",
        _ if controllers.split(',').any(|name| name == "memory") => "/sys/fs/cgroup/memory",
        _ => return Vec::new(),
    };
    let below = |path: &Path| Path::new(root).join(path.strip_prefix("/").unwrap_or(path));
    Path::new(path).ancestors().map(below).collect()
}

/// What a group leaves of its limit, if it has one; `read` gives its files by their names, which the two
/// versions of control groups have of their own.
fn group_left(read: impl Fn(&str) -> Option<String>) -> Option<usize> {
    let [limit, used, files] = if read("memory.current").is_some() {
        ["memory.max", "memory.current", "inactive_file"]
    } else {
        ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"]
    };
    let number = |name: &str| read(name)?.trim().parse::<usize>().ok();
    let (limit, used, stat) = (number(limit)?, number(used)?, read("memory.stat")?);
    let dropped = stat.lines().find_map(|line| line.strip_prefix(files)?.trim().parse::<usize>().ok());
    Some(limit.saturating_sub(used.saturating_sub(dropped.unwrap_or(0))))
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

    #[test]
    fn groups_of_both_versions_limit_memory_and_so_do_those_above_them() {
        let folders =
            |line| group_folders(line).iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
        assert_eq!(folders("0::/a/b"), ["/sys/fs/cgroup/a/b", "/sys/fs/cgroup/a", "/sys/fs/cgroup/"]);
        assert_eq!(folders("5:cpu,memory:/"), ["/sys/fs/cgroup/memory/"]);
        assert!(["3:cpuset:/a", "", "0:", "memory"].iter().all(|line| folders(line).is_empty()));
    }

    #[test]
    fn what_a_group_leaves_is_its_limit_less_what_it_uses_but_for_pages_of_files() {
        let left = |files: &[(&str, &str)]| {
            group_left(|name| files.iter().find(|file| file.0 == name).map(|file| file.1.to_owned()))
        };
        let stat = "anon 7\ninactive_file 20\ntotal_inactive_file 30\n";
        for (files, want) in [
            (&[("memory.max", "100\n"), ("memory.current", "90\n"), ("memory.stat", stat)][..], Some(30)),
            (&[("memory.max", "max\n"), ("memory.current", "90\n"), ("memory.stat", stat)], None),
            (&[("memory.max", "10\n"), ("memory.current", "90\n"), ("memory.stat", stat)], Some(0)),
            (
                &[
                    ("memory.limit_in_bytes", "100\n"),
                    ("memory.usage_in_bytes", "90\n"),
                    ("memory.stat", stat),
                ],
                Some(40),
            ),
            (&[], None),
        ] {
            assert_eq!(left(files), want, "{files:?}");
        }
        assert!(available_memory() > 1 << 20 && available_memory() < 1 << 60);
    }
}
