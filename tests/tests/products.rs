//! Which function exists on which product and form. Each row is a child process: this program again with FERRY_SOC and FERRY_FORM.

use std::process::Command;

use ferry_tests::kind::{H2D, H2H, INNER};
use ferry_tests::*;

const UNSUPPORTED: i32 = 207000;

/// Product, form, and what is missing there: 2-D copies, batches and 32-bit fills, descriptors, offsets.
const ROWS: [(&str, &str, [bool; 4]); 8] = [
    ("Ascend910B1", "ep", [false, false, false, false]),
    ("Ascend910_9391", "ep", [false, false, false, false]),
    ("Ascend950PR_9599", "ep", [false, false, false, false]),
    ("Ascend310B1", "ep", [false, true, false, true]),
    ("Ascend310B1", "rc", [true, true, false, true]),
    ("Ascend310P3", "ep", [false, true, true, true]),
    ("Ascend310P3", "ctrlcpu", [true, true, true, true]),
    ("Ascend910A", "ep", [false, true, true, false]),
];

// proves: R10 R18 R30 R31 R33 R34 R64 R78 N6 N16
#[test]
fn every_row_in_a_process_of_its_own() {
    let program = std::env::current_exe().expect("Linux knows which program runs");
    for (soc, form, _) in ROWS {
        let mut child = Command::new(&program);
        child
            .args(["--ignored", "--exact", "one_row", "--nocapture"])
            .env("FERRY_SOC", soc)
            .env("FERRY_FORM", form);
        let done = child.output().expect("this program can be started");
        let said = String::from_utf8_lossy(&done.stdout);
        let why = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success() && said.contains("1 passed"), "{soc} {form}: {said}{why}");
    }
}

/// The child's part.
#[test]
#[ignore = "run by every_row_in_a_process_of_its_own"]
fn one_row() {
    let var = |name| std::env::var(name).expect("the parent says which row");
    let (soc, form) = (var("FERRY_SOC"), var("FERRY_FORM"));
    let row = ROWS.into_iter().find(|(s, f, _)| (*s, *f) == (&soc, &form)).expect("a row of the table");
    use_device();
    assert_eq!(soc_name().as_deref(), Some(soc.as_str()));
    what_exists(row.2);
    streams_that_stop(["Ascend910B1", "Ascend910_9391", "Ascend950PR_9599"].contains(&soc.as_str()));
    if form == "ep" {
        host_to_host_is_refused();
        copies_work();
    }
}

/// A function that does not exist says so before it looks at its arguments; one that exists complains of NULL.
fn what_exists([no_2d, no_batch, no_desc, no_offset]: [bool; 4]) {
    const NULL: i32 = 100000;
    // A batch of a NULL destination.
    let batch = |form| Batch::of(&[(0, 64, 1)], HOST_TO_DEVICE).call(form, 0).0;
    let rows: [(&str, i32, bool); 13] = [
        ("aclrtMemcpy", aclrtMemcpy(0, 0, 0, 0, H2D), false),
        ("aclrtMemcpyAsync", aclrtMemcpyAsync(0, 0, 0, 0, H2D, 0), false),
        ("aclrtMemcpyAsyncWithCondition", aclrtMemcpyAsyncWithCondition(0, 0, 0, 0, H2D, 0), false),
        ("aclrtMemset", aclrtMemset(0, 0, 0, 0), false),
        ("aclrtMemcpy2d", aclrtMemcpy2d(0, 0, 0, 0, 0, 0, H2D), no_2d),
        ("aclrtMemcpy2dAsync", aclrtMemcpy2dAsync(0, 0, 0, 0, 0, 0, H2D, 0), no_2d),
        ("aclrtMemcpyBatchAsync", batch(BatchForm::Async), no_batch),
        ("aclrtMemsetD32", aclrtMemsetD32(0, 0, 0, 0), no_batch),
        ("aclrtMemsetD32Async", aclrtMemsetD32Async(0, 0, 0, 0, 0), no_batch),
        ("aclrtSetMemcpyDesc", aclrtSetMemcpyDesc(0, INNER, 0, 0, 0, 0), no_desc),
        ("aclrtMemcpyAsyncWithDesc", aclrtMemcpyAsyncWithDesc(0, INNER, 0), no_desc),
        ("aclrtMemcpyAsyncWithOffset", aclrtMemcpyAsyncWithOffset(0, 0, 0, 0, 0, 0, INNER, 0), no_offset),
        ("aclrtFree", aclrtFree(0), false),
    ];
    for (name, code, missing) in rows {
        assert_eq!(code, if missing { UNSUPPORTED } else { NULL }, "{name}");
    }
    for form in BatchForm::ALL {
        assert_eq!(batch(form), if no_batch { UNSUPPORTED } else { NULL }, "{form:?}");
    }
}

/// The newest products abort streams and let the default stream have a failure mode.
fn streams_that_stop(newest: bool) {
    assert_eq!(aclrtStreamAbort(0), if newest { 0 } else { UNSUPPORTED });
    assert_eq!(aclrtSetStreamFailureMode(0, 0), if newest { 0 } else { 107000 });
    ok(aclrtSetStreamFailureMode(stream(), 1));
}

fn host_to_host_is_refused() {
    let (to, from) = (Memory::pinned(64), Memory::pinned(64));
    let (to, from) = (to.addr, from.addr);
    expect("aclrtMemcpyAsync, host to host", aclrtMemcpyAsync(to, 64, from, 64, H2H, 0), UNSUPPORTED);
    let code = aclrtMemcpyAsyncWithCondition(to, 64, from, 64, H2H, 0);
    expect("aclrtMemcpyAsyncWithCondition, host to host", code, UNSUPPORTED);
}

fn copies_work() {
    let data = pattern(4096, 3);
    let (device, host) = (Memory::device(4096), Memory::holding(Home::Pinned, &data));
    ok(aclrtMemcpyAsyncWithCondition(device.addr, 4096, host.addr, 4096, H2D, 0));
    ok(aclrtMemcpy2dAsync(device.addr, 64, host.addr, 64, 32, 4, H2D, 0));
    finish(0);
    device.assert_holds(&data, "a copy on this product");
}
