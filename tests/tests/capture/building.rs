//! Models that are built stream by stream.

use super::*;
use ferry_tests::code::*;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const HEAD: u32 = 0;
const DEFAULT: u32 = 0x7fff_ffff;
const PERSISTENT: u32 = 4;

/// A stream that can be bound.
#[track_caller]
fn persistent() -> usize {
    let mut stream = 0;
    ok(aclrtCreateStreamWithConfig(&mut stream, 0, PERSISTENT));
    stream
}

/// Waits for a stream that a synchronise does not wait for.
#[track_caller]
fn reach(stream: usize) {
    let reached = event();
    ok(aclrtRecordEvent(reached, stream));
    ok(aclrtSynchronizeEvent(reached));
}

/// A model that is being built.
#[track_caller]
fn begun() -> usize {
    let mut model = 0;
    ok(aclmdlRIBuildBegin(&mut model, 0));
    model
}

#[test]
fn heads_begin_with_the_model_and_others_when_they_are_activated() {
    own_context();
    let (head, second, late, never) = (persistent(), persistent(), persistent(), persistent());
    let launcher = stream();
    let cells: Vec<_> = (0..4).map(|_| Memory::device(64)).collect();
    let source = Memory::pinned(64);
    let model = begun();
    for (stream, flag) in [(head, HEAD), (second, HEAD), (late, DEFAULT), (never, DEFAULT)] {
        ok(aclmdlRIBindStream(model, stream, flag));
    }
    // The late one is filled before the task that activates it.
    copy(&cells[2], &cells[0], late);
    copy(&cells[0], &source, head);
    ok(aclrtActiveStream(late, head));
    copy(&cells[1], &source, second);
    ok(aclrtMemsetAsync(cells[3].addr, 64, 99, 64, never));
    for stream in [head, second, late, never] {
        ok(aclmdlRIEndTask(model, stream));
    }
    ok(aclmdlRIBuildEnd(model, 0));
    cells.iter().for_each(|cell| cell.fill(0));
    for byte in [1, 2, 3] {
        source.fill(byte);
        match byte {
            2 => ok(aclmdlRIExecute(model, -1)),
            _ => run(model, launcher),
        }
        for cell in &cells[..3] {
            cell.assert_all(byte, "heads, and behind them the one that was activated");
        }
        cells[3].assert_all(0, "what nothing activates does not run");
    }
    // After the end bound streams take no tasks.
    refused("complete", try_copy(&cells[0], &cells[1], head), RT_PARAM_INVALID, &["complete"]);
    expect("complete", aclrtRecordEvent(event(), late), RT_PARAM_INVALID);
    expect("executed on a bound one", aclmdlRIExecuteAsync(model, head), STREAM_CAPTURED);
    for stream in [head, second, late, never] {
        ok(aclmdlRIUnbindStream(model, stream));
        copy(&cells[0], &cells[1], stream);
        reach(stream);
    }
    run(model, launcher);
    ok(aclmdlRIDestroy(model));
}

