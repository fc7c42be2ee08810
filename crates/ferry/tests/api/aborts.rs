//! Stream::abort, and waits with a limit.

use crate::{
    blocker::{A_WHILE, block},
    device, pattern, says,
};
use ferry::Kind;
use std::sync::{
    Arc,
    mpsc::{RecvError, channel},
};

const LEN: usize = 5000;

#[test]
fn dropped_copies_move_nothing_and_give_their_buffers_back() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 1)).unwrap();
    let gate = block(&stream);
    gate.wait_until_reached();
    let up = stream.upload(&there, device.runtime().alloc_host_from(&pattern(LEN, 2)).unwrap()).unwrap();
    let down = stream.download(device.runtime().alloc_host::<u8>(LEN).unwrap(), &there).unwrap();
    let event = stream.record().unwrap();
    stream.abort();
    assert!(up.wait_timeout(1000 * A_WHILE) && down.is_done(), "what was dropped is done");
    for (token, want) in [(up, pattern(LEN, 2)), (down, vec![0; LEN])] {
        let failed = token.wait().unwrap_err();
        says(&failed.error, Kind::Aborted, &["aborted"]);
        assert_eq!(failed.buffer[..], want);
    }
    event.wait().expect("an event behind dropped work is reached");
    gate.unblock();
    // It was told above; the stream goes on.
    stream.synchronize().unwrap();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(LEN, 1), "the upload was dropped");
}

#[test]
fn what_is_dropped_may_abort_its_own_stream() {
    struct Aborts(Arc<ferry::Stream>);
    impl Drop for Aborts {
        fn drop(&mut self) {
            self.0.abort();
        }
    }
    let (_device, stream) = device();
    let stream = Arc::new(stream);
    let gate = block(&stream);
    gate.wait_until_reached();
    let aborts = Aborts(stream.clone());
    stream.call(move || drop(aborts)).unwrap();
    let (tell, told) = channel();
    let same = stream.clone();
    std::thread::spawn(move || {
        same.abort();
        let _ = tell.send(());
    });
    assert!(told.recv_timeout(1000 * A_WHILE).is_ok(), "an abort inside of an abort returns");
    gate.unblock();
    says(&stream.synchronize().unwrap_err(), Kind::Aborted, &[]);
}

#[test]
fn an_abort_that_nobody_was_told_of_is_told_once() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN).unwrap();
    let gate = block(&stream);
    stream.fill(&there, 7).unwrap();
    stream.abort();
    gate.unblock();
    says(&stream.synchronize().unwrap_err(), Kind::Aborted, &[]);
    stream.synchronize().unwrap();
    assert_eq!(stream.read_vec(&there).unwrap(), vec![0; LEN]);
}

#[test]
fn later_work_comes_after_a_function_that_an_abort_met_running() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN).unwrap();
    let gate = block(&stream);
    gate.wait_until_reached();
    stream.abort();
    let token = stream.upload(&there, device.runtime().alloc_host(LEN).unwrap()).unwrap();
    assert!(!token.wait_timeout(A_WHILE), "the function is still running");
    gate.unblock();
    token.wait().unwrap();
}

#[test]
fn functions_that_are_dropped_drop_what_they_hold() {
    let (_, stream) = device();
    let gate = block(&stream);
    gate.wait_until_reached();
    let (tell, hear) = channel::<()>();
    let held = Arc::new(());
    let moved = held.clone();
    // What is heard goes last.
    stream.call(move || drop((moved, tell))).unwrap();
    stream.abort();
    gate.unblock();
    assert_eq!(hear.recv(), Err(RecvError), "not run");
    let _ = stream.synchronize();
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn waits_with_a_limit_say_that_it_took_longer() {
    let (device, stream) = device();
    let there = device.alloc::<u8>(LEN).unwrap();
    let gate = block(&stream);
    let token = stream.upload(&there, device.runtime().alloc_host(LEN).unwrap()).unwrap();
    let event = stream.record().unwrap();
    says(&stream.synchronize_timeout(A_WHILE).unwrap_err(), Kind::Timeout, &[]);
    assert!(!token.wait_timeout(A_WHILE) && !event.wait_timeout(A_WHILE) && !stream.is_idle());
    // A limit of nothing asks, and the longest there is does not overflow.
    assert!(!token.wait_timeout(std::time::Duration::ZERO));
    gate.unblock();
    assert!(token.wait_timeout(std::time::Duration::MAX) && event.wait_timeout(std::time::Duration::MAX));
    stream.synchronize_timeout(std::time::Duration::MAX).unwrap();
    assert!(stream.is_idle());
    token.wait().unwrap();
}
