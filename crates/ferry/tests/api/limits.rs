//! What a product does not have, and what a runtime does not have.

use crate::{blocker::block, device, error, options, pattern, runtime, says};
use ferry::{Kind, Options, Runtime};

#[test]
fn a_device_has_as_many_streams_as_its_product() {
    let options = options().soc("Ascend310B1").unwrap();
    let most = options.product.max_streams;
    assert_eq!(most, 512);
    let runtime = Runtime::open(&Options { device_memory: Some(1 << 20), ..options }).unwrap();
    let (device, other) = (runtime.device(0).unwrap(), runtime.device(1).unwrap());
    // What waits at once takes no place among them.
    let there = device.alloc_from(&[1_u8]).unwrap();
    let mut streams: Vec<_> = (0..most).map(|_| device.stream().unwrap()).collect();
    for _ in 0..2 {
        says(&error(device.stream()), Kind::LimitReached, &["device 0", "512", "Ascend310B"]);
    }
    other.stream().expect("another device has its own");
    device.alloc_from(&[1_u8]).expect("this needs none");

    let one = streams.pop().unwrap();
    let clone = one.clone();
    drop(one);
    says(&error(device.stream()), Kind::LimitReached, &[]);
    drop(clone);
    streams.push(device.stream().expect("one was given back"));
    // A stream that goes with work queued gives its place back too.
    let gone = streams.pop().unwrap();
    let gate = block(&gone);
    gone.fill(&there, 2).unwrap();
    drop(gone);
    let last = device.stream().unwrap();
    gate.unblock();
    last.synchronize().unwrap();
}

#[test]
fn two_dimensions_inside_a_device_are_a_matter_of_the_product() {
    let product = |soc| {
        let runtime = Runtime::open(&options().soc(soc).unwrap()).unwrap();
        runtime.device(0).unwrap()
    };
    let lacking = ferry::products::PRODUCTS.iter().filter(|product| !product.copies_2d_inside);
    let lacking: Vec<_> = lacking.map(|product| product.soc).collect();
    assert!(!lacking.is_empty());
    for soc in lacking {
        let device = product(soc);
        let stream = device.stream().unwrap();
        let there = device.alloc_from(&pattern(64, 1)).unwrap();
        let (left, right) = (
            there.matrix_pitched(4, 4, 16).unwrap(),
            there.slice(8..).unwrap().matrix_pitched(4, 4, 16).unwrap(),
        );
        says(&error(stream.copy(left, right)), Kind::Unsupported, &[soc, "4 rows"]);
        assert_eq!(stream.read_vec(&there).unwrap(), pattern(64, 1));
        // One row is a linear copy, and the other directions have all of them.
        stream.copy(left.rect(..1, ..).unwrap(), right.rect(..1, ..).unwrap()).unwrap();
        stream.write(left, &[0; 16]).unwrap();
        assert_eq!(stream.read_vec(left).unwrap(), [0; 16]);
    }
    let device = product("Ascend910B1");
    let there = device.alloc_from(&pattern(64, 1)).unwrap();
    device.stream().unwrap().copy(there.matrix(4, 4).unwrap(), there.slice(48..).unwrap()).unwrap();
}

#[test]
fn there_are_no_more_devices_than_there_are() {
    let runtime = runtime();
    assert_eq!(runtime.devices().map(|device| device.id()).collect::<Vec<_>>(), [0, 1]);
    for id in [2, u32::MAX] {
        says(&error(runtime.device(id)), Kind::NoDevice, &[&id.to_string(), "there are 2"]);
    }
    assert!(runtime.device(0).unwrap() == runtime.device(0).unwrap());
    assert!(runtime.device(0).unwrap() != runtime.device(1).unwrap());
    assert!(runtime.device(0).unwrap() != self::runtime().device(0).unwrap());
}

#[test]
fn memory_that_runs_out_is_refused_and_comes_back() {
    let (device, stream) = device();
    let total = device.memory_info().unwrap().total;
    let most = device.alloc::<u8>(total - (1 << 20)).unwrap();
    says(&error(device.alloc::<u8>(2 << 20)), Kind::OutOfMemory, &["2097152", "device 0"]);
    says(&error(device.alloc_from(&vec![0_u8; 2 << 20])), Kind::OutOfMemory, &["device 0"]);
    // Freed with a copy in flight it is not there yet, and the error says so.
    let gate = block(&stream);
    stream.fill(most.slice(..1).unwrap(), 1).unwrap();
    drop(most);
    says(&error(device.alloc::<u8>(2 << 20)), Kind::OutOfMemory, &["come back when copies"]);
    gate.unblock();
    stream.synchronize().unwrap();
    device.alloc::<u8>(total - (1 << 20)).expect("it is back");
}

/// What a variable of the environment would be refused for is refused in a field.
#[test]
fn no_devices_and_no_memory_are_refused() {
    for count in [0, 65] {
        let opened = Runtime::open(&Options { devices: Some(count), ..options() });
        says(&error(opened), Kind::BadSetting, &["devices", &count.to_string()]);
    }
    for size in [0, 4096] {
        let opened = Runtime::open(&Options { device_memory: Some(size), ..options() });
        says(&error(opened), Kind::BadSetting, &["device_memory", "64K", &size.to_string()]);
    }
}
