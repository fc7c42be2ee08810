//! The Python module `acl`: its wheel, an environment that has it, and its tests.
//!
//! The wheel is built by the build backend that `pip install .` uses, in the same target folder as everything
//! else, so that the library inside is the one that the other steps try.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::outcome::Outcome;
use crate::shell;
use crate::tools;
use crate::venv::{OLDEST, Venv};

const TESTS: &str = "tests/python";

/// Builds the wheel, installs it and runs the tests of the module.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let venv = match builder(root).and_then(with_test_packages) {
        Ok(venv) => venv,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    venv.install_wheel(&wheel(root, &venv)?)?;
    test(root, &venv)?;
    Ok(Outcome::Passed)
}

/// Runs the tests, with the same wheel, under every other Python that this machine has.
pub fn run_others(root: &Path) -> Result<Outcome, String> {
    let builder = match builder(root) {
        Ok(venv) => venv,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let wheel = wheel(root, &builder)?;
    let (mut tried, mut failed, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for python in others() {
        let name = python.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let folder = shell::target_dir(root).join("pythons").join(&name);
        match Venv::fresh(folder, &python.to_string_lossy()).and_then(with_test_packages) {
            Ok(venv) => {
                venv.install_wheel(&wheel)?;
                println!("with {name}:");
                if test(root, &venv).is_err() {
                    failed.push(name.clone());
                }
                tried.push(name);
            }
            Err(why) => missing.push(format!("{name}: {why}")),
        }
    }
    println!("tried: {}", tried.join(", "));
    if !failed.is_empty() {
        return Err(format!("the tests fail with {}", failed.join(", ")));
    }
    match (tried.is_empty(), missing.is_empty()) {
        (false, true) => Ok(Outcome::Passed),
        (true, true) => Ok(Outcome::Skipped("no other Python was found".into())),
        _ => Ok(Outcome::Skipped(format!("not tried: {}", missing.join("; ")))),
    }
}

/// An environment that can build the wheel; an error says what is missing.
pub fn builder(root: &Path) -> Result<Venv, String> {
    let venv = tools::python(root)?;
    venv.need(&["maturin"])?;
    Ok(venv)
}

/// An environment that has the module; an inner error says which tool is missing.
pub fn with_module(root: &Path) -> Result<Result<Venv, String>, String> {
    let venv = match builder(root) {
        Ok(venv) => venv,
        Err(why) => return Ok(Err(why)),
    };
    venv.install_wheel(&wheel(root, &venv)?)?;
    Ok(Ok(venv))
}

fn with_test_packages(venv: Venv) -> Result<Venv, String> {
    venv.need(&["mypy", "numpy", "pytest", "xdist"])?;
    Ok(venv)
}

/// Builds the wheel, once in a run: several steps want it.
pub fn wheel(root: &Path, builder: &Venv) -> Result<PathBuf, String> {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    if let Some(built) = BUILT.get().filter(|built| built.exists()) {
        return Ok(built.clone());
    }
    build_wheel(root, builder).inspect(|built| drop(BUILT.set(built.clone())))
}

fn build_wheel(root: &Path, builder: &Venv) -> Result<PathBuf, String> {
    let folder = shell::target_dir(root).join("wheels");
    // Of another version, and there would be two.
    let _ = std::fs::remove_dir_all(&folder);
    let mut pip = builder.python();
    pip.current_dir(root).args([
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--disable-pip-version-check",
        "--no-index",
    ]);
    pip.args(["--no-build-isolation", "--no-deps", "--wheel-dir"]).arg(&folder).arg(".");
    shell::run(pip.env(shell::RELEASE_FLAGS, shell::release_flags(root)))?;
    let built = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut built = built.flatten().map(|entry| entry.path());
    built.next().ok_or_else(|| "pip built no wheel".to_owned())
}

fn test(root: &Path, venv: &Venv) -> Result<(), String> {
    // A safety net: a test that hangs has to end somehow.
    let mut pytest = venv.wrapped(&["timeout", "600"]);
    pytest.current_dir(root).args(["-m", "pytest", "-q", "-p", "no:cacheprovider", TESTS]);
    shell::run(&mut pytest)
}

/// Every `python3.X` of the module's range on the path, and those of pyenv.
fn others() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(home) = std::env::var_os("HOME") {
        let versions = std::fs::read_dir(Path::new(&home).join(".pyenv/versions"));
        folders.extend(versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin")));
    }
    // A name on the path may be a stand-in that starts nothing.
    let runs = |python: &PathBuf| python.exists() && shell::quiet(Command::new(python).arg("--version"));
    let find = |name: String| folders.iter().map(|folder| folder.join(&name)).find(runs);
    (OLDEST.1..OLDEST.1 + 20).filter_map(|minor| find(format!("python3.{minor}"))).collect()
}
