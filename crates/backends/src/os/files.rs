//! File descriptors of the library, in a process that belongs to a program. They are 3 or higher, so that
//! nothing the program prints is written to them, and they are ours only as long as the program has not
//! closed them: a program may close all descriptors and open its own under the same numbers. So each is
//! known by the file behind it, and that is compared before it is used or closed.
//!
//! A forked child closes its copies (`fork.rs`): memory files, exports and leases of a process that ended are
//! gone.

use std::{
    cell::Cell,
    fs::File,
    io::{self, Read},
    mem::ManuallyDrop,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd},
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError, TryLockError},
};

/// The first descriptor that is not one of the standard ones.
const FIRST: RawFd = 3;

/// What tells one open file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Id {
    device: u64,
    inode: u64,
    /// The process behind it: until Linux 6.9 all such descriptors share one inode with others that have none
    /// of their own.
    process: Option<i32>,
}

/// A descriptor of ours that outlives a call.
#[derive(Debug)]
pub struct Kept {
    fd: RawFd,
    id: Id,
}

impl Kept {
    /// Keeps what `open` opens.
    pub fn open<T: Into<OwnedFd>>(open: impl FnOnce() -> io::Result<T>) -> io::Result<Kept> {
        Kept::keep(None, || open().map(Into::into))
    }

    /// Keeps what `open` opens, which stands for a process.
    pub fn of_process(pid: i32, open: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<Kept> {
        Kept::keep(Some(pid), open)
    }

    fn keep(process: Option<i32>, open: impl FnOnce() -> io::Result<OwnedFd>) -> io::Result<Kept> {
        super::fork::watch()?;
        let mut plugs = Plugs::new();
        let fd = raised(open()?)?;
        let (device, inode) = place(fd.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
        // What cannot be told apart by its process is known by its inode alone.
        let process = process.filter(|pid| process_behind(fd.as_raw_fd()).is_ok_and(|behind| behind == *pid));
        let kept = Kept { fd: fd.into_raw_fd(), id: Id { device, inode, process } };
        plugs.kept.guard.push((kept.fd, kept.id));
        Ok(kept)
    }

    /// The descriptor, if it is still ours.
    pub fn get(&self) -> io::Result<BorrowedFd<'_>> {
        // A file is opened to ask for the process.
        let _plugs = self.id.process.map(|_| Plugs::new());
        if is_behind(self.fd, self.id) {
            // SAFETY: open, and the file behind it is ours. A program that closes it at this very moment is
            // told by the system.
            return Ok(unsafe { BorrowedFd::borrow_raw(self.fd) });
        }
        Err(io::Error::other(format!("the program has closed descriptor {}, which was Ferry's", self.fd)))
    }

    /// Whether it is still ours.
    pub fn is_ours(&self) -> bool {
        self.get().is_ok()
    }
}

impl ferry_core::OpenFile for Kept {
    fn get(&self) -> io::Result<BorrowedFd<'_>> {
        Kept::get(self)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let kept = &mut Plugs::new().kept.guard;
        if let Some(index) = kept.iter().position(|entry| *entry == (self.fd, self.id)) {
            kept.swap_remove(index);
        }
        close(self.fd, self.id);
    }
}

/// Opens something for a moment, at 3 or higher.
pub fn above<T: From<OwnedFd> + Into<OwnedFd>>(open: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let _plugs = Plugs::new();
    raised(open()?.into()).map(T::from)
}

/// As `std::fs::read_to_string`, but what is no UTF-8 does not spoil the rest: files of `/proc` have names in
/// them, of processes (cut at 15 bytes, inside a letter too) and of mapped files.
pub fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    let mut bytes = Vec::new();
    above(|| File::open(path))?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Several descriptors that came at once, each at 3 or higher.
pub fn all_above(take: impl FnOnce() -> io::Result<Vec<OwnedFd>>) -> io::Result<Vec<OwnedFd>> {
    let _plugs = Plugs::new();
    take()?.into_iter().map(raised).collect()
}

