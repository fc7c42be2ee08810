//! aclrtSetStreamFailureMode: what a failure of one stream's work does to the others of its context. Each
//! test has a context of its own: one that has stopped does not start again.

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D, INNER};
use ferry_tests::*;

const CONTINUE: u64 = 0;
const STOP: u64 = 1;
const LEN: usize = 4096;
const POISON: u8 = 0xa5;

/// A context of its own, current.
fn context() -> usize {
    context_on(0)
}

fn context_on(device: i32) -> usize {
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, device));
    context
}

/// Work that fails when it runs: a descriptor that nobody has set.
fn fail_on(stream: usize) {
    let desc = Memory::device(LEN);
    desc.fill(0);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
}

#[test]
fn by_default_and_with_continue_later_work_runs() {
    let context = context();
    for set in [false, true] {
        let stream = stream();
        if set {
            ok(aclrtSetStreamFailureMode(stream, CONTINUE));
        }
        let dst = Memory::device(LEN);
        dst.fill(POISON);
        fail_on(stream);
        ok(aclrtMemsetAsync(dst.addr, LEN, 1, LEN, stream));
        expect("the failure", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
        ok(aclrtSynchronizeStream(stream)); // told once
        dst.assert_all(1, "later work ran");
    }
    ok(aclrtDestroyContext(context));
}

#[test]
fn stop_on_failure_stops_every_stream_of_the_context() {
    // Alone on its device: a device synchronise takes the failures of all contexts.
    let context = context_on(1);
    let (failing, other, blocked_one) = (stream(), stream(), stream());
    let (event, never, free) = (event(), event(), event());
    let dst = Memory::device(LEN);
    dst.fill(POISON);
    ok(aclrtSetStreamFailureMode(failing, STOP));
    // Everything behind the gates is queued when the failure comes.
    let (gate, other_gate) = (block(failing), block(other));
    fail_on(failing);
    ok(aclrtMemsetAsync(dst.addr, LEN, 1, LEN, failing));
    ok(aclrtRecordEvent(event, failing));
    ok(aclrtMemsetAsync(dst.addr, LEN, 2, LEN, other));
    ok(aclrtRecordEvent(never, other));
    ok(aclrtStreamWaitEvent(blocked_one, never));
    ok(aclrtMemsetAsync(dst.addr, LEN, 3, LEN, blocked_one));
    let waiting = blocked::call(move || aclrtSynchronizeStream(blocked_one)).blocked("a wait for `other`");
    gate.unblock();
    // `other` still stands in its function; who waits for it is let go all the same.
    assert_eq!(waiting.join(), RT_PARAM_INVALID);
    ok(aclrtSynchronizeEvent(event));
    other_gate.unblock();
    for _ in 0..2 {
        for stream in [failing, other, blocked_one, 0] {
            assert_eq!(aclrtSynchronizeStream(stream), RT_PARAM_INVALID, "every stream, every time");
            let why = message().unwrap_or_default();
            assert!(why.contains("descriptor"), "the message is about the first failure: {why}");
        }
    }
    expect("the device", aclrtSynchronizeDevice(), RT_PARAM_INVALID);
    dst.assert_all(POISON, "queued work was dropped");

    let (host, later) = (Memory::pinned(LEN), stream());
    for stream in [failing, other, blocked_one, later, 0] {
        let calls: [(&str, &dyn Fn() -> i32); 5] = [
            ("aclrtMemcpyAsync", &|| aclrtMemcpyAsync(dst.addr, LEN, host.addr, LEN, H2D, stream)),
            ("aclrtMemsetAsync", &|| aclrtMemsetAsync(dst.addr, LEN, 4, LEN, stream)),
            ("aclrtRecordEvent", &|| aclrtRecordEvent(free, stream)),
            ("aclrtStreamWaitEvent", &|| aclrtStreamWaitEvent(stream, event)),
            ("aclrtLaunchHostFunc", &|| aclrtLaunchHostFunc(stream, Some(never_run), 0)),
        ];
        for (what, call) in calls {
            assert_eq!(call(), RT_PARAM_INVALID, "{what}");
            let why = message().unwrap_or_default();
            assert!(why.contains("take no more work"), "{what} says why: {why}");
        }
    }
    assert_eq!(event_status(free), EVENT_NOT_READY, "a refused record changes nothing");
    // What is not stream work still runs, so that a program can save what it has.
    ok(aclrtMemcpy(host.addr, LEN, dst.addr, LEN, D2H));
    host.assert_all(POISON, "a synchronous copy");
    ok(aclrtDestroyStream(failing));
    ok(aclrtDestroyContext(context));
}

// proves: R52
#[test]
fn a_batch_that_a_stopped_context_refuses_is_about_no_item() {
    let context = context();
    let (stream, host, dst) = (stream(), Memory::pinned(LEN), Memory::device(LEN));
    dst.fill(POISON);
    ok(aclrtSetStreamFailureMode(stream, STOP));
    fail_on(stream);
    expect("the failure", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    let items = [(dst.addr, host.addr, 64), (dst.addr + 128, host.addr, 64)];
    let (code, fail_index) = Batch::of(&items, HOST_TO_DEVICE).call(BatchForm::Async, stream);
    assert_eq!((code, fail_index), (RT_PARAM_INVALID, Some(usize::MAX)));
    let why = message().unwrap_or_default();
    assert!(why.contains("take no more work") && !why.contains("item"), "{why}");
    dst.assert_all(POISON, "nothing was copied");
    ok(aclrtDestroyContext(context));
}

unsafe extern "C" fn never_run(_: *mut std::ffi::c_void) {
    std::process::abort();
}

#[test]
fn other_contexts_go_on() {
    let stopped = context();
    ok(aclrtSetStreamFailureMode(0, STOP));
    fail_on(0);
    expect("the default stream of the context", aclrtSynchronizeStream(0), RT_PARAM_INVALID);
    let fresh = context();
    let dst = Memory::device(LEN);
    ok(aclrtMemsetAsync(dst.addr, LEN, 1, LEN, 0));
    finish(0);
    dst.assert_all(1, "another context of the device");
    ok(aclrtDestroyContext(stopped));
    ok(aclrtDestroyContext(fresh));
}

#[test]
fn a_stream_that_does_not_stop_stops_nobody() {
    let context = context();
    let (quiet, failing) = (stream(), stream());
    ok(aclrtSetStreamFailureMode(quiet, STOP));
    fail_on(failing);
    expect("its own failure", aclrtSynchronizeStream(failing), RT_PARAM_INVALID);
    ok(aclrtSynchronizeStream(failing));
    ok(aclrtSynchronizeStream(quiet));
    ok(aclrtRecordEvent(event(), quiet));
    finish(quiet);
    ok(aclrtDestroyContext(context));
}

#[test]
fn an_abort_is_no_failure() {
    let context = context();
    let stream = stream();
    ok(aclrtSetStreamFailureMode(stream, STOP));
    let gate = block(stream);
    ok(aclrtRecordEvent(event(), stream));
    ok(aclrtStreamAbort(stream));
    gate.unblock();
    expect("the abort", aclrtSynchronizeStream(stream), STREAM_ABORT);
    ok(aclrtRecordEvent(event(), stream));
    finish(stream);
    ok(aclrtDestroyContext(context));
}

#[test]
fn a_pageable_copy_that_was_dropped_does_not_return_success() {
    let context = context();
    let (failing, other) = (stream(), stream());
    ok(aclrtSetStreamFailureMode(failing, STOP));
    let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Heap, &pattern(LEN, 1)));
    dst.fill(POISON);
    let (gate, other_gate) = (block(failing), block(other));
    fail_on(failing);
    let (to, from) = (dst.addr, src.addr);
    let call = blocked::call(move || aclrtMemcpyAsync(to, LEN, from, LEN, H2D, other));
    let call = call.blocked("a pageable copy behind a gate");
    gate.unblock();
    expect("the failure", aclrtSynchronizeStream(failing), RT_PARAM_INVALID);
    other_gate.unblock();
    assert_eq!(call.join(), RT_PARAM_INVALID);
    dst.assert_all(POISON, "it never ran");
    ok(aclrtDestroyContext(context));
}

#[test]
fn a_mode_is_set_once() {
    let context = context();
    for mode in [CONTINUE, STOP] {
        let stream = stream();
        expect("no such mode", aclrtSetStreamFailureMode(stream, 2), RT_PARAM_INVALID);
        expect("no such mode", aclrtSetStreamFailureMode(stream, u64::MAX), RT_PARAM_INVALID);
        ok(aclrtSetStreamFailureMode(stream, mode)); // refused calls do not count
        expect("again", aclrtSetStreamFailureMode(stream, mode), RT_PARAM_INVALID);
        expect("again", aclrtSetStreamFailureMode(stream, 1 - mode), RT_PARAM_INVALID);
    }
    ok(aclrtDestroyContext(context));
}
