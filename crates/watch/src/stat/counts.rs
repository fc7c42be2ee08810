//! Statistics that add up: counted for each call site and for the whole run alike.

use super::traffic::{TrafficClass, TrafficCounts};

/// What is counted besides traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Counter {
    /// Calls that waited for work and did nothing else: synchronisations.
    Syncs,
    /// Nanoseconds that synchronisations blocked their callers.
    SyncBlocked,
    /// Nanoseconds that calls were blocked which are neither synchronisations nor move bytes.
    OtherBlocked,
    /// Nanoseconds between begin and end of the calls, as far as facts tell.
    CallTime,
    /// Calls that answered with an error.
    FailedCalls,
    /// Batches.
    Batches,
    /// Pieces of batches.
    Pieces,
    /// Rectangles.
    Rectangles,
    /// Copies whose addresses were read when they ran.
    LateBound,
    /// Functions of the program's in a stream.
    Functions,
    /// Recorded events, and what else notes that a stream came to a point.
    Marks,
    /// Ops that had to wait for something besides the op before them in their stream.
    Waits,
    /// Executions of graphs.
    Launches,
    /// Ops that were tasks of a graph.
    GraphOps,
    /// Ops that a stream refused.
    Refused,
    /// Ops that failed.
    Failed,
    /// Ops that were dropped, because their stream was aborted or has stopped.
    Dropped,
    /// Ops that were submitted and were not seen to pass.
    Unfinished,
}

impl Counter {
    /// All of them, in the order of their values.
    pub const ALL: [Counter; 18] = [
        Counter::Syncs,
        Counter::SyncBlocked,
        Counter::OtherBlocked,
        Counter::CallTime,
        Counter::FailedCalls,
        Counter::Batches,
        Counter::Pieces,
        Counter::Rectangles,
        Counter::LateBound,
        Counter::Functions,
        Counter::Marks,
        Counter::Waits,
        Counter::Launches,
        Counter::GraphOps,
        Counter::Refused,
        Counter::Failed,
        Counter::Dropped,
        Counter::Unfinished,
    ];

    /// The statistic's name.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 18] = [
            "syncs",
            "sync_blocked",
            "other_blocked",
            "call_time",
            "failed_calls",
            "batches",
            "pieces",
            "rectangles",
            "late_bound",
            "functions",
            "marks",
            "waits",
            "launches",
            "graph_ops",
            "refused",
            "failed",
            "dropped",
            "unfinished",
        ];
        NAMES[self as usize]
    }

    /// Whether it counts nanoseconds.
    pub fn is_time(self) -> bool {
        matches!(self, Counter::SyncBlocked | Counter::OtherBlocked | Counter::CallTime)
    }
}

/// The counters of one call site, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// TrafficCounts by class: a few classes for one call site.
    traffic: Vec<(TrafficClass, TrafficCounts)>,
    counters: [u64; Counter::ALL.len()],
}

impl Counts {
    /// The counter.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.counters[counter as usize]
    }

    /// The traffic of each class that had any.
    pub fn traffic(&self) -> &[(TrafficClass, TrafficCounts)] {
        &self.traffic
    }

    /// The traffic of the classes that `is_meant` says yes to.
    pub fn traffic_of(&self, is_meant: impl Fn(TrafficClass) -> bool) -> TrafficCounts {
        let mut sum = TrafficCounts::default();
        let meant = self.traffic.iter().filter(|(class, _)| is_meant(*class));
        meant.for_each(|(_, traffic)| sum.add(traffic));
        sum
    }

    /// Nanoseconds that callers were blocked, in whatever call.
    pub fn blocked(&self) -> u64 {
        let traffic = self.traffic_of(|_| true).blocked;
        let rest = [Counter::SyncBlocked, Counter::OtherBlocked].map(|counter| self.counter(counter));
        rest.into_iter().fold(traffic, u64::saturating_add)
    }

    pub(super) fn count(&mut self, counter: Counter, more: u64) {
        let value = &mut self.counters[counter as usize];
        *value = value.saturating_add(more);
    }

    pub(super) fn take_back(&mut self, counter: Counter, less: u64) {
        let value = &mut self.counters[counter as usize];
        *value = value.saturating_sub(less);
    }

    /// Replaces what was counted before by what is known now.
    pub(super) fn change(&mut self, counter: Counter, before: u64, now: u64) {
        self.take_back(counter, before);
        self.count(counter, now);
    }

    /// Replaces the time that a call of this class was blocked.
    pub(super) fn change_blocked(&mut self, class: TrafficClass, before: u64, now: u64) {
        self.add_traffic(class, &TrafficCounts::default());
        let all = self.traffic.iter_mut().filter(|(other, _)| *other == class);
        all.for_each(|(_, traffic)| {
            traffic.blocked = traffic.blocked.saturating_sub(before).saturating_add(now)
        });
    }

    /// Takes back a call of which no bytes were known.
    pub(super) fn take_back_call(&mut self, class: TrafficClass) {
        let all = self.traffic.iter_mut().filter(|(other, _)| *other == class);
        all.for_each(|(_, traffic)| traffic.calls = traffic.calls.saturating_sub(1));
        self.traffic.retain(|(_, traffic)| *traffic != TrafficCounts::default());
    }

    pub(super) fn add_traffic(&mut self, class: TrafficClass, more: &TrafficCounts) {
        match self.traffic.iter_mut().find(|(other, _)| *other == class) {
            Some((_, traffic)) => traffic.add(more),
            None => self.traffic.push((class, *more)),
        }
    }

    pub(super) fn add(&mut self, other: &Counts) {
        other.traffic.iter().for_each(|(class, traffic)| self.add_traffic(*class, traffic));
        Counter::ALL.into_iter().for_each(|counter| self.count(counter, other.counter(counter)));
    }
}
