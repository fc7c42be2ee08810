//! Notifies inside one process: a record releases one wait, in order, between streams of one device and of
//! two.
//!
//! The tests take turns: most prove that a stream stands still, which takes until nobody else in the process
//! is at work.

use std::sync::{Mutex, MutexGuard};

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    turn
}

#[track_caller]
fn notify() -> usize {
    let mut notify = 0;
    ok(aclrtCreateNotify(&mut notify, 0));
    notify
}

/// Records once, and waits until that has happened.
#[track_caller]
fn record(notify: usize) {
    let stream = stream();
    ok(aclrtRecordNotify(notify, stream));
    finish(stream);
    ok(aclrtDestroyStream(stream));
}

#[track_caller]
fn wait(notify: usize, stream: usize) {
    ok(aclrtWaitAndResetNotify(notify, stream, 0));
}

/// Asserts that the stream stands still and will until something changes.
#[track_caller]
fn stands(stream: usize, what: &str) {
    blocked::settle();
    assert_eq!(stream_status(stream), STREAM_NOT_READY, "{what}");
}

// proves: Y2 Y3
#[test]
fn a_record_releases_one_wait_and_the_work_behind_it() {
    let _turn = turn();
    let (records, waits, notify) = (stream(), stream(), notify());
    let (target, source) = (Memory::device(64), Memory::holding(Home::Pinned, &[2; 64]));
    for before in [true, false] {
        target.fill(1);
        let gate = block(records);
        if before {
            ok(aclrtRecordNotify(notify, records));
        }
        wait(notify, waits);
        ok(aclrtMemcpyAsync(target.addr, 64, source.addr, 64, H2D, waits));
        if !before {
            ok(aclrtRecordNotify(notify, records));
        }
        stands(waits, "a record that its stream has not reached");
        target.assert_all(1, "the copy waits");
        gate.unblock();
        finish(waits);
        target.assert_all(2, "the copy is released");
        finish(records);
    }
    // The wait has used the record up.
    wait(notify, waits);
    stands(waits, "a second wait without a second record");
    record(notify);
    finish(waits);
    ok(aclrtDestroyNotify(notify));
}

// proves: Y2
#[test]
fn streams_of_two_devices_and_default_streams_use_one_notify() {
    let _turn = turn();
    let (here, notify) = (stream(), notify());
    ok(aclrtSetDevice(1));
    let there = stream();
    for (records, waits) in [(there, here), (here, there), (0, here), (here, 0), (0, there)] {
        let device = |stream| if stream == here { 0 } else { 1 };
        ok(aclrtSetDevice(device(waits)));
        wait(notify, waits);
        stands(waits, "nothing recorded yet");
        ok(aclrtSetDevice(device(records)));
        ok(aclrtRecordNotify(notify, records));
        finish(records);
        ok(aclrtSetDevice(device(waits)));
        finish(waits);
    }
    ok(aclrtSetDevice(0));
    ok(aclrtDestroyNotify(notify));
}

// proves: Y4
#[test]
fn the_state_is_one_bit() {
    let _turn = turn();
    let (waits, notify) = (stream(), notify());
    for _ in 0..3 {
        record(notify);
    }
    wait(notify, waits);
    finish(waits);
    wait(notify, waits);
    stands(waits, "three records before a wait are one");
    record(notify);
    finish(waits);
    ok(aclrtDestroyNotify(notify));
}

// proves: Y4
#[test]
fn waits_are_released_in_the_order_in_which_their_streams_came_there() {
    let _turn = turn();
    let (first, second, third, notify) = (stream(), stream(), stream(), notify());
    // Submitted first, reached last.
    let gate = block(third);
    wait(notify, third);
    wait(notify, first);
    blocked::settle();
    wait(notify, second);
    blocked::settle();
    gate.unblock();
    blocked::settle();
    for (released, left) in [(first, &[second, third][..]), (second, &[third]), (third, &[])] {
        record(notify);
        finish(released);
        left.iter().for_each(|stream| stands(*stream, "one record releases one wait"));
    }
    ok(aclrtDestroyNotify(notify));
}

// proves: Y4
#[test]
fn as_many_records_as_waits_release_all_of_them() {
    let _turn = turn();
    const WAITS: usize = 50;
    let (records, notify) = (stream(), notify());
    let streams: Vec<usize> = (0..WAITS).map(|_| stream()).collect();
    streams.iter().for_each(|stream| wait(notify, *stream));
    blocked::settle();
    for _ in 0..WAITS {
        ok(aclrtRecordNotify(notify, records));
    }
    streams.iter().for_each(|stream| finish(*stream));
    // None is left over.
    wait(notify, streams[0]);
    stands(streams[0], "as many as there were");
    record(notify);
    finish(streams[0]);
    for stream in streams {
        ok(aclrtDestroyStream(stream));
    }
    ok(aclrtDestroyNotify(notify));
}

