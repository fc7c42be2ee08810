//! Events of several processes: who records, who waits, and what becomes of a record whose process dies, is
//! stopped, or forks.

use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{LazyLock, Mutex};

use ferry_tests::code::*;
use ferry_tests::kind::{D2D, H2D};
use ferry_tests::*;

use crate::other::{Orphan, Other};

const IPC: u32 = 0x40;
const COMPLETE: &str = "1";
const NOT_READY: &str = "0";

/// Streams of this process that are blocked.
static BLOCKED: LazyLock<Mutex<HashMap<usize, Blocker>>> = LazyLock::new(Mutex::default);

/// The other process's part.
pub fn perform(call: &str, number: &dyn Fn(usize) -> usize, text: &str) -> (i32, String) {
    let mut out = 0usize;
    let plain = |code: i32| (code, String::new());
    match call {
        "event" => {
            let code = aclrtCreateEventExWithFlag(&mut out, IPC);
            (code, out.to_string())
        }
        "event-handle" => event_handle(number(1)),
        "open" => {
            let code = aclrtIpcOpenEventHandle(handle_of(text), &mut out);
            (code, out.to_string())
        }
        "destroy-event" => plain(aclrtDestroyEvent(number(1))),
        "record" => plain(aclrtRecordEvent(number(1), number(2))),
        "wait" => plain(aclrtStreamWaitEvent(number(2), number(1))),
        "synchronize-event" => plain(aclrtSynchronizeEventWithTimeout(number(1), number(2) as i32)),
        "event-status" => {
            let mut status = -1;
            let code = aclrtQueryEventStatus(number(1), &mut status);
            (code, status.to_string())
        }
        "stream" => {
            let code = aclrtCreateStream(&mut out);
            (code, out.to_string())
        }
        "block" => {
            let blocker = block(number(1));
            blocker.wait_until_reached();
            BLOCKED.lock().unwrap().insert(number(1), blocker);
            plain(0)
        }
        "unblock" => {
            BLOCKED.lock().unwrap().remove(&number(1)).expect("a stream that is blocked").unblock();
            plain(0)
        }
        "synchronize" => plain(aclrtSynchronizeStream(number(1))),
        "abort" => plain(aclrtStreamAbort(number(1))),
        "status" => {
            let mut status = -1;
            let code = aclrtStreamQuery(number(1), &mut status);
            (code, status.to_string())
        }
        "settle" => {
            blocked::settle();
            plain(0)
        }
        "threads" => (0, blocked::named(text).len().to_string()),
        other => super::notifies::perform(other, number, text),
    }
}

/// The handle of an event as text, which it is.
fn event_handle(event: usize) -> (i32, String) {
    let mut handle = aclrtIpcEventHandle { reserved: [0; 64] };
    let code = aclrtIpcGetEventHandle(event, &mut handle);
    (code, handle.reserved.iter().map(|byte| *byte as u8 as char).collect())
}

fn handle_of(text: &str) -> aclrtIpcEventHandle {
    let mut bytes = text.bytes().map(|byte| byte as c_char);
    aclrtIpcEventHandle { reserved: std::array::from_fn(|_| bytes.next().unwrap_or(0)) }
}

/// An event of the first process, opened by the second: what each calls it.
fn shared(maker: &mut Other, opener: &mut Other) -> (String, String) {
    let event = maker.ok("event");
    let handle = maker.ok(&format!("event-handle {event}"));
    (event, opener.ok(&format!("open {handle}")))
}

/// A stream that is blocked.
pub fn blocked_stream(process: &mut Other) -> String {
    let stream = process.ok("stream");
    process.ok(&format!("block {stream}"));
    stream
}

/// Sends a signal, and returns when it has stopped the process.
pub fn stop(process: &Other) {
    // SAFETY: takes numbers; a child of ours.
    unsafe { libc::kill(process.pid(), libc::SIGSTOP) };
    let path = format!("/proc/{}/stat", process.pid());
    eventually("the process is stopped", || {
        std::fs::read_to_string(&path).is_ok_and(|stat| stat.contains(") T "))
    });
}

pub fn go_on(process: &Other) {
    // SAFETY: as above.
    unsafe { libc::kill(process.pid(), libc::SIGCONT) };
}

/// Asserts that a stream of a process stands still.
#[track_caller]
pub fn stands(process: &mut Other, stream: &str) {
    process.ok("settle");
    assert_eq!(process.ok(&format!("status {stream}")), STREAM_NOT_READY.to_string());
}

