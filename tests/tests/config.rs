//! What aclInit's JSON changes. Each case is a process of its own, since only the first aclInit's
//! configuration counts.

use std::ffi::CString;
use std::path::PathBuf;

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

const CASES: [Case; 6] = [
    ("a default device", a_default_device),
    ("every call of a new thread may be its first", any_first_call),
    ("a default device that is not there", a_default_device_that_is_not_there),
    ("messages of the process", messages_of_the_process),
    ("messages of each thread", messages_of_each_thread),
    ("values that make no sense", values_that_make_no_sense),
];

#[test]
fn each_case_in_a_process_of_its_own() {
    for (case, _) in CASES {
        children::run(case, &[("FERRY_DEVICES", Some("2"))]);
    }
}

/// The child's part.
#[test]
#[ignore = "run by each_case_in_a_process_of_its_own"]
fn one_case() {
    children::play(&CASES);
}

/// aclInit with a file of this content.
fn init(content: &str) -> i32 {
    let name = format!("config-{}.json", std::process::id());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).expect("the tests' own directory can be written");
    let code = aclInit(CString::new(path.to_str().expect("a path in UTF-8")).unwrap().as_ptr());
    std::fs::remove_file(&path).expect("the file just made");
    code
}

fn with_default(device: &str) -> String {
    format!("{{\"defaultDevice\": {{\"default_device\": \"{device}\"}}}}")
}

fn current_device() -> Result<i32, i32> {
    let mut device = -1;
    match aclrtGetDevice(&mut device) {
        0 => Ok(device),
        code => Err(code),
    }
}

fn a_default_device() {
    let none = Err(CONTEXT_NULL);
    assert_eq!(in_new_thread(current_device), none, "before aclInit");
    ok(init(&with_default("1")));
    expect("a second configuration", init(&with_default("0")), REPEAT_INITIALIZE);
    for _ in 0..2 {
        assert_eq!(in_new_thread(current_device), Ok(1));
    }
    // Everything works there that works on a device that was set.
    in_new_thread(|| {
        let (memory, stream) = (Memory::device(4096), stream());
        let (host, mut back) = (Memory::holding(Home::Pinned, &pattern(4096, 3)), vec![0; 4096]);
        ok(aclrtMemcpyAsync(memory.addr, 4096, host.addr, 4096, H2D, stream));
        finish(stream);
        ok(aclrtMemcpy(back.as_mut_ptr() as usize, 4096, memory.addr, 4096, D2H));
        assert_eq!(back, pattern(4096, 3));
        assert_eq!(current_device(), Ok(1));
    });
    // What a thread chooses itself wins, and stays its choice.
    in_new_thread(move || {
        ok(aclrtSetDevice(0));
        assert_eq!(current_device(), Ok(0));
        ok(aclrtResetDevice(0));
        assert_eq!(current_device(), none, "no default for one who chose");
    });
    in_new_thread(move || {
        let mut context = 0;
        ok(aclrtCreateContext(&mut context, 0));
        assert_eq!(current_device(), Ok(0));
        ok(aclrtDestroyContext(context));
        assert_eq!(current_device(), none);
    });
    // The default context is not taken from under those who use it without having counted.
    let (tell, hear) = std::sync::mpsc::channel();
    let user = std::thread::spawn(move || {
        let stream = stream();
        hear.recv().expect("the other thread is done");
        finish(stream);
        current_device()
    });
    in_new_thread(|| {
        ok(aclrtSetDevice(1));
        ok(aclrtResetDevice(1));
        expect("one reset too many", aclrtResetDevice(1), CONTEXT_NULL);
    });
    tell.send(()).expect("the user waits");
    assert_eq!(user.join().expect("the user"), Ok(1));

    assert_eq!(current_device(), Ok(1));
    ok(aclFinalize());
    assert_eq!((current_device(), in_new_thread(current_device)), (none, none), "undone");
    ok(init(&with_default("0")));
    assert_eq!((current_device(), in_new_thread(current_device)), (Ok(0), Ok(0)), "the next one's");
    ok(aclFinalize());
}

