//! Who a process is, for others on this machine: its number, when it started, and the namespace in which the
//! number counts.
//!
//! A lock tells that a process lives as long as its memory is there (`file_locks.rs`), and a driver may keep
//! that memory longer, for a forked child. Where the process can be seen, the system tells more.

use super::files::read_to_string;
use std::{fs, io, os::unix::fs::MetadataExt};

/// Bytes of an identity as it is stored.
pub(super) const IDENTITY_LEN: usize = 24;

/// A process, told from every other one that had or will have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessIdentity {
    /// The inode of its pid namespace.
    namespace: u64,
    /// Its number there.
    pid: u64,
    /// When it started, in ticks since the machine did.
    start: u64,
}

impl ProcessIdentity {
    /// This process.
    pub(super) fn own() -> io::Result<ProcessIdentity> {
        let pid = u64::from(std::process::id());
        Ok(ProcessIdentity { namespace: own_namespace()?, pid, start: stat(pid)?.start })
    }

    /// As it is stored.
    pub(super) fn to_bytes(self) -> [u8; IDENTITY_LEN] {
        let mut bytes = [0; IDENTITY_LEN];
        for (place, word) in bytes.chunks_exact_mut(8).zip([self.namespace, self.pid, self.start]) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// From what was stored.
    pub(super) fn from_bytes(bytes: [u8; IDENTITY_LEN]) -> ProcessIdentity {
        let word = |index: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[8 * index + byte]));
        ProcessIdentity { namespace: word(0), pid: word(1), start: word(2) }
    }

    /// Whether the process has certainly ended. False where it cannot be seen from here.
    pub(super) fn has_ended(self) -> bool {
        if own_namespace().ok() != Some(self.namespace) {
            return false;
        }
        match stat(self.pid) {
            Ok(stat) => stat.start != self.start || stat.has_ended(),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

fn own_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// What /proc tells of a process.
#[derive(Debug, PartialEq, Eq)]
struct ProcessStat {
    /// The state of its first thread.
    state: char,
    /// How many threads it has; the first one counts until the process has ended.
    threads: u64,
    /// When it started.
    start: u64,
}

impl ProcessStat {
    /// Whether nothing of the process runs. A zombie has ended and is waited for by its parent only, unless
    /// it is the first thread of a process that goes on in others: that one is a zombie until all have ended.
    fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }
}

fn stat(pid: u64) -> io::Result<ProcessStat> {
    let text = read_to_string(format!("/proc/{pid}/stat"))?;
    parse(&text).ok_or_else(|| io::Error::other("/proc has no such line"))
}

/// The fields 3, 20 and 22; the second is a name in parentheses, with anything in it.
fn parse(text: &str) -> Option<ProcessStat> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let (threads, start) = (fields.nth(16)?.parse().ok()?, fields.nth(1)?.parse().ok()?);
    Some(ProcessStat { state, threads, start })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_is_told_until_it_has_ended() {
        let own = ProcessIdentity::own().expect("/proc");
        assert_eq!(ProcessIdentity::from_bytes(own.to_bytes()), own);
        assert!(!own.has_ended());
        assert!(ProcessIdentity { start: own.start + 1, ..own }.has_ended(), "another one of that number");
        assert!(!ProcessIdentity { namespace: 0, start: 0, ..own }.has_ended(), "cannot be seen from here");
    }

    #[test]
    fn a_zombie_has_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let pid = u64::from(child.id());
        let start = stat(pid).expect("it runs").start;
        let child_is = ProcessIdentity { pid, start, ..ProcessIdentity::own().expect("/proc") };
        assert!(!child_is.has_ended());
        drop(child.stdin.take());
        while !child_is.has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(stat(pid).map(|stat| stat.state).ok(), Some('Z'), "nobody has waited for it");
        child.wait().expect("it has ended");
        assert!(child_is.has_ended());
    }

    #[test]
    fn a_process_whose_first_thread_has_left_has_not_ended() {
        for (state, threads, want) in [('S', 1, false), ('Z', 2, false), ('Z', 1, true), ('X', 0, true)] {
            assert_eq!(ProcessStat { state, threads, start: 1 }.has_ended(), want, "{state} {threads}");
        }
    }

    #[test]
    fn names_of_programs_may_be_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987 0";
        let want = ProcessStat { state: 'S', threads: 17, start: 987 };
        assert_eq!(parse(&format!("42 (a) b) {rest}")), Some(want));
        assert_eq!(parse("42 (short) S 1"), None);
    }
}
