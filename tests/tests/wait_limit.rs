//! aclrtSetOpWaitTimeout, which counts for the whole process: a program of its own, and one test.

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

// proves: D10
#[test]
fn a_stream_that_waits_too_long_fails_and_goes_on() {
    use_device();
    let (records, waits, event) = (stream(), stream(), event());
    let (target, source) = (Memory::device(64), Memory::holding(Home::Pinned, &[2; 64]));
    target.fill(1);
    let gate = block(records);
    ok(aclrtRecordEvent(event, records));
    // Told to wait before there is a limit: none.
    let patient = stream();
    ok(aclrtStreamWaitEvent(patient, event));

    ok(aclrtSetOpWaitTimeout(1));
    ok(aclrtStreamWaitEvent(waits, event));
    ok(aclrtMemcpyAsync(target.addr, 64, source.addr, 64, H2D, waits));
    let words = ["aclrtSetOpWaitTimeout", &format!("{event:#x}"), "1 s"];
    refused("too long", aclrtSynchronizeStream(waits), WAIT_TIMEOUT, &words);
    target.assert_all(2, "the stream went on");
    finish(waits);
    assert_eq!(stream_status(patient), STREAM_NOT_READY);

    // An event that comes in time, one that is there already, and one that was never recorded.
    ok(aclrtSetOpWaitTimeout(3600));
    ok(aclrtStreamWaitEvent(waits, event));
    let mut status = -1;
    let mut other = 0;
    ok(aclrtCreateEventWithFlag(&mut other, 1));
    ok(aclrtRecordEvent(other, waits));
    ok(aclrtStreamWaitEvent(records, other));
    gate.unblock();
    finish(waits);
    finish(patient);
    finish(records);
    ok(aclrtQueryEventWaitStatus(event, &mut status));
    assert_eq!(status, 0, "nobody waits any more");
    ok(aclrtStreamWaitEvent(waits, event));
    let never = ferry_tests::event();
    ok(aclrtStreamWaitEvent(waits, never));
    finish(waits);

    // An aborted wait is over, and so is its limit.
    let gate = block(records);
    ok(aclrtRecordEvent(event, records));
    ok(aclrtStreamWaitEvent(waits, event));
    ok(aclrtStreamAbort(waits));
    expect("aborted", aclrtSynchronizeStream(waits), STREAM_ABORT);
    finish(waits);
    ok(aclrtSetOpWaitTimeout(0));
    ok(aclrtStreamWaitEvent(waits, event));
    gate.unblock();
    finish(waits);
    models_wait_as_long(records, waits);
}

/// Waits of a model for streams outside have the limit that counts when it is executed.
fn models_wait_as_long(records: usize, waits: usize) {
    let (mut external, mut outside, memory) = (0, 0, Memory::device(64));
    ok(aclrtCreateEventWithFlag(&mut external, 0x20));
    ok(aclrtCreateEventExWithFlag(&mut outside, 1));
    let model = |wait: &dyn Fn()| {
        let mut model = 0;
        ok(aclmdlRICaptureBegin(waits, 0));
        wait();
        ok(aclrtMemsetAsync(memory.addr, 64, 7, 64, waits));
        ok(aclmdlRICaptureEnd(waits, &mut model));
        model
    };
    let fresh = model(&|| {
        ok(aclrtStreamWaitEvent(waits, external));
        ok(aclrtResetEvent(external, waits));
    });
    let latest = model(&|| ok(aclrtStreamWaitEventWithFlag(waits, outside, 0, 1)));
    for (model, event) in [(fresh, external), (latest, outside)] {
        let gate = block(records);
        ok(aclrtRecordEvent(event, records));
        memory.fill(1);
        ok(aclrtSetOpWaitTimeout(1));
        ok(aclmdlRIExecuteAsync(model, waits));
        let words = ["aclrtSetOpWaitTimeout", &format!("{event:#x}"), "1 s"];
        refused("too long", aclrtSynchronizeStream(waits), WAIT_TIMEOUT, &words);
        memory.assert_all(7, "the model went on");
        for limit in [3600, 0] {
            ok(aclrtSetOpWaitTimeout(limit));
            ok(aclmdlRIExecuteAsync(model, waits));
            blocked::settle();
            assert_eq!(stream_status(waits), STREAM_NOT_READY, "a limit of {limit} s");
            ok(aclrtStreamAbort(waits));
            expect("aborted", aclrtSynchronizeStream(waits), STREAM_ABORT);
        }
        ok(aclrtSetOpWaitTimeout(3600));
        ok(aclmdlRIExecuteAsync(model, waits));
        gate.unblock();
        finish(waits);
        ok(aclrtSetOpWaitTimeout(0));
        ok(aclmdlRIDestroy(model));
    }
}
