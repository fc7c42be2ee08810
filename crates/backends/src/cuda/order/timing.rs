//! When the GPU did the ops of a queue, for observers of its stream: by timed events before and behind what
//! was put into the stream as one.
//!
//! Without observers there are no such events. The driver tells the time between two events, and not the
//! time of the day. So the first op of a stream, which is idle then, begins when it is launched; later times
//! are counted from an event of the last second, because the driver has them as floats of 32 bits. Two facts
//! keep the two clocks together: nothing begins before it was launched, and nothing ends after it was seen to
//! have passed.

use crate::cuda::{
    driver::Current,
    stream::{Stream, events::Event},
};
use ferry_core::{
    DeviceEngine, DeviceTime, Status, Ticket,
    sync::{Arc, Mutex, lock},
};
use std::collections::VecDeque;

/// After so many milliseconds another event is counted from.
const ANCHOR_MS: f64 = 500.0;

/// The times of one stream.
#[derive(Default)]
pub struct Timings(Mutex<TimingState>);

#[derive(Default)]
struct TimingState {
    /// What is in the stream and has not been seen to pass.
    spans: VecDeque<LaunchedSpan>,
    /// The event that times are counted from, and when it was reached.
    anchor: Option<(Arc<Event>, u64)>,
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
    /// Ops are about to be put into the stream; `None` if nobody watches it, or if it is not ours alone.
    #[inline]
    pub fn open(&self, status: &Status, stream: &Stream, current: &Current<'_>) -> Option<OpenSpan> {
        if !status.is_observed() || !stream.kind().may_hold_back() {
            return None;
        }
        let launched_ns = monotonic_ns();
        stream.record(current, true).ok().map(|begin| OpenSpan { begin, launched_ns })
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
        lock(&self.0).spans.push_back(LaunchedSpan { first, last, begin, end, launched_ns, engine });
    }

    /// The ops up to `upto` have passed: the status is told when they ran.
    pub fn pass(&self, status: &Status, upto: Ticket) {
        let mut state = lock(&self.0);
        while state.spans.front().is_some_and(|span| span.last <= upto) {
            let Some(span) = state.spans.pop_front() else { break };
            if let Some(when) = state.time(&span) {
                status.note_time(span.first, span.last, when);
            }
        }
    }
}

impl TimingState {
    fn time(&mut self, span: &LaunchedSpan) -> Option<DeviceTime> {
        // The doorbell of a kernel may have been faster than the event behind it.
        span.end.wait().ok()?;
        let (anchor, anchor_ns) = self.anchor.get_or_insert_with(|| (span.begin.clone(), span.launched_ns));
        let (since_ms, took_ms) = (span.begin.ms_since(anchor)?, span.end.ms_since(&span.begin)?);
        let ns = |ms: f64| (ms.max(0.0) * 1e6) as u64;
        let (begin_ns, end_ns) =
            fit(*anchor_ns + ns(since_ms), ns(took_ms), span.launched_ns, monotonic_ns());
        if since_ms > ANCHOR_MS {
            self.anchor = Some((span.begin.clone(), begin_ns));
        }
        let together = (span.last - span.first + 1) as u32;
        Some(DeviceTime { begin_ns, end_ns, together, engine: span.engine })
    }
}

/// A time that does not begin before it was launched and has ended by now, if that can be.
fn fit(begin: u64, took: u64, launched: u64, now: u64) -> (u64, u64) {
    let begin = begin.min(now.saturating_sub(took)).max(launched);
    (begin, begin + took)
}

fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes the timespec and nothing else.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::fit;

    #[test]
    fn nothing_begins_before_it_was_launched_or_ends_after_it_passed() {
        for (begin, want) in [(100, 110), (150, 150), (190, 180)] {
            assert_eq!(fit(begin, 20, 110, 200), (want, want + 20), "{begin}");
        }
        assert_eq!(fit(150, 200, 110, 200), (110, 310), "no moment fits: the launch counts");
    }
}
