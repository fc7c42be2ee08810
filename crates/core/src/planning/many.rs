//! Planning many pieces at once, as batches do. They seldom lie in as many blocks, and often next to each
//! other: the two blocks of the last piece are tried first, and a piece that goes on where the last one ended
//! is coalesced with it. Plain host memory is asked about once for many pieces (`plain.rs`).

use super::plain::PlainEnd;
use crate::{
    Ends, Memory, Misfit, Place, Plan, Result, Rows, Runs, Segment,
    plan::{
        pieces::Store,
        runs::{CHUNK, Listed},
        segments::SegmentList,
    },
    table::Lookup,
    uses::Touched,
};
use std::mem;

/// Adds pieces to a plan.
pub(super) struct Many<'a, F> {
    plan: &'a mut Plan,
    memory: &'a Memory,
    fits: F,
    /// The blocks of the last piece that lay in two of them; `fits` has agreed to both.
    dst: Lookup,
    src: Lookup,
    /// What lies between these blocks and is in neither the buffer nor the plan yet; none if `len` is 0.
    run: Segment,
    buffer: SegmentBuffer,
    /// The number of the next piece.
    item: usize,
    /// The plain end of pieces between a known block and plain host memory, if there were such.
    plain: PlainEnd<'a>,
}

/// Segments on their way into the plan, since appending them one by one takes longer.
#[repr(C, align(64))]
struct SegmentBuffer {
    segments: [Segment; CHUNK],
    count: usize,
}

impl<'a, F: FnMut(usize, &Ends) -> Result<()>> Many<'a, F> {
    /// The next piece is number `item`; about `count` will come.
    pub(super) fn new(plan: &'a mut Plan, item: usize, count: usize, memory: &'a Memory, fits: F) -> Self {
        plan.pieces.begin_list(count, memory.free_lists(), || memory.backend().segment_sink(count));
        let buffer = SegmentBuffer { segments: [Segment::default(); CHUNK], count: 0 };
        let (dst, src, run) = (Lookup::default(), Lookup::default(), Segment::default());
        let plain = PlainEnd::new(memory, count);
        Many { plan, memory, fits, dst, src, run, buffer, item, plain }
    }

    /// Adds all of them. Those that came last may be in the plan only when [`finish`](Self::finish) has been
    /// called.
    #[inline(always)]
    pub(super) fn add_all(&mut self, mut pieces: impl Iterator<Item = Rows>) -> Result<(), Misfit> {
        while let Some(rows) = self.add_alike(&mut pieces) {
            let item = self.item;
            if self.add_plain(item, &rows) {
                self.item += 1;
                if self.plain.is_full() {
                    self.plain.confirm()?;
                }
                continue;
            }
            self.plain.confirm()?;
            self.add_other(item, rows).map_err(|error| Misfit { item, error })?;
            self.item += 1;
        }
        self.plain.confirm()
    }

    /// As [`add_all`](Self::add_all), for runs in arrays: many that lie in the same two blocks are checked in
    /// one go.
    pub(super) fn add_runs(&mut self, runs: &Runs) -> Result<(), Misfit> {
        let (first, count) = (self.item, runs.lens.len());
        let mut one_by_one = 1;
        while self.item - first < count {
            let before = self.item - first;
            let is_plain = self.add_inside(&runs.part(before, usize::MAX));
            let done = self.item - first;
            if is_plain {
                self.plain.confirm_runs(first + before, &runs.part(before, done - before))?;
            }
            let rows = |((dst, src), len): ((&usize, &usize), &usize)| Rows::linear(*dst, *src, *len);
            let part = runs.part(done, one_by_one);
            part.are_sound().map_err(|unsound| Misfit { item: self.item + unsound.item, ..unsound })?;
            self.add_all(part.iter().map(rows))?;
            // Where blocks alternate, whole chunks between the same two blocks are rare: try less and less
            // often.
            one_by_one = if done - before < CHUNK { 4 * one_by_one } else { 1 };
        }
        Ok(())
    }

    /// Adds runs as long as they lie in the two blocks of the last piece, or in its block and its plain
    /// range: there is no rule to apply then, and nothing to look up. Returns whether they lie in plain
    /// memory, which is still to be looked at.
    #[inline(never)]
    fn add_inside(&mut self, runs: &Runs) -> bool {
        let (plain, run) = (self.plain.both(), self.run);
        let (to, from) = plain.unwrap_or((self.dst, self.src));
        if to.is_nothing() {
            return false;
        }
        self.flush();
        let Some(list) = self.plan.pieces.list() else { return false };
        // The last run lies in the same two blocks.
        let first = list.len() - usize::from(run.len > 0);
        let (mut touches, mut done, mut len) = (false, 0, list.len());
        while done < runs.lens.len() {
            // From the second chunk on they start at multiples, which are aligned for vector stores.
            let some = runs.part(done, CHUNK - len % CHUNK);
            let added = add_some(list, &some, &to, &from, &mut self.buffer.segments);
            if added > 0 {
                // Where runs touch they mostly do so all along: checking two places will do.
                touches |= match done {
                    0 => runs.segment(0, &to, &from).follows(&run),
                    _ => runs.continues(done),
                } || runs.continues(done + added / 2);
            }
            (done, len) = (done + added, len + added);
            if added < some.lens.len() {
                break;
            }
        }
        if touches {
            list.coalesce(first);
        }
        self.item += done;
        plain.is_some()
    }

