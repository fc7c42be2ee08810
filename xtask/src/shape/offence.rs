//! What a check has found.

use std::path::Path;

/// One thing that is not as it should be.
pub struct Offence {
    /// The rule that it breaks.
    pub rule: &'static str,
    /// What breaks it, in words that do not change with every edit.
    pub subject: String,
    /// How badly: the methods of a trait, the modules of a cycle.
    pub count: usize,
    /// Told to people, with file and line.
    pub text: String,
}

impl Offence {
    /// An offence of one rule.
    pub fn new(rule: &'static str, subject: String, count: usize, text: String) -> Offence {
        Offence { rule, subject, count, text }
    }

    /// What the list of known offences calls it.
    pub fn key(&self) -> (String, String) {
        (self.rule.to_owned(), self.subject.clone())
    }
}

/// What a file counts as when names are compared: its package, or the folder of a backend.
pub fn unit_of(file: &Path) -> String {
    let words: Vec<_> = file.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["crates", "backends", "src", side @ ("host" | "cuda"), ..] => (*side).to_owned(),
        ["crates", name, ..] | [name, ..] => (*name).to_owned(),
        [] => String::new(),
    }
}
