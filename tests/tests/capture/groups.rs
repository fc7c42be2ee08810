//! Task groups and their updates. Without operators groups are empty; `FERRY_TASK_GROUPS=copies` lets copies
//! and fills in, in processes of their own (`children.rs`).

use super::*;
use ferry_tests::code::*;

const EXTERNAL: u32 = 0x20;

/// Ends the group of a stream: its handle.
#[track_caller]
fn close(stream: usize) -> usize {
    let mut group = 0;
    ok(aclmdlRICaptureTaskGrpEnd(stream, &mut group));
    assert_ne!(group, 0);
    group
}

// proves: G36 G39
#[test]
fn a_group_is_opened_and_closed_on_one_captured_stream_and_takes_operators_only() {
    own_context();
    let (main, side, outside, (one, two, _)) = (stream(), stream(), stream(), buffers(64));
    let (forked, inside) = (event(), event());
    let mut group = 0;
    expect("not captured", aclmdlRICaptureTaskGrpBegin(main), STREAM_NOT_CAPTURED);
    expect("not captured", aclmdlRICaptureTaskGrpEnd(main, &mut group), STREAM_NOT_CAPTURED);
    expect("default", aclmdlRICaptureTaskGrpBegin(0), STREAM_NOT_CAPTURED);
    unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}
    let model = capture(main, || {
        fork(forked, main, side);
        expect("not begun", aclmdlRICaptureTaskGrpEnd(main, &mut group), TASK_GROUP_STATUS);
        ok(aclmdlRICaptureTaskGrpBegin(main));
        refused("nested", aclmdlRICaptureTaskGrpBegin(main), TASK_GROUP_STATUS, &["nest"]);
        expect("of another stream", aclmdlRICaptureTaskGrpBegin(side), TASK_GROUP_STATUS);
        expect("on another stream", aclmdlRICaptureTaskGrpEnd(side, &mut group), TASK_GROUP_STATUS);
        let words = ["a copy", "FERRY_TASK_GROUPS=copies"];
        refused("copy", try_copy(&one, &two, main), TASK_TYPE_NOT_SUPPORT, &words);
        for (what, code) in [
            ("fill", aclrtMemsetAsync(one.addr, 64, 1, 64, main)),
            ("record", aclrtRecordEvent(inside, main)),
            ("wait", aclrtStreamWaitEvent(main, forked)),
            ("function", aclrtLaunchHostFunc(main, Some(nothing), 0)),
            ("value", aclrtValueWrite(one.addr, 1, 0, main)),
            ("wait for a value", aclrtValueWait(one.addr, 1, 1, main)),
        ] {
            assert_eq!(code, TASK_TYPE_NOT_SUPPORT, "{what}");
        }
        drop(message());
        let words = ["TaskGrpEnd", "GLOBAL"];
        refused("another stream", try_copy(&one, &two, side), TASK_GROUP_INTR, &words);
        expect("another stream", aclrtRecordEvent(inside, side), TASK_GROUP_INTR);
        expect("one that would join", aclrtStreamWaitEvent(outside, forked), TASK_GROUP_INTR);
        assert_eq!((status(outside), status(main)), (NONE, ACTIVE));
        copy(&one, &two, outside);
        close(main);
        fork(inside, side, main);
    });
    run(model, main);
    ok(aclmdlRIDestroy(model));
}

// proves: G37 G39
#[test]
fn an_empty_group_is_updated_by_nothing_on_a_stream_that_is_not_captured() {
    own_context();
    let (main, update, other, (one, two, _)) = (stream(), stream(), stream(), buffers(64));
    let mut group = 0;
    let model = capture(main, || {
        ok(aclmdlRICaptureTaskGrpBegin(main));
        group = close(main);
    });
    for _ in 0..2 {
        ok(aclmdlRICaptureTaskUpdateBegin(update, group));
        ok(aclmdlRICaptureTaskUpdateEnd(update));
        finish(update);
    }
    expect("not begun", aclmdlRICaptureTaskUpdateEnd(update), TASK_GROUP_STATUS);
    expect("no group", aclmdlRICaptureTaskUpdateBegin(update, 0x1234), RT_PARAM_INVALID);
    expect("NULL", aclmdlRICaptureTaskUpdateBegin(update, 0), RT_PARAM_INVALID);
    ok(aclmdlRICaptureTaskUpdateBegin(update, group));
    expect("twice at once", aclmdlRICaptureTaskUpdateBegin(other, group), TASK_GROUP_STATUS);
    expect("twice at once", aclmdlRICaptureTaskUpdateBegin(update, group), TASK_GROUP_STATUS);
    expect("capture it", aclmdlRICaptureBegin(update, GLOBAL), TASK_GROUP_STATUS);
    expect("no operator", try_copy(&one, &two, update), TASK_TYPE_NOT_SUPPORT);
    expect("an event", aclrtRecordEvent(event(), update), TASK_TYPE_NOT_SUPPORT);
    ok(aclmdlRICaptureTaskUpdateEnd(update));
    copy(&one, &two, update);
    finish(update);
    ok(aclmdlRICaptureBegin(other, GLOBAL));
    refused("captured", aclmdlRICaptureTaskUpdateBegin(other, group), STREAM_CAPTURED, &["GLOBAL"]);
    ok(aclmdlRIDestroy(end(other)));
    // A stream that is destroyed in the middle leaves the group to others.
    ok(aclmdlRICaptureTaskUpdateBegin(update, group));
    ok(aclrtDestroyStream(update));
    ok(aclmdlRICaptureTaskUpdateBegin(other, group));
    ok(aclmdlRICaptureTaskUpdateEnd(other));
    run(model, main);
    ok(aclmdlRIDestroy(model));
    expect("it went with the model", aclmdlRICaptureTaskUpdateBegin(other, group), RT_PARAM_INVALID);
}

