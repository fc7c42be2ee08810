//! A queue of the host backend. Its fences: `lane/fence.rs`; who waits for them: `lane/waiting.rs`.
//!
//! A lane is a list of work and a phase. Whoever turns `Ready` into `Running` owns the lane: a worker of the engine, or a
//! thread that waits for one of its fences and helps. The owner takes the whole list, works through it without the lock, and
//! counts completed work in the stream's status. A lane that waits for a fence or for a user's function has no owner; the
//! fence or the function's thread makes it `Ready` again.

mod fence;
mod waiting;

use super::{
    engine::Engine,
    work::{Step, Work},
};
use crate::litter::drop_each;
pub use fence::LaneFence;
use ferry_core::{
    Fence, Kind, Linear, Mark, Op, Queue, Result, Segment, Status, Ticket,
    fence::{survives, tell},
    sync::{Apart, Arc, AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence, lock},
};
use std::{collections::VecDeque, mem, ptr, time::Instant};
use waiting::Waiting;

/// What an owner moves before it looks up: a timeout or an abort waits no longer than this.
pub const SLICE: usize = 1 << 20;
/// What a worker moves for one lane before it lets another have its turn.
const SHARE: usize = 8 << 20;
/// A list larger than this is not kept for later.
const MOST_SPARE: usize = 1024;
/// How many ops before its turn the memory of an op is looked for.
const LATER: usize = 6;
/// Ops count for the share like this many bytes each.
const OP_COST: usize = 4 << 10;

/// What runs later.
pub type Then = Box<dyn FnOnce() + Send>;

/// One stream's work. See the module's text.
pub struct Lane {
    engine: Arc<Engine>,
    status: Arc<Status>,
    /// Only threads that wait run this lane: workers are not told of it.
    waited: bool,
    /// Whoever submits writes this and the next, and an owner looks at the others for every op.
    state: Apart<Mutex<State>>,
    /// The newest ticket; what an owner without work watches.
    submitted: Apart<AtomicU64>,
    signs: Apart<Signs>,
    wake: Condvar,
    /// Users' functions that the owner has dropped because of an abort, for whoever aborts to drop.
    aborted: Mutex<Vec<Work>>,
}

/// What an owner looks at for every op.
struct Signs {
    /// The lowest ticket that a sleeper or a watcher waits for: until it has passed an owner need not look for them.
    wanted: AtomicU64,
    /// Work up to this ticket is dropped instead of run.
    aborted: AtomicU64,
}

/// No ticket: nobody waits.
const NONE: Ticket = Ticket::MAX;

#[derive(Default)]
struct State {
    work: VecDeque<Work>,
    /// An empty list with room, for the next time an owner takes the list away: submitting then allocates nothing.
    spare: VecDeque<Work>,
    phase: Phase,
    /// A worker looks at this lane again and again: it need not be told of work.
    watched: bool,
    waiting: Waiting,
}

impl State {
    fn take_work(&mut self) -> VecDeque<Work> {
        mem::replace(&mut self.work, mem::take(&mut self.spare))
    }

    /// Puts work back in front of what has come since. The shorter of the two lists is moved: a move is then paid for by an op that
    /// came since, however long the other list is.
    fn put_in_front(&mut self, mut hand: VecDeque<Work>) {
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
    /// Work, and nobody at it.
    Ready,
    /// Somebody owns the lane.
    Running,
    /// The first op waits for a fence.
    Blocked,
    /// A function of the user's runs.
    Calling,
}

/// Until when an owner keeps a lane.
enum Turn {
    /// A worker: until its share is used up while others wait.
    Worker { moved: usize },
    /// A waiting thread: until its fence is done or its time is over.
    Helper { ticket: Ticket, deadline: Option<Instant> },
}

impl Lane {
    pub fn new(engine: Arc<Engine>, status: Arc<Status>, waited: bool) -> Arc<Lane> {
        Arc::new(Lane {
            engine,
            status,
            waited,
            state: Apart(Mutex::new(State::default())),
            submitted: Apart(AtomicU64::new(0)),
            signs: Apart(Signs { wanted: AtomicU64::new(NONE), aborted: AtomicU64::new(0) }),
            wake: Condvar::new(),
            aborted: Mutex::default(),
        })
    }

    /// What tells this lane from others.
    fn number(&self) -> usize {
        ptr::from_ref(self).addr()
    }

