//! The numbers of threads: what the kernel calls them here, and in /proc. They differ where the process is in
//! a PID namespace of its own and /proc is that of another one.

use std::sync::OnceLock;

/// The number in /proc of a thread of this process.
pub fn in_proc(thread: i32) -> Option<i32> {
    if is_nested() {
        threads().find_map(|(number, own)| (own == thread).then_some(number))
    } else {
        Some(thread)
    }
}

/// All threads of this process: their numbers in /proc, and their own.
pub(super) fn threads() -> impl Iterator<Item = (i32, i32)> {
    let entries = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|number| Some((number, if is_nested() { own(number)? } else { number })))
}

fn is_nested() -> bool {
    static IS_NESTED: OnceLock<bool> = OnceLock::new();
    *IS_NESTED.get_or_init(|| {
        let number = std::fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
        number.is_some_and(|number: u32| number != std::process::id())
    })
}

/// What the thread with this number in /proc is called in the innermost namespace that it is in.
fn own(number: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/self/task/{number}/status")).ok()?;
    innermost(&status)
}

fn innermost(status: &str) -> Option<i32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().next_back()?.parse().ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_number_is_the_last() {
        for (status, want) in [
            ("Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t4711\n", Some(1)),
            ("Name:\tx\nNSpid:\t4711\n", Some(4711)),
            ("Name:\tx\n", None),
        ] {
            assert_eq!(innermost(status), want, "{status}");
        }
    }

    #[test]
    fn a_thread_is_among_those_of_its_process() {
        // SAFETY: it only asks.
        let thread = unsafe { libc::gettid() };
        let number = in_proc(thread).expect("a number");
        assert!(threads().any(|pair| pair == (number, thread)));
    }
}