#[test]
fn what_cannot_be_built_is_refused() {
    own_context();
    let (head, other, plain) = (persistent(), persistent(), stream());
    let mut model = 0;
    expect("flag", aclmdlRIBuildBegin(&mut model, 1), RT_PARAM_INVALID);
    let (model, second) = (begun(), begun());
    refused("no streams", aclmdlRIBuildEnd(model, 0), RT_PARAM_INVALID, &["no streams"]);
    refused("plain stream", aclmdlRIBindStream(model, plain, HEAD), RT_PARAM_INVALID, &["PERSISTENT"]);
    expect("default stream", aclmdlRIBindStream(model, 0, HEAD), RT_PARAM_INVALID);
    refused("flag", aclmdlRIBindStream(model, head, 5), RT_PARAM_INVALID, &["0x5"]);
    ok(aclmdlRIBindStream(model, head, HEAD));
    assert_ne!(aclmdlRIBindStream(model, head, HEAD), 0, "bound already");
    assert_ne!(aclmdlRIBindStream(second, head, HEAD), 0, "one model for each stream");
    drop(message());
    expect("not bound", aclmdlRIEndTask(model, other), RT_PARAM_INVALID);
    expect("not bound", aclmdlRIUnbindStream(model, other), RT_PARAM_INVALID);
    expect("not bound", aclrtActiveStream(other, head), RT_PARAM_INVALID);
    ok(aclmdlRIBindStream(second, other, HEAD));
    expect("two models", aclrtActiveStream(other, head), CAPTURE_CONFLICT);
    refused("no EndTask", aclmdlRIBuildEnd(model, 0), RT_PARAM_INVALID, &["aclmdlRIEndTask"]);
    expect("reserve", aclmdlRIBuildEnd(model, 1), RT_PARAM_INVALID);
    expect("still built", aclmdlRIExecute(model, -1), MODEL_CAPTURED);
    expect("not a capture", aclmdlRICaptureEnd(head, &mut 0), CAPTURE_UNMATCHED);
    assert_eq!(info(head), (NONE, 0), "not a capture");
    expect("captured beside it", aclmdlRICaptureBegin(head, GLOBAL), STREAM_CAPTURED);
    expect("destroyed", aclrtDestroyStream(head), STREAM_CAPTURED);
    ok(aclmdlRIEndTask(model, head));
    ok(aclmdlRIBuildEnd(model, 0));
    expect("again", aclmdlRIBuildEnd(model, 0), RT_PARAM_INVALID);
    ok(aclmdlRIUnbindStream(model, head));
    expect("again", aclmdlRIUnbindStream(model, head), RT_PARAM_INVALID);
    ok(aclrtDestroyStream(head));
    ok(aclmdlRIExecute(model, -1));
    ok(aclmdlRIDestroy(model));
}

#[test]
fn building_forbids_nothing_to_others_and_a_destroyed_model_frees_its_streams() {
    own_context();
    let (head, memory) = (persistent(), Memory::device(64));
    for _ in 0..3 {
        let model = begun();
        ok(aclmdlRIBindStream(model, head, HEAD));
        ok(aclrtMemset(memory.addr, 64, 1, 64));
        ok(aclrtMemsetAsync(memory.addr, 64, 2, 64, 0));
        finish(0);
        ok(aclrtMemsetAsync(memory.addr, 64, 3, 64, head));
        ok(aclmdlRIEndTask(model, head));
        ok(aclmdlRIBuildEnd(model, 0));
        ok(aclmdlRIExecute(model, 60_000));
        memory.assert_all(3, "it runs");
        ok(aclmdlRIDestroy(model));
        ok(aclrtMemsetAsync(memory.addr, 64, 4, 64, head));
        reach(head);
        memory.assert_all(4, "the stream is as before");
    }
}

/// Counts how often it runs.
unsafe extern "C" fn count(data: *mut std::ffi::c_void) {
    // SAFETY: a leaked counter.
    unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
}

/// A counter for [`count`], and its address.
fn counter() -> (&'static AtomicU32, usize) {
    let calls: &'static AtomicU32 = Box::leak(Box::default());
    (calls, calls as *const AtomicU32 as usize)
}

// proves: G19
#[test]
fn what_a_model_that_is_built_refuses_does_not_break_it() {
    own_context();
    let (head, device, pinned) = (persistent(), Memory::device(64), Memory::pinned(64));
    let pageable = Memory::new(Home::Mapped, 64);
    pinned.fill(9);
    let model = begun();
    ok(aclmdlRIBindStream(model, head, HEAD));
    let code = try_copy(&device, &pageable, head);
    let text = message().unwrap_or_default();
    assert_eq!(code, CAPTURE_BLOCK_ASYNC, "{text}");
    assert!(text.contains("aclmdlRIBuildBegin") && !text.contains("capture"), "{text}");
    let recorded = event();
    ok(aclrtRecordEvent(recorded, head));
    let code = aclrtQueryEventStatus(recorded, &mut 0);
    refused("recorded in a model", code, EVENT_CAPTURED, &["in a model", "aclmdlRIBuildEnd"]);
    copy(&device, &pinned, head);
    ok(aclmdlRIEndTask(model, head));
    ok(aclmdlRIBuildEnd(model, 0));
    ok(aclmdlRIExecute(model, -1));
    device.assert_all(9, "the model has its task");
    ok(aclmdlRIDestroy(model));
    ok(pageable.free());
}

