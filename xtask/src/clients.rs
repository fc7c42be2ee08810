//! Programs that others wrote, on what people install: the published Rust bindings (`client.rs`), and torch
//! with its adapter for Ascend, which are 5 GB. They come from the package index into an environment below
//! cargo's folder, unless FERRY_TORCH_PYTHON names the interpreter of one that has them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::outcome::Outcome;
use crate::venv::Venv;
use crate::{client, dist, shell};

/// The variable that names an interpreter whose environment has [`PACKAGES`].
pub const PYTHON: &str = "FERRY_TORCH_PYTHON";
/// What the programs of [`PROGRAMS`] import. torch_npu does not say that it needs the last three.
const PACKAGES: [&str; 5] = ["torch==2.14.0", "torch_npu==2.14.0", "numpy", "pyyaml", "setuptools"];
/// Every file in it is a program, except what they share.
const PROGRAMS: &str = "tests/clients/torch";
/// Programs whose operators the CPU runs: tests, and examples for people.
const WITH_OPERATORS: [&str; 2] = ["tests/torch", "examples/torch"];
const SHARED: &str = "kit.py";
/// Programs that are also run with nothing but a sourced set_env.sh and the wheel: they start processes in
/// every way.
const BY_WHEEL: [&str; 4] = ["settings.py", "loader.py", "processes.py", "together.py"];

/// A suite that imports torch_npu, and how it ends: tests that pass, that fail, and that should fail.
const SUITE: &str = "tests/clients/pytest/test_torch_npu.py";
const EXPECTED: (usize, usize, usize) = (5, 2, 2);

/// Runs all of them; a machine without torch and a way to get it runs the rest.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let bindings = client::run(root)?;
    let python = match torch(root)? {
        Ok(python) => python,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    for program in programs(root, PROGRAMS)? {
        by_ferry_run(root, &python, &[], &program)?;
    }
    let venv = with_wheel(root, &python)?;
    for name in BY_WHEEL {
        by_set_env(root, &venv, &root.join(PROGRAMS).join(name))?;
    }
    if let Err(why) = venv.need(&["pytest"]) {
        return Ok(Outcome::Skipped(why));
    }
    by_pytest(root, &venv)?;
    Ok(bindings)
}

/// `pytest --ferry-check` on a suite that imports torch_npu, with nothing of ours but the wheel. The tests
/// with a mistake fail, and no other.
fn by_pytest(root: &Path, venv: &Venv) -> Result<(), String> {
    let mut command = venv.wrapped(&["timeout", "600"]);
    command.current_dir(root).args(["-m", "pytest", "--ferry-check", "-p", "no:cacheprovider", "-rA", SUITE]);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let out = command.output().map_err(|e| format!("timeout: {e}"))?;
    let said = String::from_utf8_lossy(&out.stdout);
    let count = |word: &str| said.lines().filter(|line| line.starts_with(&format!("{word} tests/"))).count();
    let ends_early = |line: &&str| line.starts_with("FAILED tests/") && line.contains("_too_early");
    let early = said.lines().filter(ends_early).count();
    println!("pytest --ferry-check: {}", said.lines().last().unwrap_or_default());
    // The line of the test is in a stack of each finding.
    let has_lines = said.contains("#0 ")
        && said.contains(&format!("test_writes_too_early  {}", root.join(SUITE).display()));
    if (count("PASSED"), count("FAILED"), early) == EXPECTED && has_lines {
        return Ok(());
    }
    Err(format!(
        "pytest --ferry-check did not end as expected:\n{said}\n{}",
        String::from_utf8_lossy(&out.stderr)
    ))
}

