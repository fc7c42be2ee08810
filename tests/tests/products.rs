//! Which function exists on which product and form. Each row is a child process: this program again with FERRY_SOC and FERRY_FORM.

use std::process::Command;

use ferry_tests::kind::{D2D, H2D, H2H};
use ferry_tests::*;

const UNSUPPORTED: i32 = 207000;

/// A product in a form.
struct Row {
    soc: &'static str,
    form: &'static str,
    /// The tag of the documents.
    tag: &'static str,
    /// Streams of a device, the default stream among them, and events.
    most: [usize; 2],
}

const fn row(soc: &'static str, form: &'static str, tag: &'static str, streams: usize, events: usize) -> Row {
    Row { soc, form, tag, most: [streams, events] }
}

const ROWS: [Row; 8] = [
    row("Ascend910B1", "ep", "A2", 1984, 65536),
    row("Ascend910_9391", "ep", "A3", 1984, 65536),
    row("Ascend950PR_9599", "ep", "950", 1984, 65536),
    row("Ascend310B1", "ep", "200I", 512, 65536),
    row("Ascend310B1", "rc", "200I", 512, 65536),
    row("Ascend310P3", "ep", "INF", 1024, 1023),
    row("Ascend310P3", "ctrlcpu", "INF", 1024, 1023),
    row("Ascend910A", "ep", "TRN", 2048, 65535),
];

/// Functions that some products or forms lack, as the documents have it: the products that have them, the forms that do not.
/// A name that ends with a star stands for all that begin like it. What is not here exists everywhere.
const LIMITED: &[(&str, &[&str], &[&str])] = &[
    ("aclrtMemcpyBatch*", NEWEST, &[]),
    ("aclrtMemcpy2d*", ALL, &["rc", "ctrlcpu"]),
    ("aclrtGetMemcpyDescSize", &["950", "A3", "A2", "200I"], &[]),
    ("aclrtSetMemcpyDesc", &["950", "A3", "A2", "200I"], &[]),
    ("aclrtMemcpyAsyncWithDesc", &["950", "A3", "A2", "200I"], &[]),
    ("aclrtMemcpyAsyncWithOffset", &["950", "A3", "A2", "TRN"], &[]),
    ("aclrtMemsetD32*", NEWEST, &[]),
    ("aclrtDeviceCanAccessPeer", NOT_200I, &["ctrlcpu"]),
    ("aclrtDeviceEnablePeerAccess", NOT_200I, &["ctrlcpu"]),
    ("aclrtDeviceDisablePeerAccess", NOT_200I, &["ctrlcpu"]),
    ("aclrtDevicePeerAccessStatus", NOT_200I, &["ctrlcpu"]),
    ("aclrtStreamAbort", NEWEST, &[]),
    ("aclrtSetDeviceSatMode", NEWEST, &[]),
    ("aclrtGetDeviceSatMode", NEWEST, &[]),
    ("aclrtHost*", NEWEST, &[]),
    ("aclrtIpcMem*", NOT_200I, &[]),
    ("aclrtReserveMemAddress", ALL, &["rc"]),
    ("aclrtReleaseMemAddress", ALL, &["rc"]),
    ("aclrtMallocPhysical", ALL, &["rc"]),
    ("aclrtFreePhysical", ALL, &["rc"]),
    ("aclrtMapMem", ALL, &["rc"]),
    ("aclrtUnmapMem", ALL, &["rc"]),
    ("aclrtMemGetAllocationGranularity", ALL, &["rc"]),
    ("aclrtMemExportToShareableHandle*", ALL, &["rc"]),
    ("aclrtMemSetPidToShareableHandle*", ALL, &["rc"]),
    ("aclrtMemImportFromShareableHandle*", ALL, &["rc"]),
];

const ALL: &[&str] = &["950", "A3", "A2", "200I", "INF", "TRN"];
const NEWEST: &[&str] = &["950", "A3", "A2"];
const NOT_200I: &[&str] = &["950", "A3", "A2", "INF", "TRN"];

/// Functions whose result is no aclError of the call.
const OTHER_RESULTS: [&str; 6] = [
    "aclGetRecentErrMsg",
    "aclrtGetSocName",
    "aclDataTypeSize",
    "aclAppLog",
    "aclrtPeekAtLastError",
    "aclrtGetLastError",
];

// proves: R10 R18 R30 R31 R33 R34 R64 R78 N6 N14 N16
#[test]
fn every_row_in_a_process_of_its_own() {
    let program = std::env::current_exe().expect("Linux knows which program runs");
    for Row { soc, form, .. } in ROWS {
        // The library and what is linked into this program are two engines, which one process must not have.
        for part in ["one_row", "one_row_of_the_library"] {
            let mut child = Command::new(&program);
            child
                .args(["--ignored", "--exact", part, "--nocapture"])
                .env("FERRY_SOC", soc)
                .env("FERRY_FORM", form);
            if form != "ep" {
                child.env("FERRY_BACKEND", "host"); // no GPU is a board
            }
            let done = child.output().expect("this program can be started");
            let said = String::from_utf8_lossy(&done.stdout);
            let why = String::from_utf8_lossy(&done.stderr);
            assert!(done.status.success() && said.contains("1 passed"), "{soc} {form} {part}: {said}{why}");
        }
    }
}

