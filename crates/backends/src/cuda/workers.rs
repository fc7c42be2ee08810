//! Threads for what may block: a user's function, a copy of pageable memory. As many as are blocked at once, and they go
//! away when there has been nothing to do for a while.

use crate::os::threads::{self, CALL_STACK, IDLE};
use ferry_core::{
    fence::survives,
    sync::{Arc, Condvar, Mutex, lock},
};
use std::collections::VecDeque;

/// Something to run on a thread of its own.
pub type Job = Box<dyn FnOnce() + Send>;

/// Threads that come when needed.
#[derive(Default)]
pub struct Workers {
    jobs: Mutex<Jobs>,
    wake: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    idle: usize,
    alive: usize,
}

impl Workers {
    /// Runs `job` soon, on a thread where it may block. If the system grants no more threads it runs when one is free.
    pub fn run(self: &Arc<Self>, job: Job) {
        let mut jobs = lock(&self.jobs);
        jobs.waiting.push_back(job);
        if jobs.idle >= jobs.waiting.len() {
            self.wake.notify_one();
            return;
        }
        let workers = self.clone();
        match threads::spawn("ferry-cuda".into(), CALL_STACK, move || workers.serve()) {
            Ok(()) => jobs.alive += 1,
            Err(why) => assert!(jobs.alive > 0, "the system grants not one thread: {why}"),
        }
    }

    fn serve(&self) {
        let mut jobs = lock(&self.jobs);
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                drop(jobs);
                // A destructor of the user's may panic; the thread is needed all the same.
                survives(job);
                jobs = lock(&self.jobs);
                continue;
            }
            jobs.idle += 1;
            let (guard, time) =
                self.wake.wait_timeout(jobs, IDLE).unwrap_or_else(|poisoned| poisoned.into_inner());
            jobs = guard;
            jobs.idle -= 1;
            if time.timed_out() && jobs.waiting.is_empty() {
                jobs.alive -= 1;
                return;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn blocked_jobs_do_not_hold_up_others() {
        let workers = Arc::new(Workers::default());
        let (done, wait) = mpsc::channel();
        let gates: Vec<_> = (0..16)
            .map(|_| {
                let (open, gate) = mpsc::channel::<()>();
                let done = done.clone();
                let job = move || {
                    gate.recv().expect("opened below");
                    done.send("blocked").expect("read below");
                };
                workers.run(Box::new(job));
                open
            })
            .collect();
        workers.run(Box::new(move || done.send("free").expect("read below")));
        assert_eq!(wait.recv(), Ok("free"));
        gates.iter().for_each(|gate| gate.send(()).expect("the job waits"));
        assert_eq!(wait.iter().filter(|word| *word == "blocked").count(), 16);
    }
}
