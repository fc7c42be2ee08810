//! aclrtStreamAbort and aclrtDestroyStreamForce: what is dropped, who is told, and that nobody waits for
//! ever. The tests take turns: some prove that calls sleep, which takes until nobody else in the process is
//! at work.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};

use ferry_tests::code::*;
use ferry_tests::kind::{D2D, H2D};
use ferry_tests::*;

const LEN: usize = 64 * 1024;
const POISON: u8 = 0xa5;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    turn
}

/// Makes a stream stand still until the gate is opened.
type Hold = fn(usize) -> Blocker;

fn holders() -> [(&'static str, Hold); 2] {
    [
        ("a host function that runs", |stream| {
            let gate = block(stream);
            gate.wait_until_reached();
            gate
        }),
        ("a wait for another stream", |stream| {
            let (other, event) = (ferry_tests::stream(), event());
            let gate = block(other);
            ok(aclrtRecordEvent(event, other));
            ok(aclrtStreamWaitEvent(stream, event));
            gate
        }),
    ]
}

#[test]
fn queued_work_is_dropped_and_the_stream_is_told_once() {
    let _turn = turn();
    for (what, hold) in holders() {
        let (stream, other, event) = (stream(), stream(), event());
        let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Pinned, &pattern(LEN, 1)));
        dst.fill(POISON);
        let gate = hold(stream);
        ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, stream));
        ok(aclrtRecordEvent(event, stream));
        ok(aclrtStreamWaitEvent(other, event));
        let code = blocked::call(move || aclrtStreamAbort(stream)).returned(what);
        assert_eq!(code, 0, "{what}");
        // The gate is still shut: nothing here may depend on it.
        finish(other);
        ok(aclrtSynchronizeEvent(event));
        assert_eq!(event_status(event), EVENT_COMPLETE, "{what}: an event behind dropped work completes");
        assert_eq!(aclrtSynchronizeStream(stream), STREAM_ABORT, "{what}: told");
        ok(aclrtSynchronizeStream(stream)); // once
        gate.unblock();
        dst.assert_all(POISON, what);
        ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, stream));
        finish(stream);
        dst.assert_holds(&pattern(LEN, 1), "the stream can be used again");
    }
}

#[test]
fn everybody_who_waits_is_told() {
    let _turn = turn();
    type Wait = fn(usize, usize, usize) -> i32;
    let waits: [(&str, Wait); 6] = [
        ("aclrtSynchronizeStream", |stream, _, _| aclrtSynchronizeStream(stream)),
        ("aclrtSynchronizeStream, again", |stream, _, _| aclrtSynchronizeStream(stream)),
        ("aclrtSynchronizeStreamWithTimeout", |stream, _, _| {
            aclrtSynchronizeStreamWithTimeout(stream, 60_000)
        }),
        ("aclrtMemcpyAsync, pageable", |stream, dst, src| aclrtMemcpyAsync(dst, LEN, src, LEN, H2D, stream)),
        ("aclrtMemcpy2dAsync, pageable", |stream, dst, src| {
            aclrtMemcpy2dAsync(dst, 64, src, 64, 64, 64, H2D, stream)
        }),
        ("aclrtMemcpyBatchAsync, pageable", |stream, dst, src| {
            Batch::of(&[(dst, src, LEN)], HOST_TO_DEVICE).call(BatchForm::Async, stream).0
        }),
    ];
    for (what, hold) in holders() {
        let stream = stream();
        let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Heap, &pattern(LEN, 2)));
        dst.fill(POISON);
        let gate = hold(stream);
        ok(aclrtMemsetAsync(dst.addr, LEN, 1, LEN, stream));
        let (to, from) = (dst.addr, src.addr);
        let calls =
            waits.map(|(name, wait)| (name, blocked::call(move || wait(stream, to, from)).blocked(name)));
        ok(aclrtStreamAbort(stream));
        for (name, call) in calls {
            assert_eq!(call.join(), STREAM_ABORT, "{name} behind {what}");
        }
        ok(aclrtSynchronizeStream(stream)); // it has been told
        gate.unblock();
        finish(stream);
        dst.assert_all(POISON, what);
    }
}

