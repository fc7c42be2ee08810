//! What cannot be done to captured streams, captured events and the default stream, and what comes of it.

use super::*;
use ferry_tests::code::*;

/// A call, by name.
type Call = (&'static str, fn(usize, usize) -> i32);

/// Waits and queries of a stream.
const OF_STREAMS: [Call; 3] = [
    ("synchronise", |stream, _| aclrtSynchronizeStream(stream)),
    ("synchronise within", |stream, _| aclrtSynchronizeStreamWithTimeout(stream, 10)),
    ("query", |stream, _| aclrtStreamQuery(stream, &mut 0)),
];

/// Waits and queries of an event.
const OF_EVENTS: [Call; 7] = [
    ("synchronise", |_, event| aclrtSynchronizeEvent(event)),
    ("synchronise within", |_, event| aclrtSynchronizeEventWithTimeout(event, 10)),
    ("status", |_, event| aclrtQueryEventStatus(event, &mut 0)),
    ("query", |_, event| aclrtQueryEvent(event, &mut 0)),
    ("waits", |_, event| aclrtQueryEventWaitStatus(event, &mut 0)),
    ("elapsed", |_, event| aclrtEventElapsedTime(&mut 0.0, event, event)),
    ("timestamp", |_, event| aclrtEventGetTimestamp(event, &mut 0)),
];

// proves: G17 G19
#[test]
fn captured_streams_and_events_are_neither_waited_for_nor_queried_in_any_mode_by_any_thread() {
    own_context();
    let (main, side) = (stream(), stream());
    let recorded = event();
    let streams = OF_STREAMS.iter().map(|call| (call, STREAM_CAPTURED));
    let events = OF_EVENTS.iter().map(|call| (call, EVENT_CAPTURED));
    for ((what, call), code) in streams.chain(events) {
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            for asked in [main, side] {
                for own in [true, false] {
                    ok(aclmdlRICaptureBegin(main, mode));
                    fork(recorded, main, side);
                    let make = move || {
                        exchange(RELAXED);
                        let got = call(asked, recorded);
                        exchange(GLOBAL);
                        expect(what, got, code);
                    };
                    if own {
                        make()
                    } else {
                        elsewhere(make)
                    }
                    assert_eq!(status(main), INVALIDATED, "{what}");
                    end_without_model(what, main, CAPTURE_INVALIDATED);
                    ok(aclrtStreamQuery(asked, &mut 0));
                }
            }
        }
    }
}

// proves: G17
#[test]
fn a_device_with_a_capture_is_not_waited_for() {
    // The one test that captures on device 1 and does not run in a child.
    context_of(1);
    let (first, second, outside) = (stream(), stream(), stream());
    for call in [|| aclrtSynchronizeDevice(), || aclrtSynchronizeDeviceWithTimeout(10)] as [fn() -> i32; 2] {
        for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
            ok(aclmdlRICaptureBegin(first, mode));
            ok(aclmdlRICaptureBegin(second, RELAXED));
            finish(outside);
            in_new_thread(move || {
                context_of(1);
                refused("device", call(), STREAM_CAPTURED, &["device 1", "aclmdlRICaptureEnd"]);
            });
            end_without_model("first", first, CAPTURE_INVALIDATED);
            end_without_model("second", second, CAPTURE_INVALIDATED);
            ok(aclrtSynchronizeDevice());
        }
    }
}

// proves: G18 G19
#[test]
fn the_default_stream_of_a_capturing_context_takes_no_work_from_any_thread() {
    let context = own_context();
    let (main, (one, two, _)) = (stream(), buffers(64));
    let (recorded, never) = (event(), event());
    ok(aclrtRecordEvent(recorded, main));
    finish(main);
    let mut notify = 0;
    ok(aclrtCreateNotify(&mut notify, 0));
    let empty = capture(main, || {});
    unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}
    type Submission = (&'static str, Box<dyn Fn() -> i32 + Send + Sync>);
    let calls: Vec<Submission> = vec![
        ("copy", Box::new(move || try_copy(&one, &two, 0))),
        ("fill", Box::new(move || aclrtMemsetAsync(one.addr, 64, 1, 64, 0))),
        ("no bytes", Box::new(move || aclrtMemsetAsync(one.addr, 64, 1, 0, 0))),
        ("record", Box::new(move || aclrtRecordEvent(recorded, 0))),
        ("reset", Box::new(move || aclrtResetEvent(recorded, 0))),
        ("wait", Box::new(move || aclrtStreamWaitEvent(0, recorded))),
        ("wait for one never recorded", Box::new(move || aclrtStreamWaitEvent(0, never))),
        ("host function", Box::new(move || aclrtLaunchHostFunc(0, Some(nothing), 0))),
        ("value", Box::new(move || aclrtValueWrite(one.addr, 1, 0, 0))),
        ("wait for a value", Box::new(move || aclrtValueWait(one.addr, 1, 1, 0))),
        ("notify", Box::new(move || aclrtRecordNotify(notify, 0))),
        ("wait for a notify", Box::new(move || aclrtWaitAndResetNotify(notify, 0, 0))),
        ("execution", Box::new(move || aclmdlRIExecuteAsync(empty, 0))),
        ("reduction", Box::new(move || aclrtReduceAsync(one.addr, two.addr, 64, 10, 0, 0, 0))),
        ("prefetch", Box::new(move || aclrtCmoAsync(one.addr, 64, 0, 0))),
    ];
    for (what, call) in calls {
        let call = std::sync::Arc::new(call);
        for own in [true, false] {
            ok(aclmdlRICaptureBegin(main, RELAXED));
            let call = call.clone();
            let make = move || {
                exchange(RELAXED);
                let got = call();
                exchange(GLOBAL);
                refused(what, got, CAPTURE_IMPLICIT, &["default stream", "RELAXED"]);
                // It can still be waited for: what it had to do before has run.
                finish(0);
            };
            if own {
                make()
            } else {
                elsewhere(make)
            }
            assert_eq!(status(main), INVALIDATED, "{what}");
            end_without_model(what, main, CAPTURE_INVALIDATED);
            copy(&one, &two, 0);
            finish(0);
        }
    }
    // Default streams of other contexts work.
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    own_context();
    copy(&one, &two, 0);
    finish(0);
    ok(aclrtSetCurrentContext(context));
    ok(aclmdlRIDestroy(end(main)));
}

