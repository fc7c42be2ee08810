//! Events that several processes share: recorded and waited for by any of them, on any device.
//!
//! The records are in a table that all processes map (`ipc/records.rs`). A record is a function of its stream
//! that completes it there, and waits of this process are for that function: a waiter finds the record
//! complete in every process. A wait for a record of another process is a gate, which a thread opens that
//! the table wakes (`ipc/bell.rs`). The rules of AscendCL's functions are in `event.rs`.
//!
//! Arrows: this uses `ipc` and the core; `event.rs` uses this.

use crate::{
    Result,
    arguments::refuse,
    ipc::{
        self,
        ask::{ANSWER_LIMIT, ask},
        bell,
        exports::ExportedMemory,
        records::{EventRecords, RecordId},
        wire::{ExportKind, KEY_TEXT, Name},
    },
    rules::learnt_elsewhere,
    state::Here,
};
use ferry_core::{Fence, Gate, Stream, sync::lock};
use ferry_watch::site;
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, OnceLock, Weak},
};

/// Bytes of the handle that other processes open an event by.
pub const EVENT_HANDLE: usize = KEY_TEXT;

/// The events of this process that other processes have, or that were opened here.
static SHARED_EVENTS: LazyLock<Mutex<HashMap<Name, Weak<IpcEvent>>>> = LazyLock::new(Mutex::default);

/// An event of several processes, as one handle of this process has it.
pub(super) struct SharedEvent {
    event: Arc<IpcEvent>,
    /// Whether it is the handle that the event was made with. The event cannot be opened without it.
    is_makers: bool,
}

/// A record that is complete.
pub(super) enum CompleteRecord {
    /// There is none, which counts as complete.
    None,
    /// Of this process, and what it is done by.
    Own(Arc<dyn Fence>),
    /// Of another process.
    Foreign,
}

/// An event of several processes; all handles of this process share it.
struct IpcEvent {
    records: Arc<EventRecords>,
    /// The newest record of this process.
    newest: Mutex<Option<(RecordId, Arc<dyn Fence>)>>,
    waits: Mutex<ForeignWaits>,
    /// What it can be opened by, once that was asked for.
    name: Mutex<Option<Name>>,
}

/// Waits for records of other processes.
#[derive(Default)]
struct ForeignWaits {
    gates: Vec<(RecordId, Arc<Gate>)>,
    /// Whether a thread watches the records.
    is_watched: bool,
}

/// A record of this process, completed for the others when this is dropped: when its stream got there, or
/// dropped it.
struct PendingRecord {
    records: Arc<EventRecords>,
    record: RecordId,
}

impl Drop for PendingRecord {
    fn drop(&mut self) {
        self.records.complete(self.record);
    }
}

impl SharedEvent {
    /// A new event.
    pub fn new() -> Result<SharedEvent> {
        Ok(SharedEvent { event: IpcEvent::new(EventRecords::new()?, None), is_makers: true })
    }

    /// The event that an exporter gave this handle for, once more.
    pub fn open(here: &Here, handle: &[u8; EVENT_HANDLE]) -> Result<SharedEvent> {
        let text = str::from_utf8(handle).ok();
        let name = text.and_then(|text| Name::from_key(ExportKind::Event, text)).ok_or_else(|| {
            refuse("handle is not one that aclrtIpcGetEventHandle gave: those have a form of their own")
        })?;
        let event = match ipc::exports().is_some_and(|exports| exports.knows(&name)) {
            true => known(&name).ok_or_else(|| refuse("another thread destroys this event"))?,
            false => import(here, name)?,
        };
        Ok(SharedEvent { event, is_makers: false })
    }

    /// What other processes open the event by; `device` is its device as all of them call it.
    pub fn export(&self, source: usize, device: u32) -> Result<[u8; EVENT_HANDLE]> {
        let mut name = lock(&self.event.name);
        let name = match *name {
            Some(name) => name,
            None => *name.insert(self.event.publish(source, device)?),
        };
        let mut handle = [0; EVENT_HANDLE];
        handle.copy_from_slice(name.to_key().as_bytes());
        Ok(handle)
    }

    /// The handle is destroyed. If it is the maker's, the event is not opened any more; what is opened stays.
    pub fn end(&self) {
        let name = lock(&self.event.name).filter(|_| self.is_makers);
        if let (Some(name), Some(exports)) = (name, ipc::exports()) {
            exports.withdraw(&name);
        }
    }