    /// Adds work and says so to the engine if nobody is at this lane.
    fn push(self: &Arc<Self>, make: impl FnOnce(Ticket) -> Work) -> Ticket {
        let mut state = lock(&self.state);
        let ticket = self.submitted.load(Ordering::Relaxed) + 1;
        state.work.push_back(make(ticket));
        self.submitted.store(ticket, Ordering::Release);
        if state.phase == Phase::Idle {
            self.make_ready(state);
        }
        ticket
    }

    /// Runs the lane as a worker, if nobody else has taken it in the meantime.
    pub fn work(self: &Arc<Self>) {
        if let Some(hand) = self.claim() {
            self.run(hand, Turn::Worker { moved: 0 });
        }
    }

    /// Runs the lane as a waiting thread. Returns whether it could be taken.
    fn help(self: &Arc<Self>, ticket: Ticket, deadline: Option<Instant>) -> bool {
        let hand = self.claim();
        let taken = hand.is_some();
        if let Some(hand) = hand {
            self.run(hand, Turn::Helper { ticket, deadline });
        }
        taken
    }

    /// Helps the owner with a large copy as a waiting thread. Returns whether there was something to help with.
    fn help_owner(&self, deadline: Option<Instant>) -> bool {
        let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        self.engine.help_team(Some(self.number()), late)
    }

    /// Whether the owner is at a large copy that one more could help with.
    fn wants_help(&self) -> bool {
        self.engine.has_team(Some(self.number()))
    }

    fn claim(&self) -> Option<VecDeque<Work>> {
        let mut state = lock(&self.state);
        if state.phase != Phase::Ready {
            return None;
        }
        state.phase = Phase::Running;
        Some(state.take_work())
    }

    /// Drops the work that has not passed by now, or has its owner do it and waits for that. Work submitted later is not
    /// concerned. Functions of the user's are dropped here, on the user's thread.
    fn abort(self: &Arc<Self>) {
        let dropped = self.take_aborted();
        // The lock is not held while destructors of the user's run: one may abort this very stream.
        let kept = mem::take(&mut *lock(&self.aborted));
        drop_each(kept.into_iter().chain(dropped));
    }

    /// Has the work pass that an abort drops. Returns what has not been dropped by then.
    fn take_aborted(self: &Arc<Self>) -> VecDeque<Work> {
        let mut state = lock(&self.state);
        let last = self.submitted.load(Ordering::Relaxed);
        self.signs.aborted.store(last, Ordering::Release);
        match state.phase {
            Phase::Idle => VecDeque::new(),
            Phase::Running => {
                drop(state);
                // Whatever the owner does next, it looks at the sign first; nothing that it may wait for lies before `last`.
                let _ = self.fence_at(last).wait(None);
                VecDeque::new()
            }
            Phase::Ready | Phase::Blocked => {
                state.phase = Phase::Running;
                let mut hand = state.take_work();
                drop(state);
                while self.drop_unwanted(&mut hand) {}
                self.put_back(hand);
                VecDeque::new()
            }
            Phase::Calling => {
                let behind = state.take_work();
                // The function's own ticket passes too: as far as the stream goes, what it was launched for is over. The phase
                // stays, so that later work still comes after it.
                if self.status.passed() < last {
                    self.status.drop_through(last);
                    self.status.pass(last);
                }
                drop(state);
                self.announce();
                behind
            }
        }
    }

    /// Whether the first op in hand was aborted.
    fn is_aborted(&self) -> bool {
        self.status.passed() < self.signs.aborted.load(Ordering::Acquire)
    }

    /// Drops the first op in hand if it was aborted, or all of them if the stream has stopped for good.
    fn drop_unwanted(&self, hand: &mut VecDeque<Work>) -> bool {
        let aborted = self.is_aborted();
        if !aborted && !self.status.is_halted() || hand.is_empty() {
            return false;
        }
        let count = if aborted { 1 } else { hand.len() };
        let dropped = hand.drain(..count).map(|mut work| {
            work.stop();
            work
        });
        if aborted {
            let users: Vec<_> = dropped.filter(Work::is_users).collect();
            lock(&self.aborted).extend(users);
        } else {
            self.dispose(dropped);
        }
        (0..count).for_each(|_| self.drop_one(aborted));
        true
    }

    /// Drops work that did not run, where nobody of the user's is there to do it.
    fn dispose(&self, work: impl IntoIterator<Item = Work>) {
        let functions = work.into_iter().filter_map(|work| match work {
            Work::Call(function) => Some(function),
            Work::After(_) => Some(Box::new(move || drop(work)) as Then),
            _ => None,
        });
        self.engine.drop_later(functions);
    }

