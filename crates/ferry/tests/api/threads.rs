//! Which types may go to other threads, and that they can.

use crate::{blocker::block, device, pattern};
use ferry::*;
use std::{
    cell::Cell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::mpsc::channel,
    thread,
};

/// Fails to compile unless the type has the traits.
macro_rules! is {
    ($($type:ty: $($bound:path),+;)+) => {$(
        const _: fn() = || {
            fn has<T: ?Sized $(+ $bound)+>() {}
            has::<$type>();
        };
    )+};
}

/// Fails to compile if the type has the trait: then there are two ways to understand `sign`.
macro_rules! is_not {
    ($($type:ty: $bound:path;)+) => {$(
        const _: fn() = || {
            trait Ambiguous<A> { fn sign() {} }
            impl<T: ?Sized> Ambiguous<()> for T {}
            struct Both;
            impl<T: ?Sized + $bound> Ambiguous<Both> for T {}
            let _ = <$type as Ambiguous<_>>::sign;
        };
    )+};
}

/// Plain data that says of itself that it stays on its thread, or is not shared.
type Local = PhantomData<*const u8>;
type Unshared = PhantomData<Cell<u8>>;

is! {
    Runtime: Send, Sync, Clone;
    Device: Send, Sync, Clone;
    Stream: Send, Sync, Clone;
    Event: Send, Sync, Clone;
    Descriptor: Send, Sync;
    Error: Send, Sync;
    Options: Send, Sync;
    DeviceBuffer<f32>: Send, Sync, Clone;
    DeviceBuffer<Local>: Send, Sync;
    DeviceSlice<'static, f32>: Send, Sync, Copy;
    DeviceMatrix<'static, f32>: Send, Sync, Copy;
    HostBuffer<f32>: Send, Sync, Unpin;
    HostBuffer<Unshared>: Send;
    HostSlice<f32>: Send, Sync;
    HostMatrix<'static, f32>: Send, Sync, Copy;
    HostMatrixMut<'static, f32>: Send, Sync;
    SharedBuffer<f32>: Send, Sync, Clone;
    Part<HostBuffer<f32>>: Send, Sync;
    InFlight<HostBuffer<f32>>: Send, Sync, Unpin, std::future::Future;
    InFlight<Part<SharedBuffer<f32>>>: Send, Sync;
    InFlight<&'static mut HostSlice<f32>>: Send, Sync;
    Failed<HostBuffer<f32>>: Send, Sync, std::error::Error;
    Batch<'static, Vec<HostBuffer<f32>>>: Send, Sync;
    Synchronized: Send, Sync, std::future::Future;
    Reached: Send, Sync;
    Scope<'static, 'static>: Send, Sync;
}

is_not! {
    HostBuffer<Local>: Send;
    HostBuffer<Local>: Sync;
    HostBuffer<Unshared>: Sync;
    SharedBuffer<Unshared>: Send;
    HostSlice<Local>: Send;
    InFlight<HostBuffer<Local>>: Send;
    InFlight<SharedBuffer<Unshared>>: Send;
    Part<HostBuffer<Local>>: Send;
    Batch<'static, HostBuffer<Local>>: Send;
}

// One owner, no look at what is in flight, and nothing shared is written.
is_not! {
    HostBuffer<f32>: Clone;
    InFlight<HostBuffer<f32>>: Clone;
    InFlight<HostBuffer<f32>>: Deref;
    Part<HostBuffer<f32>>: Clone;
    HostMatrixMut<'static, f32>: Clone;
    SharedBuffer<f32>: DerefMut;
    SharedBuffer<f32>: HostWrite;
    Part<SharedBuffer<f32>>: HostWrite;
    InFlight<SharedBuffer<f32>>: HostWrite;
    &'static HostBuffer<f32>: HostWrite;
    &'static HostSlice<f32>: HostWrite;
    HostMatrix<'static, f32>: HostWrite;
    Vec<SharedBuffer<f32>>: HostPoolMut;
    DeviceBuffer<f32>: Deref;
    &'static [f32]: HostRead;
}

const LEN: usize = 2000;

#[test]
fn tokens_are_waited_for_and_dropped_by_other_threads() {
    let (device, stream) = device();
    let there = device.alloc_from(&pattern(LEN, 1)).unwrap();
    let (send, receive) = channel();
    let waiting = thread::spawn(move || {
        let tokens: Vec<InFlight<HostBuffer<u8>>> = receive.iter().collect();
        let (kept, dropped): (Vec<_>, Vec<_>) =
            tokens.into_iter().enumerate().partition(|(index, _)| index % 2 == 0);
        drop(dropped);
        kept.into_iter().map(|(_, token)| token.wait().unwrap()).collect::<Vec<_>>()
    });
    let gate = block(&stream);
    for _ in 0..100 {
        let host = device.runtime().alloc_host::<u8>(LEN).unwrap();
        send.send(stream.download(host, &there).unwrap()).unwrap();
    }
    drop(send);
    gate.unblock();
    let hosts = waiting.join().unwrap();
    assert_eq!(hosts.len(), 50);
    assert!(hosts.iter().all(|host| host[..] == pattern(LEN, 1)));
}

#[test]
fn many_threads_submit_to_one_stream_and_to_their_own() {
    let (device, shared) = device();
    thread::scope(|threads| {
        for seed in 0..4 {
            let (device, shared) = (device.clone(), shared.clone());
            threads.spawn(move || {
                let own = device.stream().unwrap();
                let mut host = device.runtime().alloc_host::<u8>(LEN).unwrap();
                for round in 0..100 {
                    let want = pattern(LEN, seed ^ round);
                    host.copy_from_slice(&want);
                    // A buffer that is allocated and freed again with copies in flight.
                    let there = device.alloc::<u8>(LEN).unwrap();
                    let token = shared.upload(&there, host).unwrap();
                    let token = own.download(token, &there).unwrap();
                    drop(there);
                    host = token.wait().unwrap();
                    assert_eq!(host[..], want, "thread {seed}, round {round}");
                }
            });
        }
    });
    shared.synchronize().unwrap();
}

#[test]
fn a_function_of_a_stream_may_use_the_api() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(LEN).unwrap();
    let (tell, hear) = channel();
    let (inner, to) = (stream.clone(), there.clone());
    stream
        .call(move || {
            let host = inner.device().runtime().alloc_host_from(&pattern(LEN, 2)).unwrap();
            let token = inner.upload(&to, host).unwrap();
            tell.send(token).unwrap();
        })
        .unwrap();
    hear.recv().unwrap().wait().unwrap();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(LEN, 2));
}
