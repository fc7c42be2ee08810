//! Where a call's work goes, and when the call waits for it: what copies, fills, reductions and values share.
//!
//! A call names a stream, or runs at once on a hidden stream of its thread ([`On`]); `Target` is that
//! stream for the length of the call. It submits, and waits where the documents say so: for synchronous calls
//! and for pageable memory.

use super::kinds::CopyKind;
use crate::{
    Result,
    arguments::not_null,
    capture::{self, GroupUpdate, StreamPart},
    explain::with_addresses,
    interrupt,
    state::{Here, OpenedEngine, StreamEntry, engine},
};
use ferry_core::{Ends, Kind, Memory, Op, Plan, Route, Rows, Runtime, Stream, Ticket};
use std::{mem, sync::Arc};

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
    /// The engine, opened.
    pub(crate) engine: &'static OpenedEngine,
    /// The thread whose call this is.
    pub(crate) here: &'a Here,
    stream: TargetStream,
    /// A part of an asynchronous call that is done at once.
    is_inside: bool,
}

/// Memory of a graph's own.
struct GraphBuffer {
    runtime: &'static Runtime,
    base: usize,
}

impl Drop for GraphBuffer {
    fn drop(&mut self) {
        drop(self.runtime.free(self.base, |_| Ok(())));
    }
}

enum TargetStream {
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
        if let TargetStream::Given(entry) = mem::replace(&mut self.stream, TargetStream::Over) {
            self.here.stream.set(Some(entry));
        }
    }
}

