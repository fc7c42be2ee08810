//! What a process has of each device, for others to read: `npu-smi` lists it.
//!
//! Every runtime has a small file in memory (memfd) of a known name, and keeps its descriptor open. A
//! process that may read this one's descriptors in /proc (its user's, and root's) finds it there. Nothing
//! has to be tidied up: the file is gone with the process, and numbers are changed by plain stores. A
//! forked child is not its parent: it never writes, and a file that names another process is passed over.
//! Where no such file can be made, or the program has closed it, the process is not listed; nothing else
//! fails.

use crate::os::{
    files::{Kept, read_to_string},
    fork::ForkMark,
    mapping::Mapping,
};
use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    mem::{offset_of, size_of},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

const DEVICES: usize = 64;

/// The file. A change of this layout takes a new version in its name.
#[repr(C)]
struct UsageTable {
    /// The process, as it calls itself.
    pid: AtomicU64,
    /// Bytes of each device, by its number on this machine.
    bytes: [AtomicU64; DEVICES],
    /// Its contexts on each device.
    contexts: [AtomicU64; DEVICES],
}

/// What this process has by one backend, in one runtime.
pub struct Usage {
    fork: ForkMark,
    sheet: Option<(Mapping, Kept)>,
}

impl Usage {
    /// Begins with nothing of any device.
    pub fn new(backend: impl fmt::Display) -> Arc<Usage> {
        let fork = ForkMark::new();
        let sheet = fork.set().ok().and_then(|()| make(&file_name(backend)));
        let usage = Usage { fork, sheet };
        if let Some(table) = usage.table() {
            table.pid.store(u64::from(std::process::id()), Relaxed);
        }
        Arc::new(usage)
    }

    /// What the process has of the device of this number.
    pub fn of_device(self: &Arc<Usage>, number: u32) -> Account {
        Account { usage: self.clone(), number: number as usize }
    }

    /// Whether any of the range lies where the table is: it is no memory of the program's.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        self.sheet.as_ref().is_some_and(|(mapping, _)| mapping.meets(addr, len))
    }

    /// The table, unless this is a forked child, which has none at this address.
    fn table(&self) -> Option<&UsageTable> {
        let (mapping, _) = self.sheet.as_ref().filter(|_| !self.fork.is_child())?;
        // SAFETY: the mapping is longer than a table, aligned to a page and there as long as `self`; all of
        // it is atomic, and every bit pattern is valid.
        Some(unsafe { &*(mapping.addr() as *const UsageTable) })
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        if self.fork.is_child() {
            // What lies at these addresses is the child's own.
            std::mem::forget(self.sheet.take());
        }
    }
}

/// What a process has of one device.
#[derive(Clone)]
pub struct Account {
    usage: Arc<Usage>,
    number: usize,
}

impl Account {
    /// Counts bytes that were taken.
    pub fn take(&self, bytes: usize) {
        self.change(|table| &table.bytes, bytes as u64);
    }

    /// Counts bytes that were given back.
    pub fn give(&self, bytes: usize) {
        self.change(|table| &table.bytes, (bytes as u64).wrapping_neg());
    }

    /// Counts a context that was made.
    pub fn enter(&self) {
        self.change(|table| &table.contexts, 1);
    }

    /// Counts a context that is no more.
    pub fn leave(&self) {
        self.change(|table| &table.contexts, 1_u64.wrapping_neg());
    }

    fn change(&self, column: impl Fn(&UsageTable) -> &[AtomicU64; DEVICES], by: u64) {
        let table = self.usage.table();
        if let Some(word) = table.and_then(|table| column(table).get(self.number)) {
            word.fetch_add(by, Relaxed);
        }
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage").field("is_told", &self.sheet.is_some()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Account({})", self.number)
    }
}

/// A process that uses devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, as this process calls it.
    pub pid: u32,
    /// What it is called.
    pub name: String,
    /// The devices that it uses, by their numbers on this machine, and the bytes that it has of each; 0 where
    /// it has only contexts.
    pub devices: BTreeMap<u32, u64>,
}

