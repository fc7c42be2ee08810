//! One budget of memory for each device, shared by the processes of a user (`FERRY_DEVICE_SHARED`).
//!
//! A small file has a slot for each process: its pid, and the bytes that it has of each device. A slot counts
//! while the part of the file where it lies is locked. That lock belongs to the open file behind the
//! process's mapping, which no descriptor refers to any more and no forked child inherits: the kernel lets go
//! of it when the process ends, in whatever way, or becomes another program. A program that closes all
//! descriptors does not lose it.
//!
//! A process writes its own slot only, a word at a time, so none that is killed leaves a number half changed.
//! Allocations take turns (`FileLock`), since the sum of all slots must not change between looking and
//! taking; frees need not.

use crate::os::{
    file_locks::{is_part_locked, lock_part},
    files::above,
    mapping::Mapping,
    refusal::limit,
};
use ferry_core::{Error, Kind, Result};
use std::{
    fs::{File, OpenOptions},
    io,
    mem::{offset_of, size_of},
    os::{
        fd::{AsFd, AsRawFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Processes at a time.
const SLOTS: usize = 256;
/// Devices of a machine.
const DEVICES: usize = 64;
/// The lock is held for microseconds. A process that was stopped while it held it does not block the others
/// for ever.
const LONGEST_LOCK: Duration = Duration::from_secs(10);
/// How often a process that waits for the lock tries again.
const RETRY_EVERY: Duration = Duration::from_micros(50);

/// The file. A change of this layout takes a new version in its name: processes of one version share.
#[repr(C)]
struct BudgetTable {
    /// Bytes of each device, by its number on this machine; 0 where no process has opened it.
    capacity: [AtomicU64; DEVICES],
    /// The processes.
    slots: [ProcessSlot; SLOTS],
}

#[repr(C)]
struct ProcessSlot {
    /// The process; 0 in a slot that was never used, or whose process is gone.
    pid: AtomicU64,
    /// What it has of each device.
    bytes: [AtomicU64; DEVICES],
}

/// A device's part of the budget.
pub struct Share {
    budget: Arc<Budget>,
    /// The device's number on this machine.
    number: u32,
}

impl Share {
    /// Joins those that share by a file in `folder`, with the devices of these numbers. They have the sizes
    /// that those have who came first; a device that none has opened is as large as `size`.
    pub fn join(folder: &Path, numbers: &[u32], size: usize) -> Result<impl Iterator<Item = Share>> {
        let budget = Arc::new(Budget::join(folder, numbers, size)?);
        Ok(numbers.iter().map(move |number| Share { budget: budget.clone(), number: *number }))
    }

    /// Bytes of the device.
    pub fn capacity(&self) -> usize {
        self.budget.capacity(self.number)
    }

    /// What other processes have of it.
    pub fn others(&self) -> Result<usize> {
        self.budget.others(self.number)
    }

    /// Takes bytes of it, if there are so many.
    pub fn take(&self, bytes: usize) -> Result<bool> {
        self.budget.take(self.number, bytes)
    }

    /// Gives them back.
    pub fn give(&self, bytes: usize) {
        self.budget.own().bytes[self.number as usize].fetch_sub(bytes as u64, Relaxed);
    }
}

/// A process's place among those that share.
struct Budget {
    path: PathBuf,
    /// Device and inode of the file, to be found again under its name.
    identity: (u64, u64),
    slot: usize,
    mapping: Mapping,
}

impl Budget {
    fn join(folder: &Path, numbers: &[u32], size: usize) -> Result<Budget> {
        let path = folder.join(file_name());
        let file = own_file(&path)?;
        let turn = FileLock::wait(&file, &path)?;
        make_room(&file).map_err(|why| cannot(&path, &why))?;
        let mapping = Mapping::of_table(&path.to_string_lossy(), file.as_fd(), size_of::<BudgetTable>())?;
        let mut budget = Budget { identity: identity(&file, &path)?, path, slot: SLOTS, mapping };
        budget.sweep(&file);
        budget.slot = (0..SLOTS).find(|slot| lock_slot(&file, *slot)).ok_or_else(|| budget.is_full())?;
        budget.begin(numbers, size);
        drop(turn);
        drop(file);
        budget.is_kept()?;
        Ok(budget)
    }

    fn capacity(&self, number: u32) -> usize {
        self.table().capacity[number as usize].load(Relaxed) as usize
    }

    fn others(&self, number: u32) -> Result<usize> {
        let file = self.reopen()?;
        let held = |(index, slot): (usize, &ProcessSlot)| match slot.bytes[number as usize].load(Relaxed) {
            0 => 0,
            bytes => bytes * u64::from(self.lives(&file, index)),
        };
        Ok(self.strangers().map(held).fold(0, u64::saturating_add) as usize)
    }

    fn take(&self, number: u32, bytes: usize) -> Result<bool> {
        let file = self.reopen()?;
        let _turn = FileLock::wait(&file, &self.path)?;
        let fits = || {
            let used = self.table().slots.iter().map(|slot| slot.bytes[number as usize].load(Relaxed));
            used.fold(bytes as u64, u64::saturating_add) <= self.capacity(number) as u64
        };
        let taken = fits() || {
            self.sweep(&file);
            fits()
        };
        if taken {
            self.own().bytes[number as usize].fetch_add(bytes as u64, Relaxed);
        }
        Ok(taken)
    }

    /// Fills in our slot, whose lock is held. It is our turn, and slots of processes that are gone are clear.
    fn begin(&self, numbers: &[u32], size: usize) {
        if self.strangers().all(|(_, slot)| slot.pid.load(Relaxed) == 0) {
            self.table().capacity.iter().for_each(|capacity| capacity.store(0, Relaxed));
        }
        for capacity in numbers.iter().map(|number| &self.table().capacity[*number as usize]) {
            let _ = capacity.compare_exchange(0, size as u64, Relaxed, Relaxed);
        }
        self.own().pid.store(u64::from(process::id()), Relaxed);
    }

    fn is_full(&self) -> Error {
        let note = format!("{SLOTS} processes share device memory already");
        Kind::LimitReached.because(format!("{}: {note}", about(&self.path)))
    }

    /// Clears the slots of processes that are gone. The file is locked: no process takes a slot meanwhile.
    fn sweep(&self, file: &File) {
        let used = self.strangers().filter(|(_, slot)| slot.pid.load(Relaxed) != 0);
        used.filter(|(index, _)| !self.lives(file, *index)).for_each(|(_, slot)| slot.clear());
    }

    /// Whether a slot's process is there. Its lock says so; one that was forked in the moment when its parent
    /// joined may hold the lock as well, so the parent must exist too.
    fn lives(&self, file: &File, index: usize) -> bool {
        let pid = self.table().slots[index].pid.load(Relaxed);
        // SAFETY: signal 0 asks whether there is such a process, and sends nothing.
        let exists = || unsafe { libc::kill(pid as i32, 0) } == 0
            || io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH);
        is_held(file, index) && exists()
    }

    /// On file systems that map another file in place of ours (overlayfs), the lock went with the descriptor.
    fn is_kept(&self) -> Result<()> {
        let kept = is_held(&self.reopen()?, self.slot);
        kept.then_some(()).ok_or_else(|| {
            let note =
                "the file system does not keep locks of files that are only mapped: name a folder of a tmpfs";
            Kind::BadSetting.because(format!("{}: {note}", about(&self.path)))
        })
    }

    /// A descriptor to query locks with, closed at once: a program may close any that we keep. It is open
    /// for reading only.
    fn reopen(&self) -> Result<File> {
        let file = above(|| OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(&self.path));
        let file = file.map_err(|why| cannot(&self.path, &why))?;
        if identity(&file, &self.path)? != self.identity {
            return Err(
                Kind::Device.because(format!("{}: somebody put another file there", about(&self.path)))
            );
        }
        Ok(file)
    }

    fn strangers(&self) -> impl Iterator<Item = (usize, &ProcessSlot)> {
        self.table().slots.iter().enumerate().filter(|(index, _)| *index != self.slot)
    }

    fn own(&self) -> &ProcessSlot {
        &self.table().slots[self.slot]
    }

    fn table(&self) -> &BudgetTable {
        // SAFETY: the mapping is as long as a table, aligned to a page and there as long as `self`; all of it
        // is atomic, and every bit pattern is valid.
        unsafe { &*(self.mapping.addr() as *const BudgetTable) }
    }
}

impl ProcessSlot {
    /// The pid last: who dies in between leaves a slot that is cleared again.
    fn clear(&self) {
        self.bytes.iter().chain([&self.pid]).for_each(|word| word.store(0, Relaxed));
    }
}

/// The right to change sums. A lock of the whole file, which the kernel lets go of if we die.
struct FileLock<'f>(&'f File);

impl<'f> FileLock<'f> {
    fn wait(file: &'f File, path: &Path) -> Result<FileLock<'f>> {
        let end = Instant::now() + LONGEST_LOCK;
        // SAFETY: the descriptor is open.
        while unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let why = io::Error::last_os_error();
            match why.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::EWOULDBLOCK) if Instant::now() < end => thread::sleep(RETRY_EVERY),
                Some(libc::EWOULDBLOCK) => {
                    let note = "another process has locked the file for 10 seconds; one that is stopped?";
                    return Err(Kind::Device.because(format!("{}: {note}", about(path))));
                }
                _ => return Err(cannot(path, &why)),
            }
        }
        Ok(FileLock(file))
    }
}

