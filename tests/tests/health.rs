//! Faults of devices and what follows them, what names a device, what is used of it, and a few conversions.

use std::ptr::{null, null_mut};

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

// proves: D8
#[test]
fn devices_are_sound_whether_they_are_set_or_not() {
    in_new_thread(|| {
        for device in [0, 1] {
            let mut status = -1;
            ok(aclrtQueryDeviceStatus(device, &mut status));
            assert_eq!(status, 0);
        }
        let mut status = 77;
        for bad in [2, -1, i32::MAX] {
            expect("no device", aclrtQueryDeviceStatus(bad, &mut status), INVALID_DEVICEID);
        }
        expect("no room", aclrtQueryDeviceStatus(0, null_mut()), INVALID_PARAM);
        assert_eq!(status, 77);
    });
}

// proves: D9
#[test]
fn each_device_has_a_uuid_that_stays() {
    let uuid = |device| {
        let mut uuid = aclrtUuid::default();
        ok(aclrtDeviceGetUuid(device, &mut uuid));
        uuid.bytes
    };
    assert_eq!((uuid(0), uuid(1)), (uuid(0), uuid(1)));
    assert_ne!(uuid(0), uuid(1));
    assert_ne!(uuid(0), [0; 16]);
    let mut kept = aclrtUuid::default();
    expect("no device", aclrtDeviceGetUuid(2, &mut kept), INVALID_DEVICEID);
    expect("no room", aclrtDeviceGetUuid(0, null_mut()), INVALID_PARAM);
    assert_eq!(kept, aclrtUuid::default());
}

// proves: D20
#[test]
fn memory_in_use_and_the_most_so_far() {
    // Device 1, of which no other test of this program takes memory.
    ok(aclrtSetDevice(1));
    let usage = || {
        let (mut entries, mut found) = ([aclrtMemUsageInfo::default(); 2], 0);
        ok(aclrtGetMemUsageInfo(1, entries.as_mut_ptr(), 2, &mut found));
        assert_eq!((found, entries[1]), (1, aclrtMemUsageInfo::default()), "one module");
        assert_eq!(entries[0].name[..6].iter().map(|c| *c as u8).collect::<Vec<_>>(), b"FERRY\0");
        (entries[0].curMemSize, entries[0].memPeakSize)
    };
    let (before, peak) = usage();
    assert!(peak >= before);
    let memory = Memory::device(8 << 20);
    let (now, _) = usage();
    assert!((8 << 20..=10 << 20).contains(&(now - before)), "{before} and then {now}");
    ok(memory.free());
    // Not before work of other tests, queued until then, has passed.
    eventually("given back", || usage().0 == before);
    assert!(usage().1 >= now, "and remembered");
    let mut none = 0;
    expect("more than there is", aclrtMalloc(&mut none, 1 << 60, 0), MEMORY_ALLOCATION);
    assert!(usage().1 < 1 << 60, "what was refused was never in use");
    let (mut info, mut found) = (aclrtMemUsageInfo::default(), 77);
    expect("no room", aclrtGetMemUsageInfo(1, &mut info, 0, &mut found), RT_PARAM_INVALID);
    expect("no array", aclrtGetMemUsageInfo(1, null_mut(), 1, &mut found), INVALID_PARAM);
    expect("no number", aclrtGetMemUsageInfo(1, &mut info, 1, null_mut()), INVALID_PARAM);
    expect("no device", aclrtGetMemUsageInfo(9, &mut info, 1, &mut found), INVALID_DEVICEID);
    assert_eq!((info, found), (aclrtMemUsageInfo::default(), 77), "a refused call writes nothing");
}

// proves: D18
#[test]
fn there_are_no_memory_errors_to_repair() {
    use_device();
    let (mut ranges, mut found) = ([aclrtMemUceInfo::default(); 2], 77);
    ok(aclrtGetMemUceInfo(0, ranges.as_mut_ptr(), 2, &mut found));
    assert_eq!(found, 0);
    ok(aclrtGetMemUceInfo(0, null_mut(), 0, &mut found));
    ok(aclrtMemUceRepair(0, ranges.as_mut_ptr(), 0));
    ok(aclrtMemUceRepair(0, null_mut(), 0));
    refused(
        "a range",
        aclrtMemUceRepair(0, ranges.as_mut_ptr(), 1),
        RT_PARAM_INVALID,
        &["aclrtGetMemUceInfo"],
    );
    found = 77;
    for (what, code, want) in [
        ("too many", aclrtGetMemUceInfo(0, ranges.as_mut_ptr(), 129, &mut found), RT_PARAM_INVALID),
        ("too many", aclrtMemUceRepair(0, ranges.as_mut_ptr(), 129), RT_PARAM_INVALID),
        ("no array", aclrtGetMemUceInfo(0, null_mut(), 1, &mut found), INVALID_PARAM),
        ("no number", aclrtGetMemUceInfo(0, ranges.as_mut_ptr(), 1, null_mut()), INVALID_PARAM),
        ("no device", aclrtGetMemUceInfo(2, ranges.as_mut_ptr(), 1, &mut found), INVALID_DEVICEID),
        ("no device", aclrtMemUceRepair(-1, ranges.as_mut_ptr(), 0), INVALID_DEVICEID),
    ] {
        expect(what, code, want);
    }
    assert_eq!(found, 77);
}

