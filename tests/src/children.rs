//! Cases that need a process of their own: the test program runs itself again, told by FERRY_TEST_CASE what
//! to do, with the ignored test `one_case` as the child's part.

use std::process::{Command, Output};

/// A case by name, and what the child does.
pub type Case = (&'static str, fn());

/// Runs a case with variables of the environment: a value sets one, `None` takes it away.
#[track_caller]
pub fn run(case: &str, settings: &[(&str, Option<&str>)]) -> Output {
    let program = std::env::current_exe().expect("Linux knows which program runs");
    let mut child = Command::new(&program);
    child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", case);
    for (name, value) in settings {
        match value {
            Some(value) => child.env(name, value),
            None => child.env_remove(name),
        };
    }
    let done = child.output().expect("this program can be started");
    let (said, complained) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{case}: {said}{complained}");
    done
}

/// The child's part: does what the parent named.
pub fn play(cases: &[Case]) {
    let name = std::env::var("FERRY_TEST_CASE").expect("the parent says which case");
    let (_, case) = cases.iter().find(|case| case.0 == name).expect("a case of this name");
    case();
}
