//! Captures begin, are asked about, and end.

use super::*;
use ferry_tests::code::*;
use std::ptr::null_mut;

// proves: G1
#[test]
fn tasks_until_the_end_are_stored_and_earlier_ones_run() {
    own_context();
    let (stream, (one, two, _)) = (stream(), buffers(4096));
    let hold = block(stream);
    copy(&one, &two, stream);
    ok(aclmdlRICaptureBegin(stream, RELAXED));
    ok(aclrtMemsetAsync(two.addr, 4096, 9, 4096, stream));
    hold.unblock();
    let model = end(stream);
    finish(stream);
    one.assert_all(2, "submitted before the capture: has run");
    two.assert_all(2, "captured: has not run");
    run(model, stream);
    two.assert_all(9, "the model has run");
    ok(aclrtMemsetAsync(two.addr, 4096, 4, 4096, stream));
    finish(stream);
    two.assert_all(4, "after the capture tasks run as ever");
    ok(aclmdlRIDestroy(model));
}

// proves: G2
#[test]
fn only_streams_that_are_made_can_be_captured_once_and_in_a_mode_that_exists() {
    own_context();
    let stream = stream();
    refused(
        "NULL",
        aclmdlRICaptureBegin(0, GLOBAL),
        CAPTURE_IMPLICIT,
        &["default stream", "aclrtCreateStream"],
    );
    for mode in [-1, 3, i32::MAX] {
        refused(
            "mode",
            aclmdlRICaptureBegin(stream, mode),
            RT_PARAM_INVALID,
            &[&mode.to_string(), "RELAXED"],
        );
    }
    expect("no stream", aclmdlRICaptureBegin(0x1234, GLOBAL), INVALID_HANDLE);
    assert_eq!(status(stream), NONE);
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    let before = info(stream);
    refused("again", aclmdlRICaptureBegin(stream, RELAXED), STREAM_CAPTURED, &["already", "GLOBAL"]);
    assert_eq!(info(stream), before, "the first capture goes on");
    assert_eq!(end(stream), before.1);
}

// proves: G3
#[test]
fn the_end_names_the_main_stream_in_the_thread_that_began() {
    own_context();
    let (main, side, other) = (stream(), stream(), stream());
    let mut model = 1;
    expect("not captured", aclmdlRICaptureEnd(main, &mut model), CAPTURE_UNMATCHED);
    expect("NULL stream", aclmdlRICaptureEnd(0, &mut model), CAPTURE_UNMATCHED);
    for mode in [GLOBAL, THREAD_LOCAL] {
        ok(aclmdlRICaptureBegin(main, mode));
        fork(event(), main, side);
        refused("joined", aclmdlRICaptureEnd(side, &mut model), CAPTURE_UNMATCHED, &["joined", "began on"]);
        expect("other", aclmdlRICaptureEnd(other, &mut model), CAPTURE_UNMATCHED);
        expect("nowhere to put the model", aclmdlRICaptureEnd(main, null_mut()), INVALID_PARAM);
        let from_elsewhere = move || {
            let mut model = 1;
            let ways = ["thread", "RELAXED", "goes on"];
            refused("thread", aclmdlRICaptureEnd(main, &mut model), CAPTURE_WRONG_THREAD, &ways);
        };
        elsewhere(from_elsewhere);
        assert_eq!(status(main), ACTIVE, "the capture goes on");
        fork(event(), side, main);
        ok(aclmdlRIDestroy(end(main)));
    }
    ok(aclmdlRICaptureBegin(main, RELAXED));
    let model = elsewhere(move || end(main));
    ok(aclmdlRIDestroy(model));
    // A thread that has ended cannot end its capture: any other one may.
    for mode in [GLOBAL, THREAD_LOCAL] {
        elsewhere(move || ok(aclmdlRICaptureBegin(main, mode)));
        ok(aclmdlRIDestroy(end(main)));
    }
}

// proves: G4 G5
#[test]
fn the_end_ends_the_capture_also_when_it_fails() {
    own_context();
    let (main, side, (one, two, _)) = (stream(), stream(), buffers(64));
    let (forked, joined) = (event(), event());
    type Step = fn(usize, usize, usize, &Memory, &Memory);
    let unjoined: Step = |_, side, _, one, two| copy(one, two, side);
    let invalidated: Step = |main, _, _, _, _| expect("sync", aclrtSynchronizeStream(main), STREAM_CAPTURED);
    let open_group: Step = |main, side, joined, _, _| {
        fork(joined, side, main);
        ok(aclmdlRICaptureTaskGrpBegin(main));
    };
    for (what, step, code) in [
        ("unjoined", unjoined, STREAM_UNJOINED),
        ("invalidated", invalidated, CAPTURE_INVALIDATED),
        ("a task group is open", open_group, TASK_GROUP_STATUS),
    ] {
        ok(aclmdlRICaptureBegin(main, GLOBAL));
        let model = info(main).1;
        fork(forked, main, side);
        step(main, side, joined, &one, &two);
        end_without_model(what, main, code);
        for stream in [main, side] {
            assert_eq!(info(stream), (NONE, 0), "{what}");
            copy(&two, &one, stream);
            finish(stream);
        }
        copy(&two, &one, 0);
        finish(0);
        ok(aclrtRecordEvent(forked, side));
        ok(aclrtSynchronizeEvent(forked));
        one.assert_all(1, "nothing that was captured runs");
        expect("the model became nothing", aclmdlRIExecuteAsync(model, main), RT_PARAM_INVALID);
        one.fill(1);
        ok(aclmdlRIDestroy(capture(main, || copy(&one, &two, main))));
    }
}

