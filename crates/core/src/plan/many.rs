//! Planning many pieces at once, as batches do. They seldom lie in as many blocks, and often next to each other: the two blocks
//! that the last piece lay in are looked at first, and a piece that goes on where the last one ended becomes one with it.

use super::{
    Ends, Misfit, Plan, Rows, Runs, passing,
    runs::{AT_ONCE, Listed, Seen},
};
use crate::{
    Memory, Place, Result,
    pieces::{Line, Lines, Store},
    table::Part,
    uses::Touched,
};
use std::mem;

/// Adds pieces to a plan.
pub(super) struct Many<'a, F> {
    plan: &'a mut Plan,
    memory: &'a Memory,
    fits: F,
    /// The blocks of the last piece that lay in two of them; `fits` has agreed to both.
    dst: Part,
    src: Part,
    /// What lies between these blocks and is not in the plan yet; none if `len` is 0.
    run: Line,
    waiting: Waiting,
    /// The number of the next piece.
    item: usize,
}

/// Lines on their way into the plan: to be added one by one takes longer.
#[repr(C, align(64))]
struct Waiting {
    lines: Listed,
    count: usize,
}

impl Waiting {
    #[inline(always)]
    fn push(&mut self, line: Line, list: &mut Lines) {
        if self.count == AT_ONCE {
            self.flush(list);
        }
        self.lines[self.count] = line;
        self.count += 1;
    }

    #[inline(never)]
    fn flush(&mut self, list: &mut Lines) {
        list.extend(&self.lines[..self.count]);
        self.count = 0;
    }
}

/// Where pieces go that are one row each.
enum Sink<'a> {
    Lines(&'a mut Lines, &'a mut Waiting),
    Rows(&'a mut Vec<Rows>),
}

impl Sink<'_> {
    /// Puts a run into the list; nothing goes on where this one ended.
    #[inline(always)]
    fn end(&mut self, run: Line) -> Line {
        match self {
            _ if run.len == 0 => {}
            Sink::Lines(lines, waiting) => waiting.push(run, lines),
            Sink::Rows(rows) => rows.push(run.into()),
        }
        Line::default()
    }
}

impl<'a, F: FnMut(usize, &Ends) -> Result<()>> Many<'a, F> {
    /// The next piece is number `item`; about `count` will come.
    pub(super) fn new(plan: &'a mut Plan, item: usize, count: usize, memory: &'a Memory, fits: F) -> Self {
        plan.pieces.lines(count, memory.spares());
        let waiting = Waiting { lines: [Line::default(); AT_ONCE], count: 0 };
        let (dst, src, run) = (Part::default(), Part::default(), Line::default());
        Many { plan, memory, fits, dst, src, run, waiting, item }
    }

    /// Adds all of them. Those that came last may be in the plan only when [`finish`](Self::finish) has been called.
    #[inline(always)]
    pub(super) fn add_all(&mut self, mut pieces: impl Iterator<Item = Rows>) -> Result<(), Misfit> {
        while let Some(rows) = self.add_alike(&mut pieces) {
            let item = self.item;
            self.add_other(item, rows).map_err(|error| Misfit { item, error })?;
            self.item += 1;
        }
        Ok(())
    }

    /// As [`add_all`](Self::add_all), for runs in arrays: many that lie in the same two blocks are looked at in one go.
    pub(super) fn add_runs(&mut self, runs: &Runs) -> Result<(), Misfit> {
        let (first, count) = (self.item, runs.lens.len());
        let mut one_by_one = 1;
        while self.item - first < count {
            let before = self.item - first;
            self.add_inside(&runs.part(before, usize::MAX));
            let done = self.item - first;
            let rows = |((dst, src), len): ((&usize, &usize), &usize)| Rows::linear(*dst, *src, *len);
            let part = runs.part(done, one_by_one);
            part.are_sound().map_err(|unsound| Misfit { item: self.item + unsound.item, ..unsound })?;
            self.add_all(part.iter().map(rows))?;
            // Where blocks take turns, trying is in vain.
            one_by_one = if done - before < AT_ONCE { 4 * one_by_one } else { 1 };
        }
        Ok(())
    }

    /// Adds runs as long as they lie in the two blocks of the last piece: there is nothing to ask then, and nothing to look up.
    #[inline(never)]
    fn add_inside(&mut self, runs: &Runs) {
        let (to, from, run) = (self.dst, self.src, self.run);
        if to.is_nothing() {
            return;
        }
        self.finish();
        let Some(lines) = self.plan.pieces.lines(0, self.memory.spares()) else { return };
        // The last run lies in the same two blocks.
        let (first, mut touches) = (lines.len() - usize::from(run.len > 0), false);
        let (mut last, mut done) = (run, 0);
        while done < runs.lens.len() {
            // From the second on they start at multiples: what is copied word by word is aligned then.
            let some = runs.part(done, AT_ONCE - lines.len() % AT_ONCE);
            let added = add_some(lines, &some, &to, &from, &mut self.waiting.lines);
            if added > 0 {
                // Where runs touch they mostly do so all along: a look at two places will do.
                let line = |index| some.line(index, &to, &from);
                let middle = added / 2;
                touches |= line(0).follows(&last) || line(middle).follows(&line(middle.saturating_sub(1)));
                last = line(added - 1);
            }
            done += added;
            if added < some.lens.len() {
                break;
            }
        }
        if touches {
            lines.merge(first);
        }
        self.item += done;
    }

