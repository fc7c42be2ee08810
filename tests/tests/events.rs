//! Events: what a query, a wait and a record mean before, between and after each other.

use ferry_tests::code::*;
use ferry_tests::kind::{H2D, INNER};
use ferry_tests::*;

fn with_flag(flag: u32) -> usize {
    let mut event = 0;
    ok(aclrtCreateEventWithFlag(&mut event, flag));
    event
}

fn ex_with_flag(flag: u32) -> usize {
    let mut event = 0;
    ok(aclrtCreateEventExWithFlag(&mut event, flag));
    event
}

const SYNC: u32 = 0x1;
const TIME_LINE: u32 = 0x8;

#[test]
fn events_that_were_never_recorded() {
    use_device();
    for (name, event, want) in [
        ("aclrtCreateEvent", event(), EVENT_NOT_READY),
        ("aclrtCreateEventWithFlag", with_flag(SYNC), EVENT_NOT_READY),
        ("aclrtCreateEventExWithFlag", ex_with_flag(SYNC), EVENT_COMPLETE),
    ] {
        assert_eq!(event_status(event), want, "{name}");
        let code = blocked::call(move || aclrtSynchronizeEvent(event)).returned(name);
        assert_eq!(code, 0, "{name}: nothing to wait for");
        let stream = stream();
        ok(aclrtStreamWaitEvent(stream, event));
        let code = blocked::call(move || aclrtSynchronizeStream(stream)).returned(name);
        assert_eq!(code, 0, "{name}: a wait for it holds no stream");
    }
}

#[test]
fn every_kind_of_event_may_be_recorded_again() {
    use_device();
    for event in
        [event(), with_flag(SYNC), with_flag(SYNC | TIME_LINE), ex_with_flag(SYNC), ex_with_flag(TIME_LINE)]
    {
        let (free, held) = (stream(), stream());
        ok(aclrtRecordEvent(event, free));
        ok(aclrtSynchronizeEvent(event));
        assert_eq!(event_status(event), EVENT_COMPLETE);
        let gate = block(held);
        ok(aclrtRecordEvent(event, held));
        assert_eq!(event_status(event), EVENT_NOT_READY, "the latest record counts");
        gate.unblock();
        ok(aclrtSynchronizeEvent(event));
        assert_eq!(event_status(event), EVENT_COMPLETE);
    }
}

#[test]
fn a_wait_binds_to_the_latest_record_before_it() {
    use_device();
    for event in [event(), with_flag(SYNC), ex_with_flag(SYNC)] {
        let (held, free) = (stream(), stream());
        let (early, late) = (stream(), stream());
        let gate = block(held);
        ok(aclrtRecordEvent(event, held));
        ok(aclrtStreamWaitEvent(early, event));
        ok(aclrtRecordEvent(event, free));
        ok(aclrtStreamWaitEvent(late, event));
        let code =
            blocked::call(move || aclrtSynchronizeStream(late)).returned("a wait after the second record");
        assert_eq!(code, 0);
        blocked::settle();
        assert_eq!(
            stream_status(early),
            STREAM_NOT_READY,
            "a wait before the second record still means the first"
        );
        gate.unblock();
        finish(early);
    }
}

#[test]
fn a_record_captures_what_was_submitted_before_it() {
    use_device();
    let (stream, before) = (stream(), event());
    ok(aclrtRecordEvent(before, stream));
    let gate = block(stream);
    let code =
        blocked::call(move || aclrtSynchronizeEvent(before)).returned("an event recorded before the gate");
    assert_eq!(code, 0);
    assert_eq!(event_status(before), EVENT_COMPLETE);
    gate.unblock();
}

