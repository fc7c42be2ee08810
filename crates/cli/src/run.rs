//! `ferry run -- prog args`: an unmodified program finds our library wherever it looks for AscendCL's.
//!
//! The dynamic loader does the work: our file is preloaded, and a folder in which both names AscendCL has had
//! lead to it comes first in the search path, so that `dlopen` by name finds it too. If the library is
//! installed, the variables that say where a toolkit is name its tree, as `set_env.sh` would. Here the
//! program is only started, waited for, sent the signals that come, and given a line when it was killed. The
//! line about a device pointer that the CPU touched comes from the library inside the program
//! (FERRY_FAULT_NOTE), which alone knows what the address was.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};

use ferry_abi::{Error, Result, library};
use ferry_terminal::tell;

use crate::machine::ProgramMachine;
use crate::prefix::{Prefix, before};
use crate::seeds::{self, SeedRun};

use signals::Signals;

mod signals;

/// Options of `ferry run`.
#[derive(clap::Args)]
#[command(override_usage = "ferry run [OPTIONS] -- PROGRAM [ARGUMENTS]...")]
#[command(after_help = "Example: copies run only when they are waited for, and the third one fails:\n\
\x20 ferry run --schedule late --fault 'copy#3=507013' -- ./prog\n\
\n\
Exit code: the program's own; 128 + signal when a signal killed it; 125 when the library \
is\n\
missing; 126 when the program cannot be started; 127 when there is no such program.")]
pub struct RunArgs {
    #[command(flatten)]
    machine: ProgramMachine,
    /// Run the program so often, each time in another random order of work, and say which seeds failed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Starts the program and answers with its exit code.
pub fn main(args: &RunArgs) -> ExitCode {
    let once = |more: &[_]| start(&args.machine, &args.command, more)?.wait("run");
    let end = match args.seeds {
        None => once(&[]),
        Some(count) => seeds::run_all("run", count, args.machine.has_schedule(), |more| {
            let end = once(more)?;
            Ok(SeedRun { end, has_failed: end.code != 0, is_asked_to_end: end.is_asked_to_end })
        }),
    };
    match end {
        Ok(end) => ExitCode::from(end.code),
        Err(failure) => not_started("run", failure),
    }
}

/// Says why the command of this name could not run a program, and what it exits with.
pub fn not_started(command: &str, (code, error): StartFailure) -> ExitCode {
    tell(&format!("ferry {command}: {error}\n"));
    ExitCode::from(code)
}

/// The failure of a command that does not start its program, since it could not write what it sees.
pub fn unwritable(path: &Path, error: &io::Error) -> StartFailure {
    (125, Error::Setup(format!("cannot write {}: {error}", path.display())))
}

/// A code to exit with, and why.
pub type StartFailure = (u8, Error);

/// A program that was started. The calling thread has blocked the signals that are passed on to it.
pub struct StartedProgram {
    program: OsString,
    child: Child,
    signals: Signals,
    /// Where it finds the library.
    _names: Names,
}

/// How a program ended.
#[derive(Clone, Copy)]
pub struct ProgramEnd {
    /// Its exit code, or 128 and the signal that killed it.
    pub code: u8,
    /// Whether a signal killed it.
    pub is_killed: bool,
    /// Whether that signal was sent to this command, too: somebody stopped both.
    pub is_stopped: bool,
    /// Whether this command was sent a signal that asks programs to end, whatever the program made of it.
    pub is_asked_to_end: bool,
}

/// Starts a program with the library and these variables more.
pub fn start(
    machine: &ProgramMachine,
    program_and_arguments: &[OsString],
    more: &[(&str, OsString)],
) -> std::result::Result<StartedProgram, StartFailure> {
    let library = library::find().map_err(|error| (125, error))?;
    let prefix = Prefix::of(&library);
    let names = Names::of(library).map_err(|error| (125, error))?;
    let signals = Signals::block();
    let program = &program_and_arguments[0];
    let mut command = Command::new(program);
    for left_out in prefix.iter().map(Prefix::left_out).filter(|names| !names.is_empty()) {
        let names = left_out.join(", ");
        eprintln!("ferry: {names}: not set, since the tree's name has a colon or a semicolon; move the tree");
    }
    let mut variables: BTreeMap<&str, OsString> = BTreeMap::new();
    variables.extend(prefix.iter().flat_map(Prefix::variables));
    let mut put_before = |name, value: &OsStr| {
        let rest = variables.remove(name).or_else(|| std::env::var_os(name));
        variables.insert(name, before(value, rest));
    };
    put_before("LD_PRELOAD", names.library().as_os_str());
    put_before("LD_LIBRARY_PATH", names.folder.as_os_str());
    command.args(&program_and_arguments[1..]).envs(variables).envs(machine.variables());
    command.env("FERRY_FAULT_NOTE", "1").envs(more.iter().cloned());
    // SAFETY: between fork and exec it only makes the one system call that gives the program its signals
    // back.
    unsafe { command.pre_exec(move || signals.restore()) };
    let child = command.spawn().map_err(|error| {
        let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
        (code, Error::Setup(format!("{}: {error}", Path::new(program).display())))
    })?;
    Ok(StartedProgram { program: program.clone(), child, signals, _names: names })
}

impl StartedProgram {
    /// Waits for the program, passing on the signals that arrive meanwhile, and says its exit code. In
    /// messages it is the command of this name that waits.
    pub fn wait(mut self, command: &str) -> std::result::Result<ProgramEnd, StartFailure> {
        let mut sent = Vec::new();
        let status = self.status(&mut sent).map_err(|error| (125, Error::Setup(error.to_string())))?;
        let code = verdict(command, &self.program, status);
        let is_ours = |signal| sent.contains(&signal) || Signals::is_pending(signal);
        let is_stopped = status.signal().is_some_and(is_ours);
        let is_asked_to_end = signals::ENDING.into_iter().any(is_ours);
        Ok(ProgramEnd { code, is_killed: status.signal().is_some(), is_stopped, is_asked_to_end })
    }

    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// How it ended. Signals that arrive meanwhile are put into `sent`.
    fn status(&mut self, sent: &mut Vec<i32>) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            sent.extend(self.signals.pass_next_to(self.child.id()));
        }
    }
}

