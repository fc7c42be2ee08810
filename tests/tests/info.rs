//! Questions about the library and its devices: last errors, versions, numbers of the product, parameters.

use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

use ferry_tests::code::*;
use ferry_tests::*;

/// An address that no process has.
const GARBAGE: usize = 0x40;

fn last() -> (i32, i32) {
    (aclrtPeekAtLastError(0), aclrtPeekAtLastError(0))
}

#[test]
fn the_last_error_stays_until_it_is_taken() {
    in_new_thread(|| {
        assert_eq!(last(), (0, 0), "a thread in which nothing failed");
        use_device();
        assert_eq!(aclrtSetDevice(-1), INVALID_DEVICEID);
        assert_eq!(aclrtFree(0), INVALID_PARAM);
        assert_eq!(last(), (INVALID_PARAM, INVALID_PARAM), "the newer of two, and peeking does not take it");
        use_device();
        assert_eq!(last().0, INVALID_PARAM, "a success changes nothing");
        message();
        assert_eq!(last().0, INVALID_PARAM, "taking the message changes nothing");
        in_new_thread(|| assert_eq!(last(), (0, 0), "another thread's"));
        assert_eq!(aclrtGetLastError(0), INVALID_PARAM);
        assert_eq!((aclrtGetLastError(0), last().0), (0, 0), "taken");
    });
}

#[test]
fn a_level_other_than_the_threads_is_refused() {
    in_new_thread(|| {
        for level in [-1, 1, i32::MAX, i32::MIN] {
            assert_eq!(aclrtSetDevice(-1), INVALID_DEVICEID);
            message();
            expect("peek", aclrtPeekAtLastError(level), INVALID_PARAM);
            assert_eq!(aclrtGetLastError(level), INVALID_PARAM);
            let said = message().expect("a message");
            assert!(said.contains("level") && said.contains(&level.to_string()), "{said}");
        }
    });
}

#[test]
fn the_api_version_is_that_of_the_headers() {
    let (mut a, mut b, mut c) = (-1, -1, -1);
    ok(aclrtGetVersion(&mut a, &mut b, &mut c));
    assert_eq!((a, b, c), (1, 15, 0));
    let mut kept = [7; 3];
    for missing in 0..3 {
        let out = |i: usize, kept: &mut [i32; 3]| if i == missing { null_mut() } else { &raw mut kept[i] };
        let code = aclrtGetVersion(out(0, &mut kept), out(1, &mut kept), out(2, &mut kept));
        expect("a NULL among the three", code, INVALID_PARAM);
        assert_eq!(kept, [7; 3], "nothing is written by a call that fails");
    }
    expect("garbage", aclrtGetVersion(GARBAGE as *mut i32, &mut b, &mut c), RT_PARAM_INVALID);
}

/// The text of an array of C.
fn text(chars: &[c_char]) -> String {
    let bytes: Vec<u8> = chars.iter().map(|c| *c as u8).collect();
    CStr::from_bytes_until_nul(&bytes).expect("an end").to_str().expect("plain text").to_owned()
}

#[test]
fn packages_have_a_version() {
    for name in [c"runtime", c"driver", c"firmware", c"toolkit", c"compiler", c"opp", c"hccl"] {
        let (mut chars, mut number) = ([1 as c_char; 128], 0);
        ok(aclsysGetVersionStr(name.as_ptr(), chars.as_mut_ptr()));
        assert_eq!(text(&chars), "8.5.0", "{name:?}");
        assert_eq!(chars[6], 1, "nothing is written behind the end");
        ok(aclsysGetVersionNum(name.as_ptr(), &mut number));
        assert_eq!(number, 80_500_000, "{name:?}");
    }
    for number in 0..=7 {
        let mut version = empty_version();
        ok(aclsysGetCANNVersion(number, &mut version));
        let parts =
            [version.majorVersion, version.minorVersion, version.releaseVersion, version.patchVersion];
        assert_eq!(text(&version.version), "8.5.0");
        assert_eq!(parts.map(|part| text(&part)), ["8", "5", "0", "0"]);
        assert_eq!(version.reserved, [0; 128]);
    }
}

fn empty_version() -> aclCANNPackageVersion {
    let (text, part) = ([1; 128], [1; 64]);
    aclCANNPackageVersion {
        version: text,
        majorVersion: part,
        minorVersion: part,
        releaseVersion: part,
        patchVersion: part,
        reserved: text,
    }
}

