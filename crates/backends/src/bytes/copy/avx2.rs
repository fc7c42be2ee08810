//! Copies and fills with AVX2: short rows without a call, software prefetch of rows to come, non-temporal
//! stores for what does not fit the caches.
//!
//! The functions ask for a CPU with AVX2 and, of each range, that it is valid. Two ranges of one copy do not
//! overlap.

use super::{
    Cursor,
    limits::{ALIASING_PAST, LIBC_FROM, Manner, PAGE_PREFETCH_DISTANCE, PREFETCH_BYTES, aliasing_costs},
    walk::{Mover, RowSpan, fill as plain_fill, walk},
};
use crate::bytes::nontemporal::store_line;
use crate::os::page::SMALLEST_PAGE as PAGE;
use ferry_core::Pieces;
use std::arch::x86_64::*;
use std::ptr;

/// A cache line.
const LINE: usize = 64;
/// Four pages, at whose ends the hardware prefetcher stops.
const FOUR_PAGES: usize = 4 * PAGE;

/// Rows of a plan, moved with AVX2.
pub struct Avx2;

impl Mover for Avx2 {
    #[inline(always)]
    fn prefetch(dst: *const u8, src: *const u8, manner: Manner) {
        if manner != Manner::Near {
            prefetch(dst);
            prefetch(src);
        }
    }

    #[inline(always)]
    unsafe fn row(dst: *mut u8, src: *const u8, len: usize, ahead: (*mut u8, *const u8), manner: Manner) {
        // SAFETY: the caller's promise; the CPU has AVX2 where this mover is used.
        unsafe { row(dst, src, len, ahead, manner) }
    }

    #[inline(always)]
    unsafe fn rows(span: RowSpan, manner: Manner) {
        // SAFETY: as above.
        unsafe { rows(span, manner) }
    }
}

/// The walk through a plan, with everything in it compiled for AVX2.
#[target_feature(enable = "avx2")]
pub unsafe fn advance(pieces: Pieces, cursor: &mut Cursor, most: usize, manner: Manner) -> bool {
    // SAFETY: the caller's promise.
    unsafe { walk::<Avx2>(pieces, cursor, most, manner) }
}

/// Moves the rows, one after the other.
#[target_feature(enable = "avx2")]
unsafe fn rows(span: RowSpan, manner: Manner) {
    let lines = [span.dst as usize, span.dst_pitch, span.width].iter().all(|it| it % LINE == 0);
    // Few whole lines among many edges: what is written is needed in the cache anyway.
    let manner = if lines || span.width >= 4 * LINE { manner } else { manner.min(Manner::Far) };
    // SAFETY: the rows are valid; each case has the width it says.
    unsafe {
        match span.width {
            16 => fixed::<16>(span, manner),
            32 => fixed::<32>(span, manner),
            64 if manner != Manner::Streamed => fixed::<64>(span, manner),
            _ => any(span, manner),
        }
    }
}

/// Rows of one width that the compiler knows, at most a line.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn fixed<const WIDTH: usize>(span: RowSpan, manner: Manner) {
    let lead = |pitch: usize| pitch.wrapping_mul((PREFETCH_BYTES / pitch.max(16)).max(8));
    let (dst_lead, src_lead) = (lead(span.dst_pitch), lead(span.src_pitch));
    let RowSpan { mut dst, mut src, .. } = span;
    for _ in 0..span.height {
        if manner != Manner::Near {
            prefetch(src.wrapping_add(src_lead));
            prefetch_for_write(dst.wrapping_add(dst_lead));
        }
        // SAFETY: a row of the span.
        unsafe { small(dst, src, WIDTH) };
        (dst, src) = (dst.wrapping_add(span.dst_pitch), src.wrapping_add(span.src_pitch));
    }
}

