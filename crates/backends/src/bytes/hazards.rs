//! Data hazards between the copies of a list: one writes what another reads or writes, so that they cannot be
//! done side by side.

use ferry_core::Segment;
use std::{collections::BTreeMap, ops::Range};

/// Whether no copy meets another one, or writes what is read at `also_read`. False as well where that takes
/// long to tell; [`hazards`] knows.
pub fn are_independent(segments: &[Segment], also_read: impl Iterator<Item = Range<usize>>) -> bool {
    let (to, from) = (hull(segments, |copy| copy.dst), hull(segments, |copy| copy.src));
    let is_beside = |range: &Range<usize>| to.end <= range.start || range.end <= to.start;
    let reads_elsewhere = is_beside(&from);
    let mut also_read = also_read.filter(|range| !range.is_empty() && !is_beside(range)).peekable();
    let ascend = segments.windows(2).all(|pair| pair[0].dst + pair[0].len <= pair[1].dst);
    if ascend && reads_elsewhere && also_read.peek().is_none() {
        return true;
    }
    let Some(mut written) = Written::room_for(segments) else { return false };
    (0..segments.len()).all(|number| written.add(number))
        && (reads_elsewhere || !segments.iter().any(|copy| written.meet(copy.src, copy.len)))
        && !also_read.any(|range| written.meet(range.start, range.len()))
}

/// The addresses from the first to the last one used at one end.
fn hull(segments: &[Segment], start: impl Fn(&Segment) -> usize) -> Range<usize> {
    let first = segments.iter().map(&start).min().unwrap_or(0);
    let end = segments.iter().map(|copy| start(copy) + copy.len).max().unwrap_or(0);
    first..end
}

/// Where copies write, by the cells of memory that they touch. A cell is as large as a copy is on average, so
/// there are at most three for each copy. (Sorting them took some 40 ns a copy, more than all else that a
/// sender does with it.)
struct Written<'a> {
    segments: &'a [Segment],
    /// Bits of an address inside its cell.
    cell: u32,
    /// Bits of a place in the table.
    bits: u32,
    /// The number of a copy, from 1, at the place of each of its cells or behind it; else 0.
    table: Vec<u16>,
    /// How often it may still be looked at other copies. Many may share a cell if some are much larger than
    /// others.
    probes: usize,
}

/// Looks for each copy.
const PROBES_PER_COPY: usize = 16;

impl<'a> Written<'a> {
    /// Nothing, with room for these copies; not for too many.
    fn room_for(segments: &'a [Segment]) -> Option<Self> {
        let (count, bytes) = (segments.len(), segments.iter().map(|copy| copy.len).sum::<usize>());
        u16::try_from(count).ok()?;
        let cell = (bytes / count.max(1)).max(1).next_power_of_two().ilog2();
        let bits = (4 * count).next_power_of_two().ilog2();
        Some(Written { segments, cell, bits, table: vec![0; 1 << bits], probes: PROBES_PER_COPY * count })
    }

    /// Adds what a copy writes. False if it meets another one's, or that is not known.
    fn add(&mut self, number: usize) -> bool {
        let Segment { dst, len, .. } = self.segments[number];
        for cell in self.cells(dst, len) {
            match self.find(cell, dst..dst + len, number as u16 + 1) {
                Some(free) => self.table[free] = number as u16 + 1,
                None => return false,
            }
        }
        true
    }

    /// Whether a copy writes there, or that is not known.
    fn meet(&mut self, start: usize, len: usize) -> bool {
        self.cells(start, len).any(|cell| self.find(cell, start..start + len, 0).is_none())
    }

    fn cells(&self, start: usize, len: usize) -> impl Iterator<Item = usize> + use<> {
        start >> self.cell..=(start + len.max(1) - 1) >> self.cell
    }

    /// The place for a cell behind those of other copies there, none of which writes in `range`.
    fn find(&mut self, cell: usize, range: Range<usize>, own: u16) -> Option<usize> {
        let mut place = ((cell as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - self.bits)) as usize;
        loop {
            let other = self.table[place];
            if other == 0 {
                return Some(place);
            }
            let Segment { dst, len, .. } = self.segments[usize::from(other) - 1];
            if self.probes == 0 || other != own && dst < range.end && range.start < dst + len {
                return None;
            }
            self.probes -= 1;
            place = (place + 1) % self.table.len();
        }
    }
}

/// Where the next portion has to begin, since a copy meets one that comes before it.
pub fn hazards(segments: &[Segment]) -> Vec<usize> {
    let mut cuts = Vec::new();
    let (mut written, mut read) = (RangeSet::default(), RangeSet::default());
    for (at, copy) in segments.iter().enumerate() {
        let (dst, src) = (copy.dst..copy.dst + copy.len, copy.src..copy.src + copy.len);
        if written.meet(&dst) || read.meet(&dst) || written.meet(&src) {
            cuts.push(at);
            (written, read) = (RangeSet::default(), RangeSet::default());
        }
        written.add(dst);
        read.add(src);
    }
    cuts
}

