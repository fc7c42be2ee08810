//! The core's checks: every copy becomes a [`Plan`] here, or is refused.
//!
//! Every range is looked up, as a range, in the address table; what the table does not know the backend is
//! asked about (`unusual.rs`). Batches are planned many pieces at a time (`many.rs`, `plain.rs`).
//! Reductions, and copies whose addresses are read when they run, are planned the same way. This folder reads
//! memory and makes plans; it submits nothing.

mod indirect;
mod many;
mod plain;
mod reduction;
mod unusual;

use crate::{Ends, Memory, Misfit, Place, Plan, Result, Rows, Runs};
use many::Many;

impl Plan {
    /// The only way to make a plan: every range is looked up, as a range, and must be what it says. `fits`
    /// adds the caller's own rules for piece `item`, which are about the homes and origins of its ends: it is
    /// not asked again where these are as they were for the last piece between two known blocks, or between a
    /// known one and plain host memory. It is asked before any plain host memory is touched. A piece of no
    /// bytes is nowhere: its addresses are not looked up, and `fits` need not be asked.
    #[inline]
    pub fn new(
        pieces: impl IntoIterator<Item = Rows>,
        memory: &Memory,
        fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<Plan, Misfit> {
        let mut plan = Plan::default();
        plan.extend(0, pieces, memory, fits)?;
        Ok(plan)
    }

    /// Adds pieces, of which the first is number `first` of all. `fits` is asked anew.
    #[inline]
    pub fn extend(
        &mut self,
        first: usize,
        pieces: impl IntoIterator<Item = Rows>,
        memory: &Memory,
        fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        let mut pieces = pieces.into_iter();
        let Some(rows) = pieces.next() else { return Ok(()) };
        match pieces.next() {
            None => self.add_one(first, rows, memory, fits),
            Some(second) => self.add_many(first, [rows, second], pieces, memory, fits),
        }
    }

    /// As [`extend`](Self::extend), for runs in arrays, which are planned faster.
    pub fn extend_runs(
        &mut self,
        first: usize,
        runs: &Runs,
        memory: &Memory,
        fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        if let ([dst], [src], [len]) = (runs.dsts, runs.srcs, runs.lens) {
            runs.are_sound().map_err(|unsound| Misfit { item: first, ..unsound })?;
            return self.add_one(first, Rows::linear(*dst, *src, *len), memory, fits);
        }
        let mut many = Many::new(self, first, runs.lens.len(), memory, fits);
        many.add_runs(runs)?;
        many.finish();
        Ok(())
    }

    /// Adds a piece that is all of its call. A sink that the plan has from a call before is finished as the
    /// piece is pushed there: most plans have one piece and no sink, and are not to ask for it.
    #[inline]
    fn add_one(
        &mut self,
        item: usize,
        rows: Rows,
        memory: &Memory,
        mut fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        self.add(item, rows, memory, &mut fits).map_err(|error| Misfit { item, error })
    }

    #[inline(never)]
    fn add_many(
        &mut self,
        first: usize,
        two: [Rows; 2],
        others: impl Iterator<Item = Rows>,
        memory: &Memory,
        fits: impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<(), Misfit> {
        let mut many = Many::new(self, first, 2 + others.size_hint().1.unwrap_or(0), memory, fits);
        many.add_all(two.into_iter())?;
        many.add_all(others)?;
        many.finish();
        Ok(())
    }

    #[inline]
    fn add(
        &mut self,
        item: usize,
        rows: Rows,
        memory: &Memory,
        fits: &mut impl FnMut(usize, &Ends) -> Result<()>,
    ) -> Result<()> {
        let (dst_span, src_span) =
            (rows.span(rows.dst, rows.dst_pitch)?, rows.span(rows.src, rows.src_pitch)?);
        if dst_span == 0 {
            return Ok(());
        }
        let table = memory.table();
        let (Some(dst), Some(src)) =
            (table.containing(rows.dst, dst_span), table.containing(rows.src, src_span))
        else {
            return self.add_unusual(item, rows, memory, fits).map(drop);
        };
        let ends = Ends { dst: Place::Known(dst), src: Place::Known(src) };
        fits(item, &ends)?;
        self.take_route(ends.route())?;
        self.touch(&dst);
        self.touch(&src);
        self.pieces.push(rows.between(&ends));
        Ok(())
    }
}
