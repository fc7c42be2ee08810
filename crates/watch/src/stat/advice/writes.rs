//! When each byte was last written, by ranges of addresses.

use std::collections::BTreeMap;

/// Ranges with the number of the op that wrote them last.
#[derive(Default)]
pub(super) struct Writes {
    /// From the first byte to the first one behind and the number; no two ranges overlap.
    ranges: BTreeMap<u64, (u64, u64)>,
}

impl Writes {
    /// The bytes were written by the op `number`.
    pub(super) fn write(&mut self, start: u64, len: u64, number: u64) {
        let end = start.saturating_add(len);
        if start == end {
            return;
        }
        let overlapping: Vec<_> = self.overlapping(start, end).collect();
        for (from, to, before) in overlapping {
            self.ranges.remove(&from);
            if from < start {
                self.ranges.insert(from, (start, before));
            }
            if end < to {
                self.ranges.insert(end, (to, before));
            }
        }
        self.ranges.insert(start, (end, number));
    }

    /// The number of the op that last wrote any of these bytes; `None` if none did.
    pub(super) fn newest(&self, start: u64, len: u64) -> Option<u64> {
        self.overlapping(start, start.saturating_add(len)).map(|(_, _, number)| number).max()
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, u64)> {
        let before_end = self.ranges.range(..end).rev().filter(move |_| start < end);
        let overlapping = before_end.take_while(move |(_, (to, _))| *to > start);
        overlapping.map(|(from, (to, number))| (*from, *to, *number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_write_of_any_byte_counts() {
        let mut writes = Writes::default();
        writes.write(100, 100, 1);
        writes.write(120, 10, 2);
        writes.write(190, 30, 3);
        writes.write(500, 0, 9);
        writes.write(u64::MAX - 4, 100, 4);
        for (start, len, want) in [
            (0, 100, None),
            (99, 2, Some(1)),
            (100, 20, Some(1)),
            (110, 11, Some(2)),
            (130, 60, Some(1)),
            (130, 61, Some(3)),
            (220, 280, None),
            (500, 1, None),
            (u64::MAX - 1, 1, Some(4)),
            (125, 0, None),
        ] {
            assert_eq!(writes.newest(start, len), want, "{len} bytes at {start}");
        }
        assert_eq!(writes.len(), 5, "before, inside, behind, the next, and the last");
    }
}
