//! Where the system grants no thread: what needs one fails, and nothing stands still. In processes of their
//! own, since these give up the right to start threads.

use super::*;
use std::{fs, thread::ThreadId, time::Instant};

#[test]
fn an_aborted_shared_stream_goes_on() {
    lost::in_child("threadless::abort_and_go_on", &[]);
}

#[test]
fn a_function_that_will_not_run_is_not_dropped_under_the_lock() {
    lost::in_child("threadless::refuse_a_function", &[]);
}

/// An abort lets later work wait for a function that may still run, which takes a thread.
#[test]
#[ignore = "run by an_aborted_shared_stream_goes_on"]
fn abort_and_go_on() {
    let Some(gpu) = gpu("abort_and_go_on") else { return };
    let (stream, from, to) = (stream(&gpu), device(&gpu, MIB), device(&gpu, MIB));
    stream.share().expect("shared");
    linear(&stream, to.base, from.base, MIB);
    stream.synchronize(MINUTE).expect("done");
    stream.abort();
    let _ = stream.synchronize(MINUTE);
    allow_threads(false);
    let plan = |memory: &ferry_core::Memory| {
        Plan::new([Rows::linear(to.base, from.base, MIB)], memory, |_, _| Ok(())).map(Op::Copy)
    };
    // SAFETY: all of it is known memory.
    let refused = unsafe { stream.submit::<ferry_core::Misfit>(plan) }.expect_err("no thread");
    assert!(refused.error.note.contains("grants no thread"), "{}", refused.error);
    stream.synchronize(MINUTE).expect("it does not stand still");
    allow_threads(true);
    linear(&stream, to.base, from.base, MIB);
    stream.synchronize(MINUTE).expect("it goes on");
}

/// Tells which thread drops it.
struct Dropped(Arc<Mutex<Option<ThreadId>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        *self.0.lock().expect("not poisoned") = Some(thread::current().id());
    }
}

/// The function is to run behind a fence that no stream can wait for, which takes a thread.
#[test]
#[ignore = "run by a_function_that_will_not_run_is_not_dropped_under_the_lock"]
fn refuse_a_function() {
    let Some(gpu) = gpu("refuse_a_function") else { return };
    let (stream, dropped) = (stream(&gpu), Arc::new(Mutex::new(None)));
    let call = || {
        let held = Dropped(dropped.clone());
        let fences: Vec<Arc<dyn Fence>> = vec![ferry_core::Gate::new()];
        Op::After(Box::new((fences, Op::Call(Box::new(move || drop(held))))))
    };
    allow_threads(false);
    submit(&stream, call);
    assert_eq!(*dropped.lock().expect("not poisoned"), None, "the lane was locked");
    let why = stream.synchronize(MINUTE).expect_err("no thread for the wait");
    assert!(why.note.contains("grants no thread"), "{why}");
    allow_threads(true);
    stream.call(|| ()).expect("submitted");
    stream.synchronize(MINUTE).expect("it goes on");
}

/// Lets this process start threads, or none once those of the pool have ended. It stops being root, whose
/// threads nobody counts.
fn allow_threads(are_allowed: bool) {
    const NOBODY: libc::uid_t = 65534;
    let end = Instant::now() + Duration::from_secs(60);
    while !are_allowed && has_pool_threads() {
        assert!(Instant::now() < end, "threads without work end");
        thread::sleep(Duration::from_millis(10));
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limit is written by the first call and read by the second; who this process is changes
    // nothing that it has open.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NPROC, &mut limit), 0);
        limit.rlim_cur = if are_allowed { limit.rlim_max } else { 0 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NPROC, &limit), 0);
        assert!(libc::getuid() != 0 || libc::setuid(NOBODY) == 0);
    }
}

fn has_pool_threads() -> bool {
    let threads = fs::read_dir("/proc/self/task").expect("Linux has it").flatten();
    let mut names = threads.map(|thread| fs::read_to_string(thread.path().join("comm")).unwrap_or_default());
    names.any(|name| name.starts_with("ferry-"))
}