// proves: Y13 Y15
#[test]
fn a_record_of_either_process_is_waited_for_by_the_other() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    assert_eq!(maker.ok(&format!("event-status {event}")), COMPLETE, "never recorded");
    assert_eq!(opener.ok(&format!("event-status {opened}")), COMPLETE, "never recorded");
    opener.ok(&format!("synchronize-event {opened} 1000"));
    for round in 0..4 {
        let (recorder, recorded, waiter, waited) = match round % 2 {
            0 => (&mut maker, &event, &mut opener, &opened),
            _ => (&mut opener, &opened, &mut maker, &event),
        };
        let (records, waits) = (blocked_stream(recorder), waiter.ok("stream"));
        recorder.ok(&format!("record {recorded} {records}"));
        for (process, event) in [(&mut *recorder, recorded), (&mut *waiter, waited)] {
            assert_eq!(process.ok(&format!("event-status {event}")), NOT_READY);
            process.refused(&format!("synchronize-event {event} 1"), EVENT_SYNC_TIMEOUT, event_name(event));
        }
        waiter.ok(&format!("wait {waited} {waits}"));
        stands(waiter, &waits);
        recorder.ok(&format!("unblock {records}"));
        recorder.ok(&format!("synchronize {records}"));
        // From here on nobody needs to wait: the record is complete when its stream is synchronised.
        assert_eq!(waiter.ok(&format!("event-status {waited}")), COMPLETE);
        waiter.ok(&format!("synchronize {waits}"));
        waiter.ok(&format!("synchronize-event {waited} 60000"));
    }
}

/// The message names an event in hexadecimal; the digits of the generation are all alike.
fn event_name(_: &str) -> &'static str {
    "is not complete after"
}

// proves: Y15
#[test]
fn a_wait_is_for_the_latest_record_at_its_call_and_no_other() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let [first, second] = [(); 2].map(|()| blocked_stream(&mut maker));
    let [early, late] = [(); 2].map(|()| opener.ok("stream"));
    maker.ok(&format!("record {event} {first}"));
    opener.ok(&format!("wait {opened} {early}"));
    maker.ok(&format!("record {event} {second}"));
    opener.ok(&format!("wait {opened} {late}"));
    // The second is done before the first: that is what the late wait was for, and the status.
    maker.ok(&format!("unblock {second}"));
    opener.ok(&format!("synchronize {late}"));
    assert_eq!(opener.ok(&format!("event-status {opened}")), COMPLETE);
    stands(&mut opener, &early);
    maker.ok(&format!("unblock {first}"));
    opener.ok(&format!("synchronize {early}"));
    // The thread that waited for that ends.
    eventually("nobody watches the event", || opener.ok("threads ferry-bell") == "0");
}

// proves: Y15
#[test]
fn bytes_that_one_process_writes_are_there_for_the_other() {
    const LEN: usize = 1 << 20;
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let addr = maker.ok(&format!("malloc {LEN}"));
    let key = maker.ok(&format!("export {addr} {LEN} 1"));
    let there = opener.ok(&format!("import {key} 0"));
    let own = opener.ok(&format!("malloc {LEN}"));
    let (records, waits) = (maker.ok("stream"), opener.ok("stream"));
    for seed in 1..20 {
        maker.ok(&format!("block {records}"));
        maker.ok(&format!("write-on {addr} {LEN} {seed} {records}"));
        maker.ok(&format!("record {event} {records}"));
        opener.ok(&format!("wait {opened} {waits}"));
        opener.ok(&format!("copy-on {own} {there} {LEN} {waits}"));
        maker.ok(&format!("unblock {records}"));
        opener.ok(&format!("synchronize {waits}"));
        assert_eq!(opener.ok(&format!("holds {own} {LEN} {seed}")), "true");
    }
}

