//! How memory is lent to a copy, for streams and for scopes. Submitting through this crate costs what the
//! core's own call costs, or little more, and less where the core has a short way:
//! `cargo bench -p ferry --bench submit`.

use super::{Stream, foreign};
use crate::{
    Batch, Failed, InFlight, Result,
    batch::HostPool,
    extent::{Direction, Extent, KEY, join},
    memory::{HostRead, OnDevice},
    pending::PendingUses,
};
use ferry_core::{Fence, Memory, Misfit, Op, Plan, Rows, Stream as CoreStream, Ticket};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// What is written down under the stream's lock when an op is handed over.
#[derive(Clone, Copy)]
pub(crate) struct Tally<'a> {
    /// The op is the first of its stream that uses the memory: its token is to hold the stream.
    is_first: bool,
    /// The scope that has to wait for the op.
    notes: Option<&'a Notes>,
}

impl Tally<'_> {
    #[inline]
    fn write_down(&self, ticket: Ticket) {
        if let Some(notes) = self.notes {
            notes.add(ticket);
        }
    }
}

/// The first and the last op of something.
pub(crate) struct Notes {
    first: AtomicU64,
    last: AtomicU64,
}

impl Notes {
    pub(crate) fn new() -> Notes {
        Notes { first: AtomicU64::new(Ticket::MAX), last: AtomicU64::new(0) }
    }

    /// Adds an op. Under the stream's lock, so no other thread writes meanwhile, and tickets only grow.
    #[inline]
    pub(crate) fn add(&self, ticket: Ticket) {
        if self.last.load(Ordering::Relaxed) == 0 {
            self.first.store(ticket, Ordering::Relaxed);
        }
        self.last.store(ticket, Ordering::Relaxed);
    }

    pub(crate) fn span(&self) -> Option<(Ticket, Ticket)> {
        let (first, last) = (self.first.load(Ordering::Relaxed), self.last.load(Ordering::Relaxed));
        (last > 0).then_some((first, last))
    }
}

impl Stream {
    /// Copies between a device and what `host` keeps.
    ///
    /// # Safety
    /// The memory of `host` stays valid, and is not accessed in a way that the copy would notice, until the
    /// copy has passed: whatever becomes of the token.
    #[inline(always)]
    pub(crate) unsafe fn lend<D, S>(
        &self,
        way: Direction,
        device: D,
        mut host: S,
        notes: Option<&Notes>,
    ) -> Result<InFlight<S::Buffer>, Failed<S>>
    where
        D: OnDevice<Elem = S::Elem>,
        S: HostRead,
    {
        let tally = self.tally(host.pending(KEY), notes);
        // SAFETY: the caller's promise.
        match unsafe { self.try_lend(way, &device, &mut host, tally) } {
            Ok(ticket) => {
                let mut stream = self.for_token(tally);
                host.go_on(&mut stream, ticket, KEY);
                Ok(host.fly(stream, ticket, KEY))
            }
            Err(error) => Err(Failed { error, buffer: host }),
        }
    }

    /// # Safety
    /// As `lend`.
    #[inline(always)]
    unsafe fn try_lend<D: OnDevice, S: HostRead>(
        &self,
        way: Direction,
        device: &D,
        host: &mut S,
        tally: Tally<'_>,
    ) -> Result<Ticket> {
        let (far, near) = (device.extent(KEY), host.extent(KEY)?);
        self.is_ours(&far)?;
        self.is_ours(&near)?;
        let (to, from) = match way {
            Direction::Up => (&far, &near),
            Direction::Down => (&near, &far),
        };
        let is_elsewhere = host.pending(KEY).is_some_and(|pending| !pending.is_only_of(&self.inner.core));
        if is_elsewhere || !to.is_like(from) {
            // SAFETY: the caller's promise.
            return unsafe { self.lend_slowly(way, device, host, tally) };
        }
        let (size, cols, rows) = (size_of::<S::Elem>(), to.cols, to.rows);
        if rows <= 1 || cols == 0 {
            // SAFETY: the caller's promise.
            return unsafe { self.submit_linear(to.addr, from.addr, rows * cols * size, tally) };
        }
        let rows = Rows {
            dst: to.addr,
            dst_pitch: to.pitch * size,
            src: from.addr,
            src_pitch: from.pitch * size,
            width: cols * size,
            height: rows,
        };
        // SAFETY: the caller's promise.
        unsafe { self.submit_rows(&rows, tally) }
    }

    /// Copies between shapes that differ, if that can be done, and what other streams use. Asks again where
    /// the two lie: what is handed over in memory would have to be written there by every copy.
    ///
    /// # Safety
    /// As `lend`.
    #[inline(never)]
    unsafe fn lend_slowly<D: OnDevice, S: HostRead>(
        &self,
        way: Direction,
        device: &D,
        host: &mut S,
        tally: Tally<'_>,
    ) -> Result<Ticket> {
        let (far, near) = (device.extent(KEY), host.extent(KEY)?);
        let rows = match way {
            Direction::Up => join(far, near, size_of::<S::Elem>())?,
            Direction::Down => join(near, far, size_of::<S::Elem>())?,
        };
        let before = self.elsewhere(host.pending(KEY));
        let make = |memory: &Memory| {
            Plan::new(Some(rows), memory, |_, _| Ok(())).and_then(locked).map(|op| behind(&before, op))
        };
        // SAFETY: the caller's promise.
        unsafe { self.hand_over(make, tally) }.map_err(|misfit| misfit.error)
    }

