//! The run queue of one stream of the host backend. Its fences: `lane/fence.rs`; who waits for them:
//! `lane/waiters.rs`.
//!
//! A lane is a list of tasks and a phase. The thread that turns `Ready` into `Running` owns the lane: a
//! worker of the engine, or a thread that waits for one of its fences and helps. The owner takes the whole
//! list, works through it without the lock, and counts completed tasks in the stream's status. A lane that
//! waits for a fence or for a user's function has no owner; the fence or the function's thread makes it
//! `Ready` again.
//!
//! Arrows: a lane knows the engine and its own tasks; the engine knows it as a `RunQueue` alone.

mod abort;
mod call;
mod fence;
mod gather;
mod pace;
mod queue;
mod together;
mod waiters;

use super::{
    engine::{Engine, RunQueue},
    task::{LateBinding, QUICK_BYTES, SLICE, StepOutcome, Task},
};
use fence::LaneFence;
use ferry_core::{
    Fence, Kind, Status, Ticket,
    fence::{survives, tell},
    sync::{Arc, AtomicBool, AtomicU64, CachePadded, Condvar, Mutex, MutexGuard, Ordering, fence, lock},
};
use gather::Gathering;
use pace::LanePace;
pub use queue::LaneQueue;
use std::{collections::VecDeque, mem, ptr, time::Instant};
use waiters::{NONE, Waiters};

/// What a worker moves for one lane before it lets another have its turn.
const WORKER_QUANTUM: usize = 8 << 20;
/// A list larger than this is not kept for later.
const MAX_SPARE_CAPACITY: usize = 1024;
/// How many ops before its turn the memory of an op is looked for.
const PREFETCH_DISTANCE: usize = 6;
/// Ops count for the share like this many bytes each.
const OP_COST: usize = 4 << 10;
/// Quick ops that pass before waiters are looked for behind a fence. Together they move no more than a slice.
const MAX_UNANNOUNCED: usize = SLICE / QUICK_BYTES;
/// How many lanes, each blocked on the next, a thread that waits looks through for work to help with.
const MAX_HOPS: usize = 16;

/// One stream's work. See the module's text.
pub struct Lane {
    engine: Arc<Engine>,
    status: Arc<Status>,
    /// Only threads that wait run this lane: workers are not told of it.
    waited: bool,
    /// What keeps work back, where a schedule was asked for.
    pace: Option<LanePace>,
    /// The submitter writes this and the next, while the owner reads the others for every task: each is on
    /// cache lines of its own, against false sharing.
    state: CachePadded<Mutex<LaneState>>,
    /// The newest ticket; what an owner without work watches.
    submitted: CachePadded<AtomicU64>,
    signs: CachePadded<Signs>,
    wake: Condvar,
    /// Users' functions that the owner has dropped because of an abort, for the aborting thread to destroy.
    aborted: Mutex<Vec<Task>>,
}

/// What an owner looks at for every op.
struct Signs {
    /// The lowest ticket that a sleeper or a watcher waits for: until it has passed an owner need not look
    /// for them.
    wanted: AtomicU64,
    /// Tasks up to this ticket are dropped instead of run.
    aborted: AtomicU64,
    /// The newest op of which observers were told that it begins.
    begun: AtomicU64,
    /// The lane is ready, and left to a thread that waits and spins near it.
    is_for_spinner: AtomicBool,
    /// The lane is ready and begins with a function, which is left to a thread near it that may call.
    is_for_caller: AtomicBool,
}

#[derive(Default)]
struct LaneState {
    work: VecDeque<Task>,
    /// An empty list with room, for the next time an owner takes the list away: submitting then allocates
    /// nothing.
    spare: VecDeque<Task>,
    phase: Phase,
    /// Threads with no other work that look at this lane again and again: they need not be told of work.
    near: usize,
    /// Those of them that may call functions of the user's.
    callers: usize,
    /// Threads that wait for this lane and spin: each takes it when it becomes ready, unless it begins with a
    /// function, and lets workers know of it if it leaves without.
    spinners: usize,
    /// What the first op waits for, while the lane is blocked.
    blocker: Option<Arc<dyn Fence>>,
    waiting: Waiters,
}

