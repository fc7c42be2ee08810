//! When the GPU did the ops of a queue, for observers of its stream: by timed events before and behind what
//! was put into the stream as one.
//!
//! Without observers there are no such events. An op begins behind what it waits for; a mark has an event of
//! its own, and begins and ends there; what the host has a part in lasts until all of it is in the stream and
//! was passed there. When the events were reached is the business of [`GpuClock`].

use crate::cuda::{
    driver::Current,
    order::gpu_clock::GpuClock,
    stream::{Stream, events::Event},
};
use ferry_core::{
    DeviceEngine, DeviceTime, Status, Ticket,
    sync::{Arc, Mutex, lock},
};
use std::collections::VecDeque;

/// The times of one stream.
pub struct Timings {
    clock: Arc<GpuClock>,
    /// What is in the stream and has not been seen to pass.
    spans: Mutex<VecDeque<LaunchedSpan>>,
}

/// Ops that were put into the stream as one.
struct LaunchedSpan {
    first: Ticket,
    last: Ticket,
    begin: Arc<Event>,
    end: Arc<Event>,
    launched_ns: u64,
    engine: DeviceEngine,
}

/// Ops that are about to be put into the stream.
pub struct OpenSpan {
    begin: Arc<Event>,
    launched_ns: u64,
}

impl Timings {
    /// Those of a stream of the GPU with this clock.
    pub fn new(clock: Arc<GpuClock>) -> Timings {
        Timings { clock, spans: Mutex::default() }
    }

    /// Ops are about to be put into the stream; `None` if nobody watches it, or if it is not ours alone.
    #[inline]
    pub fn open(&self, status: &Status, stream: &Stream, current: &Current<'_>) -> Option<OpenSpan> {
        if !are_taken(status, stream) {
            return None;
        }
        let launched_ns = monotonic_ns();
        let begin = stream.record(current, true).ok()?;
        self.clock.start(&begin, launched_ns);
        Some(OpenSpan { begin, launched_ns })
    }

    /// These ops were put into the stream.
    pub fn close(
        &self,
        open: OpenSpan,
        (first, last): (Ticket, Ticket),
        stream: &Stream,
        current: &Current<'_>,
    ) {
        let engine = if stream.last_kernel().is_some() { DeviceEngine::Kernel } else { DeviceEngine::Copy };
        let Ok(end) = stream.record(current, true) else { return };
        let OpenSpan { begin, launched_ns } = open;
        lock(&self.spans).push_back(LaunchedSpan { first, last, begin, end, launched_ns, engine });
    }

    /// The op `ticket` is a mark: it has this event, which was put into the stream at that time.
    pub fn mark(&self, status: &Status, stream: &Stream, ticket: Ticket, event: &Arc<Event>, put_ns: u64) {
        if !are_taken(status, stream) {
            return;
        }
        self.clock.start(event, put_ns);
        let (begin, end, engine) = (event.clone(), event.clone(), DeviceEngine::Copy);
        let span = LaunchedSpan { first: ticket, last: ticket, begin, end, launched_ns: put_ns, engine };
        lock(&self.spans).push_back(span);
    }

    /// The ops up to `upto` have passed: the status is told when they ran.
    pub fn pass(&self, status: &Status, upto: Ticket) {
        let mut spans = lock(&self.spans);
        while spans.front().is_some_and(|span| span.last <= upto) {
            let Some(span) = spans.pop_front() else { break };
            if let Some(when) = self.time(&span) {
                status.note_time(span.first, span.last, when);
            }
        }
    }

    fn time(&self, span: &LaunchedSpan) -> Option<DeviceTime> {
        // The doorbell of a kernel may have been faster than the event behind it.
        span.end.wait().ok()?;
        let seen_ns = monotonic_ns();
        let begin_ns = self.clock.moment(&span.begin, span.launched_ns, seen_ns)?;
        let end_ns = self.clock.moment(&span.end, begin_ns, seen_ns)?;
        let together = (span.last - span.first + 1) as u32;
        Some(DeviceTime { begin_ns, end_ns, together, engine: span.engine })
    }
}

/// Whether times are taken: somebody watches, and nothing of others is in the stream.
fn are_taken(status: &Status, stream: &Stream) -> bool {
    status.is_observed() && stream.kind().may_hold_back()
}

/// The host's clock.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
