//! Sorted lists of ranges that do not meet.

use std::ops::Range;

/// Ranges of bytes in order, with a gap between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spans(Vec<Range<usize>>);

impl Spans {
    /// All of these bytes.
    pub(super) fn of(mut all: Vec<Range<usize>>) -> Spans {
        all.retain(|range| !range.is_empty());
        all.sort_unstable_by_key(|range| range.start);
        all.dedup_by(|next, kept| {
            let is_one = next.start <= kept.end;
            if is_one {
                kept.end = kept.end.max(next.end);
            }
            is_one
        });
        Spans(all)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Range<usize>> {
        self.0.iter()
    }

    /// The bytes that are in both.
    pub(super) fn and(&self, other: &Spans) -> Spans {
        let (mut both, mut others) = (Vec::new(), other.0.as_slice());
        for span in &self.0 {
            let gone = others.partition_point(|other| other.end <= span.start);
            others = &others[gone..];
            let met = others.iter().take_while(|other| other.start < span.end);
            both.extend(met.map(|other| span.start.max(other.start)..span.end.min(other.end)));
        }
        Spans(both)
    }

    /// Takes bytes away.
    pub(super) fn remove(&mut self, other: &Spans) {
        let met = self.and(other);
        if met.is_empty() {
            return;
        }
        let (mut left, mut gone) = (Vec::new(), met.0.iter().peekable());
        for span in &self.0 {
            let mut start = span.start;
            while let Some(hole) = gone.next_if(|hole| hole.start < span.end) {
                left.push(start..hole.start);
                start = hole.end;
            }
            left.push(start..span.end);
        }
        left.retain(|range| !range.is_empty());
        self.0 = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(all: &[(usize, usize)]) -> Spans {
        Spans::of(all.iter().map(|(start, end)| *start..*end).collect())
    }

    #[test]
    fn ranges_that_meet_are_one_and_what_is_in_both_or_left_is_told() {
        let all = spans(&[(20, 30), (0, 5), (5, 10), (25, 40), (7, 7)]);
        assert_eq!(all, spans(&[(0, 10), (20, 40)]));
        for (other, both, left) in [
            (vec![(10, 20)], vec![], vec![(0, 10), (20, 40)]),
            (vec![(0, 100)], vec![(0, 10), (20, 40)], vec![]),
            (
                vec![(3, 4), (9, 21), (30, 31)],
                vec![(3, 4), (9, 10), (20, 21), (30, 31)],
                vec![(0, 3), (4, 9), (21, 30), (31, 40)],
            ),
        ] {
            let other = spans(&other);
            assert_eq!(all.and(&other), spans(&both));
            let mut rest = all.clone();
            rest.remove(&other);
            assert_eq!(rest, spans(&left));
        }
    }
}