#[test]
fn two_streams_pass_a_notify_to_and_fro() {
    let _turn = turn();
    const ROUNDS: usize = 500;
    let (ping, pong) = (notify(), notify());
    let (here, there) = (stream(), stream());
    for _ in 0..ROUNDS {
        ok(aclrtRecordNotify(ping, here));
        wait(pong, here);
        wait(ping, there);
        ok(aclrtRecordNotify(pong, there));
    }
    finish(here);
    finish(there);
    [ping, pong].iter().for_each(|notify| ok(aclrtDestroyNotify(*notify)));
}

// proves: Y5
#[test]
fn a_wait_that_takes_too_long_fails_and_the_stream_goes_on() {
    let _turn = turn();
    let (waits, patient, notify) = (stream(), stream(), notify());
    let (target, source) = (Memory::device(64), Memory::holding(Home::Pinned, &[2; 64]));
    target.fill(1);
    ok(aclrtWaitAndResetNotify(notify, waits, 1));
    ok(aclrtMemcpyAsync(target.addr, 64, source.addr, 64, H2D, waits));
    let start = std::time::Instant::now();
    wait(notify, patient);
    let words = ["aclrtWaitAndResetNotify", &format!("{notify:#x}"), "1 s"];
    refused("too long", aclrtSynchronizeStream(waits), WAIT_TIMEOUT, &words);
    assert!(start.elapsed().as_millis() >= 900, "a second and no millisecond");
    target.assert_all(2, "the stream went on");
    finish(waits);
    assert_eq!(stream_status(patient), STREAM_NOT_READY, "0 is for ever");
    // The wait that failed is no longer in front of the other.
    record(notify);
    finish(patient);
    // One that is met in time; its limit counts from when the stream gets there.
    let gate = block(waits);
    ok(aclrtWaitAndResetNotify(notify, waits, 3600));
    record(notify);
    gate.unblock();
    finish(waits);
    wait(notify, waits);
    stands(waits, "the record was used up");
    record(notify);
    finish(waits);
    ok(aclrtDestroyNotify(notify));
}

// proves: Y6
#[test]
fn destroying_a_notify_fails_the_waits_that_are_pending() {
    let _turn = turn();
    let (reached, queued, behind, notify) = (stream(), stream(), stream(), notify());
    let gate = block(queued);
    wait(notify, reached);
    wait(notify, queued);
    let other_gate = block(behind);
    ok(aclrtRecordNotify(notify, behind));
    blocked::settle();
    ok(aclrtDestroyNotify(notify));
    let words = ["aclrtWaitAndResetNotify", &format!("{notify:#x}"), "destroyed"];
    refused("a wait", aclrtSynchronizeStream(reached), RT_PARAM_INVALID, &words);
    gate.unblock();
    refused("a wait to come", aclrtSynchronizeStream(queued), RT_PARAM_INVALID, &words);
    other_gate.unblock();
    finish(behind); // a record that is pending does nothing
    for stream in [reached, queued] {
        finish(stream);
    }
    let calls: [(&str, &dyn Fn() -> i32); 5] = [
        ("record", &|| aclrtRecordNotify(notify, behind)),
        ("wait", &|| aclrtWaitAndResetNotify(notify, behind, 0)),
        ("id", &|| aclrtGetNotifyId(notify, &mut 0)),
        ("reset", &|| aclrtNotifyBatchReset(&mut { notify }, 1)),
        ("destroy", &|| aclrtDestroyNotify(notify)),
    ];
    for (what, call) in calls {
        refused(what, call(), INVALID_HANDLE, &[&format!("{notify:#x}")]);
    }
}

