//! Graph capture: what is recorded, what an execution does, and what a capture forbids meanwhile.
//!
//! A capture concerns its context. Each test has a context of its own, so that tests beside each other do not
//! break each other's captures. Calls that concern a whole device are tested on device 1 by one test, or in a
//! child process.

mod beginning;
mod building;
mod callers;
mod captured;
mod children;
mod events;
mod executing;
mod forbidden;
mod groups;
mod lifetimes;
mod messages;
mod modes;
mod printing;
mod races;
mod running;
mod threads;

use ferry_tests::*;

/// aclmdlRICaptureMode.
const GLOBAL: i32 = 0;
/// See [`GLOBAL`].
const THREAD_LOCAL: i32 = 1;
/// See [`GLOBAL`].
const RELAXED: i32 = 2;
/// aclmdlRICaptureStatus.
const NONE: i32 = 0;
/// See [`NONE`].
const ACTIVE: i32 = 1;
/// See [`NONE`].
const INVALIDATED: i32 = 2;

/// A context of the test's own.
#[track_caller]
fn own_context() -> usize {
    context_of(0)
}

/// A context of the test's own, of this device.
#[track_caller]
fn context_of(device: i32) -> usize {
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, device));
    context
}

/// Runs `f` on a thread of its own in the current context of this one.
#[track_caller]
fn elsewhere<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let mut context = 0;
    ok(aclrtGetCurrentContext(&mut context));
    in_new_thread(move || {
        ok(aclrtSetCurrentContext(context));
        f()
    })
}

/// Captures what `work` puts into a stream and into those that join it.
#[track_caller]
fn capture(stream: usize, work: impl FnOnce()) -> usize {
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    work();
    end(stream)
}

/// Ends a capture that is whole.
#[track_caller]
fn end(stream: usize) -> usize {
    let mut model = 0;
    ok(aclmdlRICaptureEnd(stream, &mut model));
    assert_ne!(model, 0);
    model
}

/// Ends a capture that becomes no model.
#[track_caller]
fn end_without_model(what: &str, stream: usize, code: i32) {
    let mut model = 1;
    expect(what, aclmdlRICaptureEnd(stream, &mut model), code);
    assert_eq!(model, 0, "{what}: no model");
}

/// The status of a stream's capture, and its model.
#[track_caller]
fn info(stream: usize) -> (i32, usize) {
    let (mut status, mut model) = (-1, 1);
    ok(aclmdlRICaptureGetInfo(stream, &mut status, &mut model));
    (status, model)
}

/// The status of a stream's capture.
#[track_caller]
fn status(stream: usize) -> i32 {
    info(stream).0
}

/// Executes a model and waits for it.
#[track_caller]
fn run(model: usize, stream: usize) {
    ok(aclmdlRIExecuteAsync(model, stream));
    finish(stream);
}

/// Changes the mode of this thread; the one it had.
#[track_caller]
fn exchange(mode: i32) -> i32 {
    let mut mode = mode;
    ok(aclmdlRICaptureThreadExchangeMode(&mut mode));
    mode
}

/// Copies from one part of a device to another on a stream.
#[track_caller]
fn copy(dst: &Memory, src: &Memory, stream: usize) {
    ok(try_copy(dst, src, stream));
}

/// As [`copy`]; the code.
fn try_copy(dst: &Memory, src: &Memory, stream: usize) -> i32 {
    aclrtMemcpyAsync(dst.addr, dst.len, src.addr, src.len, kind::DEFAULT, stream)
}

/// Has `side` wait for what `main` has to do so far.
#[track_caller]
fn fork(event: usize, main: usize, side: usize) {
    ok(aclrtRecordEvent(event, main));
    ok(aclrtStreamWaitEvent(side, event));
}

/// Two buffers of a device, and one of the host that is page-locked, filled with 1, 2 and 3.
fn buffers(len: usize) -> (Memory, Memory, Memory) {
    let (one, two, pinned) = (Memory::device(len), Memory::device(len), Memory::pinned(len));
    one.fill(1);
    two.fill(2);
    pinned.fill(3);
    (one, two, pinned)
}

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    ferry_tests::children::play(&children::CASES);
}