#[test]
fn a_device_synchronise_is_told_too() {
    let _turn = turn();
    ok(aclrtSetDevice(1));
    let stream = stream();
    let gate = block(stream);
    gate.wait_until_reached();
    ok(aclrtRecordEvent(event(), stream));
    let call = blocked::call(aclrtSynchronizeDevice).blocked("a held stream of the device");
    ok(aclrtStreamAbort(stream));
    assert_eq!(call.join(), STREAM_ABORT);
    ok(aclrtSynchronizeDevice());
    gate.unblock();
}

#[test]
fn a_device_synchronise_that_is_told_still_waits_for_the_others() {
    let _turn = turn();
    ok(aclrtSetDevice(1));
    // Whichever comes first in a list of streams.
    for place in [0, 1] {
        let streams = [stream(), stream()];
        let (aborted, busy) = (streams[place], streams[1 - place]);
        let gates = [aborted, busy].map(block);
        gates.iter().for_each(Blocker::wait_until_reached);
        ok(aclrtRecordEvent(event(), aborted));
        let sync = move || (aclrtSynchronizeDevice(), stream_status(busy));
        let call = blocked::call(sync).blocked("two held streams");
        ok(aclrtStreamAbort(aborted));
        blocked::settle();
        gates[1].unblock();
        assert_eq!(call.join(), (STREAM_ABORT, 0), "the other stream was busy");
        gates[0].unblock();
    }
}

static ORDER: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn after_the_gate(open: *mut std::ffi::c_void) {
    // SAFETY: the test keeps the flag until the stream is done.
    let open = unsafe { &*(open as *const AtomicBool) };
    ORDER.store(1 + usize::from(open.load(Ordering::SeqCst)), Ordering::SeqCst);
}

#[test]
fn later_work_comes_after_a_function_that_an_abort_found_running() {
    let _turn = turn();
    let (stream, open) = (stream(), AtomicBool::new(false));
    let gate = block(stream);
    gate.wait_until_reached();
    ok(aclrtStreamAbort(stream));
    ok(aclrtLaunchHostFunc(stream, Some(after_the_gate), &raw const open as usize));
    blocked::settle();
    assert_eq!(ORDER.load(Ordering::SeqCst), 0);
    open.store(true, Ordering::SeqCst);
    gate.unblock();
    expect("the launch of the gate was aborted", aclrtSynchronizeStream(stream), STREAM_ABORT);
    assert_eq!(ORDER.load(Ordering::SeqCst), 2);
}

#[test]
fn an_abort_with_nothing_to_drop_says_nothing() {
    let _turn = turn();
    let stream = stream();
    ok(aclrtStreamAbort(stream));
    ok(aclrtSynchronizeStream(stream));
    ok(aclrtRecordEvent(event(), stream));
    finish(stream);
    ok(aclrtStreamAbort(stream));
    ok(aclrtSynchronizeStream(stream));
    assert_eq!(stream_status(stream), STREAM_COMPLETE);
}

#[test]
fn the_default_stream_can_be_aborted_and_a_query_tells_too() {
    let _turn = turn();
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    let gate = block(0);
    gate.wait_until_reached();
    ok(aclrtRecordEvent(event(), 0));
    ok(aclrtStreamAbort(0));
    let mut status = 7;
    assert_eq!((aclrtStreamQuery(0, &mut status), status), (STREAM_ABORT, 7));
    ok(aclrtStreamQuery(0, &mut status));
    gate.unblock();
    ok(aclrtDestroyContext(context));
}

/// Zeros and ones, so many that a copy of them takes many slices.
fn large() -> (Memory, Memory) {
    const LARGE: usize = 16 << 20;
    let (dst, src) = (Memory::device(LARGE), Memory::device(LARGE));
    dst.fill(0);
    src.fill(1);
    (dst, src)
}

