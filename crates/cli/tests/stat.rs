//! `ferry stat` on programs in C: what they moved, and which line of theirs an assertion names.

use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use command::{ferry, output, text};
use compile::compile;

mod command;
#[path = "command/compile.rs"]
mod compile;

/// Four copies from page-locked memory, one from ordinary memory in each of two lines, two synchronisations.
const PROGRAM: &str = r#"
#include <acl/acl.h>
#include <stdio.h>
#include <stdlib.h>
int main(int count, char **arguments) {
    enum { SIZE = 8192, UP = ACL_MEMCPY_HOST_TO_DEVICE };
    static char ordinary[SIZE];
    void *host = NULL, *device = NULL;
    aclrtStream stream = NULL;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream)) return 90;
    if (aclrtMallocHost(&host, SIZE) || aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) return 91;
    for (int i = 0; i < 4; i++) {
        if (aclrtMemcpyAsync(device, SIZE, host, SIZE, UP, stream)) return 92; /* pinned */
    }
    if (aclrtSynchronizeStream(stream)) return 93; /* first */
    if (aclrtMemcpyAsync(device, SIZE, ordinary, 100, UP, stream)) return 94; /* less */
    if (aclrtMemcpyAsync(device, SIZE, ordinary, SIZE, UP, stream)) return 95; /* more */
    if (aclrtSynchronizeStream(stream)) return 96; /* second */
    puts("copied");
    if (count > 1) return atoi(arguments[1]);
    return aclFinalize();
}
"#;

/// The line of the program that has this comment.
fn line(comment: &str) -> usize {
    let is_it = |line: &str| line.contains(&format!("/* {comment} */"));
    PROGRAM.lines().position(is_it).expect("a line with this comment") + 1
}

fn program(name: &str) -> PathBuf {
    compile(&format!("stat-{name}"), PROGRAM)
}

fn stat(options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    output(ferry(&["stat"]).args(options).arg("--").arg(program).args(arguments))
}

#[test]
fn a_program_is_counted_and_its_output_left_alone() {
    let program = program("counted");
    let file = program.with_extension("json");
    let file_name = file.to_str().expect("a path in UTF-8");
    let said = stat(&["--json", file_name, "--assert", "pageable_calls == 2 && syncs == 2"], &program, &[]);
    let printed = text(&said.stderr);
    assert_eq!(said.status.code(), Some(0), "{printed}");
    assert_eq!(text(&said.stdout), "copied\n");
    assert!(printed.contains("page-locked") && printed.contains("pageable"), "{printed}");
    let object: Value = serde_json::from_slice(&std::fs::read(&file).expect("it was written")).expect("JSON");
    for (name, want) in [
        ("h2d_calls", 6),
        ("h2d_bytes", 5 * 8192 + 100),
        ("pinned_bytes", 4 * 8192),
        ("pageable_bytes", 8192 + 100),
        ("tiny_calls", 1),
        ("syncs", 2),
        ("unfinished", 0),
        ("failed", 0),
        ("lost_facts", 0),
        ("processes", 1),
    ] {
        assert_eq!(object["statistics"][name], want, "{name}");
    }
    assert!(object["statistics"]["time"].as_u64() > Some(0));
    assert!(object["statistics"]["elapsed"].as_u64() >= object["statistics"]["busy"].as_u64());
    // Most bytes first, each with its line.
    let calls = object["calls"].as_array().expect("calls");
    let first = &calls[0];
    assert_eq!((&first["function"], &first["in"]), (&"aclrtMemcpyAsync".into(), &"main".into()));
    assert_eq!(first["line"], line("pinned"));
    assert!(first["file"].as_str().is_some_and(|file| file.ends_with("stat-counted.c")), "{first}");
}

#[test]
fn an_assertion_that_fails_names_its_calls_by_line() {
    let program = program("asserted");
    let said = stat(&["--assert", "pageable_bytes == 0 && syncs <= 2"], &program, &[]);
    let printed = text(&said.stderr);
    assert_eq!(said.status.code(), Some(1), "{printed}");
    let (_, why) = printed.split_once("assertion failed: pageable_bytes == 0 && syncs <= 2\n").expect("why");
    let places: Vec<usize> = why.lines().filter_map(place).collect();
    assert_eq!(places, [line("more"), line("less")], "{why}");
    assert!(why.contains("pageable_bytes is 8.10 KiB (8292 bytes)"), "{why}");

    let said = stat(&["--assert", "syncs < 2"], &program, &[]);
    let why = text(&said.stderr);
    let places: Vec<usize> = why.lines().filter_map(place).collect();
    assert_eq!((said.status.code(), places), (Some(1), vec![line("first"), line("second")]), "{why}");
}