    /// Records what was submitted to the stream so far. The record is published when the stream has taken the
    /// function that completes it: one that is refused leaves the event as it was. It completes when both the
    /// stream has got there and it is published.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let event = &self.event;
        let mut newest = lock(&event.newest);
        let published = Arc::new(OnceLock::new());
        let reached = published.clone();
        let ticket = stream.call_internal(move |_| drop(reached))?;
        let record = event.records.begin()?;
        published.get_or_init(|| PendingRecord { record, records: event.records.clone() });
        let fence = stream.fence_after(ticket);
        if site::is_on() {
            learnt_elsewhere::add(event.records.clone(), record, fence.clone());
        }
        *newest = Some((record, fence));
        Ok(())
    }

    /// A fence for the latest record of any process; `None` if that is complete, or there is none.
    pub fn latest(&self) -> Result<Option<Arc<dyn Fence>>> {
        let newest = lock(&self.event.newest);
        let record = self.event.records.latest();
        if let Some((own, fence)) = &*newest
            && *own == record
        {
            return Ok(Some(fence.clone()));
        }
        drop(newest);
        self.event.records.wait_elsewhere(record);
        if self.event.records.is_complete(record) {
            return Ok(None);
        }
        Ok(Some(IpcEvent::wait_for(&self.event, record)?))
    }

    /// The latest record of any process, if it is complete.
    pub fn completed(&self) -> Option<CompleteRecord> {
        let newest = lock(&self.event.newest);
        let record = self.event.records.latest();
        match &*newest {
            Some((own, fence)) if *own == record => {
                fence.is_done().then(|| CompleteRecord::Own(fence.clone()))
            }
            _ if record == RecordId::default() => Some(CompleteRecord::None),
            _ => {
                let is_complete = self.event.records.is_complete(record);
                is_complete.then(|| self.event.records.wait_elsewhere(record))?;
                Some(CompleteRecord::Foreign)
            }
        }
    }
}

impl IpcEvent {
    fn new(records: EventRecords, name: Option<Name>) -> Arc<IpcEvent> {
        let (newest, waits) = Default::default();
        Arc::new(IpcEvent { records: Arc::new(records), newest, waits, name: Mutex::new(name) })
    }

    /// Lets other processes open the event.
    fn publish(self: &Arc<Self>, source: usize, device: u32) -> Result<Name> {
        let table = self.records.table().clone();
        let share = move || Ok(ExportedMemory { shared: table.shared(), device, keep: Box::new(()) });
        let name = ipc::served_exports()?.export((ExportKind::Event, source), Box::new(share), true)?;
        remember(name, self);
        Ok(name)
    }

    /// A fence for a record of another process, the same for all that wait for it.
    fn wait_for(event: &Arc<IpcEvent>, record: RecordId) -> Result<Arc<dyn Fence>> {
        let mut waits = lock(&event.waits);
        if let Some((_, gate)) = waits.gates.iter().find(|(awaited, _)| *awaited == record) {
            return Ok(gate.clone());
        }
        if !waits.is_watched {
            let watched = event.clone();
            bell::watch(event.records.table().clone(), move || watched.open_gates())?;
            waits.is_watched = true;
        }
        let gate = Gate::new();
        waits.gates.push((record, gate.clone()));
        Ok(gate)
    }

    /// Opens the gates of records that are complete; whether none is left.
    fn open_gates(&self) -> bool {
        let mut waits = lock(&self.waits);
        let is_complete = |(record, _): &mut (RecordId, Arc<Gate>)| self.records.is_complete(*record);
        let open: Vec<_> = waits.gates.extract_if(.., is_complete).collect();
        waits.is_watched = !waits.gates.is_empty();
        let is_over = !waits.is_watched;
        drop(waits);
        open.iter().for_each(|(_, gate)| gate.open());
        is_over
    }
}

/// Asks the exporter, which may have destroyed the event meanwhile, even if it is known here.
fn import(here: &Here, name: Name) -> Result<Arc<IpcEvent>> {
    let memory = ask(here, &name, ANSWER_LIMIT)?;
    if let Some(event) = known(&name) {
        return Ok(event);
    }
    let event = IpcEvent::new(EventRecords::join(&memory.shared)?, Some(name));
    remember(name, &event);
    Ok(event)
}

fn known(name: &Name) -> Option<Arc<IpcEvent>> {
    lock(&SHARED_EVENTS).get(name).and_then(Weak::upgrade)
}

fn remember(name: Name, event: &Arc<IpcEvent>) {
    let mut events = lock(&SHARED_EVENTS);
    events.retain(|_, event| event.strong_count() > 0);
    events.insert(name, Arc::downgrade(event));
}
