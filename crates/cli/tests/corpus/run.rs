//! Builds twins and runs them: under `ferry check`, or without it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use crate::command::{ferry, output, text};
use crate::judge::{Run, findings, judge};
use crate::standin::stand_in;
use crate::twin::{Language, Twin};

/// The variable that names a Python which has the module `acl` and NumPy. Without it twins in Python are left
/// out.
pub const PYTHON: &str = "FERRY_CHECK_PYTHON";
/// What is said of the cuda backend.
const LEFT_OUT: &str =
    "accesses of the CPU to memory in flight: they are the host backend's, and this is cuda";
/// A safety net and no measurement: nothing but the tour takes a tenth of it.
const SECONDS: &str = "600";

/// The top of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("a folder of the workspace")
}

/// A folder of this test's own.
pub fn folder() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("corpus");
    fs::create_dir_all(&folder).expect("a writable target folder");
    folder
}

/// A number that nobody else who runs tests has.
fn number() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    u64::from(std::process::id()) << 32 | NEXT.fetch_add(1, Ordering::Relaxed) as u64
}

/// How accesses of the CPU are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Each one, with its line.
    Lines,
    /// By what they leave behind, which needs no privileges.
    Traces,
    /// Not at all: the cuda backend, over the stand-in for its driver, has facts alone.
    Facts,
}

impl Sight {
    /// What this user may have: the privileged form of userfaultfd is for root, or for all where the
    /// administrator has said so.
    pub fn of_this_user() -> Sight {
        // SAFETY: takes nothing and touches no memory.
        let is_root = unsafe { libc::geteuid() } == 0;
        let allowed = fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd");
        let is_allowed = allowed.is_ok_and(|text| text.trim() == "1");
        if is_root || is_allowed { Sight::Lines } else { Sight::Traces }
    }

    fn options(self) -> &'static [&'static str] {
        match self {
            Sight::Lines => &[],
            Sight::Traces => &["--unprivileged"],
            Sight::Facts => &["--backend", "cuda"],
        }
    }
}

/// Whether this machine can run the file, or why not.
pub fn can_run(twin: &Twin) -> Result<(), String> {
    match twin.language == Language::Python && python().is_none() {
        true => Err(format!("{PYTHON} names no Python")),
        false => Ok(()),
    }
}

/// Runs both twins of a file under the checker; a row for each difference.
pub fn check(twin: &Twin, sight: Sight) -> Vec<String> {
    // What cannot be seen is not run, but where that has to be said. The stand-in does not keep pages that
    // the program unmaps.
    let unmaps = twin.needs_userfaultfd && !twin.is_access();
    let is_seen = match sight {
        Sight::Lines => true,
        Sight::Traces => !twin.needs_userfaultfd,
        Sight::Facts => !unmaps,
    };
    let runs = [false, true].into_iter().filter(|is_fixed| *is_fixed || is_seen);
    runs.flat_map(|is_fixed| check_one(twin, is_fixed, sight)).collect()
}

fn check_one(twin: &Twin, is_fixed: bool, sight: Sight) -> Vec<String> {
    let command = match program(twin, is_fixed) {
        Ok(command) => command,
        Err(why) => return vec![row(twin, is_fixed, "a program", &why)],
    };
    let more = sight.options().iter().map(|option| (*option).to_owned());
    let options: Vec<String> = twin.options.iter().cloned().chain(more).collect();
    let (exit, json, said) = checked(twin.name(), &options, &command, is_fixed);
    // Of what nobody sees nothing is said, as of the fixed twin.
    let is_unseen = sight == Sight::Facts && twin.needs_sight() && !is_fixed;
    let exit = if is_unseen && exit == twin.exit { 0 } else { exit };
    let is_silent = is_fixed || is_unseen;
    let faults = judge(twin, &Run { is_fixed: is_silent, exit, json, has_lines: sight == Sight::Lines });
    let mut rows: Vec<String> =
        faults.iter().map(|fault| row(twin, is_fixed, &fault.expected, &fault.given)).collect();
    if sight == Sight::Facts && said.matches(LEFT_OUT).count() != 1 {
        rows.push(row(twin, is_fixed, "one line about what is left out", "none, or several"));
    }
    if !rows.is_empty() {
        rows.push(said);
    }
    rows
}

