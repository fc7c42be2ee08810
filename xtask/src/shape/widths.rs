//! Lines of at most 110 columns, comments among them: rustfmt leaves long comments and strings alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::offence::{Offence, unit_of};

const COLUMNS: usize = 110;

/// Where sources of ours lie.
const FOLDERS: [&str; 5] = ["crates", "examples", "include", "tests", "xtask"];

const ENDINGS: [&str; 6] = ["rs", "c", "h", "cpp", "cu", "cuh"];

/// The longer lines of each crate.
pub fn check(top: &Path) -> Result<Vec<Offence>, String> {
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in FOLDERS {
        for file in sources(top, Path::new(folder))? {
            let text = fs::read_to_string(top.join(&file)).map_err(|e| format!("{}: {e}", file.display()))?;
            units.entry(unit_of(&file)).or_default().extend(wide_lines(&file, &text));
        }
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

/// The sources in a folder, those that were built or fetched left out.
fn sources(top: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(top.join(folder)).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    let mut found = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let is_hidden = name.to_string_lossy().starts_with('.');
        if top.join(&path).is_dir() && name != "target" && !is_hidden {
            found.extend(sources(top, &path)?);
        } else if path.extension().is_some_and(|end| ENDINGS.iter().any(|known| end == *known)) {
            found.push(path);
        }
    }
    Ok(found)
}
