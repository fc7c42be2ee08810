//! Who is woken, how often, and what a waker may do.

use crate::kit::{Bell, LIMIT, block, block_on, device, futures, hooked, look_on, poll};
use ferry::{HostBuffer, InFlight, Kind};
use std::{
    future::IntoFuture,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{Arc, Mutex, mpsc::channel},
    task::{Poll, Wake, Waker},
    thread,
};

#[test]
fn only_the_waker_of_the_last_poll_is_woken() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    let gate = block(&stream);
    let (tell, heard) = channel();
    let mut all = Vec::new();
    for (name, mut future) in futures(&stream, &there).expect("submitted") {
        let (first, last) = (Bell::new(), Bell::heard_by(tell.clone()));
        for bell in [&first, &last, &first, &last] {
            assert_eq!(poll(future.as_mut(), &bell.clone().into()), Poll::Pending, "{name}");
        }
        all.push((name, future, first, last));
    }
    assert!(heard.try_recv().is_err(), "the gate is closed");
    gate.unblock();
    all.iter().for_each(|_| heard.recv_timeout(LIMIT).expect("somebody is woken"));
    for (name, mut future, first, last) in all {
        assert_eq!((first.rung(), last.rung()), (0, 1), "{name}");
        assert_eq!(poll(future.as_mut(), &first.clone().into()), Poll::Ready(()), "{name}");
        assert_eq!((first.rung(), last.rung()), (0, 1), "{name}: nothing is left to tell");
    }
}

#[test]
fn polls_that_nobody_asked_for_cost_one_waker_and_one_wake() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    let gate = block(&stream);
    let (tell, heard) = channel();
    for (name, mut future) in futures(&stream, &there).expect("submitted") {
        let bell = Bell::heard_by(tell.clone());
        for _ in 0..1000 {
            assert_eq!(poll(future.as_mut(), &bell.clone().into()), Poll::Pending, "{name}");
        }
        assert_eq!(Arc::strong_count(&bell), 2, "{name}: one is kept");
        // The future stays: dropped, it would not ring.
        std::mem::forget(future);
        std::mem::forget(bell);
    }
    gate.unblock();
    (0..6).for_each(|_| heard.recv_timeout(LIMIT).expect("all are woken"));
    stream.synchronize().expect("done");
    assert!(heard.try_recv().is_err(), "and once each");
}

#[test]
fn a_copy_that_is_done_before_its_future_is_registered_wakes_it() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    for kind in 0..6 {
        let gate = Mutex::new(Some(block(&stream)));
        let (name, mut future) = futures(&stream, &there).expect("submitted").swap_remove(kind);
        let event = stream.record().expect("an event");
        let (tell, heard) = channel();
        // Cloned after the future has seen that it must wait, before anybody knows that it does.
        let waker = hooked(Bell::heard_by(tell), move || {
            drop(gate.lock().expect("whole").take());
            look_on(&event);
        });
        if poll(future.as_mut(), &waker).is_pending() {
            heard.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{name} is lost"));
            assert_eq!(poll(future.as_mut(), &waker), Poll::Ready(()), "{name}");
        }
    }
}

#[test]
fn a_copy_that_is_done_while_its_future_changes_hands_is_not_lost() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    for kind in 0..6 {
        let gate = Mutex::new(Some(block(&stream)));
        let (name, mut future) = futures(&stream, &there).expect("submitted").swap_remove(kind);
        let (tell_first, first) = channel();
        let (tell_second, second) = channel();
        assert_eq!(poll(future.as_mut(), &Bell::heard_by(tell_first).into()), Poll::Pending, "{name}");
        let first = Mutex::new(first);
        // Cloned after the future has seen that it must wait: the first waker is woken before it knows of the
        // second.
        let waker = hooked(Bell::heard_by(tell_second), move || {
            if let Some(gate) = gate.lock().expect("whole").take() {
                gate.unblock();
                first.lock().expect("whole").recv_timeout(LIMIT).expect("the waker known by then");
            }
        });
        if poll(future.as_mut(), &waker).is_pending() {
            second.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{name} is lost"));
            assert_eq!(poll(future.as_mut(), &waker), Poll::Ready(()), "{name}");
        }
    }
}

#[test]
fn a_waker_that_panics_harms_nobody() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics, on purpose");
        }
    }
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    let gate = block(&stream);
    let (tell, heard) = channel();
    let mut all = futures(&stream, &there).expect("submitted");
    let mut more = futures(&stream, &there).expect("submitted");
    for ((_, doomed), (_, other)) in all.iter_mut().zip(&mut more) {
        assert_eq!(poll(doomed.as_mut(), &Arc::new(Bomb).into()), Poll::Pending);
        assert_eq!(poll(other.as_mut(), &Bell::heard_by(tell.clone()).into()), Poll::Pending);
    }
    gate.unblock();
    (0..more.len()).for_each(|_| heard.recv_timeout(LIMIT).expect("the others are woken"));
    for (name, future) in all.iter_mut().chain(&mut more) {
        assert_eq!(poll(future.as_mut(), Waker::noop()), Poll::Ready(()), "{name}");
    }
    stream.write(&there, b"good").expect("the stream goes on");
    stream.synchronize().expect("a waker is not the stream's affair");
    assert_eq!(stream.read_vec(&there).expect("read"), *b"good");
}

