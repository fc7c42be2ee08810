//! Where the ends of a copy lie, and whether they fit each other. Pure: no memory is looked at.

use crate::{Kind, Result};
use ferry_core::Rows;
use std::{
    fmt,
    ops::{Bound, Range, RangeBounds},
};

/// One end of a copy: rows of elements, a pitch apart. One row is a linear range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Address of the first element.
    pub(crate) addr: usize,
    pub(crate) rows: usize,
    /// Elements in a row.
    pub(crate) cols: usize,
    /// Elements from one row to the next.
    pub(crate) pitch: usize,
    /// The runtime that made the memory, as a number to compare; 0 for a borrow, which does not say.
    pub(crate) owner: usize,
}

/// Which way a copy between host and device goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Up,
    Down,
}

/// What only this crate can make: methods of public traits that ask for it are ours alone.
#[derive(Clone, Copy)]
pub struct Key(());

pub(crate) const KEY: Key = Key(());

impl Extent {
    pub(crate) fn linear(addr: usize, len: usize, owner: usize) -> Extent {
        Extent { addr, rows: 1, cols: len, pitch: len, owner }
    }

    pub(crate) fn of_slice<T>(slice: &[T]) -> Extent {
        Extent::linear(slice.as_ptr() as usize, slice.len(), 0)
    }

    /// Whether the two have one shape.
    #[inline]
    pub(crate) fn is_like(&self, other: &Extent) -> bool {
        (self.rows, self.cols) == (other.rows, other.cols)
    }

    fn is_linear(&self) -> bool {
        self.rows == 1
    }

    pub(crate) fn count(&self) -> usize {
        self.rows * self.cols
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rows {
            1 => write!(f, "{} elements at {:#x}", self.cols, self.addr),
            rows => {
                write!(f, "{rows} rows of {} elements, pitch {}, at {:#x}", self.cols, self.pitch, self.addr)
            }
        }
    }
}

/// The rectangle of bytes that a copy between the two moves, for elements of `size` bytes. Shapes agree if
/// they are the same, or if one of the two is linear and has as many elements.
pub(crate) fn join(dst: Extent, src: Extent, size: usize) -> Result<Rows> {
    let (rows, cols, dst_pitch, src_pitch) = if dst.is_like(&src) {
        (dst.rows, dst.cols, dst.pitch, src.pitch)
    } else if dst.is_linear() && dst.cols == src.count() {
        (src.rows, src.cols, src.cols, src.pitch)
    } else if src.is_linear() && src.cols == dst.count() {
        (dst.rows, dst.cols, dst.pitch, dst.cols)
    } else {
        let note = format!("the shapes differ: the destination is {dst}, the source is {src}");
        return Err(Kind::BadShape.because(note));
    };
    if rows <= 1 || cols == 0 {
        return Ok(Rows::linear(dst.addr, src.addr, rows * cols * size));
    }
    Ok(Rows {
        dst: dst.addr,
        dst_pitch: dst_pitch * size,
        src: src.addr,
        src_pitch: src_pitch * size,
        width: cols * size,
        height: rows,
    })
}

/// The part `range` of `len` elements.
#[inline]
pub(crate) fn within(range: impl RangeBounds<usize>, len: usize, what: &str) -> Result<Range<usize>> {
    let start = match range.start_bound() {
        Bound::Unbounded => Some(0),
        Bound::Included(start) => Some(*start),
        Bound::Excluded(start) => start.checked_add(1),
    };
    let end = match range.end_bound() {
        Bound::Unbounded => Some(len),
        Bound::Included(end) => end.checked_add(1),
        Bound::Excluded(end) => Some(*end),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok(start..end),
        _ => Err(out_of(range.start_bound(), range.end_bound(), len, what)),
    }
}

#[cold]
fn out_of(start: Bound<&usize>, end: Bound<&usize>, len: usize, what: &str) -> crate::Error {
    let start = match start {
        Bound::Unbounded => String::new(),
        Bound::Included(start) => start.to_string(),
        Bound::Excluded(start) => format!("{start}<"),
    };
    let end = match end {
        Bound::Unbounded => String::new(),
        Bound::Included(end) => format!("={end}"),
        Bound::Excluded(end) => end.to_string(),
    };
    Kind::OutOfBounds.because(format!("{start}..{end} is not a part of {len} {what}"))
}

/// Rows and columns of a matrix inside `len` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) pitch: usize,
}

impl Grid {
    /// `rows` rows of `cols` elements, `pitch` elements apart, if they lie in `len` elements. The last row
    /// needs its columns, not its pitch.
    pub(crate) fn new(rows: usize, cols: usize, pitch: usize, len: usize) -> Result<Grid> {
        if pitch < cols {
            let note = format!("a pitch of {pitch} elements is less than a row of {cols}");
            return Err(Kind::BadShape.because(note));
        }
        let span = match rows.checked_sub(1) {
            None => Some(0),
            Some(before) => before.checked_mul(pitch).and_then(|before| before.checked_add(cols)),
        };
        match span {
            Some(span) if span <= len => Ok(Grid { rows, cols, pitch }),
            _ => {
                let note =
                    format!("{rows} rows of {cols} elements, pitch {pitch}, do not lie in {len} elements");
                Err(Kind::OutOfBounds.because(note))
            }
        }
    }

