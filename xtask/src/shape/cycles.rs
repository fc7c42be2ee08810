//! Import cycles: none that a folder takes part in, none of more than three modules within one folder.
//!
//! Seen from outside a folder is one node, with the file of its name. Seen from inside, that file is a module
//! like the others. So the graph is looked at once for each folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::offence::Offence;
use super::package::{Arrow, Package};

/// As many modules of one folder may import each other.
const MODULES_IN_CYCLE: usize = 3;

/// The cycles that break the rule, folder by folder.
pub fn check(package: &Package, arrows: &[Arrow]) -> Vec<Offence> {
    let folders = package.files().filter(|&at| package.files_below(at).next().is_some());
    folders.filter_map(|folder| check_folder(package, arrows, folder)).collect()
}

fn check_folder(package: &Package, arrows: &[Arrow], folder: usize) -> Option<Offence> {
    let members: Vec<usize> = package.files_below(folder).collect();
    let member_of = |at: usize| {
        if at == folder {
            Some(at)
        } else {
            members.iter().copied().find(|&member| package.is_within(at, member))
        }
    };
    let edges: Vec<(usize, usize, &Arrow)> = arrows
        .iter()
        .filter_map(|arrow| Some((member_of(arrow.from)?, member_of(arrow.to)?, arrow)))
        .filter(|(from, to, _)| from != to)
        .collect();
    let is_folder = |&at: &usize| at != folder && package.files_below(at).next().is_some();
    let plain: Vec<(usize, usize)> = edges.iter().map(|&(from, to, _)| (from, to)).collect();
    let wrong: Vec<BTreeSet<usize>> = groups(&plain)
        .into_iter()
        .filter(|group| group.len() > MODULES_IN_CYCLE || group.iter().any(is_folder))
        .collect();
    let text: Vec<String> = wrong.iter().map(|group| explain(package, folder, group, &edges)).collect();
    let place = [package.name.clone(), package.path(folder)].join("/");
    let count = wrong.iter().map(BTreeSet::len).sum();
    (count > 0)
        .then(|| Offence::new("cycle", place.trim_end_matches('/').to_owned(), count, text.join("\ncycle: ")))
}

/// The members of a cycle, and one import for each arrow between them.
fn explain(
    package: &Package,
    folder: usize,
    group: &BTreeSet<usize>,
    edges: &[(usize, usize, &Arrow)],
) -> String {
    let name = |at: usize| match (at == folder, package.files_below(at).next()) {
        (false, Some(_)) => format!("{}/", package.modules[at].name),
        _ => package.modules[at].file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let names: Vec<String> = group.iter().map(|&at| name(at)).collect();
    let place = package.modules[folder].file.display();
    let mut text = format!("{} below {place} import each other in a circle:", names.join(", "));
    let mut told = BTreeSet::new();
    for &(from, to, arrow) in edges.iter().filter(|(from, to, _)| group.contains(from) && group.contains(to))
    {
        if told.insert((from, to)) {
            let file = package.modules[arrow.from].file.display();
            let _ =
                write!(text, "\n    {} -> {}: {file}:{} {}", name(from), name(to), arrow.line, arrow.path);
        }
    }
    text
}

/// The groups of nodes from each of which all others of the group can be reached, those of one node left out.
pub fn groups(edges: &[(usize, usize)]) -> Vec<BTreeSet<usize>> {
    let nodes: BTreeSet<usize> = edges.iter().flat_map(|&(from, to)| [from, to]).collect();
    let mut left = nodes.clone();
    let mut found = Vec::new();
    while let Some(node) = left.pop_first() {
        let forth = reached(edges, node, |&(from, to)| (from, to));
        let back = reached(edges, node, |&(from, to)| (to, from));
        let group: BTreeSet<usize> = forth.intersection(&back).copied().collect();
        left.retain(|other| !group.contains(other));
        if group.len() > 1 {
            found.push(group);
        }
    }
    found
}

fn reached(
    edges: &[(usize, usize)],
    start: usize,
    ends: impl Fn(&(usize, usize)) -> (usize, usize),
) -> BTreeSet<usize> {
    let mut seen = BTreeSet::from([start]);
    let mut next = vec![start];
    while let Some(at) = next.pop() {
        let more = edges.iter().map(&ends).filter(|&(from, _)| from == at).map(|(_, to)| to);
        next.extend(more.filter(|&to| seen.insert(to)));
    }
    seen
}
