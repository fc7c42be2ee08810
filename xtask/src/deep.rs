//! The slow checks of `cargo xtask test --deep`: data races, memory errors, and what only shows after a long
//! time.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell::{self, cargo};
use crate::{c, outcome::Outcome};

/// Test programs that cannot run sanitized: a program of its own does not load a sanitized library, nor does
/// this kind of program at run time; the fuzz program leaves copies to race on purpose; waits for values look
/// at words that copies write; the sanitizer lets the child of a process with threads start none of its own;
/// and what runs the compiler or other programs has no threads to watch.
const NOT_SANITIZED: &[&str] = &[
    "accesses",
    "c_programs",
    "companion_runtime",
    "garbage",
    "products",
    "fuzz",
    "values",
    "fork",
    "compile_fail",
    "examples",
];

/// Tests left out of the others: some race on purpose, in random programs whose streams write the same bytes,
/// by looking at memory while an execution writes it, with memory that is unmapped or descriptors that are
/// closed under a copy, or wait for a value that a copy writes; some need addresses, mappings or forked
/// children that the sanitizer takes or forbids; one looks for locked pages, which it does not lock, one
/// for the signal of a fault, which it takes; and the rest try the model on a stand-in for the engine.
const NOT_SANITIZED_TESTS: &[&str] = &[
    "programs_with_races",
    "facts_have_the_order_of_the_model",
    "a_removed_order_is_reported_if_it_makes_a_race",
    "a_blocking_execution_answers_for_its_own_run",
    "a_blocking_execution_that_ran_out_of_time_is_not_lost_with_those_of_streams",
    "random_programs_deliver_what_is_predicted",
    "external_events_by_values_as_torch_npu_has_them",
    "values_and_notifies_are_captured_and_work_at_each_execution",
    "everything_at_once",
    "a_copy_of_memory_that_is_gone_fails_and_nothing_else",
    "nothing_that_is_printed_lands_in_the_librarys_files",
    "each_case_in_a_process_of_its_own",
    "memory_that_was_never_good_is_refused_with_what_is_wrong_with_it",
    "threads_begin_where_nothing_more_can_be_mapped",
    "two_hundred_kills_leave_the_budget_right",
    "a_child_of_any_kind_is_told_until_it_sets_the_mark_itself",
    "addresses_that_are_asked_for_on_a_product_that_has_them",
    "alone::pages_are_locked_by_the_process",
    "the_cpu_cannot_touch_a_device_address",
    "faults_of_an_engine_are_caught",
    "slips_in_calls_are_caught",
    "the_oracle_asks_for_nothing",
    "a_copy_that_cannot_be_done_fails_alone",
];

/// Runs the threaded tests with every memory access watched for data races.
pub fn thread_sanitizer(root: &Path) -> Result<Outcome, String> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Outcome::Skipped("set up for x86-64 only".into()));
    }
    // The standard library is built anew with the sanitizer in it. Without that, locks taken inside it are
    // not seen, and what they protect is reported as races.
    if !shell::rustup_has(&["component", "add", "rust-src"], || shell::has_rust_source(root)) {
        return Ok(Outcome::Skipped(
            "the source of the standard library is not there and rustup could not add it".into(),
        ));
    }
    let skips = || NOT_SANITIZED_TESTS.iter().flat_map(|name| ["--skip", name]);
    shell::run(sanitized(root, "test -p ferry-backends --lib").arg("--").args(skips()))?;
    for (package, folder) in [("ferry", "crates/ferry/tests"), ("ferry-tests", "tests/tests")] {
        let mut tests = sanitized(root, &format!("test -p {package} --no-fail-fast"));
        for name in test_names(root, folder)?.iter().filter(|name| !NOT_SANITIZED.contains(&name.as_str())) {
            tests.args(["--test", name]);
        }
        tests.arg("--").args(skips());
        shell::run(&mut tests)?;
    }
    Ok(Outcome::Passed)
}

fn sanitized(root: &Path, words: &str) -> Command {
    let mut command = cargo(root, words);
    command.args(["-Zbuild-std", "--target", "x86_64-unknown-linux-gnu", "--target-dir"]);
    command.arg(shell::target_dir(root).join("tsan"));
    // Neither the sanitizer nor building the standard library is stable yet; this lets the stable compiler
    // offer both.
    command.env("RUSTC_BOOTSTRAP", "1");
    shell::add_rustflags(&mut command, "-Zsanitizer=thread");
    command
}

