//! What has to be told when a queue has come so far: failures in the order of their ops, and marks that ask for them.

use crate::cuda::{descriptors::reports::Report, order::fence::StreamPoint};
use ferry_core::{
    Error, Indirect, Kind, Status, Ticket,
    indirect::DESCRIPTOR_WORDS,
    sync::{Arc, Weak},
};
use std::collections::VecDeque;

/// The open accounts of one queue.
#[derive(Default)]
pub struct Ledger {
    /// By ticket; told from the front.
    failures: VecDeque<(Ticket, Error)>,
    /// By ticket.
    through: VecDeque<Late>,
    marks: VecDeque<Weak<StreamPoint>>,
}

/// A copy through a descriptor that is in flight.
struct Late {
    ticket: Ticket,
    /// Where the kernel reads the descriptor.
    at: usize,
    through: Box<Indirect>,
}

impl Ledger {
    /// The op `ticket` failed; it will be told when the queue is known to have passed it.
    pub fn fail(&mut self, ticket: Ticket, error: Error) {
        let place = self.failures.partition_point(|(other, _)| *other <= ticket);
        self.failures.insert(place, (ticket, error));
    }

    /// The op `ticket`, which reads its descriptor at `at`, is in flight and may be reported.
    pub fn expect(&mut self, ticket: Ticket, at: usize, through: Box<Indirect>) {
        // The newest, but for one that was taken back before.
        let place = self.through.partition_point(|late| late.ticket < ticket);
        self.through.insert(place, Late { ticket, at, through });
    }

    /// The op `ticket`, which was expected, is not put into the stream after all if `is_out` says so of it.
    pub fn take_back(
        &mut self,
        ticket: Ticket,
        is_out: impl FnOnce(&Indirect) -> bool,
    ) -> Option<Box<Indirect>> {
        let place = self.place(ticket)?;
        let goes = is_out(&self.through[place].through);
        goes.then(|| self.through.remove(place).map(|late| late.through)).flatten()
    }

    /// `mark` wants to know about failures up to it.
    pub fn mark(&mut self, mark: &Arc<StreamPoint>) {
        // Nobody may ever ask this lane how far it is: those that are gone are not kept for that.
        while self.marks.front().is_some_and(|mark| mark.strong_count() == 0) {
            self.marks.pop_front();
        }
        self.marks.push_back(Arc::downgrade(mark));
    }

    /// A kernel has reported.
    pub fn reported(&mut self, report: &Report) {
        if let Some(place) = self.place(report.ticket) {
            let error = self.through[place].explain(&report.words);
            self.fail(report.ticket, error);
        }
    }

    /// Where the copy `ticket` stands among those in flight.
    fn place(&self, ticket: Ticket) -> Option<usize> {
        self.through.binary_search_by_key(&ticket, |late| late.ticket).ok()
    }

    /// The queue has passed `upto`: tells the status, in order.
    pub fn pass(&mut self, status: &Status, upto: Ticket) {
        let upto = upto.max(status.passed());
        while let Some(mark) = self.marks.pop_front() {
            let Some(point) = mark.upgrade() else { continue };
            if point.ticket() > upto {
                self.marks.push_front(mark);
                break;
            }
            self.tell(status, point.ticket());
            point.set_failed(status.has_failed());
        }
        self.tell(status, upto);
        while self.through.front().is_some_and(|late| late.ticket <= upto) {
            self.through.pop_front();
        }
        if upto > status.passed() {
            status.pass(upto);
        }
    }

    fn tell(&mut self, status: &Status, upto: Ticket) {
        let count = self.failures.partition_point(|(ticket, _)| *ticket <= upto);
        self.failures.drain(..count).for_each(|(ticket, error)| status.fail_at(ticket, error));
    }
}

impl Late {
    /// What is wrong with the words that the kernel read, as the core says it.
    fn explain(&self, words: &[u64; DESCRIPTOR_WORDS]) -> Error {
        let told = self.through.resolve(|addr| words[(addr - self.at) / 8]).err();
        told.unwrap_or_else(|| {
            let Indirect { call, through, .. } = &*self.through;
            Kind::BadDescriptor.because(format!(
                "{call}: {through} names memory that was freed or mapped anew after it was set: set it again"
            ))
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_in_the_order_of_their_ops_and_not_before() {
        let (status, mut ledger) = (Status::new(0, None), Ledger::default());
        ledger.fail(3, Kind::Device.because("third"));
        ledger.fail(2, Kind::Device.because("second"));
        ledger.pass(&status, 1);
        assert_eq!((status.passed(), status.has_failed()), (1, false));
        ledger.pass(&status, 3);
        assert_eq!(status.take_error().map(|error| error.note.to_string()), Some("second".into()));
        assert_eq!(status.passed(), 3);
        ledger.pass(&status, 2);
        assert_eq!(status.passed(), 3, "never back");
        ledger.fail(1, Kind::Device.because("late"));
        ledger.pass(&status, 2);
        assert!(status.has_failed(), "late, but told");
    }
}