// proves: Y14 Y16
#[test]
fn handles_are_opened_any_number_of_times_in_any_process() {
    let (mut maker, mut opener, mut third) = (Other::on(0), Other::on(0), Other::on(0));
    let event = maker.ok("event");
    let handle = maker.ok(&format!("event-handle {event}"));
    assert_eq!(handle.len(), 64);
    assert_eq!(maker.ok(&format!("event-handle {event}")), handle, "any number of times");
    let opened = opener.ok(&format!("open {handle}"));
    let again = opener.ok(&format!("open {handle}"));
    assert_eq!(opener.ok(&format!("event-handle {opened}")), handle, "the handle of an opened event");
    let own = maker.ok(&format!("open {handle}"));
    assert!(opened != again && own != event, "each has a handle of its own");
    // All of them are one event.
    let records = blocked_stream(&mut maker);
    maker.ok(&format!("record {own} {records}"));
    let far = third.ok(&format!("open {handle}"));
    let all = |[maker, opener, third]: [&mut Other; 3], want: &str| {
        assert_eq!(maker.ok(&format!("event-status {event}")), want);
        assert_eq!(opener.ok(&format!("event-status {opened}")), want);
        assert_eq!(opener.ok(&format!("event-status {again}")), want);
        assert_eq!(third.ok(&format!("event-status {far}")), want);
    };
    all([&mut maker, &mut opener, &mut third], NOT_READY);
    maker.ok(&format!("unblock {records}"));
    maker.ok(&format!("synchronize {records}"));
    all([&mut maker, &mut opener, &mut third], COMPLETE);
    // Each is destroyed by itself.
    opener.ok(&format!("destroy-event {opened}"));
    opener.refused(&format!("event-status {opened}"), INVALID_HANDLE, "destroyed");
    assert_eq!(opener.ok(&format!("event-status {again}")), COMPLETE);
    maker.ok(&format!("destroy-event {own}"));
    third.ok(&format!("open {handle}"));
}

// proves: Y16
#[test]
fn opened_events_outlive_the_one_they_were_opened_from() {
    for dies in [false, true] {
        let (mut maker, mut opener, mut third) = (Other::on(0), Other::on(0), Other::on(0));
        let (event, opened) = shared(&mut maker, &mut opener);
        let handle = maker.ok(&format!("event-handle {event}"));
        let far = third.ok(&format!("open {handle}"));
        let records = blocked_stream(&mut opener);
        opener.ok(&format!("record {opened} {records}"));
        match dies {
            true => maker.kill(),
            false => {
                maker.ok(&format!("destroy-event {event}"));
                maker.refused(&format!("open {handle}"), RT_PARAM_INVALID, "exporter");
            }
        }
        third.refused(&format!("open {handle}"), RT_PARAM_INVALID, "exporter");
        assert_eq!(third.ok(&format!("event-status {far}")), NOT_READY, "the last state");
        opener.ok(&format!("unblock {records}"));
        third.ok(&format!("synchronize-event {far} 60000"));
        // They go on recording, both ways.
        let records = blocked_stream(&mut third);
        third.ok(&format!("record {far} {records}"));
        assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
        third.ok(&format!("unblock {records}"));
        opener.ok(&format!("synchronize-event {opened} 60000"));
    }
}

// proves: Y16
#[test]
fn a_process_that_dies_completes_its_records() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let records = blocked_stream(&mut opener);
    opener.ok(&format!("record {opened} {records}"));
    let waits = maker.ok("stream");
    maker.ok(&format!("wait {event} {waits}"));
    stands(&mut maker, &waits);
    maker.tell(&format!("synchronize-event {event} 100000"));
    // A child that lives on does not keep the record.
    let orphan = Orphan(opener.ok("fork").parse().expect("a pid"));
    opener.kill();
    assert_eq!(maker.hear().0, 0, "a call that waits");
    maker.ok(&format!("synchronize {waits}"));
    assert_eq!(maker.ok(&format!("event-status {event}")), COMPLETE);
    drop(orphan);
    // The event goes on.
    let records = blocked_stream(&mut maker);
    maker.ok(&format!("record {event} {records}"));
    assert_eq!(maker.ok(&format!("event-status {event}")), NOT_READY);
    maker.ok(&format!("unblock {records}"));
    maker.ok(&format!("synchronize-event {event} 60000"));
}

// proves: Y16
#[test]
fn the_status_of_a_dead_process_needs_no_wait() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (_, opened) = {
        let (event, opened) = shared(&mut maker, &mut opener);
        let records = blocked_stream(&mut maker);
        maker.ok(&format!("record {event} {records}"));
        (event, opened)
    };
    assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
    maker.kill();
    assert_eq!(opener.ok(&format!("event-status {opened}")), COMPLETE);
}

