//! Which thread may make unsafe calls while a capture goes on, and what comes of those that it may not.

use super::*;
use ferry_tests::code::*;
use std::ptr::null_mut;

const MODES: [i32; 3] = [GLOBAL, THREAD_LOCAL, RELAXED];

/// Whether a thread of each mode may make unsafe calls: capture mode, own thread, thread modes in order.
const TABLE: [(i32, bool, [bool; 3]); 6] = [
    (GLOBAL, true, [false, false, true]),
    (THREAD_LOCAL, true, [false, false, true]),
    (GLOBAL, false, [false, true, true]),
    (THREAD_LOCAL, false, [true, true, true]),
    (RELAXED, true, [true, true, true]),
    (RELAXED, false, [true, true, true]),
];

/// An unsafe call: its name, the code of its refusal, and the call.
type UnsafeCall = (&'static str, i32, Box<dyn Fn() -> i32 + Send>);

/// The unsafe calls, each on memory of its own.
fn unsafe_calls(outside: usize) -> Vec<UnsafeCall> {
    let (device, other) = (Memory::device(64), Memory::device(64));
    let (heap, pinned) = (Memory::heap(64), Memory::pinned(64));
    heap.fill(5);
    let (sync, pageable) = (CAPTURE_MODE_NOT_SUPPORT, CAPTURE_BLOCK_ASYNC);
    let (d, o, h, p) = (device.addr, other.addr, heap.addr, pinned.addr);
    let batch = move |src: usize, form| Batch::of(&[(d, src, 64)], HOST_TO_DEVICE).call(form, outside).0;
    vec![
        ("aclrtMemcpy", sync, Box::new(move || aclrtMemcpy(d, 64, h, 64, kind::H2D))),
        ("aclrtMemcpy inside", sync, Box::new(move || aclrtMemcpy(d, 64, o, 64, kind::D2D))),
        ("aclrtMemcpy2d", sync, Box::new(move || aclrtMemcpy2d(d, 8, p, 8, 8, 8, kind::H2D))),
        ("aclrtMemset", sync, Box::new(move || aclrtMemset(d, 64, 5, 64))),
        ("aclrtMemcpyBatch", sync, Box::new(move || batch(p, BatchForm::Sync))),
        ("pageable H2D", pageable, Box::new(move || aclrtMemcpyAsync(d, 64, h, 64, kind::H2D, outside))),
        ("pageable D2H", pageable, Box::new(move || aclrtMemcpyAsync(h, 64, d, 64, kind::D2H, outside))),
        (
            "pageable 2-D",
            pageable,
            Box::new(move || aclrtMemcpy2dAsync(d, 8, h, 8, 8, 8, kind::H2D, outside)),
        ),
        ("pageable batch", pageable, Box::new(move || batch(h, BatchForm::Async))),
        ("pageable fill", pageable, Box::new(move || aclrtMemsetAsync(h, 64, 5, 64, outside))),
    ]
}

// proves: G15 X8
#[test]
/// The unsafe calls, each on memory of its own.
fn unsafe_calls_are_refused_where_the_table_says_so() {
    own_context();
    let (stream, outside) = (stream(), stream());
    for (mode, own, allowed) in TABLE {
        for (thread_mode, allowed) in MODES.into_iter().zip(allowed) {
            for (what, code, call) in unsafe_calls(outside) {
                let what = format!("{what}, capture {mode}, own thread {own}, thread {thread_mode}");
                ok(aclmdlRICaptureBegin(stream, mode));
                let make = move || {
                    let before = exchange(thread_mode);
                    let code = call();
                    let said = message().unwrap_or_default();
                    assert_eq!(exchange(before), thread_mode);
                    (code, said)
                };
                let (got, said) = if own { make() } else { elsewhere(make) };
                assert_eq!(got, if allowed { SUCCESS } else { code }, "{what}: {said}");
                // Documented: an unsafe call that is refused fails the capture.
                assert_eq!(status(stream), if allowed { ACTIVE } else { INVALIDATED }, "{what}");
                match allowed {
                    true => ok(aclmdlRIDestroy(end(stream))),
                    false => end_without_model(&what, stream, CAPTURE_INVALIDATED),
                }
            }
        }
    }
}

// proves: G15
#[test]
fn page_locked_memory_and_calls_that_move_nothing_are_safe_in_every_mode() {
    own_context();
    let (stream, outside, (one, _, pinned)) = (stream(), stream(), buffers(64));
    for mode in MODES {
        ok(aclmdlRICaptureBegin(stream, mode));
        copy(&one, &pinned, outside);
        ok(aclrtMemsetAsync(one.addr, 64, 6, 64, outside));
        finish(outside);
        assert_eq!(stream_status(outside), STREAM_COMPLETE);
        let recorded = event();
        ok(aclrtRecordEvent(recorded, outside));
        ok(aclrtSynchronizeEvent(recorded));
        assert_eq!(status(stream), ACTIVE, "mode {mode}");
        ok(aclmdlRIDestroy(end(stream)));
        one.assert_all(6, "ran at once");
    }
}

// proves: G15
#[test]
fn of_several_captures_the_strictest_answer_counts_and_is_about_its_context_only() {
    let mine = own_context();
    let (relaxed, strict, one) = (stream(), stream(), Memory::device(64));
    ok(aclmdlRICaptureBegin(relaxed, RELAXED));
    ok(aclrtMemset(one.addr, 64, 1, 64));
    ok(aclmdlRICaptureBegin(strict, THREAD_LOCAL));
    // Another thread began neither: THREAD_LOCAL does not mean it.
    elsewhere(move || ok(aclrtMemset(one.addr, 64, 2, 64)));
    // The thread of another capture is "another thread" for this one.
    elsewhere(move || {
        let own = stream();
        ok(aclmdlRICaptureBegin(own, RELAXED));
        ok(aclrtMemset(one.addr, 64, 3, 64));
        ok(aclmdlRIDestroy(end(own)));
    });
    // Another context is not concerned.
    own_context();
    ok(aclrtMemset(one.addr, 64, 4, 64));
    ok(aclrtSetCurrentContext(mine));
    expect("strictest", aclrtMemset(one.addr, 64, 5, 64), CAPTURE_MODE_NOT_SUPPORT);
    assert_eq!((status(relaxed), status(strict)), (ACTIVE, INVALIDATED), "refused for one of them only");
    end_without_model("strict", strict, CAPTURE_INVALIDATED);
    ok(aclrtMemset(one.addr, 64, 6, 64));
    ok(aclmdlRIDestroy(end(relaxed)));
    one.assert_all(6, "the last that was allowed");
}

// proves: G15
#[test]
fn a_call_that_two_captures_refuse_invalidates_both() {
    own_context();
    let (first, second, one) = (stream(), stream(), Memory::device(64));
    ok(aclmdlRICaptureBegin(first, GLOBAL));
    ok(aclmdlRICaptureBegin(second, GLOBAL));
    expect("both", aclrtMemset(one.addr, 64, 5, 64), CAPTURE_MODE_NOT_SUPPORT);
    for stream in [first, second] {
        end_without_model("both", stream, CAPTURE_INVALIDATED);
    }
}

// proves: G16
#[test]
fn the_mode_of_a_thread_is_exchanged_at_any_time_and_is_its_own() {
    in_new_thread(|| {
        own_context();
        assert_eq!(exchange(THREAD_LOCAL), GLOBAL, "a new thread is GLOBAL; outside of a capture too");
        assert_eq!(exchange(RELAXED), THREAD_LOCAL);
        in_new_thread(|| assert_eq!(exchange(GLOBAL), GLOBAL, "another thread has its own"));
        for bad in [-1, 3] {
            let mut mode = bad;
            let code = aclmdlRICaptureThreadExchangeMode(&mut mode);
            refused("mode", code, RT_PARAM_INVALID, &[&bad.to_string()]);
            assert_eq!(mode, bad, "left alone");
        }
        expect("NULL", aclmdlRICaptureThreadExchangeMode(null_mut()), RT_PARAM_INVALID);
        let (stream, one) = (stream(), Memory::device(64));
        ok(aclmdlRICaptureBegin(stream, GLOBAL));
        ok(aclrtMemset(one.addr, 64, 1, 64));
        ok(aclmdlRIDestroy(end(stream)));
        assert_eq!(exchange(GLOBAL), RELAXED, "it lasts until it is exchanged back");
    });
}
