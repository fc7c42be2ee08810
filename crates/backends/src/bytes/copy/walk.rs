//! Iterates over the rows of a plan, slice by slice; how a row is moved is decided by a [`Mover`].

use super::{
    Cursor,
    limits::{Manner, PREFETCH_BYTES},
};
use crate::bytes::overlap::{has_overlapping_row, is_overlapping};
use ferry_core::{Pieces, Rows, Segment};
use std::ptr;

/// How many pieces before its turn the pages of a piece are looked for.
const PREFETCH_DISTANCE: usize = 4;

/// What a row counts for at least, however short.
pub const ROW_COST: usize = 64;

/// Some rows of a rectangle.
#[derive(Clone, Copy)]
pub struct RowSpan {
    /// First byte of the first row's destination.
    pub dst: *mut u8,
    /// From one row's destination to the next.
    pub dst_pitch: usize,
    /// First byte of the first row's source.
    pub src: *const u8,
    /// From one row's source to the next.
    pub src_pitch: usize,
    /// Bytes of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

impl RowSpan {
    /// How many rows before its turn a row of this width is fetched.
    #[inline]
    pub fn lead(width: usize) -> usize {
        (PREFETCH_BYTES / width.max(64)).clamp(1, 8)
    }

    unsafe fn of(rows: &Rows, first: usize, height: usize) -> RowSpan {
        RowSpan {
            dst: (rows.dst + first * rows.dst_pitch) as *mut u8,
            dst_pitch: rows.dst_pitch,
            src: (rows.src + first * rows.src_pitch) as *const u8,
            src_pitch: rows.src_pitch,
            width: rows.width,
            height,
        }
    }
}

/// A way to move rows whose two ends do not overlap.
pub trait Mover {
    /// Moves one row; the row at `ahead`, if it is another, comes soon.
    ///
    /// # Safety
    /// Both ends of the row are valid and apart; the CPU is one the mover is for. `ahead` need not be valid.
    unsafe fn row(dst: *mut u8, src: *const u8, len: usize, ahead: (*mut u8, *const u8), manner: Manner);

    /// Prefetches a row that is moved after some others, so that the page walks of both its ends are done
    /// meanwhile.
    fn prefetch(_dst: *const u8, _src: *const u8, _manner: Manner) {}

    /// Moves the rows of the span, each as [`row`](Mover::row), in their order.
    ///
    /// # Safety
    /// As for one.
    unsafe fn rows(span: RowSpan, manner: Manner);
}

/// Rows moved by libc: for every CPU.
pub struct Plain;

impl Mover for Plain {
    #[inline(always)]
    unsafe fn row(dst: *mut u8, src: *const u8, len: usize, _: (*mut u8, *const u8), _: Manner) {
        // SAFETY: the caller's promise.
        unsafe { range(dst, src, len) }
    }

    #[inline(always)]
    unsafe fn rows(span: RowSpan, manner: Manner) {
        let RowSpan { mut dst, mut src, .. } = span;
        for _ in 0..span.height {
            // SAFETY: a row of the span.
            unsafe { Self::row(dst, src, span.width, (dst, src), manner) };
            (dst, src) = (dst.wrapping_add(span.dst_pitch), src.wrapping_add(span.src_pitch));
        }
    }
}

/// One range, by libc.
///
/// # Safety
/// Both ends are valid and apart.
pub unsafe fn range(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(src, dst, len) }
}

/// Moves about `most` bytes of the plan from `cursor` on; see [`advance`](super::advance).
///
/// # Safety
/// As for `advance`, and the CPU is one the mover is for.
#[inline(always)]
pub unsafe fn walk<M: Mover>(pieces: Pieces, cursor: &mut Cursor, most: usize, manner: Manner) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        match pieces {
            Pieces::Rows(rows) => walk_list::<M, Rows>(rows, cursor, most, manner),
            Pieces::Segments(lines) => walk_list::<M, Segment>(lines, cursor, most, manner),
        }
    }
}

