//! The list of cases: their names, and which ones an argument selects.

use ferry_abi::{Error, Result};

use crate::matrix::{MATRIX_BYTES, Matrix};
use crate::pieces::PieceSpec;
use crate::route::{D2D, D2H, D2H_PAGEABLE, DUPLEX, H2D, H2D_PAGEABLE, P2P, Route};
use crate::units::short;
use crate::work::{BufferUse, CallCost, Growth, LoopForm, Workload};

/// One measurement, which is one row of the table.
pub struct Case {
    /// The name; its parts are divided by slashes, from the general to the particular.
    pub name: String,
    /// What is measured.
    pub work: Workload,
}

/// Batches that are submitted before one wait.
const QUEUED_PER_WAIT: usize = 8;
/// Batches that are submitted each way before one wait, where they go both ways at once.
const QUEUED_EACH_WAY: usize = 4;
const K: usize = 1 << 10;
const M: usize = 1 << 20;

/// What one argument selects that begins no case: corners in which a copy engine, a driver or a runtime is
/// slow, or hard to be faster than; a minute and a half on a GPU with five samples.
pub const CORNERS: &str = "corners";
const CORNER_CASES: [&str; 34] = [
    "beside/h2d/batches/4096x4K",
    "beside/d2h/batches/4096x4K",
    "duplex/batches/4096x4K",
    "duplex/contiguous/512M",
    "h2d-pageable/batch/1024x4K",
    "h2d-pageable/batch/512x64K",
    "d2h-pageable/batch/1024x4K",
    "d2h-pageable/batch/512x64K",
    "h2d-pageable/sync/4K",
    "h2d-pageable/sync/1M",
    "d2h-pageable/sync/4K",
    "d2h-pageable/sync/1M",
    "h2d/sync/4K",
    "h2d/sync/1M",
    "d2h/sync/4K",
    "d2h/sync/1M",
    "join/64",
    "function/64",
    "h2d/2d/w100p257",
    "d2h/2d/w100p257",
    "h2d/2d/random/100",
    "d2h/2d/random/100",
    "fills/100x1000",
    "malloc/1x1M",
    "malloc/100x4M",
    "lock/alloc/4G",
    "h2d/batch/16x4K",
    "h2d/batch/4096x256",
    "d2h/batch/16x4K",
    "d2h/batch/4096x256",
    "h2d/loop/two-streams/1000x4K",
    "d2h/loop/two-streams/1000x4K",
    "h2d/threads/8x512x4K",
    "d2h/threads/8x512x4K",
];

/// All cases, in the order in which they run. `size` takes the place of the usual sizes.
pub fn all(size: Option<usize>) -> Vec<Case> {
    let mut cases = Vec::new();
    for route in [H2D, D2H, D2D, P2P, H2D_PAGEABLE, D2H_PAGEABLE] {
        cases.extend(contiguous(route, size));
        // Documented: matrices go within a device as well, but not from one to another.
        if route.device == 0 {
            cases.extend(matrices(route, size));
        }
        // Documented: a batch within a device is refused; scattered copies there are descriptors (`desc`).
        if route.crosses() {
            cases.extend(batches(route, size));
            cases.extend(synchronous(route, size));
        }
        if route.device == 0 && !route.is_pageable() {
            cases.extend(loops(route, size));
            cases.push(graph(route, size));
        }
        if route.crosses() && !route.is_pageable() {
            cases.extend(alignments(route, size));
            cases.push(random_matrices(route, size));
            cases.push(threads(route, size));
        }
    }
    cases.extend(both_ways(size));
    cases.extend([H2D, D2H].map(|route| beside(route, size)));
    cases.extend(descriptors(size));
    cases.extend(fills(size));
    cases.extend(allocations(size));
    cases.extend(calls(size.unwrap_or(64)));
    cases.extend(growth());
    cases.extend(used(size));
    cases
}

fn contiguous(route: Route, size: Option<usize>) -> Vec<Case> {
    let mut usual = vec![4 * K, 64 * K, M, 16 * M, 128 * M, 512 * M];
    if route.device == 0 && !route.is_pageable() {
        usual.push(1024 * M);
    }
    let name = |len| format!("{}/contiguous/{}", route.name, short(len));
    let case = |len| Case { name: name(len), work: Workload::Contiguous { route, len } };
    sizes(size, &usual).into_iter().map(case).collect()
}

fn matrices(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    [16, 64, 256, K, 4 * K, 64 * K].into_iter().map(move |width| Case {
        name: format!("{}/2d/w{}", route.name, short(width)),
        work: Workload::Matrix { route, rows: Matrix::new(width, size.unwrap_or(MATRIX_BYTES)) },
    })
}

/// Few: each of them is compared as a whole.
fn random_matrices(route: Route, size: Option<usize>) -> Case {
    let (count, len) = (50, size.unwrap_or(MATRIX_BYTES));
    let name = format!("{}/2d/random/{count}", route.name);
    Case { name, work: Workload::RandomMatrices { route, count, len } }
}