// proves: G5
#[test]
fn a_capture_without_a_task_becomes_a_model_that_does_nothing() {
    own_context();
    let stream = stream();
    let model = capture(stream, || {});
    for _ in 0..3 {
        run(model, stream);
    }
    ok(aclmdlRIExecute(model, -1));
    ok(aclmdlRIDestroy(model));
}

// proves: G6 G7
#[test]
fn the_state_of_every_stream_can_be_asked_for_anywhere_at_any_time() {
    own_context();
    let (main, side, outside) = (stream(), stream(), stream());
    assert_eq!(info(0), (NONE, 0), "the default stream");
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    let at_first = info(main);
    assert_eq!(at_first.0, ACTIVE);
    assert_ne!(at_first.1, 0);
    let joined = event();
    fork(joined, main, side);
    assert_eq!(info(side), at_first, "a joined stream answers for the same model");
    assert_eq!((info(outside), info(0)), ((NONE, 0), (NONE, 0)));
    in_new_thread(move || {
        // This thread has no context, as an allocator's may have none.
        assert_eq!((info(main), info(side), info(outside)), (at_first, at_first, (NONE, 0)));
        assert_eq!(info(0), (NONE, 0));
    });
    ok(aclmdlRICaptureGetInfo(main, null_mut(), null_mut()));
    let mut model = 0;
    ok(aclmdlRICaptureGetInfo(main, null_mut(), &mut model));
    assert_eq!(model, at_first.1);
    expect("no stream", aclmdlRICaptureGetInfo(0x1234, null_mut(), null_mut()), INVALID_HANDLE);
    fork(event(), side, main);
    assert_eq!(end(main), at_first.1, "the model is the one that was told at the beginning");
    ok(aclmdlRICaptureBegin(main, RELAXED));
    expect("invalidates", aclrtSynchronizeStream(main), STREAM_CAPTURED);
    assert_eq!(status(main), INVALIDATED);
    end_without_model("invalidated", main, CAPTURE_INVALIDATED);
    assert_eq!(info(main), (NONE, 0));
}

// proves: G8
#[test]
fn capture_follows_the_stream_whichever_thread_submits() {
    own_context();
    let (stream, (one, two, pinned)) = (stream(), buffers(64));
    let model = capture(stream, || {
        elsewhere(move || {
            copy(&one, &pinned, stream);
            ok(aclrtMemsetAsync(pinned.addr, 64, 8, 64, stream));
        });
        copy(&two, &pinned, stream);
    });
    run(model, stream);
    one.assert_all(3, "by another thread");
    two.assert_all(8, "in the order of the calls");
    ok(aclmdlRIDestroy(model));
}

// proves: G9
#[test]
fn captures_on_different_streams_are_independent() {
    own_context();
    let (first, second, (one, two, pinned)) = (stream(), stream(), buffers(64));
    ok(aclmdlRICaptureBegin(first, GLOBAL));
    ok(aclmdlRICaptureBegin(second, GLOBAL));
    assert_ne!(info(first).1, info(second).1);
    copy(&one, &pinned, first);
    copy(&two, &pinned, second);
    expect("breaks the second", aclrtSynchronizeStream(second), STREAM_CAPTURED);
    assert_eq!((status(first), status(second)), (ACTIVE, INVALIDATED));
    let (into_first, into_second) = (event(), event());
    ok(aclrtRecordEvent(into_first, first));
    ok(aclmdlRICaptureBegin(stream(), RELAXED));
    end_without_model("second", second, CAPTURE_INVALIDATED);
    assert_eq!(status(first), ACTIVE);
    // A stream is in one capture at most.
    ok(aclmdlRICaptureBegin(second, GLOBAL));
    ok(aclrtRecordEvent(into_second, second));
    expect("drawn into another", aclrtStreamWaitEvent(second, into_first), CAPTURE_CONFLICT);
    end_without_model("the one that waits", second, CAPTURE_INVALIDATED);
    end_without_model("the one that recorded", first, CAPTURE_INVALIDATED);
    one.assert_all(1, "neither has run");
}

// proves: G11
#[test]
fn captured_streams_cannot_be_destroyed_and_captured_events_can() {
    own_context();
    let (main, side, (one, two, pinned)) = (stream(), stream(), buffers(64));
    let (forked, joined) = (event(), event());
    let model = capture(main, || {
        copy(&one, &pinned, main);
        fork(forked, main, side);
        ok(aclrtDestroyEvent(forked));
        copy(&two, &one, side);
        fork(joined, side, main);
        ok(aclrtDestroyEvent(joined));
        for stream in [main, side] {
            refused(
                "destroy",
                aclrtDestroyStream(stream),
                STREAM_CAPTURED,
                &["aclmdlRICaptureEnd", "GLOBAL"],
            );
            expect("force", aclrtDestroyStreamForce(stream), STREAM_CAPTURED);
            expect("abort", aclrtStreamAbort(stream), STREAM_CAPTURED);
        }
        assert_eq!(status(main), ACTIVE);
        copy(&pinned, &two, main);
    });
    ok(aclrtDestroyStream(side));
    ok(aclrtDestroyStream(main));
    for byte in [7, 8] {
        let stream = stream();
        pinned.fill(byte);
        run(model, stream);
        two.assert_all(byte, "the graph keeps what it needs");
    }
    ok(aclmdlRIDestroy(model));
}