#[inline(always)]
unsafe fn walk_list<M: Mover, P: Copy + Into<Rows>>(
    pieces: &[P],
    cursor: &mut Cursor,
    most: usize,
    manner: Manner,
) -> bool {
    let get = |index: usize| pieces.get(index).map(|piece| -> Rows { (*piece).into() });
    let mut left = most;
    while let Some(rows) = get(cursor.piece) {
        let rows = &rows;
        while cursor.row < rows.height {
            if left == 0 {
                return false;
            }
            if cursor.col > 0 || rows.width > left || has_overlapping_row(rows) {
                // SAFETY: the caller's promise.
                left = left.saturating_sub(unsafe { part::<M>(rows, cursor, left, manner) });
                continue;
            }
            let cost = rows.width.max(ROW_COST);
            if rows.height == 1 {
                let ahead = get(cursor.piece + RowSpan::lead(rows.width)).unwrap_or(*rows);
                let ahead = (ahead.dst as *mut u8, ahead.src as *const u8);
                if let Some(later) = get(cursor.piece + PREFETCH_DISTANCE) {
                    M::prefetch(later.dst as *const u8, later.src as *const u8, manner);
                }
                // SAFETY: a row of the plan, and its ends are apart.
                unsafe { M::row(rows.dst as *mut u8, rows.src as *const u8, rows.width, ahead, manner) };
                cursor.row = 1;
                left = left.saturating_sub(cost);
                continue;
            }
            let count = (left / cost).clamp(1, rows.height - cursor.row);
            // SAFETY: `count` rows of the plan from the cursor's on, none of which overlaps where it goes.
            unsafe { M::rows(RowSpan::of(rows, cursor.row, count), manner) };
            cursor.row += count;
            left = left.saturating_sub(count * cost);
        }
        *cursor = Cursor { piece: cursor.piece + 1, row: 0, col: 0 };
    }
    true
}

/// Moves at most `left` bytes of the row that the cursor is in; returns what they count for. A row whose two
/// ends overlap is moved from the side that memmove would begin with.
///
/// # Safety
/// As for [`walk`].
#[inline(always)]
unsafe fn part<M: Mover>(rows: &Rows, cursor: &mut Cursor, left: usize, manner: Manner) -> usize {
    let dst = rows.dst + cursor.row * rows.dst_pitch;
    let src = rows.src + cursor.row * rows.src_pitch;
    let len = (rows.width - cursor.col).min(left);
    let apart = !is_overlapping(dst, src, rows.width);
    let offset = if apart || dst < src { cursor.col } else { rows.width - cursor.col - len };
    // SAFETY: part of a row of the plan; the two ranges are apart in the first case and may overlap in the
    // second, where what is still to be read lies on the side that has not been written.
    unsafe {
        let (dst, src) = ((dst + offset) as *mut u8, (src + offset) as *const u8);
        if apart {
            M::row(dst, src, len, (dst.wrapping_add(len), src.wrapping_add(len)), manner);
        } else {
            ptr::copy(src, dst, len);
        }
    }
    cursor.col += len;
    if cursor.col == rows.width {
        (cursor.row, cursor.col) = (cursor.row + 1, 0);
    }
    len.max(ROW_COST)
}

/// Repeats the pattern over `len` bytes.
///
/// # Safety
/// The range is valid.
pub unsafe fn fill(start: *mut u8, len: usize, pattern: [u8; 4]) {
    if pattern == [pattern[0]; 4] {
        // SAFETY: the range.
        unsafe { ptr::write_bytes(start, pattern[0], len) };
        return;
    }
    for word in 0..len / 4 {
        // SAFETY: four bytes of the range, at any alignment.
        unsafe { ptr::write_unaligned(start.add(4 * word).cast(), pattern) };
    }
    for byte in len / 4 * 4..len {
        // SAFETY: a byte of the range.
        unsafe { ptr::write(start.add(byte), pattern[byte % 4]) };
    }
}
