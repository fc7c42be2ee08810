//! The corpus of `ferry check`: every file of `tests/check` is two programs, one with a mistake that has to
//! be reported at its marked lines, and one with the smallest fix, of which nothing may be said.
//!
//! The default run takes a selection with every id. All of it, and examples that make no mistake, are run by
//! the deep step `check`, as ignored tests. `tests/check/README.md` says how the files are written.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use run::{
    Sight, build, can_run, check, check_silent, conformance_suites, in_parallel, python, root, run_plain,
    rust_examples,
};
use twin::{IDS, Language, Twin, language};

#[path = "../command/mod.rs"]
mod command;
mod ends;
mod judge;
mod namespaces;
mod report;
mod run;
#[path = "../command/standin.rs"]
mod standin;
mod twin;

/// What the default run takes: each id, and what is seen in different ways.
const SELECTION: [&str; 27] = [
    "read_result.c",
    "result_to_file.c",
    "write_after_upload.c",
    "inlined_copy.cc",
    "inlined_header.c",
    "neighbour_field.c",
    "header_cleared.c",
    "matrix_columns.c",
    "registered_mapping.c",
    "producer_thread.c",
    "query_loop_gives_up.c",
    "host_function_fills.c",
    "function_signals_early.c",
    "temporary_freed.c",
    "event_wait_missing.c",
    "rows_overlap.c",
    "graph_against_upload.c",
    "batch_slots_overlap.c",
    "copy_to_freed.c",
    "freed_on_both_paths.c",
    "step_leaks.c",
    "padding_downloaded.c",
    "device_pointer_read.c",
    "ends_in_flight.c",
    "aborts_in_flight.c",
    "destroyed_by_force.c",
    "synchronised_while_captured.c",
];

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

/// Every file of the corpus.
fn twins() -> Vec<Twin> {
    let programs = files("tests/check").into_iter().filter(|path| language(path).is_some());
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("readable text");
        Twin::parse(&path, &text).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    };
    programs.map(read).collect()
}

/// Checks both twins of each file and prints a table of what differs.
fn check_all(twins: &[Twin], sight: Sight) {
    let (able, unable): (Vec<&Twin>, Vec<&Twin>) = twins.iter().partition(|twin| can_run(twin).is_ok());
    for twin in unable {
        println!("{:32} not run: {}", twin.name(), can_run(twin).unwrap_err());
    }
    let rows: Vec<Vec<String>> = in_parallel(&able, |twin| check(twin, sight));
    let wrong = rows.iter().filter(|rows| !rows.is_empty()).count();
    let table = rows.concat().join("\n");
    assert!(wrong == 0, "{wrong} of {} files are not reported as they should:\n{table}", able.len());
}

#[test]
fn the_corpus_has_every_id_and_language() {
    let twins = twins();
    let ids: BTreeSet<&str> = twins.iter().map(|twin| twin.id.as_str()).collect();
    assert_eq!(ids, BTreeSet::from(IDS));
    let count = |language| twins.iter().filter(|twin| twin.language == language).count();
    let (c, cxx, python) = (count(Language::C), count(Language::Cxx), count(Language::Python));
    assert!(c + cxx + python >= 84 && cxx >= 8 && python >= 12, "{c} in C, {cxx} in C++, {python} in Python");
    let starts_thread = |twin: &&Twin| {
        let text = fs::read_to_string(&twin.path).expect("readable text");
        ["start(", "std::thread", "threading.Thread"].iter().any(|word| text.contains(word))
    };
    assert!(twins.iter().filter(starts_thread).count() >= 10, "programs with several threads");
    let without_work = twins.iter().filter(|twin| twin.work.is_none()).map(|twin| twin.id.as_str());
    let allowed = BTreeSet::from(["FERRY-DEVICE-POINTER", "FERRY-LEAK"]);
    assert_eq!(without_work.collect::<BTreeSet<&str>>(), allowed, "ids without a line that is marked WORK");
}

#[test]
fn a_selection_is_reported_at_its_lines_and_silent_when_fixed() {
    let mut twins = twins();
    twins.retain(|twin| SELECTION.contains(&twin.name()));
    assert_eq!(twins.len(), SELECTION.len(), "a file of the selection is gone");
    let ids: BTreeSet<&str> = twins.iter().map(|twin| twin.id.as_str()).collect();
    assert_eq!(ids, BTreeSet::from(IDS), "the ids of the selection");
    check_all(&twins, Sight::of_this_user());
}

#[test]
fn accesses_are_found_without_privileges() {
    let mut twins = twins();
    twins.retain(|twin| SELECTION.contains(&twin.name()) && twin.is_access());
    assert!(twins.iter().filter(|twin| !twin.needs_userfaultfd).count() >= 5, "what can be seen");
    check_all(&twins, Sight::Traces);
}

