//! A series as curves over a logarithmic axis: a line for each contender through its medians, and a band from
//! the 10th to the 90th percentile.

use crate::report::{Row, last_part};
use crate::sampling::Figures;
use crate::work::Sweep;

use super::drawing::Drawing;
use super::scale::{LinearScale, LogScale};
use super::series::{Palette, Series};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 280.0;
/// Where the plot lies: left and right, bottom and top.
const ACROSS: (f64, f64) = (44.0, 520.0);
const UP: (f64, f64) = (236.0, 22.0);
/// The distance of the names of two curves.
const NAME_HEIGHT: f64 = 14.0;
/// The width of a letter of a label, and the gap between two labels.
const LETTER: f64 = 6.5;
const LABEL_GAP: f64 = 5.0;

/// The plot.
pub fn draw(series: &Series, palette: &Palette) -> String {
    let points = series.points();
    let label = format!("{}: curves of medians in {}", series.rows[0].series, series.unit());
    let mut drawing = Drawing::new(WIDTH, HEIGHT, &label);
    let values = points
        .iter()
        .flat_map(|(_, row, all)| all.iter().map(|one| (row.value(one.median), row.range(one).1)));
    let up = LinearScale::new(values, UP, 5);
    let across = LogScale::new(points.iter().map(|(sweep, ..)| sweep.value() as f64), ACROSS);
    axes(&mut drawing, &points, &up, &across);
    drawing.text("tick", (0.0, 10.0), series.unit());
    let mut names = Vec::new();
    // Ferry's is drawn last, above the others.
    for name in series.contenders().into_iter().rev() {
        let curve: Vec<_> = points
            .iter()
            .filter_map(|(sweep, row, all)| Some((*sweep, *row, all.iter().find(|one| one.name == name)?)))
            .collect();
        let colour = palette.colour(name);
        let end = draw_curve(&mut drawing, &curve, &up, &across, colour);
        names.push((end, name, colour));
    }
    name_curves(&mut drawing, names);
    drawing.finish()
}

fn axes(drawing: &mut Drawing, points: &[(Sweep, &Row, &[Figures])], up: &LinearScale, across: &LogScale) {
    for (value, text) in up.ticks() {
        let y = up.place(value);
        drawing.line("grid", (ACROSS.0, y), (ACROSS.1, y));
        drawing.text("tick end", (ACROSS.0 - 8.0, y + 4.0), &text);
    }
    let mut free_from = f64::MIN;
    for (sweep, row, _) in points {
        let x = across.place(sweep.value() as f64);
        drawing.line("grid", (x, UP.0), (x, UP.0 + 4.0));
        let label = last_part(&row.name);
        let half = label.chars().count() as f64 * LETTER / 2.0;
        if x - half >= free_from {
            drawing.text("tick middle", (x, UP.0 + 17.0), label);
            free_from = x + half + LABEL_GAP;
        }
    }
    if let Some((sweep, ..)) = points.first() {
        drawing.text("tick middle", ((ACROSS.0 + ACROSS.1) / 2.0, HEIGHT - 6.0), sweep.meaning());
    }
}

/// Draws the curve of one contender, and returns the height at which it ends.
fn draw_curve(
    drawing: &mut Drawing,
    curve: &[(Sweep, &Row, &Figures)],
    up: &LinearScale,
    across: &LogScale,
    colour: usize,
) -> f64 {
    let place = |sweep: &Sweep, value: f64| (across.place(sweep.value() as f64), up.place(value));
    let low = curve.iter().map(|(sweep, row, one)| place(sweep, row.range(one).0));
    let high = curve.iter().rev().map(|(sweep, row, one)| place(sweep, row.range(one).1));
    drawing.polygon(&format!("band c{colour}"), &low.chain(high).collect::<Vec<_>>());
    let medians: Vec<_> = curve.iter().map(|(sweep, row, one)| place(sweep, row.value(one.median))).collect();
    drawing.polyline(&format!("curve c{colour}"), &medians);
    for ((_, row, one), at) in curve.iter().zip(&medians) {
        drawing.dot(&format!("dot c{colour}"), *at, &row.said_of(one));
    }
    medians.last().map_or(UP.0, |(_, y)| *y)
}

/// Writes the names of the contenders beside the ends of their curves, one below the other.
fn name_curves(drawing: &mut Drawing, mut names: Vec<(f64, &str, usize)>) {
    names.sort_by(|one, other| one.0.total_cmp(&other.0));
    // From below upwards, so that the lowest name stays above the axis.
    let mut free_above = UP.0;
    for (end, name, colour) in names.into_iter().rev() {
        let y = end.min(free_above);
        drawing.text(&format!("name c{colour}"), (ACROSS.1 + 9.0, y + 4.0), name);
        free_above = y - NAME_HEIGHT;
    }
}