impl LaneState {
    fn take_work(&mut self) -> VecDeque<Task> {
        mem::replace(&mut self.work, mem::take(&mut self.spare))
    }

    /// Whether the next task is a function of the user's, with nothing to wait for.
    fn is_at_call(&self) -> bool {
        matches!(self.work.front(), Some(Task::Call(_)))
    }

    /// Whether somebody takes the lane, if it is ready, who need not be told.
    fn is_looked_at(&self) -> bool {
        self.near > 0 || self.spinners > 0 && !self.is_at_call()
    }

    /// Puts work back in front of what has come since. The shorter of the two lists is moved: a move is then
    /// paid for by an op that came since, however long the other list is.
    fn put_in_front(&mut self, mut hand: VecDeque<Task>) {
        if hand.len() < self.work.len() {
            hand.into_iter().rev().for_each(|work| self.work.push_front(work));
        } else {
            hand.append(&mut self.work);
            self.work = hand;
        }
    }
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Phase {
    /// No work.
    #[default]
    Idle,
    /// Tasks, and no owner.
    Ready,
    /// A thread owns the lane.
    Running,
    /// The first op waits for a fence.
    Blocked,
    /// A function of the user's runs.
    Calling,
}

/// Until when an owner keeps a lane.
enum Quantum {
    /// A worker: until its share is used up while others wait. On a thread of the pool it also `calls` users'
    /// functions.
    Worker { moved: usize, calls: bool },
    /// A waiting thread: until its fence is done or its time is over.
    Helper { ticket: Ticket, deadline: Option<Instant> },
}

impl Lane {
    /// A lane without work. If it is `waited` for by every submitter, only those run it.
    pub fn new(engine: Arc<Engine>, status: Arc<Status>, waited: bool) -> Arc<Lane> {
        let pace = engine.pacer.clone().filter(|_| !waited).map(LanePace::new);
        let lane = Arc::new(Lane {
            engine,
            status,
            waited,
            pace,
            state: CachePadded(Mutex::new(LaneState::default())),
            submitted: CachePadded(AtomicU64::new(0)),
            signs: CachePadded(Signs {
                wanted: AtomicU64::new(NONE),
                aborted: AtomicU64::new(0),
                begun: AtomicU64::new(0),
                is_for_spinner: AtomicBool::new(false),
                is_for_caller: AtomicBool::new(false),
            }),
            wake: Condvar::new(),
            aborted: Mutex::default(),
        });
        if let Some(pace) = &lane.pace {
            let weak = Arc::downgrade(&lane);
            pace.pacer.add(weak);
        }
        lane
    }

    /// Adds a task and tells the engine if the lane has no owner.
    fn push(self: &Arc<Self>, make: impl FnOnce(Ticket) -> Task) -> Ticket {
        let mut state = lock(&self.state);
        let ticket = self.submitted.load(Ordering::Relaxed) + 1;
        state.work.push_back(make(ticket));
        self.submitted.store(ticket, Ordering::Release);
        if self.pace.is_some() {
            self.push_paced(state, ticket);
        } else if state.phase == Phase::Idle {
            if self.is_done_at_once(&state) {
                let hand = self.take(&mut state);
                drop(state);
                self.run(hand, Quantum::Helper { ticket, deadline: None });
                return ticket;
            }
            self.make_ready(state);
        }
        ticket
    }

    /// Whether the thread that submits does the only work of the lane. It holds locks meanwhile, so it must
    /// not be the one that runs watchers: none wait, and the fence of the new op is given out when it has
    /// passed.
    fn is_done_at_once(&self, state: &LaneState) -> bool {
        let is_short = || state.work.front().is_some_and(Task::is_short_copy);
        self.engine.does_short_copies_at_once && !self.waited && !state.waiting.has_watchers() && is_short()
    }

    /// Runs the lane as a waiting thread. Returns whether it could be taken.
    fn help(self: &Arc<Self>, ticket: Ticket, deadline: Option<Instant>) -> bool {
        let hand = if self.takes_helpers() { self.claim(false) } else { None };
        let taken = hand.is_some();
        if let Some(hand) = hand {
            self.run(hand, Quantum::Helper { ticket, deadline });
        }
        taken
    }