#[test]
fn waits_of_a_stream_for_itself_and_in_a_chain() {
    use_device();
    let streams: Vec<usize> = (0..32).map(|_| stream()).collect();
    let own = event();
    ok(aclrtRecordEvent(own, streams[0]));
    ok(aclrtStreamWaitEvent(streams[0], own));
    let gate = block(streams[0]);
    for pair in streams.windows(2) {
        let link = event();
        ok(aclrtRecordEvent(link, pair[0]));
        ok(aclrtStreamWaitEvent(pair[1], link));
        ok(aclrtDestroyEvent(link));
    }
    blocked::settle();
    assert_eq!(stream_status(streams[31]), STREAM_NOT_READY);
    gate.unblock();
    finish(streams[31]);
    assert!(streams.iter().all(|&s| stream_status(s) == STREAM_COMPLETE), "the last one waited for all");
}

#[test]
fn elapsed_time() {
    use_device();
    let stream = stream();
    let (start, end, never) = (with_flag(TIME_LINE), with_flag(TIME_LINE), with_flag(TIME_LINE));
    let (device, host) = (Memory::device(1 << 20), Memory::pinned(1 << 20));
    ok(aclrtRecordEvent(start, stream));
    for _ in 0..20 {
        ok(aclrtMemcpyAsync(device.addr, 1 << 20, host.addr, 1 << 20, H2D, stream));
    }
    ok(aclrtRecordEvent(end, stream));
    finish(stream);
    let mut ms = -1.0;
    ok(aclrtEventElapsedTime(&mut ms, start, end));
    assert!(ms > 0.0, "20 MiB in {ms} ms");
    ok(aclrtEventElapsedTime(&mut ms, start, start));
    assert_eq!(ms, 0.0);
    ms = -1.0;
    expect("the end before the start", aclrtEventElapsedTime(&mut ms, end, start), TIMESTAMP_REVERSAL);
    expect("no end", aclrtEventElapsedTime(&mut ms, start, never), TIMESTAMP_INVALID);
    expect("no start", aclrtEventElapsedTime(&mut ms, never, end), TIMESTAMP_INVALID);
    assert_eq!(ms, -1.0, "a refused call writes nothing");
}

/// Each device has a clock of its own.
#[test]
fn there_is_no_time_between_events_of_two_devices() {
    let timed = [event as fn() -> usize, || with_flag(SYNC | TIME_LINE), || ex_with_flag(SYNC | TIME_LINE)];
    for (kind, make) in timed.into_iter().enumerate() {
        let [here, there] = [0, 1].map(|device| {
            ok(aclrtSetDevice(device));
            let (stream, event) = (stream(), make());
            ok(aclrtRecordEvent(event, stream));
            finish(stream);
            event
        });
        let mut ms = -1.0;
        for (start, end, words) in [
            (here, there, ["is of device 0", "is of device 1"]),
            (there, here, ["is of device 1", "is of device 0"]),
        ] {
            let code = aclrtEventElapsedTime(&mut ms, start, end);
            let [start, end] = [start, end].map(|event| format!("{event:#x}"));
            refused(&format!("kind {kind}"), code, TIMESTAMP_INVALID, &[&start, &end, words[0], words[1]]);
        }
        assert_eq!(ms, -1.0, "a refused call writes nothing");
        ok(aclrtEventElapsedTime(&mut ms, there, there));
    }
}

#[test]
fn events_without_sync_are_not_for_waiting() {
    use_device();
    let stream = stream();
    for event in [with_flag(TIME_LINE), ex_with_flag(TIME_LINE)] {
        ok(aclrtRecordEvent(event, stream));
        expect(
            "a wait for an event made without ACL_EVENT_SYNC",
            aclrtStreamWaitEvent(stream, event),
            RT_PARAM_INVALID,
        );
        ok(aclrtSynchronizeEvent(event));
    }
}

