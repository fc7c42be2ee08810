//! Planning many pieces at once, as batches do. They seldom lie in as many blocks, and often next to each other: the two blocks
//! that the last piece lay in are looked at first, and a piece that goes on where the last one ended becomes one with it.

use super::{Ends, Misfit, Plan, Rows};
use crate::{Memory, Place, Result, table::Part};
use std::mem;

/// Adds pieces to a plan.
pub(super) struct Many<'a, F> {
    plan: &'a mut Plan,
    memory: &'a Memory,
    fits: F,
    /// The blocks of the last piece that lay in two of them; `fits` has agreed to both.
    dst: Part,
    src: Part,
    /// What lies between these blocks and is not in the plan yet.
    run: Run,
    /// The number of the next piece.
    item: usize,
}

/// Pieces between two blocks that are one, in the engine's addresses; none yet if `len` is 0.
#[derive(Default)]
struct Run {
    dst: usize,
    src: usize,
    len: usize,
}

impl Run {
    /// Puts it into the list; nothing goes on where this one ended.
    #[inline(always)]
    fn end(self, list: &mut Vec<Rows>) -> Run {
        if self.len > 0 {
            list.push(Rows::linear(self.dst, self.src, self.len));
        }
        Run::default()
    }
}

impl<'a, F: FnMut(usize, &Ends) -> Result<()>> Many<'a, F> {
    /// The next piece is number `item`; about `count` will come.
    pub(super) fn new(plan: &'a mut Plan, item: usize, count: usize, memory: &'a Memory, fits: F) -> Self {
        plan.pieces.make_room(count, memory.spares());
        Many { plan, memory, fits, dst: Part::default(), src: Part::default(), run: Run::default(), item }
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

    /// Adds pieces as long as each is one row in two blocks of the same sorts as those of the last piece: then there is nothing
    /// to ask. Returns the first that is not.
    #[inline(always)]
    fn add_alike(&mut self, pieces: &mut impl Iterator<Item = Rows>) -> Option<Rows> {
        let (table, list) = (self.memory.table(), self.plan.pieces.list());
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
                (to, run) = (part, run.end(list));
            }
            if !from.holds(src, width) {
                let Some(part) = table.part(src, width).filter(|part| part.is_like(&from)) else {
                    break Some(rows);
                };
                (from, run) = (part, run.end(list));
            }
            let (dst, src) = (to.engine_address(dst), from.engine_address(src));
            if (dst, src) == (run.dst + run.len, run.src + run.len) {
                run.len += width;
            } else {
                run.end(list);
                run = Run { dst, src, len: width };
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
        let table = self.memory.table();
        let (Some(dst), Some(src)) = (table.holding(rows.dst, spans.0), table.holding(rows.src, spans.1))
        else {
            return self.plan.add_unusual(item, rows, self.memory, &mut self.fits);
        };
        let ends = Ends { dst: Place::Known(dst), src: Place::Known(src) };
        (self.fits)(item, &ends)?;
        self.plan.take_route(item, ends.route())?;
        (self.dst, self.src) = (Part::from(&dst), Part::from(&src));
        let rows = rows.between(&ends);
        match rows.height {
            1 => self.run = Run { dst: rows.dst, src: rows.src, len: rows.width },
            _ if spans.0 > 0 => self.plan.pieces.push(rows),
            _ => {}
        }
        Ok(())
    }

    /// Everything that was added is in the plan from here on.
    pub(super) fn finish(&mut self) {
        self.run = mem::take(&mut self.run).end(self.plan.pieces.list());
    }
}
