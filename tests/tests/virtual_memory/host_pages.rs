//! Physical memory of the host: page-locked, mapped like a device's, and the CPU may touch it where it is
//! mapped.

use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

use crate::PAGE;

const HUGE: usize = 2 << 20;

fn of_host(attribute: i32, kind: i32, id: u32) -> aclrtPhysicalMemProp {
    aclrtPhysicalMemProp { memAttr: attribute, location: location(kind, id), ..Default::default() }
}

fn made(len: usize, prop: &aclrtPhysicalMemProp) -> usize {
    let mut handle = 0;
    ok(aclrtMallocPhysical(&mut handle, len, prop, 0));
    handle
}

// proves: D4
#[test]
fn host_memory_is_mapped_touched_and_copied() {
    use_device();
    for (len, prop) in [
        (2 * PAGE, of_host(NORMAL_PAGES, 0, 0)),
        (2 * PAGE, of_host(NORMAL_PAGES, 0, 77)), // the id of HOST means nothing
        (HUGE, of_host(16, 0, 0)),
        (2 * PAGE, of_host(NORMAL_PAGES, 4, 0)),
    ] {
        let (base, handle) = (reserve(2 * len), made(len, &prop));
        ok(aclrtMapMem(base, len, 0, handle, 0));
        let host = Memory { addr: base, len, home: Home::Pinned };
        host.fill(0);
        let (data, device) = (pattern(len, 3), Memory::device(len));
        host.write(&data);
        let stream = stream();
        let gate = block(stream);
        // Page-locked: the calls come back though nothing can run.
        ok(aclrtMemcpyAsync(device.addr, len, base, len, H2D, stream));
        ok(aclrtMemcpyAsync(base + 64, 64, device.addr, 64, D2H, stream));
        gate.unblock();
        finish(stream);
        device.assert_holds(&data, "from host memory that is mapped");
        host.part(64, 64).assert_holds(&data[..64], "and back");
        let mut attributes = aclrtPtrAttributes::default();
        ok(aclrtPointerGetAttributes(base + 5, &mut attributes));
        assert_eq!(attributes.location, location(0, 0), "memory of the host");
        let mut told = aclrtPhysicalMemProp::default();
        ok(aclrtMemGetAllocationPropertiesFromHandle(handle, &mut told));
        assert_eq!(told, prop);
        ok(aclrtUnmapMem(base));
        ok(aclrtMapMem(base + len, len, 0, handle, 0));
        Memory { addr: base + len, ..host }.part(0, 64).assert_holds(&data[..64], "mapped elsewhere");
        ok(aclrtUnmapMem(base + len));
        ok(aclrtFreePhysical(handle));
        ok(aclrtReleaseMemAddress(base));
        ok(aclrtDestroyStream(stream));
        ok(device.free());
    }
}

#[test]
fn one_piece_of_host_memory_at_two_addresses() {
    use_device();
    let (base, handle) = (reserve(2 * PAGE), made(PAGE, &of_host(NORMAL_PAGES, 0, 0)));
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    ok(aclrtMapMem(base + PAGE, PAGE, 0, handle, 0));
    let both = Memory { addr: base, len: 2 * PAGE, home: Home::Pinned };
    both.part(0, PAGE).fill(5);
    both.assert_all(5, "one memory");
    ok(aclrtFreePhysical(handle));
    ok(aclrtUnmapMem(base));
    both.part(PAGE, PAGE).assert_all(5, "the second mapping still has it");
    let (mut place, mut flag) = (location(0, 0), 0);
    ok(aclrtMemGetAccess(base + PAGE, &mut place, &mut flag));
    assert_eq!(flag, 3, "the host's own memory");
    ok(aclrtMemSetAccess(
        base + PAGE,
        PAGE,
        &mut aclrtMemAccessDesc { flags: 3, location: location(1, 1), rsv: [0; 12] },
        1,
    ));
    ok(aclrtUnmapMem(base + PAGE));
    ok(aclrtReleaseMemAddress(base));
}

#[test]
fn host_memory_is_not_counted_as_a_devices() {
    use_device();
    let free = || {
        let (mut free, mut total) = (0, 0);
        ok(aclrtGetMemInfo(1, &mut free, &mut total));
        free
    };
    // Other tests of this program run beside this one and take small pieces.
    let before = free();
    let handle = made(256 * HUGE, &of_host(16, 0, 0));
    assert!(free() + 128 * HUGE > before, "{before} bytes were free, and now {}", free());
    ok(aclrtFreePhysical(handle));
}

#[test]
fn what_the_host_does_not_have() {
    use_device();
    let (mut handle, mut size) = (77, 77);
    for (what, prop, want) in [
        ("memAttr", of_host(17, 0, 0), FEATURE_NOT_SUPPORT),
        ("memAttr", of_host(17, 4, 0), FEATURE_NOT_SUPPORT),
        ("memAttr", of_host(14, 0, 0), FEATURE_NOT_SUPPORT),
        ("location.id", of_host(NORMAL_PAGES, 4, 4095), RT_PARAM_INVALID),
        ("location.id", of_host(NORMAL_PAGES, 4, u32::MAX), RT_PARAM_INVALID),
    ] {
        refused(what, aclrtMallocPhysical(&mut handle, 1 << 30, &prop, 0), want, &[what]);
        refused(what, aclrtMemGetAllocationGranularity(&mut prop.clone(), 0, &mut size), want, &[what]);
    }
    let huge = of_host(16, 0, 0);
    expect("half a page", aclrtMallocPhysical(&mut handle, HUGE / 2, &huge, 0), RT_PARAM_INVALID);
    expect("nothing", aclrtMallocPhysical(&mut handle, 0, &huge, 0), RT_PARAM_INVALID);
    let too_much = aclrtMallocPhysical(&mut handle, usize::MAX - HUGE + 1, &huge, 0);
    expect("more than any machine has", too_much, MEMORY_ALLOCATION);
    assert_eq!((handle, size), (77, 77), "a refused call writes nothing");
    for (attribute, want) in [(NORMAL_PAGES, PAGE), (13, HUGE), (1, HUGE)] {
        ok(aclrtMemGetAllocationGranularity(&mut of_host(attribute, 0, 0), 0, &mut size));
        assert_eq!(size, want);
    }
    let handle = made(PAGE, &of_host(NORMAL_PAGES, 0, 0));
    let mut shareable = 0;
    let code = aclrtMemExportToShareableHandle(handle, 0, 0, &mut shareable);
    refused("no export", code, FEATURE_NOT_SUPPORT, &["host"]);
    ok(aclrtFreePhysical(handle));
}
