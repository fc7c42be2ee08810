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
            let watcher = self.clone();
            watched.is_polled = pool.run(Box::new(move || while watcher.poll() {})).is_ok();
        }
        if !watched.is_polled {
            return Err(then);
        }
        watched.points.push((Box::new(is_done), then));
        Ok(())
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
