//! Faults of our own copy loops. Memory that a copy was promised may be gone when the copy runs: the program
//! unmapped or protected it, or cut the file behind it. Then the copy fails and the process lives; copies
//! that meet no fault pay some 65 instructions, on the thread that copies. Why it is done like this:
//! docs/decisions/0019-faults-in-copies.md.
//!
//! [`guarded`] runs a loop on a frame that can be left from outside (`frame`) and tells the handler so, in a
//! slot of its thread (`slots`). The handler (`handler`) leaves the frame if the thread is inside one and the
//! address is one of the loop's; every other fault goes where it would have gone without us.

mod frame;
mod handler;
mod note;
mod slots;

use super::page::SMALLEST_PAGE;
use ferry_core::{Error, Fill, Kind, Pieces, Reduction, Rows};
pub use handler::{explain, install, is_ours_to_meet, tell_pointers_to};
use slots::ThreadSlot;
use std::{
    ffi::c_void,
    mem::{ManuallyDrop, MaybeUninit, needs_drop},
    ops::Range,
};

/// Marks the calling thread as one of ours, for as long as it lives: it handles no signal that was sent.
pub fn thread_of_ours() {
    if let Some(slot) = ThreadSlot::mine() {
        slot.is_of_ours();
    }
}

/// Memory that could not be accessed, and what the kernel said of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    addr: usize,
    signal: i32,
    code: i32,
}

/// A loop, and the place for what it returns.
struct GuardedLoop<W, R> {
    work: ManuallyDrop<W>,
    result: MaybeUninit<R>,
}

/// Runs `work`. If it faults at an address that `covers` accepts, it ends there: where it stood, without
/// destructors.
///
/// # Safety
/// `work` is a plain loop: it holds no lock, owns nothing that is dropped inside it, and nothing that it
/// changes needs more than its bytes to be right if it ends anywhere. `covers` only looks at memory, for it
/// is asked by a signal handler.
#[inline]
pub unsafe fn guarded<R: Copy>(
    covers: impl Fn(usize) -> bool + Copy,
    work: impl FnOnce() -> R,
) -> Result<R, Fault> {
    match ThreadSlot::mine() {
        // SAFETY: the caller's promise.
        Some(slot) if frame::IS_KNOWN => unsafe { guarded_by(slot, covers, work) },
        _ => Ok(work()),
    }
}

#[inline]
unsafe fn guarded_by<R: Copy, C: Fn(usize) -> bool + Copy, W: FnOnce() -> R>(
    slot: &ThreadSlot,
    covers: C,
    work: W,
) -> Result<R, Fault> {
    const { assert!(!needs_drop::<W>()) };
    unsafe extern "C" fn run<W: FnOnce() -> R, R>(job: *mut c_void) {
        // SAFETY: `job` is the one of the call below, which nothing else uses meanwhile.
        let job = unsafe { &mut *job.cast::<GuardedLoop<W, R>>() };
        // SAFETY: run once, and not dropped: it needs no drop.
        job.result.write(unsafe { ManuallyDrop::take(&mut job.work) }());
    }
    unsafe fn ask<C: Fn(usize) -> bool>(covers: *const c_void, addr: usize) -> bool {
        // SAFETY: the one of the call below, which lasts as long as the loop.
        unsafe { (*covers.cast::<C>())(addr) }
    }
    let mut job = GuardedLoop { work: ManuallyDrop::new(work), result: MaybeUninit::<R>::uninit() };
    slot.set(ask::<C>, (&raw const covers).cast());
    // SAFETY: `run` is given its job; the frame's place is this thread's.
    if unsafe { frame::enter(run::<W, R>, (&raw mut job).cast(), slot.frame()) } {
        return Err(slot.fault());
    }
    // SAFETY: it ran to its end.
    Ok(unsafe { job.result.assume_init() })
}

/// Whether a fault at `addr` is one of this range; the kernel may tell no more than the page.
fn is_in(range: &Range<usize>, addr: usize) -> bool {
    !range.is_empty() && (range.start & !(SMALLEST_PAGE - 1)..range.end).contains(&addr)
}

/// The bytes between the first of the first row and the last of the last.
fn span(start: usize, pitch: usize, rows: &Rows) -> Range<usize> {
    start..start + rows.height.saturating_sub(1) * pitch + rows.width
}

fn reads(rows: &Rows, addr: usize) -> bool {
    is_in(&span(rows.src, rows.src_pitch, rows), addr)
}

fn writes(rows: &Rows, addr: usize) -> bool {
    is_in(&span(rows.dst, rows.dst_pitch, rows), addr)
}

/// Whether a copy of these pieces touches `addr`.
pub fn covers(pieces: Pieces, addr: usize) -> bool {
    pieces.iter().any(|rows| reads(&rows, addr) || writes(&rows, addr))
}

/// Whether this fill touches `addr`.
pub fn fill_covers(fill: &Fill, addr: usize) -> bool {
    is_in(&(fill.dst..fill.dst + fill.len), addr)
}

/// Whether this reduction touches `addr`.
pub fn reduction_covers(reduction: &Reduction, addr: usize) -> bool {
    reduction
        .within(0, reduction.bytes())
        .any(|piece| [piece.dst, piece.src].iter().any(|start| is_in(&(*start..start + piece.len), addr)))
}

impl Fault {
    /// The failure of a copy of these pieces. It names the end that failed: of a device's memory only the
    /// engine's address is known here, which means nothing to the user.
    #[cold]
    pub fn of_copy(self, pieces: Pieces) -> Error {
        let met = pieces.iter().find(|rows| reads(rows, self.addr) || writes(rows, self.addr));
        let Some(rows) = met else { return self.of("a copy", "used") };
        let Rows { dst, src, width, height, .. } = rows;
        let shape =
            if height > 1 { format!("{height} rows of {width} bytes") } else { format!("{width} bytes") };
        match reads(&rows, self.addr) {
            true => self.of(&format!("a copy of {shape} from {src:#x}"), "read"),
            false => self.of(&format!("a copy of {shape} to {dst:#x}"), "written"),
        }
    }

    /// The failure of this fill.
    #[cold]
    pub fn of_fill(self, Fill { dst, len, .. }: &Fill) -> Error {
        self.of(&format!("a fill of {len} bytes at {dst:#x}"), "written")
    }

    /// The failure of this reduction.
    #[cold]
    pub fn of_reduction(self, reduction: &Reduction) -> Error {
        self.of(&format!("a reduction of {} bytes", reduction.bytes()), "used")
    }

    /// The failure of `what`.
    #[cold]
    pub fn of(self, what: &str, verb: &str) -> Error {
        let Fault { addr, signal, code } = self;
        let why = match (signal, code) {
            (libc::SIGSEGV, SEGV_MAPERR) => "it is not mapped in this process (any more)",
            (libc::SIGSEGV, SEGV_ACCERR) => "it is mapped, but protected",
            (libc::SIGBUS, libc::BUS_ADRERR) => "it is mapped, but the file behind it ends before it",
            (libc::SIGBUS, BUS_MCEERR_AR) => "the machine's memory there is broken",
            _ => "the kernel refuses it",
        };
        let name = if signal == libc::SIGBUS { "SIGBUS" } else { "SIGSEGV" };
        Kind::BadAddress.because(format!(
            "{what} ended early: {addr:#x} cannot be {verb}: {why} ({name}, code {code}); memory must stay \
             as it was until the \
             work that uses it is done"
        ))
    }
}

const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;
const BUS_MCEERR_AR: i32 = 4;

#[cfg(all(test, not(loom)))]
mod tests;
