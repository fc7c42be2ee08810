//! Every module says in its first lines what it is for; a folder's own file says in more of them what it does
//! not do and which way its arrows point.

use super::offence::Offence;
use super::package::Package;

/// As many lines open a folder.
const LINES: usize = 5;

/// Modules without an opening, and folders with too short a one.
pub fn check(package: &Package) -> Vec<Offence> {
    let wrong: Vec<String> = package.files().filter_map(|at| check_module(package, at)).collect();
    let text = format!("modules of {} that say too little of themselves:{}", package.name, wrong.concat());
    let offence = Offence::new("opening", package.name.clone(), wrong.len(), text);
    if wrong.is_empty() { Vec::new() } else { vec![offence] }
}

fn check_module(package: &Package, at: usize) -> Option<String> {
    let module = &package.modules[at];
    let lines = module.doc.lines().count();
    let is_folder = module.parent.is_some() && package.files_below(at).next().is_some();
    let wanted = if is_folder { LINES } else { 1 };
    (lines < wanted).then(|| format!("\n    {}: {lines} lines, {wanted} wanted", module.file.display()))
}
