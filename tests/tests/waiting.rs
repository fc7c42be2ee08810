//! Streams, events and frees: what waits, what does not, and that work goes on without anyone waiting for it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use ferry_tests::code::{EVENT_SYNC_TIMEOUT, STREAM_SYNC_TIMEOUT};
use ferry_tests::kind::{D2D, D2H, H2D};
use ferry_tests::*;

const LEN: usize = 256 * 1024;
const POISON: u8 = 0xa5;

// proves: R4 R25 R46
#[test]
fn synchronising_calls_sleep_until_the_work_before_them_is_done() {
    use_device();
    type Wait = fn(stream: usize, event: usize) -> i32;
    let waits: [(&str, Wait); 5] = [
        ("aclrtSynchronizeStream", |stream, _| aclrtSynchronizeStream(stream)),
        ("aclrtSynchronizeStreamWithTimeout -1", |stream, _| aclrtSynchronizeStreamWithTimeout(stream, -1)),
        ("aclrtSynchronizeEvent", |_, event| aclrtSynchronizeEvent(event)),
        ("aclrtSynchronizeDevice", |_, _| aclrtSynchronizeDevice()),
        ("aclrtDestroyStream", |stream, _| aclrtDestroyStream(stream)),
    ];
    for (name, wait) in waits {
        let data = pattern(LEN, 1);
        let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Pinned, &data));
        dst.fill(POISON);
        let (stream, event) = (stream(), event());
        let gate = block(stream);
        ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, stream));
        ok(aclrtRecordEvent(event, stream));
        let call = blocked::call(move || wait(stream, event)).blocked(name);
        dst.assert_all(POISON, name);
        gate.unblock();
        assert_eq!(call.join(), 0, "{name}");
        dst.assert_holds(&data, name);
    }
}

#[test]
fn a_device_synchronise_waits_for_the_streams_of_every_context() {
    use_device();
    let mut mine = 0;
    ok(aclrtGetCurrentContext(&mut mine));
    let mut other = 0;
    ok(aclrtCreateContext(&mut other, 0));
    let gate = block(0);
    ok(aclrtSetCurrentContext(mine));
    let call = blocked::call(aclrtSynchronizeDevice).blocked("work in another context of the device");
    gate.unblock();
    assert_eq!(call.join(), 0);
}

#[test]
fn a_device_synchronise_does_not_wait_for_the_other_device() {
    ok(aclrtSetDevice(1));
    let gate = block(stream());
    // Other tests keep device 0 busy from time to time, so the call may sleep, but not longer than they do.
    use_device();
    let call = std::thread::spawn(|| {
        ok(aclrtSetDevice(0));
        aclrtSynchronizeDevice()
    });
    eventually("a synchronise of device 0 while device 1 is held", || call.is_finished());
    assert_eq!(call.join().unwrap(), 0);
    gate.unblock();
}

#[test]
fn a_wait_with_a_limit_says_when_it_gave_up() {
    use_device();
    let stream = stream();
    let gate = block(stream);
    assert_eq!(aclrtSynchronizeStreamWithTimeout(stream, 1), STREAM_SYNC_TIMEOUT);
    assert!(message().unwrap_or_default().contains("aclrtSynchronizeStreamWithTimeout"));
    assert_eq!(aclrtSynchronizeStreamWithTimeout(stream, 20), STREAM_SYNC_TIMEOUT);
    // Giving up changes nothing: the stream still holds its work and can be waited for.
    assert_eq!(stream_status(stream), STREAM_NOT_READY);
    gate.unblock();
    ok(aclrtSynchronizeStreamWithTimeout(stream, 60_000));
    for limit in [0, -2, i32::MIN] {
        expect(
            "a limit that is neither -1 nor above 0",
            aclrtSynchronizeStreamWithTimeout(stream, limit),
            107000,
        );
    }
}

#[test]
fn waits_for_a_device_and_an_event_give_up_too() {
    // Tests that run beside this one hold device 1 for moments only.
    ok(aclrtSetDevice(1));
    let (stream, event) = (stream(), event());
    ok(aclrtSynchronizeDeviceWithTimeout(60_000));
    ok(aclrtSynchronizeEventWithTimeout(event, 1)); // never recorded: nothing to wait for
    let gate = block(stream);
    ok(aclrtRecordEvent(event, stream));
    for limit in [1, 20] {
        assert_eq!(aclrtSynchronizeDeviceWithTimeout(limit), STREAM_SYNC_TIMEOUT);
        assert!(message().unwrap_or_default().contains("device 1 still has work"));
        assert_eq!(aclrtSynchronizeEventWithTimeout(event, limit), EVENT_SYNC_TIMEOUT);
        assert!(message().unwrap_or_default().contains("is not complete after"));
    }
    let patient = blocked::call(|| aclrtSynchronizeDeviceWithTimeout(-1)).blocked("a device held by a gate");
    let waiting =
        blocked::call(move || aclrtSynchronizeEventWithTimeout(event, -1)).blocked("an event behind it");
    gate.unblock();
    assert_eq!((patient.join(), waiting.join()), (0, 0));
    for limit in [0, -2, i32::MIN] {
        let what = "a limit that is neither -1 nor above 0";
        expect(what, aclrtSynchronizeDeviceWithTimeout(limit), 107000);
        expect(what, aclrtSynchronizeEventWithTimeout(event, limit), 107000);
    }
}

