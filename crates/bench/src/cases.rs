//! The list of cases: names, what they mean, and which ones an argument selects.

use ferry_abi::{Error, Result};

use crate::block::{D2D, D2H, D2H_PAGEABLE, H2D, H2D_PAGEABLE, P2P, Route};
use crate::copies::Form;
use crate::growth::Growth;
use crate::lane::Clock;

/// Something to measure.
pub struct Case {
    /// Its parts are divided by slashes, from the general to the particular.
    pub name: String,
    pub work: Work,
}

/// What is done.
#[derive(Clone, Copy)]
pub enum Work {
    /// One run of bytes.
    Contiguous { route: Route, len: usize },
    /// Rows of `width` bytes, twice as far apart, `len` bytes in all of them.
    Matrix { route: Route, width: usize, len: usize },
    /// `count` pieces of `block` bytes in one call, and so many such calls before a wait.
    Batch { route: Route, count: usize, block: usize, queued: usize },
    /// A call for each of the pieces; `calls` if it is the calls alone that are timed.
    Loop { route: Route, count: usize, block: usize, calls: bool },
    /// The same within a device, by a descriptor for each piece; `alone` if the calls are not timed.
    Descriptors { count: usize, block: usize, alone: bool },
    /// One run of bytes, from and to many places in a page, of which the worst is shown.
    Alignment { route: Route, len: usize },
    /// What a copy costs apart from its bytes.
    Call { call: Call, len: usize },
    /// The same with many of something.
    Growth { growth: Growth, count: usize },
}

/// What a small copy costs apart from its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Until the copy is handed over.
    Submit,
    /// Until the caller knows that it is done.
    RoundTrip,
    /// The same, when nothing has happened for a while.
    AfterQuiet,
    /// Until the caller knows that an event after it has come.
    Event,
}

/// Copies that are handed over one after another and waited for together, where the call is what is timed.
pub const SUBMITTED: usize = 2_000;
/// Round trips in a sample.
const TRIPS: usize = 200;
/// Batches that are handed over before one wait.
const QUEUED: usize = 8;
/// Rows that a 2-D copy may have, documented.
const MOST_ROWS: usize = 5 << 20;
/// Bytes in all rows of a matrix.
const MATRIX: usize = 64 << 20;

const K: usize = 1 << 10;
const M: usize = 1 << 20;

/// All cases, in the order in which they run. `size` takes the place of the usual sizes.
pub fn all(size: Option<usize>) -> Vec<Case> {
    let mut cases = Vec::new();
    for route in [H2D, D2H, D2D, P2P, H2D_PAGEABLE, D2H_PAGEABLE] {
        cases.extend(contiguous(route, size));
        // Documented: matrices go within a device as well, but not from one to another.
        if route.device == 0 {
            cases.extend(matrices(route, size));
        }
        // Documented: a batch that stays in a device is refused. There, pieces are descriptors' business
        // (`desc`).
        if route.crosses() {
            cases.extend(batches(route, size));
        }
        if route.device == 0 && !route.is_pageable() {
            cases.extend(loops(route, size));
        }
        if route.crosses() && !route.is_pageable() {
            cases.extend(alignments(route, size));
        }
    }
    cases.extend(descriptors(size));
    cases.extend(calls(size.unwrap_or(64)));
    cases.extend(growth());
    cases
}

fn contiguous(route: Route, size: Option<usize>) -> Vec<Case> {
    let mut usual = vec![4 * K, 64 * K, M, 16 * M, 128 * M, 512 * M];
    if route.device == 0 && !route.is_pageable() {
        usual.push(1024 * M);
    }
    let name = |len| format!("{}/contiguous/{}", route.name, short(len));
    let case = |len| Case { name: name(len), work: Work::Contiguous { route, len } };
    sizes(size, &usual).into_iter().map(case).collect()
}

fn matrices(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    [16, 64, 256, K, 4 * K, 64 * K].into_iter().map(move |width| Case {
        name: format!("{}/2d/w{}", route.name, short(width)),
        work: Work::matrix(route, width, size.unwrap_or(MATRIX)),
    })
}

/// Pieces of a batch and their length, and those of which several batches are queued. Of plain memory a batch
/// is known from fewer.
const BATCHES: [(usize, usize); 7] =
    [(64, 4 * K), (4096, K), (4096, 4 * K), (1024, 16 * K), (4096, 32 * K), (1024, 128 * K), (64, 2 * M)];
const QUEUED_BATCHES: [(usize, usize); 4] = [(4096, K), (4096, 4 * K), (1024, 16 * K), (1024, 128 * K)];
const PAGEABLE_BATCHES: [(usize, usize); 3] = [(4096, K), (4096, 4 * K), (4096, 32 * K)];

