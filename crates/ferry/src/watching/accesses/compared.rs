//! What the CPU did to memory in flight, seen afterwards: bytes that are not what they should be, and pages
//! that were touched. It needs no privileges; which instruction it was stays unknown.
//!
//! The bytes of an op's ends are copied when it is submitted and compared when the host joins it. Ops may
//! change them, too: what another op in flight writes is not compared, and a destination is not while its op
//! runs. A host function may touch what ops behind it use: those are left alone. So fewer changes are
//! found than there are, and none that the CPU did not make. Destinations are looked at in
//! another way as well: their whole pages are hidden from the program's view, and one that is there again at
//! the join was touched.

use super::spans::Spans;
use ferry_backends::os::trap::{Presence, Shadow};
use ferry_watch::{
    check::joins::Joins,
    fact::{Awaited, Point},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::Range,
};

/// Bytes of an op that the CPU has touched while the op was in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Touch {
    pub(super) point: Point,
    /// The bytes, as the program calls them.
    pub(super) user: Range<usize>,
    pub(super) is_write: bool,
    pub(super) is_destination: bool,
}

/// Where an op is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpStage {
    Submitted,
    Running,
    Passed,
}

/// What an op reads or writes of one block.
struct OpEnd {
    point: Point,
    is_written: bool,
    stage: OpStage,
    /// All of it.
    whole: Spans,
    /// What nothing but the CPU can have changed since it was kept.
    compared: Spans,
    /// Pages of the program's view that are hidden.
    hidden: Spans,
    /// What the CPU did, until it is told.
    touch: Option<Touch>,
    is_told: bool,
}

/// A block of page-locked memory.
struct ComparedBlock {
    at: Range<usize>,
    user: usize,
    /// Whether the program has a view of its own.
    is_viewed: bool,
    shadow: Shadow,
    ends: Vec<OpEnd>,
}

/// All that is in flight, and what it should hold.
#[derive(Default)]
pub(super) struct ComparedMemory {
    joins: Joins,
    presence: Option<Presence>,
    views: Vec<(Range<usize>, usize)>,
    /// Blocks by the engine's address.
    blocks: BTreeMap<usize, ComparedBlock>,
    by_user: BTreeMap<usize, usize>,
    /// Blocks that have something in flight.
    busy: BTreeSet<usize>,
    /// The blocks of ops that are submitted and not joined.
    of_op: HashMap<Point, Vec<usize>>,
    /// Host functions that nobody has joined. When they run does not matter: no finding depends on that.
    functions: Vec<Point>,
}

impl ComparedMemory {
    pub(super) fn new(presence: Option<Presence>) -> ComparedMemory {
        ComparedMemory { presence, ..ComparedMemory::default() }
    }

    /// Whether touched pages are told, too.
    pub(super) fn sees_pages(&self) -> bool {
        self.presence.is_some()
    }

    pub(super) fn joins(&mut self) -> &mut Joins {
        &mut self.joins
    }

    /// Memory is mapped twice.
    pub(super) fn viewed(&mut self, user: Range<usize>, at: usize) {
        if let Some(presence) = &self.presence {
            presence.watch(&user);
        }
        self.views.push((user, at));
    }

    /// The program's view ends.
    pub(super) fn gone(&mut self, user: &Range<usize>) {
        self.views.retain(|(view, _)| view != user);
    }

    /// A block of page-locked memory became known.
    pub(super) fn known(&mut self, user: Range<usize>, at: usize) {
        let is_seen = |(view, first): &(Range<usize>, usize)| {
            view.start <= user.start && user.end <= view.end && at == first + (user.start - view.start)
        };
        let is_viewed = at != user.start && self.views.iter().any(is_seen);
        let bytes = at..at + user.len();
        let Some(shadow) = Shadow::new(bytes.clone()).filter(|_| !user.is_empty()) else { return };
        self.by_user.insert(user.start, at);
        let user = user.start;
        self.blocks.insert(at, ComparedBlock { at: bytes, user, is_viewed, shadow, ends: Vec::new() });
    }

