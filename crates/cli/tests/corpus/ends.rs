//! Programs that end while their copies are in flight, and who ended them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use crate::command::{ferry, output, text};
use crate::run::{build, folder};

/// Makes a copy that nobody joins, says so, and waits to be ended, or ends itself: by the signal it is given,
/// or as the program that it is given.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "acl/acl.h"

int main(int argc, char **argv)
{
    void *host, *device;
    aclrtStream stream;
    if (aclInit(NULL) || aclrtSetDevice(0) || aclrtCreateStream(&stream) || aclrtMallocHost(&host, 64) ||
        aclrtMalloc(&device, 64, ACL_MEM_MALLOC_NORMAL_ONLY) ||
        aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream))
        return 1;
    puts("in flight");
    fflush(stdout);
    if (argc > 1 && argv[1][0] == '/')
        execv(argv[1], argv + 1);
    if (argc > 1)
        raise(atoi(argv[1]));
    for (;;)
        pause();
}
"#;

/// The program under this name, since tests run beside each other.
fn program(name: &str) -> PathBuf {
    let source = folder().join(name).with_extension("c");
    fs::write(&source, PROGRAM).expect("a file");
    build(&source, &[]).expect("a program")
}

#[test]
fn copies_are_lost_when_the_process_becomes_another_program() {
    let program = program("becomes_another");
    for options in [&["check", "--"][..], &["check", "--error-exitcode", "0", "--"]] {
        let said = output(ferry(options).arg(&program).args(["/bin/sh", "-c", "exit 3"]));
        let told = text(&said.stderr);
        assert_eq!(said.status.code(), Some(if options.len() == 2 { 99 } else { 0 }), "{told}");
        assert_eq!(told.matches("[FERRY-LOST]").count(), 1, "{told}");
    }
}

#[test]
fn the_exit_code_of_errors_may_be_another_also_behind_a_signal() {
    let program = program("other_exit_code");
    for how in ["/bin/true", "15"] {
        let mut command = ferry(&["check", "--error-exitcode", "7", "--"]);
        let said = output(command.arg(&program).arg(how));
        assert_eq!(said.status.code(), Some(7), "{how}: {}", text(&said.stderr));
    }
}

#[test]
fn a_list_that_a_report_has_written_leaves_out_what_is_in_the_report() {
    let (program, list) = (program("known_mistake"), folder().join("known_mistake.txt"));
    let run = |option: &str| {
        let mut command = ferry(&["check", option]);
        let said = output(command.arg(&list).arg("--").arg(&program).arg("/bin/true"));
        (said.status.code(), text(&said.stderr).contains("FERRY-LOST"))
    };
    assert_eq!(run("--write-suppressions"), (Some(99), true));
    assert_eq!(run("--suppress"), (Some(0), false));
}

#[test]
fn no_file_is_written_that_another_option_reads_or_writes() {
    let (list, new) = (folder().join("read_and_written.txt"), folder().join("written_twice.json"));
    let link = folder().join("read_and_written_too.txt");
    fs::write(&list, "FERRY-LOST\nwork main\n").expect("a file");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(&list, &link).expect("a link");
    let path_of_new = folder().join(".").join("written_twice.json");
    let pairs = [
        [("--suppress", &list), ("--write-suppressions", &list)],
        [("--suppress", &list), ("--json", &link)],
        [("--json", &new), ("--sarif", &path_of_new)],
        [("--sarif", &list), ("--write-suppressions", &list)],
    ];
    for [(one, first), (other, second)] in pairs {
        let mut command = ferry(&["check", other]);
        let said = output(command.arg(second).arg(one).arg(first).args(["--", "/bin/echo", "started"]));
        let told = text(&said.stderr);
        assert_eq!(said.status.code(), Some(2), "{told}");
        assert!(told.contains(&format!("for both {one} and {other}")) && said.stdout.is_empty(), "{told}");
        assert_eq!(fs::read_to_string(&list).expect("a file"), "FERRY-LOST\nwork main\n", "{one} {other}");
        assert!(!new.exists(), "{one} {other}");
    }
    let mut command = ferry(&["check", "--json", "/dev/null", "--sarif", "/dev/null", "--", "/bin/true"]);
    assert_eq!(output(&mut command).status.code(), Some(0), "what is no file is written twice");
}

#[test]
fn a_copy_may_be_made_to_fail_under_the_checker() {
    let program = program("fails_on_request");
    let mut command = ferry(&["check", "--fault", "copy#1=507013", "--fault", "alloc#1=207001", "--"]);
    let said = output(command.arg(&program));
    assert_eq!(said.status.code(), Some(1), "an allocation of it fails: {}", text(&said.stderr));
    let mut command = ferry(&["check", "--fault", "copy#2=507013", "--"]);
    let said = output(command.arg(&program).arg("/bin/true"));
    assert_eq!(said.status.code(), Some(99), "it makes one copy: {}", text(&said.stderr));
}

#[test]
fn copies_are_lost_by_a_signal_unless_it_was_sent_to_the_command() {
    let program = program("ends");
    for signal in [libc::SIGTERM, libc::SIGKILL, libc::SIGABRT, libc::SIGSEGV] {
        let mut command = ferry(&["check", "--"]);
        let said = output(command.arg(&program).arg(signal.to_string()));
        let told = text(&said.stderr);
        assert_eq!(said.status.code(), Some(99), "{told}");
        assert_eq!(told.matches("[FERRY-LOST]").count(), 1, "{told}");
    }
    let mut command = ferry(&["check", "--"]);
    command.arg(&program).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("a command");
    let mut line = String::new();
    BufReader::new(running.stdout.as_mut().expect("its output")).read_line(&mut line).expect("a line");
    assert_eq!(line, "in flight\n");
    // SAFETY: it sends a signal to a child of ours that nobody has waited for.
    unsafe { libc::kill(running.id() as libc::pid_t, libc::SIGTERM) };
    let said = running.wait_with_output().expect("its end");
    let told = text(&said.stderr);
    assert_eq!(said.status.code(), Some(128 + libc::SIGTERM), "{told}");
    assert!(told.contains("ferry check: no errors"), "{told}");
}
