//! What public callers do, step by step: torch_npu's graphs, with both ways of external events.

use super::*;
use ferry_tests::code::*;

const CACHE_OP_INFO: i32 = 4;
const EXTERNAL: u32 = 0x20;
const LEN: usize = 4096;

/// Sets an attribute of a stream.
fn set_attribute(stream: usize, attribute: i32, value: u64) -> i32 {
    aclrtSetStreamAttribute(stream, attribute, &mut aclrtStreamAttrValue { failureMode: value })
}

#[track_caller]
fn attribute(stream: usize, attribute: i32) -> u64 {
    let mut value = aclrtStreamAttrValue { failureMode: 0 };
    ok(aclrtGetStreamAttribute(stream, attribute, &mut value));
    // SAFETY: every member is a number, and this one has all bits.
    unsafe { value.failureMode }
}

#[test]
fn the_steps_of_torch_npu() {
    own_context();
    let (pool, current) = (stream(), stream());
    let (input, output) = (Memory::pinned(LEN), Memory::pinned(LEN));
    let (one, two) = (Memory::device(LEN), Memory::device(LEN));
    finish(0);
    finish(current);
    assert!([SUCCESS, RT_PARAM_INVALID].contains(&set_attribute(pool, CACHE_OP_INFO, 1)));
    ok(aclmdlRICaptureBegin(pool, GLOBAL));
    let (state, early) = info(pool);
    assert_eq!(state, ACTIVE);
    let mut id = 0;
    ok(aclmdlRIGetId(early, &mut id));
    elsewhere(move || {
        // Its queue's thread submits, and its allocator asks on every action.
        copy(&one, &input, pool);
        assert_eq!(info(pool), (ACTIVE, early));
        let temporary = Memory::device(LEN);
        copy(&temporary, &one, pool);
        copy(&two, &temporary, pool);
        copy(&output, &two, pool);
    });
    assert!([SUCCESS, RT_PARAM_INVALID].contains(&set_attribute(pool, CACHE_OP_INFO, 0)));
    let model = end(pool);
    assert_eq!(model, early, "it asserts this");
    assert_eq!(status(pool), NONE, "and this");
    for byte in 0..100 {
        input.fill(byte);
        ok(aclmdlRIExecuteAsync(model, current));
        finish(current);
        output.assert_all(byte, "a replay");
    }
    ok(aclmdlRIDestroy(model));
}

#[test]
fn external_events_by_values_as_torch_npu_has_them() {
    own_context();
    let (main, other) = (stream(), stream());
    let (memory, mut cell) = (Memory::device(LEN), 0);
    ok(aclrtMallocAlign32(&mut cell, 32, 1));
    ok(aclmdlRICaptureBegin(main, GLOBAL));
    // The event is made during the capture: a synchronous fill between two exchanges of the mode.
    let before = exchange(RELAXED);
    ok(aclrtMemset(cell, 32, 0, 32));
    assert_eq!(exchange(before), RELAXED);
    assert_eq!(status(main), ACTIVE);
    ok(aclrtValueWait(cell, 1, 1, main));
    ok(aclrtValueWrite(cell, 0, 0, main));
    ok(aclrtMemsetAsync(memory.addr, LEN, 1, LEN, main));
    let model = end(main);
    for _ in 0..10 {
        memory.fill(0);
        ok(aclmdlRIExecuteAsync(model, main));
        ok(aclrtValueWrite(cell, 1, 0, other));
        finish(main);
        memory.assert_all(1, "behind the wait");
    }
    ok(aclmdlRIDestroy(model));
    ok(aclrtFree(cell));
}

#[test]
fn groups_with_external_events_as_torch_npu_has_them() {
    own_context();
    let (main, update, mut external, mut group) = (stream(), stream(), 0, 0);
    ok(aclrtCreateEventWithFlag(&mut external, EXTERNAL));
    let model = capture(main, || {
        ok(aclrtStreamWaitEvent(main, external));
        ok(aclrtResetEvent(external, main));
        ok(aclmdlRICaptureTaskGrpBegin(main));
        ok(aclmdlRICaptureTaskGrpEnd(main, &mut group));
    });
    for _ in 0..10 {
        ok(aclmdlRIExecuteAsync(model, main));
        ok(aclmdlRICaptureTaskUpdateBegin(update, group));
        ok(aclmdlRICaptureTaskUpdateEnd(update));
        ok(aclrtRecordEvent(external, update));
        finish(main);
    }
    ok(aclmdlRIDestroy(model));
}

// proves: D22
#[test]
fn joined_streams_follow_the_attribute_of_the_main_one() {
    own_context();
    let (main, early, late, outside) = (stream(), stream(), stream(), stream());
    let model = capture(main, || {
        fork(event(), main, early);
        ok(set_attribute(main, CACHE_OP_INFO, 1));
        fork(event(), main, late);
        assert_eq!([main, early, late, outside].map(|it| attribute(it, CACHE_OP_INFO)), [1, 1, 1, 0]);
        ok(set_attribute(main, CACHE_OP_INFO, 0));
        assert_eq!([main, early, late].map(|it| attribute(it, CACHE_OP_INFO)), [0; 3]);
        [early, late].into_iter().for_each(|side| fork(event(), side, main));
    });
    ok(set_attribute(main, CACHE_OP_INFO, 1));
    assert_eq!(attribute(early, CACHE_OP_INFO), 0, "after the end it is alone");
    ok(aclmdlRIDestroy(model));
}