    /// A block became unknown. What was done to it is told.
    pub(super) fn forgotten(&mut self, user: usize, told: &mut Vec<Touch>) {
        let Some(at) = self.by_user.remove(&user) else { return };
        self.busy.remove(&at);
        if let Some(mut block) = self.blocks.remove(&at) {
            block.look(self.presence.as_ref(), |_| true);
            told.extend(block.ends.into_iter().filter_map(|end| end.touch));
        }
    }

    /// The whole pages of blocks that the program has a view of, with the engine's address of each.
    pub(super) fn pages(&self, page: usize) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.blocks.values().filter(|block| block.is_viewed).map(move |block| {
            let start = block.user / page * page;
            let end = (block.user + block.at.len()).next_multiple_of(page);
            (start..end, block.at.start - (block.user - start))
        })
    }

    /// An op is about to be submitted.
    pub(super) fn submitted(&mut self, point: Point, awaits: &[Awaited]) {
        self.joins.submitted(point, awaits);
    }

    /// What the op reads and writes, by the engine's addresses; `is_running` if it begins now.
    pub(super) fn add(&mut self, point: Point, ends: &[(usize, usize, bool)], is_running: bool) {
        let is_compared = !self.functions.iter().any(|function| self.joins.is_after(point, *function));
        let mut of_blocks: BTreeMap<(usize, bool), Vec<Range<usize>>> = BTreeMap::new();
        for (at, len, is_written) in ends.iter().copied().filter(|(_, len, _)| *len > 0) {
            let block = self.blocks.range(..=at).next_back().filter(|(_, block)| block.at.contains(&at));
            if let Some((first, block)) = block {
                let bytes = at..(at + len).min(block.at.end);
                of_blocks.entry((*first, is_written)).or_default().push(bytes);
            }
        }
        for ((at, is_written), bytes) in of_blocks {
            let Some(block) = self.blocks.get_mut(&at) else { continue };
            let whole = Spans::of(bytes);
            let (compared, hidden) =
                (if is_compared { whole.clone() } else { Spans::default() }, Spans::default());
            let stage = if is_running { OpStage::Running } else { OpStage::Submitted };
            let end =
                OpEnd { point, is_written, stage, whole, compared, hidden, touch: None, is_told: false };
            block.add(end, self.presence.as_ref().filter(|_| is_compared));
            self.busy.insert(at);
            let blocks = self.of_op.entry(point).or_default();
            if !blocks.contains(&at) {
                blocks.push(at);
            }
        }
    }

    fn ends_of(&mut self, point: Point, mut each: impl FnMut(&mut ComparedBlock, usize)) {
        let Some(blocks) = self.of_op.get(&point) else { return };
        for at in blocks {
            let Some(block) = self.blocks.get_mut(at) else { continue };
            for index in 0..block.ends.len() {
                if block.ends[index].point == point {
                    each(block, index);
                }
            }
        }
    }

    /// The work of the op begins.
    pub(super) fn begun(&mut self, point: Point) {
        self.ends_of(point, |block, index| {
            if block.ends[index].is_written && block.ends[index].stage == OpStage::Submitted {
                block.look_at_bytes(index);
                block.ends[index].stage = OpStage::Running;
            }
        });
    }

    /// The op has passed.
    pub(super) fn passed(&mut self, point: Point) {
        self.ends_of(point, |block, index| {
            let end = &mut block.ends[index];
            if end.is_written {
                let is_kept = end.compared.iter().all(|bytes| block.shadow.keep(bytes));
                end.stage = if is_kept { OpStage::Passed } else { OpStage::Running };
            }
        });
    }

    /// The op was refused.
    pub(super) fn refused(&mut self, point: Point) {
        self.joins.refused(point);
        self.functions.retain(|function| *function != point);
        for at in self.of_op.remove(&point).unwrap_or_default() {
            if let Some(block) = self.blocks.get_mut(&at) {
                block.ends.retain(|end| end.point != point);
            }
        }
    }

    /// The host has joined the point. What the CPU did meanwhile is told.
    pub(super) fn joined(&mut self, point: Point, told: &mut Vec<Touch>) {
        self.joins.joined(point);
        self.functions.retain(|function| !self.joins.is_joined(*function));
        let (joins, presence, blocks, of_op) =
            (&self.joins, self.presence.as_ref(), &mut self.blocks, &mut self.of_op);
        self.busy.retain(|at| {
            let Some(block) = blocks.get_mut(at) else { return false };
            // An op that has not said that it has passed may have written.
            let is_open = |end: &&mut OpEnd| end.is_written && end.stage == OpStage::Submitted;
            let joined = block.ends.iter_mut().filter(|end| joins.is_joined(end.point));
            joined.filter(is_open).for_each(|end| end.stage = OpStage::Running);
            block.look(presence, |end| joins.is_joined(end.point));
            for end in block.ends.extract_if(.., |end| joins.is_joined(end.point)) {
                told.extend(end.touch);
                of_op.remove(&end.point);
            }
            !block.ends.is_empty()
        });
    }

    /// The op is a host function.
    pub(super) fn function(&mut self, point: Point) {
        self.functions.push(point);
    }
}

