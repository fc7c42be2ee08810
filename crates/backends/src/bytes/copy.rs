//! The copy and fill loops of the CPU: plans and fills are moved in slices, so that the calling thread can
//! check for aborts and timeouts between them.
//!
//! `walk` iterates over the rows of a plan; a [`Routine`] moves them, with loops of its own where the CPU
//! has AVX2 (`avx2`), else with libc's memcpy. `limits` has the sizes from which on rows are prefetched, or
//! written with non-temporal stores.
//!
//! All functions that are given memory of the user's run guarded (`os::fault`): a fault ends the copy with
//! an error. Arrows: `copy` knows its modules, which know each other's types and `bytes::{nontemporal,
//! overlap}`.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod limits;
mod walk;

use super::nontemporal::fence;
use crate::os::fault::{self, Fault, guarded};
use ferry_core::{Fill, Pieces, Plan, Result as CoreResult};
use limits::Manner;
use std::{mem::MaybeUninit, ptr};
pub use walk::ROW_COST;
use walk::{Plain, walk};

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

/// What moves the bytes. Both can be asked for, so that both are tested wherever the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    /// libc's memcpy, row by row.
    Plain,
    /// Loops of our own.
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Routine {
    /// Those this machine can run, the best first.
    pub fn all() -> impl Iterator<Item = Routine> {
        #[cfg(target_arch = "x86_64")]
        let own = std::arch::is_x86_feature_detected!("avx2").then_some(Routine::Avx2);
        #[cfg(not(target_arch = "x86_64"))]
        let own = None;
        own.into_iter().chain([Routine::Plain])
    }

    /// The one for this machine; the CPU is asked once.
    #[inline]
    fn best() -> Routine {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            return Routine::Avx2;
        }
        Routine::Plain
    }

    /// [`advance`] with this routine, in the manner for a plan of `whole` bytes.
    ///
    /// # Safety
    /// As for `advance`; the routine is one of [`all`](Routine::all).
    pub unsafe fn advance(self, pieces: Pieces, cursor: &mut Cursor, most: usize, whole: usize) -> bool {
        let manner = Manner::of(whole);
        match self {
            // SAFETY: the caller's promise.
            Routine::Plain => unsafe { walk::<Plain>(pieces, cursor, most, manner) },
            #[cfg(target_arch = "x86_64")]
            Routine::Avx2 => {
                // SAFETY: the caller's promise; the CPU has AVX2.
                let complete = unsafe { avx2::advance(pieces, cursor, most, manner) };
                fence_if(manner);
                complete
            }
        }
    }

    /// [`fill`] with this routine.
    ///
    /// # Safety
    /// As for `fill`; the routine is one of [`all`](Routine::all).
    pub unsafe fn fill(self, fill: &Fill, cursor: &mut Cursor, most: usize) -> bool {
        let len = (fill.len - cursor.col).min(most.next_multiple_of(4));
        let start = (fill.dst + cursor.col) as *mut u8;
        match self {
            // SAFETY: part of the range of the fill; slices before the last are multiples of four bytes, so
            // each begins with the pattern.
            Routine::Plain => unsafe { walk::fill(start, len, fill.pattern) },
            // libc's memset is best at what it can do and fits a cache.
            #[cfg(target_arch = "x86_64")]
            Routine::Avx2 => match Manner::of_fill(fill.len) {
                // SAFETY: as above.
                Manner::Near | Manner::Far if fill.pattern == [fill.pattern[0]; 4] => unsafe {
                    walk::fill(start, len, fill.pattern)
                },
                manner => {
                    // SAFETY: as above, and the CPU has AVX2.
                    unsafe { avx2::fill(start, len, fill.pattern, manner) };
                    fence_if(manner);
                }
            },
        }
        cursor.col += len;
        cursor.col == fill.len
    }
}

