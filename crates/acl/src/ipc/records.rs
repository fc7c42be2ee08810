//! The records of an event that several processes have: a lock-free table of slots that all of them map.
//!
//! Records are numbered from 1 over all processes. A record takes any slot that is free and then becomes the
//! latest one, by one exchange of a word: a process that is killed leaves no record half made, at most a slot
//! that nobody was told of. A slot's word has the number of its record, the member of the table that made it,
//! and whether it is complete. A record whose member is gone is complete, and so is one whose slot has the
//! number of another record: slots are used again when their record is complete, and not before. It also says
//! whether a process other than the recorder's has waited for the record, for those who watch.

use crate::{Error, Result, constants as c, error::fail};
use ferry::engine::shared_table::SharedTable;
use ferry_core::Shared;
use std::sync::{
    Arc,
    atomic::{
        AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Acquire, Relaxed, Release},
    },
};

/// How many records may be pending at a time. With the words in front of them they are whole pages, which
/// take memory when a slot in them is used.
const SLOTS: usize = 65_527;
const SLOTS_OF_A_PAGE: usize = 512;
/// All words: the latest record, and the slots.
const WORDS: usize = SLOTS + 1;
const NAME: &str = "ferry:event2";

/// Bits of a slot's word: from the lowest, whether the record is complete, whether another process has waited
/// for it, its member, its number.
const MEMBER_BITS: u32 = 26;
const MEMBER_SHIFT: u32 = 2;
const NUMBER_SHIFT: u32 = MEMBER_SHIFT + MEMBER_BITS;
const COMPLETE: u64 = 1;
const AWAITED: u64 = 2;

/// Bits of a record as it is told: its slot, its number.
const SLOT_BITS: u32 = 16;
const _: () = assert!(SLOTS < 1 << SLOT_BITS);

/// A record: its number and its slot. The default is no record, which is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId(u64);

impl RecordId {
    fn new(number: u64, slot: usize) -> RecordId {
        RecordId(number << SLOT_BITS | slot as u64)
    }

    fn number(self) -> u64 {
        self.0 >> SLOT_BITS
    }

    /// Other processes write it, so whatever they wrote is made a slot that exists.
    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize % SLOTS
    }
}

/// The records of an event, in a table that this process is a member of.
pub struct EventRecords {
    table: Arc<SharedTable>,
    /// Where this process looks for a free slot first: it has used all below it, as far as it knows.
    hint: AtomicUsize,
}

impl EventRecords {
    /// No record yet.
    pub fn new() -> Result<EventRecords> {
        SharedTable::new(NAME, WORDS).map(EventRecords::of).map_err(|error| no_table(&error))
    }

    /// The records in a table that another process made.
    pub fn join(shared: &Shared) -> Result<EventRecords> {
        let joined = SharedTable::join(NAME, shared.file.clone(), WORDS);
        joined.map(EventRecords::of).map_err(|error| no_table(&error))
    }

    fn of(table: SharedTable) -> EventRecords {
        // Members begin at pages of their own, so that they seldom come across slots of others, whose records
        // are over if their process is: that takes system calls.
        let first = (table.member() as usize - 1) * SLOTS_OF_A_PAGE % SLOTS;
        EventRecords { table: Arc::new(table), hint: AtomicUsize::new(first) }
    }

    /// The table, to be sent or watched.
    pub fn table(&self) -> &Arc<SharedTable> {
        &self.table
    }

    /// The latest record of any process.
    pub fn latest(&self) -> RecordId {
        RecordId(self.latest_word().load(Acquire))
    }

    /// Adds a record of this process, which is pending.
    pub fn begin(&self) -> Result<RecordId> {
        let mut latest = self.latest();
        let slot = self.take_slot(latest.number() + 1)?;
        loop {
            let next = RecordId::new(latest.number() + 1, slot);
            self.slots()[slot].store(self.pending(next.number()), Release);
            match self.latest_word().compare_exchange(latest.0, next.0, AcqRel, Acquire) {
                Ok(_) => return Ok(next),
                Err(newer) => latest = RecordId(newer),
            }
        }
    }

