//! The conformance suite on the cuda backend: packed for a machine with a GPU, or run here over the stand-in
//! for its driver.
//!
//! Packing builds every test program and gathers what they read where they were built; `tests/device/run.py`
//! runs the pack there and needs nothing of this repository. Which tests a GPU cannot pass is not decided
//! here: `tests/device/differences` has them, with reasons.

mod module;

use std::fs;
use std::path::{Path, PathBuf};

use crate::outcome::Outcome;
use crate::shell::{self, cargo};
use crate::tools;

/// Tests that need a process of their own: they break the GPU, or want its addresses for themselves.
const ALONE: &[&str] = &["memory_given_back_is_unknown", "a_lost_gpu_fails_every_call_and_hangs_none"];
/// Test programs without the harness of Rust's tests.
const PLAIN: &[&str] = &["fork"];
/// The tests: the backend's own, those through the C library, and those of the Rust API, less what only
/// compiles or reads.
const TESTS: &[&str] = &[
    "-p ferry-backends --test cuda --test wrapped",
    "-p ferry-tests --tests",
    "-p ferry --test api --test done_right --test examples --test nested --test tasks --test tasks_many",
];
/// Tests of the Python module that look at its text only, or at what the suite does not carry.
const NOT_RUN: &[&str] = &["test_docs.py", "test_stubs.py", "test_torch_npu.py"];
/// What the programs read where they were built.
const SOURCES: &[&str] =
    &["include", "crates/companions", "tests/c", "tests/clients", "tests/device", "tests/python", "examples"];
/// What a machine with a GPU takes.
const MOST_BYTES: u64 = 40 << 20;

/// What run.py is to run.
struct Program {
    name: String,
    path: PathBuf,
    /// Further fields of its line.
    more: String,
}

/// Runs the suite over the stand-in. It says nothing about any GPU.
pub fn stand_in(root: &Path) -> Result<Outcome, String> {
    let folder = shell::target_dir(root).join("standin");
    shell::run(shell::program(root, "sh").arg("tests/standin/build.sh").arg(&folder))?;
    println!("device: stand-in, a library of ours in place of the CUDA driver; no GPU is used");
    let programs = build(root, "dev")?;
    module::assemble(root, &shell::target_dir(root).join("debug"), &folder.join("python"))?;
    write(&folder.join("suite.json"), &describe(root, &programs))?;
    let mut run = shell::program(root, "python3");
    run.args(["tests/device/run.py", "--pack", "", "--differences", "tests/device/differences"]);
    run.args(["--limit", "300", "--within", "1800", "--folder"]).arg(&folder);
    if let Ok(venv) = tools::python(root).and_then(|venv| venv.need(&["numpy", "pytest"]).map(|()| venv)) {
        run.arg("--python").arg(venv.program("python3"));
    }
    // Both, since some tests start programs with a library path or a preloaded library of their own.
    // By a name without blanks, at which the loader splits the first.
    let name = std::env::temp_dir().join(format!("ferry-standin-{}", std::process::id()));
    let _ = fs::remove_file(&name);
    std::os::unix::fs::symlink(&folder, &name).map_err(|e| format!("{}: {e}", name.display()))?;
    run.env("LD_PRELOAD", name.join("libcuda.so.1")).env("LD_LIBRARY_PATH", &name);
    let ran = shell::run(&mut run);
    let _ = fs::remove_file(&name);
    ran.map(|()| Outcome::Passed)
}

/// Packs the suite into `target/device`: run.py there unpacks and runs it.
pub fn pack(root: &Path) -> Result<(), String> {
    let target = shell::target_dir(root);
    let (folder, suite) = (target.join("device"), target.join("device/suite"));
    let _ = fs::remove_dir_all(&suite);
    let mut programs = build(root, "suite")?;
    for program in &mut programs {
        if let Ok(path) = program.path.strip_prefix(&target) {
            program.path = Path::new("target").join(path);
        }
    }
    let library = Path::new("target/suite/deps/libascendcl.so");
    let examples = examples(root)?.into_iter().map(|name| Path::new("target/suite/examples").join(name));
    let programs_there = programs.iter().map(|program| program.path.clone());
    for path in
        programs_there.filter(|path| path.starts_with("target")).chain([library.into()]).chain(examples)
    {
        copy(root, &target.join(path.strip_prefix("target").unwrap_or(&path)), &suite.join(&path))?;
    }
    for source in SOURCES {
        copy(root, Path::new(source), &suite.join(source))?;
    }
    module::assemble(root, &target.join("suite"), &suite.join("python"))?;
    // The way to the examples, as their test goes it.
    make(&suite.join("crates/ferry"))?;
    write(&suite.join("suite.json"), &describe(root, &programs))?;
    close(root, &folder)
}

