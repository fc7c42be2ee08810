//! A lane under a schedule: what it keeps back, and who lets it go. Without a schedule nothing here is
//! reached but [`Lane::is_due`], one branch.

use super::{Lane, LaneState, Phase};
use crate::host::{
    pacer::{PacedQueue, Pacer, STALLED},
    task::Task,
};
use ferry_core::{
    Fence, Ticket,
    sync::{Arc, AtomicU64, MutexGuard, Ordering, lock},
};
use std::time::{Duration, Instant};

/// What a lane has that keeps work back.
pub(super) struct LanePace {
    pub(super) pacer: Arc<Pacer>,
    /// Work up to this ticket runs.
    demanded: AtomicU64,
}

/// What a thread that waits has seen of the steps of work.
pub(super) struct StepWatch {
    steps: u64,
    /// When it saw that number first.
    since: Instant,
}

impl LanePace {
    pub(super) fn new(pacer: Arc<Pacer>) -> LanePace {
        LanePace { pacer, demanded: AtomicU64::new(0) }
    }
}

impl Lane {
    /// Whether work may run now, if there is any.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.pace.as_ref().is_none_or(|pace| pace.demanded.load(Ordering::SeqCst) > self.status.passed())
    }

    /// Whether threads that wait may run this lane themselves. Under `shuffle` the one worker does.
    pub(super) fn takes_helpers(&self) -> bool {
        self.pace.as_ref().is_none_or(|pace| !pace.pacer.shuffles())
    }

    /// Has the work up to `ticket` run. In a forked child no lock is taken: nobody would release it.
    pub(super) fn demand(self: &Arc<Self>, ticket: Ticket) {
        let Some(pace) = &self.pace else { return };
        if self.engine.fork.is_child() || pace.demanded.fetch_max(ticket, Ordering::SeqCst) >= ticket {
            return;
        }
        let state = lock(&self.state);
        if state.phase == Phase::Ready {
            self.make_ready(state);
        }
    }

    /// A task was added to the list: the pacer says what runs now.
    #[cold]
    pub(super) fn push_paced(self: &Arc<Self>, state: MutexGuard<'_, LaneState>, ticket: Ticket) {
        let Some(pace) = &self.pace else { return };
        let is_function = state.work.back().is_some_and(Task::is_function);
        match state.phase {
            Phase::Idle => self.make_ready(state),
            _ => drop(state),
        }
        let (kept, _) = self.kept();
        if let Some(upto) = pace.pacer.demanded(ticket, kept, is_function) {
            self.demand(upto);
        }
        pace.pacer.stir(|| self.is_at_rest(ticket));
    }

    /// Whether `ticket` has passed, or waits for something else than a worker.
    fn is_at_rest(&self, ticket: Ticket) -> bool {
        self.status.passed() >= ticket || matches!(lock(&self.state).phase, Phase::Blocked | Phase::Calling)
    }

    /// A thread is about to wait until `ticket` has passed.
    pub(super) fn pace_wait(self: &Arc<Self>, ticket: Ticket) {
        let Some(pace) = &self.pace else { return };
        if pace.pacer.shuffles() && !self.engine.fork.is_child() {
            pace.pacer.stir(|| false);
        }
        self.demand(ticket);
    }

    /// A thread asks whether `ticket` has passed. Under `shuffle` the answer is drawn, too; who asks often
    /// enough gets there.
    pub(super) fn pace_query(self: &Arc<Self>, ticket: Ticket) {
        let Some(pace) = &self.pace else { return };
        let draws = pace.pacer.shuffles() && !pace.pacer.is_worker() && !self.engine.fork.is_child();
        if !draws {
            return self.demand(ticket);
        }
        pace.pacer.stir(|| false);
        if pace.pacer.draw(2) == 0 {
            self.demand(ticket);
            pace.pacer.settle(|| false);
        }
    }

    /// How long a thread may sleep that waits: not so long that a standstill would go unseen.
    pub(super) fn pace_sleep(&self, limit: Option<Duration>) -> Option<Duration> {
        match self.pace {
            None => limit,
            Some(_) => Some(limit.map_or(STALLED, |limit| limit.min(STALLED))),
        }
    }

    /// A thread has slept. If nothing moved for a while, what it waits for may depend on work that nobody is
    /// known to need, such as a failure that stops all streams: nothing is kept back any more.
    pub(super) fn pace_slept(&self, seen: &mut Option<StepWatch>) {
        let Some(pace) = &self.pace else { return };
        let steps = pace.pacer.steps();
        match seen {
            Some(seen) if seen.steps == steps => {
                if pace.pacer.is_standstill(seen.since.elapsed()) {
                    pace.pacer.let_all_go();
                }
            }
            _ => *seen = Some(StepWatch { steps, since: Instant::now() }),
        }
    }

    /// A thread has waited. What was drawn to run meanwhile ends before it goes on, so that a seed means one
    /// order.
    pub(super) fn pace_waited(&self) {
        if let Some(pace) = self.pace.as_ref().filter(|pace| pace.pacer.shuffles()) {
            pace.pacer.settle(|| false);
        }
    }

    /// The first op waits for `fence`. If no lane is known to bring that about, nothing is kept back until it
    /// is done. Returns what is to run then.
    pub(super) fn pace_block(&self, fence: &Arc<dyn Fence>) -> impl FnOnce() + Send + use<> {
        let open = self.pace.as_ref().filter(|_| fence.point().is_none()).map(|pace| pace.pacer.clone());
        open.iter().for_each(|pacer| pacer.open_wait());
        move || open.iter().for_each(|pacer| pacer.close_wait())
    }

    /// A worker has done a step of work: whether its turn is over.
    #[inline]
    pub(super) fn has_paused(&self) -> bool {
        self.pace.as_ref().is_some_and(|pace| pace.pacer.step() || !self.is_due())
    }
}

impl PacedQueue for Lane {
    fn kept(&self) -> (Ticket, Ticket) {
        let demanded = self.pace.as_ref().map_or(Ticket::MAX, |pace| pace.demanded.load(Ordering::SeqCst));
        (demanded.max(self.status.passed()), self.submitted.load(Ordering::Acquire))
    }

    fn let_go(self: Arc<Self>, upto: Ticket) {
        self.demand(upto);
    }
}