fn synchronous(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    sizes(size, &[4 * K, M]).into_iter().map(move |len| Case {
        name: format!("{}/sync/{}", route.name, short(len)),
        work: Workload::Synchronous { route, len },
    })
}

/// Pieces of a batch and their length.
const BATCHES: [(usize, usize); 7] =
    [(64, 4 * K), (4096, K), (4096, 4 * K), (1024, 16 * K), (4096, 32 * K), (1024, 128 * K), (64, 2 * M)];
/// Pieces and their length where several batches are queued.
const QUEUED_BATCHES: [(usize, usize); 4] = [(4096, K), (4096, 4 * K), (1024, 16 * K), (1024, 128 * K)];
/// Pieces and their length in pageable memory.
const PAGEABLE_BATCHES: [(usize, usize); 3] = [(4096, K), (4096, 4 * K), (4096, 32 * K)];

/// One batch and a wait, and several before a wait.
fn batches(route: Route, size: Option<usize>) -> Vec<Case> {
    let own = size.map(|block| (count(block), block));
    let (one, several) = match route.is_pageable() {
        true => (sizes(own, &PAGEABLE_BATCHES), Vec::new()),
        false => (sizes(own, &BATCHES), sizes(own, &QUEUED_BATCHES)),
    };
    let one = one.into_iter().map(|pieces| batch(route, "batch", pieces, 1));
    one.chain(several.into_iter().map(|pieces| batch(route, "batches", pieces, QUEUED_PER_WAIT))).collect()
}

fn batch(route: Route, series: &str, (count, block): (usize, usize), queued: usize) -> Case {
    let pieces = PieceSpec::new(count, block);
    let name = format!("{}/{series}/{pieces}", route.name);
    Case { name, work: Workload::Batch { route, pieces, queued } }
}

/// Copies both ways at once.
fn both_ways(size: Option<usize>) -> [Case; 2] {
    let (route, len) = (DUPLEX, size.unwrap_or(512 * M));
    let contiguous =
        Case { name: format!("duplex/contiguous/{}", short(len)), work: Workload::Contiguous { route, len } };
    let block = size.unwrap_or(4 * K);
    [contiguous, batch(route, "batches", (count(block), block), QUEUED_EACH_WAY)]
}

fn beside(route: Route, size: Option<usize>) -> Case {
    let block = size.unwrap_or(4 * K);
    let (pieces, queued) = (PieceSpec::new(count(block), block), QUEUED_PER_WAIT);
    let name = format!("beside/{}/batches/{pieces}", route.name);
    Case { name, work: Workload::Beside { route, pieces, queued } }
}

fn threads(route: Route, size: Option<usize>) -> Case {
    let (threads, pieces) = (8, PieceSpec::new(512, size.unwrap_or(4 * K)));
    let name = format!("{}/threads/{threads}x{pieces}", route.name);
    Case { name, work: Workload::Threads { route, threads, pieces } }
}

/// Two streams are a case where copies cross: within a device the order of two streams changes nothing.
fn loops(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    let pieces = PieceSpec::new(1000, size.unwrap_or(4 * K));
    let forms = [
        ("loop", LoopForm::Whole),
        ("loop/submit", LoopForm::Calls),
        ("loop/two-streams", LoopForm::TwoStreams),
    ];
    forms.into_iter().take(if route.crosses() { 3 } else { 2 }).map(move |(series, form)| Case {
        name: format!("{}/{series}/{pieces}", route.name),
        work: Workload::Loop { route, pieces, form },
    })
}

fn graph(route: Route, size: Option<usize>) -> Case {
    let pieces = PieceSpec::new(1000, size.unwrap_or(4 * K));
    let name = format!("{}/graph/{pieces}", route.name);
    Case { name, work: Workload::Graph { route, pieces } }
}

fn alignments(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    sizes(size, &[64 * K, 128 * K, 256 * K, 512 * K, M]).into_iter().map(move |len| Case {
        name: format!("{}/alignment/{}", route.name, short(len)),
        work: Workload::Alignment { route, len },
    })
}

fn descriptors(size: Option<usize>) -> Vec<Case> {
    let case = |series, block, alone| {
        let pieces = PieceSpec::new(count(block), block);
        let name = format!("{series}/{pieces}");
        Case { name, work: Workload::Descriptors { pieces, alone } }
    };
    let wall = sizes(size, &[K, 4 * K, 32 * K]).into_iter().map(|block| case("desc", block, false));
    let alone = sizes(size, &[4 * K]).into_iter().map(|block| case("desc/device", block, true));
    wall.chain(alone).collect()
}

fn fills(size: Option<usize>) -> impl Iterator<Item = Case> {
    let pieces = PieceSpec::new(100, size.unwrap_or(1000));
    let many = Case { name: format!("fills/{pieces}"), work: Workload::Fills { pieces } };
    let one = [("fill", false), ("fill/words", true)].into_iter().flat_map(move |(series, words)| {
        let case =
            move |len| Case { name: format!("{series}/{}", short(len)), work: Workload::Fill { len, words } };
        sizes(size, &[4 * K, 64 * K, M, 16 * M, 512 * M]).into_iter().map(case)
    });
    one.chain([many])
}

