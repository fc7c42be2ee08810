//! What can be set of a stream and asked of it: priority, flags, attributes, overflow switches, cache hints,
//! limits of cores.

use std::ptr::null_mut;

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::products::Row;
use ferry_tests::*;

const FAILURE_MODE: i32 = 1;
const OVERFLOW_CHECK: i32 = 2;
const CUSTOM_TAG: i32 = 3;
const CACHE_OP_INFO: i32 = 4;
const PRIORITY: i32 = 5;

fn priority(stream: usize) -> u32 {
    let mut priority = 77;
    ok(aclrtStreamGetPriority(stream, &mut priority));
    priority
}

fn flags(stream: usize) -> u32 {
    let mut flags = 77;
    ok(aclrtStreamGetFlags(stream, &mut flags));
    flags
}

fn attribute(stream: usize, which: i32) -> u64 {
    let mut value = aclrtStreamAttrValue { reserve: [u32::MAX; 4] };
    ok(aclrtGetStreamAttribute(stream, which, &mut value));
    // SAFETY: the call has written the whole union.
    unsafe { value.failureMode }
}

fn set(stream: usize, which: i32, value: u64) -> i32 {
    aclrtSetStreamAttribute(stream, which, &mut aclrtStreamAttrValue { failureMode: value })
}

// proves: D16
#[test]
fn a_stream_knows_its_priority_and_its_flags() {
    use_device();
    let plain = stream();
    assert_eq!((priority(plain), flags(plain)), (0, 0), "the highest");
    assert_eq!((priority(0), flags(0)), (0, 0), "the default stream");
    for (asked, told, asked_flags, told_flags) in
        [(3, 3, 0, 0), (7, 7, 3, 3), (8, 7, 0x3f, 0x3f), (u32::MAX, 7, 0x40, 0), (0, 0, 0x80000001, 0)]
    {
        let mut stream = 0;
        ok(aclrtCreateStreamWithConfig(&mut stream, asked, asked_flags));
        assert_eq!((priority(stream), flags(stream)), (told, told_flags), "{asked} {asked_flags:#x}");
    }
    expect("no room", aclrtStreamGetPriority(plain, null_mut()), INVALID_PARAM);
    expect("no room", aclrtStreamGetFlags(plain, null_mut()), INVALID_PARAM);
    let (mut least, mut greatest) = (77, 77);
    ok(aclrtDeviceGetStreamPriorityRange(&mut least, &mut greatest));
    assert_eq!((least, greatest), (7, 0));
    expect("no room", aclrtDeviceGetStreamPriorityRange(null_mut(), &mut greatest), INVALID_PARAM);
    expect("no room", aclrtDeviceGetStreamPriorityRange(&mut least, null_mut()), INVALID_PARAM);
}

// proves: D15 D22
#[test]
fn attributes_are_kept_and_told() {
    use_device();
    let (one, other) = (stream(), stream());
    for (which, values) in [
        (OVERFLOW_CHECK, &[1, 0][..]),
        (CUSTOM_TAG, &[5, u32::MAX as u64, 0]),
        (CACHE_OP_INFO, &[1, 0]),
        (PRIORITY, &[7, 3, 0]),
    ] {
        for stream in [one, 0] {
            let before = attribute(other, which);
            assert_eq!(attribute(stream, which), 0, "attribute {which} of a fresh stream");
            for value in values {
                ok(set(stream, which, *value));
                assert_eq!(attribute(stream, which), *value, "attribute {which}");
            }
            assert_eq!(attribute(other, which), before, "another stream's");
        }
    }
    ok(set(one, PRIORITY, 4));
    assert_eq!(priority(one), 4);
    ok(set(one, OVERFLOW_CHECK, 1));
    let mut flag = 7;
    ok(aclrtGetStreamOverflowSwitch(one, &mut flag));
    assert_eq!(flag, 1, "one switch under two names");
}

#[test]
fn the_failure_mode_is_an_attribute_too() {
    // A context of its own: streams that stop, stop all of them.
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    let (one, other) = (stream(), stream());
    assert_eq!(attribute(one, FAILURE_MODE), 0);
    refused("mode 2", set(one, FAILURE_MODE, 2), RT_PARAM_INVALID, &["mode", "2"]);
    ok(set(one, FAILURE_MODE, 1));
    assert_eq!((attribute(one, FAILURE_MODE), attribute(other, FAILURE_MODE)), (1, 0));
    expect("twice", set(one, FAILURE_MODE, 1), RT_PARAM_INVALID);
    expect("twice", aclrtSetStreamFailureMode(one, 0), RT_PARAM_INVALID);
    refused("the default stream", set(0, FAILURE_MODE, 1), RT_PARAM_INVALID, &["NULL"]);
    ok(aclrtSetStreamFailureMode(other, 1));
    assert_eq!(attribute(other, FAILURE_MODE), 1);
    ok(aclrtDestroyContext(context));
}