// proves: G19
#[test]
fn an_invalidated_capture_refuses_what_is_captured_and_everything_else_as_before() {
    own_context();
    let (main, side, late, outside) = (stream(), stream(), stream(), stream());
    let (one, two, _) = buffers(64);
    let (heap, forked, eager) = (Memory::heap(64), event(), event());
    ok(aclrtRecordEvent(eager, outside));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    fork(forked, main, side);
    expect("first", aclrtMemset(one.addr, 64, 1, 64), CAPTURE_MODE_NOT_SUPPORT);
    unsafe extern "C" fn nothing(_: *mut std::ffi::c_void) {}
    let mut handle = 0;
    for stream in [main, side] {
        for (what, code) in [
            ("copy", try_copy(&one, &two, stream)),
            ("fill", aclrtMemsetAsync(one.addr, 64, 1, 64, stream)),
            ("record", aclrtRecordEvent(forked, stream)),
            ("wait", aclrtStreamWaitEvent(stream, forked)),
            ("wait for one of outside", aclrtStreamWaitEvent(stream, eager)),
            ("function", aclrtLaunchHostFunc(stream, Some(nothing), 0)),
            ("value", aclrtValueWrite(one.addr, 1, 0, stream)),
            ("group", aclmdlRICaptureTaskGrpBegin(stream)),
            ("group's end", aclmdlRICaptureTaskGrpEnd(stream, &mut handle)),
        ] {
            assert_eq!(code, CAPTURE_INVALIDATED, "{what}");
        }
    }
    drop(message());
    let words = ["aclmdlRICaptureEnd", "a synchronous copy or fill"];
    refused("to be drawn in", aclrtStreamWaitEvent(late, forked), CAPTURE_INVALIDATED, &words);
    assert_eq!(info(late), (NONE, 0), "it was not");
    for (what, code, want) in [
        ("G15", aclrtMemset(one.addr, 64, 1, 64), CAPTURE_MODE_NOT_SUPPORT),
        ("G15 asynchronous", try_copy(&one, &heap, outside), CAPTURE_BLOCK_ASYNC),
        ("A.3", try_copy(&one, &heap, main), CAPTURE_BLOCK_ASYNC),
        ("G17 stream", aclrtSynchronizeStream(side), STREAM_CAPTURED),
        ("G17 event", aclrtSynchronizeEvent(forked), EVENT_CAPTURED),
        ("G23", aclrtRecordEvent(forked, outside), EVENT_CAPTURED),
        ("G18", try_copy(&one, &two, 0), CAPTURE_IMPLICIT),
        ("default drawn in", aclrtStreamWaitEvent(0, forked), CAPTURE_IMPLICIT),
        ("a bad argument", aclrtMemsetAsync(one.addr, 32, 1, 64, main), RT_PARAM_INVALID),
    ] {
        expect(what, code, want);
    }
    copy(&one, &two, outside);
    finish(outside);
    end_without_model("End", main, CAPTURE_INVALIDATED);
    one.assert_all(2, "the copy outside");
    for stream in [main, side, late, 0] {
        fork(forked, stream, outside);
        copy(&two, &one, stream);
        finish(stream);
    }
    finish(outside);
    ok(aclrtSynchronizeEvent(forked));
    let model = capture(main, || {
        fork(forked, main, side);
        copy(&one, &two, side);
        fork(forked, side, main);
    });
    run(model, outside);
    ok(aclmdlRIDestroy(model));
}

