//! What is known of a mapping: its handle, its properties, who may touch it, and where it starts and ends.

use std::ptr::null_mut;

use ferry_tests::code::*;
use ferry_tests::*;

use crate::PAGE;

const READ_WRITE: i32 = 3;

fn retained(ptr: usize) -> usize {
    let mut handle = 0;
    ok(aclrtMemRetainAllocationHandle(ptr, &mut handle));
    handle
}

fn access(kind: i32, id: u32) -> aclrtMemAccessDesc {
    aclrtMemAccessDesc { flags: READ_WRITE, location: location(kind, id), rsv: [0; 12] }
}

/// aclrtMemGetAccess of the host and of both devices.
fn rights(ptr: usize) -> [u64; 3] {
    [location(0, 0), location(1, 0), location(1, 1)].map(|mut place| {
        let mut flag = u64::MAX;
        ok(aclrtMemGetAccess(ptr, &mut place, &mut flag));
        flag
    })
}

// proves: D1
#[test]
fn a_retained_handle_takes_one_more_free() {
    use_device();
    let (base, handle) = (reserve(4 * PAGE), physical(2 * PAGE));
    ok(aclrtMapMem(base, 2 * PAGE, 0, handle, 0));
    assert_eq!([retained(base), retained(base)], [handle; 2], "the same handle");
    for frees in 0..2 {
        ok(aclrtFreePhysical(handle));
        assert_eq!(retained(base), handle, "{frees} frees of two retained ones");
        ok(aclrtFreePhysical(handle));
    }
    ok(aclrtFreePhysical(handle));
    expect("all of them freed", aclrtFreePhysical(handle), INVALID_HANDLE);
    let memory = Memory { addr: base, len: 2 * PAGE, home: Home::Device };
    memory.fill(7);
    let again = retained(base);
    assert_ne!(again, handle, "a handle that was freed does not come back");
    ok(aclrtUnmapMem(base));
    ok(aclrtMapMem(base + 2 * PAGE, 2 * PAGE, 0, again, 0));
    Memory { addr: base + 2 * PAGE, ..memory }.assert_all(7, "but the memory does");
    ok(aclrtFreePhysical(again));
    ok(aclrtUnmapMem(base + 2 * PAGE));
    ok(aclrtReleaseMemAddress(base));
}

#[test]
fn only_the_start_of_a_mapping_is_retained() {
    use_device();
    let (base, handle, mut out) = (reserve(4 * PAGE), physical(2 * PAGE), 77);
    ok(aclrtMapMem(base, 2 * PAGE, 0, handle, 0));
    let device = Memory::device(PAGE);
    for (what, ptr) in [
        ("inside", base + PAGE),
        ("one byte in", base + 1),
        ("behind", base + 2 * PAGE),
        ("an allocation", device.addr),
        ("a wild address", 0x1234),
    ] {
        let code = aclrtMemRetainAllocationHandle(ptr, &mut out);
        refused(what, code, RT_PARAM_INVALID, &["virPtr", &format!("{ptr:#x}")]);
    }
    refused("NULL", aclrtMemRetainAllocationHandle(0, &mut out), INVALID_PARAM, &["virPtr"]);
    refused("no room", aclrtMemRetainAllocationHandle(base, null_mut()), INVALID_PARAM, &["handle"]);
    assert_eq!(out, 77, "a refused call writes nothing");
    ok(aclrtUnmapMem(base));
    expect("unmapped", aclrtMemRetainAllocationHandle(base, &mut out), RT_PARAM_INVALID);
}

// proves: D6
#[test]
fn properties_are_those_it_was_made_with() {
    use_device();
    for (attribute, device) in [(NORMAL_PAGES, 0), (5, 1), (3, 1), (15, 0)] {
        let (asked, mut handle, mut told) =
            (properties(attribute, device), 0, aclrtPhysicalMemProp::default());
        ok(aclrtMallocPhysical(&mut handle, PAGE, &asked, 0));
        ok(aclrtMemGetAllocationPropertiesFromHandle(handle, &mut told));
        assert_eq!(told, asked);
        refused(
            "no room",
            aclrtMemGetAllocationPropertiesFromHandle(handle, null_mut()),
            INVALID_PARAM,
            &["prop"],
        );
        ok(aclrtFreePhysical(handle));
        expect("freed", aclrtMemGetAllocationPropertiesFromHandle(handle, &mut told), INVALID_HANDLE);
    }
    let (mut told, stream) = (aclrtPhysicalMemProp::default(), stream());
    expect("NULL", aclrtMemGetAllocationPropertiesFromHandle(0, &mut told), INVALID_PARAM);
    expect("a stream", aclrtMemGetAllocationPropertiesFromHandle(stream, &mut told), INVALID_HANDLE);
}

// proves: D2
#[test]
fn access_is_the_memorys_own_and_what_was_given() {
    use_device();
    let (base, handle) = (reserve(PAGE), physical(PAGE));
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    assert_eq!(rights(base), [0, 3, 0], "before anything was set");
    ok(aclrtMemSetAccess(base, PAGE, &mut access(1, 1), 1));
    assert_eq!(rights(base), [0, 3, 3]);
    ok(aclrtMemSetAccess(base, PAGE, [access(0, 0), access(1, 0)].as_mut_ptr(), 2));
    assert_eq!(rights(base), [3, 3, 3]);
    ok(aclrtUnmapMem(base));
    let (mut place, mut flag) = (location(0, 0), 5);
    expect("unmapped", aclrtMemGetAccess(base, &mut place, &mut flag), RT_PARAM_INVALID);
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    assert_eq!(rights(base), [0, 3, 0], "another mapping");
}