#[test]
fn attributes_that_make_no_sense() {
    use_device();
    let (stream, wild) = (stream(), Wild::new());
    for (which, value) in
        [(OVERFLOW_CHECK, 2), (CACHE_OP_INFO, 2), (CACHE_OP_INFO, u32::MAX as u64), (PRIORITY, 8)]
    {
        refused("value", set(stream, which, value), RT_PARAM_INVALID, &["value", &value.to_string()]);
        assert_eq!(attribute(stream, which), 0);
    }
    for which in [0, 6, -1, i32::MAX] {
        let words = ["stmAttrType", &which.to_string()];
        refused("no attribute", set(stream, which, 0), RT_PARAM_INVALID, &words);
        let mut value = aclrtStreamAttrValue { failureMode: 5 };
        refused("no attribute", aclrtGetStreamAttribute(stream, which, &mut value), RT_PARAM_INVALID, &words);
    }
    for (value, want) in [(0, INVALID_PARAM), (wild.unmapped, RT_PARAM_INVALID)] {
        refused("value", aclrtSetStreamAttribute(stream, CUSTOM_TAG, value as _), want, &["value"]);
        refused("value", aclrtGetStreamAttribute(stream, CUSTOM_TAG, value as _), want, &["value"]);
    }
    refused("switch", aclrtSetStreamOverflowSwitch(stream, 2), RT_PARAM_INVALID, &["flag", "2"]);
    expect("switch", aclrtGetStreamOverflowSwitch(stream, null_mut()), INVALID_PARAM);
}

// proves: D14
#[test]
fn an_overflow_status_is_zeros_in_stream_order() {
    use_device();
    let (stream, status) = (stream(), Memory::device(128));
    let ones = Memory::holding(Home::Pinned, &[0xff; 128]);
    let gate = block(stream);
    ok(aclrtMemcpyAsync(status.addr, 128, ones.addr, 128, H2D, stream));
    ok(aclrtGetOverflowStatus(status.addr + 32, 64, stream));
    ok(aclrtResetOverflowStatus(stream));
    gate.unblock();
    finish(stream);
    status.part(32, 64).assert_all(0, "the status");
    status.part(0, 32).assert_all(0xff, "before it");
    status.part(96, 32).assert_all(0xff, "behind it");
    let wild = Wild::new();
    for size in [0, 1, 63, 65, usize::MAX] {
        let code = aclrtGetOverflowStatus(status.addr, size, stream);
        refused("size", code, RT_PARAM_INVALID, &["outputSize", &size.to_string()]);
    }
    for (what, addr) in [
        ("host memory", ones.addr),
        ("the last bytes", status.addr + 128),
        ("freed memory", wild.freed_device),
        ("unmapped", wild.unmapped),
    ] {
        expect(what, aclrtGetOverflowStatus(addr, 64, stream), RT_PARAM_INVALID);
    }
    expect("NULL", aclrtGetOverflowStatus(0, 64, stream), INVALID_PARAM);
    expect("a dead stream", aclrtGetOverflowStatus(status.addr, 64, wild.dead_stream), INVALID_HANDLE);
}

// proves: D12
#[test]
fn a_prefetch_changes_nothing_and_is_checked() {
    use_device();
    let (stream, memory, wild) = (stream(), Memory::device(4096), Wild::new());
    memory.fill(9);
    ok(aclrtCmoAsync(memory.addr, 4096, 0, stream));
    ok(aclrtCmoAsync(memory.addr + 100, 0, 0, stream));
    finish(stream);
    memory.assert_all(9, "prefetched");
    for kind in [1, 2, 3] {
        refused(
            "another kind",
            aclrtCmoAsync(memory.addr, 64, kind, stream),
            FEATURE_NOT_SUPPORT,
            &["PREFETCH"],
        );
    }
    let pinned = Memory::pinned(64);
    for (what, code, want) in [
        ("NULL", aclrtCmoAsync(0, 64, 0, stream), INVALID_PARAM),
        ("kind 4", aclrtCmoAsync(memory.addr, 64, 4, stream), RT_PARAM_INVALID),
        ("kind -1", aclrtCmoAsync(memory.addr, 64, -1, stream), RT_PARAM_INVALID),
        ("host memory", aclrtCmoAsync(pinned.addr, 64, 0, stream), RT_PARAM_INVALID),
        ("too much", aclrtCmoAsync(memory.addr, 4096 + 64, 0, stream), RT_PARAM_INVALID),
        ("freed", aclrtCmoAsync(wild.freed_device, 64, 0, stream), RT_PARAM_INVALID),
        ("a dead stream", aclrtCmoAsync(memory.addr, 64, 0, wild.dead_stream), INVALID_HANDLE),
    ] {
        expect(what, code, want);
    }
    ok(aclrtSetDevice(1));
    let far = Memory::device(64);
    ok(aclrtSetDevice(0));
    refused("another device's", aclrtCmoAsync(far.addr, 64, 0, stream), RT_PARAM_INVALID, &["device 0"]);
}

