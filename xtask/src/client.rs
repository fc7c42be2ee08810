//! A client that others wrote: published bindings, built against `dist/` and run. Its package is
//! `tests/client`, outside the workspace.

use std::path::Path;
use std::process::Command;

use crate::outcome::Outcome;
use crate::shell::{self, cargo};
use crate::{c, dist, tools};

/// Builds the client against a fresh `dist/` and runs it. Without libclang, it does so without what bindgen
/// makes of our headers.
pub fn run(root: &Path) -> Result<Outcome, String> {
    dist::fill(root)?;
    shell::run(&mut client(root, "fmt --check"))?;
    if !shell::quiet(&mut client(root, "fetch --locked")) {
        return Ok(Outcome::Skipped("cargo could not fetch the crates cann, cann-sys and bindgen".into()));
    }
    let libclang = tools::libclang(root);
    let build = |words: &str| {
        let mut command = client(root, words);
        command.arg("--locked").arg("--target-dir").arg(shell::target_dir(root).join("client"));
        if let Ok(folder) = &libclang {
            command.args(["--features", "headers"]).env("LIBCLANG_PATH", folder);
            // libclang alone has no headers of its own; gcc's will do.
            command.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-isystem {}", gcc_headers(root)?));
        }
        Ok::<_, String>(command)
    };
    shell::run(build("clippy")?.args(["--", "-D", "warnings"]))?;
    shell::run(&mut build("build")?)?;
    let program = shell::target_dir(root).join("client/debug/client");
    let mut program = shell::program(root, &program.to_string_lossy());
    let said = shell::output(c::with_library(&mut program, &dist::folder(root).join("lib64")))?;
    print!("{said}");
    if !said.lines().last().is_some_and(|line| line.starts_with("ok:")) {
        return Err("the client did not say ok".into());
    }
    Ok(libclang.map_or_else(
        |why| Outcome::Skipped(format!("the client works, but bindgen has not seen our headers: {why}")),
        |_| Outcome::Passed,
    ))
}

/// A cargo command for the client's package, which finds `dist/` as it would find any other AscendCL.
fn client(root: &Path, words: &str) -> Command {
    let (first, rest) = words.split_once(' ').unwrap_or((words, ""));
    let mut command = cargo(root, first);
    command.arg("--manifest-path").arg(root.join("tests/client/Cargo.toml")).args(rest.split_whitespace());
    command.env("ASCEND_TOOLKIT_HOME", dist::folder(root));
    // Its build would look for libraries in cargo's own folders, which differ from run to run.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

fn gcc_headers(root: &Path) -> Result<String, String> {
    shell::output(shell::program(root, "gcc").arg("-print-file-name=include"))
        .map(|said| said.trim().to_owned())
}
