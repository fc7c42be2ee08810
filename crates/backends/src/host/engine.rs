//! The workers of the host backend: a few threads that run lanes. Users' functions have threads of their own: `calls.rs`.
//!
//! A worker that finds nothing spins for a little while, since a spinning worker sees new work at once and waking a sleeping
//! one costs the waker several microseconds; then it sleeps. With one CPU nobody spins. Idle costs nothing.

use super::{calls::Calls, lane::Lane, team::Team};
use crate::{refusal, threads::spawn};
use ferry_core::{
    Error, Kind, Result,
    sync::{Arc, AtomicBool, AtomicUsize, Condvar, Mutex, Ordering, lock, spin_loop},
};
use std::{
    any::Any,
    cell::Cell,
    collections::VecDeque,
    io,
    time::{Duration, Instant},
};

const SPIN: Duration = Duration::from_micros(50);
const LINGER: Duration = Duration::from_micros(50);
const LOOK_EVERY: Duration = Duration::from_micros(5);
const MOST_WORKERS: usize = 8;
/// Workers that spin at the same time; always fewer than there are CPUs.
const MOST_SPINNING: usize = 2;
const WORKER_STACK: usize = 1 << 20;

/// The threads and what they share.
pub struct Engine {
    ready: Mutex<Ready>,
    /// How many lanes are in the list, readable without its lock.
    waiting: AtomicUsize,
    spinning: AtomicUsize,
    /// Large copies that others may help with.
    teams: Mutex<Vec<Arc<Team>>>,
    /// How many there are, readable without the lock.
    open_teams: AtomicUsize,
    wake: Condvar,
    cpus: usize,
    spins: bool,
    most_spinning: usize,
    started: Instant,
    closed: AtomicBool,
    pub(super) calls: Arc<Calls>,
    /// Keeps the memory that lanes work on.
    _memory: Arc<dyn Any + Send + Sync>,
}

#[derive(Default)]
struct Ready {
    lanes: VecDeque<Arc<Lane>>,
    sleeping: usize,
    workers: usize,
}

impl Engine {
    /// An engine with no threads yet. It keeps `memory` alive.
    pub fn new(memory: Arc<dyn Any + Send + Sync>, cpus: usize) -> Arc<Engine> {
        Arc::new(Engine {
            ready: Mutex::new(Ready::default()),
            waiting: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
            teams: Mutex::new(Vec::new()),
            open_teams: AtomicUsize::new(0),
            wake: Condvar::new(),
            cpus,
            spins: cpus > 1,
            most_spinning: (cpus - 1).min(MOST_SPINNING),
            started: Instant::now(),
            closed: AtomicBool::new(false),
            calls: Arc::default(),
            _memory: memory,
        })
    }

    /// Starts the workers that are missing. One is enough to go on with.
    pub fn start(self: &Arc<Self>, cpus: usize) -> Result<()> {
        let mut ready = lock(&self.ready);
        while ready.workers < cpus.clamp(1, MOST_WORKERS) {
            let engine = self.clone();
            match spawn(format!("ferry-worker-{}", ready.workers + 1), WORKER_STACK, move || engine.serve()) {
                Ok(()) => ready.workers += 1,
                Err(_) if ready.workers > 0 => break,
                Err(why) => return Err(no_thread(&why)),
            }
        }
        Ok(())
    }

