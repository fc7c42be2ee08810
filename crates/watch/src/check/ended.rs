//! Streams that are gone and joined: nothing will be said of them any more.
//!
//! Numbers of streams are given in order and never again, so that those of a long run are a few ranges.

use std::collections::BTreeMap;

/// A set of streams.
#[derive(Debug, Default)]
pub struct EndedStreams {
    /// The last of each range, by its first.
    ranges: BTreeMap<u32, u32>,
}

impl EndedStreams {
    /// Adds a stream.
    pub fn insert(&mut self, stream: u32) {
        if self.contains(stream) {
            return;
        }
        let last = stream.checked_add(1).and_then(|next| self.ranges.remove(&next)).unwrap_or(stream);
        match self.ranges.range_mut(..stream).next_back() {
            Some((_, before)) if *before + 1 == stream => *before = last,
            _ => drop(self.ranges.insert(stream, last)),
        }
    }

    /// Whether the stream is one of them.
    pub fn contains(&self, stream: u32) -> bool {
        self.ranges.range(..=stream).next_back().is_some_and(|(_, last)| stream <= *last)
    }

    /// How many ranges are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.ranges.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_that_follow_each_other_are_one_range() {
        let mut ended = EndedStreams::default();
        for (stream, ranges) in [(5, 1), (7, 2), (6, 1), (4, 1), (4, 1), (0, 2), (u32::MAX, 3)] {
            ended.insert(stream);
            assert_eq!(ended.len(), ranges, "with {stream}");
        }
        let others = [1, 3, 8, u32::MAX - 1].map(|stream| ended.contains(stream));
        assert_eq!(others, [false; 4]);
        assert!([0, 4, 5, 6, 7, u32::MAX].iter().all(|stream| ended.contains(*stream)));
    }
}
