//! Current device and context, and the count behind aclrtSetDevice and aclrtResetDevice. Counts belong to the
//! process, so the tests of this file take turns and each leaves every count at 0.

use std::sync::{Mutex, MutexGuard};

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn current_context() -> Result<usize, i32> {
    let mut context = 0;
    match aclrtGetCurrentContext(&mut context) {
        0 => Ok(context),
        code => Err(code),
    }
}

fn current_device() -> Result<i32, i32> {
    let mut device = -1;
    match aclrtGetDevice(&mut device) {
        0 => Ok(device),
        code => Err(code),
    }
}

#[test]
fn there_are_two_devices() {
    let _turn = turn();
    let mut count = 0;
    ok(aclrtGetDeviceCount(&mut count));
    assert_eq!(count, 2);
    for bad in [2, 3, -1, i32::MAX, i32::MIN] {
        expect("aclrtSetDevice of a device that does not exist", aclrtSetDevice(bad), INVALID_DEVICEID);
        let mut context = 7;
        expect("aclrtCreateContext", aclrtCreateContext(&mut context, bad), INVALID_DEVICEID);
        assert_ne!(aclrtResetDevice(bad), 0, "aclrtResetDevice of a device that does not exist");
        assert_eq!((context, current_device()), (7, Err(CONTEXT_NULL)));
    }
}

// proves: N11
#[test]
fn a_new_thread_has_neither_device_nor_context() {
    let _turn = turn();
    assert_eq!((current_device(), current_context()), (Err(CONTEXT_NULL), Err(CONTEXT_NULL)));
    ok(aclrtSetDevice(1));
    assert_eq!(current_device(), Ok(1));
    let mine = current_context().unwrap();
    in_new_thread(move || {
        assert_eq!((current_device(), current_context()), (Err(CONTEXT_NULL), Err(CONTEXT_NULL)));
        expect("no context", aclrtSetCurrentContext(0), INVALID_PARAM);
        ok(aclrtSetCurrentContext(mine));
        assert_eq!((current_device(), current_context()), (Ok(1), Ok(mine)), "a context brings its device");
        expect("no context", aclrtSetCurrentContext(0), INVALID_PARAM);
        assert_eq!(current_context(), Ok(mine), "and a refused one leaves the old");
    });
    in_new_thread(move || {
        ok(aclrtSetDevice(1));
        assert_eq!(current_context(), Ok(mine), "threads that set one device share its default context");
        ok(aclrtSetDevice(0));
        assert_eq!(current_device(), Ok(0));
        assert_ne!(current_context(), Ok(mine));
        ok(aclrtResetDevice(0));
        ok(aclrtResetDevice(1));
    });
    assert_eq!(current_device(), Ok(1), "another thread's device is its own");
    ok(aclrtResetDevice(1));
}

#[test]
fn explicit_contexts() {
    let _turn = turn();
    ok(aclrtSetDevice(0));
    let default = current_context().unwrap();
    expect("the default context cannot be destroyed", i32::from(aclrtDestroyContext(default) != 0), 1);
    let (mut first, mut second) = (0, 0);
    ok(aclrtCreateContext(&mut first, 0));
    assert_eq!((current_context(), current_device()), (Ok(first), Ok(0)), "a new context is current");
    ok(aclrtCreateContext(&mut second, 1));
    assert_eq!((current_context(), current_device()), (Ok(second), Ok(1)), "and brings its device");
    ok(aclrtSetCurrentContext(first));
    assert_eq!((current_context(), current_device()), (Ok(first), Ok(0)));
    let mine = stream();
    ok(aclrtSetCurrentContext(default));
    expect("a stream of another context", aclrtSynchronizeStream(mine), STREAM_CONTEXT);
    expect("a stream of another context", aclrtDestroyStream(mine), STREAM_CONTEXT);
    ok(aclrtSetCurrentContext(first));
    ok(aclrtDestroyStream(mine));
    ok(aclrtSetDevice(0));
    assert_eq!(
        current_context(),
        Ok(default),
        "aclrtSetDevice puts the default context in place of an explicit one"
    );
    ok(aclrtDestroyContext(first));
    ok(aclrtDestroyContext(second));
    for dead in [first, second] {
        expect("a destroyed context", aclrtSetCurrentContext(dead), INVALID_HANDLE);
        expect("a destroyed context", aclrtDestroyContext(dead), INVALID_HANDLE);
    }
    ok(aclrtResetDevice(0));
    ok(aclrtResetDevice(0));
}

#[test]
fn the_last_reset_takes_the_default_context_away() {
    let _turn = turn();
    expect("a reset of what was never set", aclrtResetDevice(0), CONTEXT_NULL);
    for _ in 0..3 {
        ok(aclrtSetDevice(0));
    }
    let default = current_context().unwrap();
    let (stream, event, memory) = (stream(), event(), Memory::device(4096));
    memory.fill(3);
    let mut explicit = 0;
    ok(aclrtCreateContext(&mut explicit, 0));
    let kept_stream = ferry_tests::stream();
    ok(aclrtSetCurrentContext(default));
    ok(aclrtResetDevice(0));
    ok(aclrtResetDevice(0));
    assert_eq!(current_context(), Ok(default), "the count is 1");
    finish(stream);

    ok(aclrtResetDevice(0));
    assert_eq!((current_device(), current_context()), (Err(CONTEXT_NULL), Err(CONTEXT_NULL)));
    expect("a stream of a context that is gone", aclrtSynchronizeStream(stream), CONTEXT_NULL);
    expect(
        "a copy without a context",
        aclrtMemcpy(memory.addr, 4, [0u8; 4].as_ptr() as usize, 4, H2D),
        CONTEXT_NULL,
    );
    expect("the context that is gone", aclrtSetCurrentContext(default), INVALID_HANDLE);
    expect("one reset too many", aclrtResetDevice(0), CONTEXT_NULL);

    // Explicit contexts, events and memory are still there.
    ok(aclrtSetCurrentContext(explicit));
    finish(kept_stream);
    ok(aclrtRecordEvent(event, kept_stream));
    ok(aclrtSynchronizeEvent(event));
    memory.assert_all(3, "device memory outlives the default context");

    // And the device comes back with a context of its own.
    ok(aclrtSetDevice(0));
    assert_ne!(current_context(), Ok(default), "a handle is never used again");
    expect("a stream of the old context", aclrtSynchronizeStream(stream), INVALID_HANDLE);
    ok(memory.free());
    ok(aclrtDestroyContext(explicit));
    ok(aclrtResetDevice(0));
}