/// A set of addresses: ranges that neither overlap nor touch, by their starts.
#[derive(Default)]
struct RangeSet(BTreeMap<usize, usize>);

impl RangeSet {
    fn meet(&self, range: &Range<usize>) -> bool {
        self.0.range(..range.end).next_back().is_some_and(|(_, end)| *end > range.start)
    }

    fn add(&mut self, mut range: Range<usize>) {
        while let Some((&start, &end)) =
            self.0.range(..=range.end).next_back().filter(|(_, end)| **end >= range.start)
        {
            self.0.remove(&start);
            range = range.start.min(start)..range.end.max(end);
        }
        self.0.insert(range.start, range.end);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::iter;

    fn are_independent(segments: &[Segment]) -> bool {
        super::are_independent(segments, iter::empty())
    }

    fn copy(dst: usize, src: usize, len: usize) -> Segment {
        Segment { dst, src, len }
    }

    /// `count` copies of `len` bytes, `step` bytes apart, in no order.
    fn scattered(count: usize, len: usize, step: usize, src: usize) -> Vec<Segment> {
        (0..count).map(|at| copy(0x10_0040 + at * 7919 % count * step, src + at * step, len)).collect()
    }

    #[test]
    fn copies_in_any_order_are_seen_to_be_apart() {
        for (len, step) in
            [(1, 1), (64, 64), (100, 100), (4096, 4096), (4096, 8192), (5000, 5001), (65536, 65536)]
        {
            let mut copies = scattered(1000, len, step, 1 << 40);
            assert!(are_independent(&copies), "{len} bytes every {step}");
            let inside = scattered(1000, len, step, 0x10_0040 + 1000 * step);
            assert!(are_independent(&inside), "the same, from right behind them");
            for (other, what) in [(3, "the start"), (997, "the end")] {
                copies[500] = copy(copies[other].dst + len - 1, 1 << 41, 1);
                assert!(!are_independent(&copies), "{len} bytes every {step}, one writes at {what}");
            }
            copies[500] = copy(1 << 30, copies[700].dst, 1);
            assert!(!are_independent(&copies), "{len} bytes every {step}, one reads what another writes");
        }
    }

    #[test]
    fn copies_of_many_sizes_are_seen_to_be_apart_or_left_to_those_who_know() {
        let large_and_small = |small: usize| -> Vec<Segment> {
            let sizes = (0..400)
                .map(|at| if at % 2 == 0 { (at * 65536, 65536) } else { ((1 << 30) + at * small, small) });
            sizes.rev().map(|(at, len)| copy(at, 1 << 40, len)).collect()
        };
        assert!(are_independent(&large_and_small(8192)));
        let crowd = large_and_small(8);
        assert!(!are_independent(&crowd) && hazards(&crowd).is_empty(), "too many in a cell");
        assert!(are_independent(&[]) && are_independent(&[copy(8, 0, 8)]));
    }

    #[test]
    fn copies_are_apart_unless_one_writes_what_another_uses() {
        let apart = |copies: &[(usize, usize, usize)], cell: Range<usize>| {
            let copies: Vec<_> = copies.iter().map(|(dst, src, len)| copy(*dst, *src, *len)).collect();
            super::are_independent(&copies, [cell].into_iter())
        };
        let none = 0..0;
        assert!(apart(&[], none.clone()));
        assert!(apart(&[(1000, 5000, 100), (1100, 5000, 100), (900, 5050, 100)], none.clone()), "neighbours");
        assert!(!apart(&[(1000, 5000, 100), (1099, 6000, 100)], none.clone()), "two write a byte");
        assert!(!apart(&[(1000, 5000, 100), (7000, 1099, 10)], none.clone()), "one reads what one writes");
        assert!(!apart(&[(7000, 1099, 10), (1000, 5000, 100)], none.clone()), "in either order");
        assert!(apart(&[(1000, 5000, 100), (7000, 1100, 10)], none.clone()), "right behind it");
        assert!(apart(&[(1000, 5000, 100), (7000, 990, 10), (3000, 1100, 1900)], none.clone()), "between");
        assert!(!apart(&[(1000, 1050, 100)], none), "its own source");
        assert!(!apart(&[(1000, 5000, 100), (2000, 5000, 100)], 2099..2155), "a descriptor");
        assert!(apart(&[(1000, 5000, 100), (2000, 5000, 100)], 2100..2156));
        assert!(apart(&[(1000, 5000, 100), (2000, 5000, 100)], 9000..9056), "far away");
    }
}
