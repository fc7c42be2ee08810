//! Coalescing of one queue: small copies are taken into a window when they are submitted, and put into the
//! stream together.
//!
//! To submit one takes the spin lock of the window alone. What is put into the stream otherwise is sent
//! behind what is in the window: the lane takes that out first, and meanwhile the window fills again.

use crate::bytes::overlap::is_overlapping;
use crate::cuda::{
    coalesce::sender::{Coalesces, Sender},
    descriptors::copies::DescriptorCopies,
    descriptors::late_bound::LateBoundCopy,
    order::lane::Lane,
    order::task::{BacklogEnd, LaunchTurn, Next, Task, WaitingWork},
    order::window::{DescriptorOp, Offered, RunKind, Window},
    stream::{Stream, copies, planner::Direction},
};
use ferry_core::{Indirect, Plan, Result, Route, Segment, Ticket, sync::Arc};

/// Submits copies to a lane by way of its window.
pub struct Coalescer {
    lane: Arc<Lane>,
    descriptors: Arc<DescriptorCopies>,
    sender: Arc<Sender<Lane>>,
}

impl Coalesces for Lane {
    fn window(&self) -> &Window {
        &self.window
    }

    fn try_send(self: &Arc<Self>) -> usize {
        self.try_flush()
    }
}

impl Coalescer {
    /// For a lane and its copies through descriptors; `sender` sends what is in its window.
    pub fn new(lane: Arc<Lane>, descriptors: Arc<DescriptorCopies>, sender: Arc<Sender<Lane>>) -> Coalescer {
        Coalescer { lane, descriptors, sender }
    }

    /// A copy whose addresses are read when it runs, as a task.
    pub fn late_bound(&self, late: Indirect) -> LateBoundCopy {
        LateBoundCopy { late, descriptors: self.descriptors.clone() }
    }

    /// Submits a small copy: takes it into the window if there is something to wait for. It is sent soon,
    /// whatever its submitter does next.
    #[inline(always)]
    pub fn submit_small(
        &self,
        direction: Direction,
        segment: Segment,
        plan: impl FnOnce() -> Plan,
    ) -> Ticket {
        let offer = || {
            self.lane.window.offer(
                RunKind::Copies(direction),
                || self.lane.progress.passed(),
                |run, ticket| run.add(ticket, direction, segment),
            )
        };
        self.offered(offer)
            .unwrap_or_else(|| self.lane.submit(SmallCopy { direction, segment, plan: plan() }))
    }

    /// Submits a copy through a descriptor at `at`, which the GPU is to read, in the same way.
    pub fn submit_descriptor(&self, at: usize, late: Indirect) -> Ticket {
        let key = self.descriptors.seal_key();
        let offer = || {
            // Expected before it can be sent.
            let mut in_flight = self.descriptors.in_flight();
            self.lane.window.offer(
                RunKind::Descriptors,
                || self.lane.progress.passed(),
                |run, ticket| {
                    run.add_descriptor(DescriptorOp { ticket, at, key });
                    in_flight.add(ticket, at, late);
                },
            )
        };
        self.offered(offer).unwrap_or_else(|| self.lane.submit(self.late_bound(late)))
    }

    #[inline(always)]
    fn offered(&self, mut offer: impl FnMut() -> Offered) -> Option<Ticket> {
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
    fn ask_sender(&self) {
        let pool = &self.lane.stream().device().pool;
        if self.lane.is_idle() || !self.sender.watch(pool, self.lane.clone()) {
            self.lane.window.stop_polling();
        }
    }
}

/// A small copy that was not taken into the window.
struct SmallCopy {
    direction: Direction,
    segment: Segment,
    /// What it was submitted as.
    plan: Plan,
}

impl Task for SmallCopy {
    fn launch(mut self, turn: &LaunchTurn<'_>) -> Result<Next> {
        copies::copy(turn.stream(), turn.current, &mut self.plan).map(|()| Next::Follows)
    }

    fn park(self, end: BacklogEnd<'_>) -> Option<WaitingWork> {
        let (SmallCopy { direction, segment, .. }, ticket) = (self, end.ticket);
        end.join(RunKind::Copies(direction), |run| run.add(ticket, direction, segment))
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