/// Runs a program that makes no mistake under the checker, with these options; what is wrong if it is
/// reported.
pub fn check_silent(command: &[PathBuf], options: &[String]) -> Result<(), String> {
    // Of an interpreter and its program the latter; options are no files.
    let program = command.iter().rfind(|path| path.is_file()).and_then(|path| path.file_name());
    let name = program.unwrap_or_default().to_string_lossy();
    let (exit, json, said) = checked(&name, options, command, true);
    let found = findings(&json).map_err(|why| format!("{name}: {why}\n{said}"))?;
    let is_silent = found.is_empty() && exit == 0;
    if is_silent { Ok(()) } else { Err(format!("{name}: {} findings\n{said}", found.len())) }
}

/// The exit code, the JSON and what was said.
fn checked(name: &str, options: &[String], command: &[PathBuf], is_fixed: bool) -> (i32, String, String) {
    let json = folder().join(format!("{name}{}.{}.json", if is_fixed { "-fixed" } else { "" }, number()));
    let mut check = limited();
    if options.iter().any(|option| option == "cuda") {
        check.env("LD_LIBRARY_PATH", stand_in()).env("STANDIN_DEVICES", "2");
    }
    check.arg("check").args(options).arg("--json").arg(&json).arg("--").args(command);
    let said = output(&mut check);
    let found = fs::read_to_string(&json).unwrap_or_default();
    let _ = fs::remove_file(&json);
    (exit(&said), found, heard(&said))
}

/// Runs a twin without the checker; an error unless it ends as its head says.
pub fn run_plain(twin: &Twin, is_fixed: bool) -> Result<(), String> {
    let command = program(twin, is_fixed)?;
    let said = output(limited().args(["run", "--"]).args(command));
    let want = if is_fixed { 0 } else { twin.exit };
    match exit(&said) == want {
        true => Ok(()),
        false => Err(row(twin, is_fixed, &format!("exit code {want}"), &heard(&said))),
    }
}

fn row(twin: &Twin, is_fixed: bool, expected: &str, given: &str) -> String {
    let which = if is_fixed { "fixed" } else { "buggy" };
    format!("{:32} {which}  expected {expected:40} given {given}", twin.name())
}

/// The page of `ferry check --report` for the program of a twin that has the mistake.
pub fn page(twin: &Twin) -> String {
    let command = program(twin, false).unwrap_or_else(|why| panic!("{}: {why}", twin.name()));
    let report = folder().join(format!("{}.{}", twin.name(), number()));
    let said = output(limited().args(["check", "--report"]).arg(&report).arg("--").args(command));
    let page = fs::read_to_string(report.join("index.html"));
    let _ = fs::remove_dir_all(&report);
    page.unwrap_or_else(|error| panic!("{}: {error}: {}", twin.name(), heard(&said)))
}

/// The command, ended by force if it hangs; its variables are those of `ferry`.
fn limited() -> Command {
    let plain = ferry(&[]);
    let mut command = Command::new("timeout");
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.args(["-k", "5", SECONDS]).arg(plain.get_program());
    command
}

fn exit(said: &Output) -> i32 {
    said.status.code().unwrap_or(-1)
}

fn heard(said: &Output) -> String {
    format!("exit code {}\n{}{}", exit(said), text(&said.stdout), text(&said.stderr))
}

/// How a twin is started, built first if it has to be.
fn program(twin: &Twin, is_fixed: bool) -> Result<Vec<PathBuf>, String> {
    if twin.language == Language::Python {
        let words = [python().ok_or("no Python")?, twin.path.clone()];
        return Ok(words.into_iter().chain(is_fixed.then(|| "fixed".into())).collect());
    }
    let flags = twin.flags.iter().map(String::as_str).chain(is_fixed.then_some("-DFIXED"));
    build(&twin.path, &flags.collect::<Vec<_>>()).map(|program| vec![program])
}

