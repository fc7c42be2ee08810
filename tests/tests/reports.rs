//! aclrtSubscribeReport, aclrtLaunchCallback, aclrtProcessReport, aclrtUnSubscribeReport: who runs a
//! callback, when, and what becomes of those that nobody runs. Subscriptions belong to the process, so the
//! tests of this file take turns.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, mpsc};

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, INNER};
use ferry_tests::*;

const NO_BLOCK: i32 = 0;
const BLOCK: i32 = 1;
const LEN: usize = 4096;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    turn
}

/// The id by which this thread subscribes.
fn this_thread() -> u64 {
    // SAFETY: takes no argument and cannot fail.
    unsafe { libc::pthread_self() }
}

fn subscribed() -> usize {
    let stream = stream();
    ok(aclrtSubscribeReport(this_thread(), stream));
    stream
}

/// Launches a closure as a callback.
#[track_caller]
fn launch(stream: usize, block: i32, callback: impl FnOnce() + Send + 'static) {
    ok(try_launch(stream, block, callback));
}

fn try_launch(stream: usize, block: i32, callback: impl FnOnce() + Send + 'static) -> i32 {
    let callback: Box<Box<dyn FnOnce() + Send>> = Box::new(Box::new(callback));
    aclrtLaunchCallback(Some(run), Box::into_raw(callback) as usize, block, stream)
}

/// # Safety
/// `callback` came from `try_launch`, whose launch runs once.
unsafe extern "C" fn run(callback: *mut c_void) {
    // SAFETY: as above.
    let callback = unsafe { Box::from_raw(callback as *mut Box<dyn FnOnce() + Send>) };
    callback();
}

/// Counts how often the callback that is returned with it has run.
fn counter() -> (Arc<AtomicUsize>, impl Fn() -> Box<dyn FnOnce() + Send>) {
    let count = Arc::new(AtomicUsize::new(0));
    let shared = count.clone();
    let callback = move || {
        let count = shared.clone();
        Box::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        }) as Box<dyn FnOnce() + Send>
    };
    (count, callback)
}

#[test]
fn callbacks_run_in_order_in_the_subscribed_thread() {
    let _turn = turn();
    let stream = subscribed();
    let (seen, me) = (Arc::new(Mutex::new(Vec::new())), this_thread());
    for number in 0..100 {
        let seen = seen.clone();
        launch(stream, number % 2, move || seen.lock().unwrap().push((number, this_thread())));
    }
    while seen.lock().unwrap().len() < 100 {
        ok(aclrtProcessReport(60_000));
    }
    let want: Vec<_> = (0..100).map(|number| (number, me)).collect();
    assert_eq!(*seen.lock().unwrap(), want);
    finish(stream);
    expect("all have run", aclrtProcessReport(1), REPORT_TIMEOUT);
    ok(aclrtUnSubscribeReport(me, stream));
}

#[test]
fn a_blocking_callback_holds_the_tasks_behind_it_and_the_other_kind_does_not() {
    let _turn = turn();
    for block in [NO_BLOCK, BLOCK] {
        let stream = subscribed();
        let (device, host) = (Memory::device(LEN), Memory::pinned(LEN));
        host.fill(0xa5);
        let at_callback = Arc::new(AtomicUsize::new(0));
        let (seen, addr) = (at_callback.clone(), host.addr);
        let before = event();
        ok(aclrtMemsetAsync(device.addr, LEN, 1, LEN, stream));
        ok(aclrtMemcpyAsync(host.addr, LEN, device.addr, LEN, D2H, stream));
        ok(aclrtRecordEvent(before, stream));
        // SAFETY: the test keeps the memory, and nobody writes it while the callback runs.
        launch(stream, block, move || seen.store(unsafe { *(addr as *const u8) }.into(), Ordering::SeqCst));
        ok(aclrtMemsetAsync(device.addr, LEN, 2, LEN, stream));
        ok(aclrtSynchronizeEvent(before));
        if block == BLOCK {
            blocked::settle();
            device.assert_all(1, "the task behind a blocking callback has not begun");
            assert_eq!(stream_status(stream), STREAM_NOT_READY);
        } else {
            finish(stream);
        }
        assert_eq!(at_callback.load(Ordering::SeqCst), 0, "it waits for its thread");
        ok(aclrtProcessReport(60_000));
        assert_eq!(at_callback.load(Ordering::SeqCst), 1, "tasks before it are done");
        finish(stream);
        device.assert_all(2, "and those behind it come");
        ok(aclrtUnSubscribeReport(this_thread(), stream));
    }
}