/// Runs the soak test for five minutes in place of three seconds, as fast as the engine can, and the test of
/// programs with many threads under `ferry stat` and `ferry trace` for a minute each in place of a second.
pub fn soak(root: &Path) -> Result<Outcome, String> {
    let mut test = shell::cargo_for_release(root, "test --release -p ferry-tests --test soak -- --nocapture");
    shell::run(test.env("FERRY_SOAK_SECONDS", "300"))?;
    let mut crowd = shell::cargo(root, "test -p ferry-cli --test trace memory_stays_bounded -- --nocapture");
    shell::run(crowd.env("FERRY_CROWD_SECONDS", "60"))?;
    Ok(Outcome::Passed)
}

/// Makes two million calls of the fuzz program, spread over every product and form, in place of 20,000.
pub fn fuzz(root: &Path) -> Result<Outcome, String> {
    let mut test = shell::cargo_for_release(root, "test --release -p ferry-tests --test fuzz -- --nocapture");
    shell::run(test.env("FERRY_FUZZ_CALLS", "2000000"))?;
    Ok(Outcome::Passed)
}

/// The suites in which the time or the order of work matters.
const ABOUT_ORDER: &[&str] = &[
    "abort",
    "batches",
    "blocking",
    "capture",
    "descriptors",
    "devices",
    "events",
    "exceptions",
    "failure",
    "fork",
    "functions",
    "ipc",
    "large",
    "long_queues",
    "model",
    "notify",
    "reduce",
    "registered",
    "values",
    "virtual_memory",
    "wait_limit",
    "waiting",
];

/// Runs the suites in which order matters under every schedule of the host backend.
pub fn schedules(root: &Path) -> Result<Outcome, String> {
    for (order, seed) in [("late", "0"), ("early", "0"), ("shuffle", "1"), ("shuffle", "2")] {
        println!("---- FERRY_SCHEDULE={order} FERRY_SEED={seed}");
        let mut tests = cargo(root, "test -p ferry-tests --no-fail-fast");
        tests.args(ABOUT_ORDER.iter().flat_map(|name| ["--test", name]));
        shell::run(tests.env("FERRY_SCHEDULE", order).env("FERRY_SEED", seed))?;
    }
    Ok(Outcome::Passed)
}

/// Compiles every program of `tests/c` and runs it under valgrind's memory checker.
pub fn memcheck(root: &Path) -> Result<Outcome, String> {
    if let Err(why) = shell::need_valgrind() {
        return Ok(Outcome::Skipped(why));
    }
    shell::run(&mut cargo(root, "build -p ferry-capi"))?;
    let library = shell::target_dir(root).join("debug");
    let mut sources = entries(&root.join("tests/c"))?;
    // Signals of faults that are sent and awaited are taken by valgrind, which runs the program's faults
    // itself.
    sources.retain(|path| has_kind(path, "c") && !path.ends_with("sent_signals.c"));
    let failed: Vec<String> =
        sources.iter().filter_map(|source| memcheck_one(root, &library, source).err()).collect();
    if failed.is_empty() { Ok(Outcome::Passed) } else { Err(failed.join("; ")) }
}

fn memcheck_one(root: &Path, library: &Path, source: &Path) -> Result<(), String> {
    let program = c::compile(root, library, source, "memcheck")?;
    let mut valgrind = shell::program(root, "valgrind");
    // No search for leaks: it would read, and so touch, every page of the memory that the devices may one day
    // need.
    valgrind.args(["--quiet", "--error-exitcode=9", "--fair-sched=yes", "--leak-check=no"]).arg(&program);
    shell::run(c::with_library(&mut valgrind, library).env("FERRY_DEVICE_MEMORY", "256M"))
}

/// The integration tests: files, and folders that hold a `main.rs`.
fn test_names(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let paths = entries(&root.join(folder))?.into_iter();
    let tests = paths.filter(|path| has_kind(path, "rs") || path.join("main.rs").exists());
    Ok(tests.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect())
}

fn has_kind(path: &Path, kind: &str) -> bool {
    path.extension().is_some_and(|it| it == kind)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut paths: Vec<_> =
        entries.map_err(|e| format!("{}: {e}", folder.display()))?.iter().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}
