//! aclrtSetExceptionInfoCallback: one function for the whole process, so this is a program of its own, and
//! one test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

use ferry_tests::code::*;
use ferry_tests::kind::INNER;
use ferry_tests::*;

static TOLD: Mutex<Vec<[u32; 5]>> = Mutex::new(Vec::new());
static LAST: AtomicUsize = AtomicUsize::new(0);
static CALLER: AtomicI32 = AtomicI32::new(0);
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
static HAS_RETURNED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn note(info: *mut aclrtExceptionInfo) {
    LAST.store(info as usize, Ordering::Relaxed);
    TOLD.lock().unwrap().push(told(info));
}

unsafe extern "C" fn count(_: *mut aclrtExceptionInfo) {
    // A call that fails here tells nobody of anything, and does not wait for itself.
    assert_eq!(aclrtFree(0), INVALID_PARAM);
    TOLD.lock().unwrap().push([0; 5]);
}

/// Ends when the thread that is about to learn of the failure sleeps, or has learnt of it already.
unsafe extern "C" fn is_slow(_: *mut aclrtExceptionInfo) {
    HAS_BEGUN.store(true, Ordering::Release);
    let file = format!("/proc/self/task/{}/stat", CALLER.load(Ordering::Relaxed));
    let sleeps = || std::fs::read_to_string(&file).is_ok_and(|stat| stat.contains(") S "));
    eventually("the call waits for this function", || sleeps() || HAS_RETURNED.load(Ordering::Acquire));
    TOLD.lock().unwrap().push([u32::from(HAS_RETURNED.load(Ordering::Acquire)); 5]);
}

fn heard() -> Vec<[u32; 5]> {
    std::mem::take(&mut *TOLD.lock().unwrap())
}

/// A copy by a descriptor that nobody filled: it fails when it runs.
fn fails(desc: &Memory, stream: usize) {
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
}

// proves: D24
#[test]
fn a_function_hears_of_every_task_that_fails() {
    ok(aclrtSetDevice(1));
    let (stream, mut size, mut id) = (stream(), 0, 0);
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    ok(aclrtStreamGetId(stream, &mut id));
    let desc = Memory::device(size);
    desc.fill(0x5a);
    fails(&desc, stream);
    expect("nobody listens", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);

    ok(aclrtSetExceptionInfoCallback(Some(note)));
    assert_eq!(heard(), [[0; 5]; 0], "what failed before is over");
    fails(&desc, stream);
    expect("it fails", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    // SAFETY: takes no argument.
    let thread = unsafe { libc::gettid() } as u32;
    let first = heard();
    let [[task, of_stream, by, device, code]] = first[..] else { panic!("heard {first:?}") };
    assert_eq!((of_stream, by, device, code), (id as u32, thread, 1, RT_PARAM_INVALID as u32));
    assert!(task > 0);
    let over = LAST.load(Ordering::Relaxed) as *const aclrtExceptionInfo;
    assert_eq!(told(over), [u32::MAX; 5], "the function has returned");
    for garbage in [0, 0x10, stream, usize::MAX] {
        assert_eq!(told(garbage as *const aclrtExceptionInfo), [u32::MAX; 5], "{garbage:#x}");
    }

    // Without a call that returns the error: a thread of the library's tells it. What a GPU finds out by
    // itself nobody knows before; work that is kept back until somebody asks has not failed yet.
    if on_host() && !is_scheduled("late") && !is_scheduled("shuffle") {
        fails(&desc, stream);
        eventually("it was told", || !TOLD.lock().unwrap().is_empty());
        assert!(heard()[0][0] > task, "a later task");
        expect("and the stream tells it too", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
        a_call_waits_for_the_function_that_another_thread_runs(&desc, stream);
    }

    // Not more than a GPU keeps until somebody looks (docs/cuda.md).
    for _ in 0..12 {
        fails(&desc, stream);
    }
    expect("many", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    assert_eq!(heard().len(), 12, "each of them");

    ok(aclrtSetExceptionInfoCallback(Some(count)));
    fails(&desc, stream);
    expect("the last one counts", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    assert_eq!(heard(), [[0; 5]]);
    ok(aclrtSetExceptionInfoCallback(None));
    fails(&desc, stream);
    expect("nobody listens", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    assert_eq!(heard(), [[0; 5]; 0]);
}

/// The code of a failure is returned after the function, also if a thread of the library's has begun it.
fn a_call_waits_for_the_function_that_another_thread_runs(desc: &Memory, stream: usize) {
    // SAFETY: takes no argument.
    CALLER.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    ok(aclrtSetExceptionInfoCallback(Some(is_slow)));
    fails(desc, stream);
    while !HAS_BEGUN.load(Ordering::Acquire) {
        std::thread::yield_now();
    }
    let code = aclrtSynchronizeStream(stream);
    HAS_RETURNED.store(true, Ordering::Release);
    expect("it failed", code, RT_PARAM_INVALID);
    assert_eq!(heard(), [[0; 5]], "the function has returned, and before the call did");
    ok(aclrtSetExceptionInfoCallback(Some(note)));
}
