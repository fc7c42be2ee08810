//! Tables of lines of Python's code objects, each form as the interpreter of that version reads it.
//!
//! A place in the code is a distance in bytes from its first instruction.

/// The forms of the tables.
#[derive(Clone, Copy, Debug)]
pub(super) enum TableForm {
    /// Python 3.9: pairs of how far the code goes on and how many lines, before the code they are about.
    Increments,
    /// Python 3.10: pairs of how long a piece of code is and how many lines on it is.
    Pieces,
    /// Python 3.11 and later: entries of several lengths, which have columns too.
    Entries,
}

impl TableForm {
    /// The line of a place; none if that code is from no line. A frame that has not begun is before its code,
    /// and at the first line.
    pub(super) fn line_at(self, table: &[u8], first_line: i64, place: i64) -> Option<i64> {
        match self {
            _ if place < 0 => Some(first_line),
            TableForm::Increments => Some(in_increments(table, first_line, place)),
            TableForm::Pieces => in_pieces(table, first_line, place),
            TableForm::Entries => in_entries(table, first_line, place / 2),
        }
    }
}

/// The two bytes of a pair: bytes of code, and lines with a sign.
fn pairs(table: &[u8]) -> impl Iterator<Item = (i64, i64)> {
    table.chunks_exact(2).map(|pair| (i64::from(pair[0]), i64::from(pair[1].cast_signed())))
}

/// More than 255 bytes or 127 lines take several pairs.
fn in_increments(table: &[u8], first_line: i64, place: i64) -> i64 {
    let reached = pairs(table).scan(0, |begin, (bytes, lines)| {
        *begin += bytes;
        (*begin <= place).then_some(lines)
    });
    first_line + reached.sum::<i64>()
}

/// Pieces without bytes only count lines.
fn in_pieces(table: &[u8], first_line: i64, place: i64) -> Option<i64> {
    /// In place of a number of lines.
    const NO_LINE: i64 = -128;
    let (mut line, mut end) = (first_line, 0);
    for (bytes, lines) in pairs(table) {
        let has_line = lines != NO_LINE;
        line += if has_line { lines } else { 0 };
        end += bytes;
        if place < end {
            return has_line.then_some(line);
        }
    }
    None
}

/// An entry begins with the only byte of it that has the highest bit: its form in bits 3 to 6, and for how
/// many instructions of two bytes it is, less one, below.
fn in_entries(table: &[u8], first_line: i64, instruction: i64) -> Option<i64> {
    let (mut line, mut begin, mut at) = (first_line, 0, 0);
    while let Some(head) = table.get(at) {
        let (form, count) = (head >> 3 & 15, i64::from(head & 7) + 1);
        let rest = &table[at + 1..];
        let len = rest.iter().take_while(|byte| **byte & 0x80 == 0).count();
        line += match form {
            13 | 14 => signed(&rest[..len])?,
            10..=12 => i64::from(form) - 10,
            _ => 0,
        };
        if (begin..begin + count).contains(&instruction) {
            return (form != 15).then_some(line);
        }
        (begin, at) = (begin + count, at + 1 + len);
    }
    None
}

/// The number at the beginning: six bits in a byte, the lowest first, the next bit set if there are more. Its
/// lowest bit is the sign.
fn signed(bytes: &[u8]) -> Option<i64> {
    let last = bytes.iter().take(6).position(|byte| byte & 0x40 == 0)?;
    let value = bytes[..=last].iter().rev().fold(0_u64, |value, byte| value << 6 | u64::from(byte & 0x3f));
    let size = i64::try_from(value >> 1).ok()?;
    Some(if value & 1 == 1 { -size } else { size })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.9 and 3.10 make of a function in line 10: a call in 11, a loop in 212 with a call that
    /// goes from 213 over 354 to 355 and back, and `try` and `finally` with calls in 357 and 359.
    const OF_3_9: [u8; 26] =
        [0, 1, 8, 127, 0, 74, 8, 1, 2, 127, 0, 14, 2, 1, 2, 128, 0, 242, 6, 127, 0, 16, 2, 1, 10, 2];
    const OF_3_10: [u8; 26] =
        [8, 1, 0, 127, 8, 74, 2, 1, 0, 127, 2, 14, 2, 1, 0, 129, 6, 241, 0, 127, 2, 16, 10, 1, 22, 2];
    /// Where those lines begin, as `dis.findlinestarts` and `co_lines` of the two say.
    const STARTS: [(i64, i64); 9] =
        [(0, 11), (8, 212), (16, 213), (18, 354), (20, 355), (22, 213), (28, 356), (30, 357), (40, 359)];

    #[test]
    fn pairs_say_the_line_of_each_instruction() {
        let line_in = |place| STARTS.iter().rfind(|(begin, _)| *begin <= place).map(|(_, line)| *line);
        for (form, table) in [(TableForm::Increments, OF_3_9), (TableForm::Pieces, OF_3_10)] {
            for place in (0..62).step_by(2) {
                assert_eq!(form.line_at(&table, 10, place), line_in(place), "{form:?}, byte {place}");
            }
            assert_eq!(form.line_at(&table, 10, -1), Some(10), "{form:?}, a frame that has not begun");
        }
        assert_eq!(TableForm::Pieces.line_at(&OF_3_10, 10, 62), None, "behind the last instruction");
    }

    #[test]
    fn a_piece_may_have_no_line() {
        let table = [4, 1, 2, 128, 6, 1];
        let lines: Vec<_> =
            (0..12).step_by(2).map(|place| TableForm::Pieces.line_at(&table, 10, place)).collect();
        assert_eq!(lines, [Some(11), Some(11), None, Some(12), Some(12), Some(12)]);
    }

    #[test]
    fn entries_say_the_line_of_each_instruction() {
        // What Python 3.13 makes of `def f():`, in line 10, with `g(1)`, a loop and a line of 100 behind it.
        let table = [
            0x80,
            0, // Instruction 0, short form.
            0xd8 | 1,
            4,
            5, // 1 and 2, the next line.
            0xf0,
            0x42,
            0x02,
            0,
            1,
            1, // 3, long form: 65 lines on.
            0xe8 | 2,
            0x05, // 4 to 6, without columns: two lines back.
            0xf8, // 7 has none.
        ];
        let line_at = |instruction: i64| TableForm::Entries.line_at(&table, 10, 2 * instruction);
        let lines: Vec<_> = (0..9).map(line_at).collect();
        let behind = Some(11 + 65);
        let back = Some(11 + 65 - 2);
        let want = [Some(10), Some(11), Some(11), behind, back, back, back, None, None];
        assert_eq!(lines, want);
    }
}