    /// Helps the owner with a large copy as a waiting thread. Returns whether there was something to help
    /// with.
    fn help_owner(&self, deadline: Option<Instant>) -> bool {
        let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.engine.help_team(Some(self.number()), late)
    }

    /// Whether the owner is at a large copy that one more could help with.
    fn wants_help(&self) -> bool {
        self.engine.has_team(Some(self.number()))
    }

    /// Helps with what the lane is blocked on, if that is work of another lane. Returns whether there was
    /// something to help with.
    fn help_blocker(self: &Arc<Self>, deadline: Option<Instant>) -> bool {
        let mut blocker = self.blocker();
        for _ in 0..MAX_HOPS {
            let Some(fence) = blocker else { return false };
            let Some(LaneFence { lane, ticket, .. }) = fence.native().downcast_ref() else { return false };
            if lane.help(*ticket, deadline) {
                return true;
            }
            blocker = lane.blocker();
        }
        false
    }

    /// What the first op waits for, if it waits. A schedule lets threads help with nothing else.
    fn blocker(&self) -> Option<Arc<dyn Fence>> {
        let state = lock(&self.state);
        state.blocker.clone().filter(|_| state.phase == Phase::Blocked && self.pace.is_none())
    }

    /// Takes the lane if it is ready. A function is left to a thread near the lane that `calls`, if there is
    /// one.
    fn claim(&self, calls: bool) -> Option<VecDeque<Task>> {
        let mut state = lock(&self.state);
        let is_ours = calls || state.callers == 0 || !state.is_at_call();
        (state.phase == Phase::Ready && is_ours && self.is_due()).then(|| self.take(&mut state))
    }

    /// Takes the lane, which is ready or the caller's anyway.
    fn take(&self, state: &mut LaneState) -> VecDeque<Task> {
        (state.phase, state.blocker) = (Phase::Running, None);
        self.signs.is_for_spinner.store(false, Ordering::Relaxed);
        self.signs.is_for_caller.store(false, Ordering::Relaxed);
        state.take_work()
    }

    /// Spins as a thread that waits until `ticket` has passed, for as long as that is thought to pay.
    /// Returns false if it should sleep.
    fn spin_near(self: &Arc<Self>, ticket: Ticket, deadline: Option<Instant>) -> bool {
        let takes = self.pace.is_none();
        if takes {
            lock(&self.state).spinners += 1;
        }
        let distance = || {
            let left = ticket.saturating_sub(self.status.passed()) as usize;
            let is_for_us = takes && self.signs.is_for_spinner.load(Ordering::Relaxed);
            (left > 0 && !is_for_us && !self.wants_help()).then_some(left)
        };
        let is_done = self.engine.spin(distance);
        if takes {
            self.stop_spinning(ticket, deadline);
        }
        is_done
    }

    /// A thread that waits spins no more near this lane. If the lane was left to it, it runs it, or tells the
    /// workers.
    fn stop_spinning(self: &Arc<Self>, ticket: Ticket, deadline: Option<Instant>) {
        let mut state = lock(&self.state);
        state.spinners -= 1;
        if state.phase != Phase::Ready || state.is_looked_at() {
            return;
        }
        let is_late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if self.status.passed() >= ticket || is_late() {
            return self.make_ready(state);
        }
        let hand = self.take(&mut state);
        drop(state);
        self.run(hand, Quantum::Helper { ticket, deadline });
    }

    /// Runs the lane until it is empty, blocked, or the turn is over; gives the lane up at the end, whatever
    /// happens.
    fn run(self: &Arc<Self>, hand: VecDeque<Task>, turn: Quantum) {
        if !survives(|| self.work_through(hand, turn)) {
            self.give_up();
        }
    }

