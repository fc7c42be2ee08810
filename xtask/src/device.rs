//! The conformance suite on the cuda backend: packed for a machine with a GPU, or run here over the stand-in for its driver.

use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{self, cargo};
use crate::steps::Outcome;

/// Tests that need a process of their own: they break the GPU, or want its addresses for themselves.
const ALONE: &[&str] = &["memory_given_back_is_unknown", "a_lost_gpu_fails_every_call_and_hangs_none"];
/// Test programs without the harness of Rust's tests.
const PLAIN: &[&str] = &["fork"];
/// What the programs read where they were built.
const SOURCES: &[&str] = &["include", "tests/c", "tests/device", "examples/c"];
/// What a machine with a GPU takes.
const MOST_BYTES: u64 = 30 << 20;

struct Program {
    name: String,
    path: PathBuf,
}

/// Runs the suite over the stand-in. It says nothing about any GPU.
pub fn stand_in(root: &Path) -> Result<Outcome, String> {
    let folder = shell::target_dir(root).join("standin");
    shell::run(shell::program(root, "sh").arg("tests/standin/build.sh").arg(&folder))?;
    println!("device: stand-in, a library of ours in place of the CUDA driver; no GPU is used");
    let programs = build(root)?;
    write(&folder.join("suite.json"), &describe(root, &programs))?;
    let mut run = shell::program(root, "python3");
    run.args(["tests/device/run.py", "--pack", "", "--differences", "tests/device/differences", "--folder"]);
    // Preloaded, since some tests start programs with a library path of their own.
    shell::run(run.arg(&folder).env("LD_PRELOAD", folder.join("libcuda.so.1")))?;
    Ok(Outcome::Passed)
}

/// Packs the suite into `target/device`: run.py there unpacks and runs it.
pub fn pack(root: &Path) -> Result<(), String> {
    let folder = shell::target_dir(root).join("device");
    let suite = folder.join("suite");
    let _ = fs::remove_dir_all(&suite);
    let deps = suite.join("target/debug/deps");
    make(&deps)?;
    let mut programs = build(root)?;
    for program in &mut programs {
        strip(root, &program.path, &deps.join(&program.name))?;
        program.path = Path::new("target/debug/deps").join(&program.name);
    }
    strip(root, &shell::target_dir(root).join("debug/libascendcl.so"), &deps.join("libascendcl.so"))?;
    for source in SOURCES {
        make(suite.join(source).parent().unwrap_or(&suite))?;
        shell::run(shell::program(root, "cp").arg("-r").arg(source).arg(suite.join(source)))?;
    }
    write(&suite.join("suite.json"), &describe(root, &programs))?;
    close(root, &folder)
}

fn close(root: &Path, folder: &Path) -> Result<(), String> {
    let pack = folder.join("suite.tar.xz");
    let mut tar = shell::program(root, "tar");
    tar.args(["--use-compress-program=xz -9 -T1", "-cf"]).arg(&pack);
    shell::run(tar.arg("-C").arg(folder.join("suite")).arg("."))?;
    shell::run(shell::program(root, "cp").arg("tests/device/run.py").arg(folder))?;
    let bytes = fs::metadata(&pack).map_err(|e| format!("{}: {e}", pack.display()))?.len();
    println!("{}: {:.1} MiB", pack.display(), bytes as f64 / f64::from(1 << 20));
    if bytes <= MOST_BYTES { Ok(()) } else { Err(format!("more than {MOST_BYTES} bytes")) }
}

/// Builds the programs: the conformance tests, and the backend's own.
fn build(root: &Path) -> Result<Vec<Program>, String> {
    shell::run(&mut cargo(root, "build -p ferry-capi"))?;
    let mut programs = Vec::new();
    for tests in ["-p ferry-backends --test cuda", "-p ferry-tests --tests"] {
        let told = shell::output(&mut cargo(root, &format!("test {tests} --no-run --message-format=json")))?;
        programs.extend(told.lines().filter_map(executable));
    }
    Ok(programs)
}

/// The program that a line of cargo's tells of, called as its test: cargo puts a number behind that.
fn executable(line: &str) -> Option<Program> {
    let path = PathBuf::from(line.split_once("\"executable\":\"")?.1.split_once('"')?.0);
    let (name, _) = path.file_name()?.to_str()?.rsplit_once('-')?;
    (name != "ferry_tests").then(|| Program { name: name.to_owned(), path: path.clone() })
}

/// What run.py reads.
fn describe(root: &Path, programs: &[Program]) -> String {
    let entry = |program: &Program| {
        let harness = !PLAIN.contains(&program.name.as_str());
        format!("{{\"name\": {:?}, \"path\": {:?}, \"harness\": {harness}}}", program.name, program.path)
    };
    let alone = |test: &&str| {
        let program = programs.iter().find(|program| program.name == "cuda")?;
        Some(format!(
            "{{\"name\": \"cuda-alone-{test}\", \"path\": {:?}, \"alone\": {test:?}}}",
            program.path
        ))
    };
    let entries: Vec<String> = programs.iter().map(entry).chain(ALONE.iter().filter_map(alone)).collect();
    let tmp = shell::target_dir(root).join("tmp");
    format!("{{\"root\": {root:?}, \"tmp\": {tmp:?}, \"programs\": [\n{}\n]}}\n", entries.join(",\n"))
}

fn strip(root: &Path, from: &Path, to: &Path) -> Result<(), String> {
    shell::run(shell::program(root, "strip").arg("--strip-unneeded").arg("-o").arg(to).arg(from))
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
