//! The state of a notify: one bit, and the streams that wait for it in the order in which they came.
//!
//! A record counts when its stream reaches it, and a wait takes the bit when its stream reaches it. So both
//! are told here by work of streams, never by the calls that submit that work. Other processes record a
//! notify by counting in a table (`ipc`), so that each of their records releases a wait, too.

use crate::{Result, ipc::bell};
use ferry::engine::shared_table::SharedTable;
use ferry_core::{Error, Fence, Gate, Kind, Point, Shared, Stream, Ticket, sync::lock};
use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::Ordering::{AcqRel, Acquire, Release},
    },
};

/// The table's word that counts the records of other processes.
const RECORDS: usize = 0;
/// The table's word with the number of the notify.
const NUMBER: usize = 1;
/// Words of the table.
const WORDS: usize = 2;
const NAME: &str = "ferry:notify";

/// A notify of another process, which is recorded here and waited for there.
pub struct ImportedNotify {
    table: Arc<SharedTable>,
}

impl ImportedNotify {
    /// The notify behind a table that another process sent.
    pub fn join(shared: &Shared) -> Result<ImportedNotify> {
        Ok(ImportedNotify { table: Arc::new(SharedTable::join(NAME, shared.file.clone(), WORDS)?) })
    }

    /// The number that its own process gave it.
    pub fn number(&self) -> u32 {
        self.table.words()[NUMBER].load(Acquire) as u32
    }

    /// A record. The process of the notify may be stopped, or gone: nothing waits for it.
    pub fn record(&self) {
        self.table.words()[RECORDS].fetch_add(1, AcqRel);
        self.table.ring();
    }
}

/// The bit and its waits.
#[derive(Default)]
pub struct NotifyBit {
    state: Mutex<BitState>,
    /// Where other processes record it, once it was exported.
    table: OnceLock<Arc<SharedTable>>,
}

#[derive(Default)]
struct BitState {
    /// The record that came and that no wait has used up.
    set: Option<NotifyRecord>,
    /// Streams that have reached a wait, the first one first.
    waits: VecDeque<NotifyWait>,
    /// What waits fail with, once the notify is destroyed.
    ended: Option<Error>,
    /// How many records of other processes have been seen.
    seen: u64,
    /// Whether a thread watches for records of other processes.
    is_watched: bool,
}

/// Who recorded: a point of a stream of this process; `None` for another process.
type NotifyRecord = Option<Point>;

/// A wait of a stream: its op `ticket`, which passes when the gate is opened.
pub struct NotifyWait {
    /// Opened when the wait is over.
    pub gate: Arc<Gate>,
    /// The stream that waits.
    pub stream: Arc<Stream>,
    /// The number of the wait in its stream.
    pub ticket: Ticket,
}

impl NotifyWait {
    /// Whether nothing waits for the gate any more: the stream was aborted, or the time was up.
    fn is_over(&self) -> bool {
        self.stream.status().is_dropped(self.ticket) || self.gate.is_done()
    }

    /// It has got a record.
    fn met(self, by: NotifyRecord) -> EndedWait {
        EndedWait { wait: self, by, error: None }
    }

    /// It will never get one.
    fn failed(self, error: &Error) -> EndedWait {
        EndedWait { wait: self, by: None, error: Some(error.clone()) }
    }
}

/// A wait that is over, by whose record, and what its stream fails with, if it does.
struct EndedWait {
    wait: NotifyWait,
    by: NotifyRecord,
    error: Option<Error>,
}

impl EndedWait {
    /// Lets the stream go on.
    fn tell(self) {
        let EndedWait { wait, by, error } = self;
        if let Some(error) = error {
            wait.stream.status().fail_at(wait.ticket, error);
        }
        wait.stream.tell_bound(&wait.gate, by);
        wait.gate.open();
    }
}

impl NotifyBit {
    /// The table that other processes record the notify in, made by the first call, under this number.
    pub fn publish(self: &Arc<Self>, number: u32) -> Result<Arc<SharedTable>> {
        let mut state = lock(&self.state);
        if let Some(table) = self.table.get() {
            return Ok(table.clone());
        }
        let table = Arc::new(SharedTable::new(NAME, WORDS)?);
        table.words()[NUMBER].store(number.into(), Release);
        if !state.waits.is_empty() {
            self.watch(&mut state, &table)?;
        }
        Ok(self.table.get_or_init(|| table).clone())
    }