#[test]
fn no_byte_moves_after_an_abort_has_returned() {
    let _turn = turn();
    let (dst, src) = large();
    let stream = stream();
    for round in 0..20 {
        let started = event();
        ok(aclrtRecordEvent(started, stream));
        for _ in 0..4 {
            ok(aclrtMemcpyAsync(dst.addr, dst.len, src.addr, src.len, D2D, stream));
            ok(aclrtMemsetAsync(dst.addr, dst.len, 0, dst.len, stream));
        }
        if round % 2 == 0 {
            ok(aclrtSynchronizeEvent(started));
        }
        ok(aclrtStreamAbort(stream));
        // Whoever still wrote the old zeros or ones would change these bytes.
        ok(aclrtMemset(dst.addr, dst.len, 7, dst.len));
        dst.assert_all(7, "written after the abort had returned");
        // A GPU has all of it when the abort comes, and may be done with it, as some schedules are.
        let told = aclrtSynchronizeStream(stream);
        let may_be_done = !on_host() || is_scheduled("early") || is_scheduled("shuffle");
        assert!(told == STREAM_ABORT || told == 0 && may_be_done, "the abort: {told}");
    }
    ok(aclrtFree(dst.addr));
    ok(aclrtFree(src.addr));
}

#[test]
fn a_forced_destroy_waits_for_nothing() {
    let _turn = turn();
    for (what, hold) in holders() {
        let (stream, other, event) = (stream(), stream(), event());
        let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Pinned, &pattern(LEN, 3)));
        dst.fill(POISON);
        let gate = hold(stream);
        ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, stream));
        ok(aclrtRecordEvent(event, stream));
        ok(aclrtStreamWaitEvent(other, event));
        let waiting = blocked::call(move || aclrtSynchronizeStream(stream)).blocked(what);
        let code = blocked::call(move || aclrtDestroyStreamForce(stream)).returned(what);
        assert_eq!(code, 0, "{what}");
        assert_eq!(waiting.join(), STREAM_ABORT, "{what}");
        finish(other);
        expect("the handle is dead", aclrtSynchronizeStream(stream), INVALID_HANDLE);
        expect("the handle is dead", aclrtDestroyStreamForce(stream), INVALID_HANDLE);
        gate.unblock();
        dst.assert_all(POISON, what);
    }
    expect("the default stream", aclrtDestroyStreamForce(0), RT_PARAM_INVALID);
}

#[test]
fn aborts_beside_submissions_waits_and_events() {
    let _turn = turn();
    let mut context = 0;
    ok(aclrtGetCurrentContext(&mut context));
    let streams: Arc<[(usize, Memory)]> = (0..3).map(|_| (stream(), Memory::device(4 << 20))).collect();
    let event = event();
    let src = Memory::pinned(4 << 20);
    let start = Arc::new(Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let (streams, start) = (streams.clone(), start.clone());
            std::thread::spawn(move || {
                ok(aclrtSetCurrentContext(context));
                start.wait();
                for round in 0..300 {
                    let ((mine, dst), (next, _)) =
                        (streams[(round + number) % 3], streams[(round + number + 1) % 3]);
                    ok(aclrtMemcpyAsync(dst.addr, dst.len, src.addr, src.len, H2D, mine));
                    ok(aclrtRecordEvent(event, mine));
                    ok(aclrtStreamWaitEvent(next, event));
                    match round % 4 {
                        0 => ok(aclrtStreamAbort(mine)),
                        1 => assert!([0, STREAM_ABORT].contains(&aclrtSynchronizeStream(next))),
                        _ => {}
                    }
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no thread panics"));
    for (stream, _) in streams.iter() {
        let last = aclrtSynchronizeStream(*stream);
        assert!([0, STREAM_ABORT].contains(&last), "{last}");
        finish(*stream);
    }
}