// proves: G32
#[test]
fn a_model_whose_building_is_given_up_is_destroyed() {
    own_context();
    let (calls, at) = counter();
    let (head, device) = (persistent(), Memory::device(64));
    for is_bound in [false, true] {
        let model = begun();
        ok(aclmdlRIDestroyRegisterCallback(model, Some(count), at));
        if is_bound {
            ok(aclmdlRIBindStream(model, head, HEAD));
            ok(aclrtMemsetAsync(device.addr, 64, 1, 64, head));
        }
        ok(aclmdlRIDestroy(model));
        expect("destroyed", aclmdlRIBuildEnd(model, 0), RT_PARAM_INVALID);
        expect("destroyed", aclmdlRIDestroy(model), RT_PARAM_INVALID);
    }
    assert_eq!(calls.load(SeqCst), 2, "each once");
    ok(aclrtMemsetAsync(device.addr, 64, 2, 64, head));
    reach(head);
    device.assert_all(2, "the stream is as before");
    ok(aclrtDestroyStream(head));
}

// proves: G11 G32
#[test]
fn models_end_with_their_context() {
    let (calls, at) = counter();
    let context = own_context();
    let (main, head) = (stream(), persistent());
    let (captured, built, building) = (capture(main, || {}), begun(), begun());
    ok(aclmdlRIBindStream(built, head, HEAD));
    ok(aclmdlRIEndTask(built, head));
    ok(aclmdlRIBuildEnd(built, 0));
    ok(aclmdlRIExecute(captured, -1));
    for model in [captured, built, building] {
        ok(aclmdlRIDestroyRegisterCallback(model, Some(count), at));
    }
    ok(aclrtDestroyContext(context));
    assert_eq!(calls.load(SeqCst), 3, "callbacks run, each once");
    for model in [captured, built, building] {
        refused("ended", aclmdlRIDestroy(model), RT_PARAM_INVALID, &["context"]);
    }
}

/// A model of streams bound with these flags, and the streams.
fn bound_model<const N: usize>(flags: [u32; N]) -> (usize, [usize; N]) {
    let model = begun();
    let streams = flags.map(|flag| {
        let stream = persistent();
        ok(aclmdlRIBindStream(model, stream, flag));
        stream
    });
    (model, streams)
}

// Decided: what would leave tasks of a model out in silence is refused.
#[test]
fn streams_that_could_never_begin_or_end_are_refused() {
    own_context();
    let (calls, at) = counter();
    let (model, [head, late, other]) = bound_model([HEAD, DEFAULT, DEFAULT]);
    ok(aclrtLaunchHostFunc(head, Some(count), at));
    ok(aclrtLaunchHostFunc(late, Some(count), at));
    let name = format!("{head:#x}");
    refused("a head by itself", aclrtActiveStream(head, head), RT_PARAM_INVALID, &[&name, "head"]);
    refused("a head", aclrtActiveStream(head, late), RT_PARAM_INVALID, &[&name, "begins with the model"]);
    let name = format!("{late:#x}");
    refused("itself", aclrtActiveStream(late, late), RT_PARAM_INVALID, &[&name, "activate itself"]);
    ok(aclrtActiveStream(late, head));
    refused("twice", aclrtActiveStream(late, other), RT_PARAM_INVALID, &[&name, "already"]);
    // A wait for what is on a stream that nothing activates.
    let recorded = event();
    ok(aclrtRecordEvent(recorded, other));
    ok(aclrtStreamWaitEvent(late, recorded));
    ok(aclrtLaunchHostFunc(late, Some(count), at));
    [head, late, other].into_iter().for_each(|stream| ok(aclmdlRIEndTask(model, stream)));
    for _ in 0..2 {
        refused("stuck", aclmdlRIBuildEnd(model, 0), RT_PARAM_INVALID, &[&name, "aclrtActiveStream"]);
    }
    // Nothing of that has changed the model.
    ok(aclrtActiveStream(other, head));
    ok(aclmdlRIBuildEnd(model, 0));
    for execution in 1..4 {
        ok(aclmdlRIExecute(model, 60_000));
        assert_eq!(calls.load(SeqCst), 3 * execution, "all tasks run");
    }
    ok(aclmdlRIDestroy(model));

    let (model, [alone]) = bound_model([DEFAULT]);
    ok(aclmdlRIEndTask(model, alone));
    refused("no head", aclmdlRIBuildEnd(model, 0), RT_PARAM_INVALID, &["flag 0 (head)"]);
    ok(aclmdlRIDestroy(model));
}