/// Memory that is allocated or page-locked and given back.
fn allocations(size: Option<usize>) -> impl Iterator<Item = Case> {
    let device = [(1, M), (100, 4 * M)].into_iter().map(move |(count, len)| {
        let pieces = PieceSpec::new(count, size.unwrap_or(len));
        Case { name: format!("malloc/{pieces}"), work: Workload::Allocations { pieces } }
    });
    let locked =
        [("lock/alloc", false), ("lock/register", true)].into_iter().map(move |(series, is_registered)| {
            let len = size.unwrap_or(1024 * M);
            Case { name: format!("{series}/{}", short(len)), work: Workload::Locked { len, is_registered } }
        });
    device.chain(locked)
}

fn calls(len: usize) -> impl Iterator<Item = Case> {
    let size = short(len);
    let case = move |(name, call)| Case { name, work: Workload::Call { call, len } };
    [
        (format!("submit/{size}"), CallCost::Submit),
        (format!("roundtrip/{size}"), CallCost::RoundTrip),
        (format!("roundtrip/{size}/after-10ms"), CallCost::AfterQuiet),
        ("event/latency".to_owned(), CallCost::Event),
        (format!("join/{size}"), CallCost::Join),
        (format!("function/{size}"), CallCost::HostFunction),
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
            move |count| Case { name: format!("{name}/{count}"), work: Workload::Growth { growth, count } };
        counts.iter().copied().map(case)
    })
}

fn used(size: Option<usize>) -> impl Iterator<Item = Case> {
    let case = |name: String, using, len| Case { name, work: Workload::Used { using, len } };
    let copies = [("write", BufferUse::Write), ("read", BufferUse::Read)].into_iter().flat_map(
        move |(name, using)| {
            let sizes = sizes(size, &[64 * K, M]).into_iter();
            sizes.map(move |len| case(format!("used/{name}/{}", short(len)), using, len))
        },
    );
    copies.chain([case("compute".to_owned(), BufferUse::Compute, 1)])
}

/// How many pieces of this length a batch has by default: 64 to 4096, and at most 128 MiB where that allows
/// 64.
fn count(block: usize) -> usize {
    (128 * M / block).clamp(64, 4096)
}

/// The cases that the arguments select. An argument is the whole name of a case, else a prefix that ends at a
/// slash, else any prefix, else the name of a listed case with another size; or [`CORNERS`].
pub fn select(cases: Vec<Case>, wanted: &[String]) -> Result<Vec<Case>> {
    if wanted.is_empty() {
        return Ok(cases);
    }
    let (mut chosen, mut others) = (vec![false; cases.len()], Vec::new());
    let named = |want: &'_ String| match want == CORNERS {
        true => CORNER_CASES.map(str::to_owned).to_vec(),
        false => vec![want.clone()],
    };
    for want in &wanted.iter().flat_map(named).collect::<Vec<_>>() {
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

/// A case that is like the listed ones of its series but for its size.
fn of_another_size(cases: &[Case], name: &str) -> Option<Case> {
    let (series, size) = name.rsplit_once('/')?;
    let like = cases.iter().find(|case| case.series() == series)?;
    Some(Case { name: name.to_owned(), work: like.work.resized(size)? })
}

impl Case {
    /// The name of the series: all of the name but its last part.
    pub fn series(&self) -> &str {
        self.name.rsplit_once('/').map_or(&self.name, |(series, _)| series)
    }

    /// By how much the number of samples is multiplied: a sample of a single round trip is noisy.
    pub fn sample_factor(&self) -> usize {
        if matches!(self.work, Workload::Call { call: CallCost::AfterQuiet, .. }) { 4 } else { 1 }
    }
}

fn sizes<T: Clone>(given: Option<T>, usual: &[T]) -> Vec<T> {
    given.map_or_else(|| usual.to_vec(), |size| vec![size])
}

#[cfg(test)]
mod tests {
    use super::{CORNER_CASES, CORNERS, all, select};

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
            (
                &["h2d/loop/"],
                &["h2d/loop/1000x4K", "h2d/loop/submit/1000x4K", "h2d/loop/two-streams/1000x4K"],
            ),
            (&["d2h/threads/4x16x1K"], &["d2h/threads/4x16x1K"]),
            (&["h2d/batch/300x1-8K"], &["h2d/batch/300x1-8K"]),
            (&["h2d-pageable/2d/w100p257:300"], &["h2d-pageable/2d/w100p257:300"]),
            (&["beside/d2h/batches/64x1K"], &["beside/d2h/batches/64x1K"]),
            (&["malloc/7x1K", "lock/register/4G"], &["malloc/7x1K", "lock/register/4G"]),
            (&["h2d/threads/16x1K"], &[]),
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
    fn every_corner_is_a_case() {
        let (mut found, mut wanted) = (names(None, &[CORNERS]), CORNER_CASES.map(str::to_owned).to_vec());
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
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
            let heading = format!("{}: {}", case.series(), case.work.about());
            assert!(heading.chars().count() <= 100, "{heading}");
        }
    }
}