// proves: D19
#[test]
fn nothing_is_wrong_with_a_device() {
    use_device();
    let detail = aclrtErrorInfoDetail { aicoreErrType: 7 };
    let mut info = aclrtErrorInfo { tryRepair: 1, hasDetail: 1, reserved: [1; 2], errorType: 3, detail };
    ok(aclrtGetErrorVerbose(0, &mut info));
    assert_eq!((info.tryRepair, info.hasDetail, info.errorType), (0, 0, 0));
    ok(aclrtRepairError(0, &info));
    for (kind, want) in [(1, 0), (5, 0), (0xffff, 0), (6, RT_PARAM_INVALID), (-1, RT_PARAM_INVALID)] {
        expect("repair", aclrtRepairError(0, &aclrtErrorInfo { errorType: kind, ..info }), want);
    }
    expect("no device", aclrtGetErrorVerbose(2, &mut info), INVALID_DEVICEID);
    expect("no device", aclrtRepairError(2, &info), INVALID_DEVICEID);
    expect("no room", aclrtGetErrorVerbose(0, null_mut()), INVALID_PARAM);
    expect("nothing", aclrtRepairError(0, null()), INVALID_PARAM);
}

// proves: D21
#[test]
fn the_default_context_is_active_while_its_device_is_set() {
    let active = |device| {
        let mut active = 77;
        ok(aclrtGetPrimaryCtxState(device, null_mut(), &mut active));
        active
    };
    ok(aclrtSetDevice(1));
    assert_eq!(active(1), 1);
    let (mut flags, mut found) = (77, 77);
    ok(aclrtGetPrimaryCtxState(1, &mut flags, &mut found));
    assert_eq!((flags, found), (77, 1), "flags are never written");
    expect("no room", aclrtGetPrimaryCtxState(1, null_mut(), null_mut()), INVALID_PARAM);
    expect("no device", aclrtGetPrimaryCtxState(2, null_mut(), &mut found), INVALID_DEVICEID);
}

// proves: D17
#[test]
fn a_device_drops_all_its_work() {
    // Device 0, where no other test of this program has streams: an explicit context and the default one lose
    // what they have.
    ok(aclrtSetDevice(0));
    let (first, mut context) = (stream(), 0);
    ok(aclrtCreateContext(&mut context, 0));
    let second = stream();
    let memory = Memory::device(64);
    memory.fill(1);
    let source = Memory::holding(Home::Pinned, &[2; 64]);
    let gates = {
        let gate = block(second);
        ok(aclrtMemcpyAsync(memory.addr, 64, source.addr, 64, H2D, second));
        ok(aclrtSetDevice(0));
        [gate, block(first)]
    };
    ok(aclrtMemcpyAsync(memory.addr, 64, source.addr, 64, H2D, first));
    gates.iter().for_each(Blocker::wait_until_reached);
    ok(aclrtDeviceTaskAbort(0, 0));
    gates.iter().for_each(Blocker::unblock);
    expect("the default context's", aclrtSynchronizeStream(first), STREAM_ABORT);
    ok(aclrtSetCurrentContext(context));
    expect("the other context's", aclrtSynchronizeStream(second), STREAM_ABORT);
    memory.assert_all(1, "dropped");
    ok(aclrtMemcpyAsync(memory.addr, 64, source.addr, 64, H2D, second));
    finish(second);
    memory.assert_all(2, "it can be used again");
    ok(aclrtDeviceTaskAbort(0, 36 * 60 * 1000));
    finish(second);
    refused("too long", aclrtDeviceTaskAbort(0, 36 * 60 * 1000 + 1), RT_PARAM_INVALID, &["timeout"]);
    expect("no device", aclrtDeviceTaskAbort(2, 0), INVALID_DEVICEID);
    ok(aclrtDestroyContext(context));
}

// proves: D11
#[test]
fn a_limit_for_operators_is_what_was_asked_for() {
    for timeout in [0, 1, 1_000_000, u64::MAX] {
        let mut actual = 77;
        ok(aclrtSetOpExecuteTimeOutV2(timeout, &mut actual));
        assert_eq!(actual, timeout);
    }
    expect("no room", aclrtSetOpExecuteTimeOutV2(1, null_mut()), INVALID_PARAM);
}

// proves: D25
#[test]
fn floats_of_16_bits_and_back() {
    for (half, float) in [
        (0x0000, 0.0),
        (0x3c00, 1.0),
        (0xc000, -2.0),
        (0x7bff, 65504.0),
        (0x0001, 5.9604645e-8),
        (0x03ff, 6.097555e-5),
        (0x7c00, f32::INFINITY),
        (0xfc00, f32::NEG_INFINITY),
    ] {
        assert_eq!((float_of(half), half_of(float)), (float, half));
    }
    assert!(float_of(0x7e00).is_nan() && half_of(f32::NAN) & 0x7fff > 0x7c00);
    for (float, half) in
        [(65520.0, 0x7c00), (65519.0, 0x7bff), (1.0004883, 0x3c00), (1.0014648, 0x3c02), (2.9e-8, 0)]
    {
        assert_eq!(half_of(float), half, "{float} is rounded");
    }
}
