//! The names of statistics, and their values in a report or for one call site.
//!
//! Names of traffic are put together: `[kind_][route_][size_]measure`, such as `bytes`, `h2d_bytes`,
//! `pageable_calls` or `d2h_pageable_small_time`. Everything else has a name of its own.

use super::counts::{Counter, Counts};
use super::dimension::Dimension;
use super::report::RunFigures;
use super::traffic::{SizeClass, TrafficClass, TrafficKind, TrafficRoute};

/// A statistic that has a name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// Of the traffic of some classes.
    Traffic(TrafficFilter, Measure),
    /// One of the other counters.
    Counter(Counter),
    /// The time that callers were blocked, in whatever call.
    Blocked,
    /// Of the run as a whole: no call site has a part in it.
    Run(RunStatistic),
}

/// Which classes of traffic are meant; `None` means all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficFilter {
    /// Of which kinds.
    pub kinds: Option<KindFilter>,
    /// By which route.
    pub route: Option<TrafficRoute>,
    /// Of which size.
    pub size: Option<SizeClass>,
}

/// Which kinds of traffic are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KindFilter {
    /// Everything with a source and a destination: no fills and no reductions.
    Copies,
    /// One kind.
    One(TrafficKind),
}

impl KindFilter {
    fn all() -> impl Iterator<Item = KindFilter> {
        [KindFilter::Copies].into_iter().chain(TrafficKind::ALL.map(KindFilter::One))
    }

    fn name(self) -> &'static str {
        match self {
            KindFilter::Copies => "copy",
            KindFilter::One(kind) => kind.name(),
        }
    }

    fn has_route(self, route: TrafficRoute) -> bool {
        let is_inside = matches!(route, TrafficRoute::WithinDevice | TrafficRoute::BetweenDevices);
        match self {
            KindFilter::Copies => true,
            KindFilter::One(TrafficKind::DeviceToDevice) => is_inside,
            KindFilter::One(kind) => kind.is_copy() && !is_inside,
        }
    }
}

impl TrafficFilter {
    fn matches(&self, class: TrafficClass) -> bool {
        let is_kind = self.kinds.is_none_or(|kinds| match kinds {
            KindFilter::Copies => class.kind.is_copy(),
            KindFilter::One(kind) => class.kind == kind,
        });
        let is_route = self.route.is_none_or(|route| class.route == Some(route));
        is_kind && is_route && self.size.is_none_or(|size| class.size == size)
    }
}

/// What of traffic is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// How many ops were submitted.
    Calls,
    /// Their bytes.
    Bytes,
    /// How long they ran, each for itself.
    Time,
    /// How long their callers were blocked.
    Blocked,
    /// Bytes per time while they ran.
    Rate,
}

impl Measure {
    const ALL: [Measure; 5] =
        [Measure::Calls, Measure::Bytes, Measure::Time, Measure::Blocked, Measure::Rate];

    fn name(self) -> &'static str {
        ["calls", "bytes", "time", "blocked", "rate"][self as usize]
    }
}

/// What only the run as a whole has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStatistic {
    /// From the first fact to the last.
    Elapsed,
    /// How long bytes moved in at least one stream.
    Busy,
    /// How long bytes moved in at least two streams.
    BusyTogether,
    /// The part of `busy` in which bytes moved in at least two streams.
    Overlap,
    /// How many ops the queue of a stream held on average while it was not empty.
    MeanQueueDepth,
    /// Processes that were watched.
    Processes,
    /// Streams of the program's, default streams included.
    Streams,
    /// Facts that were lost because the program wrote them faster than they were read.
    Lost,
}

impl RunStatistic {
    const ALL: [RunStatistic; 8] = [
        RunStatistic::Elapsed,
        RunStatistic::Busy,
        RunStatistic::BusyTogether,
        RunStatistic::Overlap,
        RunStatistic::MeanQueueDepth,
        RunStatistic::Processes,
        RunStatistic::Streams,
        RunStatistic::Lost,
    ];

    fn name(self) -> &'static str {
        const NAMES: [&str; 8] = [
            "elapsed",
            "busy",
            "busy_together",
            "overlap",
            "mean_queue_depth",
            "processes",
            "streams",
            "lost_facts",
        ];
        NAMES[self as usize]
    }

    fn value(self, run: &RunFigures) -> f64 {
        match self {
            RunStatistic::Elapsed => run.elapsed() as f64,
            RunStatistic::Busy => run.busy.any as f64,
            RunStatistic::BusyTogether => run.busy.several as f64,
            RunStatistic::Overlap => run.overlap(),
            RunStatistic::MeanQueueDepth => run.mean_queue_depth,
            RunStatistic::Processes => run.processes as f64,
            RunStatistic::Streams => run.streams as f64,
            RunStatistic::Lost => run.lost as f64,
        }
    }
}