/// Runs the programs whose operators the CPU runs, against what people install.
pub fn operators(root: &Path) -> Result<Outcome, String> {
    dist::fill(root)?;
    let python = match torch(root)? {
        Ok(python) => python,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    for folder in WITH_OPERATORS {
        for program in programs(root, folder)? {
            by_ferry_run(root, &python, &["--torch"], &program)?;
        }
    }
    Ok(Outcome::Passed)
}

/// Where torch is installed if nobody names an environment.
pub fn folder(root: &Path) -> PathBuf {
    shell::target_dir(root).join("torch")
}

/// Whether torch would have to be installed.
pub fn lacks_torch(root: &Path) -> bool {
    named().is_none() && !has_torch(&folder(root).join("bin/python3"))
}

fn named() -> Option<OsString> {
    std::env::var_os(PYTHON).filter(|python| !python.is_empty())
}

fn has_torch(python: &Path) -> bool {
    shell::quiet(Command::new(python).args(["-m", "pip", "show", "torch", "torch_npu"]))
}

/// The interpreter of an environment that has torch; an inner error says why there is none.
fn torch(root: &Path) -> Result<Result<PathBuf, String>, String> {
    if let Some(python) = named().map(PathBuf::from) {
        let missing = || format!("{PYTHON} is {}, which has no torch and torch_npu", python.display());
        return if has_torch(&python) { Ok(Ok(python)) } else { Err(missing()) };
    }
    let venv = match Venv::open(folder(root)) {
        Ok(venv) => venv,
        Err(why) => return Ok(Err(why)),
    };
    let python = venv.program("python3");
    if !has_torch(&python) {
        println!("missing: pip install {}", PACKAGES.join(" "));
        let mut pip = venv.wrapped(&["timeout", "3600"]);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]);
        if !shell::quiet(pip.args(PACKAGES)) {
            return Ok(Err(format!("pip could not install {}", PACKAGES.join(", "))));
        }
    }
    Ok(Ok(python))
}

fn programs(root: &Path, folder: &str) -> Result<Vec<PathBuf>, String> {
    let folder = root.join(folder);
    let files = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut programs: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    programs.retain(|path| path.extension().is_some_and(|kind| kind == "py") && !path.ends_with(SHARED));
    programs.sort();
    if programs.is_empty() { Err(format!("{}: no programs", folder.display())) } else { Ok(programs) }
}

/// `ferry run -- python program`, with these options, and nothing else of ours in sight.
fn by_ferry_run(root: &Path, python: &Path, options: &[&str], program: &Path) -> Result<(), String> {
    let mut words: Vec<OsString> = vec![dist::folder(root).join("bin/ferry").into(), "run".into()];
    words.extend(options.iter().map(OsString::from));
    words.extend(["--".into(), python.into(), program.into()]);
    judge(root, "ferry run", program, &words)
}

/// `. set_env.sh; python program` without its PYTHONPATH, so that only the wheel has Python install the hook.
fn by_set_env(root: &Path, venv: &Venv, program: &Path) -> Result<(), String> {
    let script = r#". "$1"/set_env.sh && unset PYTHONPATH && exec "$2" "$3""#;
    let words: [OsString; 7] = [
        "bash".into(),
        "-c".into(),
        script.into(),
        "bash".into(),
        dist::folder(root).into(),
        venv.program("python3").into(),
        program.into(),
    ];
    judge(root, "set_env.sh and the wheel", program, &words)
}

/// Runs a program on two devices; its last line must begin with `ok:`.
fn judge(root: &Path, how: &str, program: &Path, words: &[OsString]) -> Result<(), String> {
    // A safety net: one that hangs has to end somehow.
    let mut command = shell::program(root, "timeout");
    command.arg("600").args(words).env("FERRY_DEVICES", "2");
    // cargo's own library path would decide which library is found.
    for name in ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "PYTHONHOME"] {
        command.env_remove(name);
    }
    let out = command.env("PYTHONDONTWRITEBYTECODE", "1").output().map_err(|e| format!("timeout: {e}"))?;
    let (said, complaints) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    let (name, last) =
        (program.file_name().unwrap_or_default().display(), said.lines().last().unwrap_or_default());
    println!("{name} by {how}: {last}");
    if out.status.success() && last.starts_with("ok:") {
        return Ok(());
    }
    Err(format!("{name} by {how} ended with {}:\n{said}\n{complaints}", out.status))
}

/// An environment of its own that has our wheel, and torch by a path to where it is.
fn with_wheel(root: &Path, python: &Path) -> Result<Venv, String> {
    let venv = Venv::fresh(shell::target_dir(root).join("torch-and-wheel"), &python.to_string_lossy())?;
    let place = |python: &mut Command| {
        let code = "import sysconfig; print(sysconfig.get_path('purelib'))";
        shell::output(python.args(["-c", code])).map(|said| PathBuf::from(said.trim()))
    };
    let link = place(&mut venv.python())?.join("torch-is-there.pth");
    let text = format!("{}\n", place(&mut Command::new(python))?.display());
    std::fs::write(&link, text).map_err(|e| format!("{}: {e}", link.display()))?;
    let share = dist::folder(root).join("share/ferry");
    let files = std::fs::read_dir(&share).map_err(|e| format!("{}: {e}", share.display()))?;
    let mut wheels = files.flatten().map(|file| file.path());
    let wheel = wheels.find(|path| path.extension().is_some_and(|kind| kind == "whl"));
    venv.install_wheel(&wheel.ok_or("dist/ has no wheel")?)?;
    Ok(venv)
}
