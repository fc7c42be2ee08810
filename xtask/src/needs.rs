//! What the steps need of a machine beside Rust and gcc, and which of it would have to be installed. A run of
//! tests says that before its first step, in one list, so that nobody is surprised by what it leaves behind.

use std::path::Path;

use crate::clients;
use crate::shell;
use crate::tools::{self, Tool};
use crate::venv::{self, Venv};

/// Something that a step needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Python with these packages, in the environment of [`tools::python`].
    Python(&'static [&'static str]),
    /// The same in an environment for each other Python of this machine.
    Pythons(&'static [&'static str]),
    /// torch and its adapter for Ascend, in an environment of their own.
    Torch,
    /// A program that pip or the system's packages bring.
    Tool(&'static Tool),
    /// Make, or what takes its place.
    Make,
    /// A program of the system's package of the same name.
    Program(&'static str),
    /// The library behind bindgen.
    Libclang,
    /// A target of the Rust toolchain.
    Target(&'static str),
    /// The source of Rust's standard library.
    RustSource,
}

/// Where from, and what.
type Install = (String, String);

impl Need {
    /// What would be installed for it: nothing if it is there.
    fn missing(&self, root: &Path) -> Vec<Install> {
        let pip = || format!("pip, into {}", tools::folder(root).display());
        match self {
            Need::Python(packages) => {
                let mut all = no_python(root);
                let lacks = venv::lacks(&tools::folder(root), packages);
                all.extend(lacks.into_iter().map(|package| (pip(), package.to_owned())));
                all
            }
            Need::Pythons(packages) => {
                let place = shell::target_dir(root).join("pythons");
                vec![(format!("pip, into folders of {}", place.display()), packages.join(" "))]
            }
            Need::Torch if clients::lacks_torch(root) => {
                let from = format!("pip, into {}", clients::folder(root).display());
                vec![(from, format!("torch torch_npu (5 GB; {} may name an environment)", clients::PYTHON))]
            }
            Need::Tool(tool) if !tool.is_there(root) => {
                let mut all = no_python(root);
                all.push((pip(), format!("{} (else {} by apt-get)", tool.pip, tool.apt)));
                all
            }
            Need::Make if !shell::exists("make") => Need::Tool(&tools::NINJA).missing(root),
            Need::Libclang if tools::find_libclang(root).is_none() => {
                let mut all = no_python(root);
                all.push((pip(), "libclang".to_owned()));
                all
            }
            Need::Program(name) if !shell::exists(name) => vec![("apt-get".into(), (*name).to_owned())],
            Need::Target(target) if !shell::has_target(root, target) => {
                vec![("rustup".into(), format!("target {target}"))]
            }
            Need::RustSource if !shell::has_rust_source(root) => {
                vec![("rustup".into(), "component rust-src".to_owned())]
            }
            _ => Vec::new(),
        }
    }
}

/// What makes the environment that pip installs into.
fn no_python(root: &Path) -> Vec<Install> {
    let is_there = Venv::is_at(&tools::folder(root)) || venv::can_be_made();
    if is_there { Vec::new() } else { vec![("apt-get".into(), "python3-venv".to_owned())] }
}

/// Says what the steps with these needs will install.
pub fn announce(root: &Path, needs: &[Need]) {
    let first = |index: &usize| !needs[..*index].contains(&needs[*index]);
    let mut all: Vec<Install> =
        (0..needs.len()).filter(first).flat_map(|index| needs[index].missing(root)).collect();
    all.sort();
    all.dedup();
    print!("{}", list(&all));
}

/// A line for each place that things come from.
fn list(all: &[Install]) -> String {
    if all.is_empty() {
        return "nothing will be installed\n".into();
    }
    let mut text = "will be installed, where that needs no questions (what cannot be is named by the step \
        that lacks it):\n"
        .to_owned();
    for group in all.chunk_by(|one, next| one.0 == next.0) {
        let what: Vec<&str> = group.iter().map(|(_, what)| what.as_str()).collect();
        text += &format!("  {}: {}\n", group[0].0, what.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_a_line_for_each_source() {
        let install = |from: &str, what: &str| (from.to_owned(), what.to_owned());
        assert!(list(&[]).starts_with("nothing"));
        let all =
            [install("apt-get", "valgrind"), install("pip, into x", "mypy"), install("pip, into x", "numpy")];
        let text = list(&all);
        assert!(text.ends_with(":\n  apt-get: valgrind\n  pip, into x: mypy, numpy\n"), "{text}");
    }

    #[test]
    fn what_is_not_there_is_missing() {
        let nowhere = std::env::temp_dir().join(format!("ferry-needs-{}", std::process::id()));
        let what = |need: Need| need.missing(&nowhere).into_iter().map(|(_, what)| what).collect::<Vec<_>>();
        assert_eq!(what(Need::Program("no-such-program")), ["no-such-program"]);
        assert_eq!(what(Need::Program("cargo")), [""; 0]);
        assert_eq!(what(Need::Target("no-such-target")), ["target no-such-target"]);
        assert!(!nowhere.exists(), "to look makes nothing");
    }
}
