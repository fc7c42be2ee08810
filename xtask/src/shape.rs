//! The shape of the code: which way imports point, that a name means one thing, how wide lines are, how many
//! methods the traits of the border have, that docs/ARCHITECTURE.md has every module on its map, and that
//! files which documents and comments name are there.
//!
//! `cargo xtask shape` checks all of it in a few seconds. Followed by names of crates it shows everything
//! that is wrong in them, also what `xtask/shape.allow` lists as known.

mod cycles;
mod figures;
mod files;
mod floors;
mod map;
mod mentions;
mod names;
mod offence;
mod openings;
mod package;
mod ratchet;
mod read;
#[cfg(test)]
mod tests;
mod traits;
mod widths;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use files::Files;
use offence::Offence;
use package::Package;

const ALLOW: &str = "xtask/shape.allow";
const NOUNS: &str = "xtask/nouns.txt";

/// The folders of the product's packages, in the order of the map.
const PRODUCT: [&str; 14] = [
    "simd", "core", "backends", "watch", "ferry", "acl", "capi", "abi", "py", "cli", "tour", "bench",
    "terminal", "blocker",
];

/// `cargo xtask shape` with its options.
pub fn run(top: &Path, options: &[&str]) -> Result<(), String> {
    match options {
        ["--figures"] => product(top).map(|packages| figures::print(&packages)),
        ["--prune"] => {
            let allow = text(top, ALLOW)?;
            let kept = ratchet::prune(&allow, &offences(top)?)?;
            fs::write(top.join(ALLOW), kept).map_err(|e| format!("{ALLOW}: {e}"))
        }
        ["--list"] => {
            for offence in offences(top)? {
                println!("{} {} {}", offence.rule, offence.subject, offence.count);
            }
            Ok(())
        }
        [] => check(top),
        names => show(top, names),
    }
}

/// Fails when something is wrong that is not known.
pub fn check(top: &Path) -> Result<(), String> {
    let known = ratchet::parse(&text(top, ALLOW)?)?;
    let wrong = ratchet::compare(&offences(top)?, &known);
    match wrong.len() {
        0 if known.is_empty() => Ok(()),
        0 => {
            println!("{} known offences wait in {ALLOW}", known.len());
            Ok(())
        }
        count => {
            let told: Vec<String> = wrong.iter().map(|text| shortened(text)).collect();
            Err(format!("{}\n{count} offences", told.join("\n")))
        }
    }
}

/// As many lines as one reads; the name of a crate as argument shows all.
fn shortened(text: &str) -> String {
    const LINES: usize = 20;
    let lines: Vec<&str> = text.lines().collect();
    match lines.len().checked_sub(LINES) {
        Some(more @ 1..) => format!("{}\n    and {more} more", lines[..LINES].join("\n")),
        _ => text.to_owned(),
    }
}

/// Writes the map of docs/ARCHITECTURE.md.
pub fn write_map(top: &Path) -> Result<(), String> {
    map::write(top, &product(top)?)
}

/// Everything that is wrong in the named crates, known or not.
fn show(top: &Path, names: &[&str]) -> Result<(), String> {
    let is_meant = |offence: &Offence| {
        names.iter().any(|name| {
            let places = [format!("crates/{name}/"), format!("/{name}/")];
            let subject = format!("{} ", offence.subject.replace('/', " "));
            subject.split(' ').any(|word| word == *name)
                || places.iter().any(|place| offence.text.contains(place))
        })
    };
    let all: Vec<Offence> = offences(top)?.into_iter().filter(is_meant).collect();
    all.iter().for_each(|offence| println!("{}: {}", offence.rule, offence.text));
    if all.is_empty() { Ok(()) } else { Err(format!("{} offences", all.len())) }
}

fn offences(top: &Path) -> Result<Vec<Offence>, String> {
    let mut packages = product(top)?;
    let mut found = map::check(top, &packages)?;
    packages.push(load(top, "xtask")?);
    for package in &packages {
        let arrows = package.arrows();
        found.extend(cycles::check(package, &arrows));
        found.extend(openings::check(package));
        match package.name.as_str() {
            "core" => found.extend(traits::check(package)),
            "backends" => {
                found.extend(floors::check_backends(package, &arrows));
                found.extend(floors::check_floors(package, &arrows));
            }
            _ => {}
        }
    }
    found.extend(names::check(&packages, &nouns(&text(top, NOUNS)?)?));
    found.extend(floors::check_crates(top)?);
    let files = Files::of(top)?;
    found.extend(widths::check(&files)?);
    found.extend(mentions::check(&files)?);
    Ok(found)
}

fn product(top: &Path) -> Result<Vec<Package>, String> {
    let folders = PRODUCT.map(|name| format!("crates/{name}"));
    let there = folders.iter().filter(|folder| top.join(folder).join("Cargo.toml").exists());
    there.map(|folder| load(top, folder)).collect()
}

fn load(top: &Path, folder: &str) -> Result<Package, String> {
    Package::load(&|file| fs::read_to_string(top.join(file)).ok(), folder)
}

/// The names that several crates may define: each stands before a colon and its noun.
fn nouns(text: &str) -> Result<BTreeSet<String>, String> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let name = |line: &str| {
        let (name, noun) = line.split_once(':')?;
        (!noun.trim().is_empty()).then(|| name.trim().to_owned())
    };
    lines.map(|line| name(line).ok_or_else(|| format!("{NOUNS}: no noun for {line}"))).collect()
}

fn text(top: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(top.join(file)).map_err(|e| format!("{file}: {e}"))
}