/// The line of the program that a line of the report names.
fn place(told: &str) -> Option<usize> {
    let (_, rest) = told.split_once(".c:")?;
    rest.split(':').next()?.parse().ok()
}

#[test]
fn the_exit_code_is_the_programs() {
    let program = program("exit");
    for (options, want) in [(&[][..], 7), (&["--assert", "syncs == 0"], 7)] {
        assert_eq!(stat(options, &program, &["7"]).status.code(), Some(want), "{options:?}");
    }
    let said = stat(&[], Path::new("/does/not/exist"), &[]);
    assert_eq!(said.status.code(), Some(127), "{}", text(&said.stderr));
    let said = stat(&["--json", "/does/not/exist"], &program, &["0"]);
    assert_eq!(said.status.code(), Some(125), "{}", text(&said.stderr));
    assert!(text(&said.stderr).contains("cannot write /does/not/exist"), "{}", text(&said.stderr));
    assert!(said.stdout.is_empty(), "the program did not run in vain");
}

#[test]
fn what_is_wrong_with_an_assertion_is_told_before_the_program_starts() {
    let said = stat(&["--assert", "bytes > 0 && pagable_bytes == 0"], Path::new("/bin/echo"), &["started"]);
    let printed = text(&said.stderr);
    assert_eq!((said.status.code(), text(&said.stdout)), (Some(2), String::new()), "{printed}");
    assert!(printed.contains("column 14") && printed.contains("`pageable_bytes`"), "{printed}");
}

#[test]
fn advice_names_the_line_of_a_pageable_copy() {
    let said = stat(&["--advice"], &program("advised"), &[]);
    let printed = text(&said.stderr);
    assert!(printed.contains("[pageable-async]"), "{printed}");
    assert!(
        printed.contains(&format!("stat-advised.c:{}: aclrtMemcpyAsync in main", line("more"))),
        "{printed}"
    );
    // The loop sends the same bytes three times more.
    let (_, twice) = printed.split_once("[sent-twice]").expect("the same bytes");
    assert!(twice.contains(&format!("stat-advised.c:{}", line("pinned"))), "{printed}");
    assert!(twice.contains("at stake: 3 copies, 24.0 KiB"), "{printed}");
}

#[test]
fn a_program_without_the_library_is_said_to_be_one() {
    let said = stat(&[], Path::new("/bin/true"), &[]);
    assert_eq!(said.status.code(), Some(0));
    assert!(text(&said.stderr).contains("did not use the library"), "{}", text(&said.stderr));
}

/// Two callbacks that the thread runs by itself: it has waited for the first.
const REPORTED: &str = r#"
#include <acl/acl.h>
#include <pthread.h>
static int ran;
static void run(void *data) { ran += data == NULL; }
int main(void) {
    enum { SIZE = 1 << 20 };
    void *host = NULL, *device = NULL;
    aclrtStream stream = NULL;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream)) return 90;
    if (aclrtMallocHost(&host, SIZE) || aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) return 91;
    if (aclrtSubscribeReport(pthread_self(), stream)) return 92;
    if (aclrtMemcpyAsync(device, SIZE, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream)) return 93;
    for (int i = 0; i < 2; i++) {
        if (aclrtLaunchCallback(run, NULL, ACL_CALLBACK_BLOCK, stream)) return 94;
    }
    while (ran < 2) {
        if (aclrtProcessReport(60000)) return 95;
    }
    return aclFinalize();
}
"#;

#[test]
fn a_thread_that_runs_callbacks_has_waited_for_its_stream() {
    let program = compile("stat-reported", REPORTED);
    let file = program.with_extension("json");
    let said = stat(&["--json", file.to_str().expect("a path in UTF-8")], &program, &[]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let object: Value = serde_json::from_slice(&std::fs::read(&file).expect("it was written")).expect("JSON");
    let calls = object["calls"].as_array().expect("a list").iter();
    let blocked = calls
        .filter(|call| call["function"] == "aclrtProcessReport")
        .map(|call| &call["statistics"]["blocked"]);
    let blocked: Vec<_> = blocked.collect();
    assert!(blocked.len() == 1 && blocked[0].as_u64() > Some(0), "{blocked:?}");
}
