//! Executions: where they are launched, one after the other, blocking or not; names, ids, aborts, the end.

use super::*;
use ferry_tests::code::*;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

const PERSISTENT: u32 = 4;

// proves: G27
#[test]
fn a_model_runs_as_a_task_of_any_stream_of_its_context() {
    own_context();
    let (captured, other, (one, two, pinned)) = (stream(), stream(), buffers(64));
    let model = capture(captured, || copy(&one, &pinned, captured));
    for (byte, stream) in [(5, captured), (6, other), (7, 0)] {
        pinned.fill(byte);
        let hold = block(stream);
        let launched = blocked::call(move || aclmdlRIExecuteAsync(model, stream));
        ok(launched.returned("it returns at once"));
        copy(&two, &one, stream);
        hold.wait_until_reached();
        assert_ne!(one.read(), [byte; 64], "behind what the stream had to do");
        hold.unblock();
        finish(stream);
        two.assert_all(byte, "in front of what the stream got later");
    }
    ok(aclmdlRIDestroy(model));
}

// proves: G27
#[test]
fn errors_of_inner_tasks_surface_at_the_synchronise_of_the_launching_stream() {
    own_context();
    let (main, side, launcher) = (stream(), stream(), stream());
    let (one, two, _) = buffers(64);
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(kind::INNER, &mut size));
    let desc = Memory::device(size);
    for on_side in [false, true] {
        // What a descriptor names is found out when the task runs.
        let gone = Memory::device(64);
        ok(aclrtSetMemcpyDesc(desc.addr, kind::INNER, gone.addr, one.addr, 64, 0));
        let model = capture(main, || {
            fork(event(), main, side);
            ok(aclrtMemcpyAsyncWithDesc(desc.addr, kind::INNER, if on_side { side } else { main }));
            fork(event(), side, main);
        });
        run(model, launcher);
        ok(gone.free());
        ok(aclmdlRIExecuteAsync(model, launcher));
        let got = aclrtSynchronizeStream(launcher);
        assert_ne!(got, 0, "the task failed, on the side: {on_side}");
        [main, side].into_iter().for_each(finish);
        finish(launcher);
        copy(&one, &two, launcher);
        finish(launcher);
        one.assert_all(2, "streams go on");
        ok(aclmdlRIDestroy(model));
    }
}

// proves: G29
#[test]
fn executions_of_one_model_run_one_after_the_other_whichever_streams_launch_them() {
    own_context();
    let streams: Vec<_> = (0..3).map(|_| stream()).collect();
    let sum = Memory::device(64);
    sum.write(&0i32.to_ne_bytes().repeat(16));
    let one = Memory::holding(Home::Device, &1i32.to_ne_bytes().repeat(16));
    let scratch = Memory::device(64);
    // Read, add, write back: executions at the same time would lose some.
    let model = capture(streams[0], || {
        copy(&scratch, &sum, streams[0]);
        ok(aclrtReduceAsync(scratch.addr, one.addr, 64, 10, 3, streams[0], 0));
        copy(&sum, &scratch, streams[0]);
    });
    for turn in 0..300 {
        ok(aclmdlRIExecuteAsync(model, streams[turn % 3]));
    }
    streams.iter().for_each(|stream| finish(*stream));
    sum.assert_holds(&300i32.to_ne_bytes().repeat(16), "each execution saw what the one before it wrote");
    // Again while one is queued: behind it, though its own stream is free.
    let hold = block(streams[0]);
    ok(aclmdlRIExecuteAsync(model, streams[0]));
    ok(aclmdlRIExecuteAsync(model, streams[1]));
    blocked::settle();
    assert_eq!(stream_status(streams[1]), STREAM_NOT_READY, "queued behind the former");
    // Another model is ordered by streams only.
    let other = capture(streams[2], || ok(aclrtMemsetAsync(scratch.addr, 64, 0, 64, streams[2])));
    run(other, streams[2]);
    hold.unblock();
    streams.iter().for_each(|stream| finish(*stream));
    [model, other].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
}

