//! Executions: in order, side by side, again and again, and with memory that is gone.

use super::*;
use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D, INNER};

// proves: G1 G13
#[test]
fn a_captured_copy_runs_when_the_model_does_and_not_before() {
    own_context();
    let (stream, source, device, back) =
        (stream(), Memory::pinned(4096), Memory::device(4096), Memory::pinned(4096));
    source.fill(1);
    back.fill(9);
    let model = capture(stream, || {
        assert_eq!(info(stream).0, 1, "G7: ACTIVE");
        ok(aclrtMemcpyAsync(device.addr, 4096, source.addr, 4096, H2D, stream));
        ok(aclrtMemcpyAsync(back.addr, 4096, device.addr, 4096, D2H, stream));
    });
    assert_eq!(info(stream), (0, 0), "G7: NONE");
    finish(stream);
    back.assert_all(9, "G1: nothing has run");
    for byte in [1, 2, 3] {
        source.fill(byte);
        run(model, stream);
        back.assert_all(byte, "G13: the bytes of the execution");
    }
    ok(aclmdlRIDestroy(model));
    expect("G31: destroyed", aclmdlRIExecuteAsync(model, stream), RT_PARAM_INVALID);
}

// proves: G28
#[test]
fn branches_join_by_events_and_run_side_by_side() {
    own_context();
    let (main, side) = (stream(), stream());
    let (fork, join) = (event(), event());
    let first = Meeting::new();
    let model = capture(main, || {
        ok(aclrtRecordEvent(fork, main));
        ok(aclrtStreamWaitEvent(side, fork));
        assert_eq!(info(side), info(main), "G7, G20: the joined stream has the same model");
        first.on(main);
        first.on(side);
        ok(aclrtRecordEvent(join, side));
        ok(aclrtStreamWaitEvent(main, join));
    });
    for _ in 0..3 {
        run(model, main);
    }
    assert_eq!(first.met(), 6, "G28: each function saw the other one run, in each of three executions");
    ok(aclmdlRIDestroy(model));
}

/// Two functions that each wait until both have begun.
struct Meeting(&'static (std::sync::Mutex<(u32, u32)>, std::sync::Condvar));

impl Meeting {
    fn new() -> Meeting {
        Meeting(Box::leak(Box::default()))
    }

    fn on(&self, stream: usize) {
        extern "C" fn meet(data: *mut std::ffi::c_void) {
            // SAFETY: leaked by `new`.
            let (state, changed) =
                unsafe { &*data.cast::<(std::sync::Mutex<(u32, u32)>, std::sync::Condvar)>() };
            let mut state = state.lock().expect("no panic");
            state.0 += 1;
            let round = state.0.div_ceil(2);
            changed.notify_all();
            let limit = std::time::Duration::from_secs(60);
            let state =
                changed.wait_timeout_while(state, limit, |state| state.0 < 2 * round).expect("no panic");
            let (mut state, timeout) = state;
            if !timeout.timed_out() {
                state.1 += 1;
            }
        }
        ok(aclrtLaunchHostFunc(stream, Some(meet), self.0 as *const _ as usize));
    }

    fn met(&self) -> u32 {
        self.0.0.lock().expect("no panic").1
    }
}

// proves: G14
#[test]
fn an_execution_that_touches_freed_memory_fails_in_its_turn_and_names_the_task() {
    own_context();
    let (stream, source, device) = (stream(), Memory::pinned(64), Memory::device(64));
    source.fill(1);
    device.fill(7);
    let other = Memory::device(64);
    let model = capture(stream, || {
        ok(aclrtMemcpyAsync(other.addr, 64, device.addr, 64, INNER, stream));
        ok(aclrtMemcpyAsync(device.addr, 64, source.addr, 64, H2D, stream));
    });
    run(model, stream);
    ok(source.free());
    ok(aclmdlRIExecuteAsync(model, stream));
    refused("G14", aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &["task 1", "freed", "captured"]);
    device.assert_all(1, "nothing was copied");
    let again = Memory::pinned(64);
    again.fill(5);
    ok(aclmdlRIExecuteAsync(model, stream));
    expect("G14: other memory at the same place", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
    ok(aclmdlRIDestroy(model));
}
