//! What was counted, as plain data for those who print it.

use super::advice::CopyAdvice;
use super::counts::Counts;
use super::sites::CallName;
use super::timeline::BusyTime;

use crate::fact::Nanos;

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The run as a whole.
    pub run: RunFigures,
    /// The sum of all call sites.
    pub total: Counts,
    /// Every call site that did something, most bytes first.
    pub sites: Vec<SiteReport>,
    /// What would save time, most time first; empty if it was not asked for.
    pub advice: Vec<CopyAdvice>,
}

/// What one call site did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteReport {
    /// Which.
    pub name: CallName,
    /// What.
    pub counts: Counts,
}

/// Figures of a run that belong to no call site.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunFigures {
    /// When the first fact happened.
    pub begin: Nanos,
    /// When the last one did.
    pub end: Nanos,
    /// How long bytes moved.
    pub busy: BusyTime,
    /// How many ops the queue of a stream held on average while it was not empty.
    pub mean_queue_depth: f64,
    /// Processes that were watched.
    pub processes: u64,
    /// Streams of the program's, default streams included.
    pub streams: u64,
    /// Facts that were lost: counts are too low.
    pub lost: u64,
    /// Ops that were in flight when too many others were: their times are not counted.
    pub untracked: u64,
}

impl RunFigures {
    /// Nanoseconds from the first fact to the last.
    pub fn elapsed(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }

    /// The part of the time with work in which at least two streams worked.
    pub fn overlap(&self) -> f64 {
        if self.busy.any == 0 { 0.0 } else { self.busy.several as f64 / self.busy.any as f64 }
    }
}

impl Report {
    /// Joins call sites that have one name, such as those of several processes of one program.
    pub(super) fn new(run: RunFigures, named: Vec<(CallName, &Counts)>, advice: Vec<CopyAdvice>) -> Report {
        let mut total = Counts::default();
        let mut joined: std::collections::HashMap<CallName, Counts> = Default::default();
        for (name, counts) in named {
            total.add(counts);
            joined.entry(name).or_default().add(counts);
        }
        let did_something = |(_, counts): &(CallName, Counts)| *counts != Counts::default();
        let joined = joined.into_iter().filter(did_something);
        let mut sites: Vec<_> = joined.map(|(name, counts)| SiteReport { name, counts }).collect();
        sites.sort_by_cached_key(|site| {
            let bytes = site.counts.traffic_of(|_| true).bytes;
            (std::cmp::Reverse(bytes), site.name.text())
        });
        Report { run, total, sites, advice }
    }
}
