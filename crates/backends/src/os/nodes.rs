//! The memory nodes of this machine (NUMA), as the kernel lists them.

use super::files::read_to_string;

/// Whether there is a memory node of this number. Where the kernel tells nothing there is one, number 0.
pub fn exists(node: u32) -> bool {
    let list = read_to_string("/sys/devices/system/node/online").unwrap_or_else(|_| "0".into());
    contains(&list, node)
}

/// Whether there are several memory nodes. Where the kernel tells nothing there is one.
pub fn are_several() -> bool {
    let list = read_to_string("/sys/devices/system/node/online").unwrap_or_default();
    list.contains(['-', ','])
}

/// A list such as `0-1,4`.
fn contains(list: &str, node: u32) -> bool {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        matches!((number(first), number(last)), (Some(first), Some(last)) if (first..=last).contains(&node))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_listed_in_ranges() {
        for (list, there, not_there) in
            [("0\n", 0, 1), ("0-1,4\n", 4, 3), ("0-1,4", 1, 2), ("", 0, 0), ("x", 7, 0)]
        {
            assert_eq!(contains(list, there), !list.is_empty() && list != "x", "{there} in {list:?}");
            assert!(!contains(list, not_there), "{not_there} in {list:?}");
        }
        assert!(exists(0) && !exists(u32::MAX));
    }
}