    /// The next op is complete without having run.
    fn drop_one(&self, aborted: bool) {
        if aborted {
            self.status.drop_through(self.status.passed() + 1);
        }
        self.pass();
    }

    /// Runs the lane until it is empty, blocked, or the turn is over; gives the lane up at the end, whatever happens.
    fn run(self: &Arc<Self>, hand: VecDeque<Work>, turn: Turn) {
        if !survives(|| self.work_through(hand, turn)) {
            self.give_up();
        }
    }

    /// Works through `hand` and what comes after it.
    fn work_through(self: &Arc<Self>, mut hand: VecDeque<Work>, mut turn: Turn) {
        loop {
            if self.drop_unwanted(&mut hand) {
                continue;
            }
            let Some(item) = hand.front_mut() else {
                match self.next_hand(&turn, hand) {
                    Some(more) => hand = more,
                    None => return,
                }
                continue;
            };
            let step = item.step(&self.status, &self.engine, self.number());
            if let Some(later) = hand.get(LATER) {
                later.soon();
            }
            match step {
                Step::More => turn.count(SLICE),
                Step::Done => {
                    // Dropping the item may run a user's destructor; the work is passed first.
                    let done = hand.pop_front();
                    self.pass();
                    drop(done);
                    turn.count(OP_COST);
                }
                Step::Blocked(fence) => match self.block_on(hand, fence) {
                    Some(unwanted) => hand = unwanted,
                    None => return,
                },
                Step::Call(function) => {
                    hand.pop_front();
                    match self.start_call(hand, function) {
                        Some(unwanted) => hand = unwanted,
                        None => return,
                    }
                }
            }
            if turn.is_over(self) {
                return self.put_back(hand);
            }
        }
    }

    /// The owner panicked, which is a bug of ours or of an observer: what it had in hand is lost, and nobody waits for ever.
    fn give_up(&self) {
        self.status.fail(Kind::Device.because("a bug in Ferry: the work of this stream was lost to a panic"));
        let mut state = lock(&self.state);
        let mut lost = state.take_work();
        lost.iter_mut().for_each(Work::stop);
        state.phase = Phase::Idle;
        self.status.pass(self.submitted.load(Ordering::Relaxed));
        drop(state);
        self.dispose(lost);
        self.announce();
    }

    /// More work, or `None` after giving the lane up. A worker lets go of the lane but stays near for a while: ops that come one
    /// after the other are then taken by the handful, the next op costs its submitter no wake, and a thread that waits may
    /// take the lane meanwhile.
    fn next_hand(self: &Arc<Self>, turn: &Turn, empty: VecDeque<Work>) -> Option<VecDeque<Work>> {
        let mut state = lock(&self.state);
        state.spare = if empty.capacity() <= MOST_SPARE { empty } else { VecDeque::new() };
        state.phase = if state.work.is_empty() { Phase::Idle } else { Phase::Ready };
        if matches!(turn, Turn::Worker { .. }) {
            state.watched = true;
            drop(state);
            self.engine.linger(|| self.submitted.load(Ordering::Relaxed) > self.status.passed());
            state = lock(&self.state);
            state.watched = false;
            if state.phase == Phase::Ready && self.engine.has_ready() {
                // Others have waited longer.
                self.make_ready(state);
                return None;
            }
        }
        if state.phase != Phase::Ready {
            return None;
        }
        state.phase = Phase::Running;
        Some(state.take_work())
    }

    /// One more op is complete. Only the owner calls this.
    fn pass(&self) {
        self.status.pass(self.status.passed() + 1);
        self.announce();
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
    fn put_back(self: &Arc<Self>, hand: VecDeque<Work>) {
        let mut state = self.restore(hand);
        if state.work.is_empty() {
            state.phase = Phase::Idle;
        } else {
            self.make_ready(state);
        }
    }

    fn restore(&self, hand: VecDeque<Work>) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        state.put_in_front(hand);
        state
    }

    /// Lets go of the lane until the fence is done. Gives the work back if it was aborted or stopped meanwhile.
    fn block_on(self: &Arc<Self>, hand: VecDeque<Work>, fence: Arc<dyn Fence>) -> Option<VecDeque<Work>> {
        let mut state = self.restore(hand);
        if self.is_aborted() || self.status.is_halted() {
            return Some(state.take_work());
        }
        state.phase = Phase::Blocked;
        drop(state);
        let lane = self.clone();
        fence.when_done(Box::new(move || lane.resume()));
        None
    }

