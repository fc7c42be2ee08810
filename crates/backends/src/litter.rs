//! Deferred destruction of users' functions that will not run. What they own is dropped on a thread of the
//! pool: a destructor may block, wait for the very queue that dropped the function, or panic. One thread
//! serves all of them, however many there are.

use crate::pool::Job;
use ferry_core::{
    fence::survives,
    sync::{Arc, Mutex, lock},
};
use std::mem;

/// Jobs that wait to be dropped.
#[derive(Default)]
pub struct Litter(Mutex<Unwanted>);

#[derive(Default)]
struct Unwanted {
    functions: Vec<Job>,
    /// A thread is at it, and takes what comes meanwhile.
    is_swept: bool,
}

impl Litter {
    /// Has these dropped soon. `start` is given the job if none is under way, and says whether it found a
    /// thread for it; if not they wait for the next time.
    pub fn add(self: &Arc<Self>, functions: impl IntoIterator<Item = Job>, start: impl FnOnce(Job) -> bool) {
        let mut state = lock(&self.0);
        state.functions.extend(functions);
        if state.functions.is_empty() || mem::replace(&mut state.is_swept, true) {
            return;
        }
        drop(state);
        let litter = self.clone();
        if !start(Box::new(move || litter.sweep())) {
            lock(&self.0).is_swept = false;
        }
    }

    fn sweep(&self) {
        loop {
            let mut state = lock(&self.0);
            state.is_swept = !state.functions.is_empty();
            let functions = mem::take(&mut state.functions);
            drop(state);
            if functions.is_empty() {
                return;
            }
            drop_each(functions);
        }
    }
}

/// Drops things of the user's. What the destructor of one does is no affair of ours, or of the others'.
pub fn drop_each<T>(all: impl IntoIterator<Item = T>) {
    for one in all {
        survives(move || drop(one));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts how often one was dropped, and panics as a careless destructor may.
    struct Careless(Arc<AtomicUsize>);

    impl Drop for Careless {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("a destructor of the user's");
        }
    }

    #[test]
    fn all_are_dropped_once_by_one_job_at_a_time() {
        let (litter, dropped, jobs) = (Arc::new(Litter::default()), Arc::default(), Mutex::new(Vec::new()));
        let function = || {
            let held = Careless(Arc::clone(&dropped));
            Box::new(move || drop(held)) as Job
        };
        let start = |job| {
            lock(&jobs).push(job);
            true
        };
        litter.add([], start);
        litter.add([function()], |_| false);
        (0..100).for_each(|_| litter.add([function(), function()], start));
        let mut started = mem::take(&mut *lock(&jobs));
        assert_eq!((started.len(), dropped.load(Ordering::Relaxed)), (1, 0));
        started.pop().expect("one job")();
        assert_eq!(dropped.load(Ordering::Relaxed), 201);
        litter.add([function()], start);
        lock(&jobs).pop().expect("a job for what came later")();
        assert_eq!(dropped.load(Ordering::Relaxed), 202);
    }
}