impl Drop for FileLock<'_> {
    /// Not left to the descriptor: a child that is forked now has it as well.
    fn drop(&mut self) {
        // SAFETY: the descriptor is open.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Processes of one user and one pid namespace share, so that a pid means the same to all of them.
fn file_name() -> String {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let number: String = namespace.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    // SAFETY: only asks for a number.
    format!("ferry-devices-v1.{}.{number}", unsafe { libc::geteuid() })
}

/// The file, made if it is not there, and only ours: other users can put links and files of theirs into
/// folders such as /dev/shm.
fn own_file(path: &Path) -> Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = above(|| options.open(path)).map_err(|why| cannot(path, &why))?;
    let data = file.metadata().map_err(|why| cannot(path, &why))?;
    // SAFETY: only asks for a number.
    let user = unsafe { libc::geteuid() };
    if !data.is_file() || data.uid() != user || data.mode() & 0o077 != 0 {
        let note = format!("not a file that user {user} alone can write; it is user {}'s", data.uid());
        return Err(Kind::BadSetting.because(format!("{}: {note}", about(path))));
    }
    Ok(file)
}

/// Makes the file as long as a table, with pages behind all of it: touching one that a full file system lacks
/// would end the process, and so would growing past a limit of the process.
fn make_room(file: &File) -> io::Result<()> {
    let len = size_of::<BudgetTable>();
    if file.metadata()?.len() >= len as u64 {
        return Ok(());
    }
    if limit(libc::RLIMIT_FSIZE) < len {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: the descriptor is open.
    match unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len as libc::off_t) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn identity(file: &File, path: &Path) -> Result<(u64, u64)> {
    let data = file.metadata().map_err(|why| cannot(path, &why))?;
    Ok((data.dev(), data.ino()))
}

/// Locks a slot for as long as the open file lives, unless another process has it.
fn lock_slot(file: &File, slot: usize) -> bool {
    lock_part(file.as_fd(), place(slot), size_of::<ProcessSlot>() as u64)
}

/// Whether another open file has a slot locked.
fn is_held(file: &File, slot: usize) -> bool {
    is_part_locked(file.as_fd(), place(slot), size_of::<ProcessSlot>() as u64)
}

/// Where a slot begins in the file.
fn place(slot: usize) -> u64 {
    (offset_of!(BudgetTable, slots) + slot * size_of::<ProcessSlot>()) as u64
}

fn about(path: &Path) -> String {
    format!("FERRY_DEVICE_SHARED: {}", path.display())
}

fn cannot(path: &Path, why: &io::Error) -> Error {
    let kind = match why.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOLCK) => Kind::Device,
        _ => Kind::BadSetting,
    };
    kind.because(format!("{}: {why}", about(path)))
}