// proves: G30
#[test]
fn a_blocking_execution_waits_as_long_as_it_is_told() {
    own_context();
    let (stream, (one, two, _)) = (stream(), buffers(64));
    let model = capture(stream, || copy(&one, &two, stream));
    for timeout in [-1, 60_000] {
        one.fill(0);
        ok(aclmdlRIExecute(model, timeout));
        one.assert_all(2, "done when the call returns");
    }
    for bad in [0, -2, i32::MIN] {
        refused("timeout", aclmdlRIExecute(model, bad), RT_PARAM_INVALID, &[&bad.to_string()]);
    }
    let (blocker, held) = held_model(stream);
    refused("timeout", aclmdlRIExecute(held, 20), STREAM_SYNC_TIMEOUT, &["20 ms", "model"]);
    expect("it still runs", aclmdlRIDestroy(held), MODEL_RUNNING);
    blocker.go();
    eventually("the execution ends", || aclmdlRIDestroy(held) == 0);
    drop(message());
    ok(aclmdlRIDestroy(model));
}

/// A function of a model that waits until a test says so, at every execution.
pub(crate) struct Held(&'static (std::sync::Mutex<bool>, std::sync::Condvar));

impl Held {
    /// Lets the function return, now and at later executions.
    pub(crate) fn go(&self) {
        *self.0.0.lock().expect("no panic") = true;
        self.0.1.notify_all();
    }

    /// Puts the function into a stream.
    pub(crate) fn on(stream: usize) -> Held {
        let held = Held(Box::leak(Box::default()));
        unsafe extern "C" fn wait(data: *mut c_void) {
            // SAFETY: leaked above.
            let (state, changed) = unsafe { &*data.cast::<(std::sync::Mutex<bool>, std::sync::Condvar)>() };
            let limit = std::time::Duration::from_secs(60);
            let state = state.lock().expect("no panic");
            drop(changed.wait_timeout_while(state, limit, |may_go| !*may_go));
        }
        ok(aclrtLaunchHostFunc(stream, Some(wait), held.0 as *const _ as usize));
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.go();
    }
}

/// A model whose executions wait until a test says so.
fn held_model(stream: usize) -> (Held, usize) {
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    let held = Held::on(stream);
    (held, end(stream))
}

// proves: G31
#[test]
fn models_that_are_captured_unknown_destroyed_or_elsewhere_are_not_executed() {
    let first = own_context();
    let (stream, one) = (stream(), Memory::device(64));
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    let model = info(stream).1;
    let other = super::stream();
    for code in [aclmdlRIExecuteAsync(model, other), aclmdlRIExecute(model, -1)] {
        expect("during its own capture", code, MODEL_CAPTURED);
    }
    ok(aclrtMemsetAsync(one.addr, 64, 1, 64, stream));
    assert_eq!(end(stream), model);
    for bad in [0, 0x1234, stream, usize::MAX] {
        for (what, code) in [
            ("async", aclmdlRIExecuteAsync(bad, stream)),
            ("blocking", aclmdlRIExecute(bad, -1)),
            ("destroy", aclmdlRIDestroy(bad)),
            ("abort", aclmdlRIAbort(bad)),
            ("id", aclmdlRIGetId(bad, &mut 0)),
            ("print", aclmdlRIDebugPrint(bad)),
            ("json", aclmdlRIDebugJsonPrint(bad, c"/tmp/x".as_ptr(), 0)),
            ("name", aclmdlRISetName(bad, c"x".as_ptr())),
        ] {
            assert_eq!(code, RT_PARAM_INVALID, "{what} of {bad:#x}");
        }
    }
    for device in [0, 1] {
        context_of(device);
        let there = super::stream();
        expect("another context", aclmdlRIExecuteAsync(model, there), STREAM_CONTEXT);
        expect("its stream", aclmdlRIExecuteAsync(model, stream), STREAM_CONTEXT);
        expect("blocking", aclmdlRIExecute(model, -1), STREAM_CONTEXT);
    }
    ok(aclrtSetCurrentContext(first));
    run(model, stream);
    ok(aclmdlRIDestroy(model));
    expect("destroyed", aclmdlRIExecuteAsync(model, stream), RT_PARAM_INVALID);
    expect("twice", aclmdlRIDestroy(model), RT_PARAM_INVALID);
}

// proves: G32
#[test]
fn a_model_is_destroyed_when_nothing_of_it_is_queued_and_its_callbacks_run_once() {
    own_context();
    let (stream, (one, two, _)) = (stream(), buffers(64));
    let calls: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    unsafe extern "C" fn count(data: *mut c_void) {
        // SAFETY: the leaked counter.
        unsafe { &*data.cast::<AtomicU32>() }.fetch_add(1, SeqCst);
    }
    unsafe extern "C" fn never(_: *mut c_void) {
        unreachable!("was taken back")
    }
    let at = calls as *const AtomicU32 as usize;
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    expect("during its capture", aclmdlRIDestroy(info(stream).1), MODEL_CAPTURED);
    copy(&one, &two, stream);
    let model = end(stream);
    ok(aclmdlRIDestroyRegisterCallback(model, Some(count), at));
    ok(aclmdlRIDestroyRegisterCallback(model, Some(count), at));
    ok(aclmdlRIDestroyRegisterCallback(model, Some(never), 0));
    ok(aclmdlRIDestroyUnregisterCallback(model, Some(never)));
    expect("not there", aclmdlRIDestroyUnregisterCallback(model, Some(never)), RT_PARAM_INVALID);
    let hold = block(stream);
    ok(aclmdlRIExecuteAsync(model, stream));
    refused("queued", aclmdlRIDestroy(model), MODEL_RUNNING, &["synchronise"]);
    hold.unblock();
    finish(stream);
    assert_eq!(calls.load(SeqCst), 0, "a refused destroy runs none");
    ok(aclmdlRIDestroy(model));
    assert_eq!(calls.load(SeqCst), 2, "each once");
}

// proves: G33
#[test]
fn models_have_names_and_ids() {
    own_context();
    let stream = stream();
    let (first, second) = (capture(stream, || {}), capture(stream, || {}));
    let name = |room: u32| {
        let mut text = [0x7f; 600];
        ok(aclmdlRIGetName(first, room, text.as_mut_ptr()));
        // SAFETY: a C string ends within the array.
        unsafe { CStr::from_ptr(text.as_ptr()) }.to_bytes().to_vec()
    };
    assert_eq!(name(600), b"", "unset");
    ok(aclmdlRISetName(first, c"one".as_ptr()));
    ok(aclmdlRISetName(first, c"other".as_ptr()));
    assert_eq!(name(600), b"other", "the last set wins");
    assert_eq!(name(3), b"ot", "as much as there is room for");
    let long = std::ffi::CString::new(vec![b'x'; 600]).expect("no NUL");
    ok(aclmdlRISetName(first, long.as_ptr()));
    assert_eq!(name(600), vec![b'x'; 512], "longer ones are cut");
    expect("no room", aclmdlRIGetName(first, 0, &mut 0), RT_PARAM_INVALID);
    let (mut one, mut two) = (0, 0);
    ok(aclmdlRIGetId(first, &mut one));
    ok(aclmdlRIGetId(second, &mut two));
    assert_ne!(one, two);
    // Asked during the capture, as torch_npu does.
    ok(aclmdlRICaptureBegin(stream, GLOBAL));
    let (mut early, mut late) = (0, 0);
    ok(aclmdlRIGetId(info(stream).1, &mut early));
    let third = end(stream);
    ok(aclmdlRIGetId(third, &mut late));
    assert_eq!(early, late);
    [first, second, third].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
}

/// A built model and its head stream: it fills the memory, which has zeroes, with ones when it is let go.
fn built_and_held(memory: &Memory) -> (usize, usize, Held) {
    let (mut built, mut head) = (0, 0);
    ok(aclrtCreateStreamWithConfig(&mut head, 0, PERSISTENT));
    ok(aclmdlRIBuildBegin(&mut built, 0));
    ok(aclmdlRIBindStream(built, head, 0));
    let held = Held::on(head);
    ok(aclrtMemsetAsync(memory.addr, 64, 1, 64, head));
    ok(aclmdlRIEndTask(built, head));
    ok(aclmdlRIBuildEnd(built, 0));
    memory.fill(0);
    (built, head, held)
}

// proves: G34
#[test]
fn only_built_models_are_aborted_and_run_again_afterwards() {
    own_context();
    let (main, memory) = (stream(), Memory::device(64));
    let captured = capture(main, || {});
    refused("captured", aclmdlRIAbort(captured), FEATURE_NOT_SUPPORT, &["built"]);
    let (built, head, held) = built_and_held(&memory);
    ok(aclmdlRIExecuteAsync(built, main));
    ok(aclmdlRIAbort(built));
    held.go();
    refused("what was dropped is told", aclrtSynchronizeStream(main), STREAM_ABORT, &["model was aborted"]);
    memory.assert_all(0, "it was stopped");
    run(built, main);
    memory.assert_all(1, "it runs again");
    ok(aclmdlRIAbort(built));
    run(built, main);
    ok(aclmdlRIUnbindStream(built, head));
    [captured, built].into_iter().for_each(|model| ok(aclmdlRIDestroy(model)));
}

#[test]
fn an_abort_of_the_launching_stream_stops_the_model_with_it() {
    own_context();
    let (main, side, launcher) = (stream(), stream(), stream());
    let (one, two, mut notify) = (Memory::device(64), Memory::device(64), 0);
    ok(aclrtCreateNotify(&mut notify, 0));
    [one, two].into_iter().for_each(|memory| memory.fill(0));
    let model = capture(main, || {
        fork(event(), main, side);
        ok(aclrtWaitAndResetNotify(notify, side, 0));
        ok(aclrtMemsetAsync(one.addr, 64, 1, 64, side));
        fork(event(), side, main);
        ok(aclrtMemsetAsync(two.addr, 64, 1, 64, main));
    });
    ok(aclmdlRIExecuteAsync(model, launcher));
    ok(aclmdlRIExecuteAsync(model, launcher));
    let other = stream();
    ok(aclmdlRIExecuteAsync(model, other));
    expect("queued", aclmdlRIDestroy(model), MODEL_RUNNING);
    ok(aclrtStreamAbort(launcher));
    expect("told", aclrtSynchronizeStream(launcher), STREAM_ABORT);
    blocked::settle();
    [one, two].into_iter().for_each(|memory| memory.assert_all(0, "nothing of it moves any more"));
    // The other stream's is not dropped with it: it waits for the notify that the dropped ones did not get.
    assert_eq!(stream_status(other), STREAM_NOT_READY);
    ok(aclrtRecordNotify(notify, launcher));
    finish(other);
    [one, two].into_iter().for_each(|memory| memory.assert_all(1, "that of the other stream"));
    [one, two].into_iter().for_each(|memory| memory.fill(0));
    ok(aclrtRecordNotify(notify, other));
    run(model, launcher);
    [one, two].into_iter().for_each(|memory| memory.assert_all(1, "both can be used again"));
    ok(aclmdlRIDestroy(model));
}

/// How a stream loses what it has.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Abort,
    ForcedEnd,
}