/// A model with a copy and a fill in a group: the model and the group.
fn grouped(
    main: usize,
    dst: &Memory,
    src: &Memory,
    filled: &Memory,
    before: impl FnOnce(),
) -> (usize, usize) {
    let mut group = 0;
    let model = capture(main, || {
        before();
        ok(aclmdlRICaptureTaskGrpBegin(main));
        copy(dst, src, main);
        ok(aclrtMemsetAsync(filled.addr, filled.len, 1, filled.len, main));
        group = close(main);
    });
    (model, group)
}

/// The case of `copies_in_groups_are_updated_in_stream_order`.
pub(super) fn updates() {
    use_device();
    let (main, update) = (stream(), stream());
    let (dst, filled) = (Memory::device(64), Memory::device(64));
    let sources: Vec<_> = (1..4).map(|byte| Memory::holding(Home::Pinned, &[byte; 64])).collect();
    let (model, group) = grouped(main, &dst, &sources[0], &filled, || {});
    run(model, main);
    dst.assert_all(1, "as captured");
    // Way 1: update, then execute in stream order.
    let change = |source: &Memory, byte: i32| {
        ok(aclmdlRICaptureTaskUpdateBegin(update, group));
        copy(&dst, source, update);
        ok(aclrtMemsetAsync(filled.addr, 64, byte, 64, update));
        ok(aclmdlRICaptureTaskUpdateEnd(update));
    };
    change(&sources[1], 7);
    dst.assert_all(1, "the update runs nothing itself");
    run(model, update);
    dst.assert_all(2, "G38, way 1");
    filled.assert_all(7, "all tasks of the group");
    // An update is a task: it counts when its stream comes there.
    let hold = block(update);
    change(&sources[2], 8);
    run(model, main);
    dst.assert_all(2, "the update has not run");
    hold.unblock();
    finish(update);
    run(model, main);
    dst.assert_all(3, "now it has");
    filled.assert_all(8, "the fill, too");
    mismatches(model, group, [main, update], &dst, &sources[0], &filled);
    // Memory of an update that is freed is found out as any other of the graph's.
    change(&sources[0], 9);
    finish(update);
    ok(sources[0].free());
    ok(aclmdlRIExecuteAsync(model, main));
    refused("freed", aclrtSynchronizeStream(main), RT_PARAM_INVALID, &["op 0 of a task group", "freed"]);
    change(&sources[1], 5);
    run(model, update);
    dst.assert_all(2, "with memory that is there");
    ok(aclmdlRIDestroy(model));
    way_2();
    staged_updates();
}

/// Updates that do not fit: refused at their end, and the group is as before.
fn mismatches(
    model: usize,
    group: usize,
    [main, update]: [usize; 2],
    dst: &Memory,
    src: &Memory,
    filled: &Memory,
) {
    let fill = || ok(aclrtMemsetAsync(filled.addr, 64, 99, 64, update));
    let again = || copy(dst, src, update);
    type Tries<'a> = [(&'a str, &'a [&'a dyn Fn()]); 4];
    let tries: Tries = [
        ("none", &[]),
        ("too few", &[&again]),
        ("too many", &[&again, &fill, &fill]),
        ("kinds", &[&fill, &again]),
    ];
    for (what, tasks) in tries {
        ok(aclmdlRICaptureTaskUpdateBegin(update, group));
        tasks.iter().for_each(|task| task());
        let code = aclmdlRICaptureTaskUpdateEnd(update);
        refused(
            what,
            code,
            MODEL_UPDATE_FAILED,
            &["has 2 tasks", &format!("the update has {}", tasks.len())],
        );
        filled.fill(0);
        run(model, main);
        filled.assert_all(8, what);
    }
    let heap = Memory::heap(64);
    ok(aclmdlRICaptureTaskUpdateBegin(update, group));
    refused("pageable", try_copy(dst, &heap, update), CAPTURE_BLOCK_ASYNC, &["aclrtMallocHost"]);
    expect("nothing is left", aclmdlRICaptureTaskUpdateEnd(update), MODEL_UPDATE_FAILED);
}