/// One batch and a wait, and several before a wait.
fn batches(route: Route, size: Option<usize>) -> Vec<Case> {
    let own = size.map(|block| (count(block), block));
    let (one, several) = match route.is_pageable() {
        true => (sizes(own, &PAGEABLE_BATCHES), Vec::new()),
        false => (sizes(own, &BATCHES), sizes(own, &QUEUED_BATCHES)),
    };
    let case = |series, (count, block), queued| Case {
        name: format!("{}/{series}/{count}x{}", route.name, short(block)),
        work: Work::Batch { route, count, block, queued },
    };
    let one = one.into_iter().map(|pieces| case("batch", pieces, 1));
    one.chain(several.into_iter().map(|pieces| case("batches", pieces, QUEUED))).collect()
}

fn loops(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    let (count, block) = (1000, size.unwrap_or(4 * K));
    [("loop", false), ("loop/submit", true)].into_iter().map(move |(series, calls)| Case {
        name: format!("{}/{series}/{count}x{}", route.name, short(block)),
        work: Work::Loop { route, count, block, calls },
    })
}

fn alignments(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    sizes(size, &[64 * K, 128 * K, 256 * K, 512 * K, M]).into_iter().map(move |len| Case {
        name: format!("{}/alignment/{}", route.name, short(len)),
        work: Work::Alignment { route, len },
    })
}

fn descriptors(size: Option<usize>) -> Vec<Case> {
    let case = |series, block, alone| {
        let count = count(block);
        let name = format!("{series}/{count}x{}", short(block));
        Case { name, work: Work::Descriptors { count, block, alone } }
    };
    let wall = sizes(size, &[K, 4 * K, 32 * K]).into_iter().map(|block| case("desc", block, false));
    let alone = sizes(size, &[4 * K]).into_iter().map(|block| case("desc/device", block, true));
    wall.chain(alone).collect()
}

fn calls(len: usize) -> impl Iterator<Item = Case> {
    let size = short(len);
    let case = move |(name, call)| Case { name, work: Work::Call { call, len } };
    [
        (format!("submit/{size}"), Call::Submit),
        (format!("roundtrip/{size}"), Call::RoundTrip),
        (format!("roundtrip/{size}/after-10ms"), Call::AfterQuiet),
        ("event/latency".to_owned(), Call::Event),
    ]
    .into_iter()
    .map(case)
}

fn growth() -> impl Iterator<Item = Case> {
    let series: [(&str, Growth, &[usize]); 4] = [
        ("streams", Growth::Streams, &[10, 100, 1_000]),
        ("outstanding", Growth::Outstanding, &[1_000, 10_000, 100_000]),
        ("outstanding/submit", Growth::Submit, &[10_000, 100_000]),
        ("allocations", Growth::Allocations, &[100, 10_000, 100_000]),
    ];
    series.into_iter().flat_map(|(name, growth, counts)| {
        let case =
            move |count| Case { name: format!("{name}/{count}"), work: Work::Growth { growth, count } };
        counts.iter().copied().map(case)
    })
}

/// Pieces of this length that a batch has, unless said otherwise: many, and no more than 128 MiB of them.
fn count(block: usize) -> usize {
    (128 * M / block).clamp(64, 4096)
}

impl Work {
    fn matrix(route: Route, width: usize, len: usize) -> Work {
        Work::Matrix { route, width, len: len.clamp(width, width * MOST_ROWS) }
    }

    /// How pieces are handed over, where it is not in one call.
    pub fn form(&self) -> Option<Form> {
        match self {
            Work::Loop { .. } => Some(Form::Each),
            Work::Descriptors { .. } => Some(Form::Descriptors),
            _ => None,
        }
    }

    /// What a sample does and times, where it is not one copy and a wait.
    pub fn clock(&self) -> Option<Clock> {
        match *self {
            Work::Batch { queued, .. } if queued > 1 => Some(Clock::Whole { rounds: 1, queued }),
            Work::Loop { calls: true, .. } => Some(Clock::Submit { queued: 1 }),
            Work::Descriptors { alone: true, .. } => Some(Clock::Alone),
            Work::Call { call, .. } => Some(match call {
                Call::Submit => Clock::Submit { queued: SUBMITTED },
                Call::RoundTrip => Clock::Whole { rounds: TRIPS, queued: 1 },
                Call::AfterQuiet => Clock::AfterQuiet,
                Call::Event => Clock::Event { rounds: TRIPS },
            }),
            _ => None,
        }
    }

