//! Events between captured streams, and between models and streams outside.

use super::*;
use ferry_tests::code::*;

const SYNC: u32 = 1;
const CAPTURE_STREAM_PROGRESS: u32 = 2;
const EXTERNAL: u32 = 0x20;

/// An event of aclrtCreateEventWithFlag.
#[track_caller]
fn flagged(flag: u32) -> usize {
    let mut event = 0;
    ok(aclrtCreateEventWithFlag(&mut event, flag));
    event
}

/// An event of aclrtCreateEventExWithFlag.
#[track_caller]
fn ex(flag: u32) -> usize {
    let mut event = 0;
    ok(aclrtCreateEventExWithFlag(&mut event, flag));
    event
}

// proves: G20 G28
#[test]
fn waits_draw_streams_in_and_from_those_others() {
    own_context();
    let streams: Vec<_> = (0..4).map(|_| stream()).collect();
    let buffers: Vec<_> = (0..5).map(|_| Memory::device(64)).collect();
    let model = capture(streams[0], || {
        for (number, stream) in streams.iter().enumerate() {
            if number > 0 {
                fork(event(), streams[number - 1], *stream);
                assert_eq!(info(*stream), info(streams[0]));
            }
            copy(&buffers[number + 1], &buffers[number], *stream);
        }
        // Back through the others, the last one directly.
        fork(event(), streams[1], streams[2]);
        fork(event(), streams[2], streams[3]);
        fork(event(), streams[3], streams[0]);
    });
    for byte in 1..50 {
        buffers[0].fill(byte);
        run(model, streams[1]);
        buffers[4].assert_all(byte, "each stream in order, and the events between them");
    }
    ok(aclmdlRIDestroy(model));
}

// proves: G21
#[test]
fn joined_streams_lead_back_with_all_of_their_tasks() {
    own_context();
    let (main, side, third, (one, two, _)) = (stream(), stream(), stream(), buffers(64));
    type Step = fn([usize; 3], &Memory, &Memory);
    let cases: [(&str, Step, i32); 6] = [
        ("never", |[_, side, _], one, two| copy(one, two, side), STREAM_UNJOINED),
        ("without a task", |_, _, _| {}, STREAM_UNJOINED),
        (
            "a task behind the last record",
            |[main, side, _], one, two| {
                fork(event(), side, main);
                copy(one, two, side);
            },
            STREAM_UNJOINED,
        ),
        (
            "a stream of the side's",
            |[main, side, third], one, two| {
                fork(event(), side, third);
                fork(event(), side, main);
                copy(one, two, third);
            },
            STREAM_UNJOINED,
        ),
        (
            "through the side",
            |[main, side, third], one, two| {
                fork(event(), side, third);
                copy(one, two, third);
                fork(event(), third, side);
                fork(event(), side, main);
            },
            SUCCESS,
        ),
        (
            "a second time",
            |[main, side, _], one, two| {
                fork(event(), side, main);
                copy(one, two, side);
                fork(event(), side, main);
            },
            SUCCESS,
        ),
    ];
    for (what, step, code) in cases {
        ok(aclmdlRICaptureBegin(main, GLOBAL));
        fork(event(), main, side);
        step([main, side, third], &one, &two);
        let mut model = 1;
        let ended = aclmdlRICaptureEnd(main, &mut model);
        match code {
            SUCCESS => {
                ok(ended);
                run(model, main);
                ok(aclmdlRIDestroy(model));
            }
            _ => refused(what, ended, code, &["lead back", "record"]),
        }
        for stream in [main, side, third] {
            assert_eq!(info(stream), (NONE, 0), "{what}");
        }
    }
}

