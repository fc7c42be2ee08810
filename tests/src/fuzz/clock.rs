//! Vector clocks: how much of each stream's work something comes after.

/// How many ops of each stream, by its slot, are done before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock(Vec<u64>);

impl Clock {
    pub(super) fn of(&self, stream: usize) -> u64 {
        self.0.get(stream).copied().unwrap_or(0)
    }

    pub(super) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, its)| *mine = (*mine).max(*its));
    }

    /// One op more of this stream; its number.
    pub(super) fn tick(&mut self, stream: usize) -> u64 {
        if self.0.len() <= stream {
            self.0.resize(stream + 1, 0);
        }
        self.0[stream] += 1;
        self.0[stream]
    }

    /// Whether everything that `other` comes after is done before this, too.
    pub(super) fn covers(&self, other: &Clock) -> bool {
        other.0.iter().enumerate().all(|(stream, n)| *n <= self.of(stream))
    }
}
