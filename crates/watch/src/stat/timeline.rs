//! How many streams work at the same time, over a run of any length.
//!
//! Intervals arrive about in the order of their ends. The recent past is kept as a step function of time;
//! steps that are old are added to sums and dropped. What arrives so late that its time has been dropped
//! already counts only from there on, so the memory is bounded and the sums are exact unless facts are
//! thousands of ops late.

use std::collections::VecDeque;

use crate::fact::Nanos;

/// Steps that are kept; half of them are dropped at once.
const STEPS: usize = 4096;

/// Sums over time of how many intervals overlapped.
#[derive(Default)]
pub(super) struct Timeline {
    /// From each moment on, up to the next, this many intervals overlap. Sorted; most changes are at its end.
    steps: VecDeque<(Nanos, u32)>,
    /// What is before this moment has been added to the sums.
    horizon: Nanos,
    sums: BusyTime,
}

/// How long there was work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusyTime {
    /// Nanoseconds in which at least one stream worked.
    pub any: u64,
    /// Nanoseconds in which at least two streams worked.
    pub several: u64,
}

impl BusyTime {
    fn add(&mut self, depth: u32, length: u64) {
        self.any += if depth >= 1 { length } else { 0 };
        self.several += if depth >= 2 { length } else { 0 };
    }
}

impl Timeline {
    /// One interval more.
    pub(super) fn add(&mut self, begin: Nanos, end: Nanos) {
        let begin = begin.max(self.horizon);
        if end <= begin {
            return;
        }
        let first = self.split(begin);
        let behind = self.split(end);
        self.steps.range_mut(first..behind).for_each(|(_, depth)| *depth += 1);
        if self.steps.len() > STEPS {
            self.drop_oldest();
        }
    }

    pub(super) fn busy(&self) -> BusyTime {
        let mut sums = self.sums;
        let ends = self.steps.iter().skip(1);
        self.steps.iter().zip(ends).for_each(|((begin, depth), (end, _))| sums.add(*depth, end - begin));
        sums
    }

    /// Makes a step at `time`; the answer is its index.
    fn split(&mut self, time: Nanos) -> usize {
        let index = self.steps.partition_point(|(start, _)| *start < time);
        if self.steps.get(index).is_none_or(|(start, _)| *start != time) {
            let depth = index.checked_sub(1).map_or(0, |before| self.steps[before].1);
            self.steps.insert(index, (time, depth));
        }
        index
    }

    fn drop_oldest(&mut self) {
        for _ in 0..STEPS / 2 {
            let (Some((begin, depth)), Some((end, _))) = (self.steps.pop_front(), self.steps.front()) else {
                return;
            };
            self.sums.add(depth, end - begin);
            self.horizon = *end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(intervals: &[(Nanos, Nanos)]) -> (u64, u64) {
        let mut timeline = Timeline::default();
        intervals.iter().for_each(|(begin, end)| timeline.add(*begin, *end));
        (timeline.busy().any, timeline.busy().several)
    }

    #[test]
    fn overlaps_are_counted_once() {
        for (intervals, want) in [
            (&[][..], (0, 0)),
            (&[(10, 20)], (10, 0)),
            (&[(10, 20), (20, 30)], (20, 0)),
            (&[(10, 20), (15, 30)], (20, 5)),
            (&[(10, 20), (0, 30)], (30, 10)),
            (&[(0, 10), (20, 30), (5, 25), (5, 6)], (30, 10)),
            (&[(10, 10), (20, 10)], (0, 0)),
        ] {
            assert_eq!(busy(intervals), want, "{intervals:?}");
        }
    }

    #[test]
    fn a_long_run_needs_little_memory_and_stays_exact() {
        let mut timeline = Timeline::default();
        for round in 0..100_000u64 {
            timeline.add(round * 10, round * 10 + 4);
            timeline.add(round * 10 + 2, round * 10 + 5);
            assert!(timeline.steps.len() <= STEPS);
        }
        assert_eq!((timeline.busy().any, timeline.busy().several), (500_000, 200_000));
        // What comes too late counts from the horizon on: there the gaps fill up, and nothing twice.
        let (horizon, end) = (timeline.horizon, 999_995);
        timeline.add(0, end);
        let gaps = (end - horizon) - (end - horizon) / 2;
        assert!(timeline.busy().any.abs_diff(500_000 + gaps) <= 10, "{:?}", timeline.busy());
    }
}