#[test]
fn events_stay_with_their_device() {
    ok(aclrtSetDevice(1));
    let (distant, distant_stream) = (event(), stream());
    use_device();
    let (event, stream) = (event(), stream());
    expect("record on another device's stream", aclrtRecordEvent(event, distant_stream), STREAM_CONTEXT);
    expect("record of another device's event", aclrtRecordEvent(distant, stream), STREAM_CONTEXT);
    expect("wait for another device's event", aclrtStreamWaitEvent(stream, distant), STREAM_CONTEXT);
    // Looking and waiting on the host work from anywhere.
    ok(aclrtSetDevice(1));
    let gate = block(distant_stream);
    ok(aclrtRecordEvent(distant, distant_stream));
    use_device();
    assert_eq!(event_status(distant), EVENT_NOT_READY);
    gate.unblock();
    ok(aclrtSynchronizeEvent(distant));
    assert_eq!(event_status(distant), EVENT_COMPLETE);
    in_new_thread(move || ok(aclrtSynchronizeEvent(distant)));
}

#[test]
fn an_event_behind_failed_work_lets_others_go_on_and_does_not_count_as_complete() {
    use_device();
    let (failing, other, event) = (stream(), stream(), event());
    let desc = Memory::device(4096);
    desc.fill(0);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, failing));
    ok(aclrtRecordEvent(event, failing));
    ok(aclrtStreamWaitEvent(other, event));
    finish(other);
    expect("the failed copy", aclrtSynchronizeStream(failing), RT_PARAM_INVALID);
    assert_eq!(event_status(event), EVENT_NOT_READY, "its tasks failed");
}

/// aclrtQueryEvent, whose numbers are the other way round.
fn old_status(event: usize) -> i32 {
    let mut status = -1;
    ok(aclrtQueryEvent(event, &mut status));
    status
}

fn wait_status(event: usize) -> i32 {
    let mut status = -1;
    ok(aclrtQueryEventWaitStatus(event, &mut status));
    status
}

const COMPLETE: i32 = 0;
const NOT_READY: i32 = 1;

#[test]
fn the_older_queries() {
    use_device();
    for event in [event(), with_flag(SYNC)] {
        let (held, waiting) = (stream(), stream());
        assert_eq!((old_status(event), wait_status(event)), (NOT_READY, COMPLETE), "never recorded");
        let gate = block(held);
        ok(aclrtRecordEvent(event, held));
        assert_eq!((old_status(event), wait_status(event)), (NOT_READY, COMPLETE), "nobody waits");
        ok(aclrtStreamWaitEvent(waiting, event));
        assert_eq!((old_status(event), wait_status(event)), (NOT_READY, NOT_READY));
        gate.unblock();
        finish(waiting);
        assert_eq!((old_status(event), wait_status(event)), (COMPLETE, COMPLETE));
        // Work behind the wait is no concern of the event's.
        ok(aclrtStreamWaitEvent(waiting, event));
        let behind = block(waiting);
        behind.wait_until_reached();
        assert_eq!(wait_status(event), COMPLETE);
        behind.unblock();
    }
    let newest = ex_with_flag(SYNC);
    let mut status = 7;
    expect("aclrtQueryEvent of an Ex event", aclrtQueryEvent(newest, &mut status), RT_PARAM_INVALID);
    assert_eq!(aclrtQueryEventWaitStatus(newest, &mut status), RT_PARAM_INVALID);
    assert!(message().unwrap_or_default().contains("aclrtCreateEventExWithFlag"));
    assert_eq!(status, 7, "a refused call writes nothing");
}

#[test]
fn a_reset_is_a_task_and_later_waits_are_for_the_next_record() {
    use_device();
    let (event, recorder, resetter) = (with_flag(SYNC), stream(), stream());
    let (early, late) = (stream(), stream());
    ok(aclrtRecordEvent(event, recorder));
    finish(recorder);
    let gate = block(resetter);
    ok(aclrtStreamWaitEvent(early, event));
    ok(aclrtResetEvent(event, resetter));
    assert_eq!(event_status(event), EVENT_COMPLETE, "the reset has not run");
    ok(aclrtSynchronizeEvent(event));
    ok(aclrtStreamWaitEvent(late, event));
    finish(early);
    gate.unblock();
    finish(resetter);
    assert_eq!((event_status(event), old_status(event)), (EVENT_NOT_READY, NOT_READY), "the reset has run");
    let code = blocked::call(move || aclrtSynchronizeEvent(event)).returned("a reset event");
    assert_eq!(code, 0, "it counts as not recorded");
    blocked::settle();
    assert_eq!((stream_status(late), wait_status(event)), (STREAM_NOT_READY, NOT_READY));
    // The record counts when it is done, not when it is called.
    let gate = block(recorder);
    ok(aclrtRecordEvent(event, recorder));
    blocked::settle();
    assert_eq!((stream_status(late), event_status(event)), (STREAM_NOT_READY, EVENT_NOT_READY));
    gate.unblock();
    finish(late);
    assert_eq!((event_status(event), wait_status(event)), (EVENT_COMPLETE, COMPLETE));
}

