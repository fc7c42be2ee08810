//! What concerns a whole process or device: cases in processes of their own.

use super::*;
use ferry_tests::code::*;

pub(crate) const CASES: [ferry_tests::children::Case; 4] = [
    ("stream limit", stream_limit),
    ("reset", reset_of_the_device),
    ("updates", groups::updates),
    ("aborted groups", groups::aborted_groups),
];

/// Runs a case in a child.
#[track_caller]
fn child(case: &str, settings: &[(&str, Option<&str>)]) {
    ferry_tests::children::run(case, settings);
}

// proves: G10
#[test]
fn captures_and_joins_take_streams_of_the_device() {
    // The device has its default stream, that of the context, and five more.
    child("stream limit", &[("FERRY_LIMIT_STREAMS", Some("7"))]);
}

fn stream_limit() {
    use_device();
    let streams: Vec<_> = (0..3).map(|_| stream()).collect();
    let mut more = Vec::new();
    let mut one = 0;
    while aclrtCreateStream(&mut one) == 0 {
        more.push(one);
    }
    assert!(!more.is_empty());
    refused("no stream", aclmdlRICaptureBegin(streams[0], GLOBAL), NO_STREAM_RESOURCE, &["streams"]);
    assert_eq!(info(streams[0]), (NONE, 0));
    ok(aclrtDestroyStream(more.pop().expect("one more")));
    ok(aclmdlRICaptureBegin(streams[0], GLOBAL));
    expect("a second", aclmdlRICaptureBegin(streams[1], GLOBAL), NO_STREAM_RESOURCE);
    let forked = event();
    ok(aclrtRecordEvent(forked, streams[0]));
    refused("join", aclrtStreamWaitEvent(streams[1], forked), RESOURCE_ALLOC_FAIL, &["streams"]);
    assert_eq!((status(streams[0]), status(streams[1])), (ACTIVE, NONE), "the capture goes on without it");
    let model = end(streams[0]);
    expect("the model has it", aclrtCreateStream(&mut one), RESOURCE_ALLOC_FAIL);
    ok(aclmdlRIDestroy(model));
    // Streams and captures that fail give theirs back.
    for _ in 0..20 {
        ok(aclmdlRICaptureBegin(streams[0], RELAXED));
        expect("breaks it", aclrtSynchronizeStream(streams[0]), STREAM_CAPTURED);
        end_without_model("broken", streams[0], CAPTURE_INVALIDATED);
    }
    ok(aclmdlRIDestroy(capture(streams[0], || {})));
}

// proves: G11
#[test]
fn a_reset_of_the_device_breaks_its_captures() {
    child("reset", &[]);
}

fn reset_of_the_device() {
    use_device();
    let of_default = stream();
    ok(aclmdlRICaptureBegin(of_default, GLOBAL));
    let (_, model) = info(of_default);
    own_context();
    let (main, memory) = (stream(), Memory::device(64));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, main));
    ok(aclrtResetDevice(0));
    expect("its stream is gone", aclmdlRICaptureGetInfo(of_default, &mut 0, &mut 0), INVALID_HANDLE);
    assert_eq!(status(main), INVALIDATED, "a context of the program's own stays, its capture does not");
    expect("captured", aclrtMemsetAsync(memory.addr, 64, 1, 64, main), CAPTURE_INVALIDATED);
    end_without_model("broken", main, CAPTURE_INVALIDATED);
    ok(aclmdlRIDestroy(capture(main, || ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, main)))));
    expect("the model of the default context", aclmdlRIExecuteAsync(model, main), RT_PARAM_INVALID);
    use_device();
    let again = stream();
    ok(aclmdlRIDestroy(capture(again, || {})));
}

// proves: G37 G38 G39
#[test]
fn copies_in_groups_are_updated_in_stream_order() {
    child("updates", &[("FERRY_TASK_GROUPS", Some("copies"))]);
}

// proves: G37
#[test]
fn an_abort_stops_the_ops_of_groups() {
    child("aborted groups", &[("FERRY_TASK_GROUPS", Some("copies"))]);
}
