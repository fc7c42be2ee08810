//! Keeps the threads of a replay in the order that its results depend on.

use ferry_watch::recording::Recording;
use std::{
    collections::BTreeMap,
    sync::{
        Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

/// How often a thread looks at what it waits for before it sleeps.
const SPINS: usize = 200;

/// The steps of each thread, and how far each has come.
pub(super) struct Conductor {
    steps: Vec<Vec<usize>>,
    /// For each step, how many of its steps another thread must have done.
    needs: Vec<Vec<(usize, usize)>>,
    progress: Vec<AtomicUsize>,
    is_stopped: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    moved: Condvar,
}

impl Conductor {
    /// Of a recording, where steps come after others.
    pub(super) fn new(recording: &Recording, before: &[Vec<usize>]) -> Conductor {
        let mut steps: Vec<Vec<usize>> = vec![Vec::new(); recording.threads.len()];
        // Where each step stands in its thread.
        let mut places = Vec::with_capacity(recording.steps.len());
        for (number, step) in recording.steps.iter().enumerate() {
            let own = &mut steps[step.thread as usize];
            places.push((step.thread as usize, own.len() + 1));
            own.push(number);
        }
        let mut known: Vec<BTreeMap<usize, usize>> = vec![BTreeMap::new(); steps.len()];
        let mut needs = vec![Vec::new(); recording.steps.len()];
        for (number, before) in before.iter().enumerate() {
            let thread = places[number].0;
            for (other, count) in before.iter().filter(|earlier| **earlier < number).map(|step| places[*step])
            {
                let known = known[thread].entry(other).or_default();
                if other != thread && *known < count {
                    *known = count;
                    needs[number].push((other, count));
                }
            }
        }
        Conductor {
            progress: steps.iter().map(|_| AtomicUsize::new(0)).collect(),
            steps,
            needs,
            is_stopped: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    /// Whether a thread has anything to do.
    pub(super) fn has_steps(&self, thread: u32) -> bool {
        !self.steps[thread as usize].is_empty()
    }

    /// What a thread does, in order.
    pub(super) fn steps(&self, thread: u32) -> &[usize] {
        &self.steps[thread as usize]
    }

    /// Waits until other threads have done what a step needs. False if the replay was stopped.
    pub(super) fn wait_for_others(&self, step: usize) -> bool {
        self.needs[step].iter().all(|(thread, count)| self.wait(*thread, *count)) && !self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn wait(&self, thread: usize, count: usize) -> bool {
        let is_over = || self.progress[thread].load(Ordering::SeqCst) >= count || self.is_stopped();
        for _ in 0..SPINS {
            if is_over() {
                return !self.is_stopped();
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        while !is_over() {
            guard = self.moved.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        !self.is_stopped()
    }

    /// A thread has done one step more.
    pub(super) fn done(&self, thread: u32) {
        self.progress[thread as usize].fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake();
        }
    }

    /// No thread does any more.
    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        drop(self.lock.lock());
        self.moved.notify_all();
    }
}
