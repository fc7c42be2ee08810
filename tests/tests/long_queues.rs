//! Queues that are long: what is done with one op does not depend on how many wait behind it, and dropping
//! them takes no threads. The limit is against a hang: it is what far fewer functions take if each that
//! returns touches all that wait behind it.

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ferry_tests::code::STREAM_ABORT;
use ferry_tests::kind::H2D;
use ferry_tests::*;

const FUNCTIONS: usize = 200_000;
const LIMIT: Duration = Duration::from_secs(60);
static CALLED: AtomicUsize = AtomicUsize::new(0);
static TURN: Mutex<()> = Mutex::new(());

/// # Safety
/// None needed: the argument is not used.
unsafe extern "C" fn count(_: *mut c_void) {
    CALLED.fetch_add(1, Ordering::Relaxed);
}

/// Queues functions behind a gate.
fn queue(stream: usize, functions: usize) -> Blocker {
    let gate = block(stream);
    gate.wait_until_reached();
    for _ in 0..functions {
        ok(aclrtLaunchHostFunc(stream, Some(count), 0));
    }
    gate
}

#[test]
fn many_functions_end_one_after_the_other() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    let (stream, before) = (stream(), CALLED.load(Ordering::Relaxed));
    let gate = queue(stream, FUNCTIONS);
    gate.unblock();
    ok(aclrtSynchronizeStreamWithTimeout(stream, LIMIT.as_millis() as i32));
    assert_eq!(CALLED.load(Ordering::Relaxed) - before, FUNCTIONS);
}

#[test]
fn functions_in_front_of_many_copies_do_not_wait_for_them() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    let (stream, device, host) =
        (stream(), Memory::device(64), Memory::holding(Home::Pinned, &pattern(64, 3)));
    // If each moved all copies by one place, that would be four thousand million moves: several times the
    // limit.
    let gate = queue(stream, FUNCTIONS / 10);
    for _ in 0..FUNCTIONS {
        ok(aclrtMemcpyAsync(device.addr, 64, host.addr, 64, H2D, stream));
    }
    gate.unblock();
    ok(aclrtSynchronizeStreamWithTimeout(stream, LIMIT.as_millis() as i32));
    device.assert_holds(&pattern(64, 3), "the copies behind the functions");
}

#[test]
fn functions_that_an_abort_drops_take_no_threads() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    use_device();
    let (stream, before) = (stream(), CALLED.load(Ordering::Relaxed));
    let gate = queue(stream, FUNCTIONS);
    let threads = blocked::named("ferry-").len();
    ok(aclrtStreamAbort(stream));
    assert!(blocked::named("ferry-").len() <= threads, "threads were started to drop functions");
    assert_eq!(aclrtSynchronizeStream(stream), STREAM_ABORT);
    gate.unblock();
    finish(stream);
    assert_eq!(CALLED.load(Ordering::Relaxed), before, "none has run");
}
