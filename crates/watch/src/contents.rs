//! The hash of the bytes that an op reads or writes: what [`Fact::Contents`](crate::Fact::Contents) carries.
//!
//! It is a part of the format of recordings and must not change between versions of it. It tells contents
//! apart that differ by accident; it is no defence against somebody who looks for a collision.

/// Bytes that are mixed in at once, one word for each lane.
const STRIPE: usize = 8 * LANES;
/// Independent chains of multiplications, so that a processor works on several at a time.
const LANES: usize = 4;
/// An odd number without structure: the golden ratio in 64 bits.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a string of bytes that arrives in parts; how it is cut makes no difference.
///
/// ```
/// use ferry_watch::ContentHasher;
///
/// let mut parts = ContentHasher::default();
/// parts.add(b"there and ");
/// parts.add(b"back");
/// assert_eq!(parts.finish(), ContentHasher::hash(b"there and back"));
/// ```
#[derive(Clone, Default)]
pub struct ContentHasher {
    lanes: [u64; LANES],
    /// The first bytes of a stripe that is not complete.
    rest: [u8; STRIPE],
    /// All bytes so far.
    len: u64,
}

impl ContentHasher {
    /// The hash of bytes that are there in one piece.
    pub fn hash(bytes: &[u8]) -> u64 {
        let mut hasher = ContentHasher::default();
        hasher.add(bytes);
        hasher.finish()
    }

    /// More bytes.
    pub fn add(&mut self, mut bytes: &[u8]) {
        let waiting = (self.len % STRIPE as u64) as usize;
        self.len += bytes.len() as u64;
        if waiting > 0 {
            let taken = bytes.len().min(STRIPE - waiting);
            self.rest[waiting..waiting + taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if waiting + taken < STRIPE {
                return;
            }
            let stripe = self.rest;
            self.mix(&stripe);
        }
        let (stripes, rest) = bytes.as_chunks::<STRIPE>();
        stripes.iter().for_each(|stripe| self.mix(stripe));
        self.rest[..rest.len()].copy_from_slice(rest);
    }

    #[inline]
    fn mix(&mut self, stripe: &[u8; STRIPE]) {
        let (words, _) = stripe.as_chunks::<8>();
        for (lane, word) in self.lanes.iter_mut().zip(words) {
            let mixed = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(FACTOR);
            *lane = mixed ^ mixed >> 32;
        }
    }

    /// The hash of all bytes so far.
    pub fn finish(&self) -> u64 {
        let mut last = self.clone();
        let waiting = (self.len % STRIPE as u64) as usize;
        if waiting > 0 {
            last.rest[waiting..].fill(0);
            last.mix(&last.rest.clone());
        }
        last.lanes.iter().fold(self.len ^ FACTOR, |sum, lane| {
            let mixed = (sum ^ lane).wrapping_mul(FACTOR);
            mixed ^ mixed >> 29
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_matter_and_bytes_do() {
        let bytes: Vec<u8> = (0..300_u32).map(|n| (n * 7 % 251) as u8).collect();
        for len in [0, 1, 7, 8, 31, 32, 33, 64, 95, 300] {
            let whole = ContentHasher::hash(&bytes[..len]);
            for cut in 0..=len {
                let mut parts = ContentHasher::default();
                parts.add(&bytes[..cut]);
                parts.add(&bytes[cut..len]);
                assert_eq!(parts.finish(), whole, "{len} bytes cut at {cut}");
            }
            for at in 0..len {
                let mut bent = bytes[..len].to_vec();
                bent[at] ^= 0x80;
                assert_ne!(ContentHasher::hash(&bent), whole, "byte {at} of {len} changed");
            }
        }
    }

    #[test]
    fn a_zero_more_is_another_content() {
        let zeros = [0; 100];
        let hashes: std::collections::HashSet<u64> =
            (0..=zeros.len()).map(|len| ContentHasher::hash(&zeros[..len])).collect();
        assert_eq!(hashes.len(), zeros.len() + 1);
    }
}