    /// Takes a slot that is free, for a record of about this number.
    fn take_slot(&self, number: u64) -> Result<usize> {
        let first = self.hint.load(Relaxed) % SLOTS;
        let take = |slot: &usize| {
            let before = self.slots()[*slot].load(Acquire);
            let taken = || {
                let pending = self.pending(number);
                self.slots()[*slot].compare_exchange(before, pending, AcqRel, Acquire).is_ok()
            };
            self.is_over(before) && taken()
        };
        let slot = (first..SLOTS).chain(0..first).find(take).ok_or_else(too_many)?;
        self.hint.store(slot + 1, Relaxed);
        Ok(slot)
    }

    /// Completes a record of this process, and wakes those who wait for it.
    pub fn complete(&self, record: RecordId) {
        self.mark(record, COMPLETE);
        self.hint.fetch_min(record.slot(), Relaxed);
        self.table.ring();
    }

    /// Whether a record is complete, or its process is gone.
    pub fn is_complete(&self, record: RecordId) -> bool {
        let slot = self.slots()[record.slot()].load(Acquire);
        slot >> NUMBER_SHIFT != record.number() || self.is_over(slot)
    }

    /// This process, which did not make the record, waits for it, or has learnt that it is complete.
    pub fn wait_elsewhere(&self, record: RecordId) {
        self.mark(record, AWAITED);
    }

    /// Whether a record of this process is complete, and another one has waited for it, as far as can be
    /// told: a slot that was used again says nothing about its record.
    pub fn is_known_elsewhere(&self, record: RecordId) -> bool {
        let slot = self.slots()[record.slot()].load(Acquire);
        slot >> NUMBER_SHIFT != record.number() || slot & COMPLETE != 0 && slot & AWAITED != 0
    }

    /// Sets a bit of a record's slot, if that is still its own.
    fn mark(&self, record: RecordId, bit: u64) {
        let is_own = |slot: u64| slot >> NUMBER_SHIFT == record.number();
        let marked = |slot: u64| (is_own(slot) && slot & bit == 0).then_some(slot | bit);
        let _ = self.slots()[record.slot()].fetch_update(AcqRel, Acquire, marked);
    }

    /// Whether the record of a slot's word is complete, or its process is gone.
    fn is_over(&self, slot: u64) -> bool {
        let member = (slot >> MEMBER_SHIFT) as u32 & ((1 << MEMBER_BITS) - 1);
        slot == 0 || slot & COMPLETE != 0 || !self.table.is_alive(member)
    }

    /// A slot's word for a record of this process.
    fn pending(&self, number: u64) -> u64 {
        number << NUMBER_SHIFT | u64::from(self.table.member()) << MEMBER_SHIFT
    }

    fn latest_word(&self) -> &AtomicU64 {
        &self.table.words()[0]
    }

    fn slots(&self) -> &[AtomicU64] {
        &self.table.words()[1..]
    }
}

#[cold]
fn too_many() -> Error {
    let note = format!("{SLOTS} records of this event are not complete, the most there can be");
    fail(c::ACL_ERROR_RT_NO_EVENT_RESOURCE, note)
}

