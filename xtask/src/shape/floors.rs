//! Which way arrows point: between crates, between the backends and what is under both, between the floors of
//! cuda.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::offence::Offence;
use super::package::{Arrow, Package};

/// The crates, and which others of the workspace each builds on. A new arrow is a decision record.
const CRATES: &[(&str, &[&str])] = &[
    ("simd", &[]),
    ("core", &["simd"]),
    ("backends", &["core"]),
    ("watch", &[]),
    ("ferry", &["core", "backends", "watch"]),
    ("acl", &["core", "ferry", "watch"]),
    ("capi", &["acl"]),
    ("blocker", &[]),
    ("abi", &["blocker"]),
    ("py", &["abi"]),
    ("terminal", &[]),
    ("tour", &["abi", "terminal"]),
    // For the meaning of sizes alone.
    ("bench", &["abi", "terminal", "ferry", "watch"]),
    // The command has capi among its dependencies so that cargo builds the library that it loads.
    ("cli", &["abi", "terminal", "ferry", "tour", "bench", "capi", "watch"]),
];

/// The folders and files of `backends/cuda`, from the ground up, with its own `mod.rs` at the top. What is on
/// one floor may import what is on it or below.
const FLOORS: &[&[&str]] = &[
    &["driver"],
    &["memory", "stream"],
    &["order"],
    &["coalesce", "descriptors", "staging"],
    &["dispatch"],
    &["shared"],
    &["queue"],
    &["mod"],
];

/// Dependencies of packages that are not in the table above.
pub fn check_crates(top: &Path) -> Result<Vec<Offence>, String> {
    let mut offences = Vec::new();
    for &(name, allowed) in CRATES {
        let file = format!("crates/{name}/Cargo.toml");
        let Ok(text) = fs::read_to_string(top.join(&file)) else { continue };
        for found in dependencies(&text).into_iter().filter(|found| !allowed.contains(&found.as_str())) {
            let text =
                format!("{file}: {name} builds on {found}, and xtask/src/shape/floors.rs has no such arrow");
            offences.push(Offence::new("crate", format!("{name} {found}"), 1, text));
        }
    }
    let entries = fs::read_dir(top.join("crates")).map_err(|e| format!("crates: {e}"))?;
    for entry in entries.flatten().filter(|entry| entry.path().join("Cargo.toml").exists()) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if CRATES.iter().all(|(known, _)| *known != name) {
            let text = format!("crates/{name} is not in the table of xtask/src/shape/floors.rs");
            offences.push(Offence::new("crate", name, 1, text));
        }
    }
    Ok(offences)
}

/// The crates of ours in the tables of dependencies of a manifest, those for tests left out.
pub fn dependencies(manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut counts = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            let table = line.trim_matches(['[', ']']);
            counts = table.ends_with("dependencies") && !table.ends_with("dev-dependencies");
        } else if counts && line.starts_with("ferry") {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            found.push(name.strip_prefix("ferry-").unwrap_or(name).to_owned());
        }
    }
    found
}

/// `host` and `cuda` do not import each other, and what is under both imports neither.
pub fn check_backends(package: &Package, arrows: &[Arrow]) -> Vec<Offence> {
    let side = |at: usize| match package.path(at).split('/').next() {
        Some("host") => "host",
        Some("cuda") => "cuda",
        _ => "the floor under both backends",
    };
    let wrong = arrows.iter().filter(|arrow| {
        let (from, to) = (side(arrow.from), side(arrow.to));
        from != to && ["host", "cuda"].contains(&to)
    });
    wrong.map(|arrow| explain(package, arrow, side(arrow.from), side(arrow.to))).collect()
}

fn explain(package: &Package, arrow: &Arrow, from: &str, to: &str) -> Offence {
    let file = package.modules[arrow.from].file.display();
    let text = format!("{file}:{}: {from} must not import {to}: {}", arrow.line, arrow.path);
    let (from, to) = (package.path(arrow.from), package.path(arrow.to));
    Offence::new("side", format!("{} {from} {to}", package.name), 1, text)
}

/// No floor of cuda reaches a higher one, by whatever way.
pub fn check_floors(package: &Package, arrows: &[Arrow]) -> Vec<Offence> {
    let Some(&cuda) = package.modules[0].children.get("cuda") else { return Vec::new() };
    let member = |at: usize| match package.path(at).split_once('/') {
        _ if at == cuda => Some("mod".to_owned()),
        Some(("cuda", path)) => Some(path.split('/').next().unwrap_or(path).to_owned()),
        _ => None,
    };
    let mut offences = Vec::new();
    for folder in package.files_below(cuda).filter(|&at| package.files_below(at).next().is_some()) {
        let name = &package.modules[folder].name;
        if floor(name).is_none() {
            let text = format!("cuda/{name} is on no floor: xtask/src/shape/floors.rs has the table");
            offences.push(Offence::new("floor", format!("{name} nowhere"), 1, text));
        }
    }
    let named: Vec<(String, String, &Arrow)> =
        arrows.iter().filter_map(|arrow| Some((member(arrow.from)?, member(arrow.to)?, arrow))).collect();
    for start in FLOORS.iter().copied().flatten() {
        offences.extend(upward(package, &named, start));
    }
    offences
}

fn floor(name: &str) -> Option<usize> {
    FLOORS.iter().position(|floor| floor.contains(&name))
}

/// The arrows by which `start`, or what it imports, reaches a higher floor than its own.
fn upward(package: &Package, arrows: &[(String, String, &Arrow)], start: &str) -> Vec<Offence> {
    let mut seen = BTreeSet::from([start]);
    let mut next = vec![start];
    let mut offences = Vec::new();
    while let Some(at) = next.pop() {
        for (_, to, arrow) in arrows.iter().filter(|(from, _, _)| from == at) {
            if !seen.insert(to) {
                continue;
            }
            if floor(to) > floor(start) {
                let file = package.modules[arrow.from].file.display();
                let text = format!("{file}:{}: {start} must not need {to}, which is above it", arrow.line);
                offences.push(Offence::new("floor", format!("{start} {to}"), 1, text));
            } else if floor(to).is_none_or(|floor_of| Some(floor_of) == floor(start)) {
                // What is below was looked at from below.
                next.push(to);
            }
        }
    }
    offences
}