// proves: G22
#[test]
fn captured_streams_wait_for_records_of_their_own_capture_only() {
    own_context();
    let (main, other, outside, (one, two, _)) = (stream(), stream(), stream(), buffers(64));
    let (never, eager, foreign) = (event(), event(), event());
    ok(aclrtRecordEvent(eager, outside));
    for (what, event) in [("never recorded", never), ("recorded eagerly", eager)] {
        ok(aclmdlRICaptureBegin(main, RELAXED));
        let words = ["was not recorded in that capture", "ACL_EVENT_EXTERNAL"];
        refused(what, aclrtStreamWaitEvent(main, event), CAPTURE_DEPENDENCY, &words);
        end_without_model(what, main, CAPTURE_INVALIDATED);
    }
    ok(aclmdlRICaptureBegin(main, RELAXED));
    ok(aclmdlRICaptureBegin(other, RELAXED));
    ok(aclrtRecordEvent(foreign, other));
    let code = aclrtStreamWaitEvent(main, foreign);
    refused("of another capture", code, CAPTURE_CONFLICT, &["another capture"]);
    end_without_model("it", main, CAPTURE_INVALIDATED);
    end_without_model("the other", other, CAPTURE_INVALIDATED);
    // An event of an ended capture is as if that had not been.
    ok(aclmdlRICaptureBegin(main, RELAXED));
    expect("of an ended one", aclrtStreamWaitEvent(main, foreign), CAPTURE_DEPENDENCY);
    end_without_model("it", main, CAPTURE_INVALIDATED);
    // The default stream.
    ok(aclmdlRICaptureBegin(main, RELAXED));
    ok(aclrtRecordEvent(foreign, main));
    expect("the default stream", aclrtStreamWaitEvent(0, foreign), CAPTURE_IMPLICIT);
    assert_eq!(info(0), (NONE, 0));
    end_without_model("it", main, CAPTURE_INVALIDATED);
    // A stream with work of its own is drawn in, and its work runs.
    let hold = block(outside);
    copy(&one, &two, outside);
    let model = capture(main, || {
        fork(foreign, main, outside);
        copy(&two, &one, outside);
        fork(foreign, outside, main);
        hold.unblock();
    });
    finish(outside);
    one.assert_all(2, "eager work ran");
    ok(aclmdlRIDestroy(model));
}

// proves: G23
#[test]
fn a_record_in_a_capture_does_not_touch_the_state_outside() {
    own_context();
    let (main, side, outside, (one, two, _)) = (stream(), stream(), stream(), buffers(64));
    let (recorded, fresh) = (event(), event());
    let hold = block(outside);
    ok(aclrtRecordEvent(recorded, outside));
    let model = capture(main, || {
        fork(recorded, main, side);
        fork(fresh, side, main);
        copy(&one, &two, main);
    });
    assert_eq!(event_status(recorded), EVENT_NOT_READY, "as before: behind the work outside");
    let before = event_status(fresh);
    run(model, main);
    assert_eq!(event_status(recorded), EVENT_NOT_READY, "an execution does not signal it outside");
    assert_eq!(event_status(fresh), before, "as one that was never recorded");
    hold.unblock();
    ok(aclrtSynchronizeEvent(recorded));
    assert_eq!(event_status(recorded), EVENT_COMPLETE);
    ok(aclmdlRIDestroy(model));
    ok(aclmdlRICaptureBegin(main, RELAXED));
    ok(aclrtRecordEvent(recorded, main));
    refused("outside", aclrtRecordEvent(recorded, outside), EVENT_CAPTURED, &["outside of the capture"]);
    end_without_model("it", main, CAPTURE_INVALIDATED);
    ok(aclrtRecordEvent(recorded, outside));
    ok(aclmdlRICaptureBegin(main, RELAXED));
    ok(aclrtRecordEvent(recorded, main));
    expect("reset outside", aclrtResetEvent(recorded, outside), EVENT_CAPTURED);
    end_without_model("it", main, CAPTURE_INVALIDATED);
}

// proves: G24
#[test]
fn each_execution_waits_for_a_fresh_record_of_an_external_event() {
    own_context();
    let (main, outside, side) = (stream(), stream(), stream());
    let (external, memory) = (flagged(EXTERNAL), Memory::device(64));
    let model = capture(main, || {
        ok(aclrtStreamWaitEvent(main, external));
        ok(aclrtResetEvent(external, main));
        ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, main));
    });
    for early in [false, true, false] {
        memory.fill(0);
        if early {
            ok(aclrtRecordEvent(external, outside));
            finish(outside);
        }
        ok(aclmdlRIExecuteAsync(model, main));
        if !early {
            blocked::settle();
            assert_eq!(stream_status(main), STREAM_NOT_READY, "waits for a record");
            memory.assert_all(0, "what is behind has not run");
            ok(aclrtRecordEvent(external, outside));
        }
        finish(main);
        memory.assert_all(1, "what is behind has run");
    }
    // Two executions need two records, one after the other.
    memory.fill(0);
    ok(aclmdlRIExecuteAsync(model, main));
    ok(aclmdlRIExecuteAsync(model, side));
    ok(aclrtRecordEvent(external, outside));
    finish(main);
    blocked::settle();
    assert_eq!(stream_status(side), STREAM_NOT_READY, "the second waits for another record");
    ok(aclrtRecordEvent(external, outside));
    finish(side);
    // It draws no stream in, and is not recorded in a capture.
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    refused("recorded", aclrtRecordEvent(external, main), RT_PARAM_INVALID, &["ACL_EVENT_EXTERNAL"]);
    assert_eq!((status(main), status(side)), (ACTIVE, NONE));
    ok(aclmdlRIDestroy(end(main)));
    ok(aclmdlRIDestroy(model));
    let mut bad = 0;
    expect("not alone", aclrtCreateEventWithFlag(&mut bad, EXTERNAL | SYNC), RT_PARAM_INVALID);
    ok(aclrtDestroyEvent(external));
}

