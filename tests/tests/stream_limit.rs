//! How many streams a device has: counted in a process of its own.

use ferry_tests::code::RESOURCE_ALLOC_FAIL;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

#[test]
fn a_device_has_1984_streams_with_its_default_one() {
    use_device();
    let streams: Vec<usize> = (1..1984).map(|_| stream()).collect();
    let mut none = 77;
    expect("one stream too many", aclrtCreateStream(&mut none), RESOURCE_ALLOC_FAIL);
    expect("one stream too many", aclrtCreateStreamWithConfig(&mut none, 0, 3), RESOURCE_ALLOC_FAIL);
    assert_eq!(none, 77, "a refused call writes nothing");

    // All of them work, at the same time, and synchronous calls need none of their own.
    let len = 256;
    let (device, host) = (Memory::device(streams.len() * len), Memory::pinned(streams.len() * len));
    let back = Memory::pinned(streams.len() * len);
    let data = pattern(host.len, 1);
    host.write(&data);
    for (i, &stream) in streams.iter().enumerate() {
        let at = i * len;
        ok(aclrtMemcpyAsync(device.addr + at, len, host.addr + at, len, H2D, stream));
        ok(aclrtMemcpyAsync(back.addr + at, len, device.addr + at, len, D2H, stream));
    }
    ok(aclrtSynchronizeDevice());
    back.assert_holds(&data, "every stream copied its part");

    // The other device counts for itself, and a stream that is given back makes room for one.
    ok(aclrtSetDevice(1));
    stream();
    use_device();
    ok(aclrtDestroyStream(streams[1000]));
    stream();
    expect("one stream too many", aclrtCreateStream(&mut none), RESOURCE_ALLOC_FAIL);
}
