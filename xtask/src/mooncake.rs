//! Two machines: the examples of `examples/python/two-machines` with Mooncake's published wheels, over
//! loopback.
//!
//! Mooncake's packages are called the same inside, so that each has an environment of its own below cargo's
//! folder, with our wheel beside it.

use std::path::Path;

use crate::outcome::Outcome;
use crate::venv::Venv;
use crate::{python, shell};

/// Where the programs are that run both sides.
const PROGRAMS: &str = "tests/clients/mooncake";
/// Mooncake's package for machines without CUDA, and its package for Ascend.
const PACKAGES: [(&str, &str); 2] = [
    ("loopback.py", "mooncake-transfer-engine-non-cuda"),
    ("device_transport.py", "mooncake-transfer-engine-npu"),
];
/// What both need of the system.
const LIBRARIES: [&str; 2] = ["libibverbs1", "libnuma1"];

/// Runs all of them.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let builder = match python::builder(root) {
        Ok(venv) => venv,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let wheel = python::wheel(root, &builder)?;
    for (program, package) in PACKAGES {
        match environment(root, package, &wheel)? {
            Ok(venv) => judge(root, &venv, program)?,
            Err(why) => return Ok(Outcome::Skipped(why)),
        }
    }
    Ok(Outcome::Passed)
}

/// An environment with our wheel and this package, which imports there; an inner error says why there is
/// none.
fn environment(root: &Path, package: &str, wheel: &Path) -> Result<Result<Venv, String>, String> {
    let venv = match Venv::open(shell::target_dir(root).join(package)) {
        Ok(venv) => venv,
        Err(why) => return Ok(Err(why)),
    };
    let is_there = || shell::quiet(venv.python().args(["-m", "pip", "show", package]));
    if !is_there() && !venv.install(&["--no-deps", package]) {
        return Ok(Err(format!("pip could not install {package}")));
    }
    for library in LIBRARIES {
        let file = format!("{}.so.1", library.trim_end_matches('1'));
        let code = format!("import ctypes; ctypes.CDLL('{file}')");
        let is_there = shell::quiet(venv.python().args(["-c", &code]));
        if let Err(why) = if is_there { Ok(()) } else { shell::apt_get(library, library) } {
            return Ok(Err(why));
        }
    }
    venv.install_wheel(wheel)?;
    Ok(Ok(venv))
}

/// Runs a program by the wheel's `ferry run`; its last line must begin with `ok:`.
fn judge(root: &Path, venv: &Venv, program: &str) -> Result<(), String> {
    // A safety net: one that hangs has to end somehow.
    let mut command = venv.wrapped(&["timeout", "600"]);
    command.current_dir(root).args(["-m", "ferry_acl.command", "run", "--"]);
    command.arg(venv.program("python3")).arg(root.join(PROGRAMS).join(program));
    let said = shell::output(command.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    print!("{said}");
    let is_ok = said.lines().last().is_some_and(|line| line.starts_with("ok:"));
    if is_ok { Ok(()) } else { Err(format!("{program} did not end with ok")) }
}
