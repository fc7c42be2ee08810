//! Inline SVG as text: the few elements that plots are made of. Colours and fonts are classes of the style
//! sheet; all text is escaped here.

use std::fmt::Write;

use ferry_watch::page_style::html;

/// A drawing that is being made.
pub struct Drawing {
    text: String,
}

impl Drawing {
    /// An empty drawing of that size, with a label for people who do not see it.
    pub fn new(width: f64, height: f64, label: &str) -> Drawing {
        let label = html(label);
        let text = format!("<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\">\n");
        Drawing { text }
    }

    /// A line of text, at its base line.
    pub fn text(&mut self, class: &str, (x, y): (f64, f64), words: &str) {
        let words = html(words);
        self.add(format_args!("<text class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\">{words}</text>"));
    }

    /// A straight line.
    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.2}\" y1=\"{y1:.2}\" x2=\"{x2:.2}\" y2=\"{y2:.2}\"/>"
        ));
    }

    /// A rectangle with rounded corners, and what is said of it.
    pub fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64), title: &str) {
        let title = html(title);
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.2}\" y=\"{y:.2}\" width=\"{width:.2}\" height=\"{height:.2}\" \
             rx=\"2\"><title>{title}</title></rect>"
        ));
    }

    /// Straight lines from point to point.
    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = list(points);
        self.add(format_args!("<polyline class=\"{class}\" points=\"{points}\"/>"));
    }

    /// A filled area.
    pub fn polygon(&mut self, class: &str, points: &[(f64, f64)]) {
        let points = list(points);
        self.add(format_args!("<polygon class=\"{class}\" points=\"{points}\"/>"));
    }

    /// A dot, and what is said of it.
    pub fn dot(&mut self, class: &str, (x, y): (f64, f64), title: &str) {
        let title = html(title);
        self.add(format_args!(
            "<circle class=\"{class}\" cx=\"{x:.2}\" cy=\"{y:.2}\" r=\"3.5\"><title>{title}</title></circle>"
        ));
    }

    /// The whole drawing.
    pub fn finish(mut self) -> String {
        self.text += "</svg>\n";
        self.text
    }

    fn add(&mut self, element: std::fmt::Arguments) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{element}");
    }
}

fn list(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{x:.2},{y:.2}")).collect::<Vec<_>>().join(" ")
}
