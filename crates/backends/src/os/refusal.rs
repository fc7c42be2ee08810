//! What it means that the system refuses memory or a thread. Its own words ("Resource temporarily
//! unavailable") name neither the limit nor how much of it the process has used.

use super::files::read_to_string;
use std::io;

/// The system's words for a thread that was not started, and the limit behind them.
pub fn explain_thread(why: &io::Error) -> String {
    let is_locking = status_kib("VmLck:").is_some_and(|locked| locked > 0);
    match why.raw_os_error() {
        // There are too many threads, unless the stack could not be locked.
        Some(libc::EAGAIN) if !is_locking => format!("{why}; {}", threads_note()),
        _ => explain(why),
    }
}

fn threads_note() -> String {
    let most = match limit(libc::RLIMIT_NPROC) {
        usize::MAX => "any number of".to_owned(),
        most => most.to_string(),
    };
    format!(
        "the user may have {most} threads (RLIMIT_NPROC, `ulimit -u`), and a container may allow fewer \
         (pids.max)"
    )
}

/// The system's words for a mapping that was refused, and the limit behind them.
pub fn explain(why: &io::Error) -> String {
    let limit = match why.raw_os_error() {
        // A mapping is refused with EAGAIN for this reason only.
        Some(libc::EAGAIN) => locked_note(),
        Some(libc::ENOMEM) => addresses_note(),
        _ => None,
    };
    limit.map_or_else(|| why.to_string(), |note| format!("{why}; {note}"))
}

/// Says that whatever is mapped must be locked, if that is so.
fn locked_note() -> Option<String> {
    let locked = status_kib("VmLck:")?;
    (limit(libc::RLIMIT_MEMLOCK) != usize::MAX).then(|| {
        format!(
            "after mlockall(MCL_FUTURE) all that a process maps counts as locked: it may lock {} bytes \
             (RLIMIT_MEMLOCK, \
             `ulimit -l`) and has locked {}",
            limit(libc::RLIMIT_MEMLOCK),
            locked << 10
        )
    })
}

fn addresses_note() -> Option<String> {
    let mapped = status_kib("VmSize:")?;
    let most = limit(libc::RLIMIT_AS);
    (most != usize::MAX)
        .then(|| format!("it may map {most} bytes (RLIMIT_AS, `ulimit -v`) and has mapped {}", mapped << 10))
}

/// A limit of this process; `usize::MAX` is none.
pub fn limit(resource: libc::__rlimit_resource_t) -> usize {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the limit is written by the call.
    unsafe { libc::getrlimit(resource, &mut limit) };
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

fn status_kib(field: &str) -> Option<usize> {
    kib_of(&read_to_string("/proc/self/status").ok()?, field)
}

/// The number behind `field` in a file such as `/proc/self/status`.
pub fn kib_of(text: &str, field: &str) -> Option<usize> {
    text.lines().find_map(|line| line.strip_prefix(field))?.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn other_failures_are_told_as_they_are() {
        let why = io::Error::from_raw_os_error(libc::EMFILE);
        assert_eq!(explain(&why), why.to_string());
    }

    #[test]
    fn numbers_are_read_by_name() {
        let text = "VmPeak:\t  12 kB\nVmLck:\t       8 kB\n";
        assert_eq!((kib_of(text, "VmLck:"), kib_of(text, "VmPin:")), (Some(8), None));
    }
}
