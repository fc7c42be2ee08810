//! What the CPU does itself, between host addresses, and how a fill is cut into pieces that the driver knows.

use crate::host::copy::{self, Cursor};
use ferry_core::{Fill, Plan, Result};

/// Moves the plan's rows.
///
/// # Safety
/// Every row is valid host memory, or nobody's: then it is the failure.
pub unsafe fn copy(plan: &Plan) -> Result<()> {
    // SAFETY: the caller's promise.
    let done = unsafe { copy::advance(plan.pieces(), &mut Cursor::default(), usize::MAX) };
    done.map(drop).map_err(|fault| fault.of_copy(plan.pieces()))
}

/// Writes the fill.
///
/// # Safety
/// As for [`copy`].
pub unsafe fn fill(fill: Fill) -> Result<()> {
    // SAFETY: the caller's promise.
    let done = unsafe { copy::fill(&fill, &mut Cursor::default(), usize::MAX & !3) };
    done.map(drop).map_err(|fault| fault.of_fill(&fill))
}

/// A part of a fill that the driver can do in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// One byte, again and again.
    Bytes { dst: usize, byte: u8, count: usize },
    /// One word, again and again, at an address that is a multiple of four.
    Words { dst: usize, word: u32, count: usize },
}

/// Cuts a fill: one piece if its four bytes are equal, else whole words with single bytes before and after them.
pub fn pieces(fill: Fill) -> impl Iterator<Item = Piece> {
    let Fill { dst, len, pattern, .. } = fill;
    let even = pattern == [pattern[0]; 4];
    let head = if even { 0 } else { (dst.next_multiple_of(4) - dst).min(len) };
    let words = if even { 0 } else { (len - head) / 4 };
    let mut turned = pattern;
    turned.rotate_left(head % 4);
    let byte = move |at: usize| Piece::Bytes { dst: dst + at, byte: pattern[at % 4], count: 1 };
    let whole = Piece::Bytes { dst, byte: pattern[0], count: len };
    let middle = Piece::Words { dst: dst + head, word: u32::from_ne_bytes(turned), count: words };
    let tail = if even { len } else { head + 4 * words };
    (even && len > 0)
        .then_some(whole)
        .into_iter()
        .chain((0..head).map(byte))
        .chain((words > 0).then_some(middle))
        .chain((tail..len).map(byte))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn fills_repeat_their_pattern_from_their_first_byte() {
        for pattern in [[9; 4], [1, 2, 3, 4]] {
            for (offset, len) in (0..8).flat_map(|offset| (0..14).map(move |len| (offset, len))) {
                let mut words = [0_u64; 4];
                let base = words.as_mut_ptr().cast::<u8>();
                // SAFETY: at most 7 + 13 bytes into 32.
                let done =
                    unsafe { super::fill(Fill { dst: base as usize + offset, len, pattern, device: None }) };
                assert_eq!(done, Ok(()));
                let got: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let mut want = vec![0; 32];
                (0..len).for_each(|at| want[offset + at] = pattern[at % 4]);
                assert_eq!(got, want, "{pattern:?} at {offset}, {len} bytes");
            }
        }
    }

    #[test]
    fn a_fill_takes_few_pieces() {
        let fill =
            |dst, len, pattern| pieces(Fill { dst, len, pattern, device: Some(0) }).collect::<Vec<_>>();
        assert_eq!(fill(0x1001, 1 << 20, [7; 4]), [Piece::Bytes { dst: 0x1001, byte: 7, count: 1 << 20 }]);
        assert_eq!(fill(0x1003, 6, [1, 2, 3, 4]).len(), 3);
        assert_eq!(fill(0x1000, 4096, [1, 2, 3, 4]).len(), 1);
        assert_eq!(fill(0x1000, 0, [1; 4]), []);
    }
}