#[test]
fn a_stream_that_stops_its_context_may_be_the_one_whose_wait_fails() {
    let _turn = turn();
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    let (first, second, notify) = (stream(), stream(), notify());
    [first, second].iter().for_each(|stream| ok(aclrtSetStreamFailureMode(*stream, 1)));
    let gate = block(second);
    wait(notify, first);
    wait(notify, second);
    wait(notify, second);
    blocked::settle();
    let code = blocked::call(move || aclrtDestroyNotify(notify)).returned("destroying never waits");
    ok(code);
    gate.unblock();
    for stream in [first, second] {
        expect("stopped", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    }
    ok(aclrtDestroyContext(context));
    use_device();
}

// proves: Y6
#[test]
fn every_notify_has_a_number_of_its_own() {
    let _turn = turn();
    let notifies: Vec<usize> = (0..8).map(|_| notify()).collect();
    let id = |notify: &usize| {
        let mut id = u32::MAX;
        ok(aclrtGetNotifyId(*notify, &mut id));
        id
    };
    let ids: std::collections::BTreeSet<u32> = notifies.iter().map(id).collect();
    assert_eq!(ids.len(), notifies.len());
    notifies.iter().for_each(|notify| ok(aclrtDestroyNotify(*notify)));
}

// proves: Y7
#[test]
fn a_reset_takes_back_records_of_all_notifies_or_of_none() {
    let _turn = turn();
    let (waits, kept) = (stream(), notify());
    let mut notifies = [notify(), notify(), notify()];
    let [first, ..] = notifies;
    for notify in notifies.into_iter().chain([kept]) {
        record(notify);
    }
    // A bad one among them: nothing happens.
    let mut bad = [first, 0x1234];
    refused("a bad one", aclrtNotifyBatchReset(bad.as_mut_ptr(), 2), INVALID_HANDLE, &["notifies[1]"]);
    wait(first, waits);
    finish(waits);
    record(first);

    ok(aclrtNotifyBatchReset(notifies.as_mut_ptr(), notifies.len()));
    for notify in notifies {
        wait(notify, waits);
        stands(waits, "the record was taken back");
        // A reset does not touch a wait.
        ok(aclrtNotifyBatchReset(notifies.as_mut_ptr(), notifies.len()));
        stands(waits, "a wait is no record");
        record(notify);
        finish(waits);
    }
    wait(kept, waits);
    finish(waits);
    refused("no array", aclrtNotifyBatchReset(std::ptr::null_mut(), 1), RT_PARAM_INVALID, &["notifies"]);
    refused("no notify", aclrtNotifyBatchReset(notifies.as_mut_ptr(), 0), RT_PARAM_INVALID, &["num is 0"]);
    for notify in notifies.into_iter().chain([kept]) {
        ok(aclrtDestroyNotify(notify));
    }
}

#[test]
fn an_aborted_wait_uses_no_record_up_and_an_aborted_record_releases_none() {
    let _turn = turn();
    let (reached, queued, waits, notify) = (stream(), stream(), stream(), notify());
    let gate = block(queued);
    wait(notify, reached);
    wait(notify, queued);
    blocked::settle();
    for stream in [reached, queued] {
        ok(aclrtStreamAbort(stream));
        expect("aborted", aclrtSynchronizeStream(stream), STREAM_ABORT);
    }
    gate.unblock();
    wait(notify, waits);
    stands(waits, "nothing recorded yet");
    record(notify);
    finish(waits);

    let gate = block(queued);
    ok(aclrtRecordNotify(notify, queued));
    ok(aclrtStreamAbort(queued));
    gate.unblock();
    expect("aborted", aclrtSynchronizeStream(queued), STREAM_ABORT);
    wait(notify, waits);
    stands(waits, "the record was dropped");
    record(notify);
    finish(waits);
    ok(aclrtDestroyNotify(notify));
}

#[test]
fn an_aborted_wait_behind_an_event_uses_no_record_up() {
    let _turn = turn();
    let (held, queued, waits, notify, event) = (stream(), stream(), stream(), notify(), event());
    record(notify);
    let gate = block(held);
    ok(aclrtRecordEvent(event, held));
    ok(aclrtStreamWaitEvent(queued, event));
    wait(notify, queued);
    ok(aclrtStreamAbort(queued));
    expect("aborted", aclrtSynchronizeStream(queued), STREAM_ABORT);
    wait(notify, waits);
    ok(aclrtSynchronizeStreamWithTimeout(waits, 10_000));
    gate.unblock();
    ok(aclrtDestroyNotify(notify));
}

// proves: Y1
#[test]
fn flags_and_handles_that_are_none_are_refused() {
    let _turn = turn();
    let mut notify = 0;
    for flag in [0, 1] {
        ok(aclrtCreateNotify(&mut notify, flag));
        ok(aclrtDestroyNotify(notify));
    }
    for flag in [2, 3, u64::MAX, 1 << 32] {
        let given = format!("{flag:#x}");
        let words = [&*given, "ACL_NOTIFY_DEVICE_USE_ONLY"];
        refused("a flag", aclrtCreateNotify(&mut notify, flag), RT_PARAM_INVALID, &words);
    }
    refused("no room", aclrtCreateNotify(std::ptr::null_mut(), 0), INVALID_PARAM, &["notify is NULL"]);
    refused("NULL", aclrtRecordNotify(0, 0), INVALID_PARAM, &["notify is NULL"]);
    let (event, stream) = (event(), stream());
    refused("an event", aclrtRecordNotify(event, 0), INVALID_HANDLE, &["is no notify"]);
    refused("a stream", aclrtWaitAndResetNotify(stream, 0, 0), INVALID_HANDLE, &["is no notify"]);
    let own = self::notify();
    refused("a notify as a stream", aclrtRecordNotify(own, own), INVALID_HANDLE, &["is no stream"]);
    refused("a notify as an event", aclrtRecordEvent(own, 0), INVALID_HANDLE, &["is no event"]);
    ok(aclrtDestroyNotify(own));
}

#[test]
fn no_thread_polls_for_a_stream_that_waits() {
    let _turn = turn();
    let (waits, notify) = (stream(), notify());
    wait(notify, waits);
    blocked::sleepers("ferry");
    record(notify);
    finish(waits);
    ok(aclrtDestroyNotify(notify));
}
