//! Copies whose ends are read when they run.

use crate::{blocker::block, device, error, pattern, runtime, says};
use ferry::Kind;

const LEN: usize = 4096;

#[test]
fn ends_that_do_not_fit_are_refused() {
    let runtime = runtime();
    let (here, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    let (a, b, far) =
        (here.alloc::<u8>(LEN).unwrap(), here.alloc::<u8>(LEN).unwrap(), other.alloc::<u8>(LEN).unwrap());
    let descriptor = here.descriptor().unwrap();
    says(&error(descriptor.set(&a, b.slice(1..).unwrap())), Kind::BadShape, &["4096", "4095"]);
    says(&error(descriptor.set(&a, &far)), Kind::BadRoute, &["source", "device 1", "device 0"]);
    says(&error(descriptor.set(&far, &a)), Kind::BadRoute, &["destination", "device 1", "device 0"]);
    says(&error(other.stream().unwrap().run(&descriptor)), Kind::BadRoute, &["device 0", "1"]);
    let stream = here.stream().unwrap();
    stream.run(&descriptor).unwrap();
    says(&error(stream.synchronize()), Kind::BadDescriptor, &["never set"]);
}

#[test]
fn what_is_copied_is_read_when_the_copy_runs() {
    let (device, stream) = device();
    let (a, b) = (device.alloc_from(&pattern(LEN, 1)).unwrap(), device.alloc_from(&pattern(LEN, 2)).unwrap());
    let result = device.alloc_zeroed::<u8>(LEN).unwrap();
    let descriptor = device.descriptor().unwrap();
    descriptor.set(&result, &a).unwrap();
    let gate = block(&stream);
    stream.run(&descriptor).unwrap();
    descriptor.set(&result, &b).unwrap();
    gate.unblock();
    assert_eq!(stream.read_vec(&result).unwrap(), pattern(LEN, 2));
    // A set that is refused changes nothing.
    assert!(descriptor.set(&result, a.slice(1..).unwrap()).is_err());
    stream.fill(&result, 0).unwrap();
    stream.run(&descriptor).unwrap();
    assert_eq!(stream.read_vec(&result).unwrap(), pattern(LEN, 2));
}

#[test]
fn a_descriptor_holds_its_ends() {
    let (device, stream) = device();
    let free = device.memory_info().unwrap().free;
    let (a, b) = (device.alloc_from(&pattern(LEN, 3)).unwrap(), device.alloc_zeroed::<u8>(LEN).unwrap());
    let (result, again) = (device.alloc::<u8>(LEN).unwrap(), device.descriptor().unwrap());
    let descriptor = device.descriptor().unwrap();
    descriptor.set(&b, &a).unwrap();
    again.set(&result, &b).unwrap();
    drop((a, b));
    stream.run(&descriptor).unwrap();
    stream.run(&again).unwrap();
    assert_eq!(stream.read_vec(&result).unwrap(), pattern(LEN, 3));
    drop((descriptor, again, result));
    assert_eq!(device.memory_info().unwrap().free, free);
}

#[test]
fn a_descriptor_is_set_in_stream_order() {
    let (device, stream) = device();
    let [a, b] = [4, 5].map(|seed| device.alloc_from(&pattern(LEN, seed)).unwrap());
    let [first, second] = [0; 2].map(|_| device.alloc_zeroed::<u8>(LEN).unwrap());
    let descriptor = device.descriptor().unwrap();
    descriptor.set(&first, &a).unwrap();
    let gate = block(&stream);
    stream.run(&descriptor).unwrap();
    stream.set_descriptor(&descriptor, &second, &b).unwrap();
    stream.run(&descriptor).unwrap();
    drop((a, b));
    gate.unblock();
    assert_eq!(stream.read_vec(&first).unwrap(), pattern(LEN, 4));
    assert_eq!(stream.read_vec(&second).unwrap(), pattern(LEN, 5));
}

/// An abort leaves the descriptor as it was, and it still holds what it names.
#[test]
fn a_descriptor_holds_its_ends_though_an_abort_dropped_the_next_ones() {
    let (device, stream) = device();
    let [a, b] = [6, 7].map(|seed| device.alloc_from(&pattern(LEN, seed)).unwrap());
    let result = device.alloc_zeroed::<u8>(LEN).unwrap();
    let descriptor = device.descriptor().unwrap();
    descriptor.set(&result, &a).unwrap();
    drop(a);
    let gate = block(&stream);
    gate.wait_until_reached();
    stream.set_descriptor(&descriptor, &result, &b).unwrap();
    stream.abort();
    gate.unblock();
    says(&error(stream.synchronize()), Kind::Aborted, &[]);
    stream.run(&descriptor).unwrap();
    assert_eq!(stream.read_vec(&result).unwrap(), pattern(LEN, 6));
}

#[test]
fn a_descriptor_that_goes_with_its_ends_copies_nothing() {
    let (device, stream) = device();
    let (a, b) = (device.alloc_from(&pattern(LEN, 8)).unwrap(), device.alloc_zeroed::<u8>(LEN).unwrap());
    let descriptor = device.descriptor().unwrap();
    descriptor.set(&b, &a).unwrap();
    let gate = block(&stream);
    stream.run(&descriptor).unwrap();
    drop((descriptor, a));
    gate.unblock();
    says(&error(stream.synchronize()), Kind::BadDescriptor, &["Stream::run", "as read from the descriptor"]);
    assert_eq!(stream.read_vec(&b).unwrap(), [0; LEN], "nothing was copied");
}

#[test]
fn a_descriptor_may_go_before_its_copy_runs() {
    let (device, stream) = device();
    let (a, b) = (device.alloc_from(&pattern(LEN, 5)).unwrap(), device.alloc_zeroed::<u8>(LEN).unwrap());
    let descriptor = device.descriptor().unwrap();
    descriptor.set(&b, &a).unwrap();
    let gate = block(&stream);
    stream.run(&descriptor).unwrap();
    drop(descriptor);
    // Its memory is not used again before that: these would stand where it was.
    let others: Vec<_> = (0..600).map(|_| device.alloc_zeroed::<u64>(5).unwrap()).collect();
    gate.unblock();
    assert_eq!(stream.read_vec(&b).unwrap(), pattern(LEN, 5));
    drop(others);
}
