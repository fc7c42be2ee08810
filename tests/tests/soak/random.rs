//! Random choices that a seed repeats.

use std::ops::Range;

/// A splitmix64 generator: small, and good enough to choose acts.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn within(&mut self, range: Range<usize>) -> usize {
        range.start + (self.next() % range.len() as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.within(0..n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.within(0..from.len())]
    }
}
