//! The rows of the results in groups: the sections of the page, the series in them, and the colours that
//! contenders have on the whole page.

use crate::report::Row;
use crate::sampling::Figures;
use crate::work::Sweep;

/// The cases of one series, which are drawn as one plot.
pub struct Series<'a> {
    /// The rows, in the order in which they were measured.
    pub rows: Vec<&'a Row>,
}

/// Series that belong together, below one heading.
pub struct PageSection<'a> {
    /// The heading.
    pub title: &'a str,
    /// Its series.
    pub series: Vec<Series<'a>>,
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotKind {
    /// No case of it was measured.
    Nothing,
    /// Bars, one for each contender of each case.
    Bars,
    /// Curves, one for each contender.
    Curves,
}

impl<'a> Series<'a> {
    /// The rows that have figures, with these.
    pub fn measured(&self) -> impl Iterator<Item = (&'a Row, &'a [Figures])> {
        self.rows.iter().copied().filter_map(|row| match &row.outcome {
            Ok(figures) if !figures.is_empty() => Some((row, figures.as_slice())),
            _ => None,
        })
    }

    /// `GB/s`, `TFLOP/s` or `µs`.
    pub fn unit(&self) -> &'static str {
        self.measured().map(|(row, _)| row.unit("µs")).find(|unit| *unit != "µs").unwrap_or("µs")
    }

    /// What the numbers beside a peer's say, as in the table of the terminal.
    pub fn ratio_word(&self) -> &'static str {
        if self.rows.iter().any(|row| row.growth) { "cost" } else { "ratio" }
    }

    /// How it is drawn: as curves if its cases are two points or more of one axis.
    pub fn plot(&self) -> PlotKind {
        let mut values: Vec<usize> =
            self.measured().filter_map(|(row, _)| row.sweep).map(|sweep| sweep.value()).collect();
        let cases = self.measured().count();
        let is_swept = values.len() == cases && values.iter().all(|value| *value > 0);
        values.sort_unstable();
        values.dedup();
        match (cases, is_swept && values.len() >= 2) {
            (0, _) => PlotKind::Nothing,
            (_, true) => PlotKind::Curves,
            (_, false) => PlotKind::Bars,
        }
    }

    /// The rows that have figures by their place on the axis, which is the first value.
    pub fn points(&self) -> Vec<(Sweep, &'a Row, &'a [Figures])> {
        let mut points: Vec<_> =
            self.measured().filter_map(|(row, figures)| Some((row.sweep?, row, figures))).collect();
        points.sort_by_key(|(sweep, ..)| sweep.value());
        points
    }

    /// The names of all contenders, Ferry's first.
    pub fn contenders(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for one in self.measured().flat_map(|(_, figures)| figures) {
            if !names.contains(&one.name) {
                names.push(one.name);
            }
        }
        names
    }
}

/// The rows as sections of series, in the order of their first cases.
pub fn sections(rows: &[Row]) -> Vec<PageSection<'_>> {
    let mut sections: Vec<PageSection> = Vec::new();
    for row in rows {
        let title = title(row);
        let at = sections.iter().position(|section| section.title == title).unwrap_or_else(|| {
            sections.push(PageSection { title, series: Vec::new() });
            sections.len() - 1
        });
        let all = &mut sections[at].series;
        match all.iter_mut().find(|series| series.rows[0].series == row.series) {
            Some(series) => series.rows.push(row),
            None => all.push(Series { rows: vec![row] }),
        }
    }
    sections
}

/// The section of a row.
fn title(row: &Row) -> &str {
    let first = row.series.split('/').next().unwrap_or_default();
    match first {
        _ if row.growth => "Cost beside many of something",
        "h2d" => "Host to device",
        "d2h" => "Device to host",
        "d2d" => "Within a device",
        "p2p" => "Device to device",
        "h2d-pageable" => "Host to device, pageable memory",
        "d2h-pageable" => "Device to host, pageable memory",
        "desc" => "Descriptors",
        "duplex" => "Both ways at once",
        "beside" => "Beside matrix products",
        "fill" | "fills" => "Fills",
        "malloc" | "lock" => "Allocation",
        "submit" | "roundtrip" | "event" | "join" | "function" => "Latency of small copies",
        "recording" => "Copies of a recording",
        other => other,
    }
}

/// Colours of the style sheet for contenders: `c0` is Ferry's, the others are given in the order in which
/// contenders appear.
pub struct Palette {
    names: Vec<&'static str>,
}

/// How many colours the style sheet has beside Ferry's.
const PEER_COLOURS: usize = 7;

impl Palette {
    /// The colours for these rows.
    pub fn new(rows: &[Row]) -> Palette {
        let mut names = Vec::new();
        for figures in rows.iter().filter_map(|row| row.outcome.as_ref().ok()) {
            for one in figures {
                if !names.contains(&one.name) {
                    names.push(one.name);
                }
            }
        }
        Palette { names }
    }

    /// The number of the colour of a contender.
    pub fn colour(&self, name: &str) -> usize {
        match self.names.iter().position(|known| *known == name) {
            None | Some(0) => 0,
            Some(at) => (at - 1) % PEER_COLOURS + 1,
        }
    }
}