#[test]
fn the_documented_ring_of_wait_and_reset() {
    use_device();
    let (event, producer, consumer) = (with_flag(SYNC), stream(), stream());
    let (device, host) = (Memory::device(4096), Memory::pinned(4096));
    for round in 0..200u8 {
        ok(aclrtMemsetAsync(device.addr, 4096, round.into(), 4096, producer));
        ok(aclrtRecordEvent(event, producer));
        ok(aclrtStreamWaitEvent(consumer, event));
        ok(aclrtResetEvent(event, consumer));
        ok(aclrtMemcpyAsync(host.addr, 4096, device.addr, 4096, ferry_tests::kind::D2H, consumer));
        finish(consumer);
        host.assert_all(round, "the consumer saw what the producer wrote");
    }
}

#[test]
fn destroying_a_reset_event_lets_its_waiters_go() {
    use_device();
    let (event, resetter, late) = (with_flag(SYNC), stream(), stream());
    ok(aclrtResetEvent(event, resetter));
    ok(aclrtResetEvent(event, resetter));
    ok(aclrtStreamWaitEvent(late, event));
    finish(resetter);
    blocked::settle();
    assert_eq!(stream_status(late), STREAM_NOT_READY);
    ok(aclrtDestroyEvent(event));
    finish(late);
}

#[test]
fn an_event_is_reset_on_a_stream_of_its_device() {
    use_device();
    let stream = stream();
    ok(aclrtSetDevice(1));
    let distant = with_flag(SYNC);
    use_device();
    expect("an event of another device", aclrtResetEvent(distant, stream), STREAM_CONTEXT);
}

#[test]
fn timestamps_follow_the_device_clock() {
    use_device();
    let (stream, other) = (stream(), stream());
    let (first, second, never) = (with_flag(TIME_LINE), event(), with_flag(TIME_LINE));
    let stamp = |event| {
        let mut us = u64::MAX;
        ok(aclrtEventGetTimestamp(event, &mut us));
        us
    };
    ok(aclrtRecordEvent(first, stream));
    finish(stream);
    let gate = block(other);
    ok(aclrtRecordEvent(second, other));
    let mut us = 7;
    expect("not complete", aclrtEventGetTimestamp(second, &mut us), EVENT_NOT_COMPLETE);
    expect("never recorded", aclrtEventGetTimestamp(never, &mut us), TIMESTAMP_INVALID);
    let untimed = with_flag(SYNC);
    ok(aclrtRecordEvent(untimed, stream));
    finish(stream);
    expect("no ACL_EVENT_TIME_LINE", aclrtEventGetTimestamp(untimed, &mut us), TIMESTAMP_INVALID);
    assert_eq!(us, 7, "a refused call writes nothing");
    gate.unblock();
    finish(other);
    let mut ms = -1.0;
    ok(aclrtEventElapsedTime(&mut ms, first, second));
    let (start, end) = (stamp(first), stamp(second));
    assert!(end >= start, "{start} us, then {end} us, in two streams of one device");
    // A GPU counts milliseconds since the first event in 24 bits.
    let apart = ((end - start) as f32 - ms * 1000.0).abs();
    assert!(apart < 2.0 + ms + (end as f32 * 4e-7).min(50.0), "{} us and {ms} ms", end - start);
    assert_eq!(stamp(second), end, "it stays");
}
