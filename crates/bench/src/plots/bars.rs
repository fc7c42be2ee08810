//! A series as bars: a group for each case, a bar for each contender, a whisker from the 10th to the 90th
//! percentile, and the median and the ratio as text.

use ferry_terminal::{Colour, figures};

use crate::report::{Row, last_part};
use crate::sampling::Figures;

use super::drawing::Drawing;
use super::scale::LinearScale;
use super::series::{Palette, Series};

// Columns of the drawing: the case ends, the contender begins, bars lie between two places, medians and
// ratios end.
const WIDTH: f64 = 600.0;
const CONTENDER: f64 = 92.0;
const PLOT: (f64, f64) = (164.0, 480.0);
const MEDIAN_END: f64 = 538.0;
const RATIO_END: f64 = 596.0;
// Heights: above the bars, of a bar with its gap, between groups, of the axis.
const HEAD: f64 = 20.0;
const BAR: f64 = 18.0;
const BAR_GAP: f64 = 4.0;
const GROUP_GAP: f64 = 8.0;
const AXIS: f64 = 24.0;
/// Letters of a name that fit into its column.
const NAME_LETTERS: usize = 14;

/// The plot.
pub fn draw(series: &Series, palette: &Palette) -> String {
    let bars: usize = series.measured().map(|(_, figures)| figures.len()).sum();
    let groups = series.measured().count();
    let floor = HEAD + bars as f64 * BAR + groups.saturating_sub(1) as f64 * GROUP_GAP;
    let label = format!("{}: bars of medians in {}", series.rows[0].series, series.unit());
    let mut drawing = Drawing::new(WIDTH, floor + AXIS, &label);
    let values = series
        .measured()
        .flat_map(|(row, all)| all.iter().map(|one| (row.value(one.median), row.range(one).1)));
    let scale = LinearScale::new(values, PLOT, 5);
    axis(&mut drawing, &scale, floor, series);
    let mut top = HEAD;
    for (row, all) in series.measured() {
        drawing.text("case", (0.0, top + BAR * 0.72), &shortened(last_part(&row.name)));
        for one in all {
            bar(&mut drawing, &scale, top, (row, one, &all[0]), palette);
            top += BAR;
        }
        top += GROUP_GAP;
    }
    drawing.finish()
}

fn axis(drawing: &mut Drawing, scale: &LinearScale, floor: f64, series: &Series) {
    for (value, text) in scale.ticks() {
        let x = scale.place(value);
        drawing.line("grid", (x, HEAD - 4.0), (x, floor + 2.0));
        drawing.text("tick middle", (x, floor + 15.0), &text);
    }
    drawing.text("tick end", (MEDIAN_END, 11.0), series.unit());
    if series.contenders().len() > 1 {
        drawing.text("tick end", (RATIO_END, 11.0), series.ratio_word());
    }
}

/// One bar; `ours` is what its ratio is to.
fn bar(
    drawing: &mut Drawing,
    scale: &LinearScale,
    top: f64,
    (row, one, ours): (&Row, &Figures, &Figures),
    palette: &Palette,
) {
    let (value, (low, high)) = (row.value(one.median), row.range(one));
    let (height, middle) = (BAR - BAR_GAP, top + (BAR - BAR_GAP) / 2.0);
    let is_ours = std::ptr::eq(one, ours);
    let base = middle + 4.0;
    drawing.text(if is_ours { "ours" } else { "peer" }, (CONTENDER, base), one.name);
    let width = (scale.place(value) - PLOT.0).max(0.5);
    let class = format!("bar c{}", palette.colour(one.name));
    drawing.rect(&class, (PLOT.0, top), (width, height), &row.said_of(one));
    let (from, to) = (scale.place(low), scale.place(high));
    drawing.line("whisker", (from, middle), (to, middle));
    for (at, is_cut) in [(from, scale.cuts(low)), (to, scale.cuts(high))] {
        match is_cut {
            true => drawing.text("tick", (at + 1.0, base), "›"),
            false => drawing.line("whisker", (at, middle - 3.0), (at, middle + 3.0)),
        }
    }
    drawing.text(if is_ours { "ours end" } else { "peer end" }, (MEDIAN_END, base), &figures(value));
    if !is_ours {
        let (ratio, verdict) = row.ratio_to(one, ours);
        let class = if matches!(verdict, Colour::Bad) { "bad end" } else { "peer end" };
        drawing.text(class, (RATIO_END, base), &format!("{}x", figures(ratio)));
    }
}

/// A name that fits into its column.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_LETTERS) {
        Some((at, _)) if name[at..].chars().count() > 1 => format!("{}…", &name[..at]),
        _ => name.to_owned(),
    }
}
