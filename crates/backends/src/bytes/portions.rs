//! Cutting copies into portions that are moved one by one, or by several threads.

use crate::os::page::SMALLEST_PAGE;
use ferry_core::Rows;

/// Cuts a rectangle into parts of at most `size` bytes, which is a multiple of a page: whole rows where they
/// fit, of which each counts for `least_row` bytes at least; else parts of a row that end at a page of the
/// end that `by` tells.
pub fn cut(
    rows: &Rows,
    size: usize,
    least_row: usize,
    by: impl Fn(&Rows) -> usize,
    mut part: impl FnMut(Rows),
) {
    if rows.width > size {
        return (0..rows.height)
            .map(|row| row_of(rows, row))
            .for_each(|row| cut_row(row, size, by(&row), &mut part));
    }
    let each = (size / rows.width.max(least_row)).max(1);
    for first in (0..rows.height).step_by(each) {
        part(Rows { height: each.min(rows.height - first), ..row_of(rows, first) });
    }
}

/// A row of a rectangle, with the rectangle's pitches.
pub fn row_of(rows: &Rows, row: usize) -> Rows {
    let (dst, src) = (rows.dst + row * rows.dst_pitch, rows.src + row * rows.src_pitch);
    Rows { dst, src, height: 1, ..*rows }
}

fn cut_row(row: Rows, size: usize, start: usize, part: &mut impl FnMut(Rows)) {
    let mut done = 0;
    while done < row.width {
        // Where a page of that end begins: no two threads write to one cache line of it.
        let len = (size - (start + done) % SMALLEST_PAGE).min(row.width - done);
        part(Rows::linear(row.dst + done, row.src + done, len));
        done += len;
    }
}

/// Where portions of `len` bytes begin and how long they are, each `size` bytes but the last; in the opposite
/// order if the bytes move up, so that none is written over before it was read.
pub fn steps(len: usize, size: usize, is_up: bool) -> impl Iterator<Item = (usize, usize)> {
    let count = len.div_ceil(size);
    (0..count).map(move |number| {
        let skip = size * if is_up { count - 1 - number } else { number };
        (skip, size.min(len - skip))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn long_rows_are_cut_at_pages_of_one_end() {
        let mut starts = Vec::new();
        cut(&Rows::linear(100, 1 << 30, 30_000), 8192, 1, |rows| rows.dst, |part| starts.push(part.dst));
        assert_eq!(starts, [100, 8192, 16384, 24576]);
    }

    #[test]
    fn no_portion_is_written_over_before_it_was_read() {
        const SIZE: usize = 512 << 10;
        for (len, from, to) in [
            (1, 0, 0),
            (SIZE, 0, 1),
            (3 * SIZE + 5, 1, 0),
            (3 * SIZE + 5, 0, 1),
            (2_000_000, 0, 900_000),
            (2_000_000, 900_000, 0),
        ] {
            let mut bytes: Vec<u8> = (0..len + from + to).map(|at| (at * 7 / 3) as u8).collect();
            let mut want = bytes.clone();
            want.copy_within(from..from + len, to);
            for (skip, part) in steps(len, SIZE, to > from) {
                let portion = bytes[from + skip..][..part].to_vec();
                bytes[to + skip..][..part].copy_from_slice(&portion);
            }
            assert!(bytes == want, "{len} bytes from {from} to {to}");
        }
    }
}
