//! One line of the report: what was found, how good that is, and what helps.

use ferry_terminal::{Colour, Terminal};

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Good to know; some programs may care.
    Note,
    /// Programs will fail.
    Wrong,
}

/// One line of the report.
pub struct Finding {
    /// How good it is.
    pub severity: Severity,
    /// What was inspected.
    pub about: &'static str,
    /// What was found.
    pub text: String,
    /// What helps; empty where nothing is needed.
    remedy: String,
}

/// As it should be.
pub fn fine(about: &'static str, text: impl Into<String>) -> Finding {
    Finding { severity: Severity::Fine, about, text: text.into(), remedy: String::new() }
}

/// Good to know.
pub fn note(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { severity: Severity::Note, about, text: text.into(), remedy: remedy.into() }
}

/// In the way of programs.
pub fn wrong(about: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { severity: Severity::Wrong, about, text: text.into(), remedy: remedy.into() }
}

impl Finding {
    /// The line of the report, in colours where the terminal has any.
    pub fn line(&self, terminal: &Terminal) -> String {
        let (word, colour) = match self.severity {
            Severity::Fine => ("ok", Colour::Good),
            Severity::Note => ("note", Colour::Unsure),
            Severity::Wrong => ("WRONG", Colour::Bad),
        };
        let arrow = if self.remedy.is_empty() { "" } else { " -> " };
        let word = terminal.paint(colour, &format!("{word:<7}"));
        format!("{word}{:<13}{}{arrow}{}", self.about, self.text.replace('\n', " "), self.remedy)
    }
}
