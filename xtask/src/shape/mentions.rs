//! Files that documents and comments name are there. A name may leave out what is clear: `core/plan.rs` is
//! `crates/core/src/plan.rs`, and beside it `plan.rs` is enough. So are the types and constants that comments
//! of kernels name: most of them have a twin in Rust, which the compiler of neither side sees.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files::Files;
use super::offence::{Offence, unit_of};

/// What names of files end with.
const ENDINGS: [&str; 9] = [".rs", ".cu", ".cuh", ".ptx", ".c", ".h", ".py", ".sh", ".md"];

/// Names in backticks that no file has.
pub fn check(files: &Files) -> Result<Vec<Offence>, String> {
    let known: Vec<Vec<String>> = files.all().iter().map(|file| words(&file.to_string_lossy())).collect();
    let definitions = definitions(files)?;
    let mut units: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.all().iter().filter(|file| is_read(file)) {
        let text = files.text(file)?;
        let mut wrong = stale(&text, is_document(file), &known);
        if is_kernel(file) {
            wrong.extend(undefined(&text, &definitions));
        }
        let told = wrong.iter().map(|(line, name)| format!("\n    {}:{line}: {name}", file.display()));
        units.entry(unit_of(file)).or_default().extend(told);
    }
    units.retain(|_, lines| !lines.is_empty());
    let offence = |(unit, lines): (String, Vec<String>)| {
        let text = format!("names of what is not there, in {unit}:{}", lines.concat());
        Offence::new("mention", unit, lines.len(), text)
    };
    Ok(units.into_iter().map(offence).collect())
}

/// The types and constants of all Rust sources and kernels.
fn definitions(files: &Files) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for file in files.all().iter().filter(|file| is_read(file) && !is_document(file)) {
        names.extend(defined(&files.text(file)?));
    }
    Ok(names)
}

/// The words behind `struct`, `enum`, `const` and `#define`.
pub fn defined(text: &str) -> BTreeSet<String> {
    let words: Vec<_> =
        text.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).collect();
    let is_definition = |word| ["struct", "enum", "const", "define"].contains(&word);
    words.windows(2).filter(|two| is_definition(two[0])).map(|two| two[1].to_owned()).collect()
}

/// The lines of a kernel's comments that name a type or a constant which is defined nowhere, and that name.
pub fn undefined(text: &str, definitions: &BTreeSet<String>) -> Vec<(usize, String)> {
    let comments = text.lines().zip(1..).filter(|(line, _)| line.trim_start().starts_with("//"));
    let names =
        comments.flat_map(|(line, at)| line.split('`').skip(1).step_by(2).map(move |name| (at, name)));
    let is_type = |name: &str| name.starts_with(|letter: char| letter.is_ascii_uppercase());
    let names = names.filter(|(_, name)| is_type(name) && !definitions.contains(*name));
    names.map(|(at, name)| (at, name.to_owned())).collect()
}

fn is_kernel(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "cu" || end == "cuh")
}

fn is_document(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "md")
}

/// Documents and Rust sources. What changed in a release is history, and the README's programs are the
/// reader's.
fn is_read(file: &Path) -> bool {
    let is_source = is_kernel(file) || file.extension().is_some_and(|end| end == "rs");
    (is_source || is_document(file)) && ![Path::new("CHANGELOG.md"), Path::new("README.md")].contains(&file)
}

/// The lines that name a file which is not known, and that name.
pub fn stale(text: &str, is_document: bool, known: &[Vec<String>]) -> Vec<(usize, String)> {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    let lines = text.lines().zip(1..).filter(|(line, _)| is_document || is_comment(line));
    let names = lines.flat_map(|(line, at)| line.split('`').skip(1).step_by(2).map(move |name| (at, name)));
    let names = names.filter(|(_, name)| is_name(name) && !is_known(&words(name), known));
    names.map(|(at, name)| (at, name.to_owned())).collect()
}

/// Whether this is the name of one of our files, and no pattern, option or address.
fn is_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    ENDINGS.iter().any(|end| text.ends_with(end))
        && text.chars().all(plain)
        && !text.starts_with(['.', '/'])
        && text.len() > 4
}

fn is_known(name: &[String], known: &[Vec<String>]) -> bool {
    known.iter().any(|file| file.ends_with(name))
}

/// The parts of a path, without those that names leave out.
pub fn words(path: &str) -> Vec<String> {
    path.split('/').filter(|word| !["crates", "src", ".."].contains(word)).map(str::to_owned).collect()
}
