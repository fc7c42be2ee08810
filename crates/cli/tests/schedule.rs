//! `ferry run --schedule`, `--seed` and `--fault` on programs in C, and what `ferry devices` shows of them.

use std::path::Path;
use std::process::Output;

use command::{ferry, output, text};
use compile::compile;
use standin::stand_in;

mod command;
#[path = "command/compile.rs"]
mod compile;
#[path = "command/standin.rs"]
mod standin;

/// Reads a result that it did not wait for, and then one that it did. Prints both, and the code of the wait.
const PROGRAM: &str = r#"
#include <acl/acl.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    enum { SIZE = 8192 };
    char *host = NULL, *device = NULL, early, late;
    aclrtStream stream = NULL;
    if (aclInit(NULL)) { printf("%s\n", aclGetRecentErrMsg()); return 90; }
    if (aclrtSetDevice(0) || aclrtCreateStream(&stream)) return 91;
    if (aclrtMallocHost((void **)&host, SIZE)) return 92;
    if (aclrtMalloc((void **)&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST)) return 92;
    memset(host, 'o', SIZE);
    if (aclrtMemset(device, SIZE, 'n', SIZE)) return 93;
    if (aclrtMemcpyAsync(host, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream)) return 94;
    early = *(volatile char *)&host[SIZE - 1];
    int code = aclrtSynchronizeStream(stream);
    const char *why = code ? aclGetRecentErrMsg() : "";
    late = *(volatile char *)&host[SIZE - 1];
    printf("%c%c %d %s\n", early, late, code, why);
    return 0;
}
"#;

fn run(options: &[&str], program: &Path) -> Output {
    output(ferry(&["run"]).args(options).arg("--").arg(program))
}

#[test]
fn a_forgotten_wait_shows_the_same_way_each_time() {
    let program = compile("schedule-forgotten", PROGRAM);
    for (order, want) in [("late", "on 0 \n"), ("early", "nn 0 \n")] {
        for _ in 0..5 {
            assert_eq!(text(&run(&["--schedule", order], &program).stdout), want, "{order}");
        }
        let by_variable = output(ferry(&["run", "--"]).arg(&program).env("FERRY_SCHEDULE", order));
        assert_eq!(text(&by_variable.stdout), want, "FERRY_SCHEDULE={order}");
        let watched = output(ferry(&["stat", "--schedule", order, "--"]).arg(&program));
        assert_eq!(text(&watched.stdout), want, "ferry stat, {order}");
    }
    let of_seed = |seed: u32| {
        let seed = seed.to_string();
        text(&run(&["--schedule", "shuffle", "--seed", &seed], &program).stdout)
    };
    let first: Vec<_> = (0..12).map(of_seed).collect();
    assert!(first.contains(&"on 0 \n".into()) && first.contains(&"nn 0 \n".into()), "{first:?}");
    assert_eq!(first, (0..12).map(of_seed).collect::<Vec<_>>(), "by the seed");
}

#[test]
fn many_seeds_are_run_and_those_that_fail_are_named() {
    let program = compile("schedule-seeds", PROGRAM);
    let program = program.to_string_lossy();
    let is_right = format!("'{program}' | grep -q ^nn");
    let by_seed = |seed: u32| {
        let seed = seed.to_string();
        let words = ["run", "--schedule", "shuffle", "--seed", &seed, "--", "sh", "-c", &is_right];
        output(&mut ferry(&words)).status.code()
    };
    let failed: Vec<String> =
        (1..=8).filter(|seed| by_seed(*seed) != Some(0)).map(|seed| seed.to_string()).collect();
    assert!((1..8).contains(&failed.len()), "seeds that fail: {failed:?}");
    let all = output(&mut ferry(&["run", "--seeds", "8", "--", "sh", "-c", &is_right]));
    let want = format!(
        "ferry run: {} of 8 seeds failed: {} (--seed N repeats one)",
        failed.len(),
        failed.join(", ")
    );
    let said = text(&all.stderr);
    assert!(all.status.code() == Some(1) && said.contains(&want), "{:?}, not {want}: {said}", all.status);
    let none = output(&mut ferry(&["run", "--seeds", "2", "--", "true"]));
    assert!(none.status.success() && text(&none.stderr).contains("ferry run: 2 seeds, none failed"));
    // What is wrong whatever the order fails with each seed.
    let checked = output(&mut ferry(&["check", "--seeds", "3", "--", &program]));
    let said = text(&checked.stderr);
    let want = "ferry check: 3 of 3 seeds failed: 1, 2, 3 (--seed N repeats one)";
    assert!(checked.status.code() == Some(99) && said.contains(want), "{:?}: {said}", checked.status);
}

#[test]
fn what_is_asked_for_fails_and_says_who_asked() {
    let program = compile("schedule-faults", PROGRAM);
    let said = text(&run(&["--fault", "copy#2=507013", "--fault", "alloc>1G=207018"], &program).stdout);
    assert!(said.starts_with("oo 507013 ") && said.contains("FERRY_FAULT"), "{said}");
    let code = |options: &[&str]| run(options, &program).status.code();
    assert_eq!(code(&["--fault", "alloc#1=207001"]), Some(92));
    assert_eq!(code(&["--fault", "alloc>1G=207018; copy#1=507013"]), Some(93), "a synchronous fill is one");
}

#[test]
fn on_a_gpu_copies_fail_too_and_one_line_says_that_it_keeps_to_no_schedule() {
    let program = compile("schedule-cuda", PROGRAM);
    let mut run =
        ferry(&["run", "--backend", "cuda", "--schedule", "late", "--fault", "copy#2=507013", "--"]);
    let done = output(run.arg(&program).env("LD_LIBRARY_PATH", stand_in()));
    let (said, told) = (text(&done.stdout), text(&done.stderr));
    assert!(said.starts_with("oo 507013 ") && said.contains("FERRY_FAULT"), "{said}{told}");
    assert_eq!(told, "ferry: FERRY_SCHEDULE=late has no effect on the cuda backend\n");
}

#[test]
fn values_that_make_no_sense_are_refused_before_anything_runs() {
    let program = compile("schedule-refused", PROGRAM);
    for (options, says) in [
        (&["--schedule", "soon"][..], "late, early, shuffle"),
        (&["--seed", "dice"], "--seed"),
        (&["--fault", "copy#3"], "column 6: give a number and '='"),
    ] {
        let done = run(options, &program);
        let why = text(&done.stderr);
        assert!(done.status.code() == Some(2) && why.contains(says), "{options:?}: {why}");
        assert!(done.stdout.is_empty());
    }
    let done = output(ferry(&["run", "--"]).arg(&program).env("FERRY_SCHEDULE", "soon"));
    let said = text(&done.stdout);
    assert!(done.status.code() == Some(90) && said.contains("FERRY_SCHEDULE=soon"), "{said}");
}

#[test]
fn devices_show_what_is_on() {
    let form = ["devices", "--schedule", "late", "--seed", "7", "--fault", "copy#3=507013"];
    let shown = text(&output(&mut ferry(&form)).stdout);
    for line in ["FERRY_SCHEDULE=late", "FERRY_SEED=7", "FERRY_FAULT=copy#3=507013"] {
        assert!(shown.contains(&format!("\nchance    {line}\n")), "{line} is not in {shown}");
    }
    let json = output(ferry(&form).arg("--json")).stdout;
    let report: serde_json::Value = serde_json::from_slice(&json).expect("it is JSON");
    assert_eq!(report["chances"]["FERRY_SCHEDULE"], "late");
    assert!(!text(&output(&mut ferry(&["devices"])).stdout).contains("\nchance "), "off by default");
}