#[test]
fn one_thread_serves_several_streams_and_sleeps_meanwhile() {
    let _turn = turn();
    let streams: Vec<usize> = (0..3).map(|_| stream()).collect();
    let (tell, its_id) = mpsc::channel();
    let (go, start) = mpsc::channel();
    let server = std::thread::spawn(move || {
        tell.send(this_thread()).unwrap();
        start.recv().unwrap();
        loop {
            match aclrtProcessReport(-1) {
                0 => {}
                code => return code,
            }
        }
    });
    let thread = its_id.recv().unwrap();
    streams.iter().for_each(|stream| ok(aclrtSubscribeReport(thread, *stream)));
    go.send(()).unwrap();
    let (count, callback) = counter();
    for round in 0..300 {
        launch(streams[round % 3], BLOCK, callback());
    }
    streams.iter().for_each(|stream| finish(*stream));
    assert_eq!(count.load(Ordering::SeqCst), 300);
    ok(aclrtUnSubscribeReport(thread, streams[0]));
    ok(aclrtUnSubscribeReport(thread, streams[1]));
    launch(streams[2], BLOCK, callback());
    finish(streams[2]);
    blocked::settle();
    ok(aclrtUnSubscribeReport(thread, streams[2]));
    assert_eq!(server.join().unwrap(), THREAD_SUBSCRIBE, "with no stream left it comes back");
}

#[test]
fn waiting_has_a_limit() {
    let _turn = turn();
    expect("a thread that nobody subscribed", aclrtProcessReport(1), THREAD_SUBSCRIBE);
    for bad in [0, -2, i32::MIN] {
        expect("neither -1 nor above 0", aclrtProcessReport(bad), RT_PARAM_INVALID);
    }
    let stream = subscribed();
    for bad in [0, -2, i32::MIN] {
        expect("neither -1 nor above 0", aclrtProcessReport(bad), RT_PARAM_INVALID);
    }
    expect("nothing was launched", aclrtProcessReport(1), REPORT_TIMEOUT);
    let gate = block(stream);
    let (count, callback) = counter();
    launch(stream, NO_BLOCK, callback());
    expect("the stream has not come to it", aclrtProcessReport(20), REPORT_TIMEOUT);
    gate.unblock();
    ok(aclrtProcessReport(60_000));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    ok(aclrtUnSubscribeReport(this_thread(), stream));
    expect("not subscribed any more", aclrtProcessReport(1), THREAD_SUBSCRIBE);
}

