//! A small table of 64-bit words in memory that several processes map, with a bell that wakes them.
//!
//! Each process that maps it is a member with a number of its own, which is never used again. A member has
//! a lock that the kernel releases when its memory is gone (`file_locks.rs`), so that the others can tell
//! whether it lives, in whatever pid namespace it is; and behind the words it says who it is
//! (`process_identity.rs`), since a driver may keep the memory of a process that has ended. What the words
//! mean is the business of the layers above.

use super::{
    file_locks::{is_part_locked, lock_part},
    files::Kept,
    mapping::{Mapping, new_file},
    process_identity::{IDENTITY_LEN, ProcessIdentity},
    refusal,
};
use ferry_core::{Error, Kind, OpenFile, Result, Shared};
use std::{
    fs::OpenOptions,
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr::null,
    sync::{
        Arc,
        atomic::{
            AtomicU32, AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
    time::Duration,
};

/// Words in front of those of the layers above.
const HEADER: usize = 8;
/// The header's word with the number of the newest member.
const MEMBERS: usize = 0;
/// The header's word with the bell, which counts how often it rang, in 32 bits.
const BELL: usize = 1;
/// Where the locks of members lie in the file: far behind its end.
const LOCKS: u64 = 1 << 40;

/// A table that this process is a member of.
pub struct SharedTable {
    mapping: Mapping,
    /// To be sent to other processes, and to ask for their locks. Not the open file that has our lock.
    file: Arc<dyn OpenFile>,
    words: usize,
    member: u32,
}

impl SharedTable {
    /// A new table of so many words, all 0.
    pub fn new(name: &str, words: usize) -> Result<SharedTable> {
        let file = Kept::open(|| new_file(name)).map_err(|why| failed("creating it", &why))?;
        let fd = file.get().map_err(|why| failed("creating it", &why))?;
        let len = (HEADER + words) * size_of::<u64>();
        // SAFETY: the descriptor is ours and open.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } != 0 {
            return Err(failed("making room for it", &io::Error::last_os_error()));
        }
        // Those who map it touch it at any later time, so it must not shrink.
        // SAFETY: the descriptor is ours and open.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        SharedTable::join(name, Arc::new(file), words)
    }

    /// Becomes a member of a table of so many words that another process made.
    pub fn join(name: &str, file: Arc<dyn OpenFile>, words: usize) -> Result<SharedTable> {
        let len = (HEADER + words) * size_of::<u64>();
        let own = Kept::open(|| {
            // An open file of our own: the one that was sent is shared with its sender.
            let path = format!("/proc/self/fd/{}", file.get()?.as_raw_fd());
            OpenOptions::new().read(true).write(true).open(path)
        });
        let own = own.map_err(|why| failed("opening it anew", &why))?;
        let fd = own.get().map_err(|why| failed("opening it anew", &why))?;
        let mapping = Mapping::of_file(name, fd, 0, len)?;
        let mut table = SharedTable { mapping, file, words, member: 0 };
        table.member = table.header(MEMBERS).fetch_add(1, Release) as u32 + 1;
        if !lock_part(fd, table.lock_of(table.member), 1) {
            return Err(failed("locking a part of it", &io::Error::last_os_error()));
        }
        table.introduce(fd);
        // The descriptor goes, the mapping keeps the open file and with it the lock.
        Ok(table)
    }

    /// Writes who this process is behind the words. Without it others ask for its lock only.
    fn introduce(&self, file: BorrowedFd) {
        let Ok(own) = ProcessIdentity::own() else { return };
        let (bytes, at) = (own.to_bytes(), self.identity_of(self.member));
        // SAFETY: the descriptor is open, and so many bytes can be read.
        let _ = unsafe { libc::pwrite(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), at) };
    }

    /// Whether a member is known to have ended.
    fn has_ended(&self, file: BorrowedFd, member: u32) -> bool {
        let (mut bytes, at) = ([0; IDENTITY_LEN], self.identity_of(member));
        // SAFETY: the descriptor is open, and so many bytes can be written.
        let read = unsafe { libc::pread(file.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), at) };
        read == IDENTITY_LEN as isize && ProcessIdentity::from_bytes(bytes).has_ended()
    }

    /// Where a member says in the file who it is.
    fn identity_of(&self, member: u32) -> libc::off_t {
        ((HEADER + self.words) * size_of::<u64>() + member as usize * IDENTITY_LEN) as libc::off_t
    }

    /// The table as it is sent to another process.
    pub fn shared(&self) -> Shared {
        let len = (HEADER + self.words) * size_of::<u64>();
        Shared { file: self.file.clone(), offset: 0, len }
    }

    /// This process's number.
    pub fn member(&self) -> u32 {
        self.member
    }

    /// Whether the process of a member lives. True if that cannot be told, since the program has closed our
    /// descriptor.
    pub fn is_alive(&self, member: u32) -> bool {
        let asked =
            |file: BorrowedFd| is_part_locked(file, self.lock_of(member), 1) && !self.has_ended(file, member);
        member == self.member || self.file.get().map_or(true, asked)
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        &self.all()[HEADER..]
    }

    /// How often the bell rang.
    pub fn bell(&self) -> u32 {
        self.bell_word().load(Acquire)
    }

    /// Rings: wakes all who wait, in all processes.
    pub fn ring(&self) {
        let word = self.bell_word();
        word.fetch_add(1, Release);
        // SAFETY: wakes those who wait at this address of a mapping that `self` has.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Waits until the bell has rung more often than `seen` times, or for so long.
    pub fn wait(&self, seen: u32, limit: Duration) {
        let limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos() as libc::c_long,
        };
        let at = self.bell_word().as_ptr();
        // SAFETY: the word is in a mapping that `self` has, and the limit outlives the call.
        unsafe {
            libc::syscall(libc::SYS_futex, at, libc::FUTEX_WAIT, seen, &limit, null::<u32>(), 0);
        }
    }

    fn lock_of(&self, member: u32) -> u64 {
        LOCKS + u64::from(member)
    }

    fn header(&self, index: usize) -> &AtomicU64 {
        &self.all()[index]
    }

    fn bell_word(&self) -> &AtomicU32 {
        // SAFETY: the first half of a word of the header, aligned, in a mapping that `self` has.
        unsafe { AtomicU32::from_ptr(self.header(BELL).as_ptr().cast()) }
    }

    fn all(&self) -> &[AtomicU64] {
        let first = self.mapping.addr() as *const AtomicU64;
        // SAFETY: the mapping is as long as this, aligned to a page and there as long as `self`; the file
        // cannot shrink, all of it is atomic, and every bit pattern is valid.
        unsafe { std::slice::from_raw_parts(first, HEADER + self.words) }
    }
}