/// A waker whose last drop waits for the stream, as a task's might whose memory goes with it.
struct Settler(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Settler {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Settler {
    fn drop(&mut self) {
        self.0.get_mut().expect("whole").take().expect("dropped once")();
    }
}

#[test]
fn a_waker_that_is_replaced_may_wait_for_the_stream_when_it_goes() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    for kind in 0..6 {
        let gate = block(&stream);
        let (name, mut future) = futures(&stream, &there).expect("submitted").swap_remove(kind);
        let event = stream.record().expect("an event");
        let (tell, done) = channel();
        let settle = move || {
            gate.unblock();
            tell.send(event.wait_timeout(LIMIT)).expect("somebody listens");
        };
        let waker = Waker::from(Arc::new(Settler(Mutex::new(Some(Box::new(settle))))));
        assert_eq!(poll(future.as_mut(), &waker), Poll::Pending, "{name}");
        drop(waker);
        // From another thread, so that a deadlock is seen and not joined.
        let polled =
            thread::spawn(move || poll(future.as_mut(), Waker::noop()).is_pending().then_some(future));
        assert!(done.recv_timeout(2 * LIMIT).expect("dropped"), "{name}: the stream stood still");
        if let Some(future) = polled.join().expect("no panic") {
            block_on(future);
        }
    }
}

#[test]
fn a_future_that_is_dropped_lets_go_of_its_waker() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    let gate = block(&stream);
    let bell = Bell::new();
    for (name, mut future) in futures(&stream, &there).expect("submitted") {
        assert_eq!(poll(future.as_mut(), &bell.clone().into()), Poll::Pending, "{name}");
        assert_eq!(Arc::strong_count(&bell), 2, "{name} holds it");
        drop(future);
        assert_eq!(Arc::strong_count(&bell), 1, "{name}: what waits behind the gate holds no task");
    }
    gate.unblock();
    stream.synchronize().expect("done");
    assert_eq!(bell.rung(), 0, "nobody waits any more");
}

#[test]
fn a_future_may_be_polled_on_one_thread_and_finished_on_another() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).expect("memory");
    let gate = block(&stream);
    let mut all = futures(&stream, &there).expect("submitted");
    for _ in 0..3 {
        let mut here = all;
        let poll_all = move || {
            for (name, future) in &mut here {
                assert_eq!(poll(future.as_mut(), &Bell::new().into()), Poll::Pending, "{name}");
            }
            here
        };
        all = thread::spawn(poll_all).join().expect("no panic");
    }
    let waiting: Vec<_> =
        all.into_iter().map(|(_, future)| thread::spawn(move || block_on(future))).collect();
    gate.unblock();
    waiting.into_iter().for_each(|thread| thread.join().expect("woken"));
}

#[test]
fn what_a_future_says_after_its_end() {
    let (device, stream) = device();
    let there = device.alloc_from(b"abc").expect("memory");
    let host = || device.runtime().alloc_host::<u8>(3).expect("memory");
    let done = || {
        let mut token: InFlight<HostBuffer<u8>> = stream.download(host(), &there).expect("sent");
        assert_eq!(block_on(&mut token).expect("copied")[..], *b"abc");
        token
    };
    // A token gives its buffer out once: later copies are refused, and asking again is a bug of the program.
    let mut token = done();
    assert!(token.is_done());
    assert!(catch_unwind(AssertUnwindSafe(|| poll(pin!(&mut token), Waker::noop()).is_ready())).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| token.wait().is_ok())).is_err());
    assert_eq!(stream.upload(&there, done()).expect_err("empty").error.kind, Kind::BadAddress);
    assert_eq!(stream.download(done(), &there).expect_err("empty").error.kind, Kind::BadAddress);
    assert_eq!(done().into_slice(..1).expect_err("empty").error.kind, Kind::BadAddress);

    // The others hold nothing, and say the same again.
    let mut reached = stream.record().expect("an event").into_future();
    let mut synchronized = stream.synchronized();
    block_on(&mut reached);
    block_on(&mut synchronized).expect("nothing failed");
    assert_eq!(poll(pin!(reached), Waker::noop()), Poll::Ready(()));
    assert!(matches!(poll(pin!(synchronized), Waker::noop()), Poll::Ready(Ok(()))));
    stream.synchronize().expect("none of this is the stream's affair");
}
