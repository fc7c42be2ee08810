//! A shared stream that should be held for an op, but the driver refused it. The host does its part all the
//! same, and until it is done the op must not be seen as passed.

use ferry_core::{
    Fence, Mark, Point, Result, Ticket,
    sync::{Arc, Mutex, lock},
};
use std::{
    any::Any,
    time::{Duration, Instant},
};

/// The newest such op, until the host is through or the stream is held after all.
#[derive(Default)]
pub struct Unheld(Mutex<Option<(Ticket, Arc<dyn Fence>)>>);

impl Unheld {
    /// The stream was not held for the op `ticket`; the host is through with that when `through` is done.
    pub fn set(&self, ticket: Ticket, through: Arc<dyn Fence>) {
        *lock(&self.0) = Some((ticket, through));
    }

    /// The op and what it waits for, if the host is not through.
    pub fn get(&self) -> Option<(Ticket, Arc<dyn Fence>)> {
        let unheld = lock(&self.0).clone();
        unheld.filter(|(_, through)| !through.is_done())
    }

    /// What comes from here on comes behind the host's part.
    pub fn clear(&self) {
        *lock(&self.0) = None;
    }

    /// The fence, which stands behind the op `ticket`, and behind the host's part if that op is not an
    /// earlier one.
    pub fn before(&self, ticket: Ticket, fence: Arc<dyn Fence>) -> Arc<dyn Fence> {
        match self.get().filter(|(unheld, _)| *unheld <= ticket) {
            Some((_, through)) => Arc::new(BehindHost { through, fence }),
            None => fence,
        }
    }
}

impl Unheld {
    /// The mark, and behind the host's part if there is an op that the stream was not held for.
    pub fn before_mark(&self, mark: Arc<dyn Mark>) -> Arc<dyn Mark> {
        match self.get() {
            Some((_, through)) => Arc::new(BehindHost { through, fence: mark }),
            None => mark,
        }
    }
}

/// A fence that is not asked before another one is done: asking it reports the stream as passed.
struct BehindHost<F: ?Sized> {
    through: Arc<dyn Fence>,
    fence: Arc<F>,
}

impl<F: Fence + ?Sized + 'static> Fence for BehindHost<F> {
    fn is_done(&self) -> bool {
        self.through.is_done() && self.fence.is_done()
    }

    fn wait(&self, limit: Option<Duration>) -> Result<()> {
        let begin = Instant::now();
        self.through.wait(limit)?;
        self.fence.wait(limit.map(|limit| limit.saturating_sub(begin.elapsed())))
    }

    fn when_done(&self, then: Box<dyn FnOnce() + Send>) {
        let fence = self.fence.clone();
        self.through.when_done(Box::new(move || fence.when_done(then)));
    }

    fn point(&self) -> Option<Point> {
        self.fence.point()
    }

    /// Itself: a stream that waited for the fence alone would not wait for the host's part.
    fn native(&self) -> &dyn Any {
        self
    }
}

impl Mark for BehindHost<dyn Mark> {
    fn failed(&self) -> bool {
        self.fence.failed()
    }

    fn reached_us(&self) -> Option<u64> {
        if self.is_done() { self.fence.reached_us() } else { None }
    }

    fn elapsed_ms(&self, since: &dyn Mark) -> Option<f64> {
        if self.is_done() { self.fence.elapsed_ms(since) } else { None }
    }
}