/// Rows of any width.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn any(span: RowSpan, manner: Manner) {
    let lead = RowSpan::lead(span.width).min(span.height);
    let (mut dst, mut src) = (span.dst, span.src);
    for left in (1..=span.height).rev() {
        let lead = if lead < left { lead } else { 0 };
        let ahead = (dst.wrapping_add(lead * span.dst_pitch), src.wrapping_add(lead * span.src_pitch));
        // SAFETY: a row of the span.
        unsafe { row(dst, src, span.width, ahead, manner) };
        (dst, src) = (dst.wrapping_add(span.dst_pitch), src.wrapping_add(span.src_pitch));
    }
}

/// One row, while the row that begins at `ahead` is prefetched.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn row(dst: *mut u8, src: *const u8, len: usize, ahead: (*mut u8, *const u8), manner: Manner) {
    // SAFETY: the caller's promise.
    unsafe {
        match manner {
            Manner::Streamed => streamed(dst, src, len, ahead.1),
            Manner::Far => {
                for offset in (0..len.min(PREFETCH_BYTES)).step_by(LINE) {
                    prefetch(ahead.1.wrapping_add(offset));
                    prefetch_for_write(ahead.0.wrapping_add(offset));
                }
                cached(dst, src, len);
            }
            Manner::Near => cached(dst, src, len),
        }
    }
}

/// Through the caches: the routine alone. What the compiler may not inline here is out of the way of the
/// shortest rows, for which a taken branch counts.
#[target_feature(enable = "avx2")]
pub unsafe fn range(dst: *mut u8, src: *const u8, len: usize) {
    #[inline(never)]
    #[target_feature(enable = "avx2")]
    unsafe fn longer(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { cached(dst, src, len) }
    }
    // SAFETY: the caller's promise.
    unsafe {
        if len > 256 {
            long(dst, src, len)
        } else if len > LINE {
            longer(dst, src, len)
        } else {
            small(dst, src, len)
        }
    }
}

/// Through the caches.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn cached(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; each is given at least what it asks for.
    unsafe {
        if len <= 128 {
            small(dst, src, len)
        } else if len <= 256 {
            large_enough(dst, src, len)
        } else {
            long(dst, src, len)
        }
    }
}

/// Through the caches, more than 256 bytes.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn long(dst: *mut u8, src: *const u8, len: usize) {
    let past = (dst as usize).wrapping_sub(src as usize) % PAGE;
    let is_aliasing = (1..ALIASING_PAST).contains(&past) && aliasing_costs();
    // SAFETY: the caller's promise.
    unsafe {
        if is_aliasing && (len < LIBC_FROM || !past.is_multiple_of(LINE)) {
            backward(dst, src, len)
        } else if len < LIBC_FROM {
            forward(dst, src, len)
        } else {
            ptr::copy_nonoverlapping(src, dst, len)
        }
    }
}

/// Whole cache lines of the destination by non-temporal stores, its edges through the caches, while the
/// source is prefetched, and then `ahead`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn streamed(dst: *mut u8, src: *const u8, len: usize, ahead: *const u8) {
    let skip = (dst as usize).wrapping_neg() % LINE;
    if len < skip + LINE {
        prefetch(ahead);
        // SAFETY: the caller's promise, and less than two lines.
        return unsafe { small(dst, src, len) };
    }
    let body = (len - skip) / LINE * LINE;
    let four = body / FOUR_PAGES * FOUR_PAGES;
    let last = body - four;
    let own = last.saturating_sub(PREFETCH_BYTES);
    // SAFETY: `skip`, `four`, `last` and what is left are the row, one after the other; after `skip` begins a
    // line.
    unsafe {
        small(dst, src, skip);
        let (dst, src) = (dst.add(skip), src.add(skip));
        if four > 0 {
            four_pages_each(dst, src, four, if last > 0 { src.add(four) } else { ahead });
        }
        lines(dst.add(four), src.add(four), own, src.wrapping_add(four + PREFETCH_BYTES));
        lines(dst.add(four + own), src.add(four + own), last - own, ahead);
        small(dst.add(body), src.add(body), len - skip - body);
    }
}

