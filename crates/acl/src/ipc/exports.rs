//! The exports of this process: the table that the service answers from.
//!
//! An export is memory, or the table of an event or a notify, which is memory too. It has a name, which
//! importers ask for, and a white list of processes. Memory that is freed ends
//! its exports; importers keep what they have imported before.

use super::{
    socket::{Socket, random},
    wire::{Answer, ExportKind, Name},
};
use crate::{Error, Result, constants as c, error::fail};
use ferry::engine::refusal;
use ferry_core::{Shared, sync::lock};
use std::{
    any::Any,
    collections::{HashMap, HashSet, hash_map::Entry},
    io,
    ops::Deref,
    sync::{Arc, Mutex, MutexGuard},
};

/// Memory as an importer gets it, and what keeps it.
pub struct ExportedMemory {
    /// Where the bytes lie.
    pub shared: Shared,
    /// The physical number of its device.
    pub device: u32,
    /// Keeps the bytes for as long as the importer's lease lasts.
    pub keep: Box<dyn Any + Send>,
}

/// Shares exported memory with one more importer, or gives the answer that refuses it.
pub type ShareExport = Box<dyn Fn() -> Result<ExportedMemory, Answer> + Send + Sync>;

/// Exported memory as its own process knows it: an address, or a handle.
pub type Source = (ExportKind, usize);

/// The exports of a process, behind the number of its socket.
pub struct Exports {
    /// The number of the socket that importers ask at.
    pub number: u32,
    table: Mutex<ExportTable>,
}

/// All exports, and which of them are of the same memory.
#[derive(Default)]
struct ExportTable {
    by_name: HashMap<Name, ExportEntry>,
    by_source: HashMap<Source, HashSet<Name>>,
    /// How many calls are about to export something.
    users: usize,
    /// The service has ended, since there was nothing to serve: the next export needs another one.
    is_over: bool,
}

/// One export; `share` is dropped when the memory is freed.
struct ExportEntry {
    source: Source,
    share: Option<ShareExport>,
    open_to_all: bool,
    pids: HashSet<i32>,
}

/// Exports whose service does not end meanwhile.
pub struct ServedExports(Arc<Exports>);

impl Deref for ServedExports {
    type Target = Exports;

    fn deref(&self) -> &Exports {
        &self.0
    }
}

impl Drop for ServedExports {
    fn drop(&mut self) {
        lock(&self.0.table).users -= 1;
    }
}

impl Exports {
    /// No exports yet.
    pub fn new(number: u32) -> Arc<Exports> {
        Arc::new(Exports { number, table: Mutex::default() })
    }

    /// Keeps the service from ending; `None` if it has ended.
    pub fn retain(self: &Arc<Self>) -> Option<ServedExports> {
        let mut table = lock(&self.table);
        if table.is_over {
            return None;
        }
        table.users += 1;
        Some(ServedExports(self.clone()))
    }

    /// Whether nothing is exported.
    pub fn is_unused(&self) -> bool {
        lock(&self.table).by_name.is_empty()
    }

    /// Ends the service if nothing is exported, nor about to be.
    pub fn end(&self) -> bool {
        let mut table = lock(&self.table);
        table.is_over = table.by_name.is_empty() && table.users == 0;
        table.is_over
    }

    /// Wakes the service if nothing is exported any more, so that it can end.
    fn wake_if_unused(&self, table: MutexGuard<'_, ExportTable>) {
        let is_unused = table.by_name.is_empty() && !table.is_over;
        drop(table);
        if is_unused {
            Socket::knock(self.number);
        }
    }

    /// Adds an export, and returns its name.
    pub fn export(&self, source: Source, share: ShareExport, open_to_all: bool) -> Result<Name> {
        self.add(&mut lock(&self.table), source, share, open_to_all)
    }

    /// As [`export`](Self::export), unless it is exported already.
    pub fn export_once(&self, source: Source, share: ShareExport, open_to_all: bool) -> Result<Option<Name>> {
        let mut table = lock(&self.table);
        match table.by_source.contains_key(&source) {
            true => Ok(None),
            false => self.add(&mut table, source, share, open_to_all).map(Some),
        }
    }

    fn add(
        &self,
        table: &mut ExportTable,
        source: Source,
        share: ShareExport,
        open_to_all: bool,
    ) -> Result<Name> {
        let name = loop {
            let bits = u128::from_le_bytes(random().map_err(|why| no_service("random numbers", &why))?);
            let secret = if source.0 == ExportKind::Physical { (bits as u32).into() } else { bits };
            let name = Name { socket: self.number, what: source.0, secret };
            if secret != 0 && !table.by_name.contains_key(&name) {
                break name;
            }
        };
        let export = ExportEntry { source, share: Some(share), open_to_all, pids: HashSet::new() };
        table.by_name.insert(name, export);
        table.by_source.entry(source).or_default().insert(name);
        Ok(name)
    }

    /// Adds processes to the white list of an export; whether there is such an export.
    pub fn allow(&self, name: &Name, pids: &[i32]) -> bool {
        let mut table = lock(&self.table);
        table.by_name.get_mut(name).map(|export| export.pids.extend(pids)).is_some()
    }

    /// From here on every process that knows its name may import an export.
    pub fn open_to_all(&self, name: &Name) {
        if let Some(export) = lock(&self.table).by_name.get_mut(name) {
            export.open_to_all = true;
        }
    }

    /// Whether this process exports something under this name.
    pub fn knows(&self, name: &Name) -> bool {
        lock(&self.table).by_name.contains_key(name)
    }

    /// Ends an export; whether there was one. Importers keep what they have imported.
    pub fn withdraw(&self, name: &Name) -> bool {
        let mut table = lock(&self.table);
        let Some(export) = table.by_name.remove(name) else { return false };
        if let Entry::Occupied(mut names) = table.by_source.entry(export.source) {
            names.get_mut().remove(name);
            if names.get().is_empty() {
                names.remove();
            }
        }
        self.wake_if_unused(table);
        drop(export); // without the lock: dropping it may free memory
        true
    }

    /// Ends the exports of memory that was just freed. An export key stays known until it is closed; a
    /// shareable handle ends here.
    pub fn freed(&self, source: Source) {
        let mut table = lock(&self.table);
        let Some(names) = table.by_source.remove(&source) else { return };
        let mut ended = Vec::new();
        for name in names {
            match source.0 {
                ExportKind::Allocation => {
                    ended.extend(table.by_name.get_mut(&name).and_then(|export| export.share.take()));
                }
                ExportKind::Physical | ExportKind::Event | ExportKind::Notify => {
                    ended.extend(table.by_name.remove(&name).and_then(|export| export.share));
                }
            }
        }
        self.wake_if_unused(table);
        drop(ended); // without the lock: dropping it may free memory
    }

    /// Shares an export with the process `pid`, or gives the answer that refuses it.
    pub fn share(&self, name: &Name, pid: i32) -> Result<ExportedMemory, Answer> {
        let table = lock(&self.table);
        let export = table.by_name.get(name).ok_or(Answer::Unknown)?;
        if !export.open_to_all && !export.pids.contains(&pid) {
            return Err(Answer::NotListed);
        }
        export.share.as_ref().ok_or(Answer::Freed)?()
    }
}

/// The error for something that sharing memory needs and the system does not give.
#[cold]
pub fn no_service(what: &str, why: &io::Error) -> Error {
    fail(c::ACL_ERROR_RT_IPC_ERROR, format!("sharing memory needs {what}: {}", refusal::explain_thread(why)))
}