#[test]
fn who_may_be_subscribed() {
    let _turn = turn();
    let (me, stream, free) = (this_thread(), subscribed(), stream());
    expect("twice", aclrtSubscribeReport(me, stream), REPEAT_SUBSCRIBE);
    expect("a second thread", aclrtSubscribeReport(me + 1, stream), REPEAT_SUBSCRIBE);
    expect("no thread", aclrtSubscribeReport(0, free), RT_PARAM_INVALID);
    ok(aclrtSetDevice(1));
    let distant = ferry_tests::stream();
    expect("a thread of another device", aclrtSubscribeReport(me, distant), THREAD_SUBSCRIBE);
    use_device();
    expect("a stream that has none", aclrtUnSubscribeReport(me, free), STREAM_SUBSCRIBE);
    expect("another thread's stream", aclrtUnSubscribeReport(me + 1, stream), STREAM_SUBSCRIBE);
    assert_eq!(try_launch(free, NO_BLOCK, || ()), STREAM_NO_CB_REG);
    assert!(message().unwrap_or_default().contains("aclrtSubscribeReport"));
    for bad in [2, -1, i32::MAX] {
        expect("no such block type", try_launch(stream, bad, || ()), RT_PARAM_INVALID);
    }
    expect("no function", aclrtLaunchCallback(None, 0, NO_BLOCK, stream), INVALID_PARAM);
    expect("nothing of all that was launched", aclrtProcessReport(1), REPORT_TIMEOUT);
    ok(aclrtUnSubscribeReport(me, stream));
    expect("twice", aclrtUnSubscribeReport(me, stream), STREAM_SUBSCRIBE);
    assert_eq!(try_launch(stream, NO_BLOCK, || ()), STREAM_NO_CB_REG);
    // The thread is free again: for the default stream, and for another device.
    ok(aclrtSubscribeReport(me, 0));
    let (count, callback) = counter();
    launch(0, BLOCK, callback());
    ok(aclrtProcessReport(-1));
    finish(0);
    assert_eq!(count.load(Ordering::SeqCst), 1);
    ok(aclrtUnSubscribeReport(me, 0));
    ok(aclrtSetDevice(1));
    ok(aclrtSubscribeReport(me, distant));
    ok(aclrtUnSubscribeReport(me, distant));
}

#[test]
fn there_is_a_limit_of_threads() {
    let _turn = turn();
    let streams: Vec<usize> = (0..1025).map(|_| stream()).collect();
    for (number, stream) in streams[..1024].iter().enumerate() {
        ok(aclrtSubscribeReport(number as u64 + 1, *stream));
    }
    expect("one thread more", aclrtSubscribeReport(5000, streams[1024]), RESOURCE_ALLOC_FAIL);
    ok(aclrtSubscribeReport(1, streams[1024])); // a stream more is no thread more
    ok(aclrtUnSubscribeReport(2, streams[1]));
    ok(aclrtSubscribeReport(5000, streams[1]));
    // Destroying a stream ends its subscription.
    streams.iter().for_each(|stream| ok(aclrtDestroyStream(*stream)));
    let stream = stream();
    ok(aclrtSubscribeReport(6000, stream));
    ok(aclrtUnSubscribeReport(6000, stream));
}

#[test]
fn callbacks_that_nobody_will_run_hold_nobody_up() {
    let _turn = turn();
    type End = fn(usize);
    let ends: [(&str, End); 3] = [
        ("aclrtUnSubscribeReport", |stream| ok(aclrtUnSubscribeReport(this_thread(), stream))),
        ("aclrtDestroyStreamForce", |stream| ok(aclrtDestroyStreamForce(stream))),
        ("aclrtStreamAbort", |stream| {
            ok(aclrtStreamAbort(stream));
            ok(aclrtUnSubscribeReport(this_thread(), stream));
        }),
    ];
    for (what, end) in ends {
        let (stream, other, event) = (subscribed(), stream(), event());
        let (count, callback) = counter();
        launch(stream, BLOCK, callback());
        launch(stream, BLOCK, callback());
        ok(aclrtRecordEvent(event, stream));
        ok(aclrtStreamWaitEvent(other, event));
        blocked::settle();
        assert_eq!(stream_status(other), STREAM_NOT_READY, "{what}");
        end(stream);
        finish(other);
        expect("nothing left to serve", aclrtProcessReport(1), THREAD_SUBSCRIBE);
        assert_eq!(count.load(Ordering::SeqCst), 0, "{what}");
    }
}

