//! FERRY_FAULT: what fails because it was asked for, where it shows and what the message says. Each case is a
//! child process: this program again, told by FERRY_TEST_CASE what to do.

use std::process::Command;

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

const LEN: usize = 4096;

type Case = (&'static str, &'static str, fn());

const CASES: &[Case] = &[
    ("the third copy", "copy#3=507013", third_copy),
    ("a fill, a batch and a reduction count", "copy#2=507013; copy#3=507014;copy#5=507015", every_kind),
    ("a copy that waits for its end", "copy#1=507013", waited_copy),
    ("a copy of a captured model", "copy#2=507013", captured_copy),
    ("large allocations", "alloc>1MiB=207018", large_allocations),
    ("the second allocation", "alloc#2=207001", second_allocation),
    ("synchronisations", "sync#1=507000; sync#2=507001; sync#4=507002", synchronisations),
    ("every copy by chance", "p=1:507056", || assert_eq!(failed_of(20), 20)),
    ("some copies by chance", "p=0.5:507056", || assert!((10..90).contains(&failed_of(100)))),
    ("no copy by chance", "p=0:507056", || assert_eq!(failed_of(20), 0)),
    ("a text that makes no sense", "copy#3", || refused_setting("column 6")),
    ("an empty text", "", || refused_setting("column 1")),
];

#[test]
fn each_case_in_a_process_of_its_own() {
    for (name, faults, _) in CASES {
        run(name, &[("FERRY_FAULT", faults)]);
    }
    run("the third copy", &[("FERRY_FAULT", "copy#3=507013"), ("FERRY_SCHEDULE", "late")]);
}

fn run(name: &str, settings: &[(&str, &str)]) {
    let program = std::env::current_exe().expect("Linux knows which program runs");
    let mut child = Command::new(&program);
    child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", name);
    let done = child.envs(settings.iter().copied()).output().expect("this program can be started");
    let (said, stderr) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{name}: {said}{stderr}");
}

/// The child's part.
#[test]
#[ignore = "run by each_case_in_a_process_of_its_own"]
fn one_case() {
    let name = std::env::var("FERRY_TEST_CASE").expect("the parent says which case");
    let (_, _, case) = CASES.iter().find(|case| case.0 == name).expect("a case of this name");
    case();
}

/// Three copies, of which the last fails when it runs: nothing of it is copied, and the next synchronise says
/// so, once.
fn third_copy() {
    use_device();
    let (stream, device) = (stream(), Memory::device(LEN));
    let hosts = [1, 2, 3].map(|value| {
        let host = Memory::pinned(LEN);
        host.fill(value);
        host
    });
    for host in &hosts {
        ok(aclrtMemcpyAsync(device.addr, LEN, host.addr, LEN, H2D, stream));
    }
    refused("the copy", aclrtSynchronizeStream(stream), 507013, &["copy 3", "FERRY_FAULT", "copy#3=507013"]);
    ok(aclrtSynchronizeStream(stream));
    device.assert_all(2, "the third copy did nothing");
}

/// A copy, a fill, a batch, two fills: the second, the third and the fifth of them fail.
fn every_kind() {
    use_device();
    let (stream, device, host) = (stream(), Memory::device(LEN), Memory::pinned(LEN));
    host.fill(1);
    let sync = |what, code| expect(what, aclrtSynchronizeStream(stream), code);
    ok(aclrtMemcpyAsync(device.addr, LEN, host.addr, LEN, H2D, stream));
    sync("a copy", SUCCESS);
    ok(aclrtMemsetAsync(device.addr, LEN, 2, LEN, stream));
    sync("a fill", 507013);
    let pieces = [(device.addr, host.addr, 64), (device.addr + 64, host.addr + 64, 64)];
    ok(Batch::of(&pieces, HOST_TO_DEVICE).call(BatchForm::Async, stream).0);
    sync("a batch", 507014);
    for (what, code) in [("the fourth", SUCCESS), ("the fifth", 507015), ("the sixth", SUCCESS)] {
        ok(aclrtMemsetAsync(device.addr, LEN, 2, LEN, stream));
        sync(what, code);
    }
}

/// A synchronous copy answers the code itself.
fn waited_copy() {
    use_device();
    let (device, host) = (Memory::device(LEN), Memory::pinned(LEN));
    let copy = || aclrtMemcpy(device.addr, LEN, host.addr, LEN, H2D);
    refused("the copy", copy(), 507013, &["FERRY_FAULT"]);
    ok(copy());
}

/// A captured copy counts each time it runs.
fn captured_copy() {
    use_device();
    let (stream, device, host) = (stream(), Memory::device(LEN), Memory::pinned(LEN));
    let mut model = 0;
    ok(aclmdlRICaptureBegin(stream, 0));
    ok(aclrtMemcpyAsync(host.addr, LEN, device.addr, LEN, D2H, stream));
    ok(aclmdlRICaptureEnd(stream, &mut model));
    for want in [SUCCESS, 507013, SUCCESS] {
        ok(aclmdlRIExecuteAsync(model, stream));
        expect("an execution", aclrtSynchronizeStream(stream), want);
    }
}

fn large_allocations() {
    use_device();
    let mut addr = 0;
    refused("device", aclrtMalloc(&mut addr, (1 << 20) + 1, 0), 207018, &["FERRY_FAULT", "alloc>1MiB"]);
    refused("host", aclrtMallocHost(&mut addr, 2 << 20), 207018, &["FERRY_FAULT"]);
    assert_eq!(addr, 0);
    ok(aclrtMalloc(&mut addr, 1 << 20, 0));
    ok(aclrtMallocHost(&mut addr, 1 << 20));
}

fn second_allocation() {
    use_device();
    let mut addr = 0;
    ok(aclrtMalloc(&mut addr, LEN, 0));
    refused("the second", aclrtMallocHost(&mut addr, LEN), 207001, &["alloc 2", "FERRY_FAULT"]);
    ok(aclrtMallocHost(&mut addr, LEN));
}

/// Streams, events and devices are counted together.
fn synchronisations() {
    use_device();
    let (stream, event) = (stream(), event());
    ok(aclrtRecordEvent(event, stream));
    refused("a stream", aclrtSynchronizeStream(stream), 507000, &["sync 1", "FERRY_FAULT"]);
    refused("an event", aclrtSynchronizeEvent(event), 507001, &["sync 2", "FERRY_FAULT"]);
    ok(aclrtSynchronizeDevice());
    refused("a device", aclrtSynchronizeDevice(), 507002, &["sync 4", "FERRY_FAULT"]);
    ok(aclrtSynchronizeStream(stream));
}

/// How many of so many copies fail.
fn failed_of(copies: usize) -> usize {
    use_device();
    let (stream, device, host) = (stream(), Memory::device(LEN), Memory::pinned(LEN));
    let failed = (0..copies).filter(|_| {
        ok(aclrtMemcpyAsync(device.addr, LEN, host.addr, LEN, H2D, stream));
        aclrtSynchronizeStream(stream) == 507056
    });
    failed.count()
}

/// The library refuses to open.
fn refused_setting(says: &str) {
    refused("aclInit", aclInit(std::ptr::null()), INVALID_PARAM, &["FERRY_FAULT", says]);
}
