//! Coalescing of one queue: small copies are taken into a window when they are submitted, and put into the
//! stream together.
//!
//! To submit one takes the spin lock of the window alone. What is put into the stream otherwise is sent
//! behind what is in the window: the lane takes that out first, through [`Intake`], and meanwhile the window
//! fills again.

use crate::bytes::overlap::is_overlapping;
use crate::cuda::{
    coalesce::runs::{RunParts, SmallCopy},
    coalesce::sender::{Coalesces, Sender},
    coalesce::window::{Offered, RunKind, Window},
    descriptors::copies::DescriptorCopies,
    descriptors::growing_list::DescriptorOp,
    order::intake::{CoalescedWork, Intake},
    order::lane::Lane,
    stream::{Stream, StreamKind, planner::Direction},
};
use ferry_core::{Indirect, Plan, Route, Segment, Ticket, sync::Arc};

/// The window of one lane.
pub struct Coalescing {
    /// Whether the window takes copies at all: not where each is waited for, nor in a stream that others
    /// share.
    may_open: bool,
    parts: Arc<RunParts>,
}

impl Coalescing {
    /// A window for a stream of this kind. The ticket after `last` is the next one.
    pub fn new(kind: StreamKind, last: Ticket, descriptors: Arc<DescriptorCopies>) -> Arc<Coalescing> {
        let parts = Arc::new(RunParts { descriptors, window: Window::after(last) });
        Arc::new(Coalescing { may_open: kind == StreamKind::Own, parts })
    }
}

impl Intake for Coalescing {
    fn count(&self) -> Ticket {
        self.parts.window.count()
    }

    fn take(&self) -> Option<CoalescedWork> {
        let run = self.parts.window.take()?;
        let (first, bytes) = (run.first(), run.bytes());
        Some(CoalescedWork { first, bytes, work: self.parts.task(run) })
    }

    fn set_open(&self, is_open: bool) {
        self.parts.window.set_open(is_open && self.may_open);
    }
}

/// Submits copies to a lane by way of its window.
pub struct Coalescer {
    lane: Arc<Lane>,
    coalescing: Arc<Coalescing>,
    sender: Arc<Sender<Coalescer>>,
}

impl Coalesces for Coalescer {
    fn window(&self) -> &Window {
        &self.coalescing.parts.window
    }

    fn try_send(self: &Arc<Self>) -> usize {
        self.lane.try_flush()
    }
}

impl Coalescer {
    /// For a lane whose intake is this window; `sender` sends what is in it.
    pub fn new(
        lane: Arc<Lane>,
        coalescing: Arc<Coalescing>,
        sender: Arc<Sender<Coalescer>>,
    ) -> Arc<Coalescer> {
        Arc::new(Coalescer { lane, coalescing, sender })
    }

    /// What the runs of this window share.
    pub fn parts(&self) -> &Arc<RunParts> {
        &self.coalescing.parts
    }

    /// Submits a small copy: takes it into the window if there is something to wait for. It is sent soon,
    /// whatever its submitter does next.
    #[inline(always)]
    pub fn submit_small(
        self: &Arc<Self>,
        direction: Direction,
        segment: Segment,
        plan: impl FnOnce() -> Plan,
    ) -> Ticket {
        let offer = || {
            self.window().offer(
                RunKind::Copies(direction),
                || self.lane.progress.passed(),
                |run, ticket| run.add(ticket, direction, segment),
            )
        };
        self.offered(offer).unwrap_or_else(|| {
            let parts = self.parts().clone();
            self.lane.submit(SmallCopy { direction, segment, plan: plan(), parts })
        })
    }

    /// Submits a copy through a descriptor at `at`, which the GPU is to read, in the same way.
    pub fn submit_descriptor(self: &Arc<Self>, at: usize, through: Box<Indirect>) -> Ticket {
        let mut left = Some(through);
        let take = |left: &mut Option<Box<Indirect>>| left.take().expect("it is added once");
        let offer = || {
            // Expected before it can be sent.
            let mut in_flight = self.parts().descriptors.in_flight();
            self.window().offer(
                RunKind::Descriptors,
                || self.lane.progress.passed(),
                |run, ticket| {
                    let through = take(&mut left);
                    run.add_descriptor(DescriptorOp { ticket, at, key: through.resolver.seal_key() });
                    in_flight.add(ticket, at, through);
                },
            )
        };
        let offered = self.offered(offer);
        offered.unwrap_or_else(|| self.lane.submit(self.parts().late_bound(take(&mut left))))
    }

    #[inline(always)]
    fn offered(self: &Arc<Self>, mut offer: impl FnMut() -> Offered) -> Option<Ticket> {
        loop {
            match offer() {
                Offered::Yes { ticket, must_send } => {
                    if must_send {
                        self.lane.try_flush();
                    }
                    return Some(ticket);
                }
                Offered::Full => self.lane.flush(),
                Offered::No { asks_sender } => {
                    if asks_sender {
                        self.ask_sender();
                    }
                    return None;
                }
            }
        }
    }

    /// Many copies seem to be in the stream; but its progress may not have been asked for lately.
    #[cold]
    fn ask_sender(self: &Arc<Self>) {
        let pool = &self.lane.stream().device().pool;
        if self.lane.is_idle() || !self.sender.watch(pool, self.clone()) {
            self.window().stop_polling();
        }
    }
}

/// A copy that may be coalesced: one small row between memory that is known and in reach, with ends that do
/// not overlap.
#[inline(always)]
pub fn small(stream: &Stream, plan: &Plan) -> Option<(Direction, Segment)> {
    plan.pieces()
        .one_row()
        .filter(|_| !plan.is_plain())
        .and_then(|segment| small_segment(stream, segment, plan.route()))
}

/// As [`small`], for one row between memory that is known.
#[inline(always)]
pub fn small_segment(stream: &Stream, segment: Segment, route: Route) -> Option<(Direction, Segment)> {
    let direction = stream.direction(route);
    let Segment { dst, src, len } = segment;
    let is_small = len <= stream.device().constants.gather_most;
    let fits = is_small && direction != Direction::Across && !is_overlapping(dst, src, len);
    fits.then_some((direction, segment))
}
