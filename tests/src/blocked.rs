//! Decides whether a call has returned or sleeps, without a clock.
//!
//! The call runs on a thread of its own. Either its result arrives, or the thread is proven asleep: the
//! kernel says `S`, its context-switch counts stand still from one look to the next, and all that time no
//! other thread of the process was running that could have been on its way to wake it. A slow machine makes
//! the decision later, not different.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use crate::{aclrtGetCurrentContext, aclrtSetCurrentContext, ok};

/// Looks that must find the thread asleep one after the other.
const LOOKS: usize = 20;

/// Threads that only look: they are awake at random and wake nobody.
static OBSERVERS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// What became of a call.
pub enum Outcome<T> {
    /// It came back.
    Returned(T),
    /// It sleeps and will until something changes.
    Blocked(Pending<T>),
}

/// A call that has not come back yet.
pub struct Pending<T> {
    thread: JoinHandle<()>,
    result: Receiver<T>,
}

impl<T> Pending<T> {
    /// Waits for the call to come back.
    #[track_caller]
    pub fn join(self) -> T {
        let value = self.result.recv_timeout(Duration::from_secs(120)).expect("the call never came back");
        self.thread.join().expect("the thread of a call that has come back");
        value
    }
}

impl<T> Outcome<T> {
    /// Asserts that the call came back.
    #[track_caller]
    pub fn returned(self, what: &str) -> T {
        match self {
            Outcome::Returned(value) => value,
            Outcome::Blocked(_) => panic!("{what}: the call sleeps instead of coming back"),
        }
    }

    /// Asserts that the call sleeps.
    #[track_caller]
    pub fn blocked(self, what: &str) -> Pending<T> {
        match self {
            Outcome::Blocked(pending) => pending,
            Outcome::Returned(_) => panic!("{what}: the call came back instead of waiting"),
        }
    }
}

/// Runs `f` on another thread, in the current context of this one, until it has returned or is proven asleep.
pub fn call<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> Outcome<T> {
    let mut context = 0;
    ok(aclrtGetCurrentContext(&mut context));
    let (ready, its_id) = channel();
    let (done, result) = channel();
    let thread = spawn(move || {
        ok(aclrtSetCurrentContext(context));
        ready.send(thread_id()).expect("the observer waits for this");
        // The observer may have failed and gone away; then nobody wants the result.
        done.send(f()).unwrap_or(());
    });
    let id = its_id.recv().expect("the thread says who it is");
    observing(|| watch(id, Pending { thread, result }))
}

/// Returns once no other thread of the process runs: what could happen by itself has happened.
pub fn settle() {
    observing(|| {
        let limit = Instant::now() + Duration::from_secs(120);
        let mut still = 0;
        while still < 5 {
            still = if nobody_runs() { still + 1 } else { 0 };
            assert!(Instant::now() < limit, "some thread of this process never comes to rest");
            sleep(Duration::from_millis(1));
        }
    });
}

/// Returns how many threads there are whose name begins like this, once all of them have slept through many
/// looks in a row without being woken once: none of them polls.
pub fn sleepers(name: &str) -> usize {
    let limit = Instant::now() + Duration::from_secs(120);
    let (mut last, mut still) = (None, 0);
    while still < 5 * LOOKS {
        let now: Option<Vec<_>> = named(name).into_iter().map(sleeping).collect();
        still = if now.is_some() && now == last { still + 1 } else { 0 };
        assert!(Instant::now() < limit, "a thread named {name} never comes to rest");
        last = now;
        sleep(Duration::from_millis(1));
    }
    last.map_or(0, |all| all.len())
}

/// The threads of this process whose name begins like this.
pub fn named(name: &str) -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").expect("the threads of this process");
    let ids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
    let named = |id: &i32| {
        fs::read_to_string(format!("/proc/self/task/{id}/comm")).is_ok_and(|comm| comm.starts_with(name))
    };
    ids.filter(named).collect()
}

fn observing<R>(look: impl FnOnce() -> R) -> R {
    let me = thread_id();
    OBSERVERS.lock().unwrap().insert(me);
    let seen = look();
    OBSERVERS.lock().unwrap().remove(&me);
    seen
}

fn watch<T>(id: i32, call: Pending<T>) -> Outcome<T> {
    // Turns a call that neither returns nor sleeps (it spins for ever) into a failure.
    let limit = Instant::now() + Duration::from_secs(120);
    let (mut last, mut still) = (None, 0);
    loop {
        match call.result.try_recv() {
            Ok(value) => {
                call.thread.join().expect("the thread of a call that has come back");
                return Outcome::Returned(value);
            }
            Err(TryRecvError::Disconnected) => panic!("the call panicked"),
            Err(TryRecvError::Empty) => {}
        }
        let now = sleeping(id).filter(|_| nobody_runs());
        still = if now.is_some() && now == last { still + 1 } else { 0 };
        if still == LOOKS {
            return Outcome::Blocked(call);
        }
        assert!(Instant::now() < limit, "the call neither comes back nor sleeps");
        last = now;
        sleep(Duration::from_millis(1));
    }
}

/// The context-switch counts of a thread that sleeps.
fn sleeping(id: i32) -> Option<(u64, u64)> {
    if state(id)? != 'S' {
        return None;
    }
    let status = fs::read_to_string(format!("/proc/self/task/{id}/status")).ok()?;
    let count = |name| {
        let line = status.lines().find(|l: &&str| l.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some((count("voluntary_ctxt_switches:")?, count("nonvoluntary_ctxt_switches:")?))
}

/// Whether every thread of the process but the observers sleeps.
fn nobody_runs() -> bool {
    let observers = OBSERVERS.lock().unwrap().clone();
    let threads = fs::read_dir("/proc/self/task").expect("Linux lists a process's threads");
    threads
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|id| !observers.contains(id))
        // A thread that ended between the two reads does not run.
        .all(|id| state(id).is_none_or(|s| matches!(s, 'S' | 'Z' | 'X') || s == 'D' && is_the_drivers(id)))
}

/// Whether it is a thread of the CUDA driver's own. Where many processes use a GPU these stand in line for a
/// lock of the kernel's again and again, and are on no way to wake anybody.
fn is_the_drivers(id: i32) -> bool {
    fs::read_to_string(format!("/proc/self/task/{id}/comm")).is_ok_and(|comm| comm.starts_with("cuda"))
}

/// The letter after the name, which is in brackets and may hold anything.
fn state(id: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/self/task/{id}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

fn thread_id() -> i32 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::gettid() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Barrier};

    #[test]
    fn a_thread_at_a_barrier_is_asleep_and_a_finished_one_has_returned() {
        let barrier = Arc::new(Barrier::new(2));
        let other = barrier.clone();
        let (ready, its_id) = channel();
        let (done, result) = channel();
        let thread = spawn(move || {
            ready.send(thread_id()).unwrap();
            other.wait();
            done.send(7).unwrap();
        });
        let id = its_id.recv().unwrap();
        let pending = observing(|| watch(id, Pending { thread, result }))
            .blocked("a barrier that one thread has reached");
        barrier.wait();
        assert_eq!(pending.join(), 7);
    }

    #[test]
    fn a_thread_that_computes_is_not_taken_for_asleep() {
        let (ready, its_id) = channel();
        let (done, result) = channel();
        let thread = spawn(move || {
            ready.send(thread_id()).unwrap();
            let sum = (0..20_000_000u64).fold(0, |a, b| std::hint::black_box(a ^ b));
            done.send(sum).unwrap();
        });
        let id = its_id.recv().unwrap();
        observing(|| watch(id, Pending { thread, result })).returned("a long sum");
    }
}
