//! Failures of the ops of one queue, reported in ticket order, and marks that ask whether one was pending.
//!
//! A failure is known when the driver refuses an op or the GPU reports one, and is reported to the stream's
//! status when the queue is known to have passed the op: never before, and in the order of the ops.

use ferry_core::{
    Error, Status, Ticket,
    sync::{Arc, AtomicBool, Ordering, Weak},
};
use std::collections::VecDeque;

/// What is to be reported about one queue.
#[derive(Default)]
pub struct Failures {
    /// By ticket; reported from the front.
    failures: VecDeque<(Ticket, Error)>,
    /// By ticket: set when the queue passes the ticket with a failure pending.
    marks: VecDeque<(Ticket, Weak<AtomicBool>)>,
}

impl Failures {
    /// The op `ticket` failed; it is reported once the queue is known to have passed it.
    pub fn add(&mut self, ticket: Ticket, error: Error) {
        let index = self.failures.partition_point(|(other, _)| *other <= ticket);
        self.failures.insert(index, (ticket, error));
    }

    /// Has `failed` set if a failure is pending when the queue passes `ticket`.
    pub fn mark(&mut self, ticket: Ticket, failed: &Arc<AtomicBool>) {
        // The progress of a queue may never be asked for: marks that are gone are not kept for that.
        while self.marks.front().is_some_and(|(_, failed)| failed.strong_count() == 0) {
            self.marks.pop_front();
        }
        self.marks.push_back((ticket, Arc::downgrade(failed)));
    }

    /// The queue has passed `upto`: reports to the status, in order.
    pub fn pass(&mut self, status: &Status, upto: Ticket) {
        let upto = upto.max(status.passed());
        while self.marks.front().is_some_and(|(ticket, _)| *ticket <= upto) {
            let Some((ticket, failed)) = self.marks.pop_front() else { break };
            let Some(failed) = failed.upgrade() else { continue };
            self.report(status, ticket);
            failed.store(status.has_failed(), Ordering::Release);
        }
        self.report(status, upto);
        if upto > status.passed() {
            status.pass(upto);
        }
    }

    fn report(&mut self, status: &Status, upto: Ticket) {
        let count = self.failures.partition_point(|(ticket, _)| *ticket <= upto);
        self.failures.drain(..count).for_each(|(ticket, error)| status.fail_at(ticket, error));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use ferry_core::Kind;

    #[test]
    fn failures_are_reported_in_the_order_of_their_ops_and_not_before() {
        let (status, mut failures) = (Status::new(0, None), Failures::default());
        failures.add(3, Kind::Device.because("third"));
        failures.add(2, Kind::Device.because("second"));
        failures.pass(&status, 1);
        assert_eq!((status.passed(), status.has_failed()), (1, false));
        failures.pass(&status, 3);
        assert_eq!(status.take_error().map(|error| error.note.to_string()), Some("second".into()));
        assert_eq!(status.passed(), 3);
        failures.pass(&status, 2);
        assert_eq!(status.passed(), 3, "never back");
        failures.add(1, Kind::Device.because("late"));
        failures.pass(&status, 2);
        assert!(status.has_failed(), "late, but reported");
    }
}
