//! Statistics of a program's copies: the reader behind `ferry stat`.
//!
//! A [`Statistics`] takes facts as they come and adds up what moved: by kind, route and size class, for each
//! call site and for the run. A program may run for hours, so memory is bounded: an op is remembered while it
//! is in flight, up to a number of ops; call sites are told apart up to a number. [`Statistics::report`]
//! gives plain data ([`Report`]); an [`Assertion`] is an expression over the names of statistics that a
//! report is checked against. The [`Advisor`](advice) looks for patterns that cost time, if it is asked to.
//!
//! It prints nothing: the command does. Arrows: `traffic` and `counts` are the counters, `sites`, `calls`,
//! `streams`, `timeline` and `generations` hold them, `statistic` has their names, `expression` reads
//! assertions about them, `report` is what a caller sees. Nothing here knows another reader.

pub mod advice;
mod assertion;
mod calls;
mod counts;
mod dimension;
mod expression;
mod generations;
mod lexer;
mod report;
mod sites;
mod statistic;
mod streams;
mod timeline;
mod traffic;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use crate::fact::{Call, CallSite, Fact, FactReader, FactSource, Join, Joined, Nanos, Outcome, Passed};
use crate::fact::{Piece, Point, StreamMade, StreamPurpose, SubmittedOp, Work};
use crate::symbols::Symbols;

use advice::Advisor;
use calls::{CallRole, Calls};
use generations::Generations;
use sites::{SiteIndex, Sites};
use streams::Queues;
use timeline::Timeline;

pub use assertion::{Assertion, Contribution, Failure};
pub use counts::{Counter, Counts};
pub use dimension::Dimension;
pub use lexer::ExpressionError;
pub use report::{Report, RunFigures, SiteReport};
pub use sites::CallName;
pub use statistic::Statistic;
pub use timeline::BusyTime;
pub use traffic::{SizeClass, TrafficClass, TrafficCounts, TrafficKind, TrafficRoute};

/// Ops in flight that are remembered.
const OPS_IN_FLIGHT: usize = if cfg!(test) { 1 << 13 } else { 1 << 18 };
/// Ops that were seen to pass before they were seen to be submitted.
const EARLY_OPS: usize = if cfg!(test) { 1 << 12 } else { 1 << 16 };
/// Processes that are told apart when they are counted.
const PROCESSES: usize = 1 << 16;
/// Streams that are told apart when they are counted.
const STREAMS: usize = 1 << 18;

/// Adds up what the copies of a program did.
pub struct Statistics {
    symbols: Symbols,
    sites: Sites,
    open: Generations<(u32, Point), OpenOp>,
    early: Generations<(u32, Point), EarlyFacts>,
    calls: Calls,
    queues: Queues,
    timeline: Timeline,
    advisor: Option<Advisor>,
    run: RunFigures,
    processes: HashSet<u32>,
    /// Whether each stream is one of the program's. It may be told twice: the engine knows less of it.
    streams: HashMap<(u32, u32), bool>,
}

/// An op that has been submitted and was not seen to pass.
struct OpenOp {
    site: SiteIndex,
    class: Option<TrafficClass>,
    bytes: u64,
    submitted: Nanos,
    /// When it began, if that was told before it passed; 0 if not.
    begun: Nanos,
}

/// What was seen of an op before it was seen to be submitted.
#[derive(Clone, Copy, Default)]
struct EarlyFacts {
    begun: Nanos,
    piece: Option<Piece>,
    passed: Option<Passed>,
}

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics::new()
    }
}

impl FactReader for Statistics {
    fn take(&mut self, source: FactSource, fact: &Fact) {
        if let Some(time) = fact.time() {
            self.run.begin = self.run.begin.min(time);
            self.run.end = self.run.end.max(time);
        }
        match fact {
            Fact::Started(_) => {
                self.sites.close(source.process, &mut self.symbols);
                if self.processes.len() < PROCESSES && self.processes.insert(source.process) {
                    self.run.processes += 1;
                }
            }
            Fact::StreamMade(made) => self.stream_made(source.process, made),
            Fact::Submitted(op) => self.submitted(source, op),
            Fact::Resolved { point, piece, .. } => self.resolved((source.process, *point), piece),
            Fact::Begun { time, point } => self.begun((source.process, *point), *time),
            Fact::Passed(passed) => self.passed(source.process, passed),
            Fact::Joined(joined) => self.joined(source, joined),
            Fact::Call(call) => self.called(source, call),
            Fact::Refused { site, .. } => self.count(source, site, Counter::Refused, 1),
            Fact::Launched { site, .. } => self.count(source, site, Counter::Launches, 1),
            Fact::Lost { count } => self.run.lost = self.run.lost.saturating_add(*count),
            _ => {}
        }
        self.symbols.take(source, fact);
        if let Some(advisor) = &mut self.advisor {
            advisor.take_memory(source, fact);
        }
    }
}

