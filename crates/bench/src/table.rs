//! Prints the results as a table of at most 100 columns, a row when its case is done.

use ferry_abi::Error;
use ferry_terminal::{Colour, Terminal, figures};

use crate::report::{Row, last_part};
use crate::sampling::Figures;

// Widths of the columns: the case, Ferry's median, its percentiles, a peer's median, the ratio.
const NAME: usize = 12;
const OURS: usize = 10;
const SPREAD: usize = 15;
const PEER: usize = 10;
const RATIO: usize = 8;

/// The table, and the series that it is in.
pub struct ResultTable {
    terminal: Terminal,
    series: String,
    is_headed: bool,
    /// The medians of every contender of the series, case by case.
    curves: Vec<(&'static str, Vec<f64>)>,
}

impl ResultTable {
    /// An empty table.
    pub fn new(terminal: Terminal) -> ResultTable {
        ResultTable { terminal, series: String::new(), is_headed: false, curves: Vec::new() }
    }

    /// What the numbers mean.
    pub fn title(&self, lines: &[String]) {
        for (index, line) in lines.iter().enumerate() {
            let colour = if index == 0 { Colour::Heading } else { Colour::Quiet };
            self.terminal.say(&self.terminal.paint(colour, line));
        }
    }

    /// The row of a case.
    pub fn row(&mut self, row: &Row) {
        if row.series != self.series {
            self.begin(row);
        }
        match &row.outcome {
            Ok(figures) => {
                if !self.is_headed {
                    self.head(row, figures);
                }
                self.measured(row, figures);
            }
            Err(error) => {
                let missing = matches!(error, Error::NotHere(_));
                let (colour, word) =
                    if missing { (Colour::Unsure, "not here") } else { (Colour::Bad, "FAILED") };
                let word = self.terminal.paint(colour, word);
                self.terminal.say(&format!("{:<NAME$} {word}: {error}", last_part(&row.name)));
            }
        }
        if let Some(note) = &row.note {
            self.terminal.say(&self.terminal.paint(Colour::Quiet, &format!("{:NAME$} {note}", "")));
        }
    }

    /// Ends a series: a curve of each contender's medians.
    pub fn end(&mut self) {
        for (name, curve) in std::mem::take(&mut self.curves) {
            if curve.len() >= 3 {
                let line = format!("{:>NAME$} {}", name, spark(&curve));
                self.terminal.say(&self.terminal.paint(Colour::Quiet, &line));
            }
        }
    }

    fn begin(&mut self, row: &Row) {
        self.end();
        self.series.clone_from(&row.series);
        let (name, about) = (
            self.terminal.paint(Colour::Heading, &row.series),
            self.terminal.paint(Colour::Quiet, &row.about),
        );
        self.terminal.say("");
        self.terminal.say(&format!("{name}: {about}"));
        self.is_headed = false;
    }

    /// The names of the columns, above the first row that has any.
    fn head(&mut self, row: &Row, figures: &[Figures]) {
        self.is_headed = true;
        // `ferry TFLOP/s` would be wider than the column.
        let ours = format!("ferry {}", row.unit("us"));
        let ours = if ours.len() > OURS { row.unit("us").to_owned() } else { ours };
        let mut head = format!("{:<NAME$} {ours:>OURS$} {:>SPREAD$}", "", "10%..90%");
        for peer in &figures[1..] {
            let ratio = if row.growth { "cost" } else { "ratio" };
            head += &format!(" {:>PEER$} {ratio:>RATIO$}", peer.name);
        }
        self.terminal.say(&self.terminal.paint(Colour::Quiet, head.trim_end()));
    }

    fn measured(&mut self, row: &Row, all: &[Figures]) {
        let ours = &all[0];
        let (low, high) = row.range(ours);
        let spread = format!("{}..{}", figures(low), figures(high));
        let mut line = format!(
            "{:<NAME$} {:>OURS$} {spread:>SPREAD$}",
            last_part(&row.name),
            figures(row.value(ours.median))
        );
        for peer in &all[1..] {
            let (ratio, verdict) = row.ratio_to(peer, ours);
            let text = format!("{:>RATIO$}", format!("{}x", figures(ratio)));
            let text = self.terminal.paint(verdict, &text);
            line += &format!(" {:>PEER$} {text}", figures(row.value(peer.median)));
        }
        self.terminal.say(&line);
        for (index, one) in all.iter().enumerate() {
            if self.curves.len() <= index {
                self.curves.push((one.name, Vec::new()));
            }
            self.curves[index].1.push(row.value(one.median));
        }
    }
}

/// A sparkline, from zero to the highest value.
fn spark(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    values.iter().map(|value| BARS[((value / most * 8.0) as usize).min(7)]).collect()
}

#[cfg(test)]
mod tests {
    use super::spark;

    #[test]
    fn a_curve_reaches_from_low_to_high() {
        for (values, want) in [(&[1.0, 4.0, 8.0][..], "▂▅█"), (&[0.0, 0.0], "▁▁"), (&[5.0], "█")]
        {
            assert_eq!(spark(values), want);
        }
    }
}
