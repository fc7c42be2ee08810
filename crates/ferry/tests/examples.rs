//! Runs the programs of `examples/rust`. `cargo test` has built them, into the folder beside the tests;
//! `cargo test --test examples` has not, and runs what `cargo build --examples` left there.

use std::{env, fs, path::PathBuf, process::Command};

/// What each says last. The first five and 12 end as their namesakes in `examples/c` do.
const EXAMPLES: [(&str, &str); 9] = [
    ("01-copy-2d", "ok: 4 rows of 8 bytes, and not a byte between them"),
    ("02-with-condition", "ok: 1000 numbers there and back"),
    ("03-batch", "ok: one call, 10 copies"),
    ("04-descriptor", "ok: one descriptor, two sources"),
    ("05-streams-and-events", "ok: 2097152 bytes down and up, chunk by chunk"),
    ("07-async", "ok: 1000 copies awaited by one thread"),
    ("08-scopes", "ok: lent, copied and given back"),
    ("09-kv-cache", "ok: 3000 blocks out and in, two submissions"),
    ("12-graph", "ok: captured once, run 1000 times"),
];

/// The folder of the built examples: this test is in `deps` beside it.
fn built() -> PathBuf {
    let test = env::current_exe().expect("a running test has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("tests are in a folder of cargo's");
    folder.join("examples")
}

#[test]
fn every_example_runs_and_finds_its_own_results_right() {
    for (name, last) in EXAMPLES {
        let program = built().join(name);
        let ran = Command::new(&program).output().unwrap_or_else(|error| {
            let path = program.display();
            panic!("{path}: {error}; `cargo test` or `cargo build --examples` makes it")
        });
        let (said, complained) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{name} ended with {}:\n{said}{complained}", ran.status);
        assert_eq!(said.lines().last(), Some(last), "{name}");
    }
}

#[test]
fn no_example_is_forgotten() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/rust");
    let files = fs::read_dir(folder).expect("the examples").map(|entry| entry.expect("a file").path());
    let mut programs: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|ext| ext == "rs"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    programs.sort();
    assert_eq!(programs, EXAMPLES.map(|(name, _)| name));
}
