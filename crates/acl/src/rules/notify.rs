//! Notifies: a stream records one, and another stream, of any device, waits for that; or a stream of another
//! process, which has imported the notify, records it.
//!
//! Unlike an event a notify has no time and cannot be asked: it is one bit on the device, which a record
//! sets and a wait uses up. What the bit does with waits that come first is `notify/bit.rs`. A wait of a
//! stream is a wait for a gate, so no thread stands still for it; a record is a function of the stream, so
//! that it has happened when a synchronise of the stream returns.
//!
//! `record_on` and `wait_on` submit to a stream as often as they are called and check no argument: the
//! rules are in [`record`] and [`wait`].

mod bit;

use super::export_key::{KEY_LEN, add_pids, physical, visible};
use crate::{
    Error, Result,
    arguments::refuse,
    capture::{self, TaskKind},
    constants::{self as c, *},
    error::fail,
    handles::{HandleKind, Handles},
    ipc::{
        self,
        ask::{ANSWER_LIMIT, ask},
        exports::ExportedMemory,
        wire::{ExportKind, KEY_TEXT, Name},
    },
    state::{Here, engine},
    waits::{self, Until},
};
use bit::{ImportedNotify, NotifyBit, NotifyWait};
use ferry_core::{Gate, JoinKind, Kind, Stream, sync::lock};
use ferry_watch::site;
use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

const NO_LIST: u64 = ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION as u64;
const ENABLE_PEER: u64 = ACL_RT_NOTIFY_IMPORT_FLAG_ENABLE_PEER_ACCESS as u64;

/// A notify as a handle of this process has it.
pub struct NotifyEntry {
    handle: usize,
    device: u32,
    side: NotifySide,
}

/// Which side of a notify this process is on.
enum NotifySide {
    /// It was made here, and is waited for here.
    Own {
        /// Its state.
        bit: Arc<NotifyBit>,
        /// What other processes import it by, once it was exported.
        name: Mutex<Option<Name>>,
    },
    /// It was made by another process, and is recorded here.
    Imported(Arc<ImportedNotify>),
}

impl HandleKind for NotifyEntry {
    const TAG: usize = 6;
}

/// The notifies of the process.
static NOTIFIES: Handles<NotifyEntry> = Handles::new();

/// aclrtCreateNotify: a notify of the current device.
pub fn create(here: &Here, flag: u64) -> Result<usize> {
    let engine = engine()?;
    let device = here.device()?;
    if flag > ACL_NOTIFY_DEVICE_USE_ONLY as u64 {
        return Err(refuse(format!(
            "flag is {flag:#x}: give ACL_NOTIFY_DEFAULT (0) or ACL_NOTIFY_DEVICE_USE_ONLY (1)"
        )));
    }
    let most = engine.settings.options.product.max_notifies;
    let state = engine.device(device)?;
    if state.notifies.fetch_add(1, Ordering::Relaxed) >= most {
        state.notifies.fetch_sub(1, Ordering::Relaxed);
        return Err(fail(
            c::ACL_ERROR_RT_NO_NOTIFY_RESOURCE,
            format!("device {device} has {most} notifies, the most there can be"),
        ));
    }
    Ok(insert(device, NotifySide::Own { bit: Arc::default(), name: Mutex::default() }))
}

fn insert(device: u32, side: NotifySide) -> usize {
    NOTIFIES.insert(|handle| NotifyEntry { handle, device, side }).handle
}

/// aclrtDestroyNotify: never blocks. Waits that are pending fail. Other processes destroy theirs by
/// themselves.
pub fn destroy(handle: usize) -> Result<()> {
    let engine = engine()?;
    let entry = NOTIFIES.remove(handle).ok_or_else(|| unknown(handle))?;
    let NotifySide::Own { bit, name } = &entry.side else { return Ok(()) };
    if let (Some(name), Some(exports)) = (*lock(name), ipc::exports()) {
        exports.withdraw(&name);
    }
    let note = format!("aclrtWaitAndResetNotify: notify {handle:#x} was destroyed before it was recorded");
    bit.end(&Kind::Native(c::ACL_ERROR_RT_PARAM_INVALID).because(note));
    engine.device(entry.device)?.notifies.fetch_sub(1, Ordering::Relaxed);
    Ok(())
}