// proves: Y15 Y16
#[test]
fn a_process_whose_first_thread_has_left_still_has_its_records() {
    let (mut maker, mut opener, mut third) = (Other::on(0), Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let (records, waits) = (blocked_stream(&mut maker), opener.ok("stream"));
    maker.ok(&format!("record {event} {records}"));
    maker.ok("first-thread-leaves");
    assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
    opener.ok(&format!("wait {opened} {waits}"));
    stands(&mut opener, &waits);
    opener.refused(&format!("synchronize-event {opened} 100"), EVENT_SYNC_TIMEOUT, "is not complete after");
    // It can be asked for its event as before.
    let handle = maker.ok(&format!("event-handle {event}"));
    let far = third.ok(&format!("open {handle}"));
    assert_eq!(third.ok(&format!("event-status {far}")), NOT_READY);
    maker.ok(&format!("unblock {records}"));
    opener.ok(&format!("synchronize {waits}"));
    // And its end is noticed.
    let records = blocked_stream(&mut maker);
    maker.ok(&format!("record {event} {records}"));
    assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
    maker.kill();
    assert_eq!(opener.ok(&format!("event-status {opened}")), COMPLETE);
}

#[test]
fn a_process_that_is_stopped_is_waited_for_and_keeps_nobody_from_asking() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let (records, waits) = (blocked_stream(&mut maker), opener.ok("stream"));
    maker.ok(&format!("record {event} {records}"));
    opener.ok(&format!("wait {opened} {waits}"));
    stop(&maker);
    stands(&mut opener, &waits);
    assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
    opener.refused(&format!("synchronize-event {opened} 200"), EVENT_SYNC_TIMEOUT, "is not complete after");
    // What it does not have to do is done meanwhile.
    let own = opener.ok("stream");
    opener.ok(&format!("record {opened} {own}"));
    opener.ok(&format!("synchronize-event {opened} 60000"));
    go_on(&maker);
    assert_eq!(maker.ok(&format!("event-status {event}")), COMPLETE, "the latest record is the other's");
    maker.ok(&format!("unblock {records}"));
    opener.ok(&format!("synchronize {waits}"));
}

#[test]
fn a_waiter_that_is_stopped_finds_the_record_when_it_goes_on() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let (records, waits) = (blocked_stream(&mut maker), opener.ok("stream"));
    maker.ok(&format!("record {event} {records}"));
    opener.ok(&format!("wait {opened} {waits}"));
    opener.ok("settle");
    stop(&opener);
    maker.ok(&format!("unblock {records}"));
    maker.ok(&format!("synchronize {records}"));
    maker.ok(&format!("synchronize-event {event} 60000"));
    go_on(&opener);
    opener.ok(&format!("synchronize {waits}"));
}

#[test]
fn dropped_work_completes_its_records_and_ends_its_waits() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let (records, waits) = (blocked_stream(&mut maker), opener.ok("stream"));
    maker.ok(&format!("record {event} {records}"));
    opener.ok(&format!("wait {opened} {waits}"));
    opener.ok(&format!("abort {waits}"));
    let (code, _) = opener.ask(&format!("synchronize {waits}"));
    assert_eq!(code, STREAM_ABORT);
    assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
    maker.ok(&format!("abort {records}"));
    opener.ok(&format!("synchronize-event {opened} 60000"));
    eventually("nobody watches the event", || opener.ok("threads ferry-bell") == "0");
}

#[test]
fn a_child_has_no_events() {
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (_, opened) = shared(&mut maker, &mut opener);
    opener.ok(&format!("event-status {opened}"));
    let orphan = Orphan(opener.ok("fork").parse().expect("a pid"));
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", orphan.0)).expect("it lives");
    assert!(!maps.contains("ferry:event"), "{maps}");
    eventually("the child has no file of ours", || {
        !orphan.holds().iter().any(|name| name.contains("ferry:event"))
    });
}

/// Makes an event of several processes in this one.
#[track_caller]
fn own_event() -> usize {
    let mut event = 0;
    ok(aclrtCreateEventExWithFlag(&mut event, IPC));
    event
}

