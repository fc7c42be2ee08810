//! How far the stream of a queue has come, and what failed on the way: what a queue shares with its fences.
//!
//! Nothing tells us when the GPU has passed an op. It is noticed when a fence is asked or waited for, when
//! the host does its part of an op, and now and then by the queue itself; each of them calls
//! [`StreamProgress::pass`], which collects what the device has reported and then moves the stream's status
//! on.

use crate::cuda::{
    order::failures::Failures,
    order::gpu_clock::GpuClock,
    order::timing::{Timings, monotonic_ns},
    order::watcher::Watcher,
    stream::{Stream, events::Event},
};
use ferry_core::{
    Error, Result, Status, Ticket,
    sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering, lock},
};
use std::time::Duration;

/// A small copy is done this long after it was put into the stream: some 5 us on an H200.
const SMALL_WORK: Duration = Duration::from_micros(20);

/// Where the device itself reports failures, which are seen only when they are collected.
pub trait Reporter: Send + Sync {
    /// Calls `fail` for each op that was reported since the last time.
    fn collect(&self, fail: &mut dyn FnMut(Ticket, Error));

    /// The queue has passed `upto`: nothing up to there will be reported any more.
    fn pass(&self, upto: Ticket);
}

/// The stream of a queue, how far it is known to have come, and what failed.
pub struct StreamProgress {
    /// The stream.
    pub stream: Arc<Stream>,
    /// What the core's stream shares with the queue: the ticket that was passed last, and the first failure.
    pub status: Arc<Status>,
    /// Polls points of all queues.
    pub watcher: Arc<Watcher>,
    /// When the GPU did the ops, while somebody watches.
    pub timings: Timings,
    failures: Mutex<Failures>,
    reporter: Arc<dyn Reporter>,
    /// When work was last put into the stream.
    launched_ns: AtomicU64,
    /// The last ticket of all, once the queue is gone.
    last: AtomicU64,
}

impl StreamProgress {
    /// The progress of a stream in which nothing has passed but what `status` says.
    pub fn new(
        stream: Arc<Stream>,
        status: Arc<Status>,
        watcher: Arc<Watcher>,
        clock: Arc<GpuClock>,
        reporter: Arc<dyn Reporter>,
    ) -> Arc<StreamProgress> {
        let (failures, launched_ns, last) = (Mutex::default(), AtomicU64::new(0), AtomicU64::new(0));
        let timings = Timings::new(clock);
        Arc::new(StreamProgress { stream, status, watcher, timings, failures, reporter, launched_ns, last })
    }

    /// Work is about to be put into the stream.
    pub fn launch(&self) {
        self.launched_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// Whether what is in the stream was put there long enough ago for small work to be done.
    pub fn may_be_idle(&self) -> bool {
        let since = monotonic_ns().saturating_sub(self.launched_ns.load(Ordering::Relaxed));
        Duration::from_nanos(since) > SMALL_WORK
    }

    /// The ticket that the stream is known to have passed.
    pub fn passed(&self) -> Ticket {
        self.status.passed()
    }

    /// The op `ticket` failed.
    pub fn fail(&self, ticket: Ticket, error: Error) {
        lock(&self.failures).add(ticket, error);
    }

    /// The op `ticket` failed if the result is an error.
    pub fn note(&self, ticket: Ticket, result: Result<()>) {
        if let Err(error) = result {
            self.fail(ticket, error);
        }
    }

    /// The driver's error about the work up to an op; it does not say which op it was.
    #[cold]
    pub fn about(&self, ticket: Ticket, error: &Error) -> Error {
        let device = self.stream.device_id();
        error.kind.because(format!("device {device}, number {ticket} of the stream or before it: {error}"))
    }

    /// Has `failed` set if a failure is pending when the stream passes `ticket`.
    pub fn mark(&self, ticket: Ticket, failed: &Arc<AtomicBool>) {
        lock(&self.failures).mark(ticket, failed);
    }

    /// The stream has passed `ticket`: collects what the device has reported and tells the status.
    pub fn pass(&self, ticket: Ticket) {
        if self.status.is_observed() {
            self.timings.pass(&self.status, ticket);
        }
        let mut failures = lock(&self.failures);
        self.reporter.collect(&mut |ticket, error| failures.add(ticket, error));
        failures.pass(&self.status, ticket);
        self.reporter.pass(self.passed());
    }

    /// An event at the end of the stream as it is now.
    pub fn record(&self) -> Result<Arc<Event>> {
        self.stream.record(&self.stream.device().enter()?, false)
    }

    /// The queue is gone, and this was its last ticket.
    pub fn close(&self, last: Ticket) {
        self.last.store(last, Ordering::Relaxed);
    }
}

impl Drop for StreamProgress {
    fn drop(&mut self) {
        self.stream.close(self.passed() >= self.last.load(Ordering::Relaxed));
    }
}
