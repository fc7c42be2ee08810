//! What public programs do where the documents are silent or leave it undefined: it works, and
//! `FERRY_STRICT=1` takes back exactly that (the table in docs/ENVIRONMENT.md). Each case is a child process,
//! once for every value of the variable.

use ferry_tests::code::*;
use ferry_tests::kind::*;
use ferry_tests::*;

const SYNC: u32 = 0x1;
const TIME_LINE: u32 = 0x8;
const LEN: usize = 4096;

/// The value of FERRY_STRICT, and whether it takes the list back.
const VALUES: [(Option<&str>, bool); 3] = [(None, false), (Some("0"), false), (Some("1"), true)];

const CASES: [children::Case; 6] = [
    ("events without flags", events_without_flags),
    ("resets", resets),
    ("before a device is set", before_a_device_is_set),
    ("names of packages", names_of_packages),
    ("access to the current device", access_to_the_current_device),
    ("memory imported from another device", imported_from_another_device),
];

#[test]
fn each_case_both_ways() {
    for (value, is_strict) in VALUES {
        for (case, _) in CASES {
            let told = if is_strict { "yes" } else { "no" };
            children::run(case, &[("FERRY_STRICT", value), ("FERRY_TEST_STRICT", Some(told))]);
        }
    }
}

/// The child's part.
#[test]
#[ignore = "run by each_case_both_ways"]
fn one_case() {
    children::play(&CASES);
}

fn is_strict() -> bool {
    std::env::var("FERRY_TEST_STRICT").expect("the parent says so") == "yes"
}

/// A call that works, unless the library is strict: then it is refused with this code. Whether it works.
#[track_caller]
fn tolerated(what: &str, code: i32, strictly: i32) -> bool {
    expect(what, code, if is_strict() { strictly } else { SUCCESS });
    !is_strict()
}

/// What is refused either way.
#[track_caller]
fn refused_anyway(rows: &[(&str, i32, i32)]) {
    message();
    for (what, code, want) in rows {
        assert_eq!(code, want, "{what}");
    }
}

fn events_without_flags() {
    use_device();
    let (stream, waiting) = (stream(), stream());
    for make in [aclrtCreateEventWithFlag, aclrtCreateEventExWithFlag] {
        let (mut start, mut end) = (7, 7);
        if !tolerated("flag 0", make(&mut start, 0), RT_PARAM_INVALID) {
            assert_eq!(start, 7, "a refused call writes nothing");
            continue;
        }
        ok(make(&mut end, 0));
        // It is for all that an event of aclrtCreateEvent is for.
        ok(aclrtRecordEvent(start, stream));
        let gate = block(stream);
        ok(aclrtRecordEvent(end, stream));
        ok(aclrtStreamWaitEvent(waiting, end));
        blocked::settle();
        assert_eq!((event_status(end), stream_status(waiting)), (EVENT_NOT_READY, STREAM_NOT_READY));
        gate.unblock();
        finish(waiting);
        ok(aclrtSynchronizeEvent(end));
        assert_eq!(event_status(end), EVENT_COMPLETE);
        let (mut ms, mut us) = (-1.0, 0);
        ok(aclrtEventElapsedTime(&mut ms, start, end));
        assert!(ms >= 0.0, "{ms} ms");
        ok(aclrtEventGetTimestamp(end, &mut us));
        ok(aclrtDestroyEvent(end));
    }
    let mut event = 7;
    refused_anyway(&[
        ("an unknown flag", aclrtCreateEventWithFlag(&mut event, 0x8000), RT_PARAM_INVALID),
        ("EXTERNAL and others", aclrtCreateEventWithFlag(&mut event, 0x21), RT_PARAM_INVALID),
        ("IPC and others", aclrtCreateEventExWithFlag(&mut event, 0x41), RT_PARAM_INVALID),
    ]);
}