fn failed(doing: &str, why: &io::Error) -> Error {
    Kind::Device.because(format!("a table for several processes, {doing}: {}", refusal::explain(why)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::atomic::Ordering::Relaxed, thread};

    #[test]
    fn members_see_the_same_words_and_who_has_left() {
        let first = SharedTable::new("ferry:test-table", 4).expect("memory");
        let second = SharedTable::join("ferry:test-table", first.shared().file, 4).expect("the same");
        assert_ne!(first.member(), second.member());
        first.words()[3].store(7, Relaxed);
        assert_eq!((second.words()[3].load(Relaxed), second.words().len()), (7, 4));
        assert!(first.is_alive(second.member()) && second.is_alive(first.member()));
        let left = second.member();
        drop(second);
        assert!(!first.is_alive(left) && first.is_alive(first.member()));
        assert!(!first.is_alive(left + 1), "nobody yet");
        let third = SharedTable::join("ferry:test-table", first.shared().file, 4).expect("the same");
        assert_eq!(third.member(), left + 1, "a number is never used again");
    }

    #[test]
    fn a_bell_that_rang_before_the_wait_ends_it_too() {
        const LONG: Duration = Duration::from_secs(60);
        let table = SharedTable::new("ferry:test-bell", 1).expect("memory");
        let seen = table.bell();
        table.ring();
        table.wait(seen, LONG);
        let seen = table.bell();
        thread::scope(|scope| {
            scope.spawn(|| table.ring());
            while table.bell() == seen {
                table.wait(seen, LONG);
            }
        });
        table.wait(table.bell(), Duration::from_millis(1));
    }

    #[test]
    fn what_is_too_short_is_no_table() {
        let short = SharedTable::new("ferry:test-short", 4).expect("memory");
        assert!(SharedTable::join("ferry:test-short", short.shared().file, 4000).is_err());
    }
}