/// aclrtRecordNotify: when the stream gets here, one wait is released.
pub fn record(here: &Here, handle: usize, stream: usize) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    match capture::of_stream(stream.handle) {
        Some(part) => part.each(TaskKind::NotifyRecord(handle), move |stream| record_on(&entry, stream)),
        None => record_on(&entry, &stream.stream),
    }
}

/// Has a stream record a notify.
pub(crate) fn record_on(entry: &Arc<NotifyEntry>, stream: &Arc<Stream>) -> Result<()> {
    match &entry.side {
        NotifySide::Own { bit, .. } => {
            let bit = bit.clone();
            stream.call_internal(move |behind| bit.record(behind))?;
        }
        NotifySide::Imported(notify) => {
            let (notify, recorder) = (notify.clone(), Arc::downgrade(stream));
            stream.call_internal(move |behind| {
                // The other process waits for it, and may answer from then on in ways that nobody sees.
                if let Some(recorder) = recorder.upgrade().filter(|_| site::is_on()) {
                    recorder.tell_joined(behind.ticket, JoinKind::Elsewhere);
                }
                notify.record();
            })?;
        }
    }
    Ok(())
}

/// aclrtWaitAndResetNotify: later work of the stream waits for a record, `timeout` seconds at most; 0 is no
/// limit.
pub fn wait(here: &Here, handle: usize, stream: usize, timeout: u32) -> Result<()> {
    let stream = here.stream(stream)?;
    let entry = find(handle)?;
    entry.own("waits for")?;
    match capture::of_stream(stream.handle) {
        Some(part) => part.each(TaskKind::NotifyWait(handle), move |stream| wait_on(&entry, stream, timeout)),
        None => wait_on(&entry, &stream.stream, timeout),
    }
}

/// Has a stream wait for a notify and use its record up.
pub(crate) fn wait_on(entry: &Arc<NotifyEntry>, stream: &Arc<Stream>, timeout: u32) -> Result<()> {
    let (bit, _) = entry.own("waits for")?;
    let gate = Gate::new();
    let ticket = match timeout {
        0 => stream.wait_for(gate.clone())?,
        _ => waits::block(&engine()?.runtime, stream, gate.clone(), entry.until(bit, &gate, timeout))?,
    };
    let (bit, wait) = (bit.clone(), NotifyWait { gate, stream: stream.clone(), ticket });
    stream.fence_after(ticket - 1).when_done(Box::new(move || bit.arrive(wait)));
    Ok(())
}

/// aclrtGetNotifyId: a small number that no other living notify of the process that made it has.
pub fn id(handle: usize) -> Result<u32> {
    Ok(find(handle)?.number())
}

/// aclrtNotifyBatchReset: takes back records that no wait has used up. All of the notifies, or none.
pub fn reset(handles: &[usize]) -> Result<()> {
    if handles.is_empty() {
        return Err(refuse("num is 0: give the number of notifies in the array"));
    }
    let find_own = |handle: usize| {
        let entry = find(handle)?;
        entry.own("resets").map(|(bit, _)| bit.clone())
    };
    let at = |(index, handle): (usize, &usize)| {
        find_own(*handle).map_err(|error| error.and(format!("it is notifies[{index}]")))
    };
    let bits = handles.iter().enumerate().map(at).collect::<Result<Vec<_>>>()?;
    bits.iter().for_each(|bit| bit.reset());
    Ok(())
}

