//! Contents: strings of bytes without end, most of them made by rule.

use std::sync::Arc;

/// A string of bytes that values are parts of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Bytes without structure, which the number decides: a recorded hash, or a number of our own.
    Pattern(u64),
    /// Four bytes again and again.
    Repeat([u8; 4]),
    /// These bytes, then zeros.
    Bytes(Arc<Vec<u8>>),
}

impl Content {
    /// Writes the bytes from `at` on.
    pub fn write(&self, at: u64, out: &mut [u8]) {
        match self {
            Content::Pattern(number) => write_pattern(*number, at, out),
            Content::Repeat(bytes) => {
                let mut bytes = *bytes;
                bytes.rotate_left((at % 4) as usize);
                out.chunks_mut(4).for_each(|chunk| chunk.copy_from_slice(&bytes[..chunk.len()]));
            }
            Content::Bytes(bytes) => {
                let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
                let taken = out.len().min(bytes.len() - from);
                out[..taken].copy_from_slice(&bytes[from..from + taken]);
                out[taken..].fill(0);
            }
        }
    }
}

/// Words of a pattern are hashes of their index.
fn pattern_word(number: u64, index: u64) -> [u8; 8] {
    let mixed = (number ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).to_le_bytes()
}

fn write_pattern(number: u64, at: u64, out: &mut [u8]) {
    let skipped = (at % 8) as usize;
    let (head, body) = out.split_at_mut(out.len().min((8 - skipped) % 8));
    if !head.is_empty() {
        let word = pattern_word(number, at / 8);
        head.copy_from_slice(&word[skipped..skipped + head.len()]);
    }
    let first = at.div_ceil(8);
    for (index, chunk) in body.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&pattern_word(number, first.wrapping_add(index as u64))[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_what_the_whole_has_there() {
        let contents =
            [Content::Pattern(5), Content::Repeat([1, 2, 3, 4]), Content::Bytes(Arc::new((0..40).collect()))];
        for content in contents {
            let mut whole = [0; 64];
            content.write(0, &mut whole);
            for from in 0..64 {
                for to in from..64 {
                    let mut part = vec![0xee; to - from];
                    content.write(from as u64, &mut part);
                    assert_eq!(part, whole[from..to], "{content:?} from {from} to {to}");
                }
            }
        }
    }

    #[test]
    fn patterns_differ() {
        let of = |number| {
            let mut bytes = [0; 16];
            Content::Pattern(number).write(0, &mut bytes);
            bytes
        };
        let all: std::collections::HashSet<_> = (0..1000).map(of).collect();
        assert_eq!(all.len(), 1000);
    }
}