#[test]
fn a_forced_reset_takes_the_default_context_away_whatever_the_count() {
    let _turn = turn();
    expect("a forced reset of what was never set", aclrtResetDeviceForce(0), CONTEXT_NULL);
    for bad in [2, -1, i32::MIN] {
        expect("a forced reset of what does not exist", aclrtResetDeviceForce(bad), INVALID_DEVICEID);
    }
    for resets_before in [0, 1] {
        for _ in 0..3 {
            ok(aclrtSetDevice(0));
        }
        let stream = stream();
        (0..resets_before).for_each(|_| ok(aclrtResetDevice(0)));
        let gate = block(stream);
        let reset = blocked::call(|| aclrtResetDeviceForce(0)).blocked("it waits for tasks all the same");
        gate.unblock();
        assert_eq!(reset.join(), 0);
        assert_eq!(current_device(), Err(CONTEXT_NULL));
        expect("a second forced reset", aclrtResetDeviceForce(0), CONTEXT_NULL);
        expect("a reset after a forced one", aclrtResetDevice(0), CONTEXT_NULL);
        ok(aclrtSetDevice(0));
        expect("a stream of the reset device", aclrtSynchronizeStream(stream), INVALID_HANDLE);
        ok(aclrtResetDeviceForce(0));
    }
}

#[test]
fn the_last_reset_waits_for_work() {
    let _turn = turn();
    ok(aclrtSetDevice(1));
    let stream = stream();
    let (device, host) = (Memory::device(64), Memory::pinned(64));
    device.fill(9);
    host.fill(0);
    let gate = block(stream);
    ok(aclrtMemcpyAsync(host.addr, 64, device.addr, 64, D2H, stream));
    let reset = blocked::call(|| aclrtResetDevice(1)).blocked("work in the default context");
    gate.unblock();
    assert_eq!(reset.join(), 0);
    host.assert_all(9, "the work was done before the reset came back");
}

#[test]
fn streams_with_configuration() {
    let _turn = turn();
    ok(aclrtSetDevice(0));
    // Plain, the flags of the PyTorch adapter, no effect, and unknown ones; priorities in and out of range.
    for (priority, flag) in [(0, 0), (0, 0x3), (7, 0x1), (99, 0x8), (0, 0x4000_0000)] {
        let mut stream = 0;
        ok(aclrtCreateStreamWithConfig(&mut stream, priority, flag));
        let gate = block(stream);
        assert_eq!(stream_status(stream), STREAM_NOT_READY);
        let wait = blocked::call(move || aclrtSynchronizeStream(stream)).blocked("a configured stream");
        gate.unblock();
        assert_eq!(wait.join(), 0);
        ok(aclrtDestroyStream(stream));
    }
    ok(aclrtResetDevice(0));
}

/// Documented: synchronising such a stream returns success at once.
#[test]
fn streams_that_the_host_does_not_wait_for() {
    let _turn = turn();
    ok(aclrtSetDevice(0));
    for flag in [0x4, 0x10, 0x20] {
        let mut stream = 0;
        ok(aclrtCreateStreamWithConfig(&mut stream, 0, flag));
        let gate = block(stream);
        let code =
            blocked::call(move || aclrtSynchronizeStream(stream)).returned("a stream that nobody waits for");
        assert_eq!(code, 0, "flag {flag:#x}");
        gate.unblock();
    }
    ok(aclrtResetDevice(0));
}

// proves: D7
#[test]
fn numbers_of_a_device_are_the_same_where_all_are_visible() {
    let _turn = turn();
    let calls = [
        ("logic of user", aclrtGetLogicDevIdByUserDevId as fn(i32, *mut i32) -> i32),
        ("user of logic", aclrtGetUserDevIdByLogicDevId),
        ("logic of physical", aclrtGetLogicDevIdByPhyDevId),
        ("physical of logic", aclrtGetPhyDevIdByLogicDevId),
        ("user of physical", aclrtGetUserDevIdByPhyDevId),
        ("physical of user", aclrtGetPhyDevIdByUserDevId),
    ];
    for (what, call) in calls {
        for device in [0, 1] {
            let mut found = -1;
            ok(call(device, &mut found));
            assert_eq!(found, device, "{what}");
        }
        let mut found = 77;
        for bad in [2, -1, i32::MAX, i32::MIN] {
            refused(what, call(bad, &mut found), INVALID_DEVICEID, &[&bad.to_string()]);
        }
        expect(what, call(0, std::ptr::null_mut()), INVALID_PARAM);
        assert_eq!(found, 77, "a refused call writes nothing");
    }
}
