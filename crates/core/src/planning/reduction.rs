//! Planning reductions.

use crate::{
    Ends, Kind, Memory, Plan, Reduction, Result, Rows,
    backend::lacks,
    reduce::{Combine, Element, ReducedPiece},
};
use smallvec::SmallVec;

impl Reduction {
    /// The only way to make one: `len` bytes, a multiple of the element's size, at the user's `dst` become
    /// their combination with those at `src`. `fits` adds the caller's own rules, as in [`Plan::new`]; plain
    /// host memory is refused.
    pub fn new(
        combine: Combine,
        element: Element,
        (dst, src, len): (usize, usize, usize),
        memory: &Memory,
        fits: impl Fn(&Ends) -> Result<()>,
    ) -> Result<Reduction> {
        if !memory.backend().features().can_reduce {
            return Err(lacks("a reduction".into()));
        }
        if len % element.size() != 0 {
            let note = format!("{len} bytes are no whole number of elements of {} bytes", element.size());
            return Err(Kind::BadShape.because(note));
        }
        let fits = |_, ends: &Ends| {
            fits(ends)?;
            match ends.dst.is_plain() || ends.src.is_plain() {
                true => Err(Kind::BadRoute.because("a reduction does not take plain host memory")),
                false => Ok(()),
            }
        };
        let mut plan =
            Plan::new([Rows::linear(dst, src, len)], memory, fits).map_err(|misfit| misfit.error)?;
        let (mut start, mut pieces) = (0, SmallVec::<[ReducedPiece; 1]>::new());
        let mut add = |rows: Rows| {
            pieces.push(ReducedPiece { start, dst: rows.dst, src: rows.src, len: rows.width });
            start += rows.width;
        };
        // A plan of several pieces is given in the order of a memmove.
        match plan.is_backward() {
            true => plan.pieces().iter().rev().for_each(&mut add),
            false => plan.pieces().iter().for_each(&mut add),
        }
        let backward = match &pieces[..] {
            [one] => one.dst > one.src && one.dst - one.src < len,
            _ => plan.is_backward(),
        };
        Ok(Reduction { pieces, combine, element, backward, touched: plan.take_touched() })
    }
}
