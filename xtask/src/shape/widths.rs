//! Lines of at most 110 columns, comments among them: rustfmt leaves long comments and strings alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::files::Files;
use super::offence::{Offence, unit_of};

const COLUMNS: usize = 110;

const ENDINGS: [&str; 6] = ["rs", "c", "h", "cpp", "cu", "cuh"];

/// The longer lines of each crate.
pub fn check(files: &Files) -> Result<Vec<Offence>, String> {
    let is_source =
        |file: &&PathBuf| file.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known));
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.all().iter().filter(is_source) {
        units.entry(unit_of(file)).or_default().extend(wide_lines(file, &files.text(file)?));
    }
    units.retain(|_, lines| !lines.is_empty());
    let offence = |(unit, lines): (String, Vec<String>)| {
        let text = format!("lines over {COLUMNS} columns in {unit}:{}", lines.concat());
        Offence::new("width", unit, lines.len(), text)
    };
    Ok(units.into_iter().map(offence).collect())
}

/// The lines of a file that are too long, as text for people.
pub fn wide_lines(file: &Path, text: &str) -> Vec<String> {
    let columns = |line: &str| line.chars().count();
    let lines = text.lines().zip(1..).filter(|(line, _)| columns(line) > COLUMNS && !is_exempt(line));
    lines.map(|(line, at)| format!("\n    {}:{at}: {}", file.display(), columns(line))).collect()
}

/// Rows of tables in comments and addresses cannot be wrapped, and strings without a blank neither.
fn is_exempt(line: &str) -> bool {
    let is_row = ["//! |", "/// |"].iter().any(|row| line.trim_start().starts_with(row));
    is_row || line.split_whitespace().any(|word| word.chars().count() > COLUMNS / 2)
}