// proves: G25
#[test]
fn records_and_waits_with_flag_1_reach_outside_at_each_execution() {
    own_context();
    let (main, outside, (one, two, pinned)) = (stream(), stream(), buffers(64));
    let (told, asked) = (ex(SYNC), ex(SYNC));
    let model = capture(main, || {
        ok(aclrtStreamWaitEventWithFlag(main, asked, 0, 1));
        copy(&one, &pinned, main);
        ok(aclrtRecordEventWithFlag(told, main, 1));
    });
    for byte in [5, 6] {
        pinned.fill(0);
        let hold = block(outside);
        ok(aclrtMemsetAsync(pinned.addr, 64, byte, 64, outside));
        ok(aclrtRecordEvent(asked, outside));
        ok(aclmdlRIExecuteAsync(model, main));
        let after = stream();
        ok(aclrtStreamWaitEvent(after, told));
        copy(&two, &one, after);
        assert_eq!(event_status(told), EVENT_NOT_READY, "recorded by the execution, and not done");
        hold.unblock();
        finish(after);
        two.assert_all(byte as u8, "behind the record of the execution, which waited outside");
        assert_eq!(event_status(told), EVENT_COMPLETE);
        finish(main);
    }
    ok(aclmdlRIDestroy(model));
}

// proves: G24 G34
#[test]
fn an_execution_that_is_aborted_uses_no_external_record_up() {
    own_context();
    let (main, outside) = (stream(), stream());
    let (external, memory) = (flagged(EXTERNAL), Memory::device(64));
    let model = capture(main, || {
        ok(aclrtStreamWaitEvent(main, external));
        ok(aclrtResetEvent(external, main));
        ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, main));
    });
    memory.fill(0);
    ok(aclrtRecordEvent(external, outside));
    finish(outside);
    let hold = block(main);
    ok(aclmdlRIExecuteAsync(model, main));
    ok(aclrtStreamAbort(main));
    hold.unblock();
    expect("aborted", aclrtSynchronizeStream(main), STREAM_ABORT);
    memory.assert_all(0, "it was dropped");
    ok(aclmdlRIExecuteAsync(model, main));
    ok(aclrtSynchronizeStreamWithTimeout(main, 10_000));
    memory.assert_all(1, "the record was there for this one");
    // And only for this one.
    ok(aclmdlRIExecuteAsync(model, main));
    blocked::settle();
    assert_eq!(stream_status(main), STREAM_NOT_READY, "waits for a record");
    ok(aclrtRecordEvent(external, outside));
    finish(main);
    ok(aclmdlRIDestroy(model));
}

// proves: G11 G24
#[test]
fn executions_that_wait_for_an_external_event_that_is_destroyed_fail() {
    own_context();
    let (main, outside, other, memory) = (stream(), stream(), stream(), Memory::device(64));
    let waiting = || {
        let external = flagged(EXTERNAL);
        let model = capture(main, || {
            ok(aclrtStreamWaitEvent(main, external));
            ok(aclrtResetEvent(external, main));
            ok(aclrtMemsetAsync(memory.addr, 64, 7, 64, main));
        });
        (external, model)
    };
    // One that waits, one that comes behind it, and one that is launched later.
    let (external, model) = waiting();
    ok(aclmdlRIExecuteAsync(model, main));
    ok(aclmdlRIExecuteAsync(model, other));
    blocked::settle();
    ok(aclrtDestroyEvent(external));
    let words = [&*format!("{external:#x}"), "destroyed", "ACL_EVENT_EXTERNAL"];
    for stream in [main, other] {
        refused("waits", aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &words);
    }
    ok(aclmdlRIExecuteAsync(model, main));
    refused("later", aclrtSynchronizeStream(main), RT_PARAM_INVALID, &words);
    finish(main);
    ok(aclmdlRIDestroy(model));

    // One that was aborted has been told.
    let (external, model) = waiting();
    ok(aclmdlRIExecuteAsync(model, main));
    blocked::settle();
    ok(aclrtStreamAbort(main));
    expect("aborted", aclrtSynchronizeStream(main), STREAM_ABORT);
    ok(aclrtDestroyEvent(external));
    finish(main);
    ok(aclmdlRIDestroy(model));

    // A record that was submitted before counts, for one execution.
    let (external, model) = waiting();
    let gate = block(outside);
    ok(aclrtRecordEvent(external, outside));
    ok(aclmdlRIExecuteAsync(model, main));
    ok(aclrtDestroyEvent(external));
    blocked::settle();
    assert_eq!(stream_status(main), STREAM_NOT_READY);
    gate.unblock();
    finish(main);
    ok(aclmdlRIExecuteAsync(model, main));
    expect("used up", aclrtSynchronizeStream(main), RT_PARAM_INVALID);
    ok(aclmdlRIDestroy(model));
}

