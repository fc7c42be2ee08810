//! Copies of one piece: linear and 2-D, asynchronous and synchronous. A synchronous call is the asynchronous
//! one and a wait, on a hidden stream of the calling thread.

use super::{
    kinds::{CopyKind, not_far, not_mapped_across, not_synchronous_across, reachable},
    target::{On, Target, between},
};
use crate::{Result, arguments::within, interrupt, state::Here};
use ferry_core::{Ends, Home, Plan, Request, Rows};

/// Documented: the most rows of an asynchronous 2-D copy.
const MAX_HEIGHT: usize = 5 * 1024 * 1024;
/// Documented: the most bytes of a row of one.
const MAX_WIDTH: usize = 5_000_000;

/// The arguments of aclrtMemcpyAsync and aclrtMemcpyAsyncWithCondition.
#[derive(Clone, Copy)]
pub struct Async {
    /// Where the bytes go.
    pub dst: usize,
    /// How many there is room for.
    pub dest_max: usize,
    /// Where they come from.
    pub src: usize,
    /// How many there are.
    pub count: usize,
    /// aclrtMemcpyKind.
    pub kind: i32,
    /// The stream's handle.
    pub stream: usize,
}

impl Async {
    /// The fast path of most copies. False if nothing was submitted, because the copy is not simple or not
    /// right: [`submit`](Self::submit) decides then. It makes no system call that is a cancellation point.
    ///
    /// # Safety
    /// As [`submit`](Self::submit).
    #[inline(always)]
    pub unsafe fn try_fast(self, here: &Here) -> bool {
        let Async { dst, dest_max, src, count, kind, stream } = self;
        if count > dest_max {
            return false;
        }
        let Some(entry) = here.remembered(stream) else { return false };
        let fits = |ends: &Ends| CopyKind::try_from(kind).is_ok_and(|kind| kind.is_simple(ends));
        // SAFETY: the caller's promise.
        let ticket = unsafe { entry.stream.submit_linear((dst, src, count), kind, fits, |_| ()) };
        here.stream.set(Some(entry));
        ticket.is_some()
    }

    /// Submits the copy by all the rules, and waits for it if its memory is pageable.
    ///
    /// # Safety
    /// Both ranges stay valid until the copy is done.
    #[inline(never)]
    pub unsafe fn submit(self, here: &Here) -> Result<()> {
        let Async { dst, dest_max, src, count, kind, stream } = self;
        between(here, dst, src, || {
            let target = Target::find(here, On::Stream(stream))?;
            let kind = CopyKind::try_from(kind)?.not_inside_host(target.engine)?;
            within("count", count, "destMax", dest_max)?;
            let rows = Rows::linear(dst, src, count);
            if kind == CopyKind::HostToBufToDevice {
                // SAFETY: the caller's promise; the source is read before this returns.
                return unsafe { staged(&target, rows, kind) };
            }
            // SAFETY: the caller's promise.
            unsafe { target.copy(rows, |ends| kind.agrees(ends, target.engine, target.device())) }
        })
    }
}

/// aclrtMemcpy. Documented: the kind has no effect, and nothing else is waited for.
///
/// # Safety
/// Both ranges are valid.
pub unsafe fn memcpy(here: &Here, dst: usize, dest_max: usize, src: usize, count: usize) -> Result<()> {
    between(here, dst, src, || {
        let target = Target::find(here, On::ThisThread)?;
        within("count", count, "destMax", dest_max)?;
        // SAFETY: the caller's promise.
        unsafe {
            target.copy(Rows::linear(dst, src, count), |ends| {
                not_far(ends)?;
                not_mapped_across(ends)?;
                reachable(ends.route(), target.engine, target.device())?;
                not_synchronous_across(ends.route(), target.engine)
            })
        }
    })
}

/// The arguments of a 2-D copy as one rectangle.
pub fn rows(dst: usize, dst_pitch: usize, src: usize, src_pitch: usize, width: usize, height: usize) -> Rows {
    Rows { dst, dst_pitch, src, src_pitch, width, height }
}

/// aclrtMemcpy2d and aclrtMemcpy2dAsync.
///
/// # Safety
/// Both matrices stay valid until the copy is done.
pub unsafe fn memcpy_2d(here: &Here, rows: Rows, kind: i32, on: On) -> Result<()> {
    between(here, rows.dst, rows.src, || {
        let target = Target::find(here, on)?;
        let inside = target.engine.settings.options.product.copies_2d_inside && matches!(on, On::Stream(_));
        let allowed = [CopyKind::HostToDevice, CopyKind::DeviceToHost, CopyKind::DeviceToDevice];
        let kind = CopyKind::try_from(kind)?.only(if inside { &allowed } else { &allowed[..2] })?;
        within("width", rows.width, "dpitch", rows.dst_pitch)?;
        within("width", rows.width, "spitch", rows.src_pitch)?;
        if let On::Stream(_) = on {
            within("height", rows.height, "the documented maximum", MAX_HEIGHT)?;
            within("width", rows.width, "the documented maximum", MAX_WIDTH)?;
        }
        let agrees = |ends: &Ends| {
            not_mapped_across(ends)?;
            kind.agrees(ends, target.engine, target.device())
        };
        // SAFETY: the caller's promise.
        unsafe { target.copy(rows, agrees) }
    })
}

/// Copies the source into a staging buffer before the call returns; the copy from there to the device follows
/// asynchronously.
///
/// # Safety
/// The source is valid now, the destination until the copy is done.
#[cold]
unsafe fn staged(target: &Target, rows: Rows, kind: CopyKind) -> Result<()> {
    let agrees = |ends: &Ends| kind.agrees(ends, target.engine, target.device());
    let runtime = &target.engine.runtime;
    Plan::new([rows], runtime.memory(), |_, ends| agrees(ends)).map_err(|misfit| misfit.error)?;
    if rows.width == 0 {
        return Ok(());
    }
    let request = Request { home: Home::Host, len: rows.width, page: 4096 };
    let buffer = interrupt::find_room(target.here, |patience| runtime.alloc_within(&request, patience))?;
    let moved = Target::inside(target.here).and_then(|now| {
        // SAFETY: the buffer is ours and the source is valid during this call.
        unsafe { now.copy(Rows::linear(buffer.base, rows.src, rows.width), |_| Ok(())) }?;
        // SAFETY: the buffer's memory stays until the copy has passed, though it is freed below; the
        // destination is promised.
        unsafe { target.copy(Rows::linear(rows.dst, buffer.base, rows.width), |_| Ok(())) }
    });
    target.free_behind(buffer.base)?;
    moved
}