    /// Works through `hand` and what comes after it.
    fn work_through(self: &Arc<Self>, mut hand: VecDeque<Task>, mut turn: Quantum) {
        let (mut has_begun, mut has_passed) = (false, false);
        // Ops that have passed since waiters were looked for, behind a fence.
        let mut unannounced = 0;
        // Ops that were found not to be gathered.
        let mut singly = 0;
        let mut late = LateBinding::default();
        loop {
            if self.drop_unwanted(&mut hand) {
                continue;
            }
            if unannounced > 0 && !hand.front().is_some_and(Task::is_quick) {
                unannounced = 0;
                self.announce();
            }
            if singly == 0 && !has_begun && !hand.is_empty() {
                let gathered = self.gather(&hand, &turn, &mut late);
                if !matches!(gathered, Gathering::Singly(_)) && mem::take(&mut unannounced) > 0 {
                    self.announce();
                }
                let (ops, is_done) = match gathered {
                    Gathering::Singly(ops) => (ops, false),
                    Gathering::Alone(segments) => (segments.len(), self.finish_alone(&segments, &mut turn)),
                    Gathering::Team(team, ops) => (ops, self.finish_team(team, &mut turn)),
                };
                if is_done {
                    has_passed = false;
                    self.pass_all(hand.drain(..ops));
                    turn.count(ops * OP_COST);
                    if turn.is_over(self) {
                        return self.put_back(hand);
                    }
                    continue;
                }
                singly = ops;
                if turn.is_late() {
                    return self.put_back(hand);
                }
                // An abort may have come meanwhile.
                continue;
            }
            let Some(item) = hand.front_mut() else {
                has_passed = false;
                late.clear();
                match self.next_hand(&turn, hand) {
                    Some(more) => hand = more,
                    None => return,
                }
                continue;
            };
            let follows_at_once = has_passed && !item.has_fences();
            if let Some(fence) = item.unmet_fence() {
                let Some(unwanted) = self.block_on(hand, fence) else { return };
                (hand, has_passed) = (unwanted, false);
                continue;
            }
            if !has_begun {
                self.tell_begun(follows_at_once);
            }
            let step = item.step(&self.status, &self.engine, &**self, &mut late);
            has_begun = matches!(step, StepOutcome::More);
            has_passed = matches!(step, StepOutcome::Done);
            if !matches!(step, StepOutcome::Done) {
                self.status.tell_next(|observer, op| observer.suspended(op));
            }
            if let Some(later) = hand.get(PREFETCH_DISTANCE) {
                later.prefetch(&late);
            }
            if let Some(later) = hand.get(2 * PREFETCH_DISTANCE) {
                later.prefetch_cells();
            }
            singly -= usize::from(singly > 0 && !has_begun);
            match step {
                StepOutcome::More => turn.count(SLICE),
                StepOutcome::Done => {
                    // Dropping the item may run a user's destructor; the work is passed first.
                    let done = hand.pop_front();
                    if done.as_ref().is_some_and(Task::is_quick) && unannounced < MAX_UNANNOUNCED {
                        unannounced += 1;
                        self.pass_quickly();
                    } else {
                        unannounced = 0;
                        self.pass();
                    }
                    drop(done);
                    turn.count(OP_COST);
                }
                StepOutcome::Call(function) => {
                    hand.pop_front();
                    match self.start_call(hand, function, turn.calls()) {
                        Some(unwanted) => hand = unwanted,
                        None => return,
                    }
                }
            }
            if turn.is_over(self) {
                if unannounced > 0 {
                    self.announce();
                }
                return self.put_back(hand);
            }
        }
    }

    /// Tells observers that the next op begins, unless an owner before this one has begun it.
    #[inline]
    fn tell_begun(&self, at_once: bool) {
        if !self.status.is_observed() {
            return;
        }
        let next = self.status.passed() + 1;
        if self.signs.begun.load(Ordering::Relaxed) != next {
            self.signs.begun.store(next, Ordering::Relaxed);
            self.status.tell_begun(at_once);
        }
    }

    /// The owner panicked, which is a bug of ours or of an observer: the tasks that it had taken are lost,
    /// and fail the stream, so that no thread waits for ever.
    fn give_up(&self) {
        self.status.fail(Kind::Device.because("a bug in Ferry: the work of this stream was lost to a panic"));
        let mut state = lock(&self.state);
        let mut lost = state.take_work();
        lost.iter_mut().for_each(Task::stop);
        state.phase = Phase::Idle;
        self.status.pass(self.submitted.load(Ordering::Relaxed));
        drop(state);
        self.dispose(lost);
        self.announce();
    }

