//! One name, one thing: a type's name is defined once in a crate, and means the same noun in all of them;
//! some verbs mean one thing wherever they are used.
//!
//! The folders `host/` and `cuda/` of `backends` count as crates. `xtask/nouns.txt` has the names that
//! several crates define, with the noun that each of them means, and the meaning of those verbs.

use std::collections::{BTreeMap, BTreeSet};

use super::offence::{Offence, unit_of};
use super::package::{Module, Package};

/// Verbs that had many meanings, and may have one.
const VERBS: [&str; 3] = ["settle", "hold", "look"];

struct Definition {
    unit: String,
    place: String,
    conditional: bool,
}

/// Names that a unit defines twice, and names of several units that `nouns` does not explain.
pub fn check(packages: &[Package], nouns: &BTreeSet<String>) -> Vec<Offence> {
    let mut names: BTreeMap<String, Vec<Definition>> = BTreeMap::new();
    for package in packages {
        for module in &package.modules {
            for found in &module.read.types {
                names.entry(found.name.clone()).or_default().push(Definition {
                    unit: unit_of(&module.file),
                    place: format!("{}:{}", module.file.display(), found.line),
                    conditional: found.conditional,
                });
            }
        }
    }
    let mut offences: Vec<Offence> =
        names.iter().flat_map(|(name, all)| check_name(name, all, nouns)).collect();
    offences.extend(VERBS.iter().filter_map(|verb| check_verb(packages, verb, nouns)));
    offences
}

/// A verb whose functions stand in several modules needs a meaning that is written down.
fn check_verb(packages: &[Package], verb: &str, nouns: &BTreeSet<String>) -> Option<Offence> {
    let modules = packages.iter().flat_map(|package| &package.modules);
    let place = |module: &Module| {
        let (_, line) = module.read.functions.iter().find(|(name, _)| name == verb)?;
        Some(format!("{}:{line}", module.file.display()))
    };
    let places: Vec<String> = modules.filter_map(place).collect();
    let text = format!(
        "functions called {verb} are in {} modules, and xtask/nouns.txt does not say what the verb means: {}",
        places.len(),
        places.join(", ")
    );
    let is_told = nouns.contains(&format!("fn {verb}"));
    (places.len() > 1 && !is_told).then(|| Offence::new("verb", verb.to_owned(), places.len(), text))
}

fn check_name(name: &str, all: &[Definition], nouns: &BTreeSet<String>) -> Vec<Offence> {
    let units: BTreeSet<&str> = all.iter().map(|found| found.unit.as_str()).collect();
    let mut offences = Vec::new();
    for &unit in &units {
        let here: Vec<&Definition> = all.iter().filter(|found| found.unit == unit).collect();
        // Definitions for several targets are one.
        let always = here.iter().filter(|found| !found.conditional).count();
        let count = always + usize::from(always < here.len());
        if count > 1 {
            let text = format!("type {name} is defined {count} times in {unit}: {}", places(&here));
            offences.push(Offence::new("name", format!("{unit} {name}"), count, text));
        }
    }
    // A tool of the repository: its words do not meet the product's.
    let apart: Vec<&Definition> = all.iter().filter(|found| found.unit != "xtask").collect();
    let units: BTreeSet<&str> = apart.iter().map(|found| found.unit.as_str()).collect();
    if units.len() > 1 && !nouns.contains(name) {
        let text = format!(
            "type {name} is defined in {} crates, and xtask/nouns.txt has no noun for it: {}",
            units.len(),
            places(&apart)
        );
        offences.push(Offence::new("noun", name.to_owned(), units.len(), text));
    }
    if units.len() < 2 && nouns.contains(name) {
        let text = format!("xtask/nouns.txt has {name}, which no two crates define");
        offences.push(Offence::new("noun", name.to_owned(), 1, text));
    }
    offences
}

fn places(all: &[&Definition]) -> String {
    all.iter().map(|found| found.place.as_str()).collect::<Vec<_>>().join(", ")
}
