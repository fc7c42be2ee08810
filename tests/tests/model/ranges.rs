//! Sets of byte offsets: sorted, disjoint ranges that never touch each other.

use std::ops::Range;

/// A set of byte offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(Vec<Range<usize>>);

impl Ranges {
    pub fn of(range: Range<usize>) -> Ranges {
        let mut set = Ranges::default();
        set.add(range);
        set
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, offset: usize) -> bool {
        self.within(offset..offset + 1).next().is_some()
    }

    /// How many bytes are in the set.
    pub fn count(&self) -> usize {
        self.0.iter().map(Range::len).sum()
    }

    pub fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.0.iter().cloned()
    }

    pub fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end < range.start);
        let to = self.0.partition_point(|r| r.start <= range.end);
        let start = self.0.get(from).map_or(range.start, |r| r.start.min(range.start));
        let end = if to > from { self.0[to - 1].end.max(range.end) } else { range.end };
        self.0.splice(from..to, std::iter::once(start..end));
    }

    pub fn remove(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|r| r.end <= range.start);
        let to = self.0.partition_point(|r| r.start < range.end);
        let hit = &self.0[from..to];
        let Some((first, last)) = hit.first().zip(hit.last()) else { return };
        let rest = [first.start..range.start, range.end..last.end];
        self.0.splice(from..to, rest.into_iter().filter(|r| !r.is_empty()));
    }

    pub fn add_all(&mut self, other: &Ranges) {
        other.iter().for_each(|r| self.add(r));
    }

    pub fn remove_all(&mut self, other: &Ranges) {
        other.iter().for_each(|r| self.remove(r));
    }

    /// The part of the set inside `range`.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + '_ {
        let from = self.0.partition_point(|r| r.end <= range.start);
        let to = self.0.partition_point(|r| r.start < range.end).max(from);
        self.0[from..to].iter().map(move |r| r.start.max(range.start)..r.end.min(range.end))
    }

    pub fn overlap(&self, other: &Ranges) -> Ranges {
        let mut both = Ranges::default();
        for range in other.iter() {
            self.within(range).for_each(|r| both.add(r));
        }
        both
    }
}

impl FromIterator<Range<usize>> for Ranges {
    fn from_iter<I: IntoIterator<Item = Range<usize>>>(ranges: I) -> Ranges {
        let mut set = Ranges::default();
        ranges.into_iter().for_each(|r| set.add(r));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every operation agrees with a plain set of offsets, over all pairs of short ranges.
    #[test]
    fn ranges_behave_like_a_set_of_offsets() {
        let short = || (0..9usize).flat_map(|a| (a..9).map(move |b| a..b));
        for (a, b, c) in short()
            .flat_map(|a| short().map(move |b| (a.clone(), b)).collect::<Vec<_>>())
            .flat_map(|(a, b)| [0..2, 3..6, 2..3, 5..8].map(|c| (a.clone(), b.clone(), c)))
        {
            let set: Ranges = [a.clone(), b.clone()].into_iter().collect();
            let has = |o: usize| a.contains(&o) || b.contains(&o);
            let mut less = set.clone();
            less.remove(c.clone());
            let both = set.overlap(&Ranges::of(c.clone()));
            for o in 0..9 {
                let got = [&set, &less, &both].map(|s| s.iter().any(|r| r.contains(&o)));
                assert_eq!(
                    got,
                    [has(o), has(o) && !c.contains(&o), has(o) && c.contains(&o)],
                    "{a:?} {b:?} {c:?} {o}"
                );
            }
            for s in [set, less, both] {
                assert!(
                    s.0.iter().all(|r| !r.is_empty()) && s.0.windows(2).all(|w| w[0].end < w[1].start),
                    "{s:?}"
                );
                assert_eq!(s.count(), (0..9).filter(|o| s.iter().any(|r| r.contains(o))).count());
            }
        }
    }
}
