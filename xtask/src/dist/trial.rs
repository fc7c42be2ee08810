//! The step that tries what was built as its users would: `dist/` is filled, installed elsewhere, moved, and
//! looked at as public programs look at a toolkit, from every shell; every C example is built against it
//! through pkg-config and through CMake, and run; the wheel goes into a new environment of Python's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{layout, tree::Tree, wheel};
use crate::outcome::Outcome;
use crate::{shell, tools};

const FLAGS: [&str; 6] = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"];

/// Shells, the set_env.sh that each sources, and whether the rules that run a compiler are left out.
const SHELLS: [(&str, &str, Option<&str>); 4] = [
    ("sh", "set_env.sh", None),
    ("dash", "../set_env.sh", Some("quick")),
    ("bash", "set_env.sh", Some("quick")),
    ("zsh", "set_env.sh", Some("quick")),
];

/// Runs all of it; what needs a tool that this machine lacks is left out, and the outcome says so.
pub fn run(root: &Path) -> Result<Outcome, String> {
    let ((tree, wheel), dist) = (super::build(root)?, super::folder(root));
    tree.put(&dist)?;
    let scratch = shell::target_dir(root).join("dist-trial");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).map_err(|e| format!("{}: {e}", scratch.display()))?;
    let trial = Trial { root, dist: &dist, scratch: &scratch };
    trial.installed(&tree)?;
    let mut missing = trial.as_a_toolkit(&tree)?;
    match tools::PKG_CONFIG.find(root) {
        Ok(tool) => trial.by_pkg_config(&tool)?,
        Err(why) => missing.push(why),
    }
    match cmake(root) {
        Ok((tool, generator)) => trial.by_cmake(&tool, &generator)?,
        Err(why) => missing.push(why),
    }
    match wheel {
        Ok(wheel) => wheel::try_out(root, &wheel, &dist.join("lib"))?,
        Err(why) => missing.push(why),
    }
    if missing.is_empty() {
        return Ok(Outcome::Passed);
    }
    Ok(Outcome::Skipped(format!(
        "dist/ is good, but not every way to use it was tried: {}",
        missing.join("; ")
    )))
}

/// CMake, and the arguments that name what it builds with where that is not make.
fn cmake(root: &Path) -> Result<(PathBuf, Vec<String>), String> {
    let tool = tools::CMAKE.find(root)?;
    if shell::exists("make") {
        return Ok((tool, Vec::new()));
    }
    let ninja = tools::NINJA.find(root)?;
    Ok((tool, vec!["-GNinja".into(), format!("-DCMAKE_MAKE_PROGRAM={}", ninja.display())]))
}

struct Trial<'a> {
    root: &'a Path,
    dist: &'a Path,
    scratch: &'a Path,
}

