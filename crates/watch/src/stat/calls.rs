//! The call that each thread is in: facts of one call are known by its place and the moment it began.

use crate::fact::{CallSite, FactSource, Nanos};

use super::generations::FastMap;
use super::sites::SiteIndex;
use super::traffic::TrafficClass;

/// Threads that are told apart; past this number all are forgotten.
const THREADS: usize = 1 << 14;

/// What a call does, as far as its facts have told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CallRole {
    /// Nothing that is counted.
    #[default]
    Other,
    /// It submitted work that moves bytes.
    Traffic(TrafficClass),
    /// It waits for work that other calls submitted.
    Sync,
}

/// The latest call of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CurrentCall {
    site: SiteIndex,
    begin: Nanos,
    /// Up to this moment its time has been counted.
    counted: Nanos,
    pub(super) role: CallRole,
    /// How many nanoseconds it has been counted as blocked.
    pub(super) blocked: u64,
}

impl CurrentCall {
    /// Whether a call from `site` that began at `begin` is this one. The clock of facts is calibrated while
    /// they are read, so one moment may be told a little differently by two facts. But the next call of the
    /// thread began after all that is known of this one: whichever is nearer is meant.
    fn is(&self, site: SiteIndex, begin: Nanos) -> bool {
        let middle = self.begin + self.counted.saturating_sub(self.begin) / 2;
        self.begin != 0 && self.site == site && begin != 0 && begin <= middle
    }
}

/// The latest call of each thread.
#[derive(Default)]
pub(super) struct Calls {
    threads: FastMap<FactSource, CurrentCall>,
}

impl Calls {
    /// The call that a fact belongs to, and how much of its time was not counted up to now: all of it if the
    /// fact is the first of its call.
    pub(super) fn at(
        &mut self,
        source: FactSource,
        index: SiteIndex,
        site: &CallSite,
        now: Nanos,
    ) -> (&mut CurrentCall, u64) {
        if self.threads.len() >= THREADS && !self.threads.contains_key(&source) {
            self.threads.clear();
        }
        let call = self.threads.entry(source).or_default();
        if !call.is(index, site.begin) {
            let counted = if site.begin == 0 { now } else { site.begin };
            *call = CurrentCall { site: index, begin: site.begin, counted, ..CurrentCall::default() };
        }
        let more = now.saturating_sub(call.counted);
        call.counted = call.counted.max(now);
        (call, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_of_one_call_are_told_from_those_of_the_next() {
        let source = FactSource::default();
        let at = |begin| CallSite { begin, ..CallSite::default() };
        let mut calls = Calls::default();
        for (index, begin, now, is_new) in [
            (1, 1000, 1400, true),
            // The same moment, told a little later or earlier.
            (1, 1003, 1500, false),
            (1, 998, 1500, false),
            // The next call from there, told a little too early.
            (1, 1498, 1600, true),
            // Another place, and calls without a beginning.
            (2, 1498, 1600, true),
            (2, 0, 1700, true),
            (2, 0, 1700, true),
        ] {
            let (call, _) = calls.at(source, index, &at(begin), now);
            let was_new = call.role == CallRole::Other;
            call.role = CallRole::Sync;
            assert_eq!(was_new, is_new, "{index} {begin} {now}");
        }
    }

    #[test]
    fn the_time_of_a_call_is_counted_once() {
        let source = FactSource::default();
        let site = CallSite { begin: 100, ..CallSite::default() };
        let mut calls = Calls::default();
        let times = [150, 150, 180, 170].map(|now| calls.at(source, 1, &site, now).1);
        assert_eq!(times, [50, 0, 30, 0]);
    }
}
