//! What the command prints is seen, or it says that it was not.

use std::fs::OpenOptions;
use std::process::{Command, Output, Stdio};

use command::{ferry, output, text};

mod command;

/// Everything that prints on standard output.
const COMMANDS: &[&[&str]] = &[
    &["devices"],
    &["devices", "--json"],
    &["doctor"],
    &["explain", "107000"],
    &["--help"],
    &["--version"],
    &["help"],
    &["help", "run"],
    &["tour", "--help"],
    &["bench", "--list"],
    &["bench", "--csv", "--samples", "2", "--test", "h2d/contiguous/4K"],
    &["tour", "--quick"],
    &["bench", "--samples", "2"],
    &["copy", "/proc/self/exe", "-"],
];

fn full(args: &[&str]) -> Output {
    let device = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    output(ferry(args).stdout(device).stderr(Stdio::piped()))
}

/// Started by a shell without a standard output.
fn closed(args: &[&str]) -> Output {
    let plain = ferry(args);
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" \"$@\" >&-"]).arg(plain.get_program()).args(plain.get_args());
    output(&mut shell)
}

#[test]
fn output_that_is_lost_is_a_failure() {
    for args in COMMANDS {
        for (how, done) in [("full", full(args)), ("closed", closed(args))] {
            let said = text(&done.stderr);
            assert_eq!(done.status.code(), Some(1), "{args:?}, {how}: {said}");
            let lines: Vec<_> = said.lines().filter(|line| line.contains("standard output")).collect();
            assert_eq!(lines.len(), 1, "{args:?}, {how}: {said}");
        }
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for args in [&["devices"][..], &["--help"], &["bench", "--list"]] {
        let mut child = ferry(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        drop(child.stdout.take());
        let done = child.wait_with_output().expect("it ends");
        assert_eq!((done.status.code(), text(&done.stderr).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn errors_that_nobody_can_read_are_errors_all_the_same() {
    for (args, code) in [(&["devices", "--backend", "none"][..], 2), (&["run", "--", "/does/not/exist"], 127)]
    {
        let device = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let done = output(ferry(args).stdout(Stdio::piped()).stderr(device));
        assert_eq!(done.status.code(), Some(code), "{args:?}");
    }
}