fn any_first_call() {
    ok(init(&with_default("1")));
    let (mut out, mut status, mut total, mut value) = (0, 0, 0, 0);
    let mut calls: [&mut (dyn FnMut() -> i32 + Send); 9] = [
        &mut || aclrtSynchronizeStream(0),
        &mut || aclrtStreamQuery(0, &mut status),
        &mut || aclrtSynchronizeDevice(),
        &mut || aclrtGetCurrentContext(&mut out),
        &mut || aclrtCreateEvent(&mut value),
        &mut || aclrtGetMemInfo(1, &mut total, &mut { 0 }),
        &mut || aclrtMemcpy(0x1000, 0, 0x1000, 0, H2D),
        &mut || aclrtCtxSetSysParamOpt(0, 1),
        &mut || aclrtSetDeviceSatMode(1),
    ];
    for (number, call) in calls.iter_mut().enumerate() {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                ok(call());
                assert_eq!(current_device(), Ok(1), "call {number}");
            });
        });
    }
}

fn a_default_device_that_is_not_there() {
    assert_eq!(init(&with_default("2")), FILE_ATTR_INVALID);
    let said = message().expect("a message");
    for word in ["default_device", "\"2\"", "there are 2"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    expect("a failed aclInit does not count", aclFinalize(), REPEAT_FINALIZE);
    assert_eq!(current_device(), Err(CONTEXT_NULL), "and changes nothing");
}

fn messages_of_the_process() {
    ok(init("{\"err_msg_mode\": \"1\"}"));
    assert_eq!(message(), None);
    in_new_thread(|| assert_ne!(aclrtSetDevice(77), 0));
    assert_ne!(aclrtSetDevice(88), 0);
    let said = message().expect("both");
    let places = ["77", "88"].map(|device| said.find(device).unwrap_or_else(|| panic!("{device} in {said}")));
    assert!(places[1] < places[0], "the newest on top: {said}");
    assert_eq!((message(), in_new_thread(message)), (None, None), "told once");
    // Codes stay with their threads.
    assert_eq!((aclrtGetLastError(0), in_new_thread(|| aclrtGetLastError(0))), (INVALID_DEVICEID, 0));
    in_new_thread(|| assert_ne!(aclrtSetDevice(77), 0));
    ok(aclFinalize());
    assert_eq!(message(), None, "each thread for itself again");
    in_new_thread(|| assert_ne!(aclrtSetDevice(77), 0));
    assert_eq!(message(), None);
    assert_ne!(aclrtSetDevice(88), 0);
    assert!(message().is_some());
}

fn messages_of_each_thread() {
    for content in ["{\"err_msg_mode\": \"0\"}", "{}"] {
        ok(init(content));
        in_new_thread(|| assert_ne!(aclrtSetDevice(77), 0));
        assert_eq!(message(), None);
        ok(aclFinalize());
    }
}

fn values_that_make_no_sense() {
    for (content, code, key) in [
        ("{\"defaultDevice\": {\"default_device\": \"one\"}}", FILE_ATTR_INVALID, "default_device"),
        ("{\"defaultDevice\": {\"default_device\": 0}}", FILE_ATTR_INVALID, "default_device"),
        ("{\"defaultDevice\": []}", FILE_ATTR_INVALID, "default_device"),
        ("{\"err_msg_mode\": \"2\"}", FILE_ATTR_INVALID, "err_msg_mode"),
        ("{\"err_msg_mode\": null}", FILE_ATTR_INVALID, "err_msg_mode"),
        ("{\"max_opqueue_num\": \"-5\"}", 148048, "max_opqueue_num"),
        ("{\"max_opqueue_num\": \"0\"}", 148048, "max_opqueue_num"),
        ("[]", PARSE_FILE, "object"),
        ("7", PARSE_FILE, "object"),
    ] {
        assert_eq!(init(content), code, "{content}");
        let said = message().expect("a message");
        assert!(said.contains(key), "{key} is not in {said}");
        expect("a failed aclInit does not count", aclFinalize(), REPEAT_FINALIZE);
    }
    for content in [
        "{\"max_opqueue_num\": \"20000\"}",
        "{\"dump\": {\"dump_list\": [{\"model_name\": \"m\"}], \"dump_path\": \"/tmp\"}}",
        "{\"profiler\": {\"switch\": \"on\"}, \"StackSize\": {\"aicore_stack_size\": 32768}}",
        "{\"simt_printf_fifo_size\": 1, \"simd_printf_fifo_size_per_core\": \"2\", \"unheard_of\": {}}",
    ] {
        ok(init(content));
        ok(aclFinalize());
    }
}