const CUBE: i32 = 0;
const VECTOR: i32 = 1;

fn limits(stream: usize) -> [u32; 3] {
    let mut found = [0; 3];
    ok(aclrtGetDeviceResLimit(1, CUBE, &mut found[0]));
    ok(aclrtGetStreamResLimit(stream, CUBE, &mut found[1]));
    ok(aclrtGetResInCurrentThread(CUBE, &mut found[2]));
    found
}

// proves: D23
#[test]
fn limits_of_cores_by_thread_stream_and_process() {
    // Device 1, which no other test of this program limits.
    ok(aclrtSetDevice(1));
    let (mut all, mut vector, one) = (0, 0, stream());
    ok(aclrtGetDeviceResLimit(1, CUBE, &mut all));
    ok(aclrtGetDeviceResLimit(1, VECTOR, &mut vector));
    assert!(Row::current().tag != "A2" || (all, vector) == (24, 48), "{all} {vector}");
    assert_eq!(limits(one), [all; 3], "what the product has");
    ok(aclrtSetDeviceResLimit(1, CUBE, 5));
    assert_eq!(limits(one), [5; 3], "the process's");
    ok(aclrtSetStreamResLimit(one, CUBE, 3));
    assert_eq!(limits(one), [5, 3, 5], "the stream's, which nobody uses yet");
    ok(aclrtUseStreamResInCurrentThread(one));
    assert_eq!(limits(one), [5, 3, 3]);
    in_new_thread(|| {
        ok(aclrtSetDevice(1));
        let mut found = 0;
        ok(aclrtGetResInCurrentThread(CUBE, &mut found));
        assert_eq!(found, 5, "another thread uses no stream's");
    });
    let other = stream();
    expect("not in use", aclrtUnuseStreamResInCurrentThread(other), RT_PARAM_INVALID);
    ok(aclrtUseStreamResInCurrentThread(other));
    assert_eq!(limits(one), [5, 3, 5], "the last one counts, and it has no limit of its own");
    ok(aclrtUnuseStreamResInCurrentThread(other));
    ok(aclrtUseStreamResInCurrentThread(one));
    ok(aclrtResetStreamResLimit(one));
    assert_eq!(limits(one), [5; 3]);
    ok(aclrtSetStreamResLimit(one, CUBE, all));
    assert_eq!(limits(one), [5, all, all]);
    ok(aclrtDestroyStream(one));
    assert_eq!(limits(0), [5; 3], "a stream that was destroyed");
    ok(aclrtResetDeviceResLimit(1));
    assert_eq!(limits(0), [all; 3]);
    let call = |kind, value| [aclrtSetDeviceResLimit(1, kind, value), aclrtSetStreamResLimit(0, kind, value)];
    for (kind, value, words) in [
        (CUBE, 0, ["value", "0"]),
        (CUBE, all + 1, ["value", "cores"]),
        (VECTOR, u32::MAX, ["value", "cores"]),
        (2, 1, ["type", "2"]),
        (-1, 1, ["type", "-1"]),
    ] {
        for code in call(kind, value) {
            assert_eq!(code, RT_PARAM_INVALID, "{kind} {value}");
        }
        refused("limit", aclrtSetDeviceResLimit(1, kind, value), RT_PARAM_INVALID, &words);
    }
    assert_eq!(limits(0), [all; 3], "a refused call changes nothing");
    let mut found = 0;
    for (what, code, want) in [
        ("device", aclrtSetDeviceResLimit(2, CUBE, 1), INVALID_DEVICEID),
        ("device", aclrtGetDeviceResLimit(-1, CUBE, &mut found), INVALID_DEVICEID),
        ("device", aclrtResetDeviceResLimit(2), INVALID_DEVICEID),
        ("type", aclrtGetDeviceResLimit(1, 2, &mut found), RT_PARAM_INVALID),
        ("type", aclrtGetStreamResLimit(0, 2, &mut found), RT_PARAM_INVALID),
        ("type", aclrtGetResInCurrentThread(2, &mut found), RT_PARAM_INVALID),
        ("value", aclrtGetDeviceResLimit(1, CUBE, null_mut()), INVALID_PARAM),
        ("value", aclrtGetStreamResLimit(0, CUBE, null_mut()), INVALID_PARAM),
        ("value", aclrtGetResInCurrentThread(CUBE, null_mut()), INVALID_PARAM),
    ] {
        expect(what, code, want);
    }
    assert_eq!(found, 0);
}
