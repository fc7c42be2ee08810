//! Buffers that go from stream to stream, and what is told of them; functions whose leftovers misbehave.

use crate::{blocker::block, device, says};
use ferry::{Kind, Stream};
use std::{
    panic::panic_any,
    sync::{
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

/// The copy that was to fill the buffer was dropped, so what went on from there is not what was asked for:
/// the token says so, whichever stream it is on by then.
#[test]
fn what_went_wrong_on_an_earlier_stream_is_told() {
    for is_done_before in [false, true] {
        let (device, first) = device();
        let [second, third] = [device.stream().unwrap(), device.stream().unwrap()];
        let (new, copy) = (device.alloc_from(&[7_u8]).unwrap(), device.alloc_zeroed::<u8>(1).unwrap());
        let gate = block(&first);
        gate.wait_until_reached();
        let token = first.download(device.runtime().alloc_host_from(&[1_u8]).unwrap(), &new).unwrap();
        let stop = move || {
            first.abort();
            gate.unblock();
        };
        let token = if is_done_before {
            stop();
            second.upload(&copy, token).unwrap()
        } else {
            let token = second.upload(&copy, token).unwrap();
            stop();
            token
        };
        let token = third.upload(&copy, token).unwrap();
        let failed = token.wait().unwrap_err();
        says(&failed.error, Kind::Aborted, &["aborted"]);
        assert_eq!(failed.buffer[..], [1], "nothing came");
    }
}

/// An abort from another thread drops the wait for the other stream together with the copy, or neither.
#[test]
fn an_abort_never_lets_a_copy_overtake_the_copy_before_it() {
    let (device, first) = device();
    let second = device.stream().unwrap();
    let (new, copy) = (device.alloc_from(&[7_u8; LEN]).unwrap(), device.alloc::<u8>(LEN).unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                second.abort();
            }
        });
        let _end = Raise(&is_over);
        let mut host = device.runtime().alloc_host::<u8>(LEN).unwrap();
        for _ in 0..1000 {
            host.fill(1);
            let token = first.download(host, &new).unwrap();
            host = match second.upload(&copy, token).unwrap().wait() {
                Ok(host) => {
                    assert_eq!(first.read_vec(&copy).unwrap(), vec![7; LEN], "it was copied before it came");
                    host
                }
                Err(failed) => failed.buffer,
            };
        }
    });
}

/// Says that it is over, also to the thread that a failed assertion leaves behind.
struct Raise<'a>(&'a AtomicBool);

impl Drop for Raise<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("on purpose");
        }
    }
}

/// Waits for its stream when it is dropped.
struct Waiter(Stream, mpsc::Sender<()>);

impl Drop for Waiter {
    fn drop(&mut self) {
        let _ = self.0.synchronize();
        let _ = self.1.send(());
    }
}

/// Long enough for the second stream to be at it while the first is.
const LEN: usize = 256 << 10;
const LONG: Duration = Duration::from_secs(60);

#[test]
fn what_a_function_leaves_behind_does_not_stop_its_stream() {
    let (device, stream) = device();
    let other = device.stream().unwrap();
    let gate = block(&other);
    // Queued behind a wait, so that an abort drops it.
    stream.wait_for(&other.record().unwrap()).unwrap();
    let (bomb, (tell, told)) = (Bomb, mpsc::channel());
    let waiter = Waiter(stream.clone(), tell);
    stream.call(move || drop((bomb, waiter))).unwrap();
    stream.abort();
    told.recv_timeout(LONG).expect("its destructor has waited for the stream and come to an end");
    gate.unblock();
    // A panic whose message panics when it is dropped.
    stream.call(|| panic_any(Bomb)).unwrap();
    let (tell, told) = mpsc::channel();
    stream.call(move || tell.send(()).unwrap()).unwrap();
    told.recv_timeout(LONG).expect("the stream goes on");
    assert!(stream.synchronize().is_err(), "the panic, or the abort, is told");
}