#[test]
#[ignore = "the deep step `check` runs it"]
fn every_access_that_leaves_something_behind_is_found_without_privileges() {
    check_all(&twins(), Sight::Traces);
}

#[test]
#[ignore = "the deep step `check` runs it"]
fn every_bug_is_reported_at_its_lines_and_every_fix_is_silent() {
    check_all(&twins(), Sight::of_this_user());
}

#[test]
#[ignore = "the deep step `check` runs it"]
fn every_bug_that_facts_tell_of_is_reported_on_cuda() {
    check_all(&twins(), Sight::Facts);
}

#[test]
#[ignore = "the deep step `check` runs it"]
fn every_twin_ends_as_its_head_says_without_the_checker() {
    let mut twins = twins();
    twins.retain(|twin| twin.language != Language::Python || python().is_some());
    let runs: Vec<(&Twin, bool)> = twins.iter().flat_map(|twin| [(twin, false), (twin, true)]).collect();
    let failed: Vec<String> = in_parallel(&runs, |(twin, is_fixed)| run_plain(twin, *is_fixed).err())
        .into_iter()
        .flatten()
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
#[ignore = "the deep step `check` runs it"]
fn examples_make_no_mistake() {
    let c = files("examples/c").into_iter().filter(|path| language(path) == Some(Language::C));
    let build = |path: &PathBuf| build(path, &[]).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let mut commands: Vec<Vec<PathBuf>> = c.map(|path| vec![build(&path)]).collect();
    let is_program =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "py") && !path.ends_with("check.py");
    if let Some(python) = python() {
        let programs = files("examples/python").into_iter().filter(is_program);
        commands.extend(programs.map(|path| vec![python.clone(), path]));
    }
    let failed = in_parallel(&commands, |command| check_silent(command, &[]).err());
    let failed: Vec<String> = failed.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn files_that_cannot_be_written_are_told_before_the_program_runs() {
    for option in ["--json", "--sarif", "--write-suppressions"] {
        let words = ["check", option, "/does/not/exist", "--", "/bin/echo", "started"];
        let said = command::output(&mut command::ferry(&words));
        assert_eq!(said.status.code(), Some(125), "{option}: {}", command::text(&said.stderr));
        assert!(said.stdout.is_empty(), "{option}: the program ran in vain");
    }
}

/// Tokens, scopes, futures and graphs of the Rust interface say when their work is known to be done.
#[test]
fn programs_in_rust_make_no_mistake() {
    let programs: Vec<Vec<PathBuf>> = rust_examples().into_iter().map(|program| vec![program]).collect();
    assert!(programs.len() >= 9, "examples in Rust: {programs:?}");
    let failed = in_parallel(&programs, |command| check_silent(command, &[]).err());
    let failed: Vec<String> = failed.into_iter().flatten().collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
#[ignore = "the deep step `check` runs it"]
fn the_tour_makes_no_mistake_but_those_it_provokes() {
    let list = root().join("tests/check/provoked/tour.txt").to_string_lossy().into_owned();
    let tour = [env!("CARGO_BIN_EXE_ferry").into(), "tour".into()];
    check_silent(&tour, &["--suppress".to_owned(), list]).unwrap_or_else(|why| panic!("{why}"));
}

/// Suites that are not run under the checker, and why.
const LEFT_OUT: [(&str, &str); 9] = [
    ("accesses", "its programs are watched already"),
    ("borders", "page-locked memory has one mapping more"),
    ("faults", "registered memory has one mapping more, which the program's rights do not reach"),
    ("fuzz", "it makes every mistake on purpose"),
    ("garbage", "it makes every mistake on purpose"),
    ("idle", "it counts threads, and the checker has some"),
    ("long_queues", "it measures memory, which facts take"),
    ("model", "its programs race on purpose, and its own tests judge the checker"),
    ("soak", "its threads race on purpose"),
];
/// Single tests of the others, likewise: one uses up what threads can keep, one measures memory.
const LEFT_OUT_TESTS: [&str; 2] = ["keys_late", "alone::each_case_in_a_process_of_its_own"];

#[test]
#[ignore = "the deep step `check` runs it"]
fn the_conformance_suite_makes_no_mistake_but_those_it_provokes() {
    let list = root().join("tests/check/provoked/conformance.txt").to_string_lossy().into_owned();
    let mut suites = conformance_suites();
    suites.retain(|(name, _)| LEFT_OUT.iter().all(|(left_out, _)| left_out != name));
    assert!(suites.len() > 30, "{suites:?}");
    let skips = LEFT_OUT_TESTS.iter().flat_map(|test| ["--skip", test]).map(PathBuf::from);
    let failed: Vec<String> = suites
        .into_iter()
        .map(|(_, program)| [program].into_iter().chain(skips.clone()).collect::<Vec<_>>())
        .filter_map(|command| check_silent(&command, &["--suppress".to_owned(), list.clone()]).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