// proves: G19 G12
#[test]
fn bad_arguments_and_refusals_that_say_so_leave_the_capture_alone() {
    own_context();
    let (main, other, (one, two, _)) = (stream(), stream(), buffers(64));
    let mut handle = 0;
    let model = capture(main, || {
        let before = info(main);
        for (what, code, want) in [
            ("room", aclrtMemcpyAsync(one.addr, 32, two.addr, 64, kind::D2D, main), RT_PARAM_INVALID),
            ("NULL", aclrtMemcpyAsync(0, 64, two.addr, 64, kind::D2D, main), INVALID_PARAM),
            ("kind", aclrtMemcpyAsync(one.addr, 64, two.addr, 64, 77, main), INVALID_PARAM),
            ("end of memory", aclrtMemsetAsync(one.addr, 1 << 40, 0, 1 << 40, main), RT_PARAM_INVALID),
            ("pitch", aclrtMemcpy2dAsync(one.addr, 4, two.addr, 8, 8, 8, kind::D2H, main), RT_PARAM_INVALID),
            ("value", aclrtValueWrite(one.addr + 1, 1, 0, main), ADDR_UNALIGNED),
            ("event", aclrtRecordEvent(0x1234, main), INVALID_HANDLE),
            ("G2", aclmdlRICaptureBegin(main, GLOBAL), STREAM_CAPTURED),
            ("G3", aclmdlRICaptureEnd(other, &mut handle), CAPTURE_UNMATCHED),
            ("G31", aclmdlRIExecuteAsync(before.1, other), MODEL_CAPTURED),
            ("G32", aclmdlRIDestroy(before.1), MODEL_CAPTURED),
            ("G36", aclmdlRICaptureTaskGrpEnd(main, &mut handle), TASK_GROUP_STATUS),
        ] {
            expect(what, code, want);
            assert_eq!(info(main), before, "{what}");
        }
        copy(&one, &two, main);
    });
    run(model, main);
    one.assert_all(2, "what was not refused was captured, and nothing else");
    ok(aclmdlRIDestroy(model));
}

// proves: G18
#[test]
fn the_default_stream_waits_for_no_event_of_other_processes_during_a_capture() {
    own_context();
    let (main, mut shared) = (stream(), 0);
    ok(aclrtCreateEventExWithFlag(&mut shared, 0x40));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    expect("never recorded", aclrtStreamWaitEvent(0, shared), CAPTURE_IMPLICIT);
    end_without_model("broken", main, CAPTURE_INVALIDATED);
    ok(aclrtStreamWaitEvent(0, shared));
    ok(aclrtDestroyEvent(shared));
}

// proves: G19
#[test]
fn bad_arguments_of_synchronous_calls_do_not_break_a_capture() {
    own_context();
    let (main, (one, two, pinned)) = (stream(), buffers(64));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    let (dst, src) = (one.addr, two.addr);
    for (what, code) in [
        ("too long", aclrtMemcpy(dst, 8, src, 16, kind::DEFAULT)),
        ("kind", aclrtMemcpy2d(dst, 8, pinned.addr, 8, 8, 8, 99)),
        ("no room", aclrtMemset(dst, 8, 1, 16)),
        ("no room", aclrtMemsetD32(dst, 8, 1, 16)),
    ] {
        assert_ne!(code, CAPTURE_MODE_NOT_SUPPORT, "{what}");
        assert_ne!(code, 0, "{what}");
        assert_eq!(status(main), ACTIVE, "{what}");
    }
    drop(message());
    for (what, call) in [
        ("copy", (|dst, src| aclrtMemcpy(dst, 16, src, 16, kind::DEFAULT)) as fn(usize, usize) -> i32),
        ("no bytes", |dst, src| aclrtMemcpy(dst, 16, src, 0, kind::DEFAULT)),
        ("fill", |dst, _| aclrtMemset(dst, 16, 1, 16)),
        ("words", |dst, _| aclrtMemsetD32(dst, 16, 1, 4)),
    ] {
        expect(what, call(dst, src), CAPTURE_MODE_NOT_SUPPORT);
        expect(what, call(pinned.addr, src), CAPTURE_MODE_NOT_SUPPORT);
        assert_eq!(status(main), INVALIDATED, "{what}");
        end_without_model(what, main, CAPTURE_INVALIDATED);
        ok(aclmdlRICaptureBegin(main, GLOBAL));
    }
    ok(aclmdlRIDestroy(end(main)));
}

#[test]
fn a_captured_stream_is_neither_shared_with_other_libraries_nor_activated() {
    own_context();
    let (main, side) = (stream(), stream());
    let mut native = 0;
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    fork(event(), main, side);
    for stream in [main, side] {
        refused("native", ferryStreamNative(stream, &mut native), STREAM_CAPTURED, &["captured"]);
    }
    refused("activate", aclrtActiveStream(side, main), RT_PARAM_INVALID, &["built"]);
    expect("activate", aclrtActiveStream(main, main), RT_PARAM_INVALID);
    fork(event(), side, main);
    ok(aclmdlRIDestroy(end(main)));
}