/// The processes that use devices of this backend, as far as this one may know: those of its user, or all if
/// it is root. By pid, without itself.
pub fn processes(backend: impl fmt::Display) -> Vec<Process> {
    let link = format!("/memfd:{} (deleted)", file_name(backend));
    let folders = entries(Path::new("/proc"));
    let mut pids: Vec<u32> =
        folders.iter().filter_map(|folder| folder.file_name()?.to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.iter().filter(|pid| **pid != std::process::id()).filter_map(|pid| process(*pid, &link)).collect()
}

fn process(pid: u32, link: &str) -> Option<Process> {
    let folder = Path::new("/proc").join(pid.to_string());
    let tables = tables(&folder, link);
    let own = if tables.is_empty() { None } else { own_pid(&folder) }?;
    let mut devices: BTreeMap<u32, u64> = BTreeMap::new();
    for (device, bytes) in tables.values().filter(|table| table[0] == own).flat_map(used) {
        let sum = devices.entry(device).or_default();
        *sum = sum.saturating_add(bytes);
    }
    let name = read_to_string(folder.join("comm")).ok()?.trim_end().to_owned();
    (!devices.is_empty()).then_some(Process { pid, name, devices })
}

/// The devices that are used by a table, and the bytes of each.
fn used(table: &[u64; WORDS]) -> impl Iterator<Item = (u32, u64)> {
    let (bytes, contexts) = (&table[BYTES..BYTES + DEVICES], &table[CONTEXTS..CONTEXTS + DEVICES]);
    let used = (0..).zip(bytes.iter().zip(contexts));
    used.filter(|(_, (bytes, contexts))| **bytes > 0 || **contexts > 0)
        .map(|(device, (bytes, _))| (device, *bytes))
}

/// The tables that a process has open, by their inodes: the program may have one open more than once.
fn tables(folder: &Path, link: &str) -> BTreeMap<u64, [u64; WORDS]> {
    let is_ours = |path: &PathBuf| fs::read_link(path).is_ok_and(|target| target.as_os_str() == link);
    descriptors(folder).iter().filter(|path| is_ours(path)).filter_map(|path| read(path)).collect()
}

/// The descriptors of a process. One whose main thread has left shows them under its other threads only.
fn descriptors(folder: &Path) -> Vec<PathBuf> {
    let of = |folder: &Path| entries(&folder.join("fd"));
    let own = of(folder);
    if !own.is_empty() {
        return own;
    }
    let tasks = entries(&folder.join("task"));
    tasks.iter().map(|task| of(task)).find(|list| !list.is_empty()).unwrap_or_default()
}

/// What lies in a folder; nothing, where it may not be looked into.
fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

const WORDS: usize = size_of::<UsageTable>() / 8;
const BYTES: usize = offset_of!(UsageTable, bytes) / 8;
const CONTEXTS: usize = offset_of!(UsageTable, contexts) / 8;

/// The inode of a table and its words.
fn read(path: &Path) -> Option<(u64, [u64; WORDS])> {
    let file = File::open(path).ok()?;
    let mut bytes = [0; WORDS * 8];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(bytes.try_into().ok()?);
    }
    Some((file.metadata().ok()?.ino(), words))
}

/// What a process calls itself: its number in the innermost pid namespace.
fn own_pid(folder: &Path) -> Option<u64> {
    let status = read_to_string(folder.join("status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().last()?.parse().ok()
}

fn make(name: &str) -> Option<(Mapping, Kept)> {
    let (mapping, file) = Mapping::shared(name, size_of::<UsageTable>().next_multiple_of(4096)).ok()?;
    let usable = mapping.advise(0, mapping.len(), libc::MADV_DONTFORK) && mapping.open(0, mapping.len());
    file.filter(|_| usable).map(|file| (mapping, file))
}

fn file_name(backend: impl fmt::Display) -> String {
    format!("ferry:use-v1-{backend}")
}
