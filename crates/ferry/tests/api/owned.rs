//! Owned copies: whatever becomes of tokens, streams and handles, the work runs, in order, on memory that is
//! still there.

use crate::{blocker::block, device, pattern, runtime};
use ferry::{Batch, SharedBuffer};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::channel,
};

const LEN: usize = 10_000;

#[test]
fn a_panic_drops_tokens_and_not_their_copies() {
    let (device, stream) = device();
    let (first, second) = (device.alloc_zeroed::<u8>(LEN).unwrap(), device.alloc_zeroed::<u8>(LEN).unwrap());
    let gate = block(&stream);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _up = stream.upload(&first, device.runtime().alloc_host_from(&pattern(LEN, 1)).unwrap()).unwrap();
        let _down = stream.download(device.runtime().alloc_host::<u8>(LEN).unwrap(), &first).unwrap();
        stream.copy(&second, &first).unwrap();
        panic!("with two tokens alive");
    }));
    assert!(panicked.is_err());
    gate.unblock();
    stream.synchronize().unwrap();
    assert_eq!(stream.read_vec(&second).unwrap(), pattern(LEN, 1));
}

#[test]
fn work_runs_after_its_stream_was_dropped() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN).unwrap();
    let (tell, hear) = channel();
    let gate = block(&stream);
    let token = stream.upload(&there, device.runtime().alloc_host_from(&pattern(LEN, 2)).unwrap()).unwrap();
    stream.call(move || tell.send(()).unwrap()).unwrap();
    let event = stream.record().unwrap();
    drop(stream);
    assert!(!token.is_done() && !event.is_done());
    gate.unblock();
    token.wait().unwrap();
    event.wait().unwrap();
    hear.recv().expect("the function ran");
    assert_eq!(device.stream().unwrap().read_vec(&there).unwrap(), pattern(LEN, 2));
}

#[test]
fn buffers_and_tokens_outlive_every_other_handle() {
    let runtime = runtime();
    let device = runtime.device(0).unwrap();
    let (there, stream) = (device.alloc_zeroed::<u8>(LEN).unwrap(), device.stream().unwrap());
    let host = runtime.alloc_host_from(&pattern(LEN, 3)).unwrap();
    let gate = block(&stream);
    let token = stream.upload(&there, host).unwrap();
    drop((runtime, device, stream));
    gate.unblock();
    let mut host = token.wait().unwrap();
    host[0] = 0;
    // Everything else is reached from a buffer.
    let stream = there.device().stream().unwrap();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(LEN, 3));
    drop((there, stream));
    assert_eq!(host[1..], pattern(LEN, 3)[1..]);
    assert_eq!(host.runtime().device_count(), 2);
}

#[test]
fn everything_is_dropped_with_work_queued() {
    let (tell, hear) = channel();
    let gate = {
        let (device, stream) = device();
        let there = device.alloc::<u8>(LEN).unwrap();
        let gate = block(&stream);
        drop(stream.upload(&there, device.runtime().alloc_host_from(&pattern(LEN, 4)).unwrap()).unwrap());
        let back = stream.download(device.runtime().alloc_host::<u8>(LEN).unwrap(), &there).unwrap();
        stream.call(move || tell.send(back.wait().unwrap()).unwrap()).unwrap();
        gate
    };
    gate.unblock();
    let host = hear.recv().expect("the function runs, with nobody there");
    assert_eq!(host[..], pattern(LEN, 4));
}

#[test]
fn work_runs_with_the_whole_runtime_gone() {
    let (tell, hear) = channel();
    let (gate, event) = {
        let (device, stream) = device();
        let (there, other) = (device.alloc::<u8>(LEN).unwrap(), device.stream().unwrap());
        let gate = block(&stream);
        stream.fill(&there, 1).unwrap();
        let event = stream.record().unwrap();
        other.wait_for(&event).unwrap();
        other.call(move || tell.send("run").unwrap()).unwrap();
        (gate, event)
    };
    gate.unblock();
    assert_eq!(hear.recv(), Ok("run"), "nobody waits for it, so nobody helps");
    assert!(event.is_done());
}

