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
    for name in [c"", c"Runtime", c"runtime ", c"mindspore"] {
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