/// While this lives, those of the standard descriptors that are closed are taken, by something that can
/// neither be read nor written, as a closed one: what is opened meanwhile gets another number at once, and
/// nothing that another thread prints lands in it. Whatever opens a file for a moment has to hold this, too,
/// also one that cannot be written: a number that looks taken when this begins, and is free a moment later,
/// is given to what is opened then.
struct Plugs {
    plugs: [Option<(OwnedFd, (u64, u64))>; FIRST as usize],
    kept: Borrowed,
}

impl Plugs {
    fn new() -> Plugs {
        let kept = lock();
        Plugs { plugs: std::array::from_fn(|fd| plug(fd as RawFd)), kept }
    }
}

impl Drop for Plugs {
    fn drop(&mut self) {
        for (fd, (device, inode)) in self.plugs.iter_mut().filter_map(Option::take) {
            // Another thread may have put a file of the program's there.
            close(fd.into_raw_fd(), Id { device, inode, process: None });
        }
    }
}

/// Takes a standard descriptor that is closed. `None` if it is open, or if another one was to be had.
fn plug(fd: RawFd) -> Option<(OwnedFd, (u64, u64))> {
    // SAFETY: asks for flags.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } >= 0 {
        return None;
    }
    // SAFETY: the path is a C string.
    let plug = unsafe { libc::open(c"/".as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    // SAFETY: the call just returned this descriptor, which has no other owner.
    let plug = (plug >= 0).then(|| unsafe { OwnedFd::from_raw_fd(plug) })?;
    let place = place(plug.as_raw_fd())?;
    (plug.as_raw_fd() < FIRST).then_some((plug, place))
}

/// A descriptor of the same file that is 3 or higher.
fn raised(fd: OwnedFd) -> io::Result<OwnedFd> {
    // The standard library asks for 3 or higher, too.
    if fd.as_raw_fd() >= FIRST { Ok(fd) } else { fd.try_clone() }
}

/// All that is kept, held.
type Guard = MutexGuard<'static, Vec<(RawFd, Id)>>;

/// All that is kept. A thread that forks holds it, so that the child finds it whole.
static KEPT: Mutex<Vec<(RawFd, Id)>> = Mutex::new(Vec::new());

thread_local! {
    /// What this thread holds while it forks.
    static HELD: Cell<Option<ManuallyDrop<Guard>>> = const { Cell::new(None) };
}

/// All that is kept, for one who works on it. A handler of fork may, on the thread that holds it for the
/// fork: it borrows it.
struct Borrowed {
    guard: ManuallyDrop<Guard>,
    is_for_fork: bool,
}

fn lock() -> Borrowed {
    let held = HELD.take();
    let is_for_fork = held.is_some();
    let guard =
        held.unwrap_or_else(|| ManuallyDrop::new(KEPT.lock().unwrap_or_else(PoisonError::into_inner)));
    Borrowed { guard, is_for_fork }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: the field is not used again.
        let guard = unsafe { ManuallyDrop::take(&mut self.guard) };
        if self.is_for_fork {
            HELD.set(Some(ManuallyDrop::new(guard)));
        }
    }
}

/// Locks the list of kept descriptors before a fork. Gives up after some tries: a signal handler that forks
/// may have interrupted the thread that has the lock.
pub(crate) fn lock_for_fork() {
    const TRIES: usize = 10_000;
    for _ in 0..TRIES {
        let held = match KEPT.try_lock() {
            Ok(held) => held,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                std::thread::yield_now();
                continue;
            }
        };
        return HELD.set(Some(ManuallyDrop::new(held)));
    }
}

/// Unlocks the list after the fork.
pub(crate) fn unlock_after_fork() {
    drop(HELD.take().map(ManuallyDrop::into_inner));
}

