//! `cargo xtask`: everything this repository checks about itself, as one program that needs no crate but one
//! that splits Rust into tokens.
//!
//! `test` is the command of the README and of CI. The other commands are single steps of it that are worth
//! running alone.

mod abi;
mod browser;
mod c;
mod check;
mod ci;
mod client;
mod clients;
mod count;
mod deep;
mod device;
mod dist;
mod limit;
mod mooncake;
mod needs;
mod outcome;
mod pictures;
mod places;
mod python;
mod readme;
mod requirements;
mod shape;
mod shell;
mod steps;
mod tools;
mod venv;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test [--deep] [--only STEP]...   run every check, or only the named steps; --deep adds the slow ones
  abi                              compare the headers with the library
  requirements [--check]           write docs/requirements.md; --check only says whether it is right
  count                            count the instructions of one submitted copy
  shape [CRATE]...                 check imports, names, widths, traits and the map; all offences of a crate
  shape --figures | --prune        count lines, types and modules; take out of shape.allow what was mended
  map                              write the map of modules in docs/ARCHITECTURE.md
  pictures                         make the pictures of pages in docs/pictures
  device                           pack the conformance suite for a machine with a GPU
  dist                             fill dist/ with what people install
  install --prefix DIR             put the same below DIR
  toolkit DIR FERRY                write the wheel's toolkit, with this command in it
  notices FILE PACKAGE...          write the licences of what is inside these packages of ours";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let result = match words.as_slice() {
        ["test", options @ ..] => test(&root, options),
        ["abi"] => abi::run(&root),
        ["requirements"] => requirements::write(&root),
        ["requirements", "--check"] => requirements::check(&root),
        ["count"] => count::run(&root).and_then(|outcome| match outcome {
            outcome::Outcome::Passed => Ok(()),
            outcome::Outcome::Skipped(why) => Err(format!("not counted: {why}")),
        }),
        ["shape", options @ ..] => shape::run(&root, options),
        ["map"] => shape::write_map(&root),
        ["pictures"] => pictures::make(&root),
        ["device"] => device::pack(&root),
        ["dist"] => dist::fill(&root),
        ["install", "--prefix", prefix] if !prefix.is_empty() => install(&root, prefix),
        ["toolkit", folder, command] => dist::write_toolkit(&root, Path::new(folder), Path::new(command)),
        ["notices", file, packages @ ..] if !packages.is_empty() => {
            dist::write_notices(&root, file, packages)
        }
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}\n\nsteps: {}", steps::names());
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn test(root: &Path, options: &[&str]) -> Result<(), String> {
    let mut deep = false;
    let mut only = Vec::new();
    let mut rest = options.iter();
    while let Some(&option) = rest.next() {
        match option {
            "--deep" => deep = true,
            "--only" => only.push(*rest.next().ok_or("--only needs the name of a step")?),
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        }
    }
    steps::run(root, deep, &only)
}

/// A prefix is meant from where the command is typed.
fn install(root: &Path, prefix: &str) -> Result<(), String> {
    let prefix = std::path::absolute(prefix).map_err(|e| format!("{prefix}: {e}"))?;
    dist::install(root, &prefix)
}

/// The top of the repository: the folder above this package. Cargo says where that is now: a checkout may be
/// moved after it was built.
fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or(env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().expect("xtask lies one folder below the top").to_owned()
}
