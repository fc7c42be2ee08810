//! The guides of the installed tree: copies of the repository's pages whose links lead to what is installed
//! as well. A link to anything else (sources, decisions, tests) becomes its text.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::tree::{Tree, read};
use crate::pictures;

/// Where they are, below the prefix.
pub const PLACE: &str = "share/doc/ferry";

/// Files at the top of the repository.
const TOP: [&str; 4] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "CHANGELOG.md"];

/// Pages of docs/ that are for users.
const USER_GUIDES: [&str; 14] = [
    "ENVIRONMENT.md",
    "IPC.md",
    "checking.md",
    "clients.md",
    "cuda.md",
    "install.md",
    "npu-smi.md",
    "performance.md",
    "pytest.md",
    "python.md",
    "recording.md",
    "torch.md",
    "two-machines.md",
    "watching.md",
];

/// A drawing of one of the pages.
const DRAWING: &str = "pictures/two-machines.svg";

/// Puts them into the tree.
pub fn put(root: &Path, tree: &mut Tree) -> Result<(), String> {
    let pages = pages(root)?;
    for (page, place) in &pages {
        let bytes = read(&root.join(page))?;
        match is_page(page) {
            true => tree.file(place, linked(&String::from_utf8_lossy(&bytes), page, &pages)),
            false => tree.file(place, bytes),
        }
    }
    Ok(())
}

fn is_page(file: &Path) -> bool {
    file.extension() == Some(OsStr::new("md"))
}

/// What is installed, by its path in the repository, and where.
fn pages(root: &Path) -> Result<BTreeMap<PathBuf, PathBuf>, String> {
    let place = |name: &Path| Path::new(PLACE).join(name);
    let mut pages: BTreeMap<PathBuf, PathBuf> =
        TOP.iter().map(|name| (PathBuf::from(name), place(Path::new(name)))).collect();
    let mut add = |name: PathBuf| drop(pages.insert(Path::new("docs").join(&name), place(&name)));
    USER_GUIDES.iter().chain([&DRAWING]).for_each(|name| add(name.into()));
    pictures::NAMES.iter().for_each(|name| add(Path::new("pictures").join(name)));
    let folder = root.join("docs/findings");
    let findings = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    findings.flatten().for_each(|entry| add(Path::new("findings").join(entry.file_name())));
    Ok(pages)
}

/// The text of a page with the links that it has where it is installed.
fn linked(text: &str, page: &Path, pages: &BTreeMap<PathBuf, PathBuf>) -> String {
    let mut is_code = false;
    let line = |line: &str| {
        is_code ^= line.trim_start().starts_with("```");
        if is_code { line.to_owned() } else { linked_line(line, page, pages) }
    };
    text.split_inclusive('\n').map(line).collect()
}

fn linked_line(line: &str, page: &Path, pages: &BTreeMap<PathBuf, PathBuf>) -> String {
    let (mut done, mut rest) = (String::new(), line);
    while let Some(link) = Link::first(rest) {
        let Link { before, open, target, close, behind } = link;
        done += before;
        match (installed(target, page, pages), open) {
            (Some(target), _) => done += &format!("{open}{target}{close}"),
            // The text of a link begins with the last bracket.
            (None, "](") => match done.rfind('[') {
                Some(bracket) => drop(done.remove(bracket)),
                None => done += &format!("{open}{target}{close}"),
            },
            (None, _) => done += &format!("{open}{close}"),
        }
        rest = behind;
    }
    done + rest
}

/// A link in a line.
struct Link<'a> {
    before: &'a str,
    /// What its target stands behind.
    open: &'static str,
    target: &'a str,
    close: &'static str,
    behind: &'a str,
}

impl Link<'_> {
    /// The first one of a text.
    fn first(text: &str) -> Option<Link<'_>> {
        let forms = [("](", ")"), ("src=\"", "\""), ("srcset=\"", "\"")];
        let found = forms.into_iter().filter_map(|(open, close)| {
            let (before, rest) = text.split_once(open)?;
            let (target, behind) = rest.split_once(close)?;
            Some(Link { before, open, target, close, behind })
        });
        found.min_by_key(|link| link.before.len())
    }
}

/// Where a target leads from the place of a page; `None` if that is not installed.
fn installed(target: &str, page: &Path, pages: &BTreeMap<PathBuf, PathBuf>) -> Option<String> {
    let (file, part) = target.split_once('#').map_or((target, None), |(file, part)| (file, Some(part)));
    if file.is_empty() || file.contains("://") {
        return Some(target.to_owned());
    }
    let place = pages.get(&normal(&page.parent()?.join(file)))?;
    let from = pages.get(page)?.parent()?;
    let common = from.components().zip(place.components()).take_while(|(one, other)| one == other).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(place.components().skip(common)).collect();
    let part = part.map(|part| format!("#{part}")).unwrap_or_default();
    Some(format!("{}{part}", path.display()))
}

/// The path without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository")
    }

    #[test]
    fn links_lead_to_what_is_installed_or_are_text() {
        let pages = pages(root()).expect("pages");
        for (page, text, want) in [
            (
                "README.md",
                "[docs/checking.md](docs/checking.md#options).",
                "[docs/checking.md](checking.md#options).",
            ),
            ("README.md", "[a](docs/decisions), [b](CHANGELOG.md)", "a, [b](CHANGELOG.md)"),
            (
                "README.md",
                "<img src=\"docs/pictures/trace-light.webp\">",
                "<img src=\"pictures/trace-light.webp\">",
            ),
            (
                "docs/checking.md",
                "[x](findings/README.md) [y](../README.md)",
                "[x](findings/README.md) [y](README.md)",
            ),
            (
                "docs/findings/FERRY-FREE.md",
                "[t](../../tests/check/x.c), see [c](../checking.md)",
                "t, see [c](../checking.md)",
            ),
            (
                "docs/findings/FERRY-FREE.md",
                "[`i`](#i) [w](https://x.org/a) x[0] (y)",
                "[`i`](#i) [w](https://x.org/a) x[0] (y)",
            ),
        ] {
            assert_eq!(linked(text, Path::new(page), &pages), want);
        }
        let code = "```c\na[i](docs/decisions);\n```\n";
        assert_eq!(linked(code, Path::new("README.md"), &pages), code);
    }

    #[test]
    fn no_installed_page_has_a_dead_link() {
        let mut tree = Tree::default();
        put(root(), &mut tree).expect("all pages");
        let folder = std::env::temp_dir().join(format!("ferry-docs-{}", std::process::id()));
        tree.put(&folder).expect("a writable folder");
        let mut links = 0;
        for place in pages(root()).expect("pages").values() {
            let file = folder.join(place);
            if !is_page(place) {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("an installed page");
            let mut is_code = false;
            for line in text.lines() {
                is_code ^= line.trim_start().starts_with("```");
                let mut rest = if is_code { "" } else { line };
                while let Some(link) = Link::first(rest) {
                    let target = link.target.split('#').next().unwrap_or_default();
                    let is_there = target.is_empty()
                        || target.contains("://")
                        || file.parent().expect("a folder").join(target).exists();
                    assert!(is_there, "{}: {line}", place.display());
                    links += 1;
                    rest = link.behind;
                }
            }
        }
        std::fs::remove_dir_all(folder).expect("ours");
        assert!(links > 60, "{links} links");
    }
}