    /// How many elements there are from the first to the end of the last row.
    pub(crate) fn span(&self) -> usize {
        if self.rows == 0 || self.cols == 0 { 0 } else { (self.rows - 1) * self.pitch + self.cols }
    }

    /// The elements of a row, if there is such a row. An empty one lies anywhere.
    pub(crate) fn row(&self, row: usize) -> Option<Range<usize>> {
        let start = if self.cols == 0 { 0 } else { row.checked_mul(self.pitch)? };
        (row < self.rows).then(|| start..start + self.cols)
    }

    /// A rectangle of it, and how many elements lie before that.
    pub(crate) fn rect(
        &self,
        rows: impl RangeBounds<usize>,
        cols: impl RangeBounds<usize>,
    ) -> Result<(usize, Grid)> {
        let (rows, cols) = (within(rows, self.rows, "rows")?, within(cols, self.cols, "columns")?);
        let grid = Grid { rows: rows.len(), cols: cols.len(), pitch: self.pitch };
        // An empty one starts where the matrix does: behind the last row there is nothing to point at.
        let before = if grid.span() == 0 { 0 } else { rows.start * self.pitch + cols.start };
        Ok((before, grid))
    }

    pub(crate) fn at(&self, addr: usize, owner: usize) -> Extent {
        Extent { addr, rows: self.rows, cols: self.cols, pitch: self.pitch, owner }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_agree_if_equal_or_if_one_is_linear_with_as_many() {
        let linear = |len| Extent::linear(0x1000, len, 0);
        let grid = |rows, cols, pitch| Grid { rows, cols, pitch }.at(0x9000, 0);
        for (dst, src, want) in [
            (linear(6), linear(6), Some((24, 1, 24, 24))),
            (linear(6), linear(7), None),
            (linear(6), grid(2, 3, 5), Some((12, 2, 12, 20))),
            (grid(2, 3, 5), linear(6), Some((12, 2, 20, 12))),
            (grid(2, 3, 5), linear(10), None),
            (grid(2, 3, 5), grid(2, 3, 4), Some((12, 2, 20, 16))),
            (grid(2, 3, 5), grid(3, 2, 4), None),
            (grid(0, 3, 5), grid(2, 0, 4), None),
            (grid(0, 3, 5), linear(0), Some((0, 1, 0, 0))),
        ] {
            let got = join(dst, src, 4).map(|rows| (rows.width, rows.height, rows.dst_pitch, rows.src_pitch));
            assert_eq!(got.ok(), want, "{dst} <- {src}");
        }
    }

    #[test]
    fn a_matrix_needs_the_width_of_its_last_row_not_its_pitch() {
        for (rows, cols, pitch, len, good) in [
            (3, 4, 10, 24, true),
            (3, 4, 10, 23, false),
            (3, 4, 3, 100, false),
            (0, 4, 10, 0, true),
            (1, 4, 4, 4, true),
            (usize::MAX, 4, usize::MAX, 100, false),
            (2, 0, usize::MAX, 100, false),
        ] {
            assert_eq!(Grid::new(rows, cols, pitch, len).is_ok(), good, "{rows} x {cols} / {pitch} in {len}");
        }
    }

    #[test]
    fn ranges_are_parts_or_errors_that_show_them() {
        let show = |range: Result<Range<usize>>| range.map_err(|error| error.note.to_string());
        assert_eq!(show(within(.., 5, "elements")), Ok(0..5));
        assert_eq!(show(within(2..=4, 5, "elements")), Ok(2..5));
        assert_eq!(show(within(5.., 5, "elements")), Ok(5..5));
        assert_eq!(show(within(2..6, 5, "elements")), Err("2..6 is not a part of 5 elements".into()));
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = within(4..2, 5, "elements");
        assert_eq!(show(backwards), Err("4..2 is not a part of 5 elements".into()));
        assert!(within(0..=usize::MAX, 5, "elements").is_err());
    }

    #[test]
    fn a_rectangle_starts_inside_and_keeps_the_pitch() {
        let grid = Grid { rows: 4, cols: 6, pitch: 10 };
        assert_eq!(grid.rect(1..3, 2..), Ok((12, Grid { rows: 2, cols: 4, pitch: 10 })));
        assert_eq!(grid.rect(4.., 2..), Ok((0, Grid { rows: 0, cols: 4, pitch: 10 })));
        assert!(grid.rect(1..5, ..).is_err());
        assert!(grid.rect(.., ..7).is_err());
        assert_eq!((grid.row(3), grid.row(4), grid.row(usize::MAX)), (Some(30..36), None, None));
        let (_, empty) = grid.rect(.., 2..2).expect("four empty rows");
        assert_eq!((empty.row(3), empty.row(4)), (Some(0..0), None));
    }
}
