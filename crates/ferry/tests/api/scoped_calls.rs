//! Functions of a scope borrow too: the scope is not over before they are gone, run or not.

use crate::{
    blocker::{A_WHILE, block},
    device, pattern, says,
    scoped::is_held,
};
use ferry::{Kind, Result};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::channel,
    },
    thread,
};

const LEN: usize = 5000;

#[test]
fn functions_run_in_their_place_among_the_copies() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 1)).unwrap();
    let mut host = device.runtime().alloc_host::<u8>(LEN).unwrap();
    let seen = Mutex::new(Vec::new());
    is_held(&stream, |over| {
        stream.scope(|scope| {
            scope.call(|| seen.lock().unwrap().push("first"))?;
            scope.download(&mut host, &there)?;
            scope.call(|| seen.lock().unwrap().push("last"))?;
            over.send(()).unwrap();
            Ok(())
        })
    })
    .unwrap();
    assert_eq!(*seen.lock().unwrap(), ["first", "last"]);
    assert_eq!(host[..], pattern(LEN, 1));
}

/// An abort lets the stream pass a function that runs.
#[test]
fn a_scope_is_not_over_while_a_function_runs_on_an_aborted_stream() {
    let (_, stream) = device();
    let mut local = vec![0; LEN];
    let (go, wait) = channel::<()>();
    let (tell_running, running) = channel();
    let (tell_end, end) = channel();
    let result = thread::scope(|threads| {
        let borrowed = &mut local;
        let on = &stream;
        let run = threads.spawn(move || {
            let result = on.scope(|scope| {
                scope.call(move || {
                    tell_running.send(()).unwrap();
                    let _ = wait.recv();
                    borrowed.fill(7);
                })
            });
            let _ = tell_end.send(());
            result
        });
        running.recv().unwrap();
        stream.abort();
        assert!(stream.is_idle());
        assert!(end.recv_timeout(A_WHILE).is_err(), "over with a borrow in use");
        drop(go);
        run.join().unwrap()
    });
    assert_eq!(local, vec![7; LEN], "it went on to its end");
    // Whether the abort is told for a function that ran to its end is not promised.
    assert!(result.is_ok() || result.unwrap_err().kind == Kind::Aborted);
}

#[test]
fn functions_that_are_dropped_are_gone_with_what_they_hold() {
    struct Touch<'a>(&'a AtomicUsize);
    impl Drop for Touch<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let (_, stream) = device();
    let (touched, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let gate = block(&stream);
    gate.wait_until_reached();
    let result = stream.scope(|scope| {
        for _ in 0..10 {
            let touch = Touch(&touched);
            let ran = &ran;
            scope.call(move || {
                ran.fetch_add(1, Ordering::SeqCst);
                drop(touch);
            })?;
        }
        stream.abort();
        Ok(())
    });
    assert_eq!((ran.into_inner(), touched.into_inner()), (0, 10));
    says(&result.unwrap_err(), Kind::Aborted, &[]);
    gate.unblock();
}

#[test]
fn a_function_that_panics_ends_its_borrows_and_fails_the_scope() {
    let (_, stream) = device();
    let mut local = [0; 4];
    let borrowed = &mut local;
    let result = stream.scope(|scope| {
        scope.call(move || {
            borrowed[0] = 1;
            panic!("on purpose, in a scope's function");
        })
    });
    let error = result.unwrap_err();
    assert!(error.note.contains("panicked"), "{error}");
    assert_eq!(local, [1, 0, 0, 0]);
}

/// What a function of the scope lends is lent as well, when the body is long over: also if that ends badly.
#[test]
fn copies_that_a_function_submits_are_waited_for() {
    enum End {
        Well,
        Err,
        Panic,
    }
    for (name, end) in [("well", End::Well), ("with an error", End::Err), ("with a panic", End::Panic)] {
        let (device, stream) = device();
        let there = device.alloc_from(&pattern(LEN, 2)).unwrap();
        let mut host = device.runtime().alloc_host::<u8>(LEN).unwrap();
        let (tell_lent, lent) = channel();
        let (tell_end, over) = channel();
        // The copy that the function submits comes to stand behind a second gate, which the function puts
        // there.
        thread::scope(|threads| {
            let (on, from, to) = (&stream, &there, &mut host);
            let first = block(&stream);
            let run = threads.spawn(move || {
                let ended = catch_unwind(AssertUnwindSafe(|| {
                    on.scope(|scope| -> Result<()> {
                        scope.call(move || {
                            let gate = block(scope.stream());
                            drop(scope.download(to, from).unwrap());
                            tell_lent.send(gate).unwrap();
                        })?;
                        match end {
                            End::Well => Ok(()),
                            End::Err => Err(Kind::Unsupported.because("what the body says")),
                            End::Panic => panic!("in the body of a scope"),
                        }
                    })
                }));
                let _ = tell_end.send(());
                drop(ended);
            });
            first.unblock();
            let second = lent.recv().unwrap();
            assert!(
                over.recv_timeout(A_WHILE).is_err(),
                "ended {name}: the scope is over with a copy in flight"
            );
            second.unblock();
            run.join().unwrap();
        });
        assert_eq!(host[..], pattern(LEN, 2), "{name}");
    }
}
