//! Copies of one piece: linear and 2-D, asynchronous and synchronous. A synchronous call is the asynchronous one and a wait,
//! on a hidden stream of the calling thread.

use crate::{
    Result,
    call::{not_null, refuse},
    explain::with_addresses,
    interrupt,
    kinds::{CopyKind, not_far, not_mapped_across, reachable},
    state::{Engine, Here, engine, with_here},
    stream::StreamEntry,
};
use ferry_core::{Ends, Home, Memory, Misfit, Op, Plan, Request, Route, Rows, Stream, Ticket};
use std::{mem, sync::Arc};

/// Documented: larger ones fail in the asynchronous 2-D copy.
const MOST_HEIGHT: usize = 5 * 1024 * 1024;
const MOST_WIDTH: usize = 5_000_000;

/// Where a copy runs.
#[derive(Clone, Copy, Debug)]
pub enum On {
    /// On the stream of this handle, asynchronously if all memory is page-locked.
    Stream(usize),
    /// At once, before the call returns.
    ThisThread,
}

/// A resolved [`On`].
pub(crate) struct Target<'a> {
    pub(crate) engine: &'static Engine,
    pub(crate) here: &'a Here,
    lane: Lane,
}

enum Lane {
    /// A stream of the user's, taken out of what the thread remembers.
    Given(Arc<StreamEntry>),
    /// The hidden one of the thread.
    Hidden(Arc<Stream>),
    /// The call is over.
    Over,
}

impl Drop for Target<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Lane::Given(entry) = mem::replace(&mut self.lane, Lane::Over) {
            self.here.stream.set(Some(entry));
        }
    }
}