/// The row that the parent names.
fn this_row() -> &'static Row {
    let var = |name| std::env::var(name).expect("the parent says which row");
    let (soc, form) = (var("FERRY_SOC"), var("FERRY_FORM"));
    ROWS.iter().find(|row| (row.soc, row.form) == (&soc, &form)).expect("a row of the table")
}

/// A child's part.
#[test]
#[ignore = "run by every_row_in_a_process_of_its_own"]
fn one_row_of_the_library() {
    every_function_of_the_headers(this_row());
}

/// A child's part.
#[test]
#[ignore = "run by every_row_in_a_process_of_its_own"]
fn one_row() {
    let row = this_row();
    use_device();
    assert_eq!(soc_name().as_deref(), Some(row.soc));
    streams_that_stop(NEWEST.contains(&row.tag));
    limits(row);
    if row.form == "ep" {
        host_to_host_is_refused();
        copies_work();
        rectangles_inside_a_device(NEWEST.contains(&row.tag));
    }
}

/// Calls every function that the headers declare with nothing but zeros, in the library as programs load it. One that the
/// product lacks says so before it looks at anything; any other has another complaint, or none.
fn every_function_of_the_headers(row: &Row) {
    let functions = headers::functions();
    assert!(functions.len() > 115, "the headers declare {} functions", functions.len());
    let library = headers::Library::open();
    for headers::Function { name, .. } in functions {
        let code = library.call(&name, &[]) as i32;
        if OTHER_RESULTS.contains(&name.as_str()) {
            continue;
        }
        let rule = LIMITED.iter().find(|(pattern, ..)| match pattern.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == *pattern,
        });
        let exists =
            rule.is_none_or(|(_, tags, forms)| tags.contains(&row.tag) && !forms.contains(&row.form));
        assert_eq!(
            code != UNSUPPORTED,
            exists,
            "{name} on {} in the {} form gives {code}",
            row.soc,
            row.form
        );
    }
}

/// A device has as many streams and events as its product, and not one more.
fn limits(row: &Row) {
    let [streams, events] = row.most;
    let mut handle = 0;
    for made in 1..streams {
        expect(&format!("stream {made} of {streams}"), aclrtCreateStream(&mut handle), 0);
    }
    expect("one stream more", aclrtCreateStream(&mut handle), 207005);
    for made in 0..events {
        expect(&format!("event {made} of {events}"), aclrtCreateEvent(&mut handle), 0);
    }
    expect("one event more", aclrtCreateEvent(&mut handle), 207007);
}

/// The newest products abort streams and let the default stream have a failure mode.
fn streams_that_stop(newest: bool) {
    assert_eq!(aclrtStreamAbort(0), if newest { 0 } else { UNSUPPORTED });
    assert_eq!(aclrtSetStreamFailureMode(0, 0), if newest { 0 } else { 107000 });
    let stream = stream();
    ok(aclrtSetStreamFailureMode(stream, 1));
    ok(aclrtDestroyStream(stream));
}

fn host_to_host_is_refused() {
    let (to, from) = (Memory::pinned(64), Memory::pinned(64));
    let (to, from) = (to.addr, from.addr);
    expect("aclrtMemcpyAsync, host to host", aclrtMemcpyAsync(to, 64, from, 64, H2H, 0), UNSUPPORTED);
    let code = aclrtMemcpyAsyncWithCondition(to, 64, from, 64, H2H, 0);
    expect("aclrtMemcpyAsyncWithCondition, host to host", code, UNSUPPORTED);
}

fn rectangles_inside_a_device(newest: bool) {
    let data = pattern(256, 5);
    let (from, to) = (Memory::holding(Home::Device, &data), Memory::device(256));
    let code = aclrtMemcpy2dAsync(to.addr, 64, from.addr, 64, 64, 4, D2D, 0);
    expect("a rectangle inside a device", code, if newest { 0 } else { 100000 });
    if newest {
        finish(0);
        to.assert_holds(&data, "a rectangle inside a device");
    }
}

fn copies_work() {
    let data = pattern(4096, 3);
    let (device, host) = (Memory::device(4096), Memory::holding(Home::Pinned, &data));
    ok(aclrtMemcpyAsyncWithCondition(device.addr, 4096, host.addr, 4096, H2D, 0));
    ok(aclrtMemcpy2dAsync(device.addr, 64, host.addr, 64, 32, 4, H2D, 0));
    finish(0);
    device.assert_holds(&data, "a copy on this product");
}
