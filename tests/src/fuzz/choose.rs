//! Where a run's choices come from: numbers of a generator, or a byte string that somebody else makes.

/// A source of choices.
#[derive(Clone, Debug)]
pub(super) enum Choose {
    /// A generator's state; never zero.
    Random(u64),
    /// What is left of a byte string. When it is used up every choice is the first.
    Bytes(std::vec::IntoIter<u8>),
}

impl Choose {
    pub(super) fn seeded(seed: u64) -> Choose {
        // The finalizer of SplitMix64: seeds that differ in one bit share nothing.
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Choose::Random((state ^ state >> 31) | 1)
    }

    pub(super) fn is_used_up(&self) -> bool {
        matches!(self, Choose::Bytes(rest) if rest.len() == 0)
    }

    pub(super) fn word(&mut self) -> u64 {
        match self {
            Choose::Random(state) => {
                // xorshift64*
                *state ^= *state >> 12;
                *state ^= *state << 25;
                *state ^= *state >> 27;
                state.wrapping_mul(0x2545_f491_4f6c_dd1d)
            }
            Choose::Bytes(_) => self.bytes(8),
        }
    }

    fn bytes(&mut self, most: usize) -> u64 {
        let Choose::Bytes(rest) = self else { return 0 };
        rest.take(most).fold(0, |sum, byte| sum << 8 | u64::from(byte))
    }

    /// A number less than `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let word = match (&self, end) {
            (Choose::Random(_), _) => self.word() >> 16,
            (_, ..=0x100) => self.bytes(1),
            (_, ..=0x1_0000) => self.bytes(2),
            _ => self.bytes(6),
        };
        (word % end as u64) as usize
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        // The last of the choices, so that a byte string that has ended chooses what is usual.
        self.below(n) == n - 1
    }

    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    /// A length from 1 to `most`: small ones are as likely as large ones.
    pub(super) fn len(&mut self, most: usize) -> usize {
        let bits = usize::BITS - most.leading_zeros();
        let end = 1 << (1 + self.below(bits as usize));
        1 + self.below(most.min(end))
    }
}
