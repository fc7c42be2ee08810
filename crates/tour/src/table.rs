//! Prints the tour as a table of at most 100 columns, a row when its part is done.

use std::time::Duration;

use ferry_terminal::{Colour, Terminal, bytes, figures, tell};

use crate::part::{PartOutcome, TourPart};
use crate::proof::{Proof, Speed};

const WHAT: usize = 45;
const PROVES: usize = 18;
const VERIFIED: usize = 9;
const SPEED: usize = 10;
const WIDTH: usize = 99;

/// The table and its running totals.
pub struct ResultTable {
    terminal: Terminal,
    group: &'static str,
    failed: Vec<String>,
    ok: usize,
    not_yet: usize,
    not_here: usize,
    verified: usize,
}

impl ResultTable {
    /// An empty table.
    pub fn new(terminal: Terminal) -> ResultTable {
        ResultTable { terminal, group: "", failed: Vec::new(), ok: 0, not_yet: 0, not_here: 0, verified: 0 }
    }

    /// The line on top, and the names of the columns.
    pub fn title(&self, text: &str) {
        self.terminal.say(&self.terminal.paint(Colour::Heading, text));
        self.terminal.say("");
        let columns = cells("what was done", "what it proved", "verified", "how fast");
        self.terminal.say(&self.terminal.paint(Colour::Quiet, &columns));
    }

    /// The heading of a group.
    pub fn group(&mut self, name: &'static str, about: &str) {
        self.group = name;
        let (name, about) =
            (self.terminal.paint(Colour::Heading, name), self.terminal.paint(Colour::Quiet, about));
        self.terminal.say("");
        self.terminal.say(&format!("{name}: {about}"));
    }

    /// Shows on a terminal which part is running.
    pub fn begin(&self, part: &TourPart) {
        self.terminal.show(&format!("  {} ...", part.what));
    }

    /// The row of a part, and under it what there is to explain.
    pub fn end(&mut self, part: &TourPart, outcome: PartOutcome) {
        match outcome {
            PartOutcome::Ok(proof) => {
                self.ok += 1;
                self.verified += proof.verified;
                self.row(part, Some(&proof), Colour::Good, "ok");
            }
            PartOutcome::NotYet(why) => {
                self.not_yet += 1;
                self.row(part, None, Colour::Unsure, "not yet");
                self.note(&why);
            }
            PartOutcome::NotHere(why) => {
                self.not_here += 1;
                self.row(part, None, Colour::Unsure, "not here");
                self.note(&why);
            }
            PartOutcome::Failed(error) => {
                self.row(part, None, Colour::Bad, "FAIL");
                self.note(&error.to_string());
                self.failed.push(format!("{}, {}: {error}", self.group, part.what));
            }
        }
    }

    /// The totals. The first failure is repeated on standard error. True if there was none.
    pub fn finish(&self, time: Duration) -> bool {
        let total = self.ok + self.not_yet + self.not_here + self.failed.len();
        let colour = if self.failed.is_empty() { Colour::Good } else { Colour::Bad };
        let mut line = self.terminal.paint(colour, &format!("{} of {total} parts ok", self.ok));
        for (count, word) in
            [(self.failed.len(), "failed"), (self.not_yet, "not yet"), (self.not_here, "not here")]
        {
            if count > 0 {
                line += &format!(", {count} {word}");
            }
        }
        let time = figures(time.as_secs_f64());
        self.terminal.say("");
        self.terminal.say(&format!("{line}; {} verified; {time} s", bytes(self.verified)));
        if let [first, others @ ..] = &self.failed[..] {
            let more =
                if others.is_empty() { String::new() } else { format!(" (and {} more)", others.len()) };
            tell(&format!("ferry: tour failed: {first}{more}\n"));
        }
        self.failed.is_empty()
    }

    fn row(&self, part: &TourPart, proof: Option<&Proof>, colour: Colour, result: &str) {
        let verified = proof.filter(|proof| proof.verified > 0);
        let verified = verified.map_or("-".to_owned(), |proof| bytes(proof.verified));
        let speed = proof.and_then(|proof| proof.speed.as_ref()).map_or("-".to_owned(), Speed::text);
        let (what, proves) = (wrap(part.what, WHAT), wrap(part.proves, PROVES));
        let proves = if part.proves.is_empty() { vec!["-".to_owned()] } else { proves };
        let result = self.terminal.paint(colour, result);
        self.terminal.say(&format!("{}  {result}", cells(&what[0], &proves[0], &verified, &speed)));
        for line in 1..what.len().max(proves.len()) {
            let at = |lines: &[String]| lines.get(line).cloned().unwrap_or_default();
            self.terminal.say(cells(&at(&what), &at(&proves), "", "").trim_end());
        }
    }

    fn note(&self, text: &str) {
        for line in text.lines().flat_map(|line| wrap(line, WIDTH - 6)) {
            self.terminal.say(&format!("      {line}"));
        }
    }
}

fn cells(what: &str, proves: &str, verified: &str, speed: &str) -> String {
    format!("  {what:<WHAT$}  {proves:<PROVES$}  {verified:>VERIFIED$}  {speed:>SPEED$}")
}

/// Breaks at blanks so that no line is wider than `width`, unless a single word is.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        match line.len() {
            0 => line.push_str(word),
            used if used + 1 + word.len() <= width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_in_a_hundred_columns() {
        let row = cells(&"w".repeat(WHAT), &"R".repeat(PROVES), "1023 MiB", "12.3 us/op") + "  not here";
        assert!(row.len() <= 100, "{} columns", row.len());
    }

    #[test]
    fn lines_break_at_blanks_only() {
        for (text, want) in
            [("", vec![""]), ("R1 R2 R3", vec!["R1 R2", "R3"]), ("indivisible R1", vec!["indivisible", "R1"])]
        {
            assert_eq!(wrap(text, 5), want, "{text:?}");
        }
    }
}
