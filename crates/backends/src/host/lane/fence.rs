//! Fences of a lane: "this lane has passed this ticket". A thread that waits for one first helps with the
//! work, then spins for a short time, then sleeps.

use super::{Lane, LaneState, Phase, pace::StepWatch};
use crate::{host::task::Milestone, pool::Job};
use ferry_core::{
    Fence, Kind, Mark, Point, Result, Status, Ticket,
    sync::{Arc, AtomicBool, AtomicU64, Condvar, MutexGuard, Ordering, lock},
};
use std::{
    any::Any,
    time::{Duration, Instant},
};

/// "This lane has passed this ticket", and, for a mark, when.
pub struct LaneFence {
    pub(super) lane: Arc<Lane>,
    pub(super) ticket: Ticket,
    /// Nanoseconds of the engine's clock, plus one; 0 until reached, and for ever if it is no mark or was
    /// dropped.
    reached: AtomicU64,
    failed: AtomicBool,
}

impl LaneFence {
    /// A fence of this lane.
    pub(super) fn new(lane: Arc<Lane>, ticket: Ticket) -> Arc<LaneFence> {
        Arc::new(LaneFence { lane, ticket, reached: AtomicU64::new(0), failed: AtomicBool::new(false) })
    }

    /// Whether the work has passed. Does not let kept-back work run.
    fn has_passed(&self) -> bool {
        self.lane.status.passed() >= self.ticket
    }

    /// When the lane came to this mark, on the engine's clock; `None` if it did not, or if this is no mark.
    fn nanos(&self) -> Option<u64> {
        if !self.has_passed() {
            return None;
        }
        self.reached.load(Ordering::Relaxed).checked_sub(1)
    }

    fn park(&self, deadline: Option<Instant>, seen: &mut Option<StepWatch>) {
        let lane = &self.lane;
        let mut state = lock(&lane.state);
        state.waiting.sleep(self.ticket);
        lane.want(&state);
        let is_theirs = state.phase != Phase::Ready || !lane.takes_helpers();
        if !self.has_passed() && is_theirs && !lane.wants_help() {
            let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            state = wait_on(&lane.wake, state, lane.pace_sleep(limit));
        }
        state.waiting.wake(self.ticket);
        lane.signs.wanted.store(state.waiting.wanted(), Ordering::Relaxed);
        drop(state);
        lane.pace_slept(seen);
    }
}

fn wait_on<'a>(
    wake: &Condvar,
    state: MutexGuard<'a, LaneState>,
    limit: Option<Duration>,
) -> MutexGuard<'a, LaneState> {
    match limit {
        None => wake.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner()),
        Some(limit) => wake.wait_timeout(state, limit).unwrap_or_else(|poisoned| poisoned.into_inner()).0,
    }
}

impl Milestone for LaneFence {
    fn reach(&self, status: &Status) {
        self.failed.store(status.has_failed(), Ordering::Relaxed);
        self.reached.store(self.lane.engine.nanos() + 1, Ordering::Relaxed);
    }
}

impl Fence for LaneFence {
    fn is_done(&self) -> bool {
        if self.has_passed() {
            return true;
        }
        self.lane.pace_query(self.ticket);
        self.has_passed()
    }

    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        if !self.has_passed() {
            self.lane.pace_wait(self.ticket);
        }
        let mut seen = None;
        loop {
            if self.has_passed() {
                self.lane.pace_waited();
                return Ok(());
            }
            self.lane.engine.fork.is_no_child()?;
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(Kind::Timeout.because("the work was not done in time"));
            }
            let lane = &self.lane;
            if lane.help(self.ticket, deadline) || lane.help_owner(deadline) || lane.help_blocker(deadline) {
                continue;
            }
            if !lane.spin_near(self.ticket, deadline) {
                self.park(deadline, &mut seen);
            }
        }
    }

    fn when_done(&self, then: Job) {
        if self.has_passed() {
            return then();
        }
        let lane = &self.lane;
        let mut state = lock(&lane.state);
        // A lane that has come to rest has no new watchers of what it has done.
        if self.has_passed() {
            drop(state);
            return then();
        }
        state.waiting.watch(self.ticket, then);
        lane.want(&state);
        drop(state);
        lane.demand(self.ticket);
        if self.has_passed() {
            // It may have passed before anybody could see that it is wanted.
            lane.announce();
        }
    }

    fn point(&self) -> Option<Point> {
        self.lane.status.point(self.ticket)
    }

    fn native(&self) -> &dyn Any {
        self
    }
}

impl Mark for LaneFence {
    fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    fn reached_us(&self) -> Option<u64> {
        Some(self.nanos()? / 1000)
    }

    fn elapsed_ms(&self, since: &dyn Mark) -> Option<f64> {
        let since = since.native().downcast_ref::<LaneFence>()?;
        Some((self.nanos()? as f64 - since.nanos()? as f64) / 1e6)
    }
}
