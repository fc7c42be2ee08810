//! The pages that people look at, opened in a headless Chromium: drawn things, mouse, keys, an empty console,
//! and the time of frames. The traces are of made programs, one small and one of 200,000 ops, and of the
//! tour; a report of `ferry bench` and one of `ferry check` are beside them.

use std::path::Path;
use std::process::Command;

use crate::outcome::Outcome;
use crate::shell::{self, cargo};

/// What the browser is called, where it is installed.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Installs the browser, and Python to drive it, where they are missing. Fails where that is not possible.
pub fn install() -> Result<(), String> {
    for (name, package) in [("python3", "python3"), ("chromium", "chromium")] {
        let is_there =
            shell::exists(name) || (name == "chromium" && NAMES.iter().any(|it| shell::exists(it)));
        if !is_there {
            shell::apt_get(name, package)?;
        }
    }
    Ok(())
}

/// Makes the pages and runs `tests/browser/run.py`, which leaves screenshots in `target/browser`.
pub fn run(root: &Path) -> Result<Outcome, String> {
    if let Err(why) = install() {
        return Ok(Outcome::Skipped(why));
    }
    let out = shell::target_dir(root).join("browser");
    let (small, large) = (out.join("small"), out.join("large"));
    for (dir, ops) in [(&small, "2000"), (&large, "200000")] {
        let mut make = cargo(root, "run -q -p ferry-watch --example made_trace --");
        shell::run(make.arg(dir).arg(ops))?;
    }
    // A real program with every kind of work, in several processes.
    let real = out.join("real");
    shell::run(&mut cargo(root, "build -p ferry-cli -p ferry-capi"))?;
    let ferry = shell::target_dir(root).join("debug/ferry");
    let mut trace = Command::new(&ferry);
    shell::run(trace.args(["trace", "-o"]).arg(&real).arg("--").arg(&ferry).args(["tour", "--quick"]))?;
    let report = out.join("report.html");
    let mut bench = Command::new(&ferry);
    bench.args(["bench", "--devices", "2", "--device-memory", "256M", "-i", "3"]);
    bench.args(["-t", "h2d", "-t", "p2p", "-t", "roundtrip", "-t", "streams"]);
    shell::run(bench.arg("--report").arg(&report))?;
    let checked = out.join("check");
    shell::run(&mut check(root, &ferry, &out, &checked)?)?;
    let mut test = Command::new("python3");
    let pages = [&small, &large, &real, &report, &checked, &out];
    shell::run(test.arg(root.join("tests/browser/run.py")).args(pages))?;
    println!("screenshots: {}", out.display());
    Ok(Outcome::Passed)
}

/// The command that checks a program in which a thread that calls nothing writes a buffer too early.
fn check(root: &Path, ferry: &Path, out: &Path, report: &Path) -> Result<Command, String> {
    let program = out.join("producer_thread");
    let mut compile = Command::new("gcc");
    compile.args(["-std=c11", "-D_GNU_SOURCE", "-g", "-pthread", "-I"]).arg(root.join("include"));
    compile.arg(root.join("tests/check/producer_thread.c")).arg("-L").arg(ferry.with_file_name(""));
    shell::run(compile.args(["-lascendcl", "-o"]).arg(&program))?;
    let mut check = Command::new(ferry);
    check.args(["check", "--error-exitcode", "0", "--report"]).arg(report).arg("--").arg(&program);
    Ok(check)
}