/// aclrtNotifyGetExportKey: lets other processes record the notify. The key is the same each time; once it is
/// given out without a white list, it has none.
pub fn export_key(here: &Here, handle: usize, len: usize, flags: u64) -> Result<[u8; KEY_LEN]> {
    let engine = engine()?;
    here.need_context()?;
    if len < KEY_LEN {
        return Err(refuse(format!("len is {len}: a key takes {KEY_LEN} bytes")));
    }
    let open_to_all = match flags {
        0 => false,
        NO_LIST => true,
        other => return Err(refuse(format!("flags is {other}: give 0, or 2 to have no white list"))),
    };
    let entry = find(handle)?;
    let (bit, exported) = entry.own("exports")?;
    let mut exported = lock(exported);
    let name = match *exported {
        Some(name) => name,
        None => {
            let (table, device) = (bit.publish(entry.number())?, physical(engine, entry.device));
            let share = move || Ok(ExportedMemory { shared: table.shared(), device, keep: Box::new(()) });
            let source = (ExportKind::Notify, handle);
            *exported.insert(ipc::served_exports()?.export(source, Box::new(share), open_to_all)?)
        }
    };
    if open_to_all {
        ipc::served_exports()?.open_to_all(&name);
    }
    let mut key = [0; KEY_LEN];
    key[..KEY_TEXT].copy_from_slice(name.to_key().as_bytes());
    Ok(key)
}

/// aclrtNotifySetImportPid: adds processes to the white list of a notify that was exported.
pub fn set_import_pids(handle: usize, pids: &[i32]) -> Result<()> {
    let entry = find(handle)?;
    let (_, name) = entry.own("lists processes for")?;
    let name = lock(name).ok_or_else(|| {
        refuse(format!("notify {handle:#x} has no key yet: call aclrtNotifyGetExportKey first"))
    })?;
    add_pids(&name, pids)
}

/// aclrtNotifyImportByKey: the notify of another process, to be recorded here.
pub fn import_by_key(here: &Here, key: &str, flags: u64) -> Result<usize> {
    let engine = engine()?;
    let current = here.device()?;
    if flags != 0 && flags != ENABLE_PEER {
        return Err(refuse(format!("flags is {flags}: give 0, or 2 to enable peer access too")));
    }
    let name = Name::from_key(ExportKind::Notify, key).ok_or_else(|| {
        let note =
            "key is not one that aclrtNotifyGetExportKey gave: those are 64 characters of their own form";
        refuse(format!("{note}, and this has {}", key.chars().count()))
    })?;
    let memory = ask(here, &name, ANSWER_LIMIT)?;
    let notify = ImportedNotify::join(&memory.shared)?;
    if flags == ENABLE_PEER {
        let owner = visible(engine, memory.device).filter(|device| *device != current);
        lock(&engine.peers).extend(owner.map(|device| (current, device)));
    }
    Ok(insert(current, NotifySide::Imported(Arc::new(notify))))
}

impl NotifyEntry {
    /// The state of a notify that this process made, and its name. Documented: the exporter waits, importers
    /// record.
    fn own(&self, does: &str) -> Result<(&Arc<NotifyBit>, &Mutex<Option<Name>>)> {
        match &self.side {
            NotifySide::Own { bit, name } => Ok((bit, name)),
            NotifySide::Imported(_) => Err(refuse(format!(
                "notify {:#x} was imported: only the process that made it {does} it",
                self.handle
            ))),
        }
    }

    fn number(&self) -> u32 {
        match &self.side {
            NotifySide::Own { .. } => Handles::<NotifyEntry>::index(self.handle) as u32,
            NotifySide::Imported(notify) => notify.number(),
        }
    }

    /// The limit of a wait for the gate.
    fn until(&self, bit: &Arc<NotifyBit>, gate: &Arc<Gate>, seconds: u32) -> Until {
        let note = format!(
            "aclrtWaitAndResetNotify: notify {:#x} was not recorded within {seconds} s, the timeout of the \
             wait",
            self.handle
        );
        let (bit, gate) = (bit.clone(), gate.clone());
        Until::Limit {
            limit: Duration::from_secs(seconds.into()),
            error: Kind::Native(c::ACL_ERROR_RT_WAIT_TIMEOUT).because(note),
            withdraw: Box::new(move || bit.withdraw(&gate)),
        }
    }
}

fn find(handle: usize) -> Result<Arc<NotifyEntry>> {
    engine()?; // says first if nothing can be opened
    NOTIFIES.get(handle).ok_or_else(|| unknown(handle))
}

fn unknown(handle: usize) -> Error {
    fail(c::ACL_ERROR_RT_INVALID_HANDLE, format!("{handle:#x} is no notify, or one that was destroyed"))
}