    /// Adds pieces as long as each is one row in two blocks of the same sorts as those of the last piece: then there is nothing
    /// to ask. Returns the first that is not.
    #[inline(always)]
    fn add_alike(&mut self, pieces: &mut impl Iterator<Item = Rows>) -> Option<Rows> {
        let table = self.memory.table();
        let Plan { pieces: store, touched, .. } = &mut *self.plan;
        let mut list = sink(store, self.memory, &mut self.waiting);
        let (mut to, mut from, mut run) = (self.dst, self.src, mem::take(&mut self.run));
        let mut item = self.item;
        let other = loop {
            let Some(rows) = pieces.next() else { break None };
            let Rows { dst, src, width, height, .. } = rows;
            if height != 1 {
                break Some(rows);
            }
            if !to.holds(dst, width) {
                let Some(part) = table.part(dst, width).filter(|part| part.is_like(&to)) else {
                    break Some(rows);
                };
                (to, run) = (part, list.end(run));
                touch(touched, &to);
            }
            if !from.holds(src, width) {
                let Some(part) = table.part(src, width).filter(|part| part.is_like(&from)) else {
                    break Some(rows);
                };
                (from, run) = (part, list.end(run));
                touch(touched, &from);
            }
            let (dst, src) = (to.engine_address(dst), from.engine_address(src));
            let line = Line { dst, src, len: width };
            if line.follows(&run) {
                run.len += width;
            } else {
                list.end(run);
                run = line;
            }
            item += 1;
        };
        (self.dst, self.src, self.run, self.item) = (to, from, run, item);
        other
    }

    /// Adds a piece that has several rows, or of which an end is of another sort than that of the last piece.
    #[inline(never)]
    fn add_other(&mut self, item: usize, rows: Rows) -> Result<()> {
        self.finish();
        let spans = (rows.span(rows.dst, rows.dst_pitch)?, rows.span(rows.src, rows.src_pitch)?);
        if spans.0 == 0 {
            return Ok(());
        }
        let table = self.memory.table();
        let (Some(dst), Some(src)) = (table.holding(rows.dst, spans.0), table.holding(rows.src, spans.1))
        else {
            let ends = self.plan.add_unusual(item, rows, self.memory, &mut self.fits)?;
            // Memory of another library stays what it is for the rest of the call: asking about it takes a microsecond.
            if let (Place::Known(dst), Place::Known(src)) = (ends.dst, ends.src) {
                (self.dst, self.src) = (Part::from(&dst), Part::from(&src));
            }
            return Ok(());
        };
        let ends = Ends { dst: Place::Known(dst), src: Place::Known(src) };
        (self.fits)(item, &ends)?;
        self.plan.take_route(ends.route())?;
        self.plan.touch(&dst);
        self.plan.touch(&src);
        (self.dst, self.src) = (Part::from(&dst), Part::from(&src));
        let rows = rows.between(&ends);
        match rows.height {
            1 => self.run = Line { dst: rows.dst, src: rows.src, len: rows.width },
            _ => self.plan.pieces.push(rows),
        }
        Ok(())
    }

    /// Everything that was added is in the plan from here on.
    pub(super) fn finish(&mut self) {
        let mut sink = sink(&mut self.plan.pieces, self.memory, &mut self.waiting);
        self.run = sink.end(self.run);
        if let Sink::Lines(lines, waiting) = sink {
            waiting.flush(lines);
        }
    }
}

/// Adds runs between two blocks as long as they lie there, and says how many: written where they will lie if they all do, and that
/// is memory that nobody here reads again.
#[inline(always)]
fn add_some(lines: &mut Lines, some: &Runs, to: &Part, from: &Part, spare: &mut Listed) -> usize {
    // SAFETY: it writes all of them, unless it says nothing.
    match unsafe { lines.fill_lent(|room| passing::list(some, to, from, room)) } {
        true => some.lens.len(),
        false => lines.fill(spare, |listed| {
            let Seen { count, bytes, most } = some.list(to, from, listed);
            (count, bytes, most)
        }),
    }
}

/// A piece begins or ends in this block, and the last one did not.
#[inline(always)]
fn touch(touched: &mut Touched, part: &Part) {
    if part.is_registered() {
        touched.add(part.base());
    }
}

#[inline]
fn sink<'a>(pieces: &'a mut Store, memory: &Memory, waiting: &'a mut Waiting) -> Sink<'a> {
    // Asked twice: what is borrowed on one way cannot be given on the other.
    match pieces.lines(0, memory.spares()).is_some() {
        true => Sink::Lines(pieces.lines(0, memory.spares()).expect("just seen"), waiting),
        false => Sink::Rows(pieces.rows()),
    }
}