impl Trial<'_> {
    /// The tree works from another place, and a second time over the first.
    fn installed(&self, tree: &Tree) -> Result<(), String> {
        let prefix = self.scratch.join("prefix");
        tree.put(&prefix)?;
        tree.put(&prefix)?;
        let mut ferry = Command::new(prefix.join("bin/ferry"));
        let said =
            shell::output(ferry.arg("devices").env_remove("FERRY_LIBRARY").env_remove("LD_LIBRARY_PATH"))?;
        let library = prefix.join(layout::place("lib64/libascendcl.so"));
        if !said.contains(&*library.to_string_lossy()) {
            return Err(format!("the installed command does not use {}:\n{said}", library.display()));
        }
        let cards = shell::output(Command::new(prefix.join("bin/npu-smi")).args(["info", "-l"]))?;
        if !cards.contains("Total Count") {
            return Err(format!("the installed npu-smi says:\n{cards}"));
        }
        let mut doctor = Command::new(prefix.join("bin/ferry"));
        doctor.arg("doctor").arg("--").arg(prefix.join("lib64")).env("LD_LIBRARY_PATH", prefix.join("lib64"));
        let said = shell::output(doctor.env_remove("FERRY_LIBRARY"))?;
        if !said.contains("the library is in an installed tree") || !said.contains("libhccl.so") {
            return Err(format!("ferry doctor does not see the tree:\n{said}"));
        }
        Ok(())
    }

    /// A tree that was moved satisfies the rules by which public programs find a toolkit: with its set_env.sh
    /// sourced in each shell, and under its `ferry run`. Says which shells are not there.
    fn as_a_toolkit(&self, tree: &Tree) -> Result<Vec<String>, String> {
        let (first, moved) = (self.scratch.join("first"), self.scratch.join("moved to"));
        super::put(tree, &first.join("ascend-toolkit/latest"))?;
        std::fs::rename(&first, &moved).map_err(|e| format!("{}: {e}", moved.display()))?;
        // `ferry run` names the tree by its real path.
        let moved = moved.canonicalize().map_err(|e| format!("{}: {e}", moved.display()))?;
        let home = moved.join("ascend-toolkit/latest");
        if !shell::exists("python3") {
            return Ok(vec!["python3 is not installed: the rules of clients were not tried".into()]);
        }
        let run = |mut command: Command, quick: Option<&str>| {
            command.arg(self.root.join("tests/dist/rules.py")).args([&home, &moved]).args(quick);
            command
                .env("PYTHONPATH", "/was/there")
                .env_remove("CMAKE_PREFIX_PATH")
                .env("LD_LIBRARY_PATH", "");
            shell::output(command.env_remove("FERRY_CANN_VERSION").env("PYTHONDONTWRITEBYTECODE", "1"))
        };
        let mut missing = Vec::new();
        for (shell, file, quick) in SHELLS {
            if !shell::exists_with(shell, &["-c", ":"]) && shell::apt_get(shell, shell).is_err() {
                missing.push(format!("{shell} is not installed: set_env.sh was not tried in it"));
                continue;
            }
            let mut command = Command::new(shell);
            command.args(["-euc", ". \"$1\" && shift && exec python3 \"$@\"", shell]).arg(home.join(file));
            print!("{shell}: {}", run(command, quick)?);
        }
        let mut ferry = Command::new(home.join("bin/ferry"));
        ferry.args(["run", "--", "python3"]).env_remove("FERRY_LIBRARY");
        print!("ferry run: {}", run(ferry, Some("quick"))?);
        Ok(missing)
    }

    fn by_pkg_config(&self, tool: &Path) -> Result<(), String> {
        let ask = |words: &[&str]| {
            let mut command = Command::new(tool);
            command.args(words).arg("ascendcl").env("PKG_CONFIG_PATH", self.dist.join("lib/pkgconfig"));
            shell::output(&mut command).map(|said| said.trim().to_owned())
        };
        let version = ask(&["--modversion"])?;
        if version != env!("CARGO_PKG_VERSION") {
            return Err(format!("pkg-config says version {version}"));
        }
        let flags = ask(&["--cflags", "--libs"])?;
        let rpath = format!("-Wl,-rpath,{}", shell::words(&ask(&["--variable=libdir"])?).concat());
        let build = |source: &Path| {
            let program = self.scratch.join("pkg-config").join(source.file_stem().unwrap_or_default());
            std::fs::create_dir_all(program.parent().unwrap_or(self.scratch)).map_err(|e| e.to_string())?;
            let mut gcc = shell::program(self.root, "gcc");
            gcc.args(FLAGS).arg(source).args(shell::words(&flags)).args([&rpath, "-ldl", "-o"]).arg(&program);
            shell::run(&mut gcc)?;
            Ok::<_, String>(program)
        };
        for source in self.examples()? {
            self.try_program(&build(&source)?, None)?;
        }
        let names = build(&self.root.join("tests/dist/names.c"))?;
        self.try_program(&names, Some(self.dist.as_os_str()))
    }

    fn by_cmake(&self, tool: &Path, generator: &[String]) -> Result<(), String> {
        let mut versions = shell::program(self.root, &tool.to_string_lossy());
        let file = self.dist.join("lib/cmake/AscendCL/AscendCLConfigVersion.cmake");
        shell::run(
            versions.arg(format!("-DFILE={}", file.display())).args(["-P", "tests/dist/versions.cmake"]),
        )?;
        let build = self.scratch.join("cmake");
        let mut configure = shell::program(self.root, &tool.to_string_lossy());
        configure.arg("-S").arg("examples/c").arg("-B").arg(&build).args(generator);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", self.dist.display()));
        configure.arg(format!("-DCMAKE_C_FLAGS={}", FLAGS[1..].join(" ")));
        shell::run(configure.stdout(Stdio::null()))?;
        let mut make = shell::program(self.root, &tool.to_string_lossy());
        shell::run(make.arg("--build").arg(&build).args(["--parallel", "2"]))?;
        for source in self.examples()? {
            self.try_program(&build.join(source.file_stem().unwrap_or_default()), None)?;
        }
        Ok(())
    }

    /// The sources of the examples, in order.
    fn examples(&self) -> Result<Vec<PathBuf>, String> {
        let folder = self.root.join("examples/c");
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut sources: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        sources.retain(|path| path.extension().is_some_and(|kind| kind == "c"));
        sources.sort();
        if sources.is_empty() { Err("there are no examples".into()) } else { Ok(sources) }
    }

    /// Runs one; its last line must begin with `ok:`, and it must have used the library in `dist/`.
    fn try_program(&self, program: &Path, argument: Option<&OsStr>) -> Result<(), String> {
        // A safety net: one that hangs has to end somehow.
        let mut command = Command::new("timeout");
        command.arg("120").arg(program);
        // cargo's own library path would decide instead of the program's.
        command.env_remove("LD_LIBRARY_PATH").env("FERRY_VERBOSE", "1").args(argument);
        let out = command.output().map_err(|e| format!("{}: {e}", program.display()))?;
        let (said, complaints) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        let last = said.lines().last().unwrap_or_default();
        println!("{}: {last}", program.display());
        let library = library_of(&complaints).and_then(|path| path.canonicalize().ok());
        let ours = self.dist.join("lib/libascendcl.so").canonicalize().ok();
        if out.status.success() && last.starts_with("ok:") && library == ours {
            return Ok(());
        }
        let name = program.display();
        Err(format!("{name} ended with {}, library {library:?}:\n{said}\n{complaints}", out.status))
    }
}

/// The path at the end of the line that FERRY_VERBOSE asks for.
fn library_of(said: &str) -> Option<&Path> {
    said.lines().find_map(|line| Some(Path::new(line.strip_prefix("ferry ")?.split_once(" library ")?.1)))
}
