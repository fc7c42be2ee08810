//! Moving bytes: plans and fills, in slices, so that whoever runs them can look up now and then.

use ferry_core::{Fill, Rows};
use std::ptr;

/// How far a plan or a fill has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    piece: usize,
    row: usize,
    col: usize,
}

impl Cursor {
    /// In the first row, `bytes` of it done.
    pub fn after(bytes: usize) -> Self {
        Cursor { piece: 0, row: 0, col: bytes }
    }

    /// Before the piece of this index.
    pub fn at(piece: usize) -> Self {
        Cursor { piece, row: 0, col: 0 }
    }

    /// Bytes done of the row it is in.
    pub fn bytes(&self) -> usize {
        self.col
    }
}

/// What a row counts for at least, however short.
pub const ROW_COST: usize = 64;

/// Moves about `most` bytes of the plan from `cursor` on. Returns whether the plan is done. A row whose two ends overlap is moved
/// from the side that memmove would begin with.
///
/// # Safety
/// Every row of every piece is valid at the engine's addresses.
pub unsafe fn advance(pieces: &[Rows], cursor: &mut Cursor, most: usize) -> bool {
    let mut left = most;
    while let Some(rows) = pieces.get(cursor.piece) {
        while cursor.row < rows.height {
            if left == 0 {
                return false;
            }
            let dst = rows.dst + cursor.row * rows.dst_pitch;
            let src = rows.src + cursor.row * rows.src_pitch;
            let len = (rows.width - cursor.col).min(left);
            let apart = dst.abs_diff(src) >= rows.width;
            let offset = if apart || dst < src { cursor.col } else { rows.width - cursor.col - len };
            // SAFETY: part of a row of the plan; the two ranges are apart in the first case and may overlap in the second,
            // where what is still to be read lies on the side that has not been written.
            unsafe {
                let (dst, src) = ((dst + offset) as *mut u8, (src + offset) as *const u8);
                if apart {
                    ptr::copy_nonoverlapping(src, dst, len);
                } else {
                    ptr::copy(src, dst, len);
                }
            }
            left = left.saturating_sub(len.max(ROW_COST));
            cursor.col += len;
            if cursor.col == rows.width {
                (cursor.row, cursor.col) = (cursor.row + 1, 0);
            }
        }
        *cursor = Cursor { piece: cursor.piece + 1, row: 0, col: 0 };
    }
    true
}

/// Writes about `most` bytes of the fill from `cursor` on. Returns whether the fill is done.
///
/// # Safety
/// The range of the fill is valid at the engine's addresses.
pub unsafe fn fill(fill: &Fill, cursor: &mut Cursor, most: usize) -> bool {
    let len = (fill.len - cursor.col).min(most.next_multiple_of(4));
    let start = (fill.dst + cursor.col) as *mut u8;
    if fill.pattern == [fill.pattern[0]; 4] {
        // SAFETY: part of the range of the fill.
        unsafe { ptr::write_bytes(start, fill.pattern[0], len) };
    } else {
        for word in 0..len / 4 {
            // SAFETY: four bytes of the range of the fill, at any alignment.
            unsafe { ptr::write_unaligned(start.add(4 * word).cast(), fill.pattern) };
        }
        for byte in len / 4 * 4..len {
            // SAFETY: a byte of the range of the fill.
            unsafe { ptr::write(start.add(byte), fill.pattern[byte % 4]) };
        }
    }
    cursor.col += len;
    cursor.col == fill.len
}

/// Reads 64 bits of device memory, at any alignment.
///
/// # Safety
/// Eight bytes at `addr` are valid engine memory.
pub unsafe fn word(addr: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { ptr::read_unaligned(addr as *const u64) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Runs a plan in slices of `most` bytes over one buffer and compares with the plain loop.
    fn agrees(buffer_len: usize, rows: Rows, most: usize) {
        let start: Vec<u8> = (0..buffer_len).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut want = start.clone();
        for row in 0..rows.height {
            let (src, dst) = (rows.src + row * rows.src_pitch, rows.dst + row * rows.dst_pitch);
            want.copy_within(src..src + rows.width, dst);
        }
        let mut got = start;
        let base = got.as_mut_ptr() as usize;
        let placed = Rows { dst: rows.dst + base, src: rows.src + base, ..rows };
        let mut cursor = Cursor::default();
        // SAFETY: the rows lie inside the buffer.
        while !unsafe { advance(&[placed], &mut cursor, most) } {}
        assert!(got == want, "{rows:?} in slices of {most}");
    }

    #[test]
    fn slices_add_up_to_the_plain_loop() {
        for most in [1, 3, 64, 1000, 1 << 20] {
            agrees(4096, Rows::linear(2048, 0, 1000), most);
            agrees(4096, Rows::linear(100, 0, 1000), most);
            agrees(4096, Rows::linear(0, 100, 1000), most);
            let rows = Rows { dst: 2000, dst_pitch: 40, src: 1, src_pitch: 17, width: 13, height: 50 };
            agrees(4096, rows, most);
        }
    }

    #[test]
    fn fills_repeat_their_pattern_from_the_start() {
        for (pattern, len) in [([9; 4], 10), ([1, 2, 3, 4], 10), ([1, 2, 3, 4], 4096), ([5, 6, 7, 8], 3)] {
            for most in [1, 5, 64, 1 << 20] {
                let mut got = vec![0_u8; len + 2];
                let what = Fill { dst: got.as_mut_ptr() as usize + 1, len, pattern, device: None };
                let mut cursor = Cursor::default();
                // SAFETY: the range lies inside the buffer.
                while !unsafe { fill(&what, &mut cursor, most) } {}
                let want: Vec<u8> = (0..len).map(|i| pattern[i % 4]).collect();
                assert_eq!((got[0], &got[1..=len], got[len + 1]), (0, &want[..], 0), "{what:?} by {most}");
            }
        }
    }
}