impl ComparedBlock {
    /// One end more. What others own of the same bytes is looked at first, since these are kept anew.
    fn add(&mut self, mut end: OpEnd, presence: Option<&Presence>) {
        let whole = end.whole.clone();
        self.look(presence, |other| !other.whole.and(&whole).is_empty());
        for other in &mut self.ends {
            if end.is_written {
                other.compared.remove(&whole);
            }
            if other.is_written && other.stage != OpStage::Passed {
                end.compared.remove(&other.whole);
            }
        }
        // What is gone is not compared, either.
        end.compared.iter().for_each(|bytes| {
            self.shadow.keep(bytes);
        });
        if let Some(presence) = presence.filter(|_| end.is_written && self.is_viewed) {
            let view = |bytes: &Range<usize>| self.user_of(bytes.start)..self.user_of(bytes.end);
            end.hidden = Spans::of(whole.iter().map(|bytes| presence.inside(&view(bytes))).collect());
            end.hidden.iter().for_each(|pages| presence.hide(pages));
        }
        self.ends.push(end);
    }

    fn user_of(&self, at: usize) -> usize {
        self.user + (at - self.at.start)
    }

    /// Looks what the CPU has done to the ends that `which` chooses.
    fn look(&mut self, presence: Option<&Presence>, which: impl Fn(&OpEnd) -> bool) {
        for index in 0..self.ends.len() {
            if which(&self.ends[index]) {
                self.look_at_bytes(index);
                if let Some(presence) = presence {
                    self.look_at_pages(index, presence);
                }
            }
        }
    }

    fn look_at_bytes(&mut self, index: usize) {
        let end = &self.ends[index];
        // The destination of an op that runs changes.
        if end.is_told || end.is_written && end.stage == OpStage::Running {
            return;
        }
        let change = end.compared.iter().find_map(|bytes| self.shadow.first_change(bytes));
        if let Some(change) = change {
            self.found(index, self.user_of(change.start)..self.user_of(change.end), true);
        }
    }

    fn look_at_pages(&mut self, index: usize, presence: &Presence) {
        let end = &self.ends[index];
        if end.is_told {
            return;
        }
        let touched = end.hidden.iter().find_map(|pages| presence.touched(pages));
        if let Some(pages) = touched {
            // Once is enough: another op may own them, too.
            presence.hide(&pages);
            self.found(index, pages, false);
        }
    }

