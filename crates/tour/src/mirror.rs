//! The expected content of memory, computed by plain loops that share nothing with the engine.

use ferry_abi::Result;
use ferry_abi::error::ensure;

/// Pseudo-random bytes, the same for the same seed, so that a byte from the wrong place is noticed.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5851_F42D_4C95_7F2D;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bytes.extend_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Copies `height` rows of `width` bytes, each a pitch after the one before.
pub fn copy_rows(
    dst: &mut [u8],
    dst_pitch: usize,
    src: &[u8],
    src_pitch: usize,
    width: usize,
    height: usize,
) {
    for row in 0..height {
        let (to, from) = (row * dst_pitch, row * src_pitch);
        dst[to..to + width].copy_from_slice(&src[from..from + width]);
    }
}

/// `Ok` if both are the same, else the first byte that differs and how many do.
pub fn compare(what: &str, seen: &[u8], expected: &[u8]) -> Result<()> {
    if seen == expected {
        return Ok(());
    }
    ensure(seen.len() == expected.len(), what, format!("{} bytes", expected.len()), seen.len())?;
    let differing = seen.iter().zip(expected).filter(|(seen, expected)| seen != expected).count();
    let first = seen.iter().zip(expected).position(|(seen, expected)| seen != expected).unwrap_or(0);
    let (want, got) = (expected[first], seen[first]);
    let note = format!("{got:#04x} ({differing} of {} bytes are wrong)", seen.len());
    ensure(false, &format!("byte {first} of {what}"), format!("{want:#04x}"), note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_differ_by_seed_and_hold_any_length() {
        for len in [0, 1, 7, 8, 9, 4096] {
            assert_eq!(pattern(3, len).len(), len);
        }
        assert_eq!(pattern(3, 64), pattern(3, 64));
        assert_ne!(pattern(3, 64), pattern(4, 64));
    }

    #[test]
    fn a_difference_is_named_by_its_first_byte() {
        let error = compare("x", &[1, 2, 9, 9], &[1, 2, 3, 4]).unwrap_err().to_string();
        assert_eq!(error, "byte 2 of x: expected 0x03, saw 0x09 (2 of 4 bytes are wrong)");
    }

    #[test]
    fn rows_leave_the_padding_alone() {
        let mut dst = *b"..........";
        copy_rows(&mut dst, 4, b"abXcdXef", 3, 2, 3);
        assert_eq!(&dst, b"ab..cd..ef");
    }
}