// proves: G29
#[test]
fn a_stream_that_loses_its_execution_takes_none_of_other_streams_with_it() {
    for (is_forked, loss) in [(false, Loss::Abort), (true, Loss::Abort), (true, Loss::ForcedEnd)] {
        own_context();
        let (main, side, [first, second, third]) = (stream(), stream(), [(); 3].map(|()| stream()));
        let (runs, mut notify) = (Memory::device(64), 0);
        ok(aclrtCreateNotify(&mut notify, 0));
        let one = Memory::holding(Home::Device, &1i32.to_ne_bytes().repeat(16));
        let model = capture(main, || {
            ok(aclrtWaitAndResetNotify(notify, main, 0));
            let works = if is_forked { side } else { main };
            if is_forked {
                fork(event(), main, side);
            }
            ok(aclrtReduceAsync(runs.addr, one.addr, 64, 10, 3, works, 0));
            if is_forked {
                fork(event(), side, main);
            }
        });
        let count = |number: i32| number.to_ne_bytes().repeat(16);
        // In turn, the one that runs is lost, one in the middle, and the last.
        for (lost, others) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
            let what = format!("{loss:?} of number {lost}, forked: {is_forked}");
            runs.write(&count(0));
            let mut launchers = [first, second, third];
            if matches!(loss, Loss::ForcedEnd) {
                launchers[lost] = stream();
            }
            launchers.iter().for_each(|stream| ok(aclmdlRIExecuteAsync(model, *stream)));
            blocked::settle();
            match loss {
                Loss::Abort => {
                    ok(aclrtStreamAbort(launchers[lost]));
                    expect(&what, aclrtSynchronizeStream(launchers[lost]), STREAM_ABORT);
                }
                Loss::ForcedEnd => ok(aclrtDestroyStreamForce(launchers[lost])),
            }
            for (number, other) in others.into_iter().enumerate() {
                ok(aclrtRecordNotify(notify, main));
                finish(launchers[other]);
                runs.assert_holds(&count(number as i32 + 1), &what);
            }
            runs.assert_holds(&count(2), &what);
        }
        eventually("the last execution is over", || aclmdlRIDestroy(model) == 0);
        drop(message());
        ok(aclrtDestroyNotify(notify));
    }
}

