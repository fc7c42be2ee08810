//! Graph capture: what is recorded, what an execution does, and what a capture forbids meanwhile.
//!
//! A capture concerns its context. Each test has a context of its own, so that tests beside each other do not
//! break each other's captures.

mod running;

use ferry_tests::*;

/// aclmdlRICaptureMode.
const GLOBAL: i32 = 0;

/// A context of the test's own.
#[track_caller]
fn own_context() -> usize {
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    context
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

/// The status of a stream's capture, and its model.
#[track_caller]
fn info(stream: usize) -> (i32, usize) {
    let (mut status, mut model) = (-1, 1);
    ok(aclmdlRICaptureGetInfo(stream, &mut status, &mut model));
    (status, model)
}

/// Executes a model and waits for it.
#[track_caller]
fn run(model: usize, stream: usize) {
    ok(aclmdlRIExecuteAsync(model, stream));
    finish(stream);
}
