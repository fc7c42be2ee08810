//! A thread pool for what may block: users' functions, copies of pageable memory, calls of a driver.
//!
//! It has as many threads as are blocked at once, and a thread that has had nothing to do for a while ends.
//! The system may refuse a thread at any time. A caller that can report that is told, and gets its job back
//! ([`Pool::run`]). A caller that cannot, such as a callback of a driver, has a reservation that was made
//! before, where a refusal could be reported ([`Pool::reserve`]): as long as one lives the pool keeps a
//! thread, and no job is refused.
//!
//! Where no more threads are granted such a job waits for the one that there is, until the job of that ends.
//! A job of ours that goes on for long makes way ([`Pool::make_way`]), or ends when it has had nothing to do
//! for a second. A function of the user's that waits for work which needs another thread waits for good then.
//!
//! The threads know nothing of the backend: one that is idle must not keep the memory of a runtime that is
//! gone.

use crate::os::{
    refusal::explain_thread,
    threads::{CALL_STACK, IDLE, end::never_ending, spawn},
};
use ferry_core::{
    Error, Kind,
    fence::survives,
    sync::{Arc, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, lock},
};
use std::{collections::VecDeque, io};

/// Something to run on a thread of the pool.
pub type Job = Box<dyn FnOnce() + Send>;

/// The threads and what they share.
pub struct Pool {
    name: &'static str,
    state: Mutex<PoolState>,
    wake: Condvar,
    /// How many reservations there are. Not in `state`: one is also dropped in a forked child, where that may
    /// be locked for ever.
    reserved: AtomicUsize,
}

struct PoolState {
    /// Bytes of a thread's stack.
    stack: usize,
    queued: VecDeque<Job>,
    idle: usize,
    alive: usize,
    /// The system has refused the last thread that was asked for.
    is_refused: bool,
}

impl PoolState {
    fn new(stack: usize) -> PoolState {
        PoolState { stack, queued: VecDeque::new(), idle: 0, alive: 0, is_refused: false }
    }

    /// The job that was queued last, for which there is no thread.
    fn take_back(&mut self, why: io::Error) -> Refused {
        Refused { job: self.queued.pop_back().expect("it was queued under the same lock"), why }
    }
}

impl Pool {
    /// A pool without threads yet. They will have this name.
    pub fn new(name: &'static str) -> Arc<Pool> {
        Arc::new(Pool {
            name,
            state: Mutex::new(PoolState::new(CALL_STACK)),
            wake: Condvar::new(),
            reserved: AtomicUsize::new(0),
        })
    }

    /// Runs `job` at once, on a thread that nothing else occupies. Fails if there is none to be had.
    pub fn run_now(self: &Arc<Self>, job: Job) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        self.add(&mut state, job).map_err(|why| state.take_back(why))
    }

    /// Runs `job` soon: where the system grants no more threads, when one of those that there are is free.
    /// Fails if there is not one.
    pub fn run(self: &Arc<Self>, job: Job) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        match self.add(&mut state, job) {
            Err(why) if state.alive == 0 => Err(state.take_back(why)),
            _ => Ok(()),
        }
    }

    /// Makes sure of a thread for a job that comes later.
    pub fn reserve(self: &Arc<Self>) -> Result<ThreadReservation, Error> {
        let mut state = lock(&self.state);
        if state.alive == 0 {
            self.start(&mut state).map_err(|why| no_thread(&why))?;
        }
        self.reserved.fetch_add(1, Ordering::SeqCst);
        Ok(ThreadReservation(self.clone()))
    }

    /// Has a job that goes on for long, on a thread of the pool, make way for one that waits since the system
    /// has refused a thread for it. True if the caller must end: then `rest` is what is left of its job, and
    /// is queued behind that one.
    pub fn make_way(self: &Arc<Self>, rest: impl FnOnce() + Send + 'static) -> bool {
        let mut state = lock(&self.state);
        let is_waited_for = state.is_refused && state.idle < state.queued.len();
        if is_waited_for {
            // A refusal leaves the job in the queue, and there is a thread: this.
            let _ = self.add(&mut state, Box::new(rest));
        }
        is_waited_for
    }

    /// Queues `job`, and starts a thread for it if none is idle.
    fn add(self: &Arc<Self>, state: &mut PoolState, job: Job) -> io::Result<()> {
        state.queued.push_back(job);
        if state.idle >= state.queued.len() {
            self.wake.notify_one();
            return Ok(());
        }
        self.start(state)
    }

    /// Starts a thread and counts it. The lock is held, so the thread finds itself counted.
    fn start(self: &Arc<Self>, state: &mut PoolState) -> io::Result<()> {
        let pool = self.clone();
        let spawned = spawn(self.name.into(), state.stack, move || pool.serve());
        state.is_refused = spawned.is_err();
        state.alive += usize::from(spawned.is_ok());
        spawned
    }

    /// A thread's life.
    fn serve(&self) {
        let mut state = lock(&self.state);
        loop {
            if let Some(job) = state.queued.pop_front() {
                drop(state);
                // A destructor of the user's may panic; the thread is needed all the same.
                survives(job);
                state = lock(&self.state);
                continue;
            }
            let is_late;
            (state, is_late) = self.rest(state);
            if is_late && state.queued.is_empty() && !self.keeps_last(&state) {
                state.alive -= 1;
                return;
            }
        }
    }

    /// Whether the thread that asks must stay, idle or not.
    fn keeps_last(&self, state: &PoolState) -> bool {
        state.alive == 1 && self.reserved.load(Ordering::SeqCst) > 0
    }

    /// Waits for a job, and says whether none came for long.
    fn rest<'a>(&'a self, mut state: MutexGuard<'a, PoolState>) -> (MutexGuard<'a, PoolState>, bool) {
        let _counted = self.keeps_last(&state).then(never_ending);
        state.idle += 1;
        let rested = self.wake.wait_timeout(state, IDLE);
        let (mut state, time) = rested.unwrap_or_else(|poisoned| poisoned.into_inner());
        state.idle -= 1;
        (state, time.timed_out())
    }

    /// How many threads have nothing to do.
    #[cfg(all(test, not(loom)))]
    pub fn idle(&self) -> usize {
        lock(&self.state).idle
    }

    /// From here on the system grants the pool no thread: none gets a stack that is larger than the address
    /// space.
    #[cfg(all(test, not(loom)))]
    pub fn refuse_threads(&self) {
        lock(&self.state).stack = 1 << 60;
    }
}