// proves: G25
#[test]
fn flag_1_is_for_some_events_on_captured_streams() {
    own_context();
    let (main, (plain, external, progress)) = (stream(), (event(), flagged(SYNC), ex(SYNC | 8)));
    let (good, recorded, inside) = (ex(SYNC), ex(SYNC), ex(SYNC));
    expect("not captured", aclrtRecordEventWithFlag(good, main, 1), STREAM_NOT_CAPTURED);
    expect("not captured", aclrtStreamWaitEventWithFlag(main, good, 0, 1), STREAM_NOT_CAPTURED);
    ok(aclrtRecordEvent(recorded, main));
    let model = capture(main, || {
        for (what, event) in [("plain", plain), ("WithFlag", external), ("more bits", progress)] {
            expect(what, aclrtRecordEventWithFlag(event, main, 1), RT_PARAM_INVALID);
            expect(what, aclrtStreamWaitEventWithFlag(main, event, 0, 1), RT_PARAM_INVALID);
        }
        expect("timeout", aclrtStreamWaitEventWithFlag(main, good, 1, 1), RT_PARAM_INVALID);
        expect("flag", aclrtRecordEventWithFlag(good, main, 2), RT_PARAM_INVALID);
        expect("flag", aclrtStreamWaitEventWithFlag(main, good, 0, 2), RT_PARAM_INVALID);
        expect("recorded before", aclrtRecordEventWithFlag(recorded, main, 1), RT_PARAM_INVALID);
        ok(aclrtRecordEvent(inside, main));
        let words = [&*format!("{inside:#x}"), "in a capture"];
        refused("recorded inside", aclrtRecordEventWithFlag(inside, main, 1), RT_PARAM_INVALID, &words);
        let code = aclrtStreamWaitEventWithFlag(main, inside, 0, 1);
        refused("recorded inside", code, RT_PARAM_INVALID, &words);
        ok(aclrtRecordEventWithFlag(good, main, 1));
        refused("both", aclrtStreamWaitEventWithFlag(main, good, 0, 1), RT_PARAM_INVALID, &["one capture"]);
        assert_eq!(status(main), ACTIVE);
    });
    ok(aclmdlRIDestroy(model));
    // With flag 0 they are the functions without it.
    let other = stream();
    ok(aclrtRecordEventWithFlag(plain, main, 0));
    ok(aclrtStreamWaitEventWithFlag(other, plain, 0, 0));
    finish(other);
    // The events may be destroyed: the model keeps what it needs.
    let (told, asked) = (ex(SYNC), ex(SYNC));
    let model = capture(main, || {
        ok(aclrtStreamWaitEventWithFlag(main, asked, 0, 1));
        ok(aclrtRecordEventWithFlag(told, main, 1));
    });
    [told, asked].into_iter().for_each(|event| ok(aclrtDestroyEvent(event)));
    run(model, main);
    ok(aclmdlRIDestroy(model));
}

// proves: G25
#[test]
fn an_event_with_flag_1_has_one_use_in_each_of_several_captures() {
    own_context();
    let (first, second, event) = (stream(), stream(), ex(SYNC));
    ok(aclmdlRICaptureBegin(first, RELAXED));
    ok(aclmdlRICaptureBegin(second, RELAXED));
    ok(aclrtRecordEventWithFlag(event, first, 1));
    ok(aclrtStreamWaitEventWithFlag(second, event, 0, 1));
    let both = aclrtStreamWaitEventWithFlag(first, event, 0, 1);
    refused("recorded there", both, RT_PARAM_INVALID, &["one capture"]);
    refused("awaited there", aclrtRecordEventWithFlag(event, second, 1), RT_PARAM_INVALID, &["one capture"]);
    ok(aclrtRecordEventWithFlag(event, first, 1));
    [first, second].into_iter().for_each(|stream| ok(aclmdlRIDestroy(end(stream))));
}

// proves: G26
#[test]
fn the_flag_named_after_capture_has_nothing_to_do_with_graphs() {
    own_context();
    let (main, side) = (stream(), stream());
    let progress = flagged(CAPTURE_STREAM_PROGRESS);
    ok(aclrtRecordEvent(progress, main));
    ok(aclrtSynchronizeEvent(progress));
    assert_eq!(info(main), (NONE, 0), "captures nothing");
    let both = flagged(CAPTURE_STREAM_PROGRESS | SYNC);
    let model = capture(main, || {
        fork(both, main, side);
        fork(both, side, main);
    });
    run(model, main);
    ok(aclmdlRIDestroy(model));
    expect("as outside: without SYNC", aclrtStreamWaitEvent(side, progress), RT_PARAM_INVALID);
}