#[test]
fn access_that_makes_no_sense() {
    use_device();
    let (base, handle) = (reserve(2 * PAGE), physical(PAGE));
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    let with = |change: fn(&mut aclrtMemAccessDesc)| {
        let mut bad = access(1, 1);
        change(&mut bad);
        bad
    };
    for (what, mut desc, want) in [
        ("flags", with(|d| d.flags = 0), FEATURE_NOT_SUPPORT),
        ("flags", with(|d| d.flags = 1), FEATURE_NOT_SUPPORT),
        ("flags", with(|d| d.flags = 2), RT_PARAM_INVALID),
        ("flags", with(|d| d.flags = -1), RT_PARAM_INVALID),
        ("location.type", with(|d| d.location.type_ = 2), RT_PARAM_INVALID),
        ("location.type", with(|d| d.location.type_ = 4), RT_PARAM_INVALID),
        ("device", with(|d| d.location.id = 9), INVALID_DEVICEID),
        ("rsv", with(|d| d.rsv[11] = 1), RT_PARAM_INVALID),
    ] {
        refused(what, aclrtMemSetAccess(base, PAGE, &mut desc, 1), want, &[what]);
        let mut both = [access(0, 0), desc];
        refused(what, aclrtMemSetAccess(base, PAGE, both.as_mut_ptr(), 2), want, &[what]);
    }
    let good = &mut access(1, 1);
    for (what, code, want) in [
        ("virPtr", aclrtMemSetAccess(0, PAGE, good, 1), INVALID_PARAM),
        ("virPtr", aclrtMemSetAccess(base + PAGE, PAGE, good, 1), RT_PARAM_INVALID),
        ("virPtr", aclrtMemSetAccess(base + 64, PAGE, good, 1), RT_PARAM_INVALID),
        ("size", aclrtMemSetAccess(base, PAGE - 1, good, 1), RT_PARAM_INVALID),
        ("size", aclrtMemSetAccess(base, 2 * PAGE, good, 1), RT_PARAM_INVALID),
        ("count", aclrtMemSetAccess(base, PAGE, good, 0), RT_PARAM_INVALID),
        ("desc", aclrtMemSetAccess(base, PAGE, null_mut(), 1), INVALID_PARAM),
        ("desc", aclrtMemSetAccess(base, PAGE, good, usize::MAX), RT_PARAM_INVALID),
    ] {
        expect(what, code, want);
    }
    assert_eq!(rights(base), [0, 3, 0], "a refused call gives nothing");
    let (mut place, mut flag) = (location(4, 0), 5);
    refused(
        "type",
        aclrtMemGetAccess(base, &mut place, &mut flag),
        RT_PARAM_INVALID,
        &["location.type", "4"],
    );
    expect("device", aclrtMemGetAccess(base, &mut location(1, 2), &mut flag), INVALID_DEVICEID);
    expect("location", aclrtMemGetAccess(base, null_mut(), &mut flag), INVALID_PARAM);
    expect("flag", aclrtMemGetAccess(base, &mut location(0, 0), null_mut()), INVALID_PARAM);
    expect("virPtr", aclrtMemGetAccess(base + 1, &mut location(0, 0), &mut flag), RT_PARAM_INVALID);
    assert_eq!(flag, 5);
}

// proves: D5
#[test]
fn the_range_around_an_address() {
    use_device();
    let range = |ptr| {
        let (mut base, mut size) = (0, 0);
        ok(aclrtMemGetAddressRange(ptr, &mut base, &mut size));
        (base, size)
    };
    let (device, pinned) = (Memory::device(1000), Memory::pinned(1000));
    let mapped = Mapped::scattered(&[PAGE, 2 * PAGE]);
    for inside in [0, 1, 999] {
        // 1000 bytes are 1024 in units of 32, and 32 more.
        assert_eq!(range(device.addr + inside), (device.addr, 1056), "{inside}");
        assert_eq!(range(pinned.addr + inside), (pinned.addr, 1000), "{inside}");
        assert_eq!(range(mapped.all.addr + PAGE + inside), (mapped.all.addr + PAGE, 2 * PAGE), "{inside}");
    }
    let (mut base, mut size) = (0, 0);
    ok(aclrtMemGetAddressRange(device.addr, &mut base, null_mut()));
    ok(aclrtMemGetAddressRange(device.addr, null_mut(), &mut size));
    assert_eq!((base, size), (device.addr, 1056), "one of the two");
    expect("neither", aclrtMemGetAddressRange(device.addr, null_mut(), null_mut()), INVALID_PARAM);
    expect("NULL", aclrtMemGetAddressRange(0, &mut base, &mut size), INVALID_PARAM);
    let (heap, wild) = (Memory::heap(64), Wild::new());
    let bare = reserve(PAGE);
    for (what, ptr) in [
        ("malloc", heap.addr),
        ("freed", wild.freed_device),
        ("unmapped", wild.unmapped),
        ("reserved", bare),
        ("behind", pinned.addr + 1000),
    ] {
        let code = aclrtMemGetAddressRange(ptr, &mut base, &mut size);
        refused(what, code, RT_PARAM_INVALID, &["ptr", &format!("{ptr:#x}")]);
    }
    let user = Memory::new(Home::Mapped, PAGE);
    ok(aclrtHostRegisterV2(user.addr, PAGE, 0x1000_0000));
    expect(
        "the user's own, registered",
        aclrtMemGetAddressRange(user.addr, &mut base, &mut size),
        RT_PARAM_INVALID,
    );
    ok(aclrtHostUnregister(user.addr));
    assert_eq!((base, size), (device.addr, 1056), "a refused call writes nothing");
}