#[test]
fn living_streams_have_numbers_of_their_own() {
    use_device();
    let id = |stream| {
        let mut id = -1;
        ok(aclrtStreamGetId(stream, &mut id));
        id
    };
    let streams: Vec<usize> = (0..40).map(|_| stream()).collect();
    let mut ids: Vec<i32> = streams.iter().map(|stream| id(*stream)).collect();
    assert_eq!(ids[7], id(streams[7]), "a stream keeps its number");
    ids.push(id(0));
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 41, "no two of 40 streams and the default stream share one");
    assert!(ids.iter().all(|id| (0..1 << 24).contains(id)), "{ids:?}");
}

#[test]
fn queries_tell_held_from_done() {
    use_device();
    let (stream, event) = (stream(), event());
    assert_eq!(stream_status(stream), STREAM_COMPLETE, "a new stream");
    let gate = block(stream);
    ok(aclrtRecordEvent(event, stream));
    assert_eq!((stream_status(stream), event_status(event)), (STREAM_NOT_READY, EVENT_NOT_READY));
    gate.unblock();
    finish(stream);
    assert_eq!((stream_status(stream), event_status(event)), (STREAM_COMPLETE, EVENT_COMPLETE));
}

// proves: X1
#[test]
fn an_event_links_two_streams_and_neither_call_waits() {
    use_device();
    let data = pattern(LEN, 2);
    let (middle, last) = (Memory::device(LEN), Memory::pinned(LEN));
    let src = Memory::holding(Home::Pinned, &data);
    middle.fill(POISON);
    last.fill(POISON);
    let (first, second, event) = (stream(), stream(), event());
    let gate = block(first);
    ok(aclrtMemcpyAsync(middle.addr, LEN, src.addr, LEN, H2D, first));
    let code = blocked::call(move || aclrtRecordEvent(event, first)).returned("aclrtRecordEvent");
    assert_eq!(code, 0);
    let code = blocked::call(move || aclrtStreamWaitEvent(second, event)).returned("aclrtStreamWaitEvent");
    assert_eq!(code, 0);
    ok(aclrtMemcpyAsync(last.addr, LEN, middle.addr, LEN, D2H, second));
    blocked::settle();
    last.assert_all(POISON, "the second stream waits");
    assert_eq!(stream_status(second), STREAM_NOT_READY);
    gate.unblock();
    finish(second);
    last.assert_holds(&data, "the second stream copied what the first one brought");
}

// proves: X1
#[test]
fn streams_without_an_event_between_them_are_unordered() {
    use_device();
    let data = pattern(LEN, 3);
    let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Pinned, &data));
    dst.fill(POISON);
    let (held, free) = (stream(), stream());
    let _gate = block(held);
    ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, free));
    finish(free);
    dst.assert_holds(&data, "the other stream is held, this one is not");
}

#[test]
fn destroying_an_event_never_waits_and_frees_no_one_early() {
    use_device();
    let (first, second, event) = (stream(), stream(), event());
    let gate = block(first);
    ok(aclrtRecordEvent(event, first));
    ok(aclrtStreamWaitEvent(second, event));
    let code = blocked::call(move || aclrtDestroyEvent(event)).returned("aclrtDestroyEvent");
    assert_eq!(code, 0);
    blocked::settle();
    assert_eq!(stream_status(second), STREAM_NOT_READY, "a wait outlives its event");
    gate.unblock();
    finish(second);
}

#[test]
fn sixty_four_streams_stand_in_host_functions_and_the_next_one_copies() {
    use_device();
    let gates: Vec<Blocker> = (0..64).map(|_| block(stream())).collect();
    gates.iter().for_each(Blocker::wait_until_reached);
    let data = pattern(LEN, 4);
    let (dst, src, back) = (Memory::device(LEN), Memory::holding(Home::Pinned, &data), Memory::pinned(LEN));
    let free = stream();
    ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, free));
    ok(aclrtMemcpyAsync(back.addr, LEN, dst.addr, LEN, D2H, free));
    finish(free);
    back.assert_holds(&data, "the 65th stream");
    // And a 65th host function still finds a thread.
    let more = block(free);
    more.wait_until_reached();
}

