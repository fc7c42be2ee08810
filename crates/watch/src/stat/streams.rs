//! The queues of streams: how long, and since when they are busy.
//!
//! Ops of a stream are submitted and pass in one order. So the time that each op was in its queue, and the
//! time that the queue was not empty, add up with no more memory than one moment for each stream.

use crate::fact::Nanos;

use super::generations::FastMap;

/// Streams that are told apart; past this number all are forgotten, and their sums stay.
const STREAMS: usize = 1 << 16;

/// Sums over all queues.
#[derive(Default)]
pub(super) struct Queues {
    latest: FastMap<(u32, u32), QueueEnds>,
    /// Nanoseconds that ops were in their queues, each for itself.
    waited: u64,
    /// Nanoseconds that queues were not empty, each for itself.
    busy: u64,
}

/// Up to when one queue has been counted.
#[derive(Clone, Copy, Default)]
struct QueueEnds {
    /// The end of the last op.
    passed: Nanos,
    /// The end of the last op that moved bytes.
    moved: Nanos,
}

impl Queues {
    /// An op was in a queue from `submitted` to `end`.
    pub(super) fn passed(&mut self, stream: (u32, u32), submitted: Nanos, end: Nanos) {
        self.waited = self.waited.saturating_add(end.saturating_sub(submitted));
        let ends = self.ends(stream);
        let more = end.saturating_sub(submitted.max(ends.passed));
        ends.passed = ends.passed.max(end);
        self.busy = self.busy.saturating_add(more);
    }

    /// Of an op that moved bytes from `begin` on, the moment from which on no earlier op of its stream did.
    pub(super) fn moved(&mut self, stream: (u32, u32), begin: Nanos, end: Nanos) -> Nanos {
        let ends = self.ends(stream);
        let from = begin.max(ends.moved);
        ends.moved = ends.moved.max(end);
        from
    }

    /// How many ops a queue held on average while it was not empty.
    pub(super) fn mean_depth(&self) -> f64 {
        if self.busy == 0 { 0.0 } else { self.waited as f64 / self.busy as f64 }
    }

    fn ends(&mut self, stream: (u32, u32)) -> &mut QueueEnds {
        if self.latest.len() >= STREAMS && !self.latest.contains_key(&stream) {
            self.latest.clear();
        }
        self.latest.entry(stream).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_that_of_the_time_with_work() {
        let mut queues = Queues::default();
        assert_eq!(queues.mean_depth(), 0.0);
        // Two ops of ten, one behind the other, all submitted at 0: two in the queue, then one.
        queues.passed((1, 0), 0, 10);
        queues.passed((1, 0), 0, 20);
        assert_eq!(queues.mean_depth(), 30.0 / 20.0);
        // An idle time, and another stream at the same time with one op: 60 of 50.
        queues.passed((1, 0), 100, 120);
        queues.passed((1, 1), 0, 10);
        assert_eq!(queues.mean_depth(), 60.0 / 50.0);
    }
}