impl Statistics {
    /// Statistics of a run that begins.
    pub fn new() -> Statistics {
        Statistics {
            symbols: Symbols::default(),
            sites: Sites::new(),
            open: Generations::new(OPS_IN_FLIGHT),
            early: Generations::new(EARLY_OPS),
            calls: Calls::default(),
            queues: Queues::default(),
            timeline: Timeline::default(),
            advisor: None,
            run: RunFigures { begin: Nanos::MAX, ..RunFigures::default() },
            processes: HashSet::new(),
            streams: HashMap::new(),
        }
    }

    /// Statistics that also look for patterns that cost time.
    pub fn with_advice() -> Statistics {
        Statistics { advisor: Some(Advisor::default()), ..Statistics::new() }
    }

    /// What has been counted up to now.
    pub fn report(&mut self) -> Report {
        let mut run = self.run;
        run.begin = run.begin.min(run.end);
        run.busy = self.timeline.busy();
        run.mean_queue_depth = self.queues.mean_depth();
        run.untracked = self.open.dropped();
        let named: Vec<_> = self.sites.named(&mut self.symbols).collect();
        let advice = self.advisor.as_mut().map(|advisor| advisor.finish(&named)).unwrap_or_default();
        Report::new(run, named, advice)
    }

    fn count(&mut self, source: FactSource, site: &CallSite, counter: Counter, more: u64) {
        let index = self.sites.index(source.process, site);
        self.sites.counts(index).count(counter, more);
    }

    fn stream_made(&mut self, process: u32, made: &StreamMade) {
        let is_programs = matches!(made.purpose, StreamPurpose::User | StreamPurpose::Default);
        if self.streams.len() < STREAMS {
            let before = self.streams.insert((process, made.stream), is_programs) == Some(true);
            self.run.streams = self.run.streams + u64::from(is_programs) - u64::from(before);
        }
    }

    fn submitted(&mut self, source: FactSource, op: &SubmittedOp) {
        let site = self.sites.index(source.process, &op.site);
        let bytes = op.work.bytes();
        let class = TrafficClass::of(&op.work, bytes);
        let (call, time) = self.calls.at(source, site, &op.site, op.time);
        if let (Some(class), CallRole::Other) = (class, call.role) {
            call.role = CallRole::Traffic(class);
        }
        let counts = self.sites.counts(site);
        counts.count(Counter::CallTime, time);
        counts.count(Counter::Unfinished, 1);
        count_work(counts, op);
        if let Some(class) = class {
            counts.add_traffic(class, &TrafficCounts { calls: 1, bytes, ..TrafficCounts::default() });
        }
        if let Some(advisor) = &mut self.advisor {
            advisor.submitted(source, site, op, time);
        }
        let key = (source.process, op.point);
        self.open.insert(key, OpenOp { site, class, bytes, submitted: op.time, begun: 0 });
        if !self.early.is_empty()
            && let Some(early) = self.early.remove(&key)
        {
            self.catch_up(key, &early);
        }
    }

    /// Takes what came too early.
    fn catch_up(&mut self, key: (u32, Point), early: &EarlyFacts) {
        self.begun(key, early.begun);
        if let Some(piece) = &early.piece {
            self.resolved(key, piece);
        }
        if let Some(passed) = &early.passed {
            self.passed(key.0, passed);
        }
    }

    /// Keeps what came too early.
    fn keep_early(&mut self, key: (u32, Point), add: impl FnOnce(&mut EarlyFacts)) {
        let mut early = self.early.remove(&key).unwrap_or_default();
        add(&mut early);
        self.early.insert(key, early);
    }

    fn begun(&mut self, key: (u32, Point), time: Nanos) {
        match self.open.get_mut(&key) {
            Some(op) => op.begun = time,
            None => self.keep_early(key, |early| early.begun = time),
        }
    }

    /// A descriptor's copy is counted again when it is known how long it is.
    fn resolved(&mut self, key: (u32, Point), piece: &Piece) {
        let Some(op) = self.open.get_mut(&key) else {
            return self.keep_early(key, |early| early.piece = Some(*piece));
        };
        let Some(class) = op.class.filter(|_| op.bytes == 0) else { return };
        let counts = self.sites.counts(op.site);
        counts.take_back_call(class);
        op.bytes = piece.len;
        let class = class.of_size(piece.len);
        op.class = Some(class);
        counts.add_traffic(class, &TrafficCounts { calls: 1, bytes: piece.len, ..TrafficCounts::default() });
    }

