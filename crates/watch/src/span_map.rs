//! Values of ranges of bytes: a map whose keys are ranges that do not overlap.

use std::collections::BTreeMap;

/// What can be said of bytes in a row.
pub trait Sliced: Clone {
    /// The same, said of the bytes from `skipped` on.
    fn behind(&self, skipped: u64) -> Self;
}

/// Ranges and their values, by their first byte.
#[derive(Clone, Debug)]
pub struct SpanMap<T> {
    spans: BTreeMap<u64, (u64, T)>,
}

impl<T> Default for SpanMap<T> {
    fn default() -> Self {
        SpanMap { spans: BTreeMap::new() }
    }
}

impl<T: Sliced> SpanMap<T> {
    /// Splits the span that has bytes on both sides of `at`.
    fn cut(&mut self, at: u64) {
        let Some((start, (end, value))) = self.spans.range_mut(..at).next_back() else { return };
        if *end > at {
            let behind = (std::mem::replace(end, at), value.behind(at - start));
            self.spans.insert(at, behind);
        }
    }

    /// Gives a range a value.
    pub fn insert(&mut self, start: u64, end: u64, value: T) {
        if start >= end {
            return;
        }
        self.remove(start, end);
        self.spans.insert(start, (end, value));
    }

    /// Calls `change` with every part of a range; parts without a value get what `missing` makes of their
    /// first byte.
    pub fn update(
        &mut self,
        start: u64,
        end: u64,
        missing: impl Fn(u64) -> T,
        mut change: impl FnMut(u64, u64, &mut T),
    ) {
        if start >= end {
            return;
        }
        self.cut(start);
        self.cut(end);
        let mut gaps = Vec::new();
        let mut reached = start;
        for (at, (to, _)) in self.spans.range(start..end) {
            if reached < *at {
                gaps.push((reached, *at));
            }
            reached = *to;
        }
        if reached < end {
            gaps.push((reached, end));
        }
        for (from, to) in gaps {
            self.spans.insert(from, (to, missing(from)));
        }
        for (at, (to, value)) in self.spans.range_mut(start..end) {
            change(*at, *to, value);
        }
    }

    /// Takes all values of a range away.
    pub fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        self.cut(start);
        self.cut(end);
        let inside: Vec<u64> = self.spans.range(start..end).map(|(at, _)| *at).collect();
        inside.iter().for_each(|at| drop(self.spans.remove(at)));
    }

    /// Keeps the spans whose value `keep` says yes to.
    pub fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        self.spans.retain(|_, (_, value)| keep(value));
    }

    /// How many spans there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Makes one span of a range, all of which has values; `join` adds the value of each part to the first.
    pub fn merge(&mut self, start: u64, end: u64, mut join: impl FnMut(&mut T, T)) {
        self.cut(start);
        self.cut(end);
        let inside: Vec<u64> = self.spans.range(start..end).map(|(at, _)| *at).collect();
        let mut parts = inside.into_iter().filter_map(|at| self.spans.remove(&at)).map(|(_, value)| value);
        let Some(mut first) = parts.next() else { return };
        parts.for_each(|next| join(&mut first, next));
        self.spans.insert(start, (end, first));
    }

    /// The parts of a range that have values, in order: first byte, end, value.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64, T)> {
        let is_reached = |span: &(&u64, &(u64, T))| start < end && span.1.0 > start;
        let first = self.spans.range(..start).next_back().filter(is_reached);
        let others = self.spans.range(start..end.max(start));
        first.into_iter().chain(others).map(move |(at, (to, value))| {
            let from = start.max(*at);
            (from, end.min(*to), value.behind(from - at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A number that counts on with the bytes.
    #[derive(Clone, Debug, PartialEq)]
    struct Count(u64);

    impl Sliced for Count {
        fn behind(&self, skipped: u64) -> Count {
            Count(self.0 + skipped)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

        #[test]
        fn every_byte_has_the_value_given_last(
            writes in proptest::collection::vec((0..50_u64, 0..20_u64, any::<bool>()), 0..30),
            read in (0..60_u64, 0..20_u64),
        ) {
            let (mut map, mut bytes) = (SpanMap::default(), [None; 80]);
            for (number, (start, len, is_update)) in writes.into_iter().enumerate() {
                let base = number as u64 * 1000;
                let range = start as usize..(start + len) as usize;
                if is_update {
                    map.update(start, start + len, |at| Count(base + at), |_, _, value| value.0 += 7);
                    for at in range {
                        bytes[at] = Some(bytes[at].unwrap_or(base + at as u64) + 7);
                    }
                } else {
                    map.insert(start, start + len, Count(base));
                    range.clone().for_each(|at| bytes[at] = Some(base + (at - range.start) as u64));
                }
            }
            let mut seen = [None; 80];
            for (from, to, value) in map.within(read.0, read.0 + read.1) {
                prop_assert!(from >= read.0 && to <= read.0 + read.1 && from < to);
                for at in from..to {
                    prop_assert_eq!(seen[at as usize].replace(value.0 + at - from), None);
                }
            }
            let range = read.0 as usize..(read.0 + read.1) as usize;
            prop_assert_eq!(&seen[range.clone()], &bytes[range]);
        }
    }
}
