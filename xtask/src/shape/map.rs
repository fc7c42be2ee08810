//! The map in docs/ARCHITECTURE.md: every module of the product with the first sentence that it says of
//! itself.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::offence::{Offence, unit_of};
use super::package::Package;

const FILE: &str = "docs/ARCHITECTURE.md";
const BEGIN: &str = "<!-- modules: `cargo xtask map` writes what follows -->\n";
/// Characters of a line that is read at one glance.
const LONG: usize = 110;
const END: &str = "<!-- end of modules -->\n";

/// Modules that the map lacks, names wrongly, or has and that are gone.
pub fn check(top: &Path, packages: &[Package]) -> Result<Vec<Offence>, String> {
    let text = read(top)?;
    let Some((_, old, _)) = parts(&text) else {
        let text = format!("{FILE} has no map: it belongs between the lines {BEGIN}{END}");
        return Ok(vec![Offence::new("map", FILE.to_owned(), 1, text)]);
    };
    let new = draw(packages);
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (has, wants) = (lines(old), lines(&new));
    let missing = wants.iter().filter(|line| !has.contains(line)).map(|line| format!("\n    lacks {line}"));
    let gone = has.iter().filter(|line| !wants.contains(line)).map(|line| format!("\n    has   {line}"));
    let all: Vec<String> = missing.chain(gone).collect();
    if old == new {
        return Ok(Vec::new());
    }
    let text = format!("{FILE} is not the map of the modules; `cargo xtask map` writes it{}", all.concat());
    Ok(vec![Offence::new("map", FILE.to_owned(), 1, text)])
}

/// Writes the map.
pub fn write(top: &Path, packages: &[Package]) -> Result<(), String> {
    let text = read(top)?;
    let (before, _, after) = parts(&text).ok_or_else(|| format!("{FILE} has no place for a map"))?;
    let text = [before, &draw(packages), after].concat();
    fs::write(top.join(FILE), text).map_err(|e| format!("{FILE}: {e}"))
}

fn read(top: &Path) -> Result<String, String> {
    fs::read_to_string(top.join(FILE)).map_err(|e| format!("{FILE}: {e}"))
}

/// What is before the map, the map and what is behind it.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let start = text.find(BEGIN)? + BEGIN.len();
    let end = start + text[start..].find(END)?;
    Some((&text[..start], &text[start..end], &text[end..]))
}

/// The map as text.
pub fn draw(packages: &[Package]) -> String {
    let mut map = String::new();
    for package in packages {
        let mut unit = String::new();
        let mut files: Vec<usize> = package.files().collect();
        files.sort_by_key(|&at| (unit_of(&package.modules[at].file), order(package, at)));
        for at in files {
            let module = &package.modules[at];
            let folder = folder_of(&module.file.to_string_lossy());
            if unit != folder {
                unit = folder;
                let _ = write!(map, "\n### `{unit}`\n\n| module | is |\n|---|---|\n");
            }
            let name = module.file.strip_prefix(&unit).unwrap_or(&module.file).display();
            let _ = writeln!(map, "| `{name}` | {} |", sentence(&module.doc));
        }
    }
    map + "\n"
}

/// The root first; a folder's own file before the others in it.
fn order(package: &Package, at: usize) -> String {
    package.path(at)
}

/// The folder that a file's name is given from: host and cuda have maps of their own.
fn folder_of(file: &str) -> String {
    let mut words = file.split('/');
    let source: Vec<&str> = words.by_ref().take(3).collect();
    match words.next() {
        Some(side @ ("host" | "cuda")) if source[1] == "backends" => {
            [&source[..], &[side]].concat().join("/")
        }
        _ => source.join("/"),
    }
}

/// The first sentence, on one line and without links; a long one up to its colon.
fn sentence(doc: &str) -> String {
    let paragraph = doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
    let end = paragraph.find(". ").unwrap_or(paragraph.len());
    let first = paragraph[..end].trim_end_matches(['.', ':']);
    let is_long = first.chars().count() > LONG;
    let first = first.split_once(": ").filter(|_| is_long).map_or(first, |(head, _)| head);
    unlinked(first).replace('|', "\\|")
}

/// The text without the brackets and targets of its links.
fn unlinked(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    [first]
        .into_iter()
        .chain(rest.map(str::to_owned))
        .collect::<String>()
        .replace("[`", "`")
        .replace("`]", "`")
}
