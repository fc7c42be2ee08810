//! Memory whose last owner goes while copies are in flight: it is used again when they have passed, and not
//! before.

use crate::{blocker::block, device, pattern};
use ferry::{Device, HostBuffer, Runtime};
use std::mem::forget;

const PAGE: usize = 4096;
const JUNK: u8 = 0xee;

/// Freed ranges rest until some hundreds of others have been freed.
const ENOUGH: usize = 2000;

fn addr(host: &HostBuffer<u8>) -> usize {
    host.as_ptr() as usize
}

/// Many buffers full of junk.
fn junk(runtime: &Runtime) -> Vec<HostBuffer<u8>> {
    (0..600).map(|_| runtime.alloc_host_from(&[JUNK; PAGE]).expect("a page")).collect()
}

fn comes_back(runtime: &Runtime, base: usize) -> bool {
    let page = || runtime.alloc_host::<u8>(PAGE).expect("a page");
    // It has rested by then; a backend that has others at hand gives it out when those are taken.
    let mut taken = Vec::new();
    let is_there = (0..ENOUGH).any(|_| addr(&page()) == base);
    is_there
        || (0..ENOUGH).any(|_| {
            taken.push(page());
            taken.last().map(addr) == Some(base)
        })
}

fn comes_back_there(device: &Device, base: usize) -> bool {
    (0..ENOUGH).any(|_| device.alloc::<u8>(PAGE).expect("a page").addr() == base)
}

#[test]
fn an_upload_runs_though_its_token_was_dropped_and_keeps_its_memory_until_then() {
    let (device, stream) = device();
    let (runtime, there) = (device.runtime(), device.alloc_zeroed::<u8>(PAGE).unwrap());
    let host = runtime.alloc_host_from(&pattern(PAGE, 1)).unwrap();
    let base = addr(&host);

    let gate = block(&stream);
    drop(stream.upload(&there, host).unwrap());
    for _ in 0..3 {
        assert!(junk(runtime).iter().all(|other| addr(other) != base), "used again in flight");
    }
    gate.unblock();
    stream.synchronize().unwrap();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(PAGE, 1));
    assert!(comes_back(runtime, base), "leaked");
}

#[test]
fn a_download_whose_token_was_dropped_writes_nobody_elses_memory() {
    let (device, stream) = device();
    let (runtime, there) = (device.runtime(), device.alloc_from(&pattern(PAGE, 2)).unwrap());
    let host = runtime.alloc_host::<u8>(PAGE).unwrap();
    let base = addr(&host);

    let gate = block(&stream);
    drop(stream.download(host, &there).unwrap());
    drop(junk(runtime));
    let others = junk(runtime);
    gate.unblock();
    stream.synchronize().unwrap();
    for other in &others {
        assert!(addr(other) != base && other.iter().all(|byte| *byte == JUNK));
    }
    drop(others);
    assert!(comes_back(runtime, base), "leaked");
}

#[test]
fn a_forgotten_token_leaks_its_buffer_and_its_copy_runs() {
    let (device, stream) = device();
    let (runtime, there) = (device.runtime(), device.alloc_zeroed::<u8>(PAGE).unwrap());
    let host = runtime.alloc_host_from(&pattern(PAGE, 3)).unwrap();
    let base = addr(&host);

    let gate = block(&stream);
    forget(stream.upload(&there, host).unwrap());
    gate.unblock();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(PAGE, 3));
    assert!(!comes_back(runtime, base), "nobody gave it up");
}

#[test]
fn forgotten_buffers_stay_allocated() {
    let (device, stream) = device();
    let free = device.memory_info().unwrap().free;
    forget(device.alloc::<u8>(PAGE).unwrap());
    assert_eq!(device.memory_info().unwrap().free, free - PAGE);

    let host = device.runtime().alloc_host::<u8>(PAGE).unwrap();
    let base = addr(&host);
    forget(host);
    assert!(!comes_back(device.runtime(), base));
    stream.synchronize().unwrap();
}

#[test]
fn device_memory_is_free_again_when_the_copies_that_use_it_have_passed() {
    let (device, stream) = device();
    let result = device.alloc_zeroed::<u8>(PAGE).unwrap();
    let free = device.memory_info().unwrap().free;
    let there = device.alloc::<u8>(PAGE).unwrap();
    let base = there.addr();

    let gate = block(&stream);
    let up = stream.upload(&there, device.runtime().alloc_host_from(&pattern(PAGE, 4)).unwrap()).unwrap();
    stream.copy(&result, &there).unwrap();
    let last = there.clone();
    drop(there);
    drop(last);
    assert_eq!(device.memory_info().unwrap().free, free - PAGE, "free with copies in flight");
    assert!(!comes_back_there(&device, base), "used again in flight");
    gate.unblock();
    up.wait().unwrap();
    stream.synchronize().unwrap();
    assert_eq!(stream.read_vec(&result).unwrap(), pattern(PAGE, 4));
    assert_eq!(device.memory_info().unwrap().free, free);
    // The addresses of a GPU are the whole process's, and some other test may have these by now.
    if device.runtime().backend() == "host" {
        assert!(comes_back_there(&device, base), "leaked");
    }
}

#[test]
fn tokens_are_dropped_by_the_thousand() {
    const COUNT: usize = 3000;
    let (device, stream) = device();
    let (runtime, there) = (device.runtime(), device.alloc_zeroed::<u32>(COUNT).unwrap());
    let free = device.memory_info().unwrap().free;

    let gate = block(&stream);
    for number in 0..COUNT {
        let host = runtime.alloc_host_from(&[number as u32 + 1]).unwrap();
        let passing = device.alloc::<u32>(1).unwrap();
        drop(stream.upload(&passing, host).unwrap());
        stream.copy(there.slice(number..number + 1).unwrap(), &passing).unwrap();
    }
    gate.unblock();
    stream.synchronize().unwrap();
    let want: Vec<u32> = (1..=COUNT as u32).collect();
    assert_eq!(stream.read_vec(&there).unwrap(), want);
    assert_eq!(device.memory_info().unwrap().free, free);
}

#[test]
fn staged_bytes_are_taken_before_the_call_returns() {
    let (device, stream) = device();
    let there = device.alloc_zeroed::<u8>(PAGE).unwrap();
    let mut plain = pattern(PAGE, 5);

    let gate = block(&stream);
    stream.write_staged(&there, &plain).unwrap();
    plain.fill(JUNK);
    drop(junk(device.runtime()));
    gate.unblock();
    assert_eq!(stream.read_vec(&there).unwrap(), pattern(PAGE, 5));
}
