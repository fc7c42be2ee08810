//! Ops that touch the same bytes although nothing orders them.
//!
//! For each byte that copies touch it is kept which op wrote it last, and which ops have read it since
//! then. A new op races with those of them that do not come before it. What the last write covers, because it
//! is of its stream or joined, comes before everything that comes after it, so no more needs to be kept. Of
//! the rest the newest few are: what that write has waited for in other streams, since an abort of its stream
//! ends the wait and not that work, and what races with it, if that is left out of the report. Bytes that
//! only joined work has touched are forgotten from time to time.

use std::rc::Rc;

use super::accesses::ByteAccess;
use super::op::CheckedOp;
use crate::span_map::{Sliced, SpanMap};

/// Ranges that are kept before those of joined work are looked for.
const MIN_SWEEP: usize = 1 << 14;
/// Ops that are kept of those that the last write does not cover.
const KEPT_RACED: usize = 8;

/// Who touched some bytes last.
#[derive(Clone, Default)]
struct LastOps {
    writer: Option<Rc<CheckedOp>>,
    readers: Vec<Rc<CheckedOp>>,
    /// What an order behind the last write does not cover, and whether it writes.
    raced: Vec<(Rc<CheckedOp>, bool)>,
}

impl Sliced for LastOps {
    fn behind(&self, _: u64) -> LastOps {
        self.clone()
    }
}

impl LastOps {
    /// Each op, and whether it writes. Races that are in the report are left out: their ops count as ordered.
    fn all(&self) -> impl Iterator<Item = (&Rc<CheckedOp>, bool)> {
        let writer = self.writer.iter().map(|op| (op, true));
        let readers = self.readers.iter().map(|op| (op, false));
        let raced = self.raced.iter().filter(|(op, _)| !op.is_raced.get());
        writer.chain(readers).chain(raced.map(|(op, is_write)| (op, *is_write)))
    }

    /// A write: what it covers need not be kept. One that comes before the last write, though it was
    /// launched later, need not be kept itself.
    fn written_by(&mut self, op: &Rc<CheckedOp>) {
        if self.writer.as_ref().is_some_and(|writer| op.is_strictly_before(writer)) {
            return;
        }
        let behind = self.readers.extract_if(.., |reader| op.is_strictly_before(reader)).collect();
        let others = std::mem::replace(&mut self.readers, behind).into_iter().map(|reader| (reader, false));
        let others = self.writer.replace(op.clone()).map(|writer| (writer, true)).into_iter().chain(others);
        self.raced.extend(others);
        self.raced.retain(|(other, _)| !other.is_raced.get() && !other.is_covered_by(op));
        let too_many = self.raced.len().saturating_sub(KEPT_RACED);
        self.raced.drain(..too_many);
    }

    /// Keeps what is not joined; false if that is nothing.
    fn keep_unjoined(&mut self) -> bool {
        self.writer.take_if(|op| op.is_joined());
        self.readers.retain(|op| !op.is_joined());
        self.raced.retain(|(op, _)| !op.is_joined());
        self.all().next().is_some()
    }
}

/// An op that races with the one that was added.
pub struct Race {
    /// The op that was submitted before.
    pub earlier: Rc<CheckedOp>,
    /// The bytes, as far as they lie in a row.
    pub bytes: (u64, u64),
    /// What both do there.
    pub is_write: (bool, bool),
}

/// The bytes that a process's work touches.
#[derive(Default)]
pub struct OpRaces {
    bytes: SpanMap<LastOps>,
    sweep_at: usize,
}

impl OpRaces {
    /// Adds what an op does. Says with which ops it races, each once.
    pub fn add(&mut self, op: &Rc<CheckedOp>, accesses: &[ByteAccess]) -> Vec<Race> {
        let mut races: Vec<Race> = Vec::new();
        for access in accesses {
            let ByteAccess { start, end, is_write } = *access;
            self.bytes.update(
                start,
                end,
                |_| LastOps::default(),
                |from, to, last| {
                    let unordered = last.all().filter(|(other, was_written)| {
                        (is_write || *was_written) && !other.is_ordered_with(op)
                    });
                    for (earlier, was_written) in unordered {
                        note(&mut races, earlier, (from, to), (was_written, is_write));
                    }
                    if is_write {
                        last.written_by(op);
                    } else if !last.all().any(|(other, _)| Rc::ptr_eq(other, op)) {
                        last.readers.retain(|reader| !reader.is_covered_by(op));
                        last.readers.push(op.clone());
                    }
                },
            );
        }
        self.sweep();
        races
    }

