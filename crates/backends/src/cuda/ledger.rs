//! What has to be told when a queue has come so far: failures in the order of their ops, and marks that ask for them.

use super::{device::Report, fence::Point};
use ferry_core::{
    Error, Indirect, Kind, Status, Ticket,
    indirect::Through,
    sync::{Arc, Weak},
};
use std::collections::VecDeque;

/// The open accounts of one queue.
#[derive(Default)]
pub struct Ledger {
    failures: Vec<(Ticket, Error)>,
    through: VecDeque<(Ticket, Indirect)>,
    marks: VecDeque<Weak<Point>>,
}

impl Ledger {
    /// The op `ticket` failed; it will be told when the queue is known to have passed it.
    pub fn fail(&mut self, ticket: Ticket, error: Error) {
        let place = self.failures.partition_point(|(other, _)| *other <= ticket);
        self.failures.insert(place, (ticket, error));
    }

    /// The op `ticket` is in flight and may be reported.
    pub fn expect(&mut self, ticket: Ticket, through: Indirect) {
        self.through.push_back((ticket, through));
    }

    /// `mark` wants to know about failures up to it.
    pub fn mark(&mut self, mark: &Arc<Point>) {
        self.marks.push_back(Arc::downgrade(mark));
    }

    /// A kernel has reported.
    pub fn reported(&mut self, report: &Report) {
        let Some((ticket, through)) = self.through.iter().find(|(ticket, _)| *ticket == report.ticket) else {
            return;
        };
        let (ticket, error) = (*ticket, explain(through, &report.words));
        self.fail(ticket, error);
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
        self.through.retain(|(ticket, _)| *ticket > upto);
        if upto > status.passed() {
            status.pass(upto);
        }
    }

    fn tell(&mut self, status: &Status, upto: Ticket) {
        let count = self.failures.partition_point(|(ticket, _)| *ticket <= upto);
        self.failures.drain(..count).for_each(|(_, error)| status.fail(error));
    }
}

/// What is wrong with the words that a kernel read, in the words of the core.
fn explain(through: &Indirect, words: &[u64; 5]) -> Error {
    let word = |addr: usize| match through.through {
        Through::Descriptor { at, .. } => words[(addr - at) / 8],
        Through::Cells { dst, .. } if addr == dst.at => words[0],
        Through::Cells { .. } => words[1],
    };
    let fine = || {
        Kind::BadDescriptor.because(format!("{}: {} was refused by the GPU", through.call, through.through))
    };
    through.resolve(word).err().unwrap_or_else(fine)
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
        assert_eq!(status.take_error().map(|error| error.note), Some("second".into()));
        assert_eq!(status.passed(), 3);
        ledger.pass(&status, 2);
        assert_eq!(status.passed(), 3, "never back");
        ledger.fail(1, Kind::Device.because("late"));
        ledger.pass(&status, 2);
        assert!(status.has_failed(), "late, but told");
    }
}
