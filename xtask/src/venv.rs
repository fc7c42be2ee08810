//! Virtual environments of Python: folders that have an interpreter and packages of their own and disturb
//! nobody.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// The oldest Python that the module and its tests are for.
pub const OLDEST: (u32, u32) = (3, 9);

/// One that is there.
pub struct Venv {
    folder: PathBuf,
}

impl Venv {
    /// The one in a folder, made from the machine's `python3` where it is not there. An error says what is
    /// missing.
    pub fn open(folder: PathBuf) -> Result<Venv, String> {
        let venv = Venv { folder };
        if venv.works() {
            return Ok(venv);
        }
        if !shell::exists("python3") {
            shell::apt_get("python3", "python3-venv")?;
        }
        if is_too_old("python3") {
            return Err(format!("python3 is older than {}.{}", OLDEST.0, OLDEST.1));
        }
        // Some systems have Python, but what makes environments in a package of its own.
        if !venv.make("python3") {
            shell::apt_get("python3's module venv", "python3-venv")?;
            if !venv.make("python3") {
                return Err("python3 -m venv makes no environment that has pip".into());
            }
        }
        Ok(venv)
    }

    /// A new one of this Python in place of what is in the folder.
    pub fn fresh(folder: PathBuf, python: &str) -> Result<Venv, String> {
        let venv = Venv { folder };
        if venv.make(python) { Ok(venv) } else { Err(format!("{python} -m venv makes no environment")) }
    }

    fn make(&self, python: &str) -> bool {
        shell::quiet(Command::new(python).args(["-m", "venv", "--clear"]).arg(&self.folder)) && self.works()
    }

    /// Whether it has an interpreter, also after the one it was made from has gone, and pip.
    fn works(&self) -> bool {
        shell::quiet(self.python().args(["-m", "pip", "--version"]))
    }

    /// A command of its interpreter. What the caller's environment says of Python and of libraries is not
    /// passed on: cargo's own library path, for one, would decide which library a program finds.
    pub fn python(&self) -> Command {
        self.wrapped(&[])
    }

    /// The same, started by another program that is given as words.
    pub fn wrapped(&self, words: &[&str]) -> Command {
        let python = self.program("python3");
        let mut command = match words {
            [] => Command::new(python),
            [program, words @ ..] => {
                let mut command = Command::new(program);
                command.args(words).arg(python);
                command
            }
        };
        for name in ["PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        // What runs in it may start programs of its own: maturin is one.
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::split_paths(&path);
        let path = std::env::join_paths([self.folder.join("bin")].into_iter().chain(path));
        command.env("VIRTUAL_ENV", &self.folder).envs(path.map(|path| ("PATH", path)));
        command
    }

    /// Where a program of one of its packages is.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Whether there is one in a folder.
    pub fn is_at(folder: &Path) -> bool {
        Venv { folder: folder.to_owned() }.works()
    }

    /// Makes sure of packages, by the names they are imported under; only those that are missing are
    /// installed.
    pub fn need(&self, packages: &[&'static str]) -> Result<(), String> {
        let missing = lacks(&self.folder, packages);
        let names: Vec<&str> = missing.iter().map(|package| pip_name(package)).collect();
        if missing.is_empty() || self.install(&names) {
            return Ok(());
        }
        Err(format!("pip could not install {}", missing.join(", ")))
    }

    /// Installs packages from the package index; says whether that worked.
    pub fn install(&self, packages: &[&str]) -> bool {
        println!("missing: pip install {} (into {})", packages.join(" "), self.folder.display());
        // Without a network pip would try for minutes.
        let mut pip = self.wrapped(&["timeout", "180"]);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]);
        shell::quiet(pip.args(packages))
    }

    /// Puts a wheel in, in place of any other version of it, and nothing else.
    pub fn install_wheel(&self, wheel: &Path) -> Result<(), String> {
        let mut pip = self.python();
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-index",
            "--no-deps",
        ]);
        shell::run(pip.arg("--force-reinstall").arg(wheel))
    }
}

/// What pip calls a package that is imported under another name.
fn pip_name(package: &'static str) -> &'static str {
    match package {
        "xdist" => "pytest-xdist",
        package => package,
    }
}

/// Which of these packages the environment in a folder has not; all of them if there is none.
pub fn lacks(folder: &Path, packages: &[&'static str]) -> Vec<&'static str> {
    let venv = Venv { folder: folder.to_owned() };
    let has = |package: &&str| shell::quiet(venv.python().arg("-c").arg(format!("import {package}")));
    packages.iter().copied().filter(|package| !has(package)).collect()
}

/// Whether the machine's Python can make an environment that has pip.
pub fn can_be_made() -> bool {
    shell::quiet(Command::new("python3").args(["-c", "import venv, ensurepip"]))
}

/// Whether an interpreter is there that is older than [`OLDEST`].
fn is_too_old(python: &str) -> bool {
    let code = format!("import sys; sys.exit(sys.version_info < ({}, {}))", OLDEST.0, OLDEST.1);
    !shell::quiet(Command::new(python).args(["-c", &code]))
}
