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

/// A stream's copies are in order, also for those who poll memory: data first, then the flag behind it.
#[test]
fn a_flag_that_is_copied_behind_data_is_not_seen_before_it() {
    const LEN: usize = 16 << 20;
    own_context();
    let (stream, source, data, flag) =
        (stream(), Memory::device(LEN + 64), Memory::pinned(LEN), Memory::pinned(64));
    source.fill(7);
    let model = capture(stream, || {
        ok(aclrtMemcpyAsync(data.addr, LEN, source.addr, LEN, D2H, stream));
        ok(aclrtMemcpyAsync(flag.addr, 8, source.addr + LEN, 8, D2H, stream));
    });
    for _ in 0..10 {
        data.fill(0);
        flag.fill(0);
        ok(aclmdlRIExecuteAsync(model, stream));
        // SAFETY: memory of this test's, which the copy writes.
        eventually("the flag", || unsafe { (flag.addr as *const u8).read_volatile() } == 7);
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        data.assert_all(7, "the data was there before the flag");
        finish(stream);
    }
    ok(aclmdlRIDestroy(model));
}

/// An abort that comes while a model is being launched drops all of it: no byte of it moves once a
/// synchronise has told of the abort.
#[test]
fn nothing_moves_after_an_abort_that_met_a_launch() {
    const SUM: i32 = 10;
    const INT32: i32 = 3;
    let context = own_context();
    let (launching, captured, target) = (stream(), stream(), Memory::pinned(4096));
    let (cell, count, one) = (Memory::device(64), Memory::device(4), Memory::device(4));
    [&cell, &count].into_iter().for_each(|memory| memory.fill(0));
    one.write(&1_i32.to_ne_bytes());
    // The wait, which is met at once, makes it a model whose tasks are submitted one by one. The last one
    // counts the executions.
    let model = capture(captured, || {
        ok(aclrtValueWait(cell.addr, 0, 1, captured));
        (1..40).for_each(|byte| ok(aclrtMemsetAsync(target.addr, 4096, byte, 4096, captured)));
        ok(aclrtReduceAsync(count.addr, one.addr, 4, SUM, INT32, captured, 0));
    });
    let runs = || i32::from_ne_bytes(count.read().try_into().expect("four bytes"));
    let (start, rounds) = (std::sync::Barrier::new(2), 0..400);
    let late: i32 = std::thread::scope(|scope| {
        scope.spawn(|| {
            ok(aclrtSetCurrentContext(context));
            for round in rounds.clone() {
                start.wait();
                (0..round % 80 * 100).for_each(|_| std::hint::spin_loop());
                ok(aclrtStreamAbort(launching));
                start.wait();
            }
        });
        let round = |_| {
            start.wait();
            let launched = aclmdlRIExecuteAsync(model, launching);
            start.wait();
            let is_told = aclrtSynchronizeStream(launching) == STREAM_ABORT;
            let before = runs();
            let again = aclmdlRIExecuteAsync(model, launching);
            let finished = aclrtSynchronizeStream(launching);
            // Not asserted here: the other thread would wait for ever.
            let is_well = (launched, again, finished) == (0, 0, 0);
            let late = if is_told { runs() - before - 1 } else { 0 };
            late + if is_well { 0 } else { 1000 }
        };
        rounds.clone().map(round).sum()
    });
    assert_eq!(late, 0, "executions that ran after the abort was told, or 1000 for a call that failed");
}