// proves: Y17
#[test]
fn streams_of_two_devices_of_one_process_are_ordered() {
    const LEN: usize = 1 << 20;
    ok(aclrtSetDevice(1));
    ok(aclrtDeviceEnablePeerAccess(0, 0));
    let (there, waits) = (Memory::device(LEN), stream());
    ok(aclrtSetDevice(0));
    let (here, records, event) = (Memory::device(LEN), stream(), own_event());
    for seed in 1..5 {
        let data = pattern(LEN, seed);
        let source = Memory::holding(Home::Pinned, &data);
        ok(aclrtSetDevice(0));
        let gate = block(records);
        ok(aclrtMemcpyAsync(here.addr, LEN, source.addr, LEN, H2D, records));
        ok(aclrtRecordEvent(event, records));
        ok(aclrtSetDevice(1));
        ok(aclrtStreamWaitEvent(waits, event));
        ok(aclrtMemcpyAsync(there.addr, LEN, here.addr, LEN, D2D, waits));
        assert_eq!(stream_status(waits), STREAM_NOT_READY);
        gate.unblock();
        finish(waits);
        there.assert_holds(&data, "a copy behind the other device's");
        // And back.
        let gate = block(waits);
        ok(aclrtRecordEvent(event, waits));
        ok(aclrtSetDevice(0));
        ok(aclrtStreamWaitEvent(records, event));
        assert_eq!(event_status(event), EVENT_NOT_READY);
        assert_eq!(stream_status(records), STREAM_NOT_READY);
        gate.unblock();
        finish(records);
        ok(aclrtSynchronizeEvent(event));
    }
    ok(aclrtDestroyEvent(event));
}

// proves: Y12 Y13 Y14
#[test]
fn what_ipc_events_are_not_for_is_refused() {
    use_device();
    let (event, plain, stream) = (own_event(), event(), stream());
    ok(aclrtRecordEvent(event, stream));
    ok(aclrtRecordEvent(plain, stream));
    finish(stream);
    let name = format!("{event:#x}");
    let (mut status, mut ms, mut time) = (-1, -1.0, 0);
    refused("reset", aclrtResetEvent(event, stream), RT_PARAM_INVALID, &[&name, "ACL_EVENT_IPC"]);
    refused("query", aclrtQueryEvent(event, &mut status), RT_PARAM_INVALID, &[&name]);
    refused("waits", aclrtQueryEventWaitStatus(event, &mut status), RT_PARAM_INVALID, &[&name]);
    refused("start", aclrtEventElapsedTime(&mut ms, event, plain), RT_PARAM_INVALID, &[&name]);
    refused("end", aclrtEventElapsedTime(&mut ms, plain, event), RT_PARAM_INVALID, &[&name]);
    refused("time", aclrtEventGetTimestamp(event, &mut time), RT_PARAM_INVALID, &[&name]);

    let (mut id, mut other_id, other) = (0, 0, ferry_tests::event());
    refused("number", aclrtGetEventId(event, &mut id), RT_PARAM_INVALID, &[&name]);
    ok(aclrtGetEventId(plain, &mut id));
    ok(aclrtGetEventId(other, &mut other_id));
    assert_ne!(id, other_id);

    let mut handle = aclrtIpcEventHandle { reserved: [0; 64] };
    let code = aclrtIpcGetEventHandle(plain, &mut handle);
    refused("another event", code, RT_PARAM_INVALID, &[&format!("{plain:#x}"), "ACL_EVENT_IPC"]);
    refused("no event", aclrtIpcGetEventHandle(0, &mut handle), INVALID_PARAM, &["event is NULL"]);
    refused("a stream", aclrtIpcGetEventHandle(stream, &mut handle), INVALID_HANDLE, &["is no event"]);
    let code = aclrtIpcGetEventHandle(event, std::ptr::null_mut());
    refused("no room", code, INVALID_PARAM, &["handle is NULL"]);
    let mut opened = 0;
    for garbage in ["", "x", &"f".repeat(64), &format!("ferry-ipc-event-handle--{}", "g".repeat(40))] {
        let code = aclrtIpcOpenEventHandle(handle_of(garbage), &mut opened);
        refused(garbage, code, RT_PARAM_INVALID, &["aclrtIpcGetEventHandle"]);
    }
    let nobodys = format!("ferry-ipc-event-handle--{}", "0".repeat(40));
    let code = aclrtIpcOpenEventHandle(handle_of(&nobodys), &mut opened);
    refused("nobody's", code, RT_PARAM_INVALID, &["exporter is gone"]);

    for flags in [IPC | 1, IPC | 8, IPC | 0x20] {
        let code = aclrtCreateEventExWithFlag(&mut opened, flags);
        refused("with others", code, RT_PARAM_INVALID, &[&format!("{flags:#x}")]);
    }
    let code = aclrtCreateEventWithFlag(&mut opened, IPC);
    refused("the other function", code, RT_PARAM_INVALID, &["aclrtCreateEventExWithFlag"]);
    ok(aclrtDestroyEvent(event));
}