static RAN: AtomicUsize = AtomicUsize::new(0);

/// Notes in which place it ran.
unsafe extern "C" fn note_order(place: *mut c_void) {
    RAN.compare_exchange(place as usize, place as usize + 1, Ordering::SeqCst, Ordering::SeqCst).ok();
}

// proves: X1
#[test]
fn host_functions_of_a_stream_run_one_after_the_other() {
    use_device();
    let stream = stream();
    let gate = block(stream);
    for place in 0..200 {
        ok(aclrtLaunchHostFunc(stream, Some(note_order), place));
    }
    assert_eq!(RAN.load(Ordering::SeqCst), 0);
    gate.unblock();
    finish(stream);
    assert_eq!(RAN.load(Ordering::SeqCst), 200, "each found its predecessor done");
}

// proves: R3
#[test]
fn work_goes_on_without_anyone_synchronising() {
    use_device();
    let data = pattern(LEN, 5);
    let (dst, src, back) = (Memory::device(LEN), Memory::holding(Home::Pinned, &data), Memory::pinned(LEN));
    let (first, second, linked, last) = (stream(), stream(), event(), event());
    ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, first));
    ok(aclrtRecordEvent(linked, first));
    ok(aclrtStreamWaitEvent(second, linked));
    ok(aclrtMemcpyAsync(back.addr, LEN, dst.addr, LEN, D2H, second));
    ok(aclrtRecordEvent(last, second));
    // The gate's host function runs on a thread of the library, so nobody here asks for progress at all.
    block(second).wait_until_reached();
    back.assert_holds(&data, "everything before a host function that runs is done");
    assert_eq!(event_status(last), EVENT_COMPLETE);
    // The gate was dropped, so the stream runs dry, again without a call that waits.
    eventually("a stream that nobody waits for runs dry", || stream_status(second) == STREAM_COMPLETE);
}

// proves: X4
#[test]
fn freed_memory_still_serves_the_copies_queued_before() {
    use_device();
    let data = pattern(LEN, 6);
    for home in [Home::Pinned, Home::Device] {
        let what = format!("a queued copy out of freed {home:?} memory");
        let (dst, src) = (Memory::device(LEN), Memory::holding(home, &data));
        dst.fill(POISON);
        let stream = stream();
        let gate = block(stream);
        let direction = if home == Home::Pinned { H2D } else { D2D };
        ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, direction, stream));
        assert_eq!(blocked::call(move || src.free()).returned(&what), 0, "{what}");
        dst.assert_all(POISON, &what);
        // The address is unknown from here on, although the copy has not run.
        let code = aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, direction, stream);
        expect("a copy out of memory that was freed", code, 107000);
        expect("a second free", src.free(), 107000);
        // Nobody is given the same bytes while the copy still needs them.
        let others: Vec<Memory> = (0..64).map(|_| Memory::new(home, LEN)).collect();
        others.iter().for_each(|o| o.fill(0x99));
        gate.unblock();
        finish(stream);
        dst.assert_holds(&data, &what);
        others.iter().for_each(|o| ok(o.free()));
    }
}

// proves: X4
#[test]
fn a_copy_into_freed_memory_does_not_hit_its_next_owner() {
    use_device();
    let data = pattern(LEN, 7);
    for home in [Home::Pinned, Home::Device] {
        let what = format!("memory allocated after {home:?} memory was freed under a queued copy");
        let (dst, src) = (Memory::new(home, LEN), Memory::holding(Home::Device, &data));
        let stream = stream();
        let gate = block(stream);
        let direction = if home == Home::Pinned { D2H } else { D2D };
        ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, direction, stream));
        assert_eq!(blocked::call(move || dst.free()).returned(&what), 0, "{what}");
        // Addresses rest for a while after a free; this is more than rests.
        for _ in 0..5000 {
            let other = Memory::new(home, LEN);
            assert!(other.addr.abs_diff(dst.addr) >= LEN, "{what} has its address");
            ok(other.free());
        }
        let others: Vec<Memory> = (0..8).map(|_| Memory::new(home, LEN)).collect();
        others.iter().for_each(|o| o.fill(POISON));
        gate.unblock();
        finish(stream);
        others.iter().for_each(|o| o.assert_all(POISON, &what));
        others.iter().for_each(|o| ok(o.free()));
    }
}
