//! Many threads and streams capture, execute and ask at the same time.

use super::*;
use ferry_tests::code::*;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::thread::spawn;

const LEN: usize = 1024;

#[test]
fn captures_in_parallel_do_not_disturb_each_other() {
    let context = own_context();
    let threads: Vec<_> = (1..5u8)
        .map(|byte| {
            spawn(move || {
                ok(aclrtSetCurrentContext(context));
                exchange(RELAXED);
                let (main, side) = (stream(), stream());
                let (from, one, two) = (Memory::pinned(LEN), Memory::device(LEN), Memory::pinned(LEN));
                from.fill(byte);
                for round in 0..60u8 {
                    ok(aclmdlRICaptureBegin(main, i32::from(round % 3)));
                    let (forked, joined) = (event(), event());
                    copy(&one, &from, main);
                    fork(forked, main, side);
                    copy(&two, &one, side);
                    fork(joined, side, main);
                    let model = end(main);
                    two.fill(0);
                    for _ in 0..3 {
                        run(model, side);
                    }
                    two.assert_all(byte, "of this thread");
                    ok(aclmdlRIDestroy(model));
                    [forked, joined].into_iter().for_each(|event| ok(aclrtDestroyEvent(event)));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
}

/// One thread begins and ends, others submit, ask, use the default stream and break things: no call may
/// crash, hang, or give a code that the rules do not have.
#[test]
fn calls_that_race_with_begin_and_end_are_captured_refused_or_eager() {
    let context = own_context();
    let (main, side, (one, two, pinned)) = (stream(), stream(), buffers(LEN));
    let (forked, stop) = (event(), Arc::new(AtomicBool::new(false)));
    type Call = Box<dyn Fn() -> i32 + Send>;
    let calls: [(Call, &[i32]); 5] = [
        (Box::new(move || try_copy(&one, &pinned, main)), &[0, CAPTURE_INVALIDATED, RT_PARAM_INVALID]),
        (Box::new(move || try_copy(&two, &one, 0)), &[0, CAPTURE_IMPLICIT]),
        (Box::new(move || aclrtQueryEventStatus(forked, &mut 0)), &[0, EVENT_CAPTURED]),
        (Box::new(move || aclrtStreamQuery(side, &mut 0)), &[0, STREAM_CAPTURED]),
        (Box::new(move || aclmdlRICaptureGetInfo(main, &mut 0, &mut 0)), &[0]),
    ];
    let threads: Vec<_> = calls
        .into_iter()
        .enumerate()
        .map(|(number, (call, codes))| {
            let stop = stop.clone();
            spawn(move || {
                ok(aclrtSetCurrentContext(context));
                while !stop.load(SeqCst) {
                    let code = call();
                    let said = message().unwrap_or_default();
                    assert!(codes.contains(&code), "call {number}: {code}, {said}");
                    std::thread::yield_now();
                }
            })
        })
        .collect();
    let mut whole = 0;
    for _ in 0..400 {
        ok(aclmdlRICaptureBegin(main, RELAXED));
        let then = |code: i32| {
            std::thread::yield_now(); // to the threads that disturb
            code
        };
        let captured = [
            then(aclrtRecordEvent(forked, main)),
            then(aclrtStreamWaitEvent(side, forked)),
            then(aclrtRecordEvent(forked, side)),
            then(aclrtStreamWaitEvent(main, forked)),
        ];
        let known = [0, CAPTURE_INVALIDATED, CAPTURE_DEPENDENCY, EVENT_CAPTURED];
        assert!(captured.iter().all(|code| known.contains(code)), "{captured:?}");
        let mut model = 0;
        match aclmdlRICaptureEnd(main, &mut model) {
            0 => {
                whole += 1;
                ok(aclmdlRIExecuteAsync(model, side));
                finish(side);
                ok(aclmdlRIDestroy(model));
            }
            code => assert!([CAPTURE_INVALIDATED, STREAM_UNJOINED].contains(&code), "{code}"),
        }
        assert_eq!((info(main), info(side)), ((NONE, 0), (NONE, 0)));
    }
    stop.store(true, SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    drop(message());
    finish(main);
    copy(&two, &one, 0);
    finish(0);
    println!("{whole} of 400 captures were whole");
}

#[test]
fn one_model_is_executed_by_many_threads_at_once() {
    let context = own_context();
    let main = stream();
    let sum = Memory::device(64);
    sum.write(&0i32.to_ne_bytes().repeat(16));
    let one = Memory::holding(Home::Device, &1i32.to_ne_bytes().repeat(16));
    let model = capture(main, || ok(aclrtReduceAsync(sum.addr, one.addr, 64, 10, 3, main, 0)));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            spawn(move || {
                ok(aclrtSetCurrentContext(context));
                let stream = stream();
                for turn in 0..100 {
                    match turn % 10 {
                        0 => ok(aclmdlRIExecute(model, -1)),
                        _ => ok(aclmdlRIExecuteAsync(model, stream)),
                    }
                }
                finish(stream);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    sum.assert_holds(&400i32.to_ne_bytes().repeat(16), "none was lost, none ran twice");
    ok(aclmdlRIDestroy(model));
}

// proves: G18
/// Whatever the moment, work on the default stream runs or is refused, and neither waits for the other.
#[test]
fn captures_come_and_go_while_the_default_stream_is_used() {
    let context = own_context();
    let (source, device) = (Memory::pinned(64), Memory::device(64));
    let (is_over, refusals) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ok(aclrtSetCurrentContext(context));
            while !is_over.load(Relaxed) {
                let code = aclrtMemcpyAsync(device.addr, 64, source.addr, 64, kind::H2D, 0);
                match code {
                    SUCCESS => {}
                    CAPTURE_IMPLICIT => drop(refusals.fetch_add(1, Relaxed)),
                    other => panic!("{other}"),
                }
            }
        });
        for round in 0..2000 {
            let (stream, mut model) = (stream(), 0);
            let before = refusals.load(Relaxed);
            ok(aclmdlRICaptureBegin(stream, GLOBAL));
            if round % 50 == 0 {
                eventually("a refusal", || refusals.load(Relaxed) > before);
            }
            match aclmdlRICaptureEnd(stream, &mut model) {
                SUCCESS => ok(aclmdlRIDestroy(model)),
                code => assert_eq!((code, model), (CAPTURE_INVALIDATED, 0), "G4, G19"),
            }
            ok(aclrtDestroyStream(stream));
        }
        is_over.store(true, Relaxed);
    });
    finish(0);
}