// proves: Y13
#[test]
fn ipc_events_are_not_captured_and_the_capture_goes_on() {
    use_device();
    let (event, captured) = (own_event(), stream());
    ok(aclmdlRICaptureBegin(captured, 2));
    let words = [&*format!("{event:#x}"), &*format!("{captured:#x}"), "captured"];
    refused("record", aclrtRecordEvent(event, captured), RT_PARAM_INVALID, &words);
    refused("wait", aclrtStreamWaitEvent(captured, event), RT_PARAM_INVALID, &words);
    let mut model = 0;
    ok(aclmdlRICaptureEnd(captured, &mut model));
    ok(aclmdlRIDestroy(model));
    ok(aclrtRecordEvent(event, captured));
    ok(aclrtSynchronizeEvent(event));
    ok(aclrtDestroyEvent(event));
}

// proves: Y13 Y15
#[test]
fn a_record_that_is_refused_leaves_the_event_as_it_was() {
    use_device();
    // Of its own: others use the default stream of the device's context.
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    let (event, captured, held, waits) = (own_event(), stream(), stream(), stream());
    let gate = block(held);
    ok(aclrtRecordEvent(event, held));
    ok(aclmdlRICaptureBegin(captured, 2));
    refused("default stream", aclrtRecordEvent(event, 0), CAPTURE_IMPLICIT, &["default stream"]);
    let mut model = 0;
    expect("broken", aclmdlRICaptureEnd(captured, &mut model), CAPTURE_INVALIDATED);
    assert_eq!(event_status(event), EVENT_NOT_READY, "the record before counts");
    ok(aclrtStreamWaitEvent(waits, event));
    blocked::settle();
    assert_eq!(stream_status(waits), STREAM_NOT_READY, "and is waited for");
    gate.unblock();
    finish(waits);
    assert_eq!(event_status(event), EVENT_COMPLETE);
    ok(aclrtDestroyEvent(event));
    ok(aclrtDestroyContext(context));
}

// proves: Y15
#[test]
fn thousands_of_records_may_be_pending() {
    const MANY: usize = 5000;
    let (mut maker, mut opener) = (Other::on(0), Other::on(0));
    let (event, opened) = shared(&mut maker, &mut opener);
    let records = blocked_stream(&mut maker);
    maker.ok(&format!("record {event} {records}"));
    // A wait for the first of them, which all the others come behind.
    let waits = opener.ok("stream");
    opener.ok(&format!("wait {opened} {waits}"));
    for _ in 1..MANY {
        maker.ok(&format!("record {event} {records}"));
    }
    stands(&mut opener, &waits);
    assert_eq!(opener.ok(&format!("event-status {opened}")), NOT_READY);
    maker.ok(&format!("unblock {records}"));
    opener.ok(&format!("synchronize-event {opened} 60000"));
    opener.ok(&format!("synchronize {waits}"));
}

// proves: Y12
#[test]
fn events_that_the_system_has_no_descriptor_for_are_a_shortage_of_events() {
    let mut maker = Other::on(0);
    let events = [(); 2].map(|()| maker.ok("event"));
    maker.ok("use-up-descriptors 0");
    maker.refused("event", NO_EVENT_RESOURCE, "ulimit -n");
    // Making one takes a second one for a moment.
    events.iter().for_each(|event| drop(maker.ok(&format!("destroy-event {event}"))));
    maker.ok("event");
}

// proves: Y11
#[test]
fn products_without_ipc_events_say_so() {
    for (soc, want) in [
        ("Ascend910B1", 0),
        ("Ascend910_9391", 0),
        ("Ascend950PR_9599", FEATURE_NOT_SUPPORT),
        ("Ascend310P3", FEATURE_NOT_SUPPORT),
        ("Ascend910A", FEATURE_NOT_SUPPORT),
        ("Ascend310B1", FEATURE_NOT_SUPPORT),
    ] {
        let (code, said) = Other::with(0, &[("FERRY_SOC", soc)]).ask("event");
        assert_eq!(code, want, "{soc}: {said}");
    }
}
