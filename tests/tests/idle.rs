//! A process with no copies pending uses no CPU: the engine's threads sleep, nothing wakes them, and after a
//! while they end. The tests take turns: they look at all threads of the process.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use ferry_tests::children::{self, Case};
use ferry_tests::kind::{D2D, H2D};
use ferry_tests::*;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    turn
}

#[test]
fn without_work_every_thread_of_the_engine_sleeps() {
    let _turn = turn();
    let (device, host) = (Memory::device(8 * 4096), Memory::pinned(4096));
    let streams: Vec<_> = (0..8).map(|_| stream()).collect();
    for _ in 0..100 {
        for (own, stream) in streams.iter().enumerate() {
            ok(aclrtMemcpyAsync(device.addr + own * 4096, 4096, host.addr, 4096, H2D, *stream));
        }
    }
    // On a slow machine those of the first copies may have ended before anybody looks.
    eventually("the engine has threads", || {
        ok(aclrtMemcpyAsync(device.addr, 4096, host.addr, 4096, H2D, streams[0]));
        !blocked::named("ferry-").is_empty()
    });
    streams.iter().for_each(|stream| finish(*stream));
    // Or has ended: a slow machine takes its time to look.
    blocked::sleepers("ferry-");
}

/// Copies, which nobody waits for, so that only threads of the engine can do them; a function; an exported
/// allocation; a wait for a value.
fn use_every_thread(seed: u8) {
    let (stream, event, called) = (stream(), event(), event());
    let (device, host) = (Memory::device(4 << 20), Memory::holding(Home::Pinned, &pattern(4 << 20, seed)));
    ok(aclrtMemcpyAsync(device.addr, 4 << 20, host.addr, 4 << 20, H2D, stream));
    ok(aclrtRecordEvent(event, stream));
    eventually("a copy that nobody waits for", || event_status(event) == EVENT_COMPLETE);
    let gate = block(stream);
    gate.wait_until_reached();
    ok(aclrtRecordEvent(called, stream));
    gate.unblock();
    eventually("a function that nobody waits for", || event_status(called) == EVENT_COMPLETE);
    device.assert_holds(&pattern(4 << 20, seed), "the copy");
    let mut key = [0; 65];
    ok(aclrtIpcMemGetExportKey(device.addr, 4096, key.as_mut_ptr(), 65, 1));
    eventually("somebody serves importers", || !blocked::named("ferry-ipc").is_empty());
    ok(aclrtIpcMemClose(key.as_ptr()));
    // Somebody looks at the cell before the stream goes on.
    let cell = Memory::holding(Home::Device, &1_u64.to_ne_bytes());
    ok(aclrtValueWait(cell.addr, 1, 1, stream));
    finish(stream);
    ok(host.free());
}

/// How many allocations there are within 16 MiB of an address.
fn allocations_around(addr: usize) -> usize {
    let mut starts: Vec<usize> = (addr.saturating_sub(16 << 20)..addr + (16 << 20))
        .step_by(4096)
        .filter_map(|at| {
            let (mut start, mut len) = (0, 0);
            (aclrtMemGetAddressRange(at, &mut start, &mut len) == 0).then_some(start)
        })
        .collect();
    starts.dedup();
    starts.len()
}

#[test]
fn threads_without_work_end_and_come_again_when_there_is_some() {
    let (_turn, anchor) = (turn(), Memory::pinned(4096));
    let before = allocations_around(anchor.addr);
    use_every_thread(1);
    eventually("threads without work end", || blocked::named("ferry-").is_empty());
    // Elsewhere page-locked memory is not in one place.
    assert!(!on_host() || allocations_around(anchor.addr) == before, "threads gave their memory back");
    use_every_thread(2);
}

const CASES: [Case; 2] = [
    ("threads begin where nothing more can be mapped", begin_without_a_mapping),
    ("a function fails where no thread is granted", fail_without_a_thread),
];

/// A thread gets the stack of one that has ended, and needs nothing else.
#[test]
fn threads_begin_where_nothing_more_can_be_mapped() {
    // A CUDA driver has threads and memory of its own.
    children::run(CASES[0].0, &[("FERRY_BACKEND", Some("host"))]);
}

/// Also one that comes behind a copy, so that only a callback of the driver finds out that its turn has come.
#[test]
fn a_function_fails_where_no_thread_is_granted() {
    children::run(CASES[1].0, &[]);
}

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&CASES);
}

fn begin_without_a_mapping() {
    use_device();
    let (stream, copied, called) = (stream(), event(), event());
    let (device, host) = (Memory::device(4 << 20), Memory::holding(Home::Pinned, &pattern(4 << 20, 1)));
    let use_threads = || {
        ok(aclrtMemcpyAsync(device.addr, 4 << 20, host.addr, 4 << 20, H2D, stream));
        ok(aclrtRecordEvent(copied, stream));
        eventually("a copy that nobody waits for", || event_status(copied) == EVENT_COMPLETE);
        ok(aclrtLaunchHostFunc(stream, Some(does_nothing), 0));
        ok(aclrtRecordEvent(called, stream));
        eventually("a function that nobody waits for", || event_status(called) == EVENT_COMPLETE);
    };
    use_threads();
    eventually("threads without work end", || blocked::named("ferry-").is_empty());
    let mut all = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the first call writes the limit, the second reads one.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut all), 0);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &libc::rlimit { rlim_cur: 4096, ..all }), 0);
    }
    use_threads();
    // SAFETY: the limit of before.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &all) }, 0);
}

fn fail_without_a_thread() {
    const LEN: usize = 64 << 20;
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    unsafe extern "C" fn count(_: *mut std::ffi::c_void) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }
    use_device();
    let (stream, from, to) = (stream(), Memory::device(LEN), Memory::device(LEN));
    let call_behind_a_copy = || {
        ok(aclrtMemcpyAsync(to.addr, LEN, from.addr, LEN, D2D, stream));
        ok(aclrtLaunchHostFunc(stream, Some(count), 0));
        aclrtSynchronizeStream(stream)
    };
    ok(call_behind_a_copy());
    eventually("threads without work end", || blocked::named("ferry-").is_empty());
    allow_threads(false);
    assert_ne!(call_behind_a_copy(), 0, "there is no thread for the function");
    assert_eq!(CALLS.load(Ordering::SeqCst), 1, "it did not run");
    allow_threads(true);
    ok(call_behind_a_copy());
    assert_eq!(CALLS.load(Ordering::SeqCst), 2, "the stream goes on");
}

/// Lets this process start threads, or none. It stops being root, whose threads nobody counts.
fn allow_threads(are_allowed: bool) {
    const NOBODY: libc::uid_t = 65534;
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

unsafe extern "C" fn does_nothing(_: *mut std::ffi::c_void) {}
