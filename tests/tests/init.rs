//! aclInit and aclFinalize, which are about the whole process: one test, in a process of its own.

use std::ffi::CString;
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

    // Any number of repeated calls, and one aclFinalize ends them all.
    ok(aclInit(std::ptr::null()));
    for _ in 0..3 {
        expect("aclInit again", aclInit(std::ptr::null()), REPEAT_INITIALIZE);
    }
    ok(aclFinalize());
    expect("a second aclFinalize", aclFinalize(), REPEAT_FINALIZE);
    ok(aclInit(std::ptr::null()));
    ok(aclFinalize());
}