impl<'a> Target<'a> {
    /// Looks the context and the stream up.
    #[inline]
    pub(crate) fn find(here: &'a Here, on: On) -> Result<Target<'a>> {
        let engine = engine()?;
        let lane = match on {
            On::Stream(handle) => Lane::Given(here.take_stream(engine, handle)?),
            On::ThisThread => Lane::Hidden(here.quiet(engine, here.context()?.device)?),
        };
        Ok(Target { engine, here, lane })
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        match &self.lane {
            Lane::Given(entry) => &entry.stream,
            Lane::Hidden(stream) => stream,
            Lane::Over => unreachable!("only while it is dropped"),
        }
    }

    pub(crate) fn device(&self) -> u32 {
        self.stream().device()
    }

    /// Waits if the call must not return before its work, up to `ticket`, is done: a synchronous call, or pageable memory.
    #[inline]
    pub(crate) fn settle(&self, ticket: Ticket, plain: bool) -> Result<()> {
        match &self.lane {
            Lane::Hidden(stream) if self.here.is_watched() => settle_or_drop(stream),
            Lane::Hidden(stream) => Ok(stream.synchronize(None)?),
            // Not in slices: if a signal may end the call, what came before has passed, and this is under way.
            Lane::Given(entry) if plain => Ok(entry.stream.so_far_with(ticket)?.wait(None)?),
            Lane::Given(_) | Lane::Over => Ok(()),
        }
    }

    /// Where a signal may end the call, and `is_plain` says that it waits for its own work: waits for what the stream has to do before
    /// that. So there is nothing to take back, from the midst of a stream, when a signal comes.
    #[inline]
    pub(crate) fn pass<E: From<ferry_core::Error>>(
        &self,
        is_plain: impl FnOnce(&Memory) -> Result<bool, E>,
    ) -> Result<(), E> {
        match &self.lane {
            Lane::Given(entry) if self.here.is_watched() => {
                let busy = !entry.stream.is_idle()?;
                if busy && is_plain(self.engine.runtime.memory())? {
                    let before = entry.stream.so_far()?;
                    interrupt::wait(None, |limit| before.wait(limit))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Submits a copy that `plan` plans, and waits where the documents say so.
    ///
    /// # Safety
    /// What is planned stays valid until the copy is done.
    #[inline(always)]
    pub(crate) unsafe fn copy<E: From<ferry_core::Error>>(
        &self,
        plan: impl Fn(&Memory) -> Result<Plan, E>,
    ) -> Result<(), E> {
        self.pass(|memory| plan(memory).map(|plan| plan.is_plain()))?;
        let mut plain = false;
        // SAFETY: the caller's promise.
        let ticket = unsafe {
            self.stream().submit(|memory| {
                let plan = plan(memory)?;
                plain = plan.is_plain();
                Ok::<_, E>(Op::Copy(plan))
            })?
        };
        self.settle(ticket, plain)
            .map_err(|error| ferry_core::Kind::Native(error.code).because(error.note.clone()).into())
    }

    /// As `copy` for one piece.
    ///
    /// # Safety
    /// As `copy`.
    #[inline]
    pub(crate) unsafe fn copy_one(
        &self,
        rows: Rows,
        fits: impl Fn(&Ends) -> ferry_core::Result<()>,
    ) -> Result<()> {
        let plan = |memory: &Memory, rows| Plan::new(Some(rows), memory, |_, ends| fits(ends));
        let copied = if self.here.is_watched() && interrupt::is_large(&rows) {
            // SAFETY: the caller's promise.
            unsafe { self.copy_large(rows, plan) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { self.copy(|memory| plan(memory, rows)) }
        };
        copied.map_err(|misfit: Misfit| misfit.error.into())
    }

    /// Has signals handled between two pieces of a copy, if it can be cut.
    ///
    /// # Safety
    /// As `copy`.
    #[cold]
    unsafe fn copy_large(
        &self,
        rows: Rows,
        plan: impl Fn(&Memory, Rows) -> Result<Plan, Misfit>,
    ) -> Result<(), Misfit> {
        let whole = plan(self.engine.runtime.memory(), rows)?;
        if !self.can_be_cut(&whole) {
            // SAFETY: the caller's promise.
            return unsafe { self.copy(|memory| plan(memory, rows)) };
        }
        interrupt::pieces(rows).try_for_each(|piece| {
            interrupt::ask()?;
            // SAFETY: the caller's promise, which holds for a part.
            unsafe { self.copy(|memory| plan(memory, piece)) }
        })
    }

    /// Whether a copy can be done in pieces, one after the other: if it is waited for, and its ends cannot overlap.
    fn can_be_cut(&self, plan: &Plan) -> bool {
        let waits = matches!(self.lane, Lane::Hidden(_)) || plan.is_plain();
        waits && matches!(plan.route(), Route::HostToDevice { .. } | Route::DeviceToHost { .. })
    }
}

/// Waits for the hidden stream in slices. If a signal ends that, the rest of the copy is dropped: this returns when no byte of it
/// moves any more.
#[cold]
fn settle_or_drop(stream: &Stream) -> Result<()> {
    let waited = interrupt::wait(None, |limit| stream.synchronize(limit));
    if waited.as_ref().is_err_and(interrupt::is_interrupted) {
        stream.abort();
        // That the work was dropped is told here, and not to the next copy.
        drop(stream.status().take_error());
    }
    Ok(waited?)
}

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
    /// The short way of most copies. False if nothing was submitted, since something is less simple or wrong. No system call of it is
    /// one where a thread can be cancelled.
    ///
    /// # Safety
    /// As [`submit`](Self::submit).
    #[inline(always)]
    pub unsafe fn at_once(self, here: &Here) -> bool {
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
        between(dst, src, || {
            let target = Target::find(here, On::Stream(stream))?;
            let kind = CopyKind::try_from(kind)?.not_inside_host(target.engine)?;
            within("count", count, "destMax", dest_max)?;
            let rows = Rows::linear(dst, src, count);
            if kind == CopyKind::HostToBufToDevice {
                // SAFETY: the caller's promise; the source is read before this returns.
                return unsafe { staged(&target, rows, kind) };
            }
            // SAFETY: the caller's promise.
            unsafe { target.copy_one(rows, |ends| kind.agrees(ends, target.engine, target.device())) }
        })
    }
}

/// aclrtMemcpy. Documented: the kind has no effect, and nothing else is waited for.
///
/// # Safety
/// Both ranges are valid.
pub unsafe fn memcpy(dst: usize, dest_max: usize, src: usize, count: usize) -> Result<()> {
    between(dst, src, || {
        with_here(|here| {
            let target = Target::find(here, On::ThisThread)?;
            within("count", count, "destMax", dest_max)?;
            // SAFETY: the caller's promise.
            unsafe {
                target.copy_one(Rows::linear(dst, src, count), |ends| {
                    not_far(ends)?;
                    not_mapped_across(ends)?;
                    reachable(ends.route(), target.engine, target.device())
                })
            }
        })
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
pub unsafe fn memcpy_2d(rows: Rows, kind: i32, on: On) -> Result<()> {
    between(rows.dst, rows.src, || {
        with_here(|here| {
            let target = Target::find(here, on)?;
            let inside =
                target.engine.settings.options.product.copies_2d_inside && matches!(on, On::Stream(_));
            let allowed = [CopyKind::HostToDevice, CopyKind::DeviceToHost, CopyKind::DeviceToDevice];
            let kind = CopyKind::try_from(kind)?.only(if inside { &allowed } else { &allowed[..2] })?;
            within("width", rows.width, "dpitch", rows.dst_pitch)?;
            within("width", rows.width, "spitch", rows.src_pitch)?;
            if let On::Stream(_) = on {
                within("height", rows.height, "the documented maximum", MOST_HEIGHT)?;
                within("width", rows.width, "the documented maximum", MOST_WIDTH)?;
            }
            let agrees = |ends: &Ends| {
                not_mapped_across(ends)?;
                kind.agrees(ends, target.engine, target.device())
            };
            // SAFETY: the caller's promise.
            unsafe { target.copy_one(rows, agrees) }
        })
    })
}

/// Takes the source's bytes into memory of our own before the call returns; the copy to the device follows asynchronously.
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
    let buffer = interrupt::find_room(|patience| runtime.alloc_within(&request, patience))?;
    let moved = Target::find(target.here, On::ThisThread).and_then(|now| {
        // SAFETY: the buffer is ours and the source is valid during this call.
        unsafe { now.copy_one(Rows::linear(buffer.base, rows.src, rows.width), |_| Ok(())) }?;
        // SAFETY: the buffer's memory stays until the copy has passed, though it is freed below; the destination is promised.
        unsafe { target.copy_one(Rows::linear(rows.dst, buffer.base, rows.width), |_| Ok(())) }
    });
    // Its memory is used again only when the copy has passed.
    runtime.free(buffer.base, |_| Ok(()))?;
    moved
}

/// Runs the body of a copy between two addresses, neither of them NULL; a refusal also says what they belong to.
#[inline]
pub(crate) fn between(dst: usize, src: usize, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let copied = not_null("dst", dst).and_then(|()| not_null("src", src)).and_then(|()| body());
    copied.map_err(|error| with_addresses(error, &[("dst", dst), ("src", src)]))
}

/// Refuses `value` if it is more than `most`.
#[inline]
pub(crate) fn within(name: &str, value: usize, most_name: &str, most: usize) -> Result<()> {
    if value <= most { Ok(()) } else { Err(exceeds(name, value, most_name, most)) }
}

#[cold]
fn exceeds(name: &str, value: usize, most_name: &str, most: usize) -> crate::Error {
    refuse(format!("{name} is {value}, more than {most_name}, which is {most}"))
}

/// Refuses anything but the kind of copies inside one device.
pub(crate) fn inner_only(kind: i32) -> Result<()> {
    CopyKind::try_from(kind)?.only(&[CopyKind::InnerDeviceToDevice]).map(drop)
}
