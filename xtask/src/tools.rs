//! Tools that a step needs and a machine may lack: from the system, else from Python's package index into a
//! folder of cargo's, where they disturb nobody.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{shell, venv::Venv};

/// A program, and the packages of Python and of the system that bring it.
#[derive(PartialEq, Eq)]
pub struct Tool {
    name: &'static str,
    /// The package of Python's that has it.
    pub pip: &'static str,
    /// The package of the system's.
    pub apt: &'static str,
}

/// Says where a library is.
pub const PKG_CONFIG: Tool = Tool { name: "pkg-config", pip: "pkgconf", apt: "pkg-config" };
/// Makes build files.
pub const CMAKE: Tool = Tool { name: "cmake", pip: "cmake", apt: "cmake" };
/// Runs them where there is no make.
pub const NINJA: Tool = Tool { name: "ninja", pip: "ninja", apt: "ninja-build" };

impl Tool {
    /// Its name if the system has it, else the path of the one that could be installed; an error says why
    /// there is none.
    pub fn find(&self, root: &Path) -> Result<PathBuf, String> {
        if shell::exists(self.name) {
            return Ok(self.name.into());
        }
        let ours = self.ours(root);
        let is_there = || shell::quiet(Command::new(&ours).arg("--version"));
        if is_there() || (install(root, self.pip) && is_there()) {
            return Ok(ours);
        }
        shell::apt_get(self.name, self.apt).map_err(|why| format!("{why}; pip could not get it either"))?;
        Ok(self.name.into())
    }

    /// Whether nothing has to be installed for it.
    pub fn is_there(&self, root: &Path) -> bool {
        shell::exists(self.name) || shell::quiet(Command::new(self.ours(root)).arg("--version"))
    }

    fn ours(&self, root: &Path) -> PathBuf {
        folder(root).join("bin").join(self.name)
    }
}

/// The folder that holds libclang: `$LIBCLANG_PATH`, else the one of the Python package.
pub fn libclang(root: &Path) -> Result<PathBuf, String> {
    let find = || find_libclang(root);
    let found = find().or_else(|| if install(root, "libclang") { find() } else { None });
    found.ok_or_else(|| "LIBCLANG_PATH names no libclang, and pip could not get one".to_owned())
}

/// The same, if nothing has to be installed for it.
pub fn find_libclang(root: &Path) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("LIBCLANG_PATH").filter(|path| !path.is_empty()) {
        return Some(given.into());
    }
    let code = "import clang; print(clang.__path__[0])";
    let said = Command::new(folder(root).join("bin/python3")).args(["-c", code]).output().ok()?;
    let native = Path::new(String::from_utf8_lossy(&said.stdout).trim()).join("native");
    native.join("libclang.so").exists().then_some(native)
}

/// Python, with packages of our own beside its own; an error says why there is none.
pub fn python(root: &Path) -> Result<Venv, String> {
    Venv::open(folder(root))
}

/// Where what is installed with pip goes.
pub fn folder(root: &Path) -> PathBuf {
    shell::target_dir(root).join("tools")
}

/// Installs a Python package into the folder, making that first where it is not there.
fn install(root: &Path, package: &str) -> bool {
    python(root).is_ok_and(|venv| venv.install(&[package]))
}
