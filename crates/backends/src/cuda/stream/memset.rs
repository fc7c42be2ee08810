//! How a fill is cut into what the driver's memset functions know.

use ferry_core::Fill;

/// A part of a fill that the driver can do in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memset {
    /// One byte, again and again.
    Bytes { dst: usize, byte: u8, count: usize },
    /// One word, again and again, at an address that is a multiple of four.
    Words { dst: usize, word: u32, count: usize },
}

/// Cuts a fill: one piece if its four bytes are equal, else whole words with single bytes before and after
/// them.
pub fn pieces(fill: Fill) -> impl Iterator<Item = Memset> {
    let Fill { dst, len, pattern, .. } = fill;
    let even = pattern == [pattern[0]; 4];
    let head = if even { 0 } else { (dst.next_multiple_of(4) - dst).min(len) };
    let words = if even { 0 } else { (len - head) / 4 };
    let mut turned = pattern;
    turned.rotate_left(head % 4);
    let byte = move |at: usize| Memset::Bytes { dst: dst + at, byte: pattern[at % 4], count: 1 };
    let whole = Memset::Bytes { dst, byte: pattern[0], count: len };
    let middle = Memset::Words { dst: dst + head, word: u32::from_ne_bytes(turned), count: words };
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
    fn a_fill_takes_few_pieces() {
        let fill =
            |dst, len, pattern| pieces(Fill { dst, len, pattern, device: Some(0) }).collect::<Vec<_>>();
        assert_eq!(fill(0x1001, 1 << 20, [7; 4]), [Memset::Bytes { dst: 0x1001, byte: 7, count: 1 << 20 }]);
        assert_eq!(fill(0x1003, 6, [1, 2, 3, 4]).len(), 3);
        assert_eq!(fill(0x1000, 4096, [1, 2, 3, 4]).len(), 1);
        assert_eq!(fill(0x1000, 0, [1; 4]), []);
    }
}