    /// The fence that the first op waits for is done, or the stream has stopped: look at it again. Says nothing to a lane that
    /// was aborted meanwhile.
    fn resume(self: &Arc<Self>) {
        let state = lock(&self.state);
        if state.phase == Phase::Blocked {
            self.make_ready(state);
        }
    }

    /// Lets go of the lane until the function has returned. Gives the work back if the function was aborted in the last moment.
    fn start_call(self: &Arc<Self>, hand: VecDeque<Work>, function: Then) -> Option<VecDeque<Work>> {
        let mut state = self.restore(hand);
        if self.is_aborted() {
            let hand = state.take_work();
            drop(state);
            lock(&self.aborted).push(Work::Call(function));
            self.drop_one(true);
            return Some(hand);
        }
        state.phase = Phase::Calling;
        let (lane, ticket) = (self.clone(), self.status.passed() + 1);
        drop(state);
        let started = self.engine.call(Box::new(move || {
            // A panic cannot leave a C function; one of a Rust closure is the stream's failure.
            if !survives(function) {
                lane.status.fail(Kind::Device.because("a function launched on this stream panicked"));
            }
            lane.called(ticket);
        }));
        if let Err(why) = started {
            self.status.fail(why);
            self.called(ticket);
        }
        None
    }

    /// The function of this ticket has returned. An abort may have passed it before.
    fn called(self: &Arc<Self>, ticket: Ticket) {
        let state = lock(&self.state);
        if self.status.passed() < ticket {
            self.status.pass(ticket);
        }
        drop(state);
        self.announce();
        self.put_back(VecDeque::new());
    }

    /// There is work and nobody at it: tell the workers, or, where only waiting threads work, those.
    fn make_ready(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        state.phase = Phase::Ready;
        if self.waited && state.waiting.has_sleepers() {
            self.wake.notify_all();
        }
        let told = self.waited || state.watched;
        drop(state);
        if !told {
            self.engine.ready(self.clone());
        }
    }

    /// Somebody waits from here on; what passed before is seen by a look after this.
    fn want(&self, state: &State) {
        self.signs.wanted.store(state.waiting.wanted(), Ordering::Relaxed);
        // Pairs with the fence in `announce`.
        fence(Ordering::SeqCst);
    }

    fn fence_at(self: &Arc<Self>, ticket: Ticket) -> Arc<LaneFence> {
        LaneFence::new(self.clone(), ticket)
    }
}

impl Turn {
    fn count(&mut self, bytes: usize) {
        if let Turn::Worker { moved } = self {
            *moved += bytes;
        }
    }

    fn is_over(&mut self, lane: &Lane) -> bool {
        match self {
            Turn::Worker { moved } if *moved < SHARE => false,
            Turn::Worker { moved } => {
                *moved = 0;
                lane.engine.has_ready()
            }
            Turn::Helper { ticket, deadline } => {
                lane.status.passed() >= *ticket || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            }
        }
    }
}

/// The queue that a stream holds.
pub struct LaneQueue(pub Arc<Lane>);

impl LaneQueue {
    /// The queue of a lane, which drops its work when the stream is stopped for good.
    pub fn new(lane: Arc<Lane>) -> LaneQueue {
        let halted = Arc::downgrade(&lane);
        lane.status.on_halt(Box::new(move || {
            if let Some(lane) = halted.upgrade() {
                lane.resume();
            }
        }));
        LaneQueue(lane)
    }
}

impl Queue for LaneQueue {
    unsafe fn submit(&self, op: Op) -> Result<Ticket> {
        self.0.engine.fork.is_no_child()?;
        let work = Work::from(op);
        Ok(self.0.push(|_| work))
    }

    unsafe fn submit_linear(&self, copy: Linear) -> Result<Ticket> {
        self.0.engine.fork.is_no_child()?;
        let Segment { dst, src, len } = copy.segment();
        Ok(self.0.push(|_| Work::Linear { dst, src, len, done: 0 }))
    }

    fn fence(&self) -> Result<Arc<dyn Fence>> {
        Ok(self.0.fence_at(self.0.submitted.load(Ordering::Acquire)))
    }

    fn fence_after(&self, ticket: Ticket) -> Arc<dyn Fence> {
        self.0.fence_at(ticket)
    }

    fn mark(&self) -> Result<Arc<dyn Mark>> {
        let mut mark = None;
        self.0.push(|ticket| Work::Mark(mark.insert(self.0.fence_at(ticket)).clone()));
        Ok(mark.expect("push makes the work"))
    }

    fn abort(&self) {
        self.0.abort();
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
