//! Two threads end, destroy or execute the same capture or model at the same moment.

use super::*;
use ferry_tests::code::*;
use std::ffi::c_void;
use std::sync::{
    Barrier,
    atomic::{AtomicBool, Ordering::SeqCst},
};

const ROUNDS: usize = 2000;

/// What two calls return that begin together, in two threads of the context.
fn together<T: Send, U>(
    context: usize,
    elsewhere: impl FnOnce() -> T + Send,
    here: impl FnOnce() -> U,
) -> (T, U) {
    let start = Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            ok(aclrtSetCurrentContext(context));
            start.wait();
            elsewhere()
        });
        start.wait();
        let mine = here();
        (other.join().expect("no panic"), mine)
    })
}

/// Ends the capture of a stream: the code and the model.
fn try_end(stream: usize) -> (i32, usize) {
    let mut model = 1;
    let code = aclmdlRICaptureEnd(stream, &mut model);
    (code, model)
}

// proves: G4
#[test]
fn of_two_threads_that_end_a_capture_one_gets_the_model() {
    let context = own_context();
    let (stream, memory) = (stream(), Memory::device(64));
    for round in 0..ROUNDS {
        ok(aclmdlRICaptureBegin(stream, RELAXED));
        ok(aclrtMemsetAsync(memory.addr, 64, 7, 64, stream));
        let (one, other) = together(context, || try_end(stream), || try_end(stream));
        let (first, second) = if one.0 == 0 { (one, other) } else { (other, one) };
        assert_eq!((first.0, second), (0, (CAPTURE_UNMATCHED, 0)), "round {round}");
        run(first.1, stream);
        ok(aclmdlRIDestroy(first.1));
    }
    drop(message());
    memory.assert_all(7, "the model has the task");
}

// proves: G4
#[test]
fn a_capture_that_another_thread_ends_at_once_is_a_model() {
    let context = own_context();
    let stream = stream();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ok(aclrtSetCurrentContext(context));
            for round in 0..ROUNDS {
                let model = loop {
                    match try_end(stream) {
                        (SUCCESS, model) => break model,
                        (code, _) => assert_eq!(code, CAPTURE_UNMATCHED, "round {round}"),
                    }
                };
                // The call that began it may not have returned.
                for _ in 0..10 {
                    ok(aclmdlRIExecute(model, -1));
                }
                ok(aclmdlRIDestroy(model));
            }
            drop(message());
        });
        for _ in 0..ROUNDS {
            ok(aclmdlRICaptureBegin(stream, RELAXED));
            eventually("the other thread ends it", || info(stream).0 == NONE);
        }
    });
}

// proves: G32
#[test]
fn a_model_is_executed_or_destroyed_and_not_both() {
    let context = own_context();
    let stream = stream();
    static IS_DESTROYED: AtomicBool = AtomicBool::new(false);
    static RAN_LATE: AtomicBool = AtomicBool::new(false);
    unsafe extern "C" fn destroyed(_: *mut c_void) {
        IS_DESTROYED.store(true, SeqCst);
    }
    unsafe extern "C" fn task(_: *mut c_void) {
        RAN_LATE.fetch_or(IS_DESTROYED.load(SeqCst), SeqCst);
    }
    for round in 0..ROUNDS {
        IS_DESTROYED.store(false, SeqCst);
        let model = capture(stream, || ok(aclrtLaunchHostFunc(stream, Some(task), 0)));
        ok(aclmdlRIDestroyRegisterCallback(model, Some(destroyed), 0));
        let destroy = || aclmdlRIDestroy(model);
        let codes = together(context, destroy, || aclmdlRIExecuteAsync(model, stream));
        // The execution may be over when the model is destroyed.
        finish(stream);
        assert!(!RAN_LATE.load(SeqCst), "round {round}: ran after its destroy callbacks, {codes:?}");
        match codes {
            (SUCCESS, SUCCESS | RT_PARAM_INVALID) => {}
            (MODEL_RUNNING, SUCCESS) => ok(aclmdlRIDestroy(model)),
            other => panic!("round {round}: {other:?}"),
        }
    }
    drop(message());
}

// proves: G32
#[test]
fn of_two_threads_that_destroy_a_model_one_does() {
    let context = own_context();
    let stream = stream();
    for round in 0..ROUNDS {
        let model = capture(stream, || {});
        let destroy = || aclmdlRIDestroy(model);
        let mut codes: [i32; 2] = together(context, destroy, destroy).into();
        codes.sort_unstable();
        assert_eq!(codes, [SUCCESS, RT_PARAM_INVALID], "round {round}");
    }
    drop(message());
}

// proves: G29
#[test]
fn a_stream_that_is_aborted_again_and_again_costs_others_no_execution() {
    const LAUNCHES: i32 = 300;
    let context = own_context();
    let (main, side) = (stream(), stream());
    let sum = Memory::device(64);
    let one = Memory::holding(Home::Device, &1i32.to_ne_bytes().repeat(16));
    // Once with a branch beside the launching stream, once with all tasks in streams of the model's own.
    for is_detached in [false, true] {
        sum.write(&0i32.to_ne_bytes().repeat(16));
        let told = event_of_models();
        let model = capture(main, || {
            fork(event(), main, side);
            ok(aclrtReduceAsync(sum.addr, one.addr, 64, 10, 3, side, 0));
            fork(event(), side, main);
            if is_detached {
                ok(aclrtRecordEventWithFlag(told, main, 1));
            }
        });
        let (is_over, aborted) = (AtomicBool::new(false), stream());
        let launch_all = || {
            ok(aclrtSetCurrentContext(context));
            let stream = stream();
            for launch in 0..LAUNCHES {
                ok(aclmdlRIExecuteAsync(model, stream));
                if launch % 16 == 0 {
                    finish(stream);
                }
            }
            finish(stream);
        };
        let dropped = std::thread::scope(|scope| {
            let _ends = SetWhenDropped(&is_over);
            let others = [(); 2].map(|()| scope.spawn(launch_all));
            let mut launches = 0;
            let aborting = scope.spawn(|| {
                ok(aclrtSetCurrentContext(context));
                while !is_over.load(SeqCst) {
                    ok(aclrtStreamAbort(aborted));
                }
            });
            while !others.iter().all(|other| other.is_finished()) {
                ok(aclmdlRIExecuteAsync(model, aborted));
                launches += 1;
            }
            is_over.store(true, SeqCst);
            aborting.join().expect("no panic");
            others.into_iter().for_each(|other| other.join().expect("no execution of the others is lost"));
            ok(aclrtStreamAbort(aborted));
            aclrtSynchronizeStream(aborted);
            drop(message());
            launches
        });
        let ran = i32::from_ne_bytes(sum.read()[..4].try_into().expect("four bytes"));
        assert!((2 * LAUNCHES..=2 * LAUNCHES + dropped).contains(&ran), "{ran} ran, {dropped} were aborted");
        ok(aclmdlRIDestroy(model));
    }
}

/// Ends a loop of another thread even if this one panics.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// An event that models record for streams outside.
fn event_of_models() -> usize {
    let mut event = 0;
    ok(aclrtCreateEventExWithFlag(&mut event, 1));
    event
}