    fn passed(&mut self, process: u32, passed: &Passed) {
        let key = (process, passed.point);
        let Some(op) = self.open.remove(&key) else {
            return self.keep_early(key, |early| early.passed = Some(*passed));
        };
        // Of an op whose beginning was not told, no time is known.
        let begin = [passed.begin, op.begun, passed.end].into_iter().find(|begin| *begin != 0).unwrap_or(0);
        let time = passed.end.saturating_sub(begin) / u64::from(passed.together.max(1));
        let is_done = passed.outcome == Outcome::Done;
        let counts = self.sites.counts(op.site);
        counts.take_back(Counter::Unfinished, 1);
        match passed.outcome {
            Outcome::Done => {}
            Outcome::Failed => counts.count(Counter::Failed, 1),
            Outcome::Dropped => counts.count(Counter::Dropped, 1),
        }
        let stream = (process, passed.point.stream);
        self.queues.passed(stream, op.submitted, passed.end);
        if let Some(class) = op.class.filter(|_| passed.outcome != Outcome::Dropped) {
            let done_bytes = if is_done { op.bytes } else { 0 };
            let time = if is_done { time } else { 0 };
            counts.add_traffic(class, &TrafficCounts { done_bytes, time, ..TrafficCounts::default() });
            let from = self.queues.moved(stream, begin, passed.end);
            self.timeline.add(from, passed.end);
        }
        if let Some(advisor) = &mut self.advisor {
            advisor.passed(process, passed.point, time);
        }
    }

    fn joined(&mut self, source: FactSource, joined: &Joined) {
        if let Some(advisor) = &mut self.advisor {
            advisor.joined(source.process);
        }
        if joined.how == Join::Wait {
            // Without a name it is no call of a C library: then whatever waits synchronises.
            let is_sync = self.function(source, &joined.site).is_none_or(is_synchronise);
            self.advance(source, &joined.site, joined.time, is_sync, None);
        }
    }

    fn called(&mut self, source: FactSource, call: &Call) {
        let is_sync = self.function(source, &call.site).is_some_and(is_synchronise);
        self.advance(source, &call.site, call.end, is_sync, Some(call.blocked));
        if call.code != 0 {
            self.count(source, &call.site, Counter::FailedCalls, 1);
        }
    }

    fn function(&self, source: FactSource, site: &CallSite) -> Option<&str> {
        self.symbols.function(source.process, site.function)
    }

    /// A call has come to `now` and was blocked for `blocked` altogether, or since the last that was heard of
    /// it if that is not known.
    fn advance(
        &mut self,
        source: FactSource,
        site: &CallSite,
        now: Nanos,
        is_sync: bool,
        blocked: Option<u64>,
    ) {
        let index = self.sites.index(source.process, site);
        let (call, time) = self.calls.at(source, index, site, now);
        let is_new = is_sync && call.role == CallRole::Other;
        if is_new {
            call.role = CallRole::Sync;
        }
        let blocked = blocked.unwrap_or(call.blocked.saturating_add(time));
        let before = std::mem::replace(&mut call.blocked, blocked);
        let role = call.role;
        let counts = self.sites.counts(index);
        counts.count(Counter::CallTime, time);
        counts.count(Counter::Syncs, u64::from(is_new));
        match role {
            CallRole::Traffic(class) => counts.change_blocked(class, before, blocked),
            CallRole::Sync => counts.change(Counter::SyncBlocked, before, blocked),
            CallRole::Other => counts.change(Counter::OtherBlocked, before, blocked),
        }
        if let Some(advisor) = self.advisor.as_mut().filter(|_| role == CallRole::Sync) {
            advisor.synchronised(source, index, is_new, (before, blocked));
        }
    }
}

/// Whether a function of a C library only waits for work.
fn is_synchronise(name: &str) -> bool {
    name.contains("Synchronize")
}

fn count_work(counts: &mut Counts, op: &SubmittedOp) {
    match &op.work {
        Work::Batch { count, .. } => {
            counts.count(Counter::Batches, 1);
            counts.count(Counter::Pieces, *count);
        }
        Work::Rows { .. } => counts.count(Counter::Rectangles, 1),
        Work::Through { .. } => counts.count(Counter::LateBound, 1),
        Work::Function => counts.count(Counter::Functions, 1),
        Work::Mark => counts.count(Counter::Marks, 1),
        _ => {}
    }
    counts.count(Counter::Waits, u64::from(!op.awaits.is_empty()));
    counts.count(Counter::GraphOps, u64::from(op.task.is_some()));
}