/// `len` bytes in whole cache lines, by non-temporal stores, while as many are prefetched from `ahead`. The
/// destination is aligned to a line.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lines(dst: *mut u8, src: *const u8, len: usize, ahead: *const u8) {
    for at in (0..len).step_by(LINE) {
        prefetch(ahead.wrapping_add(at));
        // SAFETY: a line of both, and the destination's is aligned.
        unsafe { line(dst.add(at), src.add(at)) };
    }
}

/// As [`lines`], for a multiple of four pages, of which two lines each are moved in turn: more banks of the
/// memory are at work at a time, and the hardware prefetcher follows four streams instead of one. A quarter
/// faster than one page after the other.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn four_pages_each(dst: *mut u8, src: *const u8, len: usize, ahead: *const u8) {
    for at in (0..len).step_by(FOUR_PAGES) {
        let next = if at + FOUR_PAGES < len { src.wrapping_add(at + FOUR_PAGES) } else { ahead };
        for column in (0..PAGE).step_by(2 * LINE) {
            let coming = match column + PAGE_PREFETCH_DISTANCE {
                here @ ..PAGE => src.wrapping_add(at + here),
                over => next.wrapping_add(over - PAGE),
            };
            for page in [0, PAGE, 2 * PAGE, 3 * PAGE] {
                prefetch(coming.wrapping_add(page));
                prefetch(coming.wrapping_add(page + LINE));
                let offset = at + page + column;
                // SAFETY: two lines of both, and the destination's are aligned.
                unsafe {
                    line(dst.add(offset), src.add(offset));
                    line(dst.add(offset + LINE), src.add(offset + LINE));
                }
            }
        }
    }
}

/// One cache line, by non-temporal stores.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn line(dst: *mut u8, src: *const u8) {
    // SAFETY: the caller's promise of a line each, of which the destination's is aligned.
    unsafe { store_line(dst, load_pair(src)) }
}

/// Up to 128 bytes: the first and the last so many, all loaded before any is stored.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn small(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: `len` is what each case asks for.
    unsafe {
        match len {
            65.. => {
                let (head, tail) = (load_pair(src), load_pair(src.add(len - 64)));
                store_pair(dst, head);
                store_pair(dst.add(len - 64), tail);
            }
            32.. => ends::<__m256i>(dst, src, len),
            16.. => ends::<__m128i>(dst, src, len),
            8.. => ends::<u64>(dst, src, len),
            4.. => ends::<u32>(dst, src, len),
            2.. => ends::<u16>(dst, src, len),
            1 => *dst = *src,
            0 => {}
        }
    }
}

/// Both ends of a row of at least one and at most two of `T`, which fits a register.
#[inline(always)]
unsafe fn ends<T: Copy>(dst: *mut u8, src: *const u8, len: usize) {
    let last = len - size_of::<T>();
    // SAFETY: the first and the last bytes of the row, at any alignment.
    unsafe {
        let head = src.cast::<T>().read_unaligned();
        let tail = src.add(last).cast::<T>().read_unaligned();
        dst.cast::<T>().write_unaligned(head);
        dst.add(last).cast::<T>().write_unaligned(tail);
    }
}

/// 128 to 256 bytes: four vectors from either end.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn large_enough(dst: *mut u8, src: *const u8, len: usize) {
    let last = len - 128;
    // SAFETY: the first and the last 128 bytes of the row.
    unsafe {
        let head = (load_pair(src), load_pair(src.add(64)));
        let tail = (load_pair(src.add(last)), load_pair(src.add(last + 64)));
        store_pair(dst, head.0);
        store_pair(dst.add(64), head.1);
        store_pair(dst.add(last), tail.0);
        store_pair(dst.add(last + 64), tail.1);
    }
}