#[test]
fn an_abort_drops_callbacks_that_were_not_due() {
    let _turn = turn();
    let stream = subscribed();
    let (count, callback) = counter();
    let gate = block(stream);
    gate.wait_until_reached();
    launch(stream, BLOCK, callback());
    launch(stream, NO_BLOCK, callback());
    ok(aclrtStreamAbort(stream));
    gate.unblock();
    expect("the abort", aclrtSynchronizeStream(stream), STREAM_ABORT);
    expect("nothing is due", aclrtProcessReport(1), REPORT_TIMEOUT);
    let (later, callback) = counter();
    launch(stream, BLOCK, callback());
    ok(aclrtProcessReport(60_000));
    finish(stream);
    assert_eq!((count.load(Ordering::SeqCst), later.load(Ordering::SeqCst)), (0, 1));
    ok(aclrtUnSubscribeReport(this_thread(), stream));
}

#[test]
fn a_context_that_has_stopped_runs_no_callbacks() {
    let _turn = turn();
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    let stream = subscribed();
    ok(aclrtSetStreamFailureMode(stream, 1));
    let desc = Memory::device(LEN);
    desc.fill(0);
    let (count, callback) = counter();
    let gate = block(stream);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
    launch(stream, BLOCK, callback());
    gate.unblock();
    expect("the failure", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    expect("it was dropped", aclrtProcessReport(1), REPORT_TIMEOUT);
    expect("no more work", try_launch(stream, NO_BLOCK, || ()), RT_PARAM_INVALID);
    assert_eq!(count.load(Ordering::SeqCst), 0);
    ok(aclrtDestroyContext(context));
    expect("the stream is gone", aclrtProcessReport(1), THREAD_SUBSCRIBE);
}

#[test]
fn nothing_of_the_library_is_held_while_a_callback_runs() {
    let _turn = turn();
    let (tell, its_id) = mpsc::channel();
    let (go, start) = mpsc::channel::<()>();
    let server = std::thread::spawn(move || {
        tell.send(this_thread()).unwrap();
        start.recv().unwrap();
        aclrtProcessReport(-1)
    });
    let (thread, first, second) = (its_id.recv().unwrap(), stream(), stream());
    ok(aclrtSubscribeReport(thread, first));
    ok(aclrtSubscribeReport(thread, second));
    let (entered, is_in) = mpsc::channel();
    let (leave, may_leave) = mpsc::channel::<()>();
    launch(first, BLOCK, move || {
        entered.send(()).unwrap();
        may_leave.recv().unwrap();
    });
    go.send(()).unwrap();
    is_in.recv().unwrap();
    // The callback sits there, and everything else goes on.
    let (count, callback) = counter();
    launch(second, NO_BLOCK, callback());
    launch(first, NO_BLOCK, callback());
    finish(second);
    ok(aclrtUnSubscribeReport(thread, second));
    ok(aclrtSubscribeReport(this_thread(), second));
    launch(second, BLOCK, callback());
    ok(aclrtProcessReport(-1));
    ok(aclrtUnSubscribeReport(this_thread(), second));
    ok(aclrtUnSubscribeReport(thread, first));
    assert_eq!(stream_status(first), STREAM_NOT_READY, "it waits for the callback that runs");
    leave.send(()).unwrap();
    assert_eq!(server.join().unwrap(), 0);
    finish(first);
    assert_eq!(count.load(Ordering::SeqCst), 1, "only the one that was processed");
}

#[test]
fn a_callback_may_call_the_library() {
    let _turn = turn();
    let (stream, other) = (subscribed(), stream());
    let (count, callback) = counter();
    let inner = callback();
    // Documented as forbidden; it must not hang or crash all the same.
    launch(stream, NO_BLOCK, move || {
        ok(aclrtSubscribeReport(this_thread(), other));
        launch(other, NO_BLOCK, inner);
        ok(aclrtProcessReport(-1));
        ok(aclrtUnSubscribeReport(this_thread(), other));
    });
    ok(aclrtProcessReport(-1));
    assert_eq!(count.load(Ordering::SeqCst), 1);
    ok(aclrtUnSubscribeReport(this_thread(), stream));
}
