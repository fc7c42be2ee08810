//! Tokens that later copies take in place of a buffer: the order holds, and the buffer comes back when
//! nothing uses it.

use crate::{
    blocker::{A_WHILE, block},
    device, error, pattern, says,
};
use ferry::{Batch, DeviceBuffer, HostBuffer, InFlight, Kind, Stream};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

const LEN: usize = 5000;

#[test]
fn a_copy_on_the_same_stream_takes_the_token_over() {
    let (device, stream) = device();
    let (a, b) = (device.alloc::<u8>(LEN).unwrap(), device.alloc_from(&pattern(LEN, 2)).unwrap());
    let gate = block(&stream);
    let token = stream.upload(&a, device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap()).unwrap();
    let token = stream.download(token, &b).unwrap();
    gate.unblock();
    assert_eq!(token.wait().unwrap()[..], pattern(LEN, 2));
    assert_eq!(stream.read_vec(&a).unwrap(), pattern(LEN, 1), "read before it was written");
}

#[test]
fn a_copy_on_another_stream_comes_after_the_token_it_took() {
    let (device, first) = device();
    let second = device.stream().unwrap();
    let (a, b) = (device.alloc::<u8>(LEN).unwrap(), device.alloc_from(&pattern(LEN, 2)).unwrap());
    let gate = block(&first);
    let token = first.upload(&a, device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap()).unwrap();
    let token = second.download(token, &b).unwrap();
    assert!(!second.record().unwrap().wait_timeout(A_WHILE), "the second stream waits for the first");
    gate.unblock();
    assert_eq!(token.wait().unwrap()[..], pattern(LEN, 2));
    assert_eq!(first.read_vec(&a).unwrap(), pattern(LEN, 1));
}

#[test]
fn a_token_goes_to_and_fro_as_often_as_one_likes() {
    let (device, first) = device();
    let streams = [first, device.stream().unwrap(), device.stream().unwrap()];
    let there = device.alloc_from(&pattern(LEN, 3)).unwrap();
    let gate = block(&streams[0]);
    let mut token = streams[0].download(device.runtime().alloc_host::<u8>(LEN).unwrap(), &there).unwrap();
    for round in 0..3000 {
        token = streams[round % 3].upload(&there, token).unwrap();
    }
    assert!(!token.is_done());
    gate.unblock();
    assert_eq!(token.wait().unwrap()[..], pattern(LEN, 3));
}

#[test]
fn a_token_that_is_done_needs_no_wait_on_another_stream() {
    let (device, first) = device();
    let (second, there) = (device.stream().unwrap(), device.alloc::<u8>(LEN).unwrap());
    let token = first.upload(&there, device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap()).unwrap();
    first.synchronize().unwrap();
    let gate = block(&first);
    assert!(token.is_done());
    let token = second.upload(&there, token).unwrap();
    token.wait().expect("the first stream stands at the gate, and that is no matter");
    gate.unblock();
}

/// The second stream was told to wait for the first, and an abort dropped that.
#[test]
fn no_copy_of_any_stream_uses_a_buffer_that_comes_back() {
    let (device, first) = device();
    let second = device.stream().unwrap();
    let (a, b) = (device.alloc::<u8>(LEN).unwrap(), device.alloc_from(&pattern(LEN, 2)).unwrap());
    let gate = block(&first);
    let token = first.upload(&a, device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap()).unwrap();
    let token = second.download(token, &b).unwrap();
    second.abort();
    assert!(second.is_idle());
    assert!(!token.is_done(), "the first stream still has to read it");
    assert!(!token.wait_timeout(A_WHILE));
    let mut token = pin!(token);
    assert!(token.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    gate.unblock();
    first.synchronize().unwrap();
    let Poll::Ready(waited) = token.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("both streams are done");
    };
    let failed = waited.expect_err("the download was dropped");
    says(&failed.error, Kind::Aborted, &[]);
    assert_eq!(failed.buffer[..], pattern(LEN, 1), "nothing was downloaded");
    assert_eq!(first.read_vec(&a).unwrap(), pattern(LEN, 1));
}

/// As above, and the token goes on to a third copy: on the stream that was aborted, on a third one, in a
/// batch.
#[test]
fn a_copy_after_an_abort_comes_after_every_copy_before() {
    type Next = fn(&Stream, &DeviceBuffer<u8>, InFlight<HostBuffer<u8>>) -> InFlight<HostBuffer<u8>>;
    let plain: Next = |stream, there, token| stream.upload(there, token).unwrap();
    let batch: Next = |stream, there, token| {
        let mut batch = Batch::new(token);
        batch.push(there, 0..LEN).unwrap();
        stream.upload_batch(batch).unwrap()
    };
    for (name, on_third, next) in
        [("same", false, plain), ("third", true, plain), ("same", false, batch), ("third", true, batch)]
    {
        let (device, first) = device();
        let (second, third) = (device.stream().unwrap(), device.stream().unwrap());
        let (a, b) = (device.alloc_from(&pattern(LEN, 2)).unwrap(), device.alloc::<u8>(LEN).unwrap());
        let gate = block(&first);
        let token = first.download(device.runtime().alloc_host::<u8>(LEN).unwrap(), &a).unwrap();
        let token = second.upload(&b, token).unwrap();
        second.abort();
        let last = if on_third { &third } else { &second };
        let token = next(last, &b, token);
        let reached = last.record().unwrap();
        assert!(!reached.wait_timeout(A_WHILE), "{name}: read before the first stream has written it");
        gate.unblock();
        let host = match token.wait() {
            Ok(host) => host,
            Err(failed) => failed.buffer, // the abort may be told here too
        };
        assert_eq!(host[..], pattern(LEN, 2), "{name}");
        assert_eq!(first.read_vec(&b).unwrap(), pattern(LEN, 2), "{name}");
    }
}

#[test]
fn a_token_that_gave_its_buffer_out_is_refused() {
    let (device, stream) = device();
    let there = device.alloc::<u8>(LEN).unwrap();
    let spent = || {
        let mut token = stream.upload(&there, device.runtime().alloc_host(LEN).unwrap()).unwrap();
        stream.synchronize().unwrap();
        let polled = pin!(&mut token).poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(host)) = polled else { panic!("the copy is done") };
        drop(host);
        token
    };
    says(&error(stream.upload(&there, spent())), Kind::BadAddress, &["awaited already"]);
    says(&error(stream.download(spent(), &there)), Kind::BadAddress, &["awaited already"]);
    says(&error(spent().into_slice(..1)), Kind::BadAddress, &["awaited already"]);
    says(&error(spent().into_matrix(1, 1, 1)), Kind::BadAddress, &["awaited already"]);
    says(&error(Batch::new(spent()).push(&there, 0..LEN)), Kind::BadAddress, &["awaited already"]);
    assert!(spent().is_done() && spent().wait_timeout(A_WHILE));
    let batch = Batch::new(spent());
    says(&error(stream.upload_batch(batch)), Kind::BadAddress, &["awaited already"]);
}
