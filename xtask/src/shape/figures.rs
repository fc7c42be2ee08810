//! How much there is: lines, types and modules of each crate, without tests.

use std::collections::BTreeMap;

use super::offence::unit_of;
use super::package::Package;

#[derive(Default)]
struct Figures {
    modules: usize,
    lines: usize,
    code: usize,
    comments: usize,
    types: usize,
    longest: usize,
}

/// Prints a table.
pub fn print(packages: &[Package]) {
    let heads = ["modules", "lines", "code", "comments", "types", "longest"];
    println!("{:<10}{}", "crate", heads.map(|head| format!("{head:>10}")).concat());
    let mut all = Figures::default();
    for package in packages {
        for (name, figures) in of(package) {
            show(&name, &figures);
            all.modules += figures.modules;
            all.lines += figures.lines;
            all.code += figures.code;
            all.comments += figures.comments;
            all.types += figures.types;
            all.longest = all.longest.max(figures.longest);
        }
    }
    show("all", &all);
}

fn show(name: &str, of: &Figures) {
    let all = [of.modules, of.lines, of.code, of.comments, of.types, of.longest];
    println!("{name:<10}{}", all.map(|figure| format!("{figure:>10}")).concat());
}

fn of(package: &Package) -> BTreeMap<String, Figures> {
    let mut units: BTreeMap<String, Figures> = BTreeMap::new();
    for module in &package.modules {
        let figures = units.entry(unit_of(&module.file)).or_default();
        figures.types += module.read.types.len();
        if module.lines > 0 {
            let lines = module.lines - module.test_lines;
            figures.modules += 1;
            figures.lines += lines;
            figures.comments += module.comments;
            figures.code += lines - module.comments - module.blank;
            figures.longest = figures.longest.max(lines);
        }
    }
    units
}