#[test]
fn packages_that_do_not_exist_are_refused() {
    let (mut chars, mut number) = ([1 as c_char; 128], 7);
    for name in [c"", c"runtime ", c"run", c"mindspore"] {
        expect("text", aclsysGetVersionStr(name.as_ptr(), chars.as_mut_ptr()), RT_PARAM_INVALID);
        assert_eq!(aclsysGetVersionNum(name.as_ptr(), &mut number), RT_PARAM_INVALID);
        let said = message().expect("a message");
        assert!(said.contains(name.to_str().unwrap()) && said.contains("firmware"), "{said}");
    }
    expect("no name", aclsysGetVersionStr(null(), chars.as_mut_ptr()), INVALID_PARAM);
    expect("no name", aclsysGetVersionNum(null(), &mut number), INVALID_PARAM);
    expect("garbage", aclsysGetVersionStr(GARBAGE as *const c_char, chars.as_mut_ptr()), RT_PARAM_INVALID);
    expect("no room", aclsysGetVersionStr(c"runtime".as_ptr(), null_mut()), INVALID_PARAM);
    expect("bad room", aclsysGetVersionStr(c"runtime".as_ptr(), GARBAGE as *mut c_char), RT_PARAM_INVALID);
    expect("no number", aclsysGetVersionNum(c"runtime".as_ptr(), null_mut()), INVALID_PARAM);
    assert_eq!((chars, number), ([1; 128], 7), "nothing is written by a call that fails");
    let mut version = empty_version();
    for name in [-1, 8, i32::MAX] {
        expect("a number", aclsysGetCANNVersion(name, &mut version), RT_PARAM_INVALID);
    }
    assert_eq!(version, empty_version());
    expect("no room", aclsysGetCANNVersion(0, null_mut()), INVALID_PARAM);
}

#[test]
fn a_device_tells_what_it_is() {
    let ask = |attr| {
        let mut value = -7;
        ok(aclrtGetDeviceInfo(1, attr, &mut value));
        value
    };
    ok(aclrtSetDevice(1));
    let (mut free, mut total) = (0, 0);
    ok(aclrtGetMemInfo(1, &mut free, &mut total));
    assert_eq!(ask(301), total as i64, "all of the memory it really has");
    assert_eq!(ask(402), 1, "its number on this machine");
    // An A2 card: cores, cache, architecture.
    assert_eq!([101, 102, 201, 302, 601].map(ask), [24, 24, 48, 192 << 20, 2201]);
    assert!(ask(1) > 0);
    assert_eq!([205, 208, 212].map(ask), [0; 3], "no programs in threads");
    for attr in [401, 403, 404, 405, 406, 407, 408, 409, 501] {
        assert!(ask(attr) >= 0, "{attr}");
    }
    for (what, attr) in [(0, 101), (1, 201), (2, 302)] {
        let mut value = -7;
        ok(aclGetDeviceCapability(1, what, &mut value));
        assert_eq!(value, ask(attr), "both queries say the same");
    }
    let mut pid = 0;
    ok(aclrtDeviceGetBareTgid(&mut pid));
    assert_eq!(pid as u32, std::process::id());
    expect("no room", aclrtDeviceGetBareTgid(null_mut()), INVALID_PARAM);
}

#[test]
fn a_question_that_makes_no_sense_is_refused() {
    let mut value = -7;
    for attr in [0, -1, 2, 100, 103, 200, 213, 300, 303, 400, 410, 500, 502, 600, 602, i32::MAX, i32::MIN] {
        assert_eq!(aclrtGetDeviceInfo(0, attr, &mut value), RT_PARAM_INVALID);
        let said = message().expect("a message");
        assert!(said.contains("attr") && said.contains(&attr.to_string()), "{said}");
    }
    for attr in [202, 203, 204] {
        expect("threads, on a product without", aclrtGetDeviceInfo(0, attr, &mut value), FEATURE_NOT_SUPPORT);
    }
    for what in [-1, 3, i32::MAX] {
        expect("no capability", aclGetDeviceCapability(0, what, &mut value), RT_PARAM_INVALID);
    }
    for device in [2, 99, u32::MAX] {
        expect("no device", aclrtGetDeviceInfo(device, 101, &mut value), INVALID_DEVICEID);
        expect("no device", aclGetDeviceCapability(device, 0, &mut value), INVALID_DEVICEID);
    }
    assert_eq!(value, -7, "nothing is written by a call that fails");
    for (bad, code) in [(null_mut(), INVALID_PARAM), (GARBAGE as *mut i64, RT_PARAM_INVALID)] {
        expect("no room", aclrtGetDeviceInfo(0, 101, bad), code);
        expect("no room", aclGetDeviceCapability(0, 0, bad), code);
    }
}

#[test]
fn cores_are_idle_and_memory_cannot_tell() {
    let untouched = aclrtUtilizationInfo {
        cubeUtilization: 7,
        vectorUtilization: 7,
        aicpuUtilization: 7,
        memoryUtilization: 7,
        utilizationExtend: GARBAGE as *mut _,
    };
    let mut info = untouched;
    for device in [-1, 2, i32::MAX] {
        expect("no device", aclrtGetDeviceUtilizationRate(device, &mut info), INVALID_DEVICEID);
    }
    assert_eq!(info, untouched);
    expect("no room", aclrtGetDeviceUtilizationRate(0, null_mut()), INVALID_PARAM);
    ok(aclrtGetDeviceUtilizationRate(1, &mut info));
    let cores = [info.cubeUtilization, info.vectorUtilization, info.aicpuUtilization];
    assert_eq!((cores, info.memoryUtilization, info.utilizationExtend), ([0; 3], -1, null_mut()));
}