    /// Whether the time of a call is what matters, and not its bytes.
    pub fn is_about_calls(&self) -> bool {
        matches!(self, Work::Call { .. } | Work::Loop { calls: true, .. })
    }

    /// The same with another size, as the last part of a name says it.
    fn resized(self, size: &str) -> Option<Work> {
        let bytes = |text: &str| ferry::parse_size(text).ok().filter(|size| *size > 0);
        let number = |text: &str| text.parse().ok().filter(|count| *count > 0);
        let pieces = || {
            let (count, block) = size.split_once('x')?;
            Some((number(count)?, bytes(block)?))
        };
        Some(match self {
            Work::Contiguous { route, .. } => Work::Contiguous { route, len: bytes(size)? },
            Work::Matrix { route, .. } => Work::matrix(route, bytes(size.strip_prefix('w')?)?, MATRIX),
            Work::Batch { route, queued, .. } => {
                let (count, block) = pieces()?;
                Work::Batch { route, count, block, queued }
            }
            Work::Loop { route, calls, .. } => {
                let (count, block) = pieces()?;
                Work::Loop { route, count, block, calls }
            }
            Work::Descriptors { alone, .. } => {
                let (count, block) = pieces()?;
                Work::Descriptors { count, block, alone }
            }
            Work::Alignment { route, .. } => Work::Alignment { route, len: bytes(size)? },
            Work::Call { call, .. } => Work::Call { call, len: bytes(size)? },
            Work::Growth { growth, .. } => Work::Growth { growth, count: number(size)? },
        })
    }
}

/// The cases that an argument names: one by its whole name, else all that begin with it, at a slash if there
/// are any, else one that is not listed but for its size.
pub fn select(cases: Vec<Case>, wanted: &[String]) -> Result<Vec<Case>> {
    if wanted.is_empty() {
        return Ok(cases);
    }
    let (mut chosen, mut others) = (vec![false; cases.len()], Vec::new());
    for want in wanted {
        let want = want.trim_end_matches('/');
        let rules: [&dyn Fn(&str) -> bool; 3] = [
            &|name| name == want,
            &|name| name.strip_prefix(want).is_some_and(|rest| rest.starts_with('/')),
            &|name| !want.is_empty() && name.starts_with(want),
        ];
        let rule = rules.into_iter().find(|rule| cases.iter().any(|case| rule(&case.name)));
        let Some(rule) = rule else {
            let none = || Error::Setup(format!("no case begins with {want:?}; ferry bench -l lists them"));
            let other = of_another_size(&cases, want).ok_or_else(none)?;
            if !others.iter().any(|known: &Case| known.name == other.name) {
                others.push(other);
            }
            continue;
        };
        for (case, chosen) in cases.iter().zip(&mut chosen) {
            *chosen |= rule(&case.name);
        }
    }
    let listed = cases.into_iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(case, _)| case);
    Ok(listed.chain(others).collect())
}

/// A case of a listed series whose own size is not listed.
fn of_another_size(cases: &[Case], name: &str) -> Option<Case> {
    let (series, size) = name.rsplit_once('/')?;
    let like = cases.iter().find(|case| case.series() == series)?;
    Some(Case { name: name.to_owned(), work: like.work.resized(size)? })
}

impl Case {
    /// The name of the series, which all but the last part make.
    pub fn series(&self) -> &str {
        self.name.rsplit_once('/').map_or(&self.name, |(series, _)| series)
    }

    /// How many times as many samples as usual it takes: one that is a single event is known only from many.
    pub fn patience(&self) -> usize {
        if matches!(self.work, Work::Call { call: Call::AfterQuiet, .. }) { 4 } else { 1 }
    }