/// More than 160 bytes, from the beginning to the end, in aligned stores.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn forward(dst: *mut u8, src: *const u8, len: usize) {
    let last = len - 128;
    // SAFETY: the first vector, those from the first aligned one on, and the last four, which were loaded
    // before.
    unsafe {
        let first = load(src);
        let tail = (load_pair(src.add(last)), load_pair(src.add(last + 64)));
        _mm256_storeu_si256(dst.cast(), first);
        let mut at = 32 - (dst as usize) % 32;
        while at < last {
            let part = (load_pair(src.add(at)), load_pair(src.add(at + 64)));
            store_pair(dst.add(at), part.0);
            store_pair(dst.add(at + 64), part.1);
            at += 128;
        }
        store_pair(dst.add(last), tail.0);
        store_pair(dst.add(last + 64), tail.1);
    }
}

/// At least 64 bytes, from the end to the beginning, in aligned stores.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn backward(dst: *mut u8, src: *const u8, len: usize) {
    const STEP: usize = 256;
    // SAFETY: `at` is how much of the row is still to do; the last vectors are done first and the first ones
    // at the end, from what was loaded before anything was stored.
    unsafe {
        let (head, tail) = (load_pair(src), load(src.add(len - 32)));
        let mut at = len - (dst.add(len) as usize) % 32;
        _mm256_storeu_si256(dst.add(len - 32).cast(), tail);
        while at >= STEP {
            at -= STEP;
            let (dst, src) = (dst.add(at), src.add(at));
            for half in [128, 0] {
                let (dst, src) = (dst.add(half), src.add(half));
                let part = [load(src.add(96)), load(src.add(64)), load(src.add(32)), load(src)];
                _mm256_store_si256(dst.add(96).cast(), part[0]);
                _mm256_store_si256(dst.add(64).cast(), part[1]);
                _mm256_store_si256(dst.add(32).cast(), part[2]);
                _mm256_store_si256(dst.cast(), part[3]);
            }
        }
        while at >= 64 {
            at -= 32;
            _mm256_store_si256(dst.add(at).cast(), load(src.add(at)));
        }
        store_pair(dst, head);
    }
}

/// Repeats the pattern over `len` bytes: a line at either end, wherever they are, and the lines between them.
#[target_feature(enable = "avx2")]
pub unsafe fn fill(dst: *mut u8, len: usize, pattern: [u8; 4], manner: Manner) {
    if len < LINE {
        // SAFETY: the caller's promise.
        return unsafe { plain_fill(dst, len, pattern) };
    }
    // The pattern as it is so many bytes later.
    let at = |offset: usize| {
        let word = i32::from_ne_bytes(std::array::from_fn(|i| pattern[(offset + i) % 4]));
        (_mm256_set1_epi32(word), _mm256_set1_epi32(word))
    };
    let skip = (dst as usize).wrapping_neg() % LINE;
    let (first, last, middle) = (at(0), at(len - LINE), at(skip));
    // SAFETY: the first and the last line of the range, and those that begin with a line after `skip` and end
    // inside the range.
    unsafe {
        store_pair(dst, first);
        for offset in (skip..len - LINE).step_by(LINE) {
            let to = dst.add(offset);
            if manner == Manner::Streamed {
                store_line(to, middle);
            } else {
                store_pair(to, middle);
            }
        }
        store_pair(dst.add(len - LINE), last);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load(src: *const u8) -> __m256i {
    // SAFETY: the caller's promise of 32 bytes.
    unsafe { _mm256_loadu_si256(src.cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load_pair(src: *const u8) -> (__m256i, __m256i) {
    // SAFETY: the caller's promise of 64 bytes.
    unsafe { (load(src), load(src.add(32))) }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_pair(dst: *mut u8, pair: (__m256i, __m256i)) {
    // SAFETY: the caller's promise of 64 bytes.
    unsafe {
        _mm256_storeu_si256(dst.cast(), pair.0);
        _mm256_storeu_si256(dst.add(32).cast(), pair.1);
    }
}

#[inline(always)]
fn prefetch(from: *const u8) {
    // SAFETY: a hint; it never faults.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
}

#[inline(always)]
fn prefetch_for_write(to: *const u8) {
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(to.cast()) }
}
