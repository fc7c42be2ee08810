//! Copies through descriptors that are in flight, so that what a kernel reports about one can be explained.

use ferry_core::{Error, Indirect, Kind, Resolver, Ticket, indirect::DESCRIPTOR_WORDS};
use std::collections::VecDeque;

/// The copies of one queue that are in flight, by ticket.
#[derive(Default)]
pub struct PendingDescriptors(VecDeque<LateBound>);

/// A copy whose addresses are read when it runs.
struct LateBound {
    ticket: Ticket,
    /// Where the kernel reads the descriptor.
    at: usize,
    late: Indirect,
}

impl PendingDescriptors {
    /// The op `ticket`, which reads its descriptor at `at`, is in flight and may be reported.
    pub fn add(&mut self, ticket: Ticket, at: usize, late: Indirect) {
        // The newest, but for one that was taken back before.
        let index = self.0.partition_point(|copy| copy.ticket < ticket);
        self.0.insert(index, LateBound { ticket, at, late });
    }

    /// Takes the op `ticket` out if `is_out` says so of it: it is not put into the stream after all.
    pub fn take_back(&mut self, ticket: Ticket, is_out: impl FnOnce(&Indirect) -> bool) -> Option<Indirect> {
        let index = self.find(ticket)?;
        let goes = is_out(&self.0[index].late);
        goes.then(|| self.0.remove(index).map(|copy| copy.late)).flatten()
    }

    /// What is wrong with the op `ticket`, whose kernel has read these words; `None` if it is not in flight.
    pub fn explain(
        &self,
        ticket: Ticket,
        words: &[u64; DESCRIPTOR_WORDS],
        resolver: Option<&dyn Resolver>,
    ) -> Option<Error> {
        self.find(ticket).map(|index| self.0[index].explain(words, resolver))
    }

    /// The queue has passed `upto`.
    pub fn pass(&mut self, upto: Ticket) {
        while self.0.front().is_some_and(|copy| copy.ticket <= upto) {
            self.0.pop_front();
        }
    }

    fn find(&self, ticket: Ticket) -> Option<usize> {
        self.0.binary_search_by_key(&ticket, |copy| copy.ticket).ok()
    }
}

impl LateBound {
    /// What is wrong with the words that the kernel read, as the core says it.
    fn explain(&self, words: &[u64; DESCRIPTOR_WORDS], resolver: Option<&dyn Resolver>) -> Error {
        let told = self.late.resolve(resolver, |addr| words[(addr - self.at) / 8]).err();
        told.unwrap_or_else(|| {
            let Indirect { call, through, .. } = self.late;
            Kind::BadDescriptor.because(format!(
                "{call}: {through} names memory that was freed or mapped anew after it was set: set it again"
            ))
        })
    }
}
