//! The coalescing window: small copies that are kept back for some microseconds, to be sent as one. It knows
//! nothing of CUDA.
//!
//! A [`Window`] takes copies in the order they are submitted; what leaves it is a [`Run`], cut into portions
//! whose copies may be done side by side: where a copy has a hazard with an earlier one the next portion
//! begins, and portions are done one after the other. Copies through descriptors are runs of their own, since
//! their addresses are not known yet.

use crate::bytes::{
    hazards::{are_independent, hazards},
    overlap::is_overlapping,
};
use crate::cuda::{
    order::spin_lock::{Lock, acquire},
    stream::planner::Direction,
};
use ferry_core::{
    Segment, Ticket,
    sync::{AtomicU64, CachePadded, Ordering},
};
use std::{iter, mem};

/// After so many copies of a busy queue that were not coalesced the sender is asked to poll its window:
/// there may be many more.
pub const MISSES_BEFORE_SENDER: u32 = 4;
/// A window with so many copies or bytes is sent, however much the GPU has to do.
const SEND_AT: (usize, usize) = (512, 2 << 20);
/// At this size the submitter sends it: the sender is late.
const SUBMITTER_SENDS_AT: (usize, usize) = (768, 4 << 20);
/// A window takes no more than this.
const WINDOW_MAX: (usize, usize) = (1024, 16 << 20);
/// A run that waits in a backlog takes no more than this: there is time to make it longer.
const BACKLOG_MAX: (usize, usize) = (4096, 256 << 20);

/// A copy through a descriptor that the GPU will read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DescriptorOp {
    /// Its ticket.
    pub ticket: Ticket,
    /// Where the descriptor is.
    pub at: usize,
    /// What it must be sealed with.
    pub key: u64,
}

/// What a run consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunKind {
    /// Copies in one direction.
    Copies(Direction),
    /// Copies through descriptors.
    Descriptors,
}

/// Copies of one kind, submitted one after the other with nothing in between.
#[derive(Debug, Default)]
pub struct Run {
    kind: Option<RunKind>,
    first: Ticket,
    count: usize,
    bytes: usize,
    segments: Vec<Segment>,
    descriptors: Vec<DescriptorOp>,
}

impl Run {
    /// A run that uses the memory of a list that is done with.
    fn reusing(mut segments: Vec<Segment>) -> Run {
        segments.clear();
        Run { segments, ..Run::default() }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The ticket of its first copy.
    pub fn first(&self) -> Ticket {
        self.first
    }

    /// The ticket of its last copy.
    pub fn last(&self) -> Ticket {
        self.first + self.count as Ticket - 1
    }

    /// How many copies there are.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.count
    }

    /// What they are, unless there are none.
    pub fn kind(&self) -> Option<RunKind> {
        self.kind
    }

    /// How many bytes they have; those of descriptors are not known.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The copies through descriptors.
    pub fn descriptors(&self) -> &[DescriptorOp] {
        &self.descriptors
    }

    /// Leaves out the first segments, which are on their way.
    pub fn leave_out(&mut self, segments: usize) {
        self.segments.drain(..segments);
    }

    /// The list, to be used again.
    fn into_list(self) -> Vec<Segment> {
        self.segments
    }

    fn reaches(&self, size: (usize, usize)) -> bool {
        self.count >= size.0 || self.bytes >= size.1
    }

    /// Whether a copy of this kind, the next after the last one here, may wait in a backlog with those.
    pub fn has_room(&self, kind: RunKind) -> bool {
        self.has_room_up_to(BACKLOG_MAX, kind)
    }

    #[inline]
    fn has_room_up_to(&self, most: (usize, usize), kind: RunKind) -> bool {
        self.is_empty() || self.kind == Some(kind) && !self.reaches(most)
    }