    /// Adds pieces as long as each is one row in two blocks of the same classes as those of the last piece:
    /// then there is no rule to apply. Returns the first that is not.
    #[inline(always)]
    fn add_alike(&mut self, pieces: &mut impl Iterator<Item = Rows>) -> Option<Rows> {
        let table = self.memory.table();
        let Plan { pieces: store, touched, .. } = &mut *self.plan;
        let buffer = &mut self.buffer;
        let (mut to, mut from, mut run) = (self.dst, self.src, mem::take(&mut self.run));
        let mut item = self.item;
        let other = loop {
            let Some(rows) = pieces.next() else { break None };
            let Rows { dst, src, width, height, .. } = rows;
            if height != 1 {
                break Some(rows);
            }
            if !to.contains(dst, width) {
                let Some(part) = table.look_up(dst, width).filter(|part| part.is_like(&to)) else {
                    break Some(rows);
                };
                (to, run) = (part, buffer.end(run, store));
                touch(touched, &to);
            }
            if !from.contains(src, width) {
                let Some(part) = table.look_up(src, width).filter(|part| part.is_like(&from)) else {
                    break Some(rows);
                };
                (from, run) = (part, buffer.end(run, store));
                touch(touched, &from);
            }
            let (dst, src) = (to.engine_address(dst), from.engine_address(src));
            let segment = Segment { dst, src, len: width };
            if segment.follows(&run) {
                run.len += width;
            } else {
                buffer.end(run, store);
                run = segment;
            }
            item += 1;
        };
        (self.dst, self.src, self.run, self.item) = (to, from, run, item);
        other
    }

    /// Adds a piece of one row between a block of the same class as that of the last such piece, and plain
    /// host memory that a survey knows: then there is no rule to apply. Returns whether it did.
    #[inline]
    fn add_plain(&mut self, item: usize, rows: &Rows) -> bool {
        let Rows { dst, src, width, height, .. } = *rows;
        if height != 1 || width == 0 || !self.plain.is_known() {
            return false;
        }
        let is_dst = self.plain.is_dst();
        let (known, plain) = if is_dst { (src, dst) } else { (dst, src) };
        let (found, is_another) = match self.plain.block.contains(known, width) {
            true => (self.plain.block, false),
            false => match self.memory.table().look_up(known, width) {
                Some(part) if part.is_like(&self.plain.block) => (part, true),
                _ => return false,
            },
        };
        if !self.plain.take(item, plain, width) {
            return false;
        }
        if is_another {
            self.plain.block = found;
            touch(&mut self.plan.touched, &found);
        }
        let known = found.engine_address(known);
        let (dst, src) = if is_dst { (plain, known) } else { (known, plain) };
        let segment = Segment { dst, src, len: width };
        if segment.follows(&self.run) {
            self.run.len += width;
        } else {
            self.buffer.end(self.run, &mut self.plan.pieces);
            self.run = segment;
        }
        true
    }

    /// Adds a piece that has several rows, or of which an end is of another class than that of the last
    /// piece.
    #[inline(never)]
    fn add_other(&mut self, item: usize, rows: Rows) -> Result<()> {
        self.flush();
        let spans = (rows.span(rows.dst, rows.dst_pitch)?, rows.span(rows.src, rows.src_pitch)?);
        if spans.0 == 0 {
            return Ok(());
        }
        let table = self.memory.table();
        let (Some(dst), Some(src)) =
            (table.containing(rows.dst, spans.0), table.containing(rows.src, spans.1))
        else {
            let ends = self.plan.add_unusual(item, rows, self.memory, &mut self.fits)?;
            self.plain.learn(&ends);
            // Memory of another library stays what it is for the rest of the call: a lookup takes a
            // microsecond.
            if let (Place::Known(dst), Place::Known(src)) = (ends.dst, ends.src) {
                (self.dst, self.src) = (Lookup::from(&dst), Lookup::from(&src));
            }
            return Ok(());
        };
        let ends = Ends { dst: Place::Known(dst), src: Place::Known(src) };
        (self.fits)(item, &ends)?;
        self.plan.take_route(ends.route())?;
        self.plan.touch(&dst);
        self.plan.touch(&src);
        (self.dst, self.src) = (Lookup::from(&dst), Lookup::from(&src));
        let rows = rows.between(&ends);
        match rows.height {
            1 => self.run = Segment { dst: rows.dst, src: rows.src, len: rows.width },
            _ => self.plan.pieces.push(rows),
        }
        Ok(())
    }

    /// Everything that was added is in the plan, and no more comes.
    pub(super) fn finish(mut self) {
        self.flush();
        self.plan.pieces.finish();
    }

    /// Everything that was added is in the plan from here on.
    fn flush(&mut self) {
        self.run = self.buffer.end(self.run, &mut self.plan.pieces);
        self.buffer.flush(&mut self.plan.pieces);
    }
}

impl SegmentBuffer {
    /// Appends a run that has come to its end; the next one is empty.
    #[inline(always)]
    fn end(&mut self, run: Segment, store: &mut Store) -> Segment {
        if run.len > 0 {
            if self.count == CHUNK {
                self.flush(store);
            }
            self.segments[self.count] = run;
            self.count += 1;
        }
        Segment::default()
    }

    #[inline(never)]
    fn flush(&mut self, store: &mut Store) {
        store.extend(&self.segments[..self.count]);
        self.count = 0;
    }
}

/// Adds runs between two blocks as long as they lie there, and says how many.
#[inline(always)]
fn add_some(
    list: &mut SegmentList,
    some: &Runs,
    to: &Lookup,
    from: &Lookup,
    buffer: &mut [Segment; CHUNK],
) -> usize {
    if list.extend_chunk(|| some.chunk(to, from)) {
        return CHUNK;
    }
    list.fill(buffer, |listed| {
        let Listed { count, sizes } = some.list(to, from, listed);
        (count, sizes)
    })
}

/// A piece begins or ends in this block, and the last one did not.
#[inline(always)]
fn touch(touched: &mut Touched, part: &Lookup) {
    if part.is_registered() {
        touched.add(part.base());
    }
}