impl<'a> Target<'a> {
    /// Looks the context and the stream up.
    #[inline]
    pub(crate) fn find(here: &'a Here, on: On) -> Result<Target<'a>> {
        let engine = engine()?;
        let stream = match on {
            On::Stream(handle) => TargetStream::Given(here.take_stream(handle)?),
            On::ThisThread => {
                let device = here.device()?;
                TargetStream::Hidden(here.hidden_stream(engine, device)?)
            }
        };
        Ok(Target { engine, here, stream, is_inside: false })
    }

    /// The hidden stream, for a part of an asynchronous call that has to be done at once.
    pub(crate) fn inside(here: &'a Here) -> Result<Target<'a>> {
        let engine = engine()?;
        let stream = TargetStream::Hidden(here.hidden_stream(engine, here.device()?)?);
        Ok(Target { engine, here, stream, is_inside: true })
    }

    /// The part of the stream in a capture, if it is captured.
    pub(crate) fn captured(&self) -> Option<StreamPart> {
        match &self.stream {
            TargetStream::Given(entry) => capture::of_stream(entry.handle),
            TargetStream::Hidden(_) | TargetStream::Over => None,
        }
    }

    /// The update of a task group that the stream takes part in, if it does.
    fn update(&self) -> Option<Arc<GroupUpdate>> {
        match &self.stream {
            TargetStream::Given(entry) => capture::update_of_stream(entry.handle),
            TargetStream::Hidden(_) | TargetStream::Over => None,
        }
    }

    /// Refuses a synchronous copy or fill, or one of pageable memory, where a capture forbids it. Asked when
    /// everything else is right: bad arguments break no capture.
    #[inline]
    pub(crate) fn check_capture(&self, is_pageable: bool) -> ferry_core::Result<()> {
        let checked = match &self.stream {
            TargetStream::Given(entry) if is_pageable => capture::check_pageable(self.here, entry),
            TargetStream::Hidden(_) if !self.is_inside => capture::check_synchronous(self.here),
            _ => return Ok(()),
        };
        checked.map_err(|error| Kind::Native(error.code).because(error.note.clone()))
    }

    /// Quirk F2 is about synchronous copies to a device.
    #[cold]
    fn note_upload(&self, plan: &Plan) {
        let is_synchronous = matches!(self.stream, TargetStream::Hidden(_));
        let is_upload = matches!(plan.route(), Route::HostToDevice { .. });
        if let (true, Ok(context)) = (is_synchronous && is_upload, self.here.context()) {
            capture::note_upload(self.here, context.handle);
        }
    }

    /// Frees memory that only the work that was just submitted needs: when that has passed, or with the graph
    /// that it was recorded in.
    pub(crate) fn free_behind(&self, base: usize) -> Result<()> {
        let runtime = &self.engine.runtime;
        if let Some(part) = self.captured() {
            part.entry.recording.keep(Box::new(GraphBuffer { runtime, base }));
        } else if let Some(update) = self.update() {
            update.keep(Box::new(GraphBuffer { runtime, base }));
        } else {
            runtime.free(base, |_| Ok(()))?;
        }
        Ok(())
    }

    pub(crate) fn stream(&self) -> &Arc<Stream> {
        match &self.stream {
            TargetStream::Given(entry) => &entry.stream,
            TargetStream::Hidden(stream) => stream,
            TargetStream::Over => unreachable!("only while it is dropped"),
        }
    }

    pub(crate) fn device(&self) -> u32 {
        self.stream().device()
    }

    /// Waits for the work up to `ticket` if the call must not return before it is done: a synchronous call,
    /// or one for which `waits` is true, such as one with pageable memory.
    #[inline]
    pub(crate) fn wait_if(&self, waits: bool, ticket: Ticket) -> Result<()> {
        match &self.stream {
            TargetStream::Hidden(stream) if self.here.is_watched() => wait_or_drop(self.here, stream),
            TargetStream::Hidden(stream) => Ok(stream.synchronize(None)?),
            // Not in slices: if a signal may end the call, what came before has passed, and this is under
            // way.
            TargetStream::Given(entry) if waits => Ok(entry.stream.so_far_with(ticket)?.wait(None)?),
            TargetStream::Given(_) | TargetStream::Over => Ok(()),
        }
    }

    /// Waits for what the stream has to do before this call, if a signal may end the call and `waits` says
    /// that it waits for its own work. So there is nothing to take back, from the middle of a stream, when a
    /// signal comes.
    #[inline]
    pub(crate) fn wait_before<E: From<ferry_core::Error>>(
        &self,
        waits: impl FnOnce(&Memory) -> Result<bool, E>,
    ) -> Result<(), E> {
        match &self.stream {
            TargetStream::Given(entry) if self.here.is_watched() => {
                let busy = !entry.stream.is_idle()?;
                if busy && waits(self.engine.runtime.memory())? {
                    let before = entry.stream.so_far()?;
                    interrupt::wait(self.here, None, |limit| before.wait(limit))?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Submits the copy that `plan` plans. Says for [`wait_if`](Self::wait_if) whether `waits` is true of the
    /// plan.
    ///
    /// # Safety
    /// What is planned stays valid until the copy is done.
    #[inline(always)]
    pub(crate) unsafe fn submit_plan<E: From<ferry_core::Error>>(
        &self,
        plan: impl Fn(&Memory) -> Result<Plan, E>,
        waits: impl Fn(&Plan) -> bool,
    ) -> Result<(bool, Ticket), E> {
        self.wait_before(|memory| plan(memory).map(|plan| waits(&plan)))?;
        let mut must_wait = false;
        // SAFETY: the caller's promise.
        let ticket = unsafe {
            self.stream().submit(|memory| {
                let plan = plan(memory)?;
                must_wait = waits(&plan);
                self.check_capture(plan.is_plain())?;
                if capture::any() {
                    self.note_upload(&plan);
                }
                Ok::<_, E>(Op::Copy(plan))
            })?
        };
        Ok((must_wait, ticket))
    }

    /// Copies one piece, and waits where the documents say so: for pageable memory.
    ///
    /// # Safety
    /// What `rows` names stays valid until the copy is done.
    #[inline]
    pub(crate) unsafe fn copy(
        &self,
        rows: Rows,
        fits: impl Fn(&Ends) -> ferry_core::Result<()>,
    ) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.copy_waiting_if(Plan::is_plain, rows, fits) }
    }

    /// As [`copy`](Self::copy), and waits if `waits` is true of the plan.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    #[inline]
    pub(crate) unsafe fn copy_waiting_if(
        &self,
        waits: impl Fn(&Plan) -> bool,
        rows: Rows,
        fits: impl Fn(&Ends) -> ferry_core::Result<()>,
    ) -> Result<()> {
        let plan = |memory: &Memory, rows| {
            Plan::new(Some(rows), memory, |_, ends| fits(ends)).map_err(|misfit| misfit.error)
        };
        if self.here.is_watched() && interrupt::is_large(&rows) {
            // SAFETY: the caller's promise.
            return unsafe { self.copy_large(rows, plan, waits) };
        }
        // SAFETY: the caller's promise.
        let (must_wait, ticket) = unsafe { self.submit_plan(|memory| plan(memory, rows), waits) }?;
        self.wait_if(must_wait, ticket)
    }

    /// Has signals handled between two pieces of a copy, if it can be cut.
    ///
    /// # Safety
    /// As [`copy`](Self::copy).
    #[cold]
    unsafe fn copy_large(
        &self,
        rows: Rows,
        plan: impl Fn(&Memory, Rows) -> ferry_core::Result<Plan>,
        waits: impl Fn(&Plan) -> bool,
    ) -> Result<()> {
        let whole = plan(self.engine.runtime.memory(), rows)?;
        let copy = |piece| {
            // SAFETY: the caller's promise, which holds for a part.
            let (must_wait, ticket) = unsafe { self.submit_plan(|memory| plan(memory, piece), &waits) }?;
            self.wait_if(must_wait, ticket)
        };
        if !self.can_be_cut(&whole, waits(&whole)) {
            return copy(rows);
        }
        interrupt::pieces(rows).try_for_each(|piece| {
            interrupt::ask(self.here)?;
            copy(piece)
        })
    }

    /// Whether a copy can be done in pieces, one after the other: if it is waited for, and its ends cannot
    /// overlap.
    fn can_be_cut(&self, plan: &Plan, must_wait: bool) -> bool {
        let waits = matches!(self.stream, TargetStream::Hidden(_)) || must_wait;
        waits && matches!(plan.route(), Route::HostToDevice { .. } | Route::DeviceToHost { .. })
    }
}

/// Waits for the hidden stream in slices. If a signal ends that, the rest of the copy is dropped: this
/// returns when no byte of it moves any more.
#[cold]
fn wait_or_drop(here: &Here, stream: &Stream) -> Result<()> {
    let waited = interrupt::wait(here, None, |limit| stream.synchronize(limit));
    if waited.as_ref().is_err_and(interrupt::is_interrupted) {
        stream.abort();
        // That the work was dropped is told here, and not to the next copy.
        drop(stream.status().take_error());
    }
    Ok(waited?)
}

/// Runs the body of a copy between two addresses, neither of them NULL; a refusal also says what they belong
/// to.
#[inline]
pub(crate) fn between(here: &Here, dst: usize, src: usize, body: impl FnOnce() -> Result<()>) -> Result<()> {
    let copied = not_null("dst", dst).and_then(|()| not_null("src", src)).and_then(|()| body());
    copied.map_err(|error| with_addresses(here, error, &[("dst", dst), ("src", src)]))
}

/// Refuses anything but the kind of copies inside one device.
pub(crate) fn inner_only(kind: i32) -> Result<()> {
    CopyKind::try_from(kind)?.only(&[CopyKind::InnerDeviceToDevice]).map(drop)
}