    fn found(&mut self, index: usize, user: Range<usize>, is_write: bool) {
        let end = &mut self.ends[index];
        end.is_told = true;
        let (point, is_destination) = (end.point, end.is_written);
        end.touch = Some(Touch { point, user, is_write, is_destination });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 4096;

    /// A block, and the memory that it lies in.
    fn memory() -> (ComparedMemory, Vec<u8>) {
        let (mut memory, mut bytes) = (ComparedMemory::new(None), vec![1; LEN]);
        let at = bytes.as_mut_ptr().addr();
        memory.known(at..at + LEN, at);
        (memory, bytes)
    }

    fn at(ticket: u64) -> Point {
        Point { stream: 1, ticket }
    }

    impl ComparedMemory {
        fn op(&mut self, point: Point, bytes: &[u8], is_written: bool) {
            self.submitted(point, &[]);
            self.add(point, &[(bytes.as_ptr().addr(), bytes.len(), is_written)], false);
        }

        /// The offset, length and op of each change that is told by a join.
        fn changes(&mut self, point: Point, bytes: &[u8]) -> Vec<(usize, usize, u64)> {
            let mut told = Vec::new();
            self.joined(point, &mut told);
            let offset = |touch: &Touch| touch.user.start - bytes.as_ptr().addr();
            told.iter().map(|touch| (offset(touch), touch.user.len(), touch.point.ticket)).collect()
        }
    }

    #[test]
    fn a_source_that_changes_before_the_join_is_told_byte_by_byte() {
        let (mut memory, mut bytes) = memory();
        memory.op(at(1), &bytes[100..200], false);
        (bytes[99], bytes[200]) = (5, 5);
        assert_eq!(memory.changes(at(1), &bytes), [], "neighbours");
        memory.op(at(2), &bytes[100..200], false);
        bytes[150..152].fill(6);
        memory.op(at(3), &bytes[100..200], false);
        assert_eq!(memory.changes(at(3), &bytes), [(150, 2, 2)], "before the other op was submitted");
        bytes[150] = 7;
        assert_eq!(memory.changes(at(3), &bytes), [], "joined");
        assert!(memory.busy.is_empty() && memory.of_op.is_empty());
    }

    #[test]
    fn what_ops_write_is_no_change_of_the_cpus() {
        let (mut memory, mut bytes) = memory();
        memory.op(at(1), &bytes[..100], false);
        memory.op(at(2), &bytes[50..150], true);
        memory.op(at(3), &bytes[..150], false);
        memory.begun(at(2));
        bytes[50..150].fill(2);
        memory.passed(at(2));
        assert_eq!(memory.changes(at(3), &bytes), []);
        memory.op(at(4), &bytes[50..150], true);
        memory.op(at(5), &bytes[..100], false);
        bytes[10] = 9;
        assert_eq!(memory.changes(at(5), &bytes), [(10, 1, 5)], "bytes that no op writes");
    }

    #[test]
    fn a_destination_is_compared_before_its_op_runs_and_behind_it() {
        for is_early in [true, false] {
            let (mut memory, mut bytes) = memory();
            memory.op(at(1), &bytes[..100], true);
            bytes[7] = if is_early { 8 } else { 1 };
            memory.begun(at(1));
            bytes[..100].fill(3);
            memory.passed(at(1));
            bytes[9] = if is_early { 3 } else { 8 };
            let want = if is_early { (7, 1, 1) } else { (9, 1, 1) };
            assert_eq!(memory.changes(at(1), &bytes), [want]);
        }
    }

    #[test]
    fn a_host_function_may_change_what_ops_behind_it_use() {
        let (mut memory, mut bytes) = memory();
        memory.op(at(1), &bytes[..10], false);
        memory.submitted(at(2), &[]);
        memory.function(at(2));
        memory.op(at(3), &bytes[10..20], false);
        (bytes[1], bytes[12]) = (4, 5);
        assert_eq!(memory.changes(at(2), &bytes), [(1, 1, 1)]);
        memory.op(at(4), &bytes[20..30], false);
        bytes[21] = 6;
        assert_eq!(memory.changes(at(4), &bytes), [(21, 1, 4)]);
    }

    #[test]
    fn memory_that_is_freed_is_looked_at_and_refused_ops_are_not() {
        let (mut memory, mut bytes) = memory();
        let mut told = Vec::new();
        memory.op(at(1), &bytes[..10], false);
        memory.refused(at(1));
        bytes[1] = 2;
        assert_eq!(memory.changes(at(1), &bytes), []);
        memory.op(at(2), &bytes[..10], false);
        bytes[2] = 3;
        memory.forgotten(bytes.as_ptr().addr(), &mut told);
        assert_eq!(told.len(), 1);
        assert_eq!(memory.changes(at(2), &bytes), [], "once");
    }
}
