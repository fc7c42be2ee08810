//! Programs that misuse the safe interface do not compile. Each file in `compile_fail` is one: its first line
//! says the mistake, and lines `//@ error: E0382` say what the compiler answers. `done_right` does the same
//! things right, under the same names.
//!
//! To record the messages anew, after a change of the interface or with another compiler:
//! `TRYBUILD=overwrite cargo test -p ferry --test compile_fail`.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The compiler whose words the `.stderr` files hold. Others say the same in other words, and only what is
/// wrong is compared.
const RECORDED_WITH: &str = "rustc 1.95.";

const DONE_RIGHT: [&str; 4] = [
    include_str!("done_right/graphs.rs"),
    include_str!("done_right/owned.rs"),
    include_str!("done_right/scoped.rs"),
    include_str!("done_right/memory.rs"),
];

fn misuses() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let files = fs::read_dir(folder).expect("the programs").map(|entry| entry.expect("a file").path());
    let mut programs: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "rs")).collect();
    programs.sort();
    programs
}

fn name(program: &Path) -> &str {
    program.file_stem().and_then(|name| name.to_str()).expect("a plain name")
}

fn compiler() -> String {
    std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into())
}

fn version() -> String {
    let asked = Command::new(compiler()).arg("--version").output().expect("a compiler");
    String::from_utf8(asked.stdout).expect("plain text")
}

/// The library files of this build that the programs are compiled against.
fn libraries() -> BTreeMap<String, String> {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--offline", "--message-format=json", "--manifest-path"]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let built = build.output().expect("cargo");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let messages =
        serde_json::Deserializer::from_slice(&built.stdout).into_iter::<Value>().map(Result::unwrap);
    let artifact = |message: Value| {
        let name = message["target"]["name"].as_str().filter(|name| ["ferry", "bytemuck"].contains(name))?;
        Some((name.into(), message["filenames"][0].as_str()?.into()))
    };
    messages.filter_map(artifact).collect()
}

/// What the compiler finds wrong with the program: `E0382`, or the message where it has no number.
fn errors(program: &Path, libraries: &BTreeMap<String, String>) -> BTreeSet<String> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name(program));
    let mut compile = Command::new(compiler());
    compile.args(["--edition=2024", "--emit=metadata", "--error-format=json", "-o"]).arg(out).arg(program);
    for (name, file) in libraries {
        let folder = Path::new(file).parent().expect("a folder").display();
        compile.arg(format!("-Ldependency={folder}")).arg(format!("-Ldependency={folder}/deps"));
        compile.arg(format!("--extern={name}={file}"));
    }
    let compiled = compile.output().expect("a compiler");
    let messages =
        serde_json::Deserializer::from_slice(&compiled.stderr).into_iter::<Value>().map(Result::unwrap);
    let wrong = messages.filter(|message| message["level"] == "error").filter_map(|message| {
        let text = message["message"].as_str()?;
        let code = message["code"]["code"].as_str();
        (!text.starts_with("aborting")).then(|| code.unwrap_or(text).to_string())
    });
    let wrong: BTreeSet<_> = wrong.collect();
    assert_ne!(compiled.status.success(), !wrong.is_empty(), "{}", program.display());
    wrong
}

#[test]
fn every_misuse_is_refused_for_its_reason() {
    let libraries = libraries();
    assert_eq!(libraries.len(), 2, "{libraries:?}");
    let programs = misuses();
    assert!(programs.len() >= 60, "only {} programs", programs.len());
    for program in programs {
        let text = fs::read_to_string(&program).expect("text");
        let expected = text.lines().filter_map(|line| line.strip_prefix("//@ error: ").map(String::from));
        assert_eq!(errors(&program, &libraries), expected.collect(), "{}", program.display());
    }
}

#[test]
fn every_misuse_says_what_it_is_and_is_done_right_somewhere() {
    for program in misuses() {
        let text = fs::read_to_string(&program).expect("text");
        let first = text.lines().next().expect("a first line");
        assert!(first.starts_with("// ") && first.ends_with('.'), "{}: {first}", program.display());
        let twin = format!("\nfn {}() ", name(&program));
        assert!(DONE_RIGHT.iter().any(|file| file.contains(&twin)), "{twin:?} is not in done_right");
    }
}

#[test]
fn messages_are_as_recorded() {
    if version().starts_with(RECORDED_WITH) {
        trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
    }
}
