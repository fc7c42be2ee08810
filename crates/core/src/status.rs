//! What a stream and its queue share: how far the work has come, and the first failure nobody has been told about.

use crate::{
    Error, Observer,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock},
};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The number of an op in its queue, counted from 1.
pub type Ticket = u64;

/// Shared by a stream and its queue. A backend reports through this and through fences, and in no other way.
pub struct Status {
    stream: u64,
    passed: AtomicU64,
    failed: AtomicBool,
    first: Mutex<Option<Error>>,
    observer: Option<Arc<dyn Observer>>,
}

impl Status {
    /// The status of a fresh stream; `observer` hears of every op that completes.
    pub fn new(stream: u64, observer: Option<Arc<dyn Observer>>) -> Self {
        Status {
            stream,
            passed: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            first: Mutex::new(None),
            observer,
        }
    }

    /// The newest ticket known to be complete, with everything before it.
    pub fn passed(&self) -> Ticket {
        self.passed.load(Ordering::Acquire)
    }

    /// The queue says that `ticket` and all before it are complete. What they wrote is visible to whoever sees this.
    pub fn pass(&self, ticket: Ticket) {
        if let Some(observer) = &self.observer {
            let tickets = self.passed.load(Ordering::Relaxed) + 1..=ticket;
            // An observer changes nothing, not even by panicking: those who wait for this work must not wait for ever.
            let _ = catch_unwind(AssertUnwindSafe(|| {
                tickets.for_each(|done| observer.completed(self.stream, done))
            }));
        }
        self.passed.store(ticket, Ordering::Release);
    }

    /// Work failed while it ran. The first failure since the last report is kept: later ones follow from it more often than not.
    pub fn fail(&self, error: Error) {
        let mut first = lock(&self.first);
        first.get_or_insert(error);
        self.failed.store(true, Ordering::Release);
    }

    /// Whether a failure waits to be reported.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Hands out the first unreported failure, once.
    pub fn take_error(&self) -> Option<Error> {
        if !self.has_failed() {
            return None;
        }
        let mut first = lock(&self.first);
        self.failed.store(false, Ordering::Release);
        first.take()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn the_first_failure_is_reported_once() {
        let status = Status::new(0, None);
        assert_eq!(status.take_error(), None);
        status.fail(Kind::BadDescriptor.because("first"));
        status.fail(Kind::BadAddress.because("second"));
        assert_eq!(status.take_error().map(|e| e.note.to_string()), Some("first".into()));
        assert_eq!(status.take_error(), None, "reported once");
    }
}
