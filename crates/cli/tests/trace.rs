//! `ferry trace` on programs in C: which line of theirs each call comes from, however the program ends.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use command::{ferry, output, text};
use compile::compile;

mod command;
#[path = "command/compile.rs"]
mod compile;

/// Calls of many shapes, each on a line of its own: with a fast path and without, with more arguments than
/// registers, that fail, that are called by pointers and in functions that are called in a loop.
const PROGRAM: &str = r#"
#include <acl/acl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { SIZE = 1 << 16, UP = ACL_MEMCPY_HOST_TO_DEVICE };
static char *host, *device;
static aclrtStream stream;
static void __attribute__((noinline)) up(int offset) {
    aclrtMemcpyAsync(device + offset, 64, host + offset, 64, UP, stream); /* aclrtMemcpyAsync */
}
int main(int count, char **arguments) {
    aclInit(NULL);
    aclrtSetDevice(0); /* aclrtSetDevice */
    aclrtCreateStream(&stream); /* aclrtCreateStream */
    aclrtMallocHost((void **)&host, SIZE); /* aclrtMallocHost */
    aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST); /* aclrtMalloc */
    for (int i = 0; i < 100; i++) up(i * 64);
    aclrtMemcpy2dAsync(device, 128, host, 128, 64, 16, UP, stream); /* aclrtMemcpy2dAsync */
    void *dsts[2] = {device, device + 4096}, *srcs[2] = {host, host + 4096};
    size_t sizes[2] = {64, 64}, indexes[1] = {0}, failed = 0;
    aclrtMemcpyBatchAttr attr;
    memset(&attr, 0, sizeof attr);
    attr.dstLoc.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    attr.srcLoc.type = ACL_MEM_LOCATION_TYPE_HOST;
    size_t *n = sizes, *at = indexes;
    aclrtMemcpyBatchAsync(dsts, n, srcs, n, 2, &attr, at, 1, &failed, stream); /* aclrtMemcpyBatchAsync */
    aclError (*fill)(void *, size_t, int32_t, size_t, aclrtStream) = aclrtMemsetAsync;
    fill(device, SIZE, 7, 64, stream); /* aclrtMemsetAsync */
    aclrtMemcpy(host, 1, device, 2, ACL_MEMCPY_DEVICE_TO_HOST); /* aclrtMemcpy */
    aclrtSynchronizeStream(stream); /* aclrtSynchronizeStream */
    if (count > 1) kill(getpid(), atoi(arguments[1]));
    aclrtFree(device); /* aclrtFree */
    return 7;
}
"#;

/// The functions whose calls have a line of their own, in the order of the program.
fn functions() -> Vec<(usize, &'static str)> {
    let lines = PROGRAM.lines().enumerate();
    let named = lines.filter_map(|(index, line)| {
        let name = line.split_once("/* acl")?.1.strip_suffix(" */")?;
        Some((index + 1, line.split_at(line.find("/* acl")? + 3).1.split_at(3 + name.len()).0))
    });
    named.collect()
}

/// The calls of a trace: name, file and line.
fn calls(folder: &Path) -> Vec<(String, String)> {
    let is_json = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let files = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let file = files.into_iter().find(is_json).expect("a file for viewers");
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(file).expect("readable")).expect("JSON");
    let name = |event: &Value| Some(event["name"].as_str()?.strip_prefix("AscendCL@")?.to_owned());
    let caller = |event: &Value| event["args"]["caller"].as_str().unwrap_or_default().to_owned();
    events.iter().filter_map(|event| Some((name(event)?, caller(event)))).collect()
}

/// Every call has the line that it stands in, and the fast path of copies has all of its calls.
fn judge(folder: &Path, source: &str) {
    let calls = calls(folder);
    for (line, function) in functions().into_iter().filter(|(_, function)| *function != "aclrtFree") {
        let place = format!("{source}:{line} ");
        let of_it = calls.iter().filter(|(name, _)| name == function);
        let (found, right) = (of_it.clone().count(), of_it.filter(|(_, at)| at.contains(&place)).count());
        let want = if function == "aclrtMemcpyAsync" { 100 } else { 1 };
        assert_eq!((found, right), (want, want), "{function} at {place}: {calls:?}");
    }
    assert!(folder.join("index.html").exists());
}

#[test]
fn every_call_has_its_line_and_the_exit_code_is_the_programs() {
    let program = compile("trace-lines", PROGRAM);
    let folder = program.with_extension("lines");
    let _ = std::fs::remove_dir_all(&folder);
    let said = output(ferry(&["trace", "-o"]).arg(&folder).arg("--").arg(&program));
    assert_eq!(said.status.code(), Some(7), "{}", text(&said.stderr));
    judge(&folder, "trace-lines.c");
}

#[test]
fn a_killed_program_is_traced_as_far_as_it_ran() {
    let program = compile("trace-killed", PROGRAM);
    let folder = program.with_extension("killed");
    let _ = std::fs::remove_dir_all(&folder);
    let said = output(ferry(&["trace", "-o"]).arg(&folder).arg("--").arg(&program).arg("9"));
    assert_eq!(said.status.code(), Some(128 + 9), "{}", text(&said.stderr));
    judge(&folder, "trace-killed.c");
}