/// The examples in Rust, built as the command was.
pub fn rust_examples() -> Vec<PathBuf> {
    let built = Path::new(env!("CARGO_BIN_EXE_ferry")).parent().expect("a folder of cargo's");
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.args(["build", "--quiet", "--package", "ferry", "--examples"]).current_dir(root());
    cargo.args(built.ends_with("release").then_some("--release"));
    let said = output(&mut cargo);
    assert!(said.status.success(), "{}", heard(&said));
    let sources = fs::read_dir(root().join("examples/rust")).expect("a readable folder");
    let names = sources.map(|entry| entry.expect("a readable folder").path());
    let programs = names.filter(|path| path.extension().is_some_and(|end| end == "rs"));
    programs.map(|path| built.join("examples").join(path.file_stem().expect("a name"))).collect()
}

/// The test programs of the conformance suite, with their names, as cargo builds them.
pub fn conformance_suites() -> Vec<(String, PathBuf)> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.args(["test", "--no-run", "--package", "ferry-tests", "--tests", "--message-format", "json"]);
    let said = output(cargo.current_dir(root()));
    assert!(said.status.success(), "{}", heard(&said));
    let lines = text(&said.stdout);
    let built = lines.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let test = |built: serde_json::Value| {
        let is_test = built["target"]["kind"][0] == "test";
        let name = built["target"]["name"].as_str()?.to_owned();
        is_test.then_some((name, built["executable"].as_str()?.into()))
    };
    built.filter_map(test).collect()
}

/// Compiles a C or C++ program against our headers and the library that was built with the command.
pub fn build(source: &Path, flags: &[&str]) -> Result<PathBuf, String> {
    type Built = Arc<OnceLock<Result<PathBuf, String>>>;
    // Once: one test may be running what another one wants, and stacks have no names of a file that is gone.
    static BUILT: Mutex<BTreeMap<(PathBuf, String), Built>> = Mutex::new(BTreeMap::new());
    let key = (source.to_owned(), flags.concat());
    let built = BUILT.lock().expect("no panic").entry(key).or_default().clone();
    built.get_or_init(|| compile(source, flags)).clone()
}

fn compile(source: &Path, flags: &[&str]) -> Result<PathBuf, String> {
    let is_cxx = source.extension().is_some_and(|end| end == "cc");
    let (compiler, standard) = if is_cxx { ("g++", "-std=c++17") } else { ("gcc", "-std=c11") };
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = folder().join(format!("{name}{}.out", flags.concat()));
    // Under another name first: another run of the tests may be running it.
    let fresh = program.with_extension(number().to_string());
    let library = Path::new(env!("CARGO_BIN_EXE_ferry")).with_file_name("deps");
    let mut command = Command::new(compiler);
    command.args([standard, "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-pthread"]).args(flags);
    command.arg("-I").arg(root().join("include")).arg(source);
    command.arg("-L").arg(library).args(["-lascendcl", "-o"]).arg(&fresh);
    let said = output(&mut command);
    if !said.status.success() {
        return Err(text(&said.stderr));
    }
    fs::rename(&fresh, &program).map(|()| program).map_err(|error| error.to_string())
}

/// The Python that is named for the twins in Python.
pub fn python() -> Option<PathBuf> {
    std::env::var_os(PYTHON).filter(|python| !python.is_empty()).map(PathBuf::from)
}

/// Does something with each of these, on as many threads as there are processors; what came of them.
pub fn in_parallel<T: Sync, R: Send>(all: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, threads) = (AtomicUsize::new(0), thread::available_parallelism().map_or(2, Into::into));
    let work = || {
        let indexes = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
        indexes.map(&each).collect::<Vec<R>>()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    })
}
