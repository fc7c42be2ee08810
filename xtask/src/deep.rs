//! The slow checks of `cargo xtask test --deep`: data races and memory errors while the tests run.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, cargo};
use crate::{c, steps::Outcome};

/// Tests that start C programs: those load an ordinary build of the library, which a sanitized one cannot replace.
const NOT_SANITIZED: &[&str] = &["c_programs"];

/// Runs the threaded tests with every memory access watched for data races.
pub fn thread_sanitizer(root: &Path) -> Result<Outcome, String> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Outcome::Skipped("set up for x86-64 only".into()));
    }
    // The standard library is built anew with the sanitizer in it. Without that, locks taken inside it are not seen,
    // and what they protect is reported as races.
    if !shell::rustup_has(&["component", "add", "rust-src"], || has_rust_source(root)) {
        return Ok(Outcome::Skipped(
            "the source of the standard library is not there and rustup could not add it".into(),
        ));
    }
    shell::run(&mut sanitized(root, "test -p ferry-backends --lib"))?;
    let names = sources(&root.join("tests/tests"), "rs")?.into_iter().filter_map(|path| {
        let name = path.file_stem()?.to_str()?.to_owned();
        (!NOT_SANITIZED.contains(&name.as_str())).then(|| format!(" --test {name}"))
    });
    shell::run(&mut sanitized(root, &format!("test -p ferry-tests --lib{}", names.collect::<String>())))?;
    Ok(Outcome::Passed)
}

fn sanitized(root: &Path, words: &str) -> Command {
    let mut command = cargo(root, words);
    command.args(["-Zbuild-std", "--target", "x86_64-unknown-linux-gnu", "--target-dir"]);
    command.arg(shell::target_dir(root).join("tsan"));
    // Neither the sanitizer nor building the standard library is stable yet; this lets the stable compiler offer both.
    command.env("RUSTC_BOOTSTRAP", "1");
    shell::add_rustflags(&mut command, "-Zsanitizer=thread");
    command
}

fn has_rust_source(root: &Path) -> bool {
    let sysroot =
        shell::output(shell::program(root, "rustc").args(["--print", "sysroot"])).unwrap_or_default();
    Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library").is_dir()
}

/// Compiles every program of `tests/c` and runs it under valgrind's memory checker.
pub fn memcheck(root: &Path) -> Result<Outcome, String> {
    if let Err(why) = shell::need_valgrind() {
        return Ok(Outcome::Skipped(why));
    }
    shell::run(&mut cargo(root, "build -p ferry-capi"))?;
    let library = shell::target_dir(root).join("debug");
    let sources = sources(&root.join("tests/c"), "c")?;
    if sources.is_empty() {
        return Err("tests/c holds no C program".into());
    }
    let failed: Vec<String> =
        sources.iter().filter_map(|source| memcheck_one(root, &library, source).err()).collect();
    if failed.is_empty() { Ok(Outcome::Passed) } else { Err(failed.join("; ")) }
}

fn memcheck_one(root: &Path, library: &Path, source: &Path) -> Result<(), String> {
    let program = c::compile(root, library, source, "memcheck")?;
    let mut valgrind = shell::program(root, "valgrind");
    valgrind.args(["--quiet", "--error-exitcode=9", "--fair-sched=yes"]).arg(&program);
    shell::run(c::with_library(&mut valgrind, library).env("FERRY_DEVICE_MEMORY", "256M"))
}

/// The files of one kind in a folder, by name; none when the folder is not there.
fn sources(folder: &Path, kind: &str) -> Result<Vec<PathBuf>, String> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(Vec::new()) };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<Result<Vec<_>, _>>().map_err(|e| format!("{}: {e}", folder.display()))?;
    paths.retain(|path| path.extension().is_some_and(|it| it == kind));
    paths.sort();
    Ok(paths)
}
