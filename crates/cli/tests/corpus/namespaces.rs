//! A program in a PID namespace of its own, where it calls itself and its threads otherwise than the command
//! does.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::command::{ferry, output, text};
use crate::run::{Sight, build, folder, root};

#[test]
fn a_program_in_a_pid_namespace_of_its_own_is_known_by_the_numbers_outside() {
    let can_unshare = Command::new("unshare").args(["-pf", "true"]).output();
    if Sight::of_this_user() != Sight::Lines || !can_unshare.is_ok_and(|said| said.status.success()) {
        return println!("not run: this user may not make a PID namespace, or sees no lines");
    }
    let program = build(&root().join("tests/check/producer_thread.c"), &[]).expect("a program");
    let json = folder().join(format!("namespace.{}.json", std::process::id()));
    let mut command = ferry(&["check", "--json"]);
    let said = output(command.arg(&json).args(["--", "unshare", "-pf"]).arg(program));
    let told = text(&said.stderr);
    assert_eq!(said.status.code(), Some(99), "{told}");
    let found: Value = serde_json::from_str(&fs::read_to_string(&json).expect("findings")).expect("JSON");
    let _ = fs::remove_file(&json);
    let [finding] = found["findings"].as_array().expect("a list").as_slice() else { panic!("{told}") };
    let frames = finding["access"]["stack"].as_array().expect("a stack");
    assert!(frames.iter().any(|frame| frame["line"].is_u64()), "the access has its line: {told}");
    assert_ne!(finding["pid"], 1, "what it calls itself");
    assert!(!told.contains("lost"), "{told}");
}