    /// Adds the copy `ticket`, for which there is room. Its two ends do not overlap.
    #[inline]
    pub fn add(&mut self, ticket: Ticket, direction: Direction, copy: Segment) {
        self.begin_or_go_on(ticket, RunKind::Copies(direction), copy.len);
        match self.segments.last_mut() {
            Some(last) if continues(last, &copy) => last.len += copy.len,
            _ => {
                self.segments.push(copy);
                own_soon(self.segments.as_ptr().wrapping_add(self.segments.len() + PREFETCH_AHEAD));
            }
        }
    }

    /// Adds a copy through a descriptor, for which there is room.
    pub fn add_descriptor(&mut self, op: DescriptorOp) {
        self.begin_or_go_on(op.ticket, RunKind::Descriptors, 1);
        self.descriptors.push(op);
    }

    #[inline]
    fn begin_or_go_on(&mut self, ticket: Ticket, kind: RunKind, bytes: usize) {
        if self.is_empty() {
            (self.first, self.kind) = (ticket, Some(kind));
        }
        self.count += 1;
        self.bytes += bytes;
    }

    /// The copies in portions to be done one after the other; those of one portion are independent.
    pub fn portions(&self) -> impl Iterator<Item = &[Segment]> {
        let mut ends =
            if are_independent(&self.segments, iter::empty()) { Vec::new() } else { hazards(&self.segments) };
        ends.push(self.segments.len());
        let mut from = 0;
        ends.into_iter().map(move |end| &self.segments[mem::replace(&mut from, end)..end])
    }
}

/// How many segments ahead of the one that is written the processor fetches memory.
const PREFETCH_AHEAD: usize = 8;

/// The sender has read the memory of the list, and it is about to be written again: the processor fetches it
/// for that in time.
#[inline]
fn own_soon(segment: *const Segment) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, which changes nothing whatever the address is.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) segment, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = segment;
}

/// Whether `next` goes on where `last` ends, on both sides, and the two are one copy whose ends do not
/// overlap. If they did the second would read what the first writes.
fn continues(last: &Segment, next: &Segment) -> bool {
    let touches = last.dst + last.len == next.dst && last.src + last.len == next.src;
    touches && !is_overlapping(last.dst, last.src, last.len + next.len)
}

/// The copies of a lane that wait to be sent as one, and the tickets of the lane.
#[derive(Debug, Default)]
struct WindowState {
    run: Run,
    /// The list of a run that was sent, to be used again.
    spare: Vec<Segment>,
    /// The newest ticket of the lane.
    last: Ticket,
    /// Whether copies are taken.
    open: bool,
    /// Whether the sender was asked to poll this window.
    is_requested: bool,
    /// Whether the sender polls this window. Nothing is coalesced before: a thread that sleeps may take long
    /// to wake.
    is_polled: bool,
    /// Copies since the queue was idle, or seemed so, that could have been coalesced with the one before.
    missed: u32,
    /// The ticket of the last copy that was offered.
    last_copy: Ticket,
}

/// What became of a copy that was offered to a window.
#[derive(Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is in the window.
    Yes {
        /// The ticket that it got.
        ticket: Ticket,
        /// Whether its submitter has to send the window, unless another thread is about to.
        must_send: bool,
    },
    /// It is not in the window, and goes straight into the stream.
    No {
        /// Whether the sender is to be asked to poll the window.
        asks_sender: bool,
    },
    /// There is no room for it before what is in the window has left it.
    Full,
}

/// A window, and what can be seen of it without a lock.
#[derive(Default)]
pub struct Window {
    window: CachePadded<Lock<WindowState>>,
    /// See [`WindowView`].
    view: CachePadded<AtomicU64>,
}

/// What can be seen of a window without its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowView {
    /// There is nothing in it.
    Empty,
    /// There are copies in it, which wait to be sent.
    Waiting {
        /// The ticket of the first copy.
        first: Ticket,
        /// Whether there is enough to be sent at once.
        is_due: bool,
    },
}