fn resets() {
    use_device();
    let (stream, waiting) = (stream(), stream());
    let made = |make: fn(*mut usize, u32) -> i32, flag| {
        let mut event = 0;
        ok(make(&mut event, flag));
        event
    };
    for (what, event, is_waited_for, when_unrecorded) in [
        ("aclrtCreateEvent", event(), true, EVENT_NOT_READY),
        ("no ACL_EVENT_SYNC", made(aclrtCreateEventWithFlag, TIME_LINE), false, EVENT_NOT_READY),
        ("Ex", made(aclrtCreateEventExWithFlag, SYNC), true, EVENT_COMPLETE),
        ("Ex, no ACL_EVENT_SYNC", made(aclrtCreateEventExWithFlag, TIME_LINE), false, EVENT_COMPLETE),
    ] {
        ok(aclrtRecordEvent(event, stream));
        finish(stream);
        if !tolerated(what, aclrtResetEvent(event, stream), RT_PARAM_INVALID) {
            assert_eq!(event_status(event), EVENT_COMPLETE, "{what}: a refused reset changes nothing");
            continue;
        }
        finish(stream);
        assert_eq!(event_status(event), when_unrecorded, "{what}: as before its first record");
        if is_waited_for {
            ok(aclrtStreamWaitEvent(waiting, event));
            blocked::settle();
            assert_eq!(stream_status(waiting), STREAM_NOT_READY, "{what}: the wait is for the next record");
        }
        ok(aclrtRecordEvent(event, stream));
        finish(waiting);
        finish(stream);
        assert_eq!(event_status(event), EVENT_COMPLETE, "{what}: recorded again");
    }
    let timed = made(aclrtCreateEventWithFlag, TIME_LINE);
    let newest = made(aclrtCreateEventExWithFlag, SYNC);
    refused_anyway(&[
        ("waiting without ACL_EVENT_SYNC", aclrtStreamWaitEvent(waiting, timed), RT_PARAM_INVALID),
        ("an older query", aclrtQueryEvent(newest, &mut 0), RT_PARAM_INVALID),
        ("another older query", aclrtQueryEventWaitStatus(newest, &mut 0), RT_PARAM_INVALID),
        ("no event", aclrtResetEvent(0x10, stream), INVALID_HANDLE),
    ]);
    // What is documented works as ever.
    ok(aclrtResetEvent(made(aclrtCreateEventWithFlag, SYNC), stream));
}

fn before_a_device_is_set() {
    let (mut size, mut mode) = (7, 7);
    let huge = 13;
    let granularity = aclrtMemGetAllocationGranularity(&mut properties(huge, 1), 0, &mut size);
    if tolerated("granularity", granularity, CONTEXT_NULL) {
        assert_eq!(size, 2 << 20);
        let no_device = aclrtMemGetAllocationGranularity(&mut properties(huge, 9), 0, &mut size);
        expect("granularity of no device", no_device, INVALID_DEVICEID);
    }
    if tolerated("the saturation mode", aclrtGetDeviceSatMode(&mut mode), CONTEXT_NULL) {
        assert_eq!(mode, 0);
    }
    if tolerated("a saturation mode", aclrtSetDeviceSatMode(1), CONTEXT_NULL) {
        ok(aclrtGetDeviceSatMode(&mut mode));
        assert_eq!(mode, 1);
        expect("no mode", aclrtSetDeviceSatMode(2), RT_PARAM_INVALID);
        // It holds for every device that is set afterwards, and is each one's own from then on.
        ok(aclrtSetDevice(1));
        ok(aclrtGetDeviceSatMode(&mut mode));
        assert_eq!(mode, 1);
        ok(aclrtSetDeviceSatMode(0));
        ok(aclrtSetDevice(0));
        ok(aclrtGetDeviceSatMode(&mut mode));
        assert_eq!(mode, 1);
    }
    in_new_thread(|| {
        let (mut out, mut total) = (0, 0);
        refused_anyway(&[
            ("memory", aclrtMalloc(&mut out, LEN, 0), CONTEXT_NULL),
            ("free memory", aclrtGetMemInfo(1, &mut out, &mut total), CONTEXT_NULL),
            ("physical memory", aclrtMallocPhysical(&mut out, 2 << 20, &properties(13, 0), 0), CONTEXT_NULL),
            ("addresses", aclrtReserveMemAddress(&mut out, LEN, 0, 0, 0), CONTEXT_NULL),
        ]);
    });
}

