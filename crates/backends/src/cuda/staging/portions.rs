//! A copy cut into portions, each of which fits a staging buffer.

use crate::{bytes::portions::cut, os::page::SMALLEST_PAGE};
use ferry_core::Rows;
use std::ops::Range;

/// Pieces start at multiples of this in a buffer.
const ALIGN: usize = 64;

/// The size of portions of which there are to be so many: portions of a row end at a page, so that the first
/// may be short of that by one.
pub fn size_of(bytes: usize, count: usize) -> usize {
    (bytes.div_ceil(count.max(1)) + SMALLEST_PAGE).next_multiple_of(SMALLEST_PAGE)
}

/// The pieces of a copy, none larger than a buffer, and which of them go together.
pub struct Portions {
    pieces: Vec<Rows>,
    ranges: Vec<Range<usize>>,
}

impl Portions {
    /// Cuts `rows` for buffers of `size` bytes, a multiple of a page; `host` says where a piece begins in the
    /// host's memory.
    pub fn new(rows: impl Iterator<Item = Rows>, size: usize, host: impl Fn(&Rows) -> usize) -> Portions {
        let mut pieces = Vec::with_capacity(rows.size_hint().0);
        rows.for_each(|rows| cut(&rows, size, 1, &host, |part| pieces.push(part)));
        let ranges = pack(&pieces, size);
        Portions { pieces, ranges }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The pieces of a portion.
    pub fn get(&self, index: usize) -> Option<&[Rows]> {
        self.ranges.get(index).map(|range| &self.pieces[range.clone()])
    }
}

/// Where each piece of a portion lies in its buffer.
pub fn places(pieces: &[Rows]) -> impl Iterator<Item = (usize, &Rows)> {
    pieces.iter().scan(0, |end, rows| {
        let start = *end;
        *end += room(rows);
        Some((start, rows))
    })
}

fn room(rows: &Rows) -> usize {
    rows.bytes().next_multiple_of(ALIGN)
}

/// Which pieces share a buffer: neighbours, as many as fit.
fn pack(pieces: &[Rows], size: usize) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let mut left = 0;
    for (index, rows) in pieces.iter().enumerate() {
        match ranges.last_mut().filter(|_| room(rows) <= left) {
            Some(range) => range.end = index + 1,
            None => {
                ranges.push(index..index + 1);
                left = size;
            }
        }
        left -= room(rows).min(left);
    }
    ranges
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every byte, as where it goes and where it comes from.
    fn bytes<'a>(pieces: impl IntoIterator<Item = &'a Rows>) -> Vec<(usize, usize)> {
        let row =
            |rows: &Rows| (0..rows.width).map(|col| (rows.dst + col, rows.src + col)).collect::<Vec<_>>();
        let all = |rows: &'a Rows| {
            (0..rows.height).flat_map(move |index| row(&crate::bytes::portions::row_of(rows, index)))
        };
        pieces.into_iter().flat_map(all).collect()
    }

    #[test]
    fn portions_are_the_copy_and_fit_their_buffers() {
        const SIZE: usize = 8192;
        let narrow = Rows { dst: 1 << 20, dst_pitch: 40, src: 5, src_pitch: 33, width: 33, height: 700 };
        let wide =
            Rows { dst: 3 << 20, dst_pitch: 20_000, src: 77, src_pitch: 19_000, width: 18_900, height: 3 };
        let small = |i: usize| Rows::linear((8 << 20) + i * 300, (9 << 20) + i * 700, 1 + i % 200);
        let many: Vec<Rows> = (0..500).map(small).collect();
        let whole = Rows::linear(0, 1 << 30, SIZE);
        let plans: [&[Rows]; 6] = [
            &[narrow],
            &[wide],
            &many,
            &[whole, whole],
            &[small(0), narrow, small(1), wide, small(2), small(3)],
            &[Rows::linear(4096 * 9 + 17, 4096 * 900, 50_000)],
        ];
        for plan in plans {
            let portions = Portions::new(plan.iter().copied(), SIZE, |rows| rows.dst);
            let all: Vec<_> =
                (0..portions.count()).map(|index| portions.get(index).expect("is one")).collect();
            assert_eq!(bytes(all.iter().copied().flatten()), bytes(plan));
            for pieces in all {
                let mut end = 0;
                for (start, rows) in places(pieces) {
                    assert!(start >= end && start % ALIGN == 0 && start + rows.bytes() <= SIZE, "{pieces:?}");
                    end = start + rows.bytes();
                }
            }
            assert!(portions.get(portions.count()).is_none());
        }
        assert_eq!(Portions::new([whole, whole].into_iter(), SIZE, |rows| rows.dst).count(), 2);
        for (offset, bytes, count) in [(0, 1 << 18, 2), (16, 1 << 18, 2), (4095, 300_001, 3), (1, 1 << 20, 8)]
        {
            let rows = Rows::linear(offset, 1 << 30, bytes);
            let portions = Portions::new(Some(rows).into_iter(), size_of(bytes, count), |rows| rows.dst);
            assert!(portions.count() <= count, "{bytes} bytes, {offset} past a page: {}", portions.count());
        }
        assert!(
            Portions::new(many.iter().copied(), SIZE, |rows| rows.dst).count() < 12,
            "small ones go together"
        );
    }
}