    /// Workers end when nothing is ready. A lane that is at a user's function then, or waits for one, finds others later.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        drop(lock(&self.ready));
        self.wake.notify_all();
    }

    /// Nanoseconds since the engine was made: the clock of its devices.
    pub fn nanos(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Whether some lane waits for a worker.
    pub fn has_ready(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// A lane has work and nobody at it.
    pub fn ready(self: &Arc<Self>, lane: Arc<Lane>) {
        let mut ready = lock(&self.ready);
        ready.lanes.push_back(lane);
        self.waiting.store(ready.lanes.len(), Ordering::SeqCst);
        // A worker stops spinning under this lock and looks at the list once more before it sleeps.
        let wake = ready.sleeping > 0 && self.spinning.load(Ordering::SeqCst) == 0;
        let is_last_call = self.closed.load(Ordering::Relaxed) && ready.workers == 0;
        drop(ready);
        if wake {
            self.wake.notify_one();
        }
        // The workers ended while this lane could not go on. Without a thread for it, this one has to do.
        if is_last_call && self.start(1).is_err() {
            self.serve();
        }
    }

    /// CPUs of this machine that the process may use.
    pub fn cpus(&self) -> usize {
        self.cpus
    }

    /// Others may help with this copy from here on.
    pub fn open_team(&self, team: Arc<Team>) {
        let mut teams = lock(&self.teams);
        teams.push(team);
        self.open_teams.store(teams.len(), Ordering::SeqCst);
        drop(teams);
        // A worker looks at the teams once more, under this lock, before it sleeps.
        let ready = lock(&self.ready);
        let wake = ready.sleeping > 0 && self.spinning.load(Ordering::SeqCst) == 0;
        drop(ready);
        if wake {
            self.wake.notify_one();
        }
    }

    /// Nobody may help with this copy any more.
    pub fn shut_team(&self, team: &Arc<Team>) {
        let mut teams = lock(&self.teams);
        teams.retain(|open| !Arc::ptr_eq(open, team));
        self.open_teams.store(teams.len(), Ordering::SeqCst);
    }

    /// Helps with a large copy, of this lane if one is given, until there is no more to do or it is `enough`. Returns whether
    /// there was something to help with.
    pub fn help_team(&self, lane: Option<usize>, enough: impl Fn() -> bool) -> bool {
        if self.open_teams.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let found = lock(&self.teams).iter().find(|team| team.is_of(lane) && team.join()).cloned();
        let Some(team) = found else { return false };
        while !enough() && team.step() {}
        team.leave();
        true
    }

    /// Spins until `done`, or for as long as spinning is thought to pay. Returns whether it is done.
    pub fn spin(&self, done: impl Fn() -> bool) -> bool {
        if done() {
            return true;
        }
        if !self.spins {
            return false;
        }
        let start = Instant::now();
        loop {
            for _ in 0..16 {
                spin_loop();
            }
            if done() {
                return true;
            }
            if start.elapsed() > SPIN {
                return false;
            }
        }
    }

    /// Stays near a lane as a worker: until there is `more`, or until another lane is ready. Looks seldom, since every look takes
    /// the submitter's cache line away.
    pub fn linger(&self, more: impl Fn() -> bool) {
        if !self.spins {
            return;
        }
        self.spinning.fetch_add(1, Ordering::SeqCst);
        let start = Instant::now();
        let mut look = start + LOOK_EVERY;
        loop {
            while Instant::now() < look {
                spin_loop();
            }
            if more() || self.has_ready() || look - start > LINGER {
                break;
            }
            look += LOOK_EVERY;
        }
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits a little for any lane, as a worker that is near none, unless others do: they would take the CPUs from those who
    /// submit.
    fn look_around(&self) {
        // A large copy that needs nobody has all CPUs.
        if self.open_teams.load(Ordering::SeqCst) > 0 && !self.has_team(None) {
            return;
        }
        if self.spinning.fetch_add(1, Ordering::SeqCst) < self.most_spinning {
            self.spin(|| self.has_ready() || self.has_team(None) || self.closed.load(Ordering::Relaxed));
        }
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there is a copy to help with, of this lane if one is given.
    pub fn has_team(&self, lane: Option<usize>) -> bool {
        let open = || lock(&self.teams).iter().any(|team| team.is_of(lane) && team.has_room());
        self.open_teams.load(Ordering::SeqCst) > 0 && open()
    }

    /// A worker's life.
    pub(super) fn serve(&self) {
        while let Some(lane) = self.next_lane() {
            lane.work();
        }
    }

    fn next_lane(&self) -> Option<Arc<Lane>> {
        if !self.has_ready() {
            self.look_around();
        }
        let mut ready = lock(&self.ready);
        loop {
            if ready.lanes.is_empty() && self.has_team(None) {
                // Whoever opened the team woke one; each that comes wakes the next while there is room.
                let another = Cell::new(ready.sleeping > 0);
                drop(ready);
                self.help_team(None, || {
                    if another.take() && self.has_team(None) {
                        self.wake.notify_one();
                    }
                    self.has_ready()
                });
                self.look_around();
                ready = lock(&self.ready);
                continue;
            }
            if let Some(lane) = ready.lanes.pop_front() {
                self.waiting.store(ready.lanes.len(), Ordering::Relaxed);
                let another = !ready.lanes.is_empty() && ready.sleeping > 0;
                drop(ready);
                if another {
                    self.wake.notify_one();
                }
                return Some(lane);
            }
            if self.closed.load(Ordering::Acquire) {
                ready.workers = ready.workers.saturating_sub(1);
                return None;
            }
            ready.sleeping += 1;
            ready = self.wake.wait(ready).unwrap_or_else(|poisoned| poisoned.into_inner());
            ready.sleeping -= 1;
        }
    }

    /// Runs a user's function on a thread where it may block for as long as it likes. Fails if there is no such thread to be had.
    pub fn call(&self, function: Box<dyn FnOnce() + Send>) -> Result<()> {
        self.calls.call(function).map_err(|why| no_thread(&why))
    }
}

fn no_thread(why: &io::Error) -> Error {
    Kind::Device.because(format!("the system grants no thread: {}", refusal::explain(why)))
}
