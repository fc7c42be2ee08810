//! Plain host memory among many pieces. Asking the backend about a piece costs a system call, as much as a
//! copy of some KiB. So after a few of them it is asked for a survey: which ranges are plain, each asked for
//! once, and in these only whether the pages of pieces are there, of many pieces at a time.

use crate::{
    Access, Ends, Memory, Misfit, Place, PlainRange, Runs, Survey,
    table::{GRANULE, Lookup},
};
use std::ops::Range;

/// Pieces that are asked for one by one before there is a survey.
const ASKED_ONE_BY_ONE: usize = 1;
/// Fewer pieces than this are all asked for one by one: a survey costs as much as some of them.
const SURVEY_FROM: usize = 16;
/// Pieces whose pages are looked for together: the CPU then finds many at a time.
const TOGETHER: usize = 64;
/// No more of a range than this on either side of a piece is looked at: some programs map far more than they
/// use.
const FARTHEST: usize = 1 << 30;

/// The plain ends of pieces whose other end is known.
pub(super) struct PlainEnd<'a> {
    memory: &'a Memory,
    /// The block of the last piece that had a plain end: the caller has agreed to its class.
    pub(super) block: Lookup,
    /// How the plain end is accessed.
    access: Access,
    survey: Option<Box<dyn Survey + 'a>>,
    /// The range that the last piece was found in.
    range: Range<usize>,
    /// No block begins in it: not even registered memory.
    is_clear: bool,
    asked: usize,
    is_worthwhile: bool,
    /// Pieces whose pages have not been looked for yet, and their numbers.
    pending: Vec<PlainRange>,
    items: Vec<usize>,
}

impl<'a> PlainEnd<'a> {
    /// Of a call with so many pieces.
    pub(super) fn new(memory: &'a Memory, pieces: usize) -> PlainEnd<'a> {
        let (block, access, range, is_worthwhile) =
            (Lookup::default(), Access::Read, 0..0, pieces >= SURVEY_FROM);
        let (pending, items) = (Vec::new(), Vec::new());
        PlainEnd {
            memory,
            block,
            access,
            survey: None,
            range,
            is_clear: false,
            asked: 0,
            is_worthwhile,
            pending,
            items,
        }
    }

    /// Whether there is a survey, and a block to compare with.
    #[inline]
    pub(super) fn is_known(&self) -> bool {
        self.survey.is_some()
    }

    /// Whether the plain end is the destination.
    #[inline]
    pub(super) fn is_dst(&self) -> bool {
        self.access == Access::Write
    }

    /// A piece between these ends was asked for and taken. Nothing is pending.
    pub(super) fn learn(&mut self, ends: &Ends) {
        let (block, access) = match (&ends.dst, &ends.src) {
            (Place::Known(block), Place::Plain) => (block, Access::Read),
            (Place::Plain, Place::Known(block)) => (block, Access::Write),
            _ => return,
        };
        debug_assert!(self.pending.is_empty(), "they are accessed in another way");
        (self.block, self.access, self.range, self.is_clear) = (Lookup::from(block), access, 0..0, false);
        self.asked += 1;
        if self.is_worthwhile && self.asked >= ASKED_ONE_BY_ONE {
            self.is_worthwhile = false;
            self.survey = self.memory.backend().survey();
        }
    }

    /// Takes bytes of piece `item` that lie in plain host memory, as far as the survey can say; whether all
    /// of them can be accessed is looked at later, by [`confirm`](Self::confirm).
    #[inline]
    pub(super) fn take(&mut self, item: usize, addr: usize, len: usize) -> bool {
        let Some(survey) = &mut self.survey else { return false };
        let is_in = |range: &Range<usize>| range.start <= addr && addr < range.end && len <= range.end - addr;
        if !is_in(&self.range) {
            match survey.around(addr, self.access) {
                Some(range) if is_in(&range) && self.memory.is_unreserved(&range) => {
                    let (least, most) = (addr.saturating_sub(FARTHEST), addr.saturating_add(FARTHEST));
                    self.range = range.start.max(least & !(GRANULE - 1))..range.end.min(most.max(addr + len));
                    self.is_clear = self.memory.table().is_clear(&self.range);
                }
                _ => return false,
            }
        }
        // Registered memory lies in such ranges, too.
        let is_plain = self.memory.table().is_unknown(addr);
        if is_plain {
            self.pending.push(PlainRange { addr, len });
            self.items.push(item);
        }
        is_plain
    }

    /// The destination and the source of pieces that go on where the last one was: a block and a plain range
    /// that has no block in it. Whether these can be accessed is looked at later, by
    /// [`confirm_runs`](Self::confirm_runs).
    pub(super) fn both(&self) -> Option<(Lookup, Lookup)> {
        let plain = Lookup::plain(&self.range);
        (self.is_clear && self.survey.is_some()).then_some(match self.access {
            Access::Write => (plain, self.block),
            Access::Read => (self.block, plain),
        })
    }

    /// Looks whether runs between [`both`](Self::both) can be accessed, of which the first is piece `item`.
    pub(super) fn confirm_runs(&mut self, item: usize, runs: &Runs) -> Result<(), Misfit> {
        let addrs = if self.is_dst() { runs.dsts } else { runs.srcs };
        for (part, (addrs, lens)) in addrs.chunks(TOGETHER).zip(runs.lens.chunks(TOGETHER)).enumerate() {
            let ranges = addrs.iter().zip(lens).map(|(addr, len)| PlainRange { addr: *addr, len: *len });
            self.pending.extend(ranges);
            self.items.extend((item + part * TOGETHER..).take(addrs.len()));
            self.confirm()?;
        }
        Ok(())
    }

    /// Whether it is time to look.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= TOGETHER
    }

    /// Looks whether what was taken can be accessed. Returns the first piece that cannot.
    #[inline]
    pub(super) fn confirm(&mut self) -> Result<(), Misfit> {
        if self.pending.is_empty() { Ok(()) } else { self.find_missing() }
    }

    #[inline(never)]
    fn find_missing(&mut self) -> Result<(), Misfit> {
        let mut first = 0;
        while let (Some(survey), true) = (&self.survey, first < self.pending.len()) {
            first += survey.count_there(&self.pending[first..]);
            if let Some(PlainRange { addr, len }) = self.pending.get(first) {
                let asked = self.memory.plain(*addr, *len, self.access);
                asked.map_err(|error| Misfit { item: self.items[first], error })?;
                first += 1;
            }
        }
        self.pending.clear();
        self.items.clear();
        Ok(())
    }
}