/// G38, way 2: the model waits for an external event in front of the group, which is recorded behind the
/// update.
fn way_2() {
    let (main, update, mut external) = (stream(), stream(), 0);
    ok(aclrtCreateEventWithFlag(&mut external, EXTERNAL));
    let (dst, filled) = (Memory::device(64), Memory::device(64));
    let (model, group) = grouped(main, &dst, &filled, &filled, || {
        ok(aclrtStreamWaitEvent(main, external));
        ok(aclrtResetEvent(external, main));
    });
    for byte in 1..20 {
        let source = Memory::holding(Home::Pinned, &[byte; 64]);
        ok(aclmdlRIExecuteAsync(model, main));
        ok(aclmdlRICaptureTaskUpdateBegin(update, group));
        copy(&dst, &source, update);
        ok(aclrtMemsetAsync(filled.addr, 64, byte.into(), 64, update));
        ok(aclmdlRICaptureTaskUpdateEnd(update));
        ok(aclrtRecordEvent(external, update));
        finish(main);
        dst.assert_all(byte, "G38, way 2: the update of each execution");
        filled.assert_all(byte, "G38, way 2");
    }
    ok(aclmdlRIDestroy(model));
}

/// The staged kind takes its bytes when the update is made.
fn staged_updates() {
    let (main, heap, dst) = (stream(), Memory::heap(64), Memory::device(64));
    let stage = |stream| ok(aclrtMemcpyAsync(dst.addr, 64, heap.addr, 64, kind::BUFFERED, stream));
    let mut group = 0;
    heap.fill(1);
    let model = capture(main, || {
        ok(aclmdlRICaptureTaskGrpBegin(main));
        stage(main);
        group = close(main);
    });
    heap.fill(2);
    run(model, main);
    dst.assert_all(1, "of the capture");
    ok(aclmdlRICaptureTaskUpdateBegin(main, group));
    stage(main);
    ok(aclmdlRICaptureTaskUpdateEnd(main));
    heap.fill(3);
    for _ in 0..2 {
        run(model, main);
        dst.assert_all(2, "of the update");
    }
    ok(aclmdlRIDestroy(model));
}

/// The case of `an_abort_stops_the_ops_of_groups`.
pub(super) fn aborted_groups() {
    use_device();
    let (main, launcher, mut group) = (stream(), stream(), 0);
    let (dst, src) = (Memory::device(1 << 20), Memory::device(1 << 20));
    let model = capture(main, || {
        ok(aclmdlRICaptureTaskGrpBegin(main));
        for _ in 0..200 {
            copy(&dst, &src, main);
        }
        group = close(main);
    });
    for _ in 0..20 {
        ok(aclmdlRIExecuteAsync(model, launcher));
        ok(aclmdlRIExecuteAsync(model, launcher));
        ok(aclrtStreamAbort(launcher));
        dst.fill(1);
        expect("told", aclrtSynchronizeStream(launcher), STREAM_ABORT);
        dst.assert_all(1, "no byte moves after the abort");
    }
    run(model, launcher);
    dst.assert_holds(&src.read(), "and it runs again");
    ok(aclmdlRIDestroy(model));
}

/// A group with copies takes a stream of the device. If there is none the copies cannot be kept.
pub(crate) fn group_without_a_stream() {
    use_device();
    let (main, memory) = (stream(), Memory::device(64));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    ok(aclmdlRICaptureTaskGrpBegin(main));
    ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, main));
    let mut group = 0;
    refused("no stream", aclmdlRICaptureTaskGrpEnd(main, &mut group), RESOURCE_ALLOC_FAIL, &["streams"]);
    assert_eq!(status(main), INVALIDATED);
    end_without_model("the group is lost", main, CAPTURE_INVALIDATED);
}

// proves: G18 G37
#[test]
fn nothing_is_captured_while_the_default_stream_updates_a_group() {
    own_context();
    let (main, memory) = (stream(), Memory::device(64));
    let mut group = 0;
    let model = capture(main, || {
        ok(aclmdlRICaptureTaskGrpBegin(main));
        group = close(main);
    });
    ok(aclmdlRICaptureTaskUpdateBegin(0, group));
    refused("updating", aclmdlRICaptureBegin(main, GLOBAL), TASK_GROUP_STATUS, &["TaskUpdateEnd"]);
    assert_eq!(info(main), (NONE, 0));
    ok(aclmdlRICaptureTaskUpdateEnd(0));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    expect("G18", aclrtMemsetAsync(memory.addr, 64, 1, 64, 0), CAPTURE_IMPLICIT);
    end_without_model("broken", main, CAPTURE_INVALIDATED);
    ok(aclmdlRIDestroy(model));
}
