//! Ranges of addresses that several owners may have in common: a range is known until the last of them is
//! gone.

use std::collections::{BTreeMap, btree_map::Entry};

/// Ranges by their first address. Those that overlap start at the same one.
#[derive(Default)]
pub struct CountedRanges(BTreeMap<usize, Range>);

#[derive(Default)]
struct Range {
    end: usize,
    owners: usize,
}

impl CountedRanges {
    /// One owner more.
    pub fn add(&mut self, start: usize, len: usize) {
        let range = self.0.entry(start).or_default();
        range.end = range.end.max(start + len);
        range.owners += 1;
    }

    /// One owner less.
    pub fn remove(&mut self, start: usize) {
        let Entry::Occupied(mut range) = self.0.entry(start) else { return };
        range.get_mut().owners -= 1;
        if range.get().owners == 0 {
            range.remove();
        }
    }

    /// Whether any of `len` bytes at `addr`, or `addr` itself, lies in one of them.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        let past = addr.saturating_add(len.max(1));
        self.0.range(..past).next_back().is_some_and(|(_, range)| range.end > addr)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_known_until_its_last_owner_is_gone() {
        let mut ranges = CountedRanges::default();
        ranges.add(0x4000, 0x1000);
        ranges.add(0x4000, 0x2000);
        assert!(ranges.meets(0x5fff, 1) && ranges.meets(0, 0x4001) && ranges.meets(0x4000, 0));
        assert!(!ranges.meets(0x6000, 1) && !ranges.meets(0, 0x4000));
        ranges.remove(0x4000);
        assert!(ranges.meets(0x4000, 1), "one is left");
        ranges.remove(0x4000);
        ranges.remove(0x4000);
        assert!(!ranges.meets(0, usize::MAX));
    }
}