// proves: G29 G30
#[test]
fn a_blocking_execution_that_ran_out_of_time_is_not_lost_with_those_of_streams() {
    own_context();
    let (main, [first, second]) = (stream(), [(); 2].map(|()| stream()));
    let (runs, mut notify) = (Memory::device(64), 0);
    ok(aclrtCreateNotify(&mut notify, 0));
    let one = Memory::holding(Home::Device, &1i32.to_ne_bytes().repeat(16));
    let model = capture(main, || {
        ok(aclrtWaitAndResetNotify(notify, main, 0));
        ok(aclrtReduceAsync(runs.addr, one.addr, 64, 10, 3, main, 0));
    });
    runs.write(&0i32.to_ne_bytes().repeat(16));
    expect("waits", aclmdlRIExecute(model, 20), STREAM_SYNC_TIMEOUT);
    [first, second].into_iter().for_each(|stream| ok(aclmdlRIExecuteAsync(model, stream)));
    ok(aclrtStreamAbort(first));
    expect("told", aclrtSynchronizeStream(first), STREAM_ABORT);
    ok(aclrtRecordNotify(notify, main));
    eventually("the first one is done", || runs.read() == 1i32.to_ne_bytes().repeat(16));
    ok(aclrtRecordNotify(notify, main));
    finish(second);
    runs.assert_holds(&2i32.to_ne_bytes().repeat(16), "the aborted one did not run");
    ok(aclmdlRIDestroy(model));
}

