//! What the message of a refusal says: the call, who captures since when, who calls, and the ways out.

use super::*;
use ferry_tests::code::*;

/// The message of a call that is refused in this thread while another one captures.
fn told(mode: i32, call: impl FnOnce(usize, usize) -> i32) -> (String, String) {
    own_context();
    let (main, side) = (stream(), stream());
    ok(aclmdlRICaptureBegin(main, mode));
    fork(event(), main, side);
    drop(message());
    assert_ne!(call(main, side), 0);
    let said = message().unwrap_or_default();
    end_without_model("broken", main, CAPTURE_INVALIDATED);
    (said, format!("{main:#x}"))
}

// proves: G15 G17 G18 G19
#[test]
fn refusals_name_the_capture_the_caller_and_the_ways_out() {
    use_device();
    let device = Memory::device(64);
    let heap = Memory::heap(64);
    let thread = {
        // SAFETY: takes no argument and cannot fail.
        unsafe { libc::gettid() }.to_string()
    };
    type Call<'a> = Box<dyn FnOnce(usize, usize) -> i32 + 'a>;
    let calls: Vec<(&str, Call, &[&str])> = vec![
        (
            "aclrtMemset",
            Box::new(|_, _| aclrtMemset(device.addr, 64, 1, 64)),
            &["ExchangeMode", "before the capture"],
        ),
        (
            "aclrtMemcpyAsync",
            Box::new(|main, _| try_copy(&device, &heap, main)),
            &["not page-locked", "aclrtMallocHost", "aclrtHostRegister"],
        ),
        (
            "aclrtSynchronizeStream",
            Box::new(|main, _| aclrtSynchronizeStream(main)),
            &["after aclmdlRICaptureEnd"],
        ),
        ("aclrtStreamQuery", Box::new(|_, side| aclrtStreamQuery(side, &mut 0)), &["not captured"]),
        (
            "aclrtMemsetAsync",
            Box::new(|_, _| aclrtMemsetAsync(device.addr, 64, 1, 64, 0)),
            &["aclrtCreateStream"],
        ),
        (
            "aclrtStreamWaitEvent",
            Box::new(|main, _| aclrtStreamWaitEvent(main, event())),
            &["ACL_EVENT_EXTERNAL"],
        ),
    ];
    for (function, call, ways) in calls {
        let (said, main) = told(GLOBAL, call);
        println!("{said}\n");
        let names =
            [function, "mode GLOBAL", "aclmdlRICaptureBegin", "call ", "this call is of thread", "Ways out"];
        let all = names.iter().chain(ways).copied().chain([main.as_str(), thread.as_str()]);
        all.for_each(|word| assert!(said.contains(word), "`{word}` is not in: {said}"));
    }
    ok(device.free());
}

// proves: G19
#[test]
fn what_broke_a_capture_is_told_until_its_end() {
    own_context();
    let (main, memory) = (stream(), Memory::device(64));
    ok(aclmdlRICaptureBegin(main, THREAD_LOCAL));
    expect("breaks it", aclrtSynchronizeStream(main), STREAM_CAPTURED);
    let breaker = "broken before, by aclrtSynchronizeStream, call ";
    let first = [breaker, "neither waited for nor queried", "aclmdlRICaptureEnd", "THREAD_LOCAL"];
    refused("later", aclrtMemsetAsync(memory.addr, 64, 1, 64, main), CAPTURE_INVALIDATED, &first);
    let mut model = 1;
    let words = [breaker, "neither waited for nor queried", "without a model", "THREAD_LOCAL"];
    refused("at the end", aclmdlRICaptureEnd(main, &mut model), CAPTURE_INVALIDATED, &words);
}
