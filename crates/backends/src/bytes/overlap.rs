//! Do the two ends of a copy overlap? The predicates look alike and decide different things, so they stand
//! side by side.
//!
//! - [`is_overlapping`]: must one row be moved as `memmove` does?
//! - [`has_overlapping_row`]: the same for any row of a rectangle whose rows are moved in turn (`copy/walk`).
//! - [`spans_intersect`]: may rows depend on each other? Errs on the safe side (`host/team`, before it cuts).
//! - [`shares_bytes`]: the same, exact where both ends have one pitch (the planner of `cuda`).

use ferry_core::Rows;

/// Whether `len` bytes at `src` share a byte with `len` bytes at `dst`.
#[inline(always)]
pub fn is_overlapping(dst: usize, src: usize, len: usize) -> bool {
    dst.abs_diff(src) < len
}

/// Whether some row of the rectangle may overlap its own destination. What one row does to the source of
/// another is not asked: rows are moved one after the other, from the first to the last.
#[inline]
pub fn has_overlapping_row(rows: &Rows) -> bool {
    if rows.height == 1 || rows.dst_pitch == rows.src_pitch {
        return is_overlapping(rows.dst, rows.src, rows.width);
    }
    spans_intersect(rows)
}

/// Whether the ranges from the first byte of the first row to the last byte of the last row intersect.
#[inline]
pub fn spans_intersect(rows: &Rows) -> bool {
    let last = rows.height - 1;
    let dst_end = rows.dst + last * rows.dst_pitch + rows.width;
    let src_end = rows.src + last * rows.src_pitch + rows.width;
    rows.dst < src_end && rows.src < dst_end
}

/// Whether the copy may write a byte that it also reads, in whichever rows: then the order of its rows
/// matters. Columns of one matrix share none, though their rows lie between each other.
#[inline]
pub fn shares_bytes(rows: &Rows) -> bool {
    spans_intersect(rows) && !is_interleaved(rows)
}

/// Whether both ends are columns of one matrix that have no byte in common.
fn is_interleaved(rows: &Rows) -> bool {
    let (pitch, apart) = (rows.dst_pitch, rows.dst.abs_diff(rows.src));
    rows.dst_pitch == rows.src_pitch
        && (rows.width..=pitch - rows.width.min(pitch)).contains(&(apart % pitch))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_question_has_its_own_answer() {
        let rows =
            |dst, dst_pitch, src, src_pitch| Rows { dst, dst_pitch, src, src_pitch, width: 100, height: 9 };
        for (name, rows, want) in [
            ("apart", rows(0, 100, 5000, 200), [false, false, false]),
            ("columns of one matrix", rows(0, 200, 100, 200), [false, true, false]),
            ("one row further down", rows(200, 200, 0, 200), [false, true, true]),
            ("half a row further", rows(50, 200, 0, 200), [true, true, true]),
            ("woven with two pitches", rows(0, 200, 100, 300), [true, true, true]),
            ("in place", rows(0, 200, 0, 200), [true, true, true]),
        ] {
            let got = [has_overlapping_row(&rows), spans_intersect(&rows), shares_bytes(&rows)];
            assert_eq!(got, want, "{name}");
        }
        let linear = |dst, src| Rows::linear(dst, src, 100);
        for (rows, want) in [(linear(0, 100), false), (linear(0, 99), true), (linear(99, 0), true)] {
            assert_eq!(has_overlapping_row(&rows), want, "{rows:?}");
            assert_eq!(is_overlapping(rows.dst, rows.src, rows.width), want, "{rows:?}");
        }
    }
}