#[test]
fn the_environment_alone_has_a_program_traced() {
    let program = compile("trace-alone", PROGRAM);
    let folder = program.with_extension("alone");
    let _ = std::fs::remove_dir_all(&folder);
    let run = |arguments: &[&str], folder: &Path| {
        let mut command: Command = ferry(&["run", "--"]);
        output(command.arg(&program).args(arguments).env("FERRY_TRACE", folder)).status.code()
    };
    assert_eq!(run(&[], &folder), Some(7));
    judge(&folder, "trace-alone.c");
    assert!(!folder.join("facts").exists(), "the trace was made of them");
    let killed = program.with_extension("killed");
    let _ = std::fs::remove_dir_all(&killed);
    assert_eq!(run(&["11"], &killed), Some(128 + 11));
    let said = output(ferry(&["trace", "--from"]).arg(killed.join("facts")));
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    judge(&killed, "trace-alone.c");
}

#[test]
fn a_file_that_has_no_facts_is_named() {
    let program = compile("trace-other", "int main(void) { return 0; }");
    let said = output(ferry(&["trace", "--from"]).arg(&program));
    assert_eq!(said.status.code(), Some(1));
    let printed = text(&said.stderr);
    assert!(printed.contains("trace-other") && printed.contains("no file of facts"), "{printed}");
}

/// Forks a child, whose calls are refused, and one that becomes the same program again, which copies.
const FAMILY: &str = r#"
#include <acl/acl.h>
#include <sys/wait.h>
#include <unistd.h>
static int copies(void) {
    void *host, *device;
    aclrtStream stream;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream)) return 1;
    if (aclrtMallocHost(&host, 64) || aclrtMalloc(&device, 64, ACL_MEM_MALLOC_HUGE_FIRST)) return 2;
    if (aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream)) return 3;
    return aclrtSynchronizeStream(stream) ? 4 : 0;
}
int main(int count, char **arguments) {
    int status, failed = copies();
    if (count > 1 || failed) return failed;
    for (int is_exec = 0; is_exec < 2; is_exec++) {
        if (fork() == 0) {
            if (is_exec) execl(arguments[0], arguments[0], "again", (char *)NULL);
            _exit(aclrtSynchronizeDevice() == 0 ? 9 : 0);
        }
        wait(&status);
        if (status) return 10 + is_exec;
    }
    return 0;
}
"#;

#[test]
fn children_that_exec_are_traced_and_forked_ones_write_nothing() {
    let program = compile("trace-family", FAMILY);
    let folder = program.with_extension("family");
    let _ = std::fs::remove_dir_all(&folder);
    let said = output(ferry(&["trace", "-o"]).arg(&folder).arg("--").arg(&program));
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let calls = calls(&folder);
    let count = |function: &str| calls.iter().filter(|(name, _)| name == function).count();
    assert_eq!((count("aclrtMemcpyAsync"), count("aclrtSynchronizeDevice")), (2, 0), "{calls:?}");
}

/// Eight threads with 64 streams each copy for so many seconds.
const CROWD: &str = r#"
#include <acl/acl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
enum { THREADS = 8, STREAMS = 64 };
static long copies[THREADS], seconds;
static void *body(void *number) {
    char *host, *device;
    aclrtStream streams[STREAMS];
    if (aclrtSetDevice(0)) exit(91);
    if (aclrtMallocHost((void **)&host, 4096) || aclrtMalloc((void **)&device, 4096, 0)) exit(92);
    for (int i = 0; i < STREAMS; i++) if (aclrtCreateStream(&streams[i])) exit(93);
    for (time_t end = time(NULL) + seconds; time(NULL) < end;) {
        for (int i = 0; i < STREAMS; i++) {
            if (aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, streams[i])) exit(94);
            copies[(long)number]++;
        }
        for (int i = 0; i < STREAMS; i++) if (aclrtSynchronizeStream(streams[i])) exit(95);
    }
    return NULL;
}
int main(int count, char **arguments) {
    pthread_t threads[THREADS];
    long all = 0;
    seconds = atol(arguments[count - 1]);
    if (aclInit(NULL)) return 90;
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void *)i);
    for (long i = 0; i < THREADS; i++) { pthread_join(threads[i], NULL); all += copies[i]; }
    printf("%ld\n", all);
    return 0;
}
"#;

/// The most memory that the command, the program and what they started had at a time, in KiB.
fn peak_of_children() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: it fills the structure, of which zeroes are a valid value, too.
    unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init().ru_maxrss
    }
}

/// `FERRY_CROWD_SECONDS=60` copies for a minute, as the deep step `soak` does.
#[test]
fn memory_stays_bounded_however_long_a_crowd_copies() {
    const MAX_KIB: i64 = 1 << 20;
    let seconds = std::env::var("FERRY_CROWD_SECONDS").unwrap_or_else(|_| "1".into());
    let program = compile("trace-crowd", CROWD);
    for command in ["stat", "trace"] {
        let folder = program.with_extension(command);
        let _ = std::fs::remove_dir_all(&folder);
        let (option, file) = match command {
            "stat" => ("--json", folder.with_extension("json")),
            _ => ("-o", folder.clone()),
        };
        let said = output(ferry(&[command, option]).arg(&file).arg("--").arg(&program).arg(&seconds));
        assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
        let copied: u64 = text(&said.stdout).trim().parse().expect("a number");
        if command == "stat" {
            let object: Value = serde_json::from_slice(&std::fs::read(&file).expect("it")).expect("JSON");
            let (seen, lost) = (&object["statistics"]["h2d_calls"], &object["statistics"]["lost_facts"]);
            let (seen, lost) = (seen.as_u64().expect("a count"), lost.as_u64().expect("a count"));
            assert!(seen <= copied && seen + lost >= copied, "{copied}: {seen} seen, {lost} facts lost");
        }
    }
    assert!(peak_of_children() < MAX_KIB, "{} KiB", peak_of_children());
}