/// The exit code, and the line that says how the program ended if a signal ended it.
fn verdict(command: &str, program: &OsStr, status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        let name = signals::name(signal).map(|name| format!(" ({name})")).unwrap_or_default();
        let core = if status.core_dumped() { ", core dumped" } else { "" };
        let program = Path::new(program).display();
        tell(&format!("ferry {command}: {program} was killed by signal {signal}{name}{core}\n"));
        return 128 + signal as u8;
    }
    status.code().unwrap_or_default() as u8
}

/// A folder in which both names of the library lead to one file.
struct Names {
    folder: PathBuf,
    private: bool,
}

impl Names {
    /// The library's own folder if the second name is there or can be put there, else one made for this run.
    fn of(library: PathBuf) -> Result<Names> {
        let folder = library.parent().unwrap_or(Path::new("/")).to_owned();
        let usable = library.ends_with("libascendcl.so") && !breaks_a_list(&folder);
        if usable && second_name(&folder, &library) {
            return Ok(Names { folder, private: false });
        }
        Names::private(&library)
            .map_err(|error| Error::Setup(format!("cannot make a folder of names: {error}")))
    }

    fn private(library: &Path) -> std::io::Result<Names> {
        let names = Names { folder: fresh_folder()?, private: true };
        for name in ["libascendcl.so", "libacl_rt.so"] {
            std::os::unix::fs::symlink(library, names.folder.join(name))?;
        }
        Ok(names)
    }

    fn library(&self) -> PathBuf {
        self.folder.join("libascendcl.so")
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        if self.private {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// A new folder that only this user can write. One with our number may be left over from a run that was
/// killed.
pub fn fresh_folder() -> std::io::Result<PathBuf> {
    let mut outcome = Err(ErrorKind::AlreadyExists.into());
    let within = Some(std::env::temp_dir()).filter(|folder| !breaks_a_list(folder)).unwrap_or("/tmp".into());
    for attempt in 0..100 {
        let folder = within.join(format!("ferry-run-{}-{attempt}", std::process::id()));
        outcome = DirBuilder::new().mode(0o700).create(&folder).map(|()| folder);
        if !matches!(&outcome, Err(error) if error.kind() == ErrorKind::AlreadyExists) {
            break;
        }
    }
    outcome
}

/// Makes sure that `libacl_rt.so` in `folder` is `library`; false if it is something else or cannot be made.
fn second_name(folder: &Path, library: &Path) -> bool {
    let second = folder.join("libacl_rt.so");
    // Relative, so that the pair survives being moved together. A race with another run ends the same way.
    let _ = std::os::unix::fs::symlink("libascendcl.so", &second);
    second.canonicalize().is_ok_and(|target| target == library)
}

/// The loader splits its lists at colons, LD_PRELOAD at blanks too and LD_LIBRARY_PATH at semicolons, and
/// puts other words in place of those that follow a `$`; there is no way to escape any of it.
fn breaks_a_list(folder: &Path) -> bool {
    folder.as_os_str().as_bytes().iter().any(|byte| b":; \t\n$".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_the_loader_would_split_is_not_used() {
        for (folder, want) in
            [("/opt/ferry/lib", false), ("/my libs", true), ("/a:b", true), ("/a;b", true), ("/$LIB", true)]
        {
            assert_eq!(breaks_a_list(Path::new(folder)), want, "{folder}");
        }
    }
}
