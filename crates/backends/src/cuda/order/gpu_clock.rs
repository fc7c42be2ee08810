//! The clock of a GPU as the host's: when timed events were reached, for observers.
//!
//! The driver tells the time between two events, and not the time of the day. All streams of a GPU count from
//! one event, so that two of its moments keep their order whatever is known about the host's clock. Three
//! facts keep the two clocks together: the first event is put into a stream with nothing in front of it;
//! nothing is reached before it was launched; and nothing is reached after it was seen to be.

use crate::cuda::stream::events::Event;
use ferry_core::sync::{Arc, Mutex, lock};
use std::collections::BTreeMap;

/// After so many milliseconds another event is counted from: the driver has times as floats of 32 bits.
const ANCHOR_MS: f64 = 500.0;

/// Moments that were told and are remembered: what is told later of the same time keeps to them.
const KEPT: usize = 4096;

/// The clock of one GPU, which all of its streams share.
#[derive(Default)]
pub struct GpuClock(Mutex<ClockState>);

#[derive(Default)]
struct ClockState {
    /// The event that times are counted from, and when it was reached.
    anchor: Option<(Arc<Event>, i64)>,
    line: ClockLine,
}

impl GpuClock {
    /// An event is about to be reached; the first of them is counted from.
    pub fn start(&self, event: &Arc<Event>, launched_ns: u64) {
        let mut state = lock(&self.0);
        if state.anchor.is_none() {
            state.anchor = Some((event.clone(), 0));
            state.line.ahead = launched_ns as i64;
        }
    }

    /// When an event was reached, in nanoseconds of the host's monotonic clock, between the moments that it
    /// was launched and seen to be reached.
    pub fn moment(&self, event: &Arc<Event>, launched_ns: u64, seen_ns: u64) -> Option<u64> {
        let mut state = lock(&self.0);
        let (anchor, anchor_at) = state.anchor.as_ref()?;
        let since_ms = event.ms_since(anchor)?;
        let at = anchor_at + (since_ms * 1e6) as i64;
        if since_ms > ANCHOR_MS {
            state.anchor = Some((event.clone(), at));
        }
        Some(state.line.place(at, launched_ns, seen_ns))
    }
}

/// What is known about both clocks.
#[derive(Default)]
struct ClockLine {
    /// How far the host's clock is ahead of the GPU's.
    ahead: i64,
    /// Moments of the GPU's clock that were told, as those of the host's.
    told: BTreeMap<i64, u64>,
}

impl ClockLine {
    /// The host's time of a moment of the GPU's clock. What was told of other moments stays in order with it,
    /// unless it would begin before it was launched.
    fn place(&mut self, at: i64, launched: u64, seen: u64) -> u64 {
        let fitted = (at + self.ahead).min(seen as i64).max(launched as i64);
        self.ahead = fitted - at;
        let before = self.told.range(..=at).next_back().map_or(0, |(_, time)| *time);
        let behind = self.told.range(at..).next().map_or(u64::MAX, |(_, time)| *time);
        let time = (fitted as u64).max(before).min(behind).max(launched);
        self.told.insert(at, time);
        if self.told.len() > KEPT {
            self.told.pop_first();
        }
        time
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{ClockLine, KEPT};

    #[test]
    fn nothing_is_reached_before_it_was_launched_or_after_it_was_seen() {
        for (at, want) in [(0, 110), (50, 150), (190, 200)] {
            let mut line = ClockLine { ahead: 100, ..ClockLine::default() };
            assert_eq!(line.place(at, 110, 200), want, "{at}");
            assert_eq!(line.place(at + 7, 0, 1000), want + 7, "the clocks are known better");
        }
    }

    #[test]
    fn moments_keep_their_order_in_whatever_order_they_are_told() {
        let mut line = ClockLine { ahead: 100, ..ClockLine::default() };
        assert_eq!(line.place(50, 0, 1000), 150, "what waited");
        assert_eq!(line.place(80, 300, 1000), 300, "the host's clock is further ahead than was known");
        assert_eq!(line.place(40, 120, 1000), 150, "what it waited for is told later");
        assert_eq!(line.place(50, 0, 1000), 150, "the same moment");
        assert_eq!(line.place(60, 0, 1000), 280);
    }

    #[test]
    fn some_moments_are_remembered() {
        let mut line = ClockLine::default();
        (0..2 * KEPT as i64).for_each(|at| {
            line.place(at, 0, u64::MAX / 2);
        });
        assert_eq!(line.told.len(), KEPT);
    }
}
