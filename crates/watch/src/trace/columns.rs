//! Columns of numbers as short text, for the data of the page.
//!
//! Each number is the difference to the one before it, in the zigzag form (0, -1, 1, -2, ...), as a varint:
//! seven bits a byte, the lowest first, the highest bit set in all bytes but the last. Where it is shorter,
//! every difference is followed by how many times it stands in a row. The bytes are written in base64 behind
//! a letter that says which: `p` for plain, `r` for runs. `page/decode.js` reads this; its numbers are exact
//! below 2^53 only, and larger ones, which no address of a program is, are cut to that.

/// The largest number that is exact in the page.
const LARGEST: i64 = (1 << 53) - 1;

/// The text of a column. Negative numbers are given in two's complement.
pub fn column(values: impl Iterator<Item = u64>) -> String {
    let mut before = 0;
    let differences: Vec<u64> = values
        .map(|value| {
            let value = (value as i64).clamp(-LARGEST, LARGEST);
            let difference = value - before;
            before = value;
            ((difference << 1) ^ (difference >> 63)) as u64
        })
        .collect();
    let mut plain = Vec::with_capacity(differences.len());
    differences.iter().for_each(|&difference| varint(&mut plain, difference));
    let mut runs = Vec::new();
    for run in differences.chunk_by(|one, next| one == next) {
        varint(&mut runs, run[0]);
        varint(&mut runs, run.len() as u64);
    }
    if runs.len() < plain.len() { base64('r', &runs) } else { base64('p', &plain) }
}

/// A value that may be absent as one number: 0 is none, and others are one more.
pub fn optional(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base64 without padding, behind one letter.
fn base64(lead: char, bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + 5);
    text.push(lead);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        let letter = |shift: u32| char::from(LETTERS[(bits >> shift) as usize & 63]);
        text.extend([18, 12, 6, 0].into_iter().take(group.len() + 1).map(letter));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_the_documented_bytes() {
        // 1, then a difference of 299 (zigzag 598), then one of -300 (zigzag 599): 02, d6 04, d7 04.
        assert_eq!(column([1, 300, 0].into_iter()), "pAtYE1wQ");
        // Five equal numbers: one difference and four times none.
        assert_eq!(column([7; 5].into_iter()), "rDgEABA");
        assert_eq!(column([].into_iter()), "p");
    }

    #[test]
    fn what_is_absent_is_no_number() {
        assert_eq!([None, Some(0), Some(u64::MAX)].map(optional), [0, 1, u64::MAX]);
    }
}