impl Window {
    /// A closed window, which takes no copies and whose next ticket is the one after `last`.
    pub fn after(last: Ticket) -> Window {
        Window {
            window: CachePadded(Lock::new(WindowState { last, ..WindowState::default() })),
            ..Window::default()
        }
    }

    /// Offers the next copy of a lane that has passed `passed`; `add` adds it to the run, with the ticket
    /// that it gets.
    #[inline]
    pub fn offer(
        &self,
        kind: RunKind,
        passed: impl FnOnce() -> Ticket,
        add: impl FnOnce(&mut Run, Ticket),
    ) -> Offered {
        let mut window = acquire(&self.window);
        if !window.open || !window.is_polled {
            return Offered::No { asks_sender: window.open && window.miss(passed()) };
        }
        if !window.run.has_room_up_to(WINDOW_MAX, kind) {
            return Offered::Full;
        }
        window.last += 1;
        let ticket = window.last;
        window.last_copy = ticket;
        add(&mut window.run, ticket);
        self.show(&window.run);
        Offered::Yes { ticket, must_send: window.run.reaches(SUBMITTER_SENDS_AT) }
    }

    /// Counts an op that is not coalesced, and comes behind all that was.
    pub fn count(&self) -> Ticket {
        let mut window = acquire(&self.window);
        debug_assert!(window.run.is_empty(), "sent first");
        window.last += 1;
        window.last
    }

    /// Takes out what is in it, if there is anything.
    pub fn take(&self) -> Option<Run> {
        let mut window = acquire(&self.window);
        if window.run.is_empty() {
            return None;
        }
        let list = mem::take(&mut window.spare);
        let run = mem::replace(&mut window.run, Run::reusing(list));
        self.show(&window.run);
        Some(run)
    }

    /// Gives back the list of a run that was sent, for copies to come.
    pub fn recycle(&self, run: Run) {
        let list = run.into_list();
        // Another one that is there is freed after the lock is.
        let _other = mem::replace(&mut acquire(&self.window).spare, list);
    }

    /// From here on copies are taken, or not.
    pub fn set_open(&self, open: bool) {
        acquire(&self.window).open = open;
    }

    /// What can be seen from outside. May be late by what others do now.
    pub fn view(&self) -> WindowView {
        match self.view.load(Ordering::Relaxed) {
            0 => WindowView::Empty,
            seen => WindowView::Waiting { first: seen >> 1, is_due: seen & 1 == 1 },
        }
    }

    /// The sender polls the window from now on.
    pub fn start_polling(&self) {
        acquire(&self.window).is_polled = true;
    }

    /// The sender polls the window no more, or need not: there are not so many copies. False if it must,
    /// since there is something in the window.
    pub fn stop_polling(&self) -> bool {
        let mut window = acquire(&self.window);
        window.is_requested = !window.run.is_empty();
        window.is_polled = window.is_requested;
        window.missed = 0;
        !window.is_requested
    }

    fn show(&self, run: &Run) {
        let seen = if run.is_empty() { 0 } else { run.first << 1 | u64::from(run.reaches(SEND_AT)) };
        // Written seldom: each store takes the cache line from the thread that polls.
        if self.view.load(Ordering::Relaxed) != seen {
            self.view.store(seen, Ordering::Relaxed);
        }
    }
}

impl WindowState {
    /// A copy is not coalesced, and gets the next ticket. Says whether the sender is to be asked for those
    /// that follow. Where something else comes behind each copy, and sends it, there is nothing to gather.
    fn miss(&mut self, passed: Ticket) -> bool {
        let in_a_row = u32::from(self.last_copy == self.last);
        self.missed = if passed >= self.last { 0 } else { self.missed + in_a_row };
        self.last_copy = self.last + 1;
        let asks = self.missed >= MISSES_BEFORE_SENDER && !self.is_requested;
        self.is_requested |= asks;
        asks
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