#[test]
fn the_overflow_mode_is_a_devices_own() {
    let mode = || {
        let mut mode = -7;
        ok(aclrtGetDeviceSatMode(&mut mode));
        mode
    };
    in_new_thread(move || {
        expect("no room", aclrtGetDeviceSatMode(null_mut()), INVALID_PARAM);
        ok(aclrtSetDevice(1));
        assert_eq!(mode(), 0, "saturation");
        ok(aclrtSetDeviceSatMode(1));
        for bad in [2, 3, -1] {
            expect("no mode", aclrtSetDeviceSatMode(bad), RT_PARAM_INVALID);
        }
        assert_eq!(mode(), 1);
        ok(aclrtSetDevice(0));
        assert_eq!(mode(), 0, "the other device's");
        ok(aclrtSetDevice(1));
        ok(aclrtSetDeviceSatMode(0));
    });
}

#[test]
fn parameters_of_the_process_and_of_a_context_are_apart() {
    in_new_thread(|| {
        let mut value = -7;
        expect("no context", aclrtCtxSetSysParamOpt(0, 1), CONTEXT_NULL);
        expect("no context", aclrtCtxGetSysParamOpt(0, &mut value), CONTEXT_NULL);
        ok(aclrtGetSysParamOpt(2, &mut value));
        assert_eq!(value, 0, "documented: 0 where nobody set it");
        ok(aclrtSetSysParamOpt(2, 1));
        ok(aclrtGetSysParamOpt(2, &mut value));
        assert_eq!(value, 1);

        let mut contexts = [0; 2];
        contexts.iter_mut().for_each(|context| ok(aclrtCreateContext(context, 0)));
        value = -7;
        expect("never set in a context", aclrtCtxGetSysParamOpt(2, &mut value), PARAM_NOT_SET);
        assert_eq!(value, -7);
        ok(aclrtCtxSetSysParamOpt(2, 0));
        ok(aclrtCtxGetSysParamOpt(2, &mut value));
        assert_eq!(value, 0);
        ok(aclrtSetCurrentContext(contexts[0]));
        expect("not set in the other context", aclrtCtxGetSysParamOpt(2, &mut value), PARAM_NOT_SET);
        ok(aclrtSetSysParamOpt(2, 0));

        for bad in [-1, 3, i32::MAX] {
            expect("no parameter", aclrtSetSysParamOpt(bad, 0), RT_PARAM_INVALID);
            expect("no parameter", aclrtCtxSetSysParamOpt(bad, 0), RT_PARAM_INVALID);
            expect("no parameter", aclrtGetSysParamOpt(bad, &mut value), RT_PARAM_INVALID);
            expect("no parameter", aclrtCtxGetSysParamOpt(bad, &mut value), RT_PARAM_INVALID);
        }
        for (opt, bad) in [(0, 4), (1, 2), (2, -1), (2, i64::MAX)] {
            expect("no value", aclrtSetSysParamOpt(opt, bad), RT_PARAM_INVALID);
            expect("no value", aclrtCtxSetSysParamOpt(opt, bad), RT_PARAM_INVALID);
        }
        expect("no room", aclrtGetSysParamOpt(0, null_mut()), INVALID_PARAM);
        expect("no room", aclrtCtxGetSysParamOpt(0, null_mut()), INVALID_PARAM);
        contexts.into_iter().for_each(|context| ok(aclrtDestroyContext(context)));
    });
}

#[test]
fn operators_may_be_given_any_time() {
    [0, 1, u32::MAX].into_iter().for_each(|seconds| ok(aclrtSetOpExecuteTimeOut(seconds)));
}

#[test]
fn types_have_sizes() {
    let sizes = [
        (0, 4),
        (1, 2),
        (2, 1),
        (3, 4),
        (4, 1),
        (6, 2),
        (7, 2),
        (8, 4),
        (9, 8),
        (10, 8),
        (11, 8),
        (12, 1),
        (16, 8),
        (17, 16),
        (27, 2),
        (29, 1),
        (30, 1),
        (33, 4),
        (34, 1),
        (35, 1),
        (36, 1),
        (37, 1),
        (38, 1),
        (39, 1),
        (40, 1),
        (41, 1),
        (-1, 0),
        (13, 0),
        (5, 0),
        (14, 0),
        (28, 0),
        (31, 0),
        (42, 0),
        (i32::MAX, 0),
        (i32::MIN, 0),
    ];
    for (data_type, size) in sizes {
        assert_eq!(data_type_size(data_type), size, "type {data_type}");
    }
}