/// The error of an event that the system has no table for.
#[cold]
fn no_table(error: &ferry_core::Error) -> Error {
    let note = format!(
        "{}. Each event of ACL_EVENT_IPC takes a file descriptor of the process (`ulimit -n`) as long as it \
         lives",
        error.note
    );
    fail(c::ACL_ERROR_RT_NO_EVENT_RESOURCE, note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, thread};

    fn other(records: &EventRecords) -> EventRecords {
        EventRecords::join(&records.table().shared()).expect("a table")
    }

    fn two() -> (EventRecords, EventRecords) {
        EventRecords::new().map(|records| (other(&records), records)).expect("memory")
    }

    #[test]
    fn every_member_sees_the_latest_record_of_any() {
        let (first, second) = two();
        assert_eq!((first.latest(), second.latest()), Default::default());
        assert!(first.is_complete(first.latest()), "never recorded");
        let mut before = first.latest();
        for round in 0..3000 {
            let (recorder, reader) = if round % 3 == 0 { (&first, &second) } else { (&second, &first) };
            let record = recorder.begin().expect("a slot");
            assert_eq!((record, record.number()), (reader.latest(), round as u64 + 1));
            assert!(!reader.is_complete(record) && reader.is_complete(before));
            let bell = reader.table().bell();
            recorder.complete(record);
            assert!(reader.is_complete(record) && reader.table().bell() != bell, "those who wait are woken");
            before = record;
        }
    }

    #[test]
    fn records_complete_in_any_order() {
        let (first, second) = two();
        let [a, b, c] = [&first, &second, &first].map(|records| records.begin().expect("a slot"));
        second.complete(b);
        assert!(!second.is_complete(a) && first.is_complete(b) && !second.is_complete(c));
        first.complete(c);
        assert!(!second.is_complete(a) && second.is_complete(c));
        // One that is never complete holds up no other.
        for _ in 0..3000 {
            let record = second.begin().expect("a slot");
            second.complete(record);
        }
        assert!(!second.is_complete(a));
        first.complete(a);
        assert!(second.is_complete(a) && second.is_complete(b));
    }

    #[test]
    fn records_of_a_member_that_is_gone_are_complete() {
        let (first, second) = two();
        let record = first.begin().expect("a slot");
        assert!(!second.is_complete(record));
        drop(first);
        assert!(second.is_complete(record));
        assert_eq!(second.latest(), record);
    }

    #[test]
    fn one_more_than_the_most_that_can_be_pending_is_refused() {
        let (first, second) = two();
        let records: Vec<_> = (0..SLOTS).map(|_| first.begin().expect("a slot")).collect();
        assert_eq!(second.begin().map_err(|error| error.code), Err(c::ACL_ERROR_RT_NO_EVENT_RESOURCE));
        assert_eq!(second.latest(), records[SLOTS - 1], "nothing was recorded");
        first.complete(records[7]);
        let another = second.begin().expect("its slot");
        assert!(second.is_complete(records[7]) && !second.is_complete(another));
        drop(first);
        second.begin().expect("what a process that is gone left does not count");
    }

    #[test]
    fn few_records_take_few_pages() {
        let (first, second) = two();
        for _ in 0..3000 {
            let pending = [&first, &second].map(|records| records.begin().expect("a slot"));
            assert_eq!(pending.map(RecordId::slot), [SLOTS_OF_A_PAGE, 0], "the second one made the table");
            first.complete(pending[0]);
            second.complete(pending[1]);
        }
    }

    #[test]
    fn two_records_never_have_one_number() {
        const EACH: usize = 20_000;
        let first = EventRecords::new().expect("memory");
        let run = |records: EventRecords| {
            let record = || records.begin().inspect(|record| records.complete(*record)).expect("a slot");
            (0..EACH).map(|_| record().number()).collect::<Vec<_>>()
        };
        let all: BTreeSet<u64> = thread::scope(|scope| {
            let runs = [(); 4].map(|()| other(&first)).map(|records| scope.spawn(|| run(records)));
            runs.into_iter().flat_map(|run| run.join().expect("no panic")).collect()
        });
        assert_eq!((all.len(), first.latest().number()), (4 * EACH, 4 * EACH as u64));
    }

    #[test]
    fn a_record_is_known_elsewhere_when_it_is_complete_and_another_has_waited_in_either_order() {
        for waits_first in [true, false] {
            let (first, second) = two();
            let record = first.begin().expect("a slot");
            let act =
                |waits: bool| if waits { second.wait_elsewhere(record) } else { first.complete(record) };
            act(waits_first);
            assert!(!first.is_known_elsewhere(record), "{waits_first}");
            assert_eq!(second.is_complete(record), !waits_first, "waiting completes nothing");
            act(!waits_first);
            assert!(first.is_known_elsewhere(record) && second.is_complete(record), "{waits_first}");
        }
    }
}