    /// The ops that are in flight on some bytes, the newest of each stream.
    pub fn in_flight(&self, start: u64, end: u64) -> Vec<Rc<CheckedOp>> {
        let mut found: Vec<Rc<CheckedOp>> = Vec::new();
        for (_, _, last) in self.bytes.within(start, end) {
            for (op, _) in last.all().filter(|(op, _)| !op.is_joined()) {
                if !found.iter().any(|other| Rc::ptr_eq(other, op)) {
                    found.push(op.clone());
                }
            }
        }
        found.sort_by_key(|op| op.site.begin.max(op.time));
        found
    }

    /// How many ops are kept, and ranges.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.bytes.within(0, u64::MAX).map(|(_, _, last)| 1 + last.all().count()).sum()
    }

    /// The bytes are other memory now.
    pub fn forget(&mut self, start: u64, end: u64) {
        self.bytes.remove(start, end);
    }

    fn sweep(&mut self) {
        if self.bytes.len() >= self.sweep_at.max(MIN_SWEEP) {
            self.bytes.retain(|last| last.keep_unjoined());
            self.sweep_at = 2 * self.bytes.len();
        }
    }
}

fn note(races: &mut Vec<Race>, earlier: &Rc<CheckedOp>, bytes: (u64, u64), is_write: (bool, bool)) {
    match races.iter_mut().find(|race| Rc::ptr_eq(&race.earlier, earlier)) {
        Some(race) if race.bytes.1 == bytes.0 => race.bytes.1 = bytes.1,
        Some(_) => {}
        None => races.push(Race { earlier: earlier.clone(), bytes, is_write }),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::frontiers::HostView;
    use super::super::op::OpKind;
    use super::*;
    use crate::fact::Point;

    /// An op of a stream that comes after these ops of other streams.
    fn op(stream: u32, ticket: u64, after: &[(u32, u64)]) -> Rc<CheckedOp> {
        Rc::new(CheckedOp {
            point: Point { stream, ticket },
            time: 0,
            site: Default::default(),
            task: None,
            kind: OpKind::Fill,
            bytes: Some(0),
            clock: Rc::new(after.iter().copied().collect()),
            view: HostView { join: 1, outside: 0 },
            joined_by: Cell::default(),
            is_joined_elsewhere: Cell::default(),
            is_reported: Cell::default(),
            is_raced: Cell::default(),
            has_finding: Cell::default(),
        })
    }

    fn read(start: u64, end: u64) -> ByteAccess {
        ByteAccess { start, end, is_write: false }
    }

    fn write(start: u64, end: u64) -> ByteAccess {
        ByteAccess { is_write: true, ..read(start, end) }
    }

    type Ops = Vec<(Rc<CheckedOp>, ByteAccess)>;
    type Told = Vec<((u32, u64), (u64, u64))>;

    fn told(races: Vec<Race>) -> Told {
        races
            .iter()
            .map(|race| ((race.earlier.point.stream, race.earlier.point.ticket), race.bytes))
            .collect()
    }

    /// With what the last of the ops races, and over which bytes.
    #[test]
    fn ops_race_if_they_meet_one_writes_and_nothing_orders_them() {
        let table: [(&str, Ops, Told); 14] = [
            ("two reads", vec![(op(1, 1, &[]), read(0, 8)), (op(2, 1, &[]), read(0, 8))], vec![]),
            (
                "a write and a read",
                vec![(op(1, 1, &[]), write(0, 8)), (op(2, 1, &[]), read(4, 12))],
                vec![((1, 1), (4, 8))],
            ),
            (
                "a read and a write",
                vec![(op(1, 1, &[]), read(0, 8)), (op(2, 1, &[]), write(7, 12))],
                vec![((1, 1), (7, 8))],
            ),
            ("neighbours", vec![(op(1, 1, &[]), write(0, 8)), (op(2, 1, &[]), write(8, 12))], vec![]),
            ("one stream", vec![(op(1, 1, &[]), write(0, 8)), (op(1, 2, &[]), write(0, 8))], vec![]),
            (
                "one stream, launched the other way round",
                vec![(op(1, 2, &[]), write(0, 8)), (op(1, 1, &[]), write(0, 8))],
                vec![],
            ),
            (
                "a wait, launched the other way round",
                vec![(op(2, 1, &[(1, 1)]), write(0, 8)), (op(1, 1, &[]), write(0, 8))],
                vec![],
            ),
            (
                "a write that was launched the other way round hides no later one",
                vec![
                    (op(2, 1, &[(1, 1)]), write(0, 8)),
                    (op(1, 1, &[]), write(0, 8)),
                    (op(3, 1, &[(1, 1)]), write(0, 8)),
                ],
                vec![((2, 1), (0, 8))],
            ),
            (
                "nor a later read",
                vec![
                    (op(2, 1, &[(1, 1)]), read(0, 8)),
                    (op(1, 1, &[]), write(0, 8)),
                    (op(3, 1, &[(1, 1)]), write(0, 8)),
                ],
                vec![((2, 1), (0, 8))],
            ),
            ("a wait", vec![(op(1, 1, &[]), write(0, 8)), (op(2, 1, &[(1, 1)]), write(0, 8))], vec![]),
            (
                "a wait for an older op",
                vec![(op(1, 2, &[]), write(0, 8)), (op(2, 1, &[(1, 1)]), write(0, 8))],
                vec![((1, 2), (0, 8))],
            ),
            (
                "a write races with every read since the last write",
                vec![
                    (op(1, 1, &[]), write(0, 8)),
                    (op(2, 1, &[(1, 1)]), read(0, 8)),
                    (op(3, 1, &[(1, 1)]), read(0, 8)),
                    (op(4, 1, &[(1, 1)]), write(0, 8)),
                ],
                vec![((2, 1), (0, 8)), ((3, 1), (0, 8))],
            ),
            (
                "a read that came before another one counts through that",
                vec![
                    (op(1, 1, &[]), read(0, 8)),
                    (op(2, 1, &[(1, 1)]), read(0, 8)),
                    (op(3, 1, &[(1, 1), (2, 1)]), write(0, 8)),
                ],
                vec![],
            ),
            (
                "a race is told once, over the bytes in a row",
                vec![
                    (op(1, 1, &[]), write(0, 4)),
                    (op(2, 1, &[(1, 1)]), read(2, 3)),
                    (op(3, 1, &[(2, 1)]), write(0, 4)),
                ],
                vec![((1, 1), (0, 4))],
            ),
        ];
        for (what, ops, expected) in table {
            let mut races = OpRaces::default();
            let last = ops.iter().map(|(op, access)| races.add(op, &[*access])).last();
            assert_eq!(told(last.expect("there are ops")), expected, "{what}");
        }
    }

    #[test]
    fn what_was_joined_before_an_op_does_not_race_with_it() {
        for (joined_by, expected) in [(None, 1), (Some(1), 0), (Some(2), 1)] {
            let (mut races, first) = (OpRaces::default(), op(1, 1, &[]));
            races.add(&first, &[write(0, 8)]);
            first.joined_by.set(joined_by);
            let found = races.add(&op(2, 1, &[]), &[write(0, 8)]);
            assert_eq!(found.len(), expected, "joined by {joined_by:?}, submitted after join 1");
        }
    }

    #[test]
    fn ops_are_in_flight_on_their_bytes_until_they_are_joined_or_the_memory_is_another() {
        let (mut races, first, second) = (OpRaces::default(), op(1, 1, &[]), op(2, 1, &[]));
        races.add(&first, &[write(0, 8)]);
        races.add(&second, &[read(16, 24)]);
        let count = |races: &OpRaces, start, end| races.in_flight(start, end).len();
        assert_eq!([count(&races, 0, 24), count(&races, 8, 16), count(&races, 7, 17)], [2, 0, 2]);
        first.joined_by.set(Some(1));
        assert_eq!(count(&races, 0, 24), 1);
        races.forget(20, 24);
        assert_eq!([count(&races, 16, 20), count(&races, 20, 24)], [1, 0]);
    }
}