fn names_of_packages() {
    for name in [c"Runtime", c"RUNTIME", c"Opp_Kernel", c"CANN"] {
        let (mut text, mut number) = ([1; 128], 7);
        if tolerated("text", aclsysGetVersionStr(name.as_ptr(), text.as_mut_ptr()), RT_PARAM_INVALID) {
            assert_eq!(text[..6].iter().map(|c| *c as u8).collect::<Vec<_>>(), b"8.5.0\0");
        }
        if tolerated("number", aclsysGetVersionNum(name.as_ptr(), &mut number), RT_PARAM_INVALID) {
            assert_eq!(number, 80_500_000);
        }
    }
    let mut number = 7;
    ok(aclsysGetVersionNum(c"runtime".as_ptr(), &mut number));
    refused_anyway(&[
        ("another name", aclsysGetVersionNum(c"mindspore".as_ptr(), &mut number), RT_PARAM_INVALID),
        ("a blank", aclsysGetVersionNum(c"Runtime ".as_ptr(), &mut number), RT_PARAM_INVALID),
    ]);
}

fn access_to_the_current_device() {
    for device in [0, 1] {
        ok(aclrtSetDevice(device));
        tolerated("itself", aclrtDeviceEnablePeerAccess(device, 0), RT_PARAM_INVALID);
        let memory = Memory::device(LEN);
        ok(aclrtMemcpyAsync(memory.addr, 64, memory.addr + 64, 64, INNER, 0));
        finish(0);
    }
    let mut status = 7;
    refused_anyway(&[
        ("itself, with flags", aclrtDeviceEnablePeerAccess(1, 1), RT_PARAM_INVALID),
        ("a device that is not there", aclrtDeviceEnablePeerAccess(9, 0), INVALID_DEVICEID),
        ("whether it can", aclrtDeviceCanAccessPeer(&mut status, 1, 1), RT_PARAM_INVALID),
        ("whether it does", aclrtDevicePeerAccessStatus(1, 1, &mut status), RT_PARAM_INVALID),
    ]);
    ok(aclrtDevicePeerAccessStatus(1, 0, &mut status));
    assert_eq!(status, 0, "no access to others comes with it");
}

/// Exported here on device 0, and imported with device 1 current.
fn imported_from_another_device() {
    use_device();
    let memory = Memory::holding(Home::Device, &pattern(LEN, 1));
    let mut key = [0; 65];
    ok(aclrtIpcMemGetExportKey(memory.addr, LEN, key.as_mut_ptr(), 65, 1));
    ok(aclrtSetDevice(1));
    let (mut far, stream, host) = (0, stream(), Memory::pinned(LEN));
    ok(aclrtIpcMemImportByKey(&mut far, key.as_ptr(), 1));
    let own = Memory::device(LEN);
    own.fill(0);
    let out = aclrtMemcpyAsync(own.addr, LEN, far, LEN, DEFAULT, stream);
    let back = tolerated("from it", out, RT_PARAM_INVALID);
    finish(stream);
    own.assert_holds(&if back { pattern(LEN, 1) } else { vec![0; LEN] }, "copied, or not");
    own.fill(2);
    tolerated("to it", aclrtMemcpyAsync(far, LEN, own.addr, LEN, DEFAULT, stream), RT_PARAM_INVALID);
    finish(stream);
    memory.assert_holds(&if back { vec![2; LEN] } else { pattern(LEN, 1) }, "copied, or not");
    // Documented: no copies between it and the host, and no synchronous ones.
    refused_anyway(&[
        ("from the host", aclrtMemcpyAsync(far, LEN, host.addr, LEN, DEFAULT, stream), RT_PARAM_INVALID),
        ("to the host", aclrtMemcpyAsync(host.addr, LEN, far, LEN, DEFAULT, stream), RT_PARAM_INVALID),
        ("to the host, as such", aclrtMemcpyAsync(host.addr, LEN, far, LEN, D2H, stream), RT_PARAM_INVALID),
        ("synchronous", aclrtMemcpy(own.addr, LEN, far, LEN, DEFAULT), RT_PARAM_INVALID),
    ]);
    ok(aclrtMemcpyAsync(own.addr, LEN, far, LEN, D2D, stream));
    finish(stream);
}
