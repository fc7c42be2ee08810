//! The scheduler of the host backend: worker threads that run ready lanes. They take them off a list, a few
//! threads for all lanes. Users' functions run in a thread pool beside it: `pool.rs`.
//!
//! A worker that finds no ready lane spins for a short time, since a spinning worker sees new work at once
//! and waking a sleeping one costs the waker several microseconds; then it sleeps, and after some seconds
//! it ends. A thread that has work and finds too few workers starts one. On a machine with one CPU no
//! worker spins. An idle engine uses no CPU.
//!
//! Arrows: the engine knows teams (`team.rs`), and a lane only as a [`RunQueue`].

use super::{
    pacer::Pacer,
    sleepers::{Sleeper, Sleepers},
    team::{MIN_TEAM_BYTES, OpenTeams, Team, TeamPortions, TeamWork},
};
use crate::{
    litter::Litter,
    os::{
        fork::ForkMark,
        page::SMALLEST_PAGE,
        threads::{IDLE, current_cpu, spawn},
    },
    pool::{Job, Pool, no_thread},
};
use ferry_core::{
    Pieces, Result,
    sync::{Arc, AtomicBool, AtomicUsize, Mutex, MutexGuard, Ordering, lock, spin_loop},
};
use std::{
    any::Any,
    cell::Cell,
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

/// How long a thread spins before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// Pauses between two looks of a thread that spins: one for each op that is left, within these bounds.
const MIN_PAUSES: usize = 16;
const MAX_PAUSES: usize = 512;
/// How long a worker stays near a lane that has no more work.
const LINGER: Duration = Duration::from_micros(50);
/// How long a thread that has called a user's function stays near its lane: longer than it takes to wake the
/// thread that waits, which then finds it there with its next function. Where both have gone to sleep, each
/// wakes the other too late for the next time, and so on for ever.
const CALLER_LINGER: Duration = Duration::from_micros(200);
/// How often a worker that stays near a lane polls it: each poll takes the submitter's cache line.
const POLL_EVERY: Duration = Duration::from_micros(5);
/// Workers at most, however many CPUs there are.
const MAX_WORKERS: usize = 8;
/// Workers that spin at the same time; always fewer than there are CPUs.
const MAX_SPINNING: usize = 2;
/// Bytes of a worker's stack: no code of the user's runs on it.
const WORKER_STACK: usize = 1 << 20;

/// A queue that workers run: a lane, which knows the engine and is known to it as this alone.
pub trait RunQueue: Send + Sync {
    /// Runs it on the calling thread, a worker, unless another thread has taken it in the meantime.
    fn run_as_worker(self: Arc<Self>);

    /// What tells it from others.
    fn number(&self) -> usize;

    /// Has a thread that waits for it help with its large copy. Returns whether one does.
    fn bring_waiter(&self) -> bool;
}

/// The threads and what they share.
pub struct Engine {
    /// The lanes that wait for a worker, and the workers.
    ready: Mutex<Ready>,
    /// How many lanes are in the list, readable without its lock.
    waiting: AtomicUsize,
    /// How many workers spin now.
    spinning: AtomicUsize,
    /// How many calls are about to bring work that several threads share.
    calls_coming: AtomicUsize,
    /// How many threads that have called a user's function stay near its lane.
    callers: AtomicUsize,
    /// Large copies that others may help with.
    teams: OpenTeams,
    /// CPUs that the process may use.
    cpus: usize,
    max_workers: usize,
    /// Whether threads spin before they sleep.
    spins: bool,
    max_spinning: usize,
    /// When the clock of the devices began.
    started: Instant,
    /// Workers are to end.
    closed: AtomicBool,
    /// Runs users' functions.
    calls: Arc<Pool>,
    /// Users' functions that will not run.
    litter: Arc<Litter>,
    #[cfg(loom)]
    ends_when_idle: bool,
    /// Decides when work runs, where a schedule was asked for.
    pub(super) pacer: Option<Arc<Pacer>>,
    /// Copies in one piece that are smaller than this are not cut.
    pub(super) min_team: usize,
    /// A short copy whose lane has nothing else to do is done by the thread that submits it.
    pub(super) does_short_copies_at_once: bool,
    /// Tells the process that has the workers from its children.
    pub(super) fork: ForkMark,
    /// Keeps the memory that lanes work on.
    _memory: Arc<dyn Any + Send + Sync>,
}

#[derive(Default)]
struct Ready {
    lanes: VecDeque<Arc<dyn RunQueue>>,
    sleepers: Sleepers,
    workers: usize,
}

/// Which worker is missing for the work there is.
enum Missing {
    /// There are enough.
    Nothing,
    /// One that sleeps, to be woken.
    Sleeper(Arc<Sleeper>),
    /// One that is to be started, and has this number.
    Worker(usize),
}

impl Ready {
    fn missing(&mut self, most: usize) -> Missing {
        if let Some(sleeper) = self.sleepers.take(current_cpu()) {
            return Missing::Sleeper(sleeper);
        }
        if self.workers >= most {
            return Missing::Nothing;
        }
        self.workers += 1;
        Missing::Worker(self.workers)
    }
}

impl Engine {
    /// An engine with no threads yet. It keeps `memory` alive.
    pub fn new(memory: Arc<dyn Any + Send + Sync>, cpus: usize) -> Arc<Engine> {
        Arc::new(Engine::bare(memory, cpus))
    }

    /// As `new`, for a program whose pages go in and out of its page table: each time the kernel interrupts
    /// every processor that runs a thread of it, and one that spins as well. So no worker spins for
    /// short copies.
    pub fn watched(memory: Arc<dyn Any + Send + Sync>, cpus: usize) -> Arc<Engine> {
        Arc::new(Engine { does_short_copies_at_once: true, ..Engine::bare(memory, cpus) })
    }

    /// As `new`, where `pacer` decides when work runs. What is drawn is run by one worker, so that it is the
    /// same each time.
    pub fn paced(memory: Arc<dyn Any + Send + Sync>, cpus: usize, pacer: Arc<Pacer>) -> Arc<Engine> {
        let (cpus, min_team) = if pacer.shuffles() { (1, SMALLEST_PAGE + 1) } else { (cpus, MIN_TEAM_BYTES) };
        Arc::new(Engine { pacer: Some(pacer), min_team, ..Engine::bare(memory, cpus) })
    }

    /// An engine with one worker, which the model has to run; it may be one that ends when it finds nothing
    /// to do.
    #[cfg(all(test, loom))]
    pub fn modelled(ends_at_once: bool) -> Arc<Engine> {
        let engine = Engine { ends_when_idle: ends_at_once, ..Engine::bare(Arc::new(()), 1) };
        lock(&engine.ready).workers = 1;
        Arc::new(engine)
    }

    /// An engine without workers, whose copies two threads may share. None of them spins.
    #[cfg(all(test, loom))]
    pub fn modelled_for_teams() -> Arc<Engine> {
        Arc::new(Engine { spins: false, ..Engine::bare(Arc::new(()), 2) })
    }

    fn bare(memory: Arc<dyn Any + Send + Sync>, cpus: usize) -> Engine {
        Engine {
            ready: Mutex::new(Ready::default()),
            waiting: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
            calls_coming: AtomicUsize::new(0),
            callers: AtomicUsize::new(0),
            teams: OpenTeams::default(),
            cpus,
            max_workers: cpus.clamp(1, MAX_WORKERS),
            spins: cpus > 1,
            max_spinning: (cpus - 1).min(MAX_SPINNING),
            started: Instant::now(),
            closed: AtomicBool::new(false),
            calls: Pool::new("ferry-call"),
            litter: Arc::default(),
            #[cfg(loom)]
            ends_when_idle: false,
            pacer: None,
            min_team: MIN_TEAM_BYTES,
            does_short_copies_at_once: false,
            fork: ForkMark::new(),
            _memory: memory,
        }
    }

    /// Starts the workers that are missing. One is enough to go on with.
    pub fn start(self: &Arc<Self>) -> Result<()> {
        let mut ready = lock(&self.ready);
        while ready.workers < self.max_workers {
            match self.spawn_worker(ready.workers + 1) {
                Ok(()) => ready.workers += 1,
                Err(_) if ready.workers > 0 => break,
                Err(why) => return Err(no_thread(&why)),
            }
        }
        Ok(())
    }

    fn spawn_worker(self: &Arc<Self>, number: usize) -> io::Result<()> {
        let engine = self.clone();
        spawn(format!("ferry-worker-{number}"), WORKER_STACK, move || engine.serve())
    }

    /// Does what was found to be missing.
    fn summon(self: &Arc<Self>, missing: Missing) {
        match missing {
            Missing::Nothing => {}
            Missing::Sleeper(sleeper) => sleeper.wake(),
            Missing::Worker(number) => self.hire(number),
        }
    }

    /// Starts a worker, which was counted before. If there is no thread for it and no other worker, this one
    /// has to do.
    #[cold]
    fn hire(self: &Arc<Self>, number: usize) {
        if self.spawn_worker(number).is_ok() {
            return;
        }
        let mut ready = lock(&self.ready);
        if ready.workers > 1 {
            ready.workers -= 1;
            return;
        }
        while let Some(lane) = self.pop_lane(&mut ready) {
            drop(ready);
            lane.run_as_worker();
            ready = lock(&self.ready);
        }
        ready.workers -= 1;
    }

    /// Workers end when nothing is ready. A lane that is at a user's function then, or waits for one, finds
    /// others later.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        lock(&self.ready).sleepers.wake_all();
    }

    /// Nanoseconds since the engine was made: the clock of its devices.
    pub fn nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Whether some lane waits for a worker.
    pub fn has_ready(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// A lane has work and no owner: puts it on the list, and wakes or starts a worker if none is about to
    /// look.
    pub fn ready(self: &Arc<Self>, lane: Arc<dyn RunQueue>) {
        let mut ready = lock(&self.ready);
        ready.lanes.push_back(lane);
        self.waiting.store(ready.lanes.len(), Ordering::SeqCst);
        let missing = self.missing(&mut ready);
        drop(ready);
        self.summon(missing);
    }

    /// Has a worker be awake until what is returned is dropped, and shortly after: a call is about to bring
    /// work that several threads share, and waking one takes as long as a part of that.
    pub fn keep_one_awake(self: &Arc<Self>) -> KeptAwake {
        if self.spins {
            self.calls_coming.fetch_add(1, Ordering::SeqCst);
            let missing = self.missing(&mut lock(&self.ready));
            self.summon(missing);
        }
        KeptAwake(self.clone())
    }

    /// Which worker is missing for the work there is. A worker stops spinning, and ends, under this lock,
    /// and checks the list once more before: no lane is missed.
    fn missing(&self, ready: &mut Ready) -> Missing {
        if self.spinning.load(Ordering::SeqCst) > 0 {
            Missing::Nothing
        } else {
            ready.missing(self.max_workers)
        }
    }

    /// CPUs of this machine that the process may use.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// How a copy is cut for a team; `None` if it is done by one thread, in order.
    pub fn cut(&self, pieces: Pieces) -> Option<TeamPortions> {
        match &self.pacer {
            Some(pacer) if pacer.shuffles() => Team::shuffled(pieces, |end| pacer.draw(end)),
            _ => Team::portions(pieces, self.cpus),
        }
    }

    /// How a fill of so many bytes is cut for a team; `None` if it is done by one thread.
    pub fn cut_fill(&self, len: usize) -> Option<TeamPortions> {
        match &self.pacer {
            Some(pacer) if pacer.shuffles() => None,
            _ => Team::fill_portions(len, self.cpus),
        }
    }

    /// Has others help with this copy of `queue` from here on: a thread that waits for it, if there is one,
    /// and workers if there are more CPUs than two.
    pub fn open_team(
        self: &Arc<Self>,
        work: TeamWork,
        portions: TeamPortions,
        queue: &dyn RunQueue,
    ) -> OwnedTeam {
        let team = Arc::new(Team::new(work, portions, queue.number(), self.cpus));
        self.teams.add(team.clone());
        let waiters = usize::from(queue.bring_waiter());
        if self.cpus > 1 + waiters {
            // A worker looks at the teams once more, under this lock, before it sleeps.
            let missing = self.missing(&mut lock(&self.ready));
            self.summon(missing);
        }
        OwnedTeam { team, engine: self.clone(), closed: false }
    }

    /// Helps with a large copy, of this lane if one is given, until there is no more to do or it is `enough`.
    /// Returns whether there was something to help with.
    pub fn help_team(&self, lane: Option<usize>, enough: impl Fn() -> bool) -> bool {
        self.teams.help(lane, enough)
    }

    /// Whether there is a copy to help with, of this lane if one is given.
    pub fn has_team(&self, lane: Option<usize>) -> bool {
        self.teams.need_help(lane)
    }

    /// Spins while there are ops left before what is waited for, or for as long as spinning is thought to
    /// pay. Returns whether none are left. The more are, the less often it looks: every look takes the cache
    /// line of the thread that does them.
    pub fn spin(&self, left: impl Fn() -> Option<usize>) -> bool {
        let Some(mut ops) = left() else { return true };
        if !self.spins {
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..ops.clamp(MIN_PAUSES, MAX_PAUSES) {
                spin_loop();
            }
            match left() {
                None => return true,
                Some(_) if start.elapsed() > SPIN => return false,
                Some(more) => ops = more,
            }
        }
    }

    /// Whether one more thread may stay near a lane: a worker always, but of threads that have called users'
    /// functions only as many as may spin.
    pub fn may_linger(&self, calls: usize) -> bool {
        let room = |callers| (callers < self.max_spinning).then_some(callers + 1);
        calls == 0 || self.callers.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    /// The thread that may have called stays no longer.
    pub fn has_lingered(&self, calls: usize) {
        if calls > 0 {
            self.callers.fetch_sub(calls, Ordering::Relaxed);
        }
    }

    /// A thread that was near a lane and is no worker does something else from here on: if lanes are ready
    /// that nobody was told of, because it would have looked, workers are.
    pub fn relieve(self: &Arc<Self>) {
        if self.has_ready() {
            let missing = self.missing(&mut lock(&self.ready));
            self.summon(missing);
        }
    }

    /// Stays near a lane as a worker, or as a thread that `calls`: until there is `more`, until it is
    /// `called`, or until another lane is ready. Looks for more seldom, since every look takes the
    /// submitter's cache line away.
    pub fn linger(&self, calls: usize, more: impl Fn() -> bool, called: impl Fn() -> bool) {
        if !self.spins {
            return;
        }
        self.spinning.fetch_add(1, Ordering::SeqCst);
        let limit = if calls > 0 { CALLER_LINGER } else { LINGER };
        let start = Instant::now();
        let mut look = start + POLL_EVERY;
        loop {
            while Instant::now() < look && !called() {
                spin_loop();
            }
            if called() || more() || self.has_ready() || look - start > limit {
                break;
            }
            look += POLL_EVERY;
        }
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits a little for any lane, as a worker that is near none, unless others do: they would take the CPUs
    /// from those who submit.
    fn look_around(&self) {
        // A large copy whose team is complete has all CPUs.
        if !self.teams.is_empty() && !self.has_team(None) {
            return;
        }
        if self.spinning.fetch_add(1, Ordering::SeqCst) < self.max_spinning {
            let is_over = || self.has_ready() || self.has_team(None) || self.closed.load(Ordering::Relaxed);
            while !self.spin(|| (!is_over()).then_some(1)) && self.is_call_coming() {}
        }
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    fn is_call_coming(&self) -> bool {
        self.calls_coming.load(Ordering::SeqCst) > 0
    }

    /// A worker's life.
    pub(super) fn serve(self: &Arc<Self>) {
        let sleeper = Sleeper::new();
        while let Some(lane) = self.next_lane(&sleeper) {
            lane.run_as_worker();
        }
    }

    fn next_lane(self: &Arc<Self>, sleeper: &Arc<Sleeper>) -> Option<Arc<dyn RunQueue>> {
        if !self.has_ready() {
            self.look_around();
        }
        let mut has_rested = false;
        let mut ready = lock(&self.ready);
        loop {
            if ready.lanes.is_empty() && self.has_team(None) {
                drop(ready);
                self.join_team();
                self.look_around();
                has_rested = false;
                ready = lock(&self.ready);
                continue;
            }
            if ready.lanes.is_empty() && self.is_call_coming() && self.spinning.load(Ordering::SeqCst) == 0 {
                drop(ready);
                self.look_around();
                ready = lock(&self.ready);
                continue;
            }
            if let Some(lane) = self.pop_lane(&mut ready) {
                let another = !ready.lanes.is_empty();
                let missing = if another { ready.missing(self.max_workers) } else { Missing::Nothing };
                drop(ready);
                self.summon(missing);
                return Some(lane);
            }
            if has_rested || self.closed.load(Ordering::Acquire) {
                ready.workers = ready.workers.saturating_sub(1);
                return None;
            }
            ready.sleepers.add(sleeper, current_cpu());
            (ready, has_rested) = self.rest(ready, sleeper);
            // One that was taken out to be woken looks once more.
            has_rested &= ready.sleepers.remove(sleeper);
        }
    }

    /// Sleeps until it is woken, or for so long that this worker is no longer needed: then it returns true.
    #[cfg(not(loom))]
    fn rest<'a>(&self, ready: MutexGuard<'a, Ready>, sleeper: &Sleeper) -> (MutexGuard<'a, Ready>, bool) {
        sleeper.sleep(ready, IDLE)
    }

    /// In a model there is no time: a worker has either all of it or none.
    #[cfg(loom)]
    fn rest<'a>(&'a self, ready: MutexGuard<'a, Ready>, sleeper: &Sleeper) -> (MutexGuard<'a, Ready>, bool) {
        if !self.ends_when_idle {
            return sleeper.sleep(ready, IDLE);
        }
        drop(ready);
        loom::thread::yield_now();
        (lock(&self.ready), true)
    }

    fn pop_lane(&self, ready: &mut Ready) -> Option<Arc<dyn RunQueue>> {
        let lane = match &self.pacer {
            Some(pacer) if pacer.shuffles() && ready.lanes.len() > 1 => {
                let drawn = pacer.draw(ready.lanes.len());
                ready.lanes.remove(drawn)
            }
            _ => ready.lanes.pop_front(),
        };
        self.waiting.store(ready.lanes.len(), Ordering::Relaxed);
        lane
    }

    /// Helps with a large copy as a worker. The thread that opened the team woke one worker; each worker
    /// that joins wakes the next while there is room.
    fn join_team(self: &Arc<Self>) {
        let another = Cell::new(true);
        self.help_team(None, || {
            if another.take() && self.has_team(None) {
                let missing = lock(&self.ready).missing(self.max_workers);
                self.summon(missing);
            }
            self.has_ready()
        });
    }

    /// Runs a user's function on a thread where it may block for as long as it likes. Fails if there is no
    /// such thread to be had.
    pub fn call(&self, function: Job) -> Result<()> {
        Ok(self.calls.run_now(function)?)
    }

    /// Drops functions that will not run, on a thread where their destructors may block.
    pub fn drop_later(&self, functions: impl IntoIterator<Item = Job>) {
        self.litter.add(functions, |job| self.call(job).is_ok());
    }
}

/// A worker is awake as long as this lives, and shortly after.
pub struct KeptAwake(Arc<Engine>);

impl Drop for KeptAwake {
    fn drop(&mut self) {
        if self.0.spins {
            self.0.calls_coming.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// A team as its owner holds it. When it is dropped, no thread works on the copy any more.
pub struct OwnedTeam {
    team: Arc<Team>,
    engine: Arc<Engine>,
    closed: bool,
}

impl OwnedTeam {
    /// Does one portion. Returns whether the copy is done.
    pub fn step(&mut self) -> Result<bool> {
        if self.team.step() {
            return Ok(false);
        }
        self.close();
        self.team.take_failure().map_or(Ok(true), Err)
    }

    /// Ends the copy where it is; returns when no thread works on it.
    pub fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.engine.teams.remove(&self.team);
            self.team.close();
        }
    }
}

impl Drop for OwnedTeam {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    const LIMIT: Duration = Duration::from_secs(100);

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn a_worker_sleeps_when_nothing_is_expected_any_more() {
        let engine = Engine::new(Arc::new(()), 2);
        for _ in 0..3 {
            let awake = engine.keep_one_awake();
            until("it is awake", || engine.spinning.load(Ordering::SeqCst) == 1);
            drop(awake);
            until("it sleeps", || lock(&engine.ready).sleepers.count() == 1);
        }
        assert_eq!(lock(&engine.ready).workers, 1, "the same one each time");
        engine.close();
    }

    #[test]
    fn a_thread_with_nothing_to_do_keeps_no_memory() {
        let memory = Arc::new(());
        let engine = Engine::new(memory.clone(), 1);
        engine.call(Box::new(|| ())).expect("a thread");
        until("the thread comes to rest", || engine.calls.idle() == 1);
        drop(engine);
        assert_eq!(Arc::strong_count(&memory), 1);
    }
}