    /// Copies the pieces of a batch.
    ///
    /// # Safety
    /// As `lend`.
    pub(crate) unsafe fn lend_batch<'d, H: HostPool>(
        &self,
        way: Direction,
        mut batch: Batch<'d, H>,
        notes: Option<&Notes>,
    ) -> Result<InFlight<H::Buffer>, Failed<Batch<'d, H>>> {
        let tally = self.tally(batch.host().pending(KEY), notes);
        // SAFETY: the caller's promise.
        match unsafe { self.try_lend_batch(way, &mut batch, tally) } {
            Ok(ticket) => Ok(batch.into_host().fly(self.for_token(tally), ticket, KEY)),
            Err(error) => Err(Failed { error, buffer: batch }),
        }
    }

    /// # Safety
    /// As `lend`.
    unsafe fn try_lend_batch<H: HostPool>(
        &self,
        way: Direction,
        batch: &mut Batch<'_, H>,
        tally: Tally<'_>,
    ) -> Result<Ticket> {
        batch.host_mut().check(KEY)?;
        batch.owners().try_for_each(|owner| self.is_ours(&Extent::linear(0, 0, owner)))?;
        let before = self.elsewhere(batch.host().pending(KEY));
        let make = |memory: &Memory| {
            let plan = batch.plan(way, memory);
            plan.and_then(locked).map(|op| behind(&before, op))
        };
        // SAFETY: the caller's promise.
        unsafe { self.hand_over(make, tally) }.map_err(|misfit| batch.refusal(misfit))
    }

    /// What a copy has to wait for that takes over what `before` uses.
    fn elsewhere(&self, before: Option<&PendingUses>) -> Vec<Arc<dyn Fence>> {
        before.map_or_else(Vec::new, |before| before.elsewhere(&self.inner.core))
    }

    /// What an op needs whose memory `before` uses.
    #[inline]
    fn tally<'a>(&self, before: Option<&PendingUses>, notes: Option<&'a Notes>) -> Tally<'a> {
        Tally { is_first: !before.is_some_and(|before| before.is_of(&self.inner.core)), notes }
    }

    /// Submits, and writes down what `tally` asks for.
    ///
    /// # Safety
    /// As `CoreStream::submit`.
    #[inline]
    unsafe fn hand_over(
        &self,
        make: impl FnMut(&Memory) -> Result<Op, Misfit>,
        tally: Tally<'_>,
    ) -> Result<Ticket, Misfit> {
        // SAFETY: the caller's promise.
        unsafe { self.core().submit_then(make, |ticket| tally.write_down(ticket)) }
    }

    /// The stream, for a token that does not hold it yet.
    #[inline]
    fn for_token(&self, tally: Tally<'_>) -> Option<Arc<CoreStream>> {
        tally.is_first.then(|| self.core().clone())
    }

    /// As `submit`, of page-locked memory only.
    ///
    /// # Safety
    /// As `submit`.
    // The numbers travel in registers; a rectangle would be copied.
    #[inline(never)]
    unsafe fn submit_linear(&self, dst: usize, src: usize, len: usize, tally: Tally<'_>) -> Result<Ticket> {
        let write_down = |ticket| tally.write_down(ticket);
        // SAFETY: the caller's promise. There are no rules for what is known.
        if let Some(ticket) = unsafe { self.core().submit_linear((dst, src, len), 0, |_| true, write_down) } {
            return Ok(ticket);
        }
        let rows = || Some(Rows::linear(dst, src, len));
        let make = |memory: &Memory| Plan::new(rows(), memory, |_, _| Ok(())).and_then(locked);
        // SAFETY: the caller's promise.
        unsafe { self.hand_over(make, tally) }.map_err(|misfit| misfit.error)
    }

    /// As `submit_linear`, with rows.
    ///
    /// # Safety
    /// As `submit`.
    #[inline(never)]
    unsafe fn submit_rows(&self, rows: &Rows, tally: Tally<'_>) -> Result<Ticket> {
        let &Rows { dst, dst_pitch, src, src_pitch, width, height } = rows;
        let rows = || Some(Rows { dst, dst_pitch, src, src_pitch, width, height });
        let make = |memory: &Memory| Plan::new(rows(), memory, |_, _| Ok(())).and_then(locked);
        // SAFETY: the caller's promise.
        unsafe { self.hand_over(make, tally) }.map_err(|misfit| misfit.error)
    }
}

/// The op of a plan without plain memory. Plain is what a runtime does not know: memory of another one.
#[inline]
fn locked(plan: Plan) -> Result<Op, Misfit> {
    if plan.is_plain() { Err(foreign().into()) } else { Ok(Op::Copy(plan)) }
}

/// The op, when the fences are done.
#[inline]
fn behind(fences: &[Arc<dyn Fence>], op: Op) -> Op {
    if fences.is_empty() { op } else { Op::After(Box::new((fences.to_vec(), op))) }
}
