//! The licences of the packages that are inside what we build, in one text: most of them ask to be passed on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{self, cargo};

const OPENING: &str = "\
Ferry contains the packages below, each under its own licence. It also \
contains parts of the Rust standard library, which is
under MIT or Apache-2.0.
";

/// Names, versions and licence texts of every package that ends up in what is built from these packages of
/// ours.
pub fn text(root: &Path, ours: &[&str]) -> Result<String, String> {
    let mut tree = cargo(root, "tree --edges normal --prefix none --no-dedupe --format {p}|{l}");
    let tree = shell::output(tree.args(ours.iter().flat_map(|name| ["--package", name])))?;
    let metadata = shell::output(&mut cargo(root, "metadata --format-version 1 --locked"))?;
    let mut text = OPENING.to_owned();
    for (package, licence) in packages(&tree) {
        let folder =
            folder(&metadata, &package).ok_or_else(|| format!("{package}: cargo does not say where"))?;
        let _ = write!(text, "\n==== {package}: {licence} ====\n");
        for file in files(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
            let content = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let _ = write!(text, "\n{}\n", content.trim_end());
        }
    }
    Ok(text)
}

/// `name-version` and licence of each line of `cargo tree`, without our own packages: those have a path.
fn packages(tree: &str) -> BTreeMap<String, String> {
    let line = |line: &str| {
        let (package, licence) = line.split_once('|')?;
        let (name, rest) = package.split_once(" v")?;
        let version = rest.split_whitespace().next()?;
        (!rest.contains('/')).then(|| (format!("{name}-{version}"), licence.to_owned()))
    };
    tree.lines().filter_map(line).collect()
}

/// Where a package's source is, from the paths in what `cargo metadata` says.
fn folder(metadata: &str, package: &str) -> Option<PathBuf> {
    let manifest = format!("/{package}/Cargo.toml");
    let path = metadata.split('"').find(|piece| piece.ends_with(&manifest))?;
    Path::new(path).parent().map(Path::to_owned)
}

/// The licence files of a package; where it may be had under MIT, that one alone.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|word| name.starts_with(word)) {
            files.push(entry.path());
        }
    }
    files.sort();
    let mit = files.iter().find(|file| file.to_string_lossy().ends_with("-MIT")).cloned();
    Ok(mit.map_or(files, |mit| vec![mit]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packages_of_others_are_listed() {
        let tree = "ferry-cli v0.1.0 (/src/ferry/crates/cli)|MIT OR Apache-2.0\n\
                    clap v4.6.7|MIT OR Apache-2.0\n\
                    clap_derive v4.6.7 (proc-macro)|MIT\nclap v4.6.7|MIT OR Apache-2.0\n";
        let found = packages(tree);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["clap-4.6.7", "clap_derive-4.6.7"]);
        assert_eq!(found["clap-4.6.7"], "MIT OR Apache-2.0");
    }
}