    /// What one sample does, in words.
    pub fn about(&self) -> String {
        match self.work {
            Work::Contiguous { route, .. } => format!("{}, one copy and synchronise", route.about),
            Work::Matrix { route, .. } => {
                format!("{}, 2-D, pitch twice the width, one copy and synchronise", route.about)
            }
            Work::Batch { route, queued: 1, .. } => {
                format!("{}, scattered pieces, one batch and synchronise", route.about)
            }
            Work::Batch { route, queued, .. } => {
                format!("{}, {queued} batches queued, and synchronise", route.about)
            }
            Work::Loop { route, calls: false, .. } => {
                format!("{}, a call for each scattered piece, and synchronise", route.about)
            }
            Work::Loop { .. } => "cost of a call in a loop over scattered pieces".to_owned(),
            Work::Descriptors { alone: true, .. } => {
                "within a device, descriptor copies between two events, queued behind a long copy".to_owned()
            }
            Work::Descriptors { .. } => {
                "within a device, a descriptor copy for each scattered piece, and synchronise".to_owned()
            }
            Work::Alignment { route, .. } => {
                format!("{}, the worst of many alignments", route.about)
            }
            Work::Call { call, .. } => match call {
                Call::Submit => {
                    "the call that hands a small page-locked copy over, 2,000 in a row".to_owned()
                }
                Call::RoundTrip => "a small page-locked copy and synchronise, in a loop".to_owned(),
                Call::AfterQuiet => "the same, once, after 10 ms in which nothing happened".to_owned(),
                Call::Event => "a small copy, an event after it, and waiting for the event".to_owned(),
            },
            Work::Growth { growth, .. } => match growth {
                Growth::Streams => {
                    "cost of a 64 B copy, so many streams in turn and one synchronise".to_owned()
                }
                Growth::Outstanding => {
                    "cost of a 64 B copy, so many submitted before the first runs".to_owned()
                }
                Growth::Submit => "cost of the call alone, with so many outstanding".to_owned(),
                Growth::Allocations => {
                    "cost of a 64 B copy, each to another of so many allocations".to_owned()
                }
            },
        }
    }
}

fn sizes<T: Clone>(given: Option<T>, usual: &[T]) -> Vec<T> {
    given.map_or_else(|| usual.to_vec(), |size| vec![size])
}

/// `64`, `4K`, `512M`: as `-b` takes it.
pub fn short(size: usize) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| size > 0 && size.is_multiple_of(1 << shift));
    unit.map_or_else(|| size.to_string(), |(shift, unit)| format!("{}{unit}", size >> shift))
}

#[cfg(test)]
mod tests {
    use super::{all, select, short};

    fn names(size: Option<usize>, wanted: &[&str]) -> Vec<String> {
        let wanted: Vec<String> = wanted.iter().map(|want| (*want).to_owned()).collect();
        let chosen = select(all(size), &wanted).unwrap_or_default();
        chosen.into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn names_are_unique() {
        for size in [None, Some(64), Some(4096), Some(1 << 20)] {
            let mut all = names(size, &[]);
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count, "{all:?}");
        }
    }

    #[test]
    fn an_argument_selects_a_case_or_all_that_begin_with_it() {
        for (wanted, want) in [
            (&["h2d/2d/w64"][..], &["h2d/2d/w64"][..]),
            (
                &["h2d-pageable/batch"],
                &["h2d-pageable/batch/4096x1K", "h2d-pageable/batch/4096x4K", "h2d-pageable/batch/4096x32K"],
            ),
            (&["h2d/loop/"], &["h2d/loop/1000x4K", "h2d/loop/submit/1000x4K"]),
            (&["h2d/2d/w512", "submit", "h2d/2d/w512"], &["submit/64", "h2d/2d/w512"]),
            (&["d2h/batches/300x8K"], &["d2h/batches/300x8K"]),
            (&["h2d/2d/512"], &[]),
            (&["h2d/batch/0x8K"], &[]),
            (&["h2d/sideways/8K"], &[]),
            (&["h2d/2d/w1"], &["h2d/2d/w16", "h2d/2d/w1K"]),
            (&["d2h/2d/w64", "h2d/2d/w64", "h2d/2d/w64"], &["h2d/2d/w64", "d2h/2d/w64"]),
            (&["roundtrip/64"], &["roundtrip/64"]),
            (&["roundtrip"], &["roundtrip/64", "roundtrip/64/after-10ms"]),
            (&["nothing"], &[]),
            (&[""], &[]),
        ] {
            assert_eq!(names(None, wanted), want, "{wanted:?}");
        }
        let h2d = names(None, &["h2d"]);
        assert!(!h2d.is_empty() && h2d.iter().all(|name| name.starts_with("h2d/")), "{h2d:?}");
    }

    #[test]
    fn a_size_takes_the_place_of_the_usual_ones() {
        assert_eq!(names(Some(3000), &["h2d/contiguous"]), ["h2d/contiguous/3000"]);
        assert_eq!(names(Some(2 << 20), &["d2h/batch"]), ["d2h/batch/64x2M"]);
        assert_eq!(names(Some(3000), &["d2h/batch"]), ["d2h/batch/4096x3000"]);
    }

    #[test]
    fn the_heading_of_every_series_fits_in_100_columns() {
        for case in all(None) {
            let heading = format!("{}: {}", case.series(), case.about());
            assert!(heading.chars().count() <= 100, "{heading}");
        }
    }

    #[test]
    fn sizes_are_short() {
        for (size, want) in [(0, "0"), (64, "64"), (1024, "1K"), (1536, "1536"), (512 << 20, "512M")] {
            assert_eq!(short(size), want);
        }
    }
}
