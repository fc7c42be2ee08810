//! How much a backend must offer: the traits of the border have few methods, those of their supertraits among
//! them.

use super::offence::Offence;
use super::package::Package;
use super::read::Trait;

/// The traits of `core` that every backend has to write, and how many methods each may have.
const LIMITS: [(&str, usize); 3] = [("Backend", 15), ("Queue", 8), ("Fence", 5)];

/// Those of them that have grown past their limit, or are gone.
pub fn check(core: &Package) -> Vec<Offence> {
    LIMITS.iter().filter_map(|&(name, limit)| check_trait(core, name, limit)).collect()
}

fn check_trait(core: &Package, name: &str, limit: usize) -> Option<Offence> {
    let Some((file, found)) = find(core, name) else {
        let text =
            format!("core defines no trait {name}: xtask/src/shape/traits.rs wants to count its methods");
        return Some(Offence::new("trait", name.to_owned(), 0, text));
    };
    let count = methods(core, found);
    let text = format!("{file}:{}: trait {name} has {count} methods, and {limit} are the limit", found.line);
    (count > limit).then(|| Offence::new("trait", name.to_owned(), count, text))
}

fn methods(core: &Package, of: &Trait) -> usize {
    let above = of.supertraits.iter().filter_map(|name| find(core, name));
    of.methods + above.map(|(_, found)| methods(core, found)).sum::<usize>()
}

fn find<'a>(core: &'a Package, name: &str) -> Option<(String, &'a Trait)> {
    core.modules.iter().find_map(|module| {
        let found = module.read.traits.iter().find(|found| found.name == name)?;
        Some((module.file.display().to_string(), found))
    })
}