    /// More work, or `None` after giving the lane up. A worker lets go of the lane but stays near for a
    /// while: ops that come one after the other are then taken by the handful, the next op costs its
    /// submitter no wake, and a thread that waits may take the lane meanwhile.
    fn next_hand(self: &Arc<Self>, turn: &Quantum, empty: VecDeque<Task>) -> Option<VecDeque<Task>> {
        let mut state = lock(&self.state);
        state.spare = if empty.capacity() <= MAX_SPARE_CAPACITY { empty } else { VecDeque::new() };
        state.phase = if state.work.is_empty() { Phase::Idle } else { Phase::Ready };
        self.stay_near(turn, state)
    }

    /// Stays near the lane for a while, as a worker whose lane it was, and takes it if it is ready then.
    fn stay_near<'a>(
        self: &'a Arc<Self>,
        turn: &Quantum,
        mut state: MutexGuard<'a, LaneState>,
    ) -> Option<VecDeque<Task>> {
        let calls = usize::from(turn.calls());
        // One that may call is enough, and the others would take the CPUs from it.
        let may_linger = self.pace.is_none() && (calls > 0 || state.callers == 0);
        if matches!(turn, Quantum::Worker { .. }) && may_linger && self.engine.may_linger(calls) {
            (state.near, state.callers) = (state.near + 1, state.callers + calls);
            drop(state);
            let has_more = || self.submitted.load(Ordering::Relaxed) > self.status.passed();
            let is_called = || calls > 0 && self.signs.is_for_caller.load(Ordering::Relaxed);
            self.engine.linger(calls, has_more, is_called);
            self.engine.has_lingered(calls);
            state = lock(&self.state);
            (state.near, state.callers) = (state.near - 1, state.callers - calls);
            if state.phase == Phase::Ready && self.engine.has_ready() {
                // Others have waited longer.
                self.make_ready(state);
                return None;
            }
        }
        let is_ours = calls > 0 || state.callers == 0 || !state.is_at_call();
        (state.phase == Phase::Ready && is_ours && self.is_due()).then(|| self.take(&mut state))
    }

    /// One more op is complete. Only the owner calls this.
    fn pass(&self) {
        self.status.pass(self.status.passed() + 1);
        self.announce();
    }

    /// Ops that were done together are complete. Only the owner calls this.
    fn pass_all(&self, done: impl ExactSizeIterator<Item = Task>) {
        self.status.pass(self.status.passed() + done.len() as Ticket);
        self.announce();
    }

    /// As [`pass`](Self::pass), but one who begins to wait at the same moment may not be seen. The owner
    /// calls [`announce`](Self::announce) some ops later, before it does anything that takes long or lets go
    /// of the lane. A fence after every op would have it wait until what a copy has stored is in the cache.
    fn pass_quickly(&self) {
        let passed = self.status.passed() + 1;
        self.status.pass(passed);
        if self.signs.wanted.load(Ordering::Relaxed) <= passed {
            self.announce();
        }
    }

    /// Tells those who wait how far the work has come.
    fn announce(&self) {
        // Pairs with the fence of those who begin to wait: either they see what passed, or we see them.
        fence(Ordering::SeqCst);
        if self.signs.wanted.load(Ordering::Relaxed) > self.status.passed() {
            return;
        }
        let mut state = lock(&self.state);
        let passed = self.status.passed();
        let (wakes, due) = state.waiting.take_due(passed);
        self.signs.wanted.store(state.waiting.wanted(), Ordering::Relaxed);
        if wakes {
            self.wake.notify_all();
        }
        drop(state);
        tell(due);
    }

    /// The work in hand goes back in front of what has come since.
    fn put_back(self: &Arc<Self>, hand: VecDeque<Task>) {
        let mut state = self.restore(hand);
        if state.work.is_empty() {
            state.phase = Phase::Idle;
        } else {
            self.make_ready(state);
        }
    }

