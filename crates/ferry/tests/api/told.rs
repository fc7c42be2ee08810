//! Who is told of a failure: the token of the work that failed, tokens behind it, and synchronise, once.

use crate::{device, says};
use ferry::{Kind, Stream};
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

fn fails(stream: &Stream) {
    stream.run(&stream.device().descriptor().unwrap()).unwrap();
}

#[test]
fn tokens_behind_a_failure_tell_it_until_synchronise_has_told_it() {
    let (device, stream) = device();
    let there = device.alloc::<u8>(4).unwrap();
    let upload = || stream.upload(&there, device.runtime().alloc_host_from(b"abcd").unwrap()).unwrap();
    let before = upload();
    fails(&stream);
    let (behind, further) = (upload(), upload());
    before.wait().expect("what comes before a failure has nothing to do with it");
    for token in [behind, further] {
        let failed = token.wait().unwrap_err();
        says(&failed.error, Kind::BadDescriptor, &["Stream::run", "never set"]);
        assert_eq!(failed.buffer[..], *b"abcd", "the buffer comes back all the same");
    }
    says(&stream.synchronize().unwrap_err(), Kind::BadDescriptor, &["never set"]);
    upload().wait().expect("told");
    stream.synchronize().expect("told");
    assert_eq!(stream.read_vec(&there).unwrap(), *b"abcd", "copies behind the failure ran");
}

#[test]
fn waiting_copies_and_synchronising_tasks_are_told_too() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(4).unwrap();
    fails(&stream);
    says(&stream.write(&there, b"abcd").unwrap_err(), Kind::BadDescriptor, &[]);
    says(&stream.read_vec(&there).unwrap_err(), Kind::BadDescriptor, &[]);
    stream.record().unwrap().wait().expect("a point in the work is reached, whatever became of the work");
    let told = pin!(stream.synchronized()).poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(told) = told else { panic!("all is done") };
    says(&told.unwrap_err(), Kind::BadDescriptor, &[]);
    assert_eq!(stream.read_vec(&there).unwrap(), *b"abcd");
}

#[test]
fn scopes_are_told() {
    let (device, stream) = device();
    let there = device.alloc_from(b"abcd").unwrap();
    let mut host = device.runtime().alloc_host::<u8>(4).unwrap();
    fails(&stream);
    let told = stream.scope(|scope| {
        scope.download(&mut host, &there)?;
        Ok(())
    });
    says(&told.unwrap_err(), Kind::BadDescriptor, &[]);
    assert_eq!(host[..], *b"abcd");
    stream.synchronize().unwrap_err();
    stream.scope(|_| Ok(())).expect("a scope that lends nothing");
}

#[test]
fn the_first_failure_is_told_and_not_the_second() {
    let (_, stream) = device();
    fails(&stream);
    stream.call(|| panic!("on purpose, in a stream")).unwrap();
    says(&stream.synchronize().unwrap_err(), Kind::BadDescriptor, &[]);
    stream.synchronize().unwrap();
}

#[test]
fn a_function_that_panics_fails_its_stream_and_no_other() {
    let (device, stream) = device();
    let other = device.stream().unwrap();
    stream.call(|| panic!("on purpose, in a stream")).unwrap();
    let error = stream.synchronize().unwrap_err();
    assert!(error.note.contains("panicked"), "{error}");
    other.synchronize().unwrap();
    stream.synchronize().unwrap();
}