fn close(root: &Path, folder: &Path) -> Result<(), String> {
    let pack = folder.join("suite.tar.xz");
    let mut tar = shell::program(root, "tar");
    tar.args(["--use-compress-program=xz -9 -T1", "--exclude=__pycache__", "-cf"]).arg(&pack);
    shell::run(tar.arg("-C").arg(folder.join("suite")).arg("."))?;
    copy(root, Path::new("tests/device/run.py"), &folder.join("run.py"))?;
    let bytes = fs::metadata(&pack).map_err(|e| format!("{}: {e}", pack.display()))?.len();
    println!("{}: {:.1} MiB", pack.display(), bytes as f64 / f64::from(1 << 20));
    if bytes <= MOST_BYTES { Ok(()) } else { Err(format!("more than {MOST_BYTES} bytes")) }
}

/// Builds the programs with a profile of cargo's, and what they run.
fn build(root: &Path, profile: &str) -> Result<Vec<Program>, String> {
    let folder = shell::target_dir(root).join(if profile == "dev" { "debug" } else { profile });
    let all = format!("build --profile {profile} -p ferry-capi -p ferry-cli -p ferry-py");
    shell::run(&mut cargo(root, &all))?;
    shell::run(&mut cargo(root, &format!("build --profile {profile} -p ferry --examples")))?;
    let mut programs = Vec::new();
    for tests in TESTS {
        let words = format!("test --profile {profile} {tests} --no-run --message-format=json");
        programs.extend(shell::output(&mut cargo(root, &words))?.lines().filter_map(executable));
    }
    if let Some(cuda) = programs.iter().find(|program| program.name == "cuda").map(|cuda| cuda.path.clone()) {
        programs.extend(ALONE.iter().map(|test| alone(test, &cuda)));
        // All over again, with every stream shared with other libraries.
        let more = r#", "environment": {"FERRY_TEST_SHARED": "1"}"#;
        programs.push(Program { name: "cuda-shared".into(), path: cuda, more: more.into() });
    }
    programs.push(Program {
        name: "ferry-tour".into(),
        path: folder.join("ferry"),
        more: r#", "kind": "plain", "arguments": ["tour", "--quick"]"#.into(),
    });
    programs.push(Program {
        name: "torch-streams".into(),
        path: "tests/device/torch_streams.py".into(),
        more: r#", "kind": "script", "arguments": ["python/acl/lib/libascendcl.so"]"#.into(),
    });
    programs.extend(python_tests(root)?);
    Ok(programs)
}

/// The program that a line of cargo's tells of, called as its test: cargo puts a number behind that.
fn executable(line: &str) -> Option<Program> {
    let path = PathBuf::from(line.split_once("\"executable\":\"")?.1.split_once('"')?.0);
    let (name, _) = path.file_name()?.to_str()?.rsplit_once('-')?;
    let more = if PLAIN.contains(&name) { r#", "kind": "plain""# } else { "" };
    (name != "ferry_tests").then(|| Program { name: name.to_owned(), path: path.clone(), more: more.into() })
}

fn alone(test: &str, path: &Path) -> Program {
    let (name, more) = (format!("cuda-alone-{test}"), format!(", \"alone\": {test:?}"));
    Program { name, path: path.into(), more }
}

fn python_tests(root: &Path) -> Result<Vec<Program>, String> {
    let is_run = |name: &String| name.starts_with("test_") && !NOT_RUN.contains(&name.as_str());
    let files = names(&root.join("tests/python"), ".py")?.into_iter().map(|stem| stem + ".py").filter(is_run);
    let program = |file: String| Program {
        name: format!("python-{}", file.trim_end_matches(".py")),
        path: Path::new("tests/python").join(file),
        more: r#", "kind": "python""#.into(),
    };
    Ok(files.map(program).collect())
}

fn examples(root: &Path) -> Result<Vec<String>, String> {
    names(&root.join("examples/rust"), ".rs")
}

/// The names of files in a folder that end like this, without that.
fn names(folder: &Path, end: &str) -> Result<Vec<String>, String> {
    let files = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let name = |file: fs::DirEntry| file.file_name().to_str()?.strip_suffix(end).map(str::to_owned);
    let mut names: Vec<String> = files.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// What run.py reads.
fn describe(root: &Path, programs: &[Program]) -> String {
    let entry =
        |Program { name, path, more }: &Program| format!("{{\"name\": {name:?}, \"path\": {path:?}{more}}}");
    let entries: Vec<String> = programs.iter().map(entry).collect();
    let tmp = shell::target_dir(root).join("tmp");
    format!("{{\"root\": {root:?}, \"tmp\": {tmp:?}, \"programs\": [\n{}\n]}}\n", entries.join(",\n"))
}

/// Copies a file or a folder to a place whose folder may not be there yet.
fn copy(root: &Path, from: &Path, to: &Path) -> Result<(), String> {
    make(to.parent().unwrap_or(to))?;
    shell::run(shell::program(root, "cp").arg("-rL").arg(from).arg(to))
}

fn make(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_docs_say_why_tests_are_skipped() {
        let docs = include_str!("../../docs/cuda.md");
        let list = include_str!("../../tests/device/differences");
        for line in list.lines().filter(|line| !line.starts_with('#')) {
            let (what, reason) = line.split_once(": ").expect("program test: reason");
            assert_eq!(what.split(' ').count(), 2, "{what}: a program and a test");
            assert!(docs.contains(reason), "docs/cuda.md does not say: {reason}");
        }
    }
}