    /// A record behind the point `by`: releases the first wait, or sets the bit if there is none.
    pub fn record(&self, by: Point) {
        self.change(|state| state.record(Some(by)).into_iter().collect());
    }

    /// A stream has reached a wait: it uses the bit up, or waits for the next record.
    pub fn arrive(self: &Arc<Self>, wait: NotifyWait) {
        self.change(|state| {
            if wait.is_over() {
                return Vec::new();
            }
            if let Some(error) = &state.ended {
                return vec![wait.failed(error)];
            }
            if let Some(by) = state.set.take() {
                return vec![wait.met(by)];
            }
            state.waits.retain(|wait| !wait.is_over());
            if let Some(table) = self.table.get()
                && let Err(error) = self.watch(state, table)
            {
                return vec![wait.failed(&Kind::Native(error.code).because(error.note.clone()))];
            }
            state.waits.push_back(wait);
            Vec::new()
        });
    }

    /// Takes back the wait of this gate, if it waits. False if it was released.
    pub fn withdraw(&self, gate: &Arc<Gate>) -> bool {
        let mut state = lock(&self.state);
        let found = state.waits.iter().position(|wait| Arc::ptr_eq(&wait.gate, gate));
        found.and_then(|index| state.waits.remove(index)).is_some()
    }

    /// Clears the bit.
    pub fn reset(&self) {
        self.change(|state| {
            state.set = None;
            Vec::new()
        });
    }

    /// The notify is destroyed: waits fail, those that are still to come too.
    pub fn end(&self, error: &Error) {
        self.change(|state| {
            state.ended = Some(error.clone());
            let waits = mem::take(&mut state.waits).into_iter();
            waits.filter(|wait| !wait.is_over()).map(|wait| wait.failed(error)).collect()
        });
        if let Some(table) = self.table.get() {
            table.ring(); // the thread that watches it has nothing to watch any more
        }
    }

    /// Changes the state, after what other processes have recorded until now, and ends the waits that are
    /// over. Not under the lock: a stream that goes on, or fails, may come to its next wait at once.
    fn change(&self, change: impl FnOnce(&mut BitState) -> Vec<EndedWait>) {
        let mut state = lock(&self.state);
        let mut ended = self.pull(&mut state);
        ended.extend(change(&mut state));
        drop(state);
        ended.into_iter().for_each(EndedWait::tell);
    }

    /// Counts the records of other processes since the last time: one after the other, as if they came now.
    fn pull(&self, state: &mut BitState) -> Vec<EndedWait> {
        let Some(table) = self.table.get() else { return Vec::new() };
        let records = table.words()[RECORDS].load(Acquire);
        let new = records.wrapping_sub(mem::replace(&mut state.seen, records));
        // Those that find no wait set the bit, all of them together.
        let counting = new.min(state.waits.len() as u64 + 1);
        (0..counting).filter_map(|_| state.record(None)).collect()
    }

    /// Has a thread watch for records of other processes while streams wait.
    fn watch(self: &Arc<Self>, state: &mut BitState, table: &Arc<SharedTable>) -> Result<()> {
        if !state.is_watched {
            let bit = self.clone();
            bell::watch(table.clone(), move || bit.has_no_waits())?;
            state.is_watched = true;
        }
        Ok(())
    }

    /// Releases what can be released; whether no stream waits any more.
    fn has_no_waits(&self) -> bool {
        let mut is_over = false;
        self.change(|state| {
            state.waits.retain(|wait| !wait.is_over());
            state.is_watched = !state.waits.is_empty();
            is_over = !state.is_watched;
            Vec::new()
        });
        is_over
    }
}

impl BitState {
    /// The wait that a record releases; if there is none, the bit is set.
    fn record(&mut self, by: NotifyRecord) -> Option<EndedWait> {
        while let Some(wait) = self.waits.pop_front() {
            if !wait.is_over() {
                return Some(wait.met(by));
            }
        }
        self.set = Some(by);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_process_rings() {
        let bit = Arc::new(NotifyBit::default());
        let table = bit.publish(7).expect("memory");
        let imported = ImportedNotify::join(&table.shared()).expect("the same table");
        assert_eq!(imported.number(), 7);
        let bell = table.bell();
        imported.record();
        assert_ne!(table.bell(), bell, "those who wait are woken");
        bit.change(|state| {
            assert!(state.set.is_some(), "it counts when the state is asked for");
            Vec::new()
        });
    }
}
