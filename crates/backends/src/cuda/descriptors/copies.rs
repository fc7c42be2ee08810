//! Copies whose addresses are read when they run, of one queue: through descriptors, by the GPU; through
//! pointer cells and where memory is mapped, by the host.

use crate::cuda::{
    descriptors::in_flight::PendingDescriptors,
    descriptors::launch,
    descriptors::queue_memory::{DeviceDescriptors, QueueMemory},
    driver::Current,
    order::progress::{Reporter, StreamProgress},
    order::window::DescriptorOp,
    stream::{Stream, copies},
};
use ferry_core::{
    Error, Indirect, Plan, Resolver, Result, Status, Ticket,
    indirect::{DESCRIPTOR_WORDS, Through},
    sync::{Arc, Mutex, MutexGuard, lock},
};
use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// The copies through descriptors of one queue.
pub struct DescriptorCopies {
    shared: Arc<DeviceDescriptors>,
    /// That of the queue.
    status: Arc<Status>,
    in_flight: Mutex<PendingDescriptors>,
    /// Made when first needed.
    memory: OnceLock<Arc<QueueMemory>>,
}

impl DescriptorCopies {
    /// For the queue of the device with this status.
    pub fn new(shared: Arc<DeviceDescriptors>, status: Arc<Status>) -> Arc<DescriptorCopies> {
        Arc::new(DescriptorCopies { shared, status, in_flight: Mutex::default(), memory: OnceLock::new() })
    }

    /// Where the descriptor is, if the GPU is to read it. It is where nothing may be held back for the
    /// host: what is not for the GPU never comes there, whatever has changed since that was decided.
    pub fn read_by_gpu(progress: &StreamProgress, indirect: &Indirect) -> Option<usize> {
        match indirect.through {
            Through::Descriptor { at, .. }
                if !progress.stream.kind().may_hold_back() || is_for_gpu(indirect, &progress.status) =>
            {
                Some(at)
            }
            _ => None,
        }
    }

    /// The copies in flight, for a caller that adds one before it can be sent.
    pub fn in_flight(&self) -> MutexGuard<'_, PendingDescriptors> {
        lock(&self.in_flight)
    }

    /// The GPU will read the descriptor at `at` for op `ticket`, if it is [sent](Self::send). Its seal says
    /// that the core has checked what it names.
    pub fn expect(&self, ticket: Ticket, at: usize, late: Indirect) -> DescriptorOp {
        self.in_flight().add(ticket, at, late);
        DescriptorOp { ticket, at, key: self.seal_key() }
    }

    /// What descriptors must be sealed with. Without a runtime none is right.
    pub fn seal_key(&self) -> u64 {
        self.status.resolver().map_or(0, |resolver| resolver.seal_key())
    }

    /// While copies waited it may have become the host's to read their descriptors. If so they are taken
    /// back, in the order of their tickets.
    pub fn take_back(&self, progress: &StreamProgress, ops: &[DescriptorOp]) -> Vec<(Ticket, Indirect)> {
        let mut in_flight = self.in_flight();
        let is_out = |late: &Indirect| DescriptorCopies::read_by_gpu(progress, late).is_none();
        let taken =
            ops.iter().rev().map_while(|op| Some((op.ticket, in_flight.take_back(op.ticket, is_out)?)));
        let mut taken: Vec<_> = taken.collect();
        taken.reverse();
        taken
    }

    /// Puts copies into the stream, to be done as if one after the other.
    pub fn send(&self, progress: &StreamProgress, current: &Current<'_>, ops: &[DescriptorOp]) -> Result<()> {
        launch::send(&self.shared, &self.memory, progress, current, ops)
    }
}

impl Reporter for DescriptorCopies {
    fn collect(&self, fail: &mut dyn FnMut(Ticket, Error)) {
        let Some(memory) = self.memory.get() else { return };
        let resolver = self.status.resolver();
        for error in memory.take_errors() {
            if let Some(why) = self.in_flight().explain(error.ticket, &error.words, resolver.as_deref()) {
                fail(error.ticket, why);
            }
        }
    }

    fn pass(&self, upto: Ticket) {
        self.in_flight().pass(upto);
    }
}

/// The host reads cells; and descriptors too where memory is mapped, which the GPU does not know, where a bad
/// one stops all streams: then nothing behind it may run; and where observers are to be told what it says.
pub fn is_for_gpu(late: &Indirect, status: &Status) -> bool {
    let is_descriptor = matches!(late.through, Through::Descriptor { .. });
    let has_mappings = status.resolver().is_none_or(|resolver| resolver.has_mappings());
    let is_hosts = has_mappings || status.stops_all_on_failure() || status.is_observed();
    is_descriptor && !is_hosts
}

/// The host's part of the op `ticket`: reads the addresses and puts the copy into the stream.
pub fn copy_by_host(progress: &StreamProgress, ticket: Ticket, late: &Indirect) {
    let copied = progress.stream.device().enter().and_then(|current| {
        let resolver = progress.status.resolver();
        let mut plan = read_addresses(&progress.stream, &current, late, resolver.as_deref())?;
        progress.status.tell_resolved(ticket, &plan);
        copies::copy(&progress.stream, &current, &mut plan)
    });
    if let Err(why) = copied {
        progress.fail(ticket, why);
        if progress.status.stops_all_on_failure() {
            // Nothing of it is in the stream: reported before what is behind it begins.
            progress.pass(ticket);
        }
    }
}

/// Nothing vouches for a pointer in a cell, and a wrong one would break the GPU's context; and mapped memory
/// is not where its addresses say. So the host reads the addresses when the stream gets here, and the core
/// checks and translates them. The lane is blocked, so the stream is ours.
fn read_addresses(
    stream: &Stream,
    current: &Current<'_>,
    late: &Indirect,
    resolver: Option<&dyn Resolver>,
) -> Result<Plan> {
    let at: Vec<usize> = match late.through {
        Through::Descriptor { at, .. } => (0..DESCRIPTOR_WORDS).map(|index| at + 8 * index).collect(),
        Through::Cells { dst, src, .. } => vec![dst.at, src.at],
    };
    let words: Vec<AtomicU64> = at.iter().map(|_| AtomicU64::new(0)).collect();
    for (word, at) in words.iter().zip(&at) {
        stream.copy_row(current, word.as_ptr() as usize, *at, 8)?;
    }
    stream.synchronize_in(current, "reading the addresses of a copy")?;
    let word = |addr| at.iter().position(|at| *at == addr).map(|index| &words[index]);
    late.resolve(resolver, |addr| word(addr).expect("read above").load(Ordering::Relaxed))
}
