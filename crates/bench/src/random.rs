//! Random numbers that are the same in every run: where pieces lie, how long they are, what is multiplied.

/// SplitMix64.
pub struct Random(u64);

/// The seed of all that is random, unless the user names another one.
const SEED: u64 = 6;

impl Random {
    /// The same numbers each time.
    pub fn new() -> Random {
        Random(SEED)
    }

    /// The numbers of the seed that `ferry bench --seed` gives, else the usual ones.
    pub fn of_the_user() -> Random {
        let given = std::env::var("FERRY_SEED").ok().and_then(|text| text.parse().ok());
        Random(given.unwrap_or(SEED))
    }

    /// 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// A number from `least` to `most`, neither of them 0; each doubling is as likely as the others.
    pub fn log_uniform(&mut self, least: usize, most: usize) -> usize {
        let part = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let value = least as f64 * (most as f64 / least as f64).powf(part);
        (value as usize).clamp(least, most)
    }

    /// Moves `count` random elements to the front (a partial Fisher-Yates shuffle).
    pub fn draw<T>(&mut self, all: &mut [T], count: usize) {
        for index in 0..count {
            let chosen = index + self.below(all.len() - index);
            all.swap(index, chosen);
        }
    }
}

/// Shuffles, the same in every run.
pub fn shuffle<T>(all: &mut [T]) {
    Random::new().draw(all, all.len());
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn each_doubling_is_as_likely_as_the_others() {
        let mut random = Random::new();
        let drawn: Vec<usize> = (0..4000).map(|_| random.log_uniform(1, 1 << 16)).collect();
        for (least, most) in [(1, 1 << 4), (1 << 4, 1 << 8), (1 << 8, 1 << 12), (1 << 12, 1 << 16)] {
            let count = drawn.iter().filter(|one| (least..most).contains(*one)).count();
            assert!((900..1100).contains(&count), "{count} of 4,000 from {least} to {most}");
        }
        assert!((0..100).all(|_| random.log_uniform(7, 7) == 7));
    }
}