/// The promise of a thread for one job.
pub struct ThreadReservation(Arc<Pool>);

impl ThreadReservation {
    /// Runs `job` soon: where the system grants no more threads, when one of those that there are is free.
    pub fn run(self, job: Job) {
        // A refusal leaves the job in the queue, and until `self` is dropped the pool has a thread that comes
        // to it when its job ends.
        let _ = self.0.add(&mut lock(&self.0.state), job);
    }
}

impl Drop for ThreadReservation {
    fn drop(&mut self) {
        self.0.reserved.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A job that will not run, since the system grants no thread.
pub struct Refused {
    /// The job, untouched.
    pub job: Job,
    why: io::Error,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        no_thread(&refused.why)
    }
}

/// The failure of what needs a thread.
pub fn no_thread(why: &io::Error) -> Error {
    Kind::Device.because(format!("the system grants no thread: {}", explain_thread(why)))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::{
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    const LIMIT: Duration = Duration::from_secs(100);

    fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
        let end = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < end, "{what}");
            thread::yield_now();
        }
    }

    #[test]
    fn blocked_jobs_do_not_delay_others() {
        let pool = Pool::new("ferry-test");
        let (done, wait) = mpsc::channel();
        let run = |job: Job| assert!(pool.run(job).is_ok());
        let gates: Vec<_> = (0..16)
            .map(|_| {
                let (open, gate) = mpsc::channel::<()>();
                let done = done.clone();
                run(Box::new(move || {
                    gate.recv().expect("opened below");
                    done.send("blocked").expect("read below");
                }));
                open
            })
            .collect();
        run(Box::new(move || done.send("free").expect("read below")));
        assert_eq!(wait.recv(), Ok("free"));
        gates.iter().for_each(|gate| gate.send(()).expect("the job waits"));
        assert_eq!(wait.iter().filter(|word| *word == "blocked").count(), 16);
    }

    #[test]
    fn without_a_thread_the_job_comes_back() {
        let (pool, held) = (Pool::new("ferry-test"), Arc::new(()));
        pool.refuse_threads();
        for run in [Pool::run, Pool::run_now] {
            let job = held.clone();
            let refused = run(&pool, Box::new(move || drop(job))).expect_err("no thread");
            assert_eq!(Arc::strong_count(&held), 2, "it was neither run nor dropped");
            (refused.job)();
        }
        let error = pool.reserve().err().expect("no thread");
        assert!(error.note.contains("grants no thread"), "{error}");
    }

    #[test]
    fn what_was_reserved_is_run_by_the_last_thread_if_no_other_is_granted() {
        let pool = Pool::new("ferry-test");
        let reservations: Vec<_> = (0..100).map(|_| pool.reserve().expect("a thread")).collect();
        pool.refuse_threads();
        eventually("the thread waits for a job", || pool.idle() == 1);
        assert!(pool.keeps_last(&lock(&pool.state)), "it stays, idle or not");
        let (done, wait) = mpsc::channel();
        for (number, reservation) in reservations.into_iter().enumerate() {
            let done = done.clone();
            reservation.run(Box::new(move || done.send(number).expect("read below")));
        }
        assert!(wait.iter().take(100).eq(0..100));
        eventually("the last thread ends", || lock(&pool.state).alive == 0);
    }
}
