//! The environment: unknown FERRY_ variables, variables of a toolkit that name no folder or another one, and
//! which libascendcl.so comes first in LD_LIBRARY_PATH and LD_PRELOAD.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ferry_abi::library;

use super::finding::{Finding, fine, note, wrong};
use crate::prefix::{HOMES, Prefix};

/// The page that documents every variable; a FERRY_ name that it does not have is unknown.
const PAGE: &str = include_str!("../../../../docs/ENVIRONMENT.md");

/// What findings about variables are about.
pub const ABOUT: &str = "environment";

/// The variable of ours that a message of the library is about, if it is set.
pub fn named_in(message: &str) -> Option<&'static str> {
    let is_meant = |name: &&str| message.contains(&format!("{name}=")) && std::env::var_os(name).is_some();
    known().into_iter().find(is_meant)
}

pub fn inspect() -> Vec<Finding> {
    let library = library::find().ok();
    let home = library.as_deref().and_then(Prefix::of).map(|prefix| prefix.home);
    let mut findings = unknown();
    findings.extend(homes(home.as_deref()));
    findings.extend(loader(library.as_deref()));
    if findings.is_empty() {
        findings.push(fine(ABOUT, shown()));
    }
    findings
}

/// Those of the variables that are set, for the eye.
fn shown() -> String {
    let ours = |name: &str| name.starts_with("FERRY_") || name.starts_with("ASCEND_");
    let set: Vec<String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| ours(name))
        .map(|(name, value)| format!("{name}={}", value.to_string_lossy()))
        .collect();
    if set.is_empty() { "no FERRY_ or ASCEND_ variable is set: all defaults".into() } else { set.join(" ") }
}

/// The names of the page, which are in backquotes.
fn known() -> BTreeSet<&'static str> {
    let word = |text: &'static str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
    PAGE.split('`').filter_map(word).filter(|name| name.starts_with("FERRY_")).collect()
}

fn unknown() -> Vec<Finding> {
    let known = known();
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let strange = names.filter(|name| name.starts_with("FERRY_") && !known.contains(name.as_str()));
    strange
        .map(|name| {
            let near = known.iter().min_by_key(|other| distance(&name, other)).copied().unwrap_or_default();
            wrong(
                ABOUT,
                format!("{name} is no variable of Ferry's"),
                format!("did you mean {near}? docs/ENVIRONMENT.md has all"),
            )
        })
        .collect()
}

/// How many letters differ (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.bytes().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, b) in other.bytes().enumerate() {
            let change = before + usize::from(a != b);
            before = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(before + 1);
        }
    }
    row[other.len()]
}

/// Variables that say where a toolkit is. The PyTorch adapter refuses to be imported where one leads nowhere.
fn homes(ours: Option<&Path>) -> Vec<Finding> {
    let remedy = match ours {
        Some(home) => format!(". {}/set_env.sh, or ferry run -- PROGRAM", home.display()),
        None => "unset it, or source the set_env.sh of an installed tree".to_owned(),
    };
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut findings = Vec::new();
    // The folder of a toolkit's compilers need not exist.
    for (name, folder) in HOMES.iter().filter(|(name, _)| *name != "TOOLCHAIN_HOME") {
        let Some(path) = value(name) else { continue };
        let want = ours.map(|home| home.join(folder));
        if !path.is_dir() {
            findings.push(wrong(ABOUT, format!("{name} is {}, which is no folder", path.display()), &remedy));
        } else if want.is_some_and(|want| want.canonicalize().ok() != path.canonicalize().ok()) {
            let text = format!("{name} is {}: another toolkit than ours", path.display());
            findings.push(note(ABOUT, text, &remedy));
        }
    }
    if value("ASCEND_HOME_PATH").is_some() && value("ASCEND_OPP_PATH").is_none() {
        let text = "ASCEND_HOME_PATH is set and ASCEND_OPP_PATH is not: torch_npu refuses to be imported";
        findings.push(wrong(ABOUT, text, &remedy));
    }
    findings
}

/// Another libascendcl.so that the loader would take first.
fn loader(ours: Option<&Path>) -> Vec<Finding> {
    let is_ours = |path: &Path| ours.is_some() && path.canonicalize().ok().as_deref() == ours;
    let list = |name: &str| std::env::var_os(name).unwrap_or_default();
    let mut findings = Vec::new();
    let folders = list("LD_LIBRARY_PATH");
    let candidates = std::env::split_paths(&folders)
        .filter(|folder| !folder.as_os_str().is_empty())
        .flat_map(|folder| ["libascendcl.so", "libacl_rt.so"].map(|name| folder.join(name)))
        .filter(|path| path.exists());
    for path in candidates.filter(|path| !is_ours(path)) {
        let text = format!("LD_LIBRARY_PATH has {}, which is not ours", path.display());
        findings.push(note("loader", text, "put ours first (set_env.sh does), or use ferry run"));
    }
    let preloaded = list("LD_PRELOAD");
    let preloaded = preloaded.to_string_lossy();
    let files =
        preloaded.split([':', ' ']).filter(|file| file.contains("libascendcl") || file.contains("libacl_rt"));
    for file in files.filter(|file| !is_ours(Path::new(file))) {
        findings.push(note(
            "loader",
            format!("LD_PRELOAD has {file}, which is not ours"),
            "unset LD_PRELOAD",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_the_variables() {
        let known = known();
        for name in ["FERRY_BACKEND", "FERRY_DEVICES", "FERRY_SOC", "FERRY_LIBRARY", "FERRY_CANN_VERSION"] {
            assert!(known.contains(name), "{name} of {known:?}");
        }
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (one, other, want) in
            [("", "abc", 3), ("abc", "abc", 0), ("FERRY_DEVICE", "FERRY_DEVICES", 1), ("ab", "ba", 2)]
        {
            assert_eq!(distance(one, other), want, "{one} {other}");
        }
    }
}
