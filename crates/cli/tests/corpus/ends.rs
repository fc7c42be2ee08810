//! Programs that end while their copies are in flight, and who ended them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::command::{ferry, output, text};
use crate::run::{build, folder};

/// Makes a copy that nobody joins, says so, and waits to be ended, or ends itself by the signal it is given.
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
    if (argc > 1)
        raise(atoi(argv[1]));
    for (;;)
        pause();
}
"#;

#[test]
fn copies_are_lost_by_a_signal_unless_it_was_sent_to_the_command() {
    let source = folder().join("ends.c");
    fs::write(&source, PROGRAM).expect("a file");
    let program = build(&source, &[]).expect("a program");
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