#[test]
fn copies_chain_through_one_device_buffer_without_waiting() {
    let (device, stream) = device();
    let there = device.alloc::<u8>(LEN).unwrap();
    let gate = block(&stream);
    let mut chain = Vec::new();
    for seed in 0..20 {
        let host = device.runtime().alloc_host_from(&pattern(LEN, seed)).unwrap();
        let up = stream.upload(&there, host).unwrap();
        let down = stream.download(device.runtime().alloc_host::<u8>(LEN).unwrap(), &there).unwrap();
        chain.push((seed, up, down));
    }
    assert!(chain.iter().all(|(_, up, down)| !up.is_done() && !down.is_done()));
    gate.unblock();
    for (seed, up, down) in chain.into_iter().rev() {
        assert_eq!(down.wait().unwrap()[..], pattern(LEN, seed), "download {seed}");
        assert_eq!(up.wait().unwrap()[..], pattern(LEN, seed), "upload {seed}");
    }
}

#[test]
fn parts_move_what_they_say_and_nothing_else() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(12).unwrap();
    let host = device.runtime().alloc_host_from(b"abcdefghijkl").unwrap();
    let gate = block(&stream);
    // Three rows of two, out of rows of four, from the second column on.
    let part = host.into_matrix(3, 4, 4).unwrap().rect(.., 1..).unwrap().rect(.., ..2).unwrap();
    let token = stream.upload(there.slice(..6).unwrap(), part).unwrap().into_inner();
    let token = stream.upload(there.slice(6..8).unwrap(), token.into_slice(10..).unwrap()).unwrap();
    let token = stream.download(token.into_inner().into_slice(0..2).unwrap(), there.slice(4..6).unwrap());
    let token = token.unwrap().into_inner().into_matrix(2, 1, 6).unwrap();
    let token = stream.download(token, there.slice(..2).unwrap()).unwrap();
    gate.unblock();
    assert_eq!(token.into_inner().wait().unwrap()[..], *b"bkcdefchijkl");
    assert_eq!(stream.read_vec(&there).unwrap(), *b"bcfgjkkl\0\0\0\0");
}

#[test]
fn a_shared_buffer_is_uploaded_many_times_at_once() {
    let (device, _) = device();
    let streams: Vec<_> = (0..4).map(|_| device.stream().unwrap()).collect();
    let gates: Vec<_> = streams.iter().map(block).collect();
    let shared = device.runtime().alloc_host_from(&pattern(LEN, 5)).unwrap().share();
    let there: Vec<_> = (0..100).map(|_| device.alloc_zeroed::<u8>(LEN).unwrap()).collect();
    let copies = there.iter().zip(streams.iter().cycle());
    let mut tokens: Vec<_> =
        copies.map(|(there, stream)| stream.upload(there, shared.clone()).unwrap()).collect();
    assert_eq!(shared[..], pattern(LEN, 5), "it can be read in flight");
    // Some are given up, the first handle too: the rest still hold the memory.
    tokens.truncate(70);
    drop(shared);
    drop(gates);
    let shared: Vec<SharedBuffer<u8>> = tokens.into_iter().map(|token| token.wait().unwrap()).collect();
    streams.iter().for_each(|stream| stream.synchronize().unwrap());
    for there in &there {
        assert_eq!(streams[0].read_vec(there).unwrap(), pattern(LEN, 5));
    }
    assert!(shared.iter().all(|shared| shared[..] == pattern(LEN, 5)));
}

#[test]
fn a_batch_in_flight_holds_all_of_its_buffers() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN).unwrap();
    let hosts: Vec<_> =
        (0..10).map(|seed| device.runtime().alloc_host_from(&pattern(LEN / 10, seed)).unwrap()).collect();
    let mut batch = Batch::new(hosts);
    for index in 0..10 {
        let range = index * LEN / 10..(index + 1) * LEN / 10;
        batch.push(there.slice(range).unwrap(), (9 - index, 0..LEN / 10)).unwrap();
    }
    let gate = block(&stream);
    let token = stream.upload_batch(batch).unwrap();
    // The token goes on to a second batch, which writes the same memory.
    let mut back = Batch::new(token);
    back.push(there.slice(..LEN / 10).unwrap(), (0, 0..LEN / 10)).unwrap();
    let token = stream.download_batch(back).unwrap();
    assert!(!token.is_done());
    gate.unblock();
    let hosts = token.wait().unwrap();
    assert_eq!(hosts[0][..], pattern(LEN / 10, 9));
    let want: Vec<u8> = (0..10).rev().flat_map(|seed| pattern(LEN / 10, seed)).collect();
    assert_eq!(stream.read_vec(&there).unwrap(), want);
}
