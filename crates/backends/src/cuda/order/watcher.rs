//! One thread that polls points of streams and calls functions when they are done.
//!
//! The driver has nothing better that would not also wait for work submitted after the point. The thread
//! comes from the pool and goes back when nothing is watched.

use crate::pool::{Job, Pool};
use ferry_core::{
    fence,
    sync::{Arc, Mutex, lock},
};
use std::{mem, thread, time::Duration};

/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Whether a point is done.
type IsDone = Box<dyn Fn() -> bool + Send>;

/// Calls functions once points are done.
#[derive(Default)]
pub struct Watcher {
    watched: Mutex<WatchList>,
}

#[derive(Default)]
struct WatchList {
    points: Vec<(IsDone, Job)>,
    is_polled: bool,
}

impl Watcher {
    /// Runs `then` once `is_done` says so. It comes back if there is no thread that could poll.
    pub fn add(
        self: &Arc<Self>,
        pool: &Arc<Pool>,
        is_done: impl Fn() -> bool + Send + 'static,
        then: Job,
    ) -> Result<(), Job> {
        let mut watched = lock(&self.watched);
        if !watched.is_polled {
            let (watcher, its_pool) = (self.clone(), pool.clone());
            watched.is_polled = pool.run(Box::new(move || watcher.serve(its_pool))).is_ok();
        }
        if !watched.is_polled {
            return Err(then);
        }
        watched.points.push((Box::new(is_done), then));
        Ok(())
    }

    /// Polls until nothing is watched. What is watched may need the thread: it makes way.
    fn serve(self: Arc<Self>, pool: Arc<Pool>) {
        while self.poll() {
            let (watcher, its_pool) = (self.clone(), pool.clone());
            if pool.make_way(move || watcher.serve(its_pool)) {
                return;
            }
        }
    }

    /// Polls once, and says whether to poll again.
    fn poll(&self) -> bool {
        let points = mem::take(&mut lock(&self.watched).points);
        let (done, rest): (Vec<_>, Vec<_>) = points.into_iter().partition(|(is_done, _)| is_done());
        fence::tell(done.into_iter().map(|(_, then)| then));
        let mut watched = lock(&self.watched);
        watched.points.extend(rest);
        watched.is_polled = !watched.points.is_empty();
        let again = watched.is_polled;
        drop(watched);
        if again {
            thread::sleep(POLL_INTERVAL);
        }
        again
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    };

    #[test]
    fn the_last_thread_does_what_it_polls_for() {
        let (pool, watcher) = (Pool::new("ferry-test"), Arc::new(Watcher::default()));
        let reservation = pool.reserve().expect("a thread");
        while pool.idle() == 0 {
            thread::yield_now();
        }
        pool.refuse_threads();
        let (is_done, (tell, told)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
        let asked = is_done.clone();
        let then = Box::new(move || tell.send(()).expect("read below"));
        assert!(watcher.add(&pool, move || asked.load(Ordering::Acquire), then).is_ok());
        while pool.idle() > 0 {
            thread::yield_now();
        }
        reservation.run(Box::new(move || is_done.store(true, Ordering::Release)));
        assert_eq!(told.recv_timeout(Duration::from_secs(30)), Ok(()));
    }
}