/// Moves about `most` bytes of the plan from `cursor` on. Returns whether the plan is done. A row whose two
/// ends overlap is moved from the side that memmove would begin with. A fault ends the plan; then `cursor`
/// says nothing.
///
/// # Safety
/// Every row of every piece is valid at the engine's addresses, or memory that the program took away: then
/// the fault is returned.
#[inline]
pub unsafe fn advance(pieces: Pieces, cursor: &mut Cursor, most: usize) -> Result<bool, Fault> {
    // SAFETY: the caller's promise.
    unsafe { advance_part(pieces, cursor, most, limits::estimate(pieces)) }
}

/// As [`advance`], for pieces that were cut out of a plan of `whole` bytes: that size decides whether they
/// are written past the caches.
///
/// # Safety
/// As for `advance`.
#[inline]
pub unsafe fn advance_part(
    pieces: Pieces,
    cursor: &mut Cursor,
    most: usize,
    whole: usize,
) -> Result<bool, Fault> {
    let routine = Routine::best();
    // SAFETY: the caller's promise; a walk through a plan owns nothing, and whatever it leaves of the cursor
    // is not used.
    let work = || unsafe { routine.advance(pieces, cursor, most, whole) };
    // SAFETY: as above.
    unsafe { guarded(|addr| fault::covers(pieces, addr), work) }.inspect_err(|_| fence())
}

/// Writes about `most` bytes of the fill from `cursor` on. Returns whether the fill is done.
///
/// # Safety
/// As for [`advance`].
pub unsafe fn fill(fill: &Fill, cursor: &mut Cursor, most: usize) -> Result<bool, Fault> {
    let routine = Routine::best();
    // SAFETY: the caller's promise; as for a plan.
    let work = || unsafe { routine.fill(fill, cursor, most) };
    // SAFETY: as above.
    unsafe { guarded(|addr| fault::fill_covers(fill, addr), work) }.inspect_err(|_| fence())
}

/// Moves all of the plan's rows.
///
/// # Safety
/// As for [`advance`].
pub unsafe fn copy_all(plan: &Plan) -> CoreResult<()> {
    // SAFETY: the caller's promise.
    let done = unsafe { advance(plan.pieces(), &mut Cursor::default(), usize::MAX) };
    done.map(drop).map_err(|fault| fault.of_copy(plan.pieces()))
}

/// Writes all of the fill.
///
/// # Safety
/// As for [`advance`].
pub unsafe fn fill_all(fill: &Fill) -> CoreResult<()> {
    // SAFETY: the caller's promise.
    let done = unsafe { self::fill(fill, &mut Cursor::default(), usize::MAX & !3) };
    done.map(drop).map_err(|fault| fault.of_fill(fill))
}

/// Prefetches both ends of a copy that comes soon, so that the page walks are done meanwhile. The addresses
/// need not be valid.
#[inline]
pub fn prefetch(dst: usize, src: usize) {
    #[cfg(target_arch = "x86_64")]
    for addr in [dst, src] {
        // SAFETY: a hint; it never faults.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(addr as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (dst, src);
}

/// The routine alone, to be asked for once: moves a range through the caches, whatever its size.
/// The two ranges are valid and apart.
pub fn range() -> unsafe fn(dst: *mut u8, src: *const u8, len: usize) {
    match Routine::best() {
        Routine::Plain => walk::range,
        #[cfg(target_arch = "x86_64")]
        Routine::Avx2 => avx2::range,
    }
}

/// The fence, where stores went past the caches.
#[cfg(target_arch = "x86_64")]
#[inline]
fn fence_if(manner: Manner) {
    if manner == Manner::Streamed {
        fence();
    }
}

/// Reads words of 64 bits, at any alignment.
///
/// # Safety
/// As for [`advance`], of the words at `addr`.
#[inline]
pub unsafe fn words<const N: usize>(addr: usize) -> Result<[u64; N], Fault> {
    let mut words = MaybeUninit::uninit();
    let cell = Fill { dst: addr, len: size_of::<[u64; N]>(), pattern: [0; 4], device: None };
    let to = words.as_mut_ptr();
    // SAFETY: the caller's promise; a few reads own nothing.
    unsafe {
        guarded(
            |at| fault::fill_covers(&cell, at),
            || ptr::copy_nonoverlapping(addr as *const [u8; 8], to as *mut [u8; 8], N),
        )?;
        Ok(words.assume_init())
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