impl Statistic {
    /// Every statistic with its name: those of the run, the counters, then traffic from the general to the
    /// special.
    pub fn all() -> Vec<(String, Statistic)> {
        let mut all: Vec<_> =
            RunStatistic::ALL.map(|run| (run.name().to_owned(), Statistic::Run(run))).to_vec();
        all.push(("blocked".to_owned(), Statistic::Blocked));
        let counters = Counter::ALL.map(|counter| (counter.name().to_owned(), Statistic::Counter(counter)));
        all.extend(counters);
        let mut filters: Vec<_> = filters().collect();
        filters.sort_by_key(|(words, _)| words.len());
        for (words, filter) in filters {
            for measure in Measure::ALL {
                let name: Vec<&str> = words.iter().copied().chain([measure.name()]).collect();
                all.push((name.join("_"), Statistic::Traffic(filter, measure)));
            }
        }
        // `blocked` alone is that of all calls.
        all.retain(|(name, of)| name != "blocked" || *of == Statistic::Blocked);
        all
    }

    /// The statistic with that name.
    pub fn named(name: &str) -> Option<Statistic> {
        Statistic::all().into_iter().find(|(other, _)| other == name).map(|(_, statistic)| statistic)
    }

    /// What it measures.
    pub fn dimension(self) -> Dimension {
        match self {
            Statistic::Traffic(_, Measure::Calls) => Dimension::NUMBER,
            Statistic::Traffic(_, Measure::Bytes) => Dimension::BYTES,
            Statistic::Traffic(_, Measure::Time | Measure::Blocked) | Statistic::Blocked => Dimension::TIME,
            Statistic::Traffic(_, Measure::Rate) => Dimension::RATE,
            Statistic::Counter(counter) if counter.is_time() => Dimension::TIME,
            Statistic::Counter(_) => Dimension::NUMBER,
            Statistic::Run(RunStatistic::Elapsed | RunStatistic::Busy | RunStatistic::BusyTogether) => {
                Dimension::TIME
            }
            Statistic::Run(_) => Dimension::NUMBER,
        }
    }

    /// Its value in a run with these figures and counters.
    pub fn value(self, run: &RunFigures, counts: &Counts) -> f64 {
        match self {
            Statistic::Run(of) => of.value(run),
            _ => self.part(counts).unwrap_or_default(),
        }
    }

    /// The part that a call site has in it; `None` if that has no meaning.
    pub fn part(self, counts: &Counts) -> Option<f64> {
        let of_traffic = |filter: TrafficFilter| counts.traffic_of(|class| filter.matches(class));
        match self {
            Statistic::Traffic(filter, Measure::Calls) => Some(of_traffic(filter).calls as f64),
            Statistic::Traffic(filter, Measure::Bytes) => Some(of_traffic(filter).bytes as f64),
            Statistic::Traffic(filter, Measure::Time) => Some(of_traffic(filter).time as f64),
            Statistic::Traffic(filter, Measure::Blocked) => Some(of_traffic(filter).blocked as f64),
            Statistic::Traffic(filter, Measure::Rate) => Some(of_traffic(filter).rate()),
            Statistic::Counter(counter) => Some(counts.counter(counter) as f64),
            Statistic::Blocked => Some(counts.blocked() as f64),
            Statistic::Run(_) => None,
        }
    }

    /// The bytes of the traffic that it is about, at a call site with these counters.
    pub fn bytes(self, counts: &Counts) -> u64 {
        match self {
            Statistic::Traffic(filter, _) => counts.traffic_of(|class| filter.matches(class)).bytes,
            _ => counts.traffic_of(|_| true).bytes,
        }
    }
}

/// Every filter that can match something, with the words of its name.
fn filters() -> impl Iterator<Item = (Vec<&'static str>, TrafficFilter)> {
    let kinds = [None].into_iter().chain(KindFilter::all().map(Some));
    let pairs = kinds.flat_map(|kinds| {
        let routes = [None].into_iter().chain(TrafficRoute::ALL.map(Some));
        routes.map(move |route| (kinds, route))
    });
    let possible = pairs.filter(|(kinds, route)| match (kinds, route) {
        (Some(kinds), Some(route)) => kinds.has_route(*route),
        _ => true,
    });
    possible.flat_map(|(kinds, route)| {
        let sizes = [None].into_iter().chain(SizeClass::ALL.map(Some));
        sizes.map(move |size| {
            let words =
                [kinds.map(KindFilter::name), route.map(TrafficRoute::name), size.map(SizeClass::name)];
            (words.into_iter().flatten().collect(), TrafficFilter { kinds, route, size })
        })
    })
}