    fn restore(&self, hand: VecDeque<Task>) -> MutexGuard<'_, LaneState> {
        let mut state = lock(&self.state);
        state.put_in_front(hand);
        state
    }

    /// Lets go of the lane until the fence is done. Gives the work back if it was aborted or stopped
    /// meanwhile.
    fn block_on(self: &Arc<Self>, hand: VecDeque<Task>, fence: Arc<dyn Fence>) -> Option<VecDeque<Task>> {
        let mut state = self.restore(hand);
        if self.is_aborted() || self.status.is_halted() {
            return Some(state.take_work());
        }
        state.phase = Phase::Blocked;
        state.blocker = Some(fence.clone());
        drop(state);
        let (lane, is_over) = (self.clone(), self.pace_block(&fence));
        fence.when_done(Box::new(move || {
            is_over();
            lane.resume();
        }));
        None
    }

    /// The fence that the first op waits for is done, or the stream has stopped: look at it again. Has
    /// no effect on a lane that was aborted meanwhile.
    fn resume(self: &Arc<Self>) {
        let state = lock(&self.state);
        if state.phase == Phase::Blocked {
            self.make_ready(state);
        }
    }

    /// There is work and no owner: tells the workers, or, where only waiting threads work, those.
    fn make_ready(self: &Arc<Self>, mut state: MutexGuard<'_, LaneState>) {
        (state.phase, state.blocker) = (Phase::Ready, None);
        if self.waited && state.waiting.has_sleepers() {
            self.wake.notify_all();
        }
        let is_looked_at = state.is_looked_at();
        if state.callers > 0 && state.is_at_call() {
            self.signs.is_for_caller.store(true, Ordering::Relaxed);
        } else if state.spinners > 0 {
            self.signs.is_for_spinner.store(true, Ordering::Relaxed);
        }
        let told = self.waited || is_looked_at || !self.is_due();
        drop(state);
        if !told {
            self.pace.iter().for_each(|pace| pace.pacer.tell());
            self.engine.ready(self.clone());
        }
    }

    /// A thread waits from here on; what passed before is seen by a check after this.
    fn want(&self, state: &LaneState) {
        self.signs.wanted.store(state.waiting.wanted(), Ordering::Relaxed);
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
    }

    fn fence_at(self: &Arc<Self>, ticket: Ticket) -> Arc<LaneFence> {
        LaneFence::new(self.clone(), ticket)
    }
}

impl RunQueue for Lane {
    fn run_as_worker(self: Arc<Self>) {
        let run = || {
            if let Some(hand) = self.claim(false) {
                self.run(hand, Quantum::Worker { moved: 0, calls: false });
            }
        };
        match &self.pace {
            None => run(),
            Some(pace) => pace.pacer.serve(run),
        }
    }

    fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// One that spins sees the copy itself; one that sleeps is woken, and looks for it under the lock before
    /// it sleeps.
    fn bring_waiter(&self) -> bool {
        if !self.takes_helpers() {
            return false;
        }
        let state = lock(&self.state);
        if state.spinners == 0 && state.waiting.has_sleepers() {
            self.wake.notify_all();
            return true;
        }
        state.spinners > 0
    }
}

impl Quantum {
    /// Whether users' functions may be called on this thread.
    fn calls(&self) -> bool {
        matches!(self, Quantum::Worker { calls: true, .. })
    }

    fn count(&mut self, bytes: usize) {
        if let Quantum::Worker { moved, .. } = self {
            *moved += bytes;
        }
    }

    /// Whether the time of a thread that waits is over.
    fn is_late(&self) -> bool {
        matches!(self, Quantum::Helper { deadline: Some(deadline), .. } if Instant::now() >= *deadline)
    }

    fn is_over(&mut self, lane: &Lane) -> bool {
        match self {
            Quantum::Worker { .. } if lane.has_paused() => true,
            Quantum::Worker { moved, .. } if *moved < WORKER_QUANTUM => false,
            Quantum::Worker { moved, .. } => {
                *moved = 0;
                lane.engine.has_ready()
            }
            Quantum::Helper { ticket, deadline } => {
                lane.pace.iter().for_each(|pace| pace.pacer.count_step());
                lane.status.passed() >= *ticket || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
