//! The list of cases: their names, and which ones an argument selects.

use ferry_abi::{Error, Result};

use crate::route::{D2D, D2H, D2H_PAGEABLE, H2D, H2D_PAGEABLE, P2P, Route};
use crate::work::{BufferUse, CallCost, Growth, MATRIX_BYTES, Workload};

/// One measurement, which is one row of the table.
pub struct Case {
    /// The name; its parts are divided by slashes, from the general to the particular.
    pub name: String,
    /// What is measured.
    pub work: Workload,
}

/// Batches that are submitted before one wait.
const QUEUED_PER_WAIT: usize = 8;
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
        // Documented: a batch within a device is refused; scattered copies there are descriptors (`desc`).
        if route.crosses() {
            cases.extend(batches(route, size));
        }
        if route.device == 0 && !route.is_pageable() {
            cases.extend(loops(route, size));
            cases.push(graph(route, size));
        }
        if route.crosses() && !route.is_pageable() {
            cases.extend(alignments(route, size));
        }
    }
    cases.extend(descriptors(size));
    cases.extend(fills(size));
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
        work: Workload::matrix(route, width, size.unwrap_or(MATRIX_BYTES)),
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
    let case = |series, (count, block), queued| Case {
        name: format!("{}/{series}/{count}x{}", route.name, short(block)),
        work: Workload::Batch { route, count, block, queued },
    };
    let one = one.into_iter().map(|pieces| case("batch", pieces, 1));
    one.chain(several.into_iter().map(|pieces| case("batches", pieces, QUEUED_PER_WAIT))).collect()
}

fn loops(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    let (count, block) = (1000, size.unwrap_or(4 * K));
    [("loop", false), ("loop/submit", true)].into_iter().map(move |(series, calls)| Case {
        name: format!("{}/{series}/{count}x{}", route.name, short(block)),
        work: Workload::Loop { route, count, block, calls },
    })
}

fn graph(route: Route, size: Option<usize>) -> Case {
    let (count, block) = (1000, size.unwrap_or(4 * K));
    let name = format!("{}/graph/{count}x{}", route.name, short(block));
    Case { name, work: Workload::Graph { route, count, block } }
}

fn alignments(route: Route, size: Option<usize>) -> impl Iterator<Item = Case> {
    sizes(size, &[64 * K, 128 * K, 256 * K, 512 * K, M]).into_iter().map(move |len| Case {
        name: format!("{}/alignment/{}", route.name, short(len)),
        work: Workload::Alignment { route, len },
    })
}

fn descriptors(size: Option<usize>) -> Vec<Case> {
    let case = |series, block, alone| {
        let count = count(block);
        let name = format!("{series}/{count}x{}", short(block));
        Case { name, work: Workload::Descriptors { count, block, alone } }
    };
    let wall = sizes(size, &[K, 4 * K, 32 * K]).into_iter().map(|block| case("desc", block, false));
    let alone = sizes(size, &[4 * K]).into_iter().map(|block| case("desc/device", block, true));
    wall.chain(alone).collect()
}

fn fills(size: Option<usize>) -> impl Iterator<Item = Case> {
    [("fill", false), ("fill/words", true)].into_iter().flat_map(move |(series, words)| {
        let case =
            move |len| Case { name: format!("{series}/{}", short(len)), work: Workload::Fill { len, words } };
        sizes(size, &[4 * K, 64 * K, M, 16 * M, 512 * M]).into_iter().map(case)
    })
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
/// slash, else any prefix, else the name of a listed case with another size.
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

/// A size as names and `-b` spell it: `64`, `4K`, `512M`.
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
            let heading = format!("{}: {}", case.series(), case.work.about());
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
