//! The list of cases: names, what they mean, and which ones an argument selects.

use super::block::{D2D, D2H, D2H_PAGEABLE, H2D, H2D_PAGEABLE, P2P, Route};
use super::calls::Call;
use super::growth::Growth;
use crate::error::{Error, Result};

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
    /// `count` pieces of `block` bytes in one call.
    Batch { route: Route, count: usize, block: usize },
    /// The same within a device, a call with a descriptor for each piece.
    Descriptors { count: usize, block: usize },
    /// One run of bytes, from and to many places in a page, of which the worst is shown.
    Alignment { route: Route, len: usize },
    /// What a copy costs apart from its bytes.
    Call { call: Call, len: usize },
    /// The same with many of something.
    Growth { growth: Growth, count: usize },
}

/// Rows that a 2-D copy may have, documented.
const MOST_ROWS: usize = 5 << 20;

/// All cases, in the order in which they run. `size` takes the place of the usual sizes.
pub fn all(size: Option<usize>) -> Vec<Case> {
    let mut cases = Vec::new();
    for route in [H2D, D2H, D2D, P2P, H2D_PAGEABLE, D2H_PAGEABLE] {
        for len in sizes(size, &[4 << 10, 64 << 10, 1 << 20, 16 << 20, 128 << 20, 512 << 20]) {
            let name = format!("{}/contiguous/{}", route.name, short(len));
            cases.push(Case { name, work: Work::Contiguous { route, len } });
        }
        // Documented: matrices go within a device as well, but not from one to another.
        if route.name == P2P.name {
            continue;
        }
        for width in [16, 64, 256, 1 << 10, 4 << 10] {
            let name = format!("{}/2d/w{}", route.name, short(width));
            let len = size.unwrap_or(64 << 20).clamp(width, width * MOST_ROWS);
            cases.push(Case { name, work: Work::Matrix { route, width, len } });
        }
        // Documented: a batch that stays in a device is refused. There, pieces are descriptors' business (`desc`).
        if route.name == D2D.name {
            continue;
        }
        for block in sizes(size, &[1 << 10, 4 << 10, 32 << 10]) {
            let count = 4096;
            let name = format!("{}/batch/{count}x{}", route.name, short(block));
            cases.push(Case { name, work: Work::Batch { route, count, block } });
        }
        if [H2D, D2H].iter().any(|other| other.name == route.name) {
            for len in sizes(size, &[64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20]) {
                let name = format!("{}/alignment/{}", route.name, short(len));
                cases.push(Case { name, work: Work::Alignment { route, len } });
            }
        }
    }
    for block in sizes(size, &[1 << 10, 4 << 10, 32 << 10]) {
        let count = 4096;
        let name = format!("desc/{count}x{}", short(block));
        cases.push(Case { name, work: Work::Descriptors { count, block } });
    }
    cases.extend(calls(size.unwrap_or(64)));
    cases.extend(growth());
    cases
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

/// The cases that an argument names: one by its whole name, else all that begin with it, at a slash if there are any.
pub fn select(cases: Vec<Case>, wanted: &[String]) -> Result<Vec<Case>> {
    if wanted.is_empty() {
        return Ok(cases);
    }
    let mut chosen = vec![false; cases.len()];
    for want in wanted {
        let want = want.trim_end_matches('/');
        let rules: [&dyn Fn(&str) -> bool; 3] = [
            &|name| name == want,
            &|name| name.strip_prefix(want).is_some_and(|rest| rest.starts_with('/')),
            &|name| !want.is_empty() && name.starts_with(want),
        ];
        let rule = rules.into_iter().find(|rule| cases.iter().any(|case| rule(&case.name)));
        let Some(rule) = rule else {
            return Err(Error::Setup(format!("no case begins with {want:?}; ferry bench -l lists them")));
        };
        for (case, chosen) in cases.iter().zip(&mut chosen) {
            *chosen |= rule(&case.name);
        }
    }
    Ok(cases.into_iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(case, _)| case).collect())
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
            Work::Batch { route, .. } => {
                format!("{}, scattered pieces, one batch and synchronise", route.about)
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

fn sizes(given: Option<usize>, usual: &[usize]) -> Vec<usize> {
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
            (&["h2d/batch"], &["h2d/batch/4096x1K", "h2d/batch/4096x4K", "h2d/batch/4096x32K"]),
            (&["h2d/batch/"], &["h2d/batch/4096x1K", "h2d/batch/4096x4K", "h2d/batch/4096x32K"]),
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
        assert_eq!(names(Some(2 << 20), &["d2h/batch"]), ["d2h/batch/4096x2M"]);
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