// proves: G29 G34
#[test]
fn an_abort_of_a_model_drops_executions_that_wait_for_their_turn() {
    own_context();
    let ([first, second], memory) = ([(); 2].map(|()| stream()), Memory::device(64));
    let (built, head, held) = built_and_held(&memory);
    [first, second].into_iter().for_each(|stream| ok(aclmdlRIExecuteAsync(built, stream)));
    ok(aclmdlRIAbort(built));
    held.go();
    for stream in [first, second] {
        refused("told", aclrtSynchronizeStream(stream), STREAM_ABORT, &["model was aborted"]);
    }
    memory.assert_all(0, "nothing ran");
    [first, second].into_iter().for_each(|stream| ok(aclmdlRIExecuteAsync(built, stream)));
    [first, second].into_iter().for_each(finish);
    memory.assert_all(1, "it runs again");
    ok(aclmdlRIUnbindStream(built, head));
    ok(aclmdlRIDestroy(built));
}

// proves: G30 G34
#[test]
fn a_blocking_execution_answers_for_its_own_run() {
    own_context();
    let (other, mut head, mut notify, memory) = (stream(), 0, 0, Memory::device(64));
    ok(aclrtCreateNotify(&mut notify, 0));
    ok(aclrtCreateStreamWithConfig(&mut head, 0, PERSISTENT));
    let mut built = 0;
    ok(aclmdlRIBuildBegin(&mut built, 0));
    ok(aclmdlRIBindStream(built, head, 0));
    ok(aclrtWaitAndResetNotify(notify, head, 0));
    ok(aclrtMemsetAsync(memory.addr, 64, 9, 64, head));
    ok(aclmdlRIEndTask(built, head));
    ok(aclmdlRIBuildEnd(built, 0));
    for _ in 0..3 {
        memory.fill(1);
        expect("waits", aclmdlRIExecute(built, 20), STREAM_SYNC_TIMEOUT);
        ok(aclmdlRIAbort(built));
        ok(aclrtRecordNotify(notify, other));
        finish(other);
        ok(aclmdlRIExecute(built, 60_000));
        memory.assert_all(9, "the abort was of the one before");
    }
    ok(aclmdlRIDestroy(built));

    // A run that fails when its call has given up.
    let (main, from) = (stream(), Memory::device(64));
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(kind::INNER, &mut size));
    let desc = Memory::device(size);
    let model = capture(main, || {
        ok(aclrtWaitAndResetNotify(notify, main, 0));
        ok(aclrtMemcpyAsyncWithDesc(desc.addr, kind::INNER, main));
    });
    let record = || {
        ok(aclrtRecordNotify(notify, other));
        blocked::settle();
    };
    for is_over in [true, false] {
        let gone = Memory::device(64);
        ok(aclrtSetMemcpyDesc(desc.addr, kind::INNER, gone.addr, from.addr, 64, 0));
        expect("waits", aclmdlRIExecute(model, 20), STREAM_SYNC_TIMEOUT);
        ok(gone.free());
        if is_over {
            record();
        }
        let next = blocked::call(move || aclmdlRIExecute(model, 60_000)).blocked("it waits for the notify");
        if !is_over {
            record();
        }
        ok(aclrtSetMemcpyDesc(desc.addr, kind::INNER, memory.addr, from.addr, 64, 0));
        record();
        assert_eq!(next.join(), 0, "the failure was of the one before, which was over: {is_over}");
    }
    ok(aclmdlRIDestroy(model));
    ok(aclrtDestroyNotify(notify));
}
