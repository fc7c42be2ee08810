//! Which function exists on which product and form. Each row is a child process: this program again with
//! FERRY_SOC and FERRY_FORM.

use std::process::Command;

use ferry_tests::kind::{D2D, H2D, H2H};
use ferry_tests::products::{ROWS, Row};
use ferry_tests::*;

const UNSUPPORTED: i32 = 207000;

/// Functions whose result is no aclError of the call.
const OTHER_RESULTS: [&str; 8] = [
    "aclGetRecentErrMsg",
    "aclrtGetSocName",
    "aclDataTypeSize",
    "aclFloat16ToFloat",
    "aclFloatToFloat16",
    "aclAppLog",
    "aclrtPeekAtLastError",
    "aclrtGetLastError",
];

// proves: Y1 Y7 R10 R18 R30 R31 R33 R34 R64 R78 N6 N14 N16
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

/// A child's part.
#[test]
#[ignore = "run by every_row_in_a_process_of_its_own"]
fn one_row_of_the_library() {
    every_function_of_the_headers(Row::current());
}

/// A child's part.
#[test]
#[ignore = "run by every_row_in_a_process_of_its_own"]
fn one_row() {
    let row = Row::current();
    use_device();
    assert_eq!(soc_name().as_deref(), Some(row.soc));
    streams_that_stop(row.is_newest());
    limits(row);
    if row.form == "ep" {
        host_to_host_is_refused();
        copies_work();
        rectangles_inside_a_device(row.is_newest());
    }
}

/// Calls every function that the headers declare with nothing but zeros, in the library as programs load it.
/// One that the product lacks says so before it looks at anything; any other has another complaint, or none.
fn every_function_of_the_headers(row: &Row) {
    let functions = headers::functions();
    assert!(functions.len() > 115, "the headers declare {} functions", functions.len());
    let library = headers::Library::open();
    for headers::Function { name, .. } in functions {
        let code = library.call(&name, &[]) as i32;
        if OTHER_RESULTS.contains(&name.as_str()) {
            continue;
        }
        assert_eq!(
            code != UNSUPPORTED,
            row.has(&name),
            "{name} on {} in the {} form gives {code}",
            row.soc,
            row.form
        );
    }
}

/// A device has as many streams, events and notifies as its product, and not one more.
fn limits(row: &Row) {
    let [streams, events, notifies] = row.most;
    let mut handle = 0;
    for made in 1..streams {
        expect(&format!("stream {made} of {streams}"), aclrtCreateStream(&mut handle), 0);
    }
    expect("one stream more", aclrtCreateStream(&mut handle), 207005);
    for made in 0..events {
        expect(&format!("event {made} of {events}"), aclrtCreateEvent(&mut handle), 0);
    }
    expect("one event more", aclrtCreateEvent(&mut handle), 207007);
    for made in 0..notifies {
        expect(&format!("notify {made} of {notifies}"), aclrtCreateNotify(&mut handle, 0), 0);
    }
    expect("one notify more", aclrtCreateNotify(&mut handle, 0), 207009);
    ok(aclrtDestroyNotify(handle));
    expect("in the place of another", aclrtCreateNotify(&mut handle, 0), 0);
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
