//! Compiles and runs the programs of the README, in C, in Rust and in Python, so that a newcomer's first try
//! works.

use std::fs;
use std::path::Path;

use crate::shell::{self, cargo};
use crate::{c, outcome::Outcome, python};

/// What each program carries to a device and back.
const CARGO: &str = "there and back\n";

/// Fails unless the programs compile, run, and say what they carried.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let readme = fs::read_to_string(root.join("README.md")).map_err(|e| format!("README.md: {e}"))?;
    let program = |language| {
        example(&readme, language).ok_or_else(|| format!("README.md has no program in {language}"))
    };
    check(run_c(root, program("c")?)?)?;
    check(run_rust(root, program("rust")?, program("toml")?)?)?;
    match python::with_module(root)? {
        Ok(venv) => {
            check(shell::output(venv.python().arg("-c").arg(program("python")?))?)?;
            Ok(Outcome::Passed)
        }
        Err(why) => Ok(Outcome::Skipped(format!("C and Rust are good, but Python was not tried: {why}"))),
    }
}

fn check(said: String) -> Result<(), String> {
    print!("{said}");
    if said == CARGO { Ok(()) } else { Err(format!("the program said {said:?}")) }
}

fn run_c(root: &Path, code: &str) -> Result<String, String> {
    shell::run(&mut cargo(root, "build -p ferry-capi"))?;
    let library = shell::target_dir(root).join("debug");
    let source = shell::target_dir(root).join("readme.c");
    write(&source, code)?;
    let program = c::compile(root, &library, &source, "readme")?;
    shell::output(c::with_library(&mut shell::program(root, &program.to_string_lossy()), &library))
}

/// As a package of its own, which has the README's lines about dependencies, and the versions that the
/// workspace has.
fn run_rust(root: &Path, code: &str, dependencies: &str) -> Result<String, String> {
    let package = shell::target_dir(root).join("readme-rust");
    fs::create_dir_all(package.join("src")).map_err(|e| format!("{}: {e}", package.display()))?;
    let path = root.join("crates/ferry");
    let dependencies = dependencies.replace("path/to/ferry/crates/ferry", &path.to_string_lossy());
    let manifest = "[package]\nname = \"readme\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n";
    write(&package.join("Cargo.toml"), &format!("{manifest}{dependencies}"))?;
    write(&package.join("src/main.rs"), code)?;
    let lock = fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"));
    lock.map_err(|e| format!("Cargo.lock: {e}"))?;
    let mut build = cargo(root, "run --quiet --offline");
    build.arg("--manifest-path").arg(package.join("Cargo.toml"));
    build.arg("--target-dir").arg(package.join("target"));
    shell::output(&mut build)
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

fn example<'a>(readme: &'a str, language: &str) -> Option<&'a str> {
    readme.split_once(&format!("```{language}\n"))?.1.split_once("```").map(|(code, _)| code)
}
