//! Who a process is, for others on this machine: its number, when it started, and the namespace in which the
//! number counts.
//!
//! A lock tells that a process lives as long as its memory is there (`file_locks.rs`), and a driver may keep
//! that memory longer, for a forked child. Where the process can be seen, the system tells more.

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
        let (_, start) = stat(pid)?;
        Ok(ProcessIdentity { namespace: own_namespace()?, pid, start })
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
            // A zombie has ended, and is waited for by its parent only.
            Ok((state, start)) => start != self.start || matches!(state, 'Z' | 'X'),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}

fn own_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/self/ns/pid")?.ino())
}

/// The state of a process and when it started.
fn stat(pid: u64) -> io::Result<(char, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    parse(&text).ok_or_else(|| io::Error::other("/proc has no such line"))
}

/// The third and the twenty-second field; the second is a name in parentheses, with anything in it.
fn parse(text: &str) -> Option<(char, u64)> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(18)?.parse().ok()?))
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
        let (_, start) = stat(pid).expect("it runs");
        let child_is = ProcessIdentity { pid, start, ..ProcessIdentity::own().expect("/proc") };
        assert!(!child_is.has_ended());
        drop(child.stdin.take());
        while !child_is.has_ended() {
            std::thread::yield_now();
        }
        assert_eq!(stat(pid).map(|(state, _)| state).ok(), Some('Z'), "nobody has waited for it");
        child.wait().expect("it has ended");
        assert!(child_is.has_ended());
    }

    #[test]
    fn names_of_programs_may_be_anything() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987 0";
        assert_eq!(parse(&format!("42 (a) b) {rest}")), Some(('S', 987)));
        assert_eq!(parse("42 (short) S 1"), None);
    }
}
