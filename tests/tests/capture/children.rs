//! What concerns a whole process or device: cases in processes of their own.

use super::*;
use ferry_tests::code::*;

pub(crate) const CASES: [ferry_tests::children::Case; 6] = [
    ("stream limit", stream_limit),
    ("reset", reset_of_the_device),
    ("blocking executions", blocking_executions),
    ("group without a stream", groups::group_without_a_stream),
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
    refused(
        "no stream",
        aclmdlRICaptureBegin(streams[0], GLOBAL),
        NO_STREAM_RESOURCE,
        &["graph", "aclmdlRIDestroy"],
    );
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

// proves: G30 G32
#[test]
fn calls_for_a_whole_device_know_blocking_executions() {
    child("blocking executions", &[]);
}

fn blocking_executions() {
    use_device();
    let (stream, cell) = (stream(), Memory::device(64));
    cell.fill(0);
    let mut held = None;
    let model = capture(stream, || held = Some(executing::Held::on(stream)));
    expect("held", aclmdlRIExecute(model, 20), STREAM_SYNC_TIMEOUT);
    expect("the device waits for it", aclrtSynchronizeDeviceWithTimeout(20), STREAM_SYNC_TIMEOUT);
    drop(held);
    ok(aclrtSynchronizeDevice());
    ok(aclmdlRIDestroy(model));
    // A wait for ever can be ended.
    let stuck = capture(stream, || ok(aclrtValueWait(cell.addr, 1, 1, stream)));
    expect("held", aclmdlRIExecute(stuck, 20), STREAM_SYNC_TIMEOUT);
    expect("it runs", aclmdlRIDestroy(stuck), MODEL_RUNNING);
    ok(aclrtDeviceTaskAbort(0, 0));
    ok(aclmdlRIDestroy(stuck));
    drop(message());
    // The reset waits.
    let is_released = std::sync::atomic::AtomicBool::new(false);
    let mut held = None;
    let last = capture(stream, || held = Some(executing::Held::on(stream)));
    expect("held", aclmdlRIExecute(last, 20), STREAM_SYNC_TIMEOUT);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Time for a reset that does not wait.
            std::thread::sleep(std::time::Duration::from_millis(50));
            is_released.store(true, std::sync::atomic::Ordering::SeqCst);
            held.iter().for_each(executing::Held::go);
        });
        ok(aclrtResetDevice(0));
        assert!(is_released.load(std::sync::atomic::Ordering::SeqCst), "the reset waits for the model");
    });
}

// proves: G10 G36
#[test]
fn a_group_that_cannot_be_closed_breaks_its_capture() {
    let settings = [("FERRY_TASK_GROUPS", Some("copies")), ("FERRY_LIMIT_STREAMS", Some("3"))];
    child("group without a stream", &settings);
}