/// In a forked child: closes its copies. Called between `lock_for_fork` and `unlock_after_fork`.
pub(crate) fn close_all() {
    let mut held = HELD.take();
    if let Some(kept) = &mut held {
        kept.drain(..).for_each(|(fd, id)| close(fd, id));
    }
    HELD.set(held);
}

/// Closes a descriptor, if what is behind it is ours.
fn close(fd: RawFd, id: Id) {
    if is_behind(fd, id) {
        // SAFETY: ours, and its owner is dropped.
        unsafe { libc::close(fd) };
    }
}

fn is_behind(fd: RawFd, id: Id) -> bool {
    // A process that is dead and gone has no number. Where nothing can be asked, the inode has to do.
    let is_process = |pid| match process_behind(fd) {
        Ok(behind) => behind == pid || behind <= 0,
        Err(why) => why.kind() != io::ErrorKind::NotFound,
    };
    place(fd) == Some((id.device, id.inode)) && id.process.is_none_or(is_process)
}

fn place(fd: RawFd) -> Option<(u64, u64)> {
    // SAFETY: plain data for fstat to fill.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: any number may be asked about; `stat` is written.
    let known = unsafe { libc::fstat(fd, &mut stat) } == 0;
    known.then_some((stat.st_dev, stat.st_ino))
}

/// The process that a descriptor stands for; `NotFound` if it stands for none, and other errors if that
/// cannot be said. The caller holds `Plugs`.
fn process_behind(fd: RawFd) -> io::Result<i32> {
    let mut info = String::new();
    File::open(format!("/proc/thread-self/fdinfo/{fd}"))?.read_to_string(&mut info)?;
    let pid = info.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|pid| pid.trim().parse().ok());
    pid.ok_or(io::ErrorKind::NotFound.into())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn memory() -> io::Result<OwnedFd> {
        // SAFETY: the name is a C string; the descriptor is new.
        unsafe { Ok(OwnedFd::from_raw_fd(libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC))) }
    }

    #[test]
    fn what_the_program_put_in_its_place_is_neither_used_nor_closed() {
        let kept = Kept::open(memory).expect("a file");
        assert!(kept.is_ours() && kept.fd >= FIRST);
        let (fd, stranger) = (kept.fd, memory().expect("a file"));
        // SAFETY: what is there is the test's.
        assert_eq!(unsafe { libc::dup2(stranger.as_raw_fd(), fd) }, fd);
        let error = kept.get().expect_err("not ours");
        assert!(error.to_string().contains(&format!("descriptor {fd}")), "{error}");
        drop(kept);
        assert_eq!(place(fd), place(stranger.as_raw_fd()), "still open");
        // SAFETY: put there above.
        unsafe { libc::close(fd) };
        assert!(!lock().guard.iter().any(|entry| entry.0 == fd));
    }

    #[test]
    fn a_process_is_known_by_its_number() {
        let open = |pid: i32| {
            move || {
                // SAFETY: takes numbers; the descriptor is new.
                unsafe { Ok(OwnedFd::from_raw_fd(libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32)) }
            }
        };
        let me = std::process::id() as i32;
        let kept = Kept::of_process(me, open(me)).expect("Linux 5.3");
        assert!(kept.is_ours() && kept.id.process == Some(me));
        let other = open(1)().expect("the first process");
        // SAFETY: what is there is the test's.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), kept.fd) }, kept.fd);
        assert!(!kept.is_ours());
    }

    #[test]
    fn a_process_that_is_gone_is_still_known() {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        let pid = child.id() as i32;
        let open = || {
            // SAFETY: takes numbers; the descriptor is new.
            unsafe { Ok(OwnedFd::from_raw_fd(libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32)) }
        };
        let kept = Kept::of_process(pid, open).expect("Linux 5.3");
        child.wait().expect("our child");
        assert!(kept.id.process == Some(pid) && kept.is_ours());
    }
}
