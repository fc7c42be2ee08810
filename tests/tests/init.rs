//! aclInit and aclFinalize, which are about the whole process: one test, in a process of its own.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

/// A file of this name and content in the directory that cargo gives tests.
fn file(name: &str, content: &str) -> CString {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the tests' own directory can be written");
    CString::new(path.to_str().expect("a path in UTF-8")).unwrap()
}

fn init(path: &CString) -> i32 {
    aclInit(path.as_ptr())
}

#[test]
fn initialising_and_finalising() {
    expect("finalising what was never initialised", aclFinalize(), REPEAT_FINALIZE);

    // A call before aclInit works, because real programs make it.
    use_device();
    let memory = Memory::device(64);
    ok(aclrtMemcpy(memory.addr, 64, [7u8; 64].as_ptr() as usize, 64, H2D));
    memory.assert_all(7, "a copy before aclInit");

    let missing = CString::new("no/such/file.json").unwrap();
    expect("a file that is not there", init(&missing), INVALID_FILE);
    expect("a directory", init(&CString::new(env!("CARGO_TARGET_TMPDIR")).unwrap()), INVALID_FILE);
    expect("a file without an end", init(&CString::new("/dev/zero").unwrap()), INVALID_FILE_SIZE);
    for (name, content) in [
        ("empty.json", String::new()),
        ("text.json", "hello".into()),
        ("open.json", "{\"dump\": {".into()),
        ("deep-objects.json", format!("{}{{}}{}", "{\"a\":".repeat(10), "}".repeat(10))),
        ("deep-arrays.json", format!("{{\"a\":{}{}}}", "[".repeat(11), "]".repeat(11))),
    ] {
        expect(name, init(&file(name, &content)), PARSE_FILE);
    }
    expect("a failed aclInit does not count", aclFinalize(), REPEAT_FINALIZE);

    let ten_deep = format!("{{\"a\":{}{}}}", "[".repeat(10), "]".repeat(10));
    for (name, content) in [("nothing.json", "{}"), ("ten-deep.json", &ten_deep)] {
        ok(init(&file(name, content)));
        ok(aclFinalize());
        expect("a second aclFinalize", aclFinalize(), REPEAT_FINALIZE);
    }

    // A name is bytes, in whatever encoding.
    let path = file("plain.json", "{}");
    let odd = [path.as_bytes(), b"\xe9"].concat();
    std::fs::rename(OsStr::from_bytes(path.as_bytes()), OsStr::from_bytes(&odd)).expect("our own file");
    ok(init(&CString::new(odd).unwrap()));
    ok(aclFinalize());

    // Any number of repeated calls, and one aclFinalize ends them all.
    ok(aclInit(std::ptr::null()));
    for _ in 0..3 {
        expect("aclInit again", aclInit(std::ptr::null()), REPEAT_INITIALIZE);
    }
    ok(aclFinalize());
    expect("a second aclFinalize", aclFinalize(), REPEAT_FINALIZE);
    ok(aclInit(std::ptr::null()));
    ok(aclFinalize());
    one_by_one();
    one_ends_while_another_begins();
}

/// aclFinalizeReference counts down, and the last one shuts down.
fn one_by_one() {
    let mut left = 99;
    expect("taking back what was never done", aclFinalizeReference(&mut left), REPEAT_FINALIZE);
    assert_eq!(left, 99, "nothing is written by a call that fails");
    ok(aclInit(std::ptr::null()));
    for _ in 0..3 {
        expect("aclInit again", aclInit(std::ptr::null()), REPEAT_INITIALIZE);
    }
    use_device();
    expect("garbage for the count", aclFinalizeReference(64 as *mut u64), RT_PARAM_INVALID);
    ok(aclFinalizeReference(&mut left));
    assert_eq!(left, 3);
    ok(aclFinalizeReference(std::ptr::null_mut()));
    ok(aclFinalizeReference(&mut left));
    assert_eq!(left, 1);
    let mut device = -1;
    ok(aclrtGetDevice(&mut device));
    ok(aclFinalizeReference(&mut left));
    assert_eq!(left, 0);
    expect("the device after the last one", aclrtGetDevice(&mut device), CONTEXT_NULL);
    expect("one more", aclFinalizeReference(&mut left), REPEAT_FINALIZE);
    expect("aclFinalize after the last one", aclFinalize(), REPEAT_FINALIZE);

    // Many threads, each with a pair of calls: the last one to leave finds 0.
    let zeros: u64 = (0..8)
        .map(|_| {
            std::thread::spawn(|| {
                let mut left = 99;
                aclInit(std::ptr::null());
                ok(aclFinalizeReference(&mut left));
                u64::from(left == 0)
            })
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|thread| thread.join().expect("a thread"))
        .sum();
    assert!(zeros >= 1, "somebody was the last");
    expect("all are gone", aclFinalize(), REPEAT_FINALIZE);
}

/// What a shutdown still waits for does not delay those who begin anew, and it ends nothing of theirs.
fn one_ends_while_another_begins() {
    ok(aclInit(std::ptr::null()));
    use_device();
    let gate = block(stream());
    let ends = blocked::call(|| aclFinalizeReference(std::ptr::null_mut())).blocked("a function still runs");
    ok(aclInit(std::ptr::null()));
    ok(aclrtSetDevice(1));
    let stream = stream();
    gate.unblock();
    ok(ends.join());
    ok(aclrtSynchronizeStream(stream));
    ok(aclFinalize());
}
