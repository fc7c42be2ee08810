//! What becomes of mappings and physical memory: holes, remaps with copies queued, and who keeps what for how
//! long.

use ferry_tests::code::*;
use ferry_tests::kind::{D2D, D2H, H2D, H2H, INNER};
use ferry_tests::*;

use crate::{PAGE, POISON};

/// Device memory at an address.
fn at(addr: usize, len: usize) -> Memory {
    Memory { addr, len, home: Home::Device }
}

#[test]
fn reserve_map_copy_unmap_free_release() {
    use_device();
    let (base, handle) = (reserve(4 * PAGE), physical(2 * PAGE));
    ok(aclrtMapMem(base + PAGE, 2 * PAGE, 0, handle, 0));
    let memory = at(base + PAGE, 2 * PAGE);
    let data = pattern(2 * PAGE, 1);
    memory.write(&data);
    memory.assert_holds(&data, "mapped in the middle of a reservation");
    let mut attributes = aclrtPtrAttributes::default();
    ok(aclrtPointerGetAttributes(memory.addr + 7, &mut attributes));
    assert_eq!((attributes.location, attributes.pageSize), (location(1, 0), 4096));
    ok(aclrtUnmapMem(memory.addr));
    expect("after the unmap", aclrtMemset(memory.addr, 1, 0, 1), RT_PARAM_INVALID);
    ok(aclrtMapMem(base, 2 * PAGE, 0, handle, 0));
    at(base, 2 * PAGE).assert_holds(&data, "physical memory keeps its bytes from one mapping to the next");
    ok(aclrtUnmapMem(base));
    ok(aclrtFreePhysical(handle));
    ok(aclrtReleaseMemAddress(base));
    expect("after the release", aclrtMapMem(base, PAGE, 0, physical(PAGE), 0), RT_PARAM_INVALID);
}

/// Copies and fills over a place where nothing is mapped, at the start, in the middle and at the end: all are
/// refused.
#[test]
fn holes_are_refused_and_nothing_changes() {
    use_device();
    let range = Mapped::scattered(&[PAGE; 5]);
    let hole = range.all.addr + 2 * PAGE;
    range.all.fill(POISON);
    ok(aclrtUnmapMem(hole));
    let (host, device) = (Memory::pinned(5 * PAGE), Memory::device(5 * PAGE));
    host.fill(1);
    device.fill(2);
    let (stream, mut size) = (stream(), 0);
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let desc = Memory::device(size);
    let base = range.all.addr;
    let ranges = [
        ("over the hole", base + 10, 5 * PAGE - 20),
        ("from the hole", hole, 10),
        ("from the hole on", hole + PAGE - 1, 2),
        ("into the hole", hole - 1, 2),
        ("past the end", base + 5 * PAGE - 1, 2),
        ("all and one more", base + 3 * PAGE, 2 * PAGE + 1),
        ("from before the reservation", base - 1, 2),
        ("far beyond", base + 3 * PAGE, usize::MAX - base - 3 * PAGE),
    ];
    refused("from the hole", aclrtMemcpy(hole, 10, host.addr, 10, H2D), RT_PARAM_INVALID, &["is one of"]);
    for (what, addr, len) in ranges {
        let (h, d) = (host.addr, device.addr);
        let one = |dst, src, attr, form, stream| Batch::of(&[(dst, src, len)], attr).call(form, stream);
        let codes = [
            ("aclrtMemcpy in", aclrtMemcpy(addr, len, h, len, H2D)),
            ("aclrtMemcpy out", aclrtMemcpy(h, len, addr, len, D2H)),
            ("aclrtMemcpy inside", aclrtMemcpy(addr, len, d, len, D2D)),
            ("aclrtMemcpyAsync in", aclrtMemcpyAsync(addr, len, h, len, H2D, stream)),
            ("aclrtMemcpyAsync out", aclrtMemcpyAsync(h, len, addr, len, D2H, stream)),
            ("aclrtMemcpyAsync inside", aclrtMemcpyAsync(d, len, addr, len, D2D, stream)),
            ("aclrtMemcpy2d in", aclrtMemcpy2d(addr, len, h, len, len, 1, H2D)),
            ("aclrtMemcpy2d out", aclrtMemcpy2d(h, len, addr, len, len, 1, D2H)),
            ("aclrtMemset", aclrtMemset(addr, len, 7, len)),
            ("aclrtMemsetAsync", aclrtMemsetAsync(addr, len, 7, len, stream)),
            ("aclrtSetMemcpyDesc in", aclrtSetMemcpyDesc(desc.addr, INNER, d, addr, len, 0)),
            ("aclrtSetMemcpyDesc out", aclrtSetMemcpyDesc(desc.addr, INNER, addr, d, len, 0)),
        ];
        for (name, code) in codes {
            expect(&format!("{name} {what}"), code, RT_PARAM_INVALID);
        }
        for form in BatchForm::ALL {
            let (code, index) = one(addr, h, HOST_TO_DEVICE, form, stream);
            expect(&format!("{form:?} {what}"), code, RT_PARAM_INVALID);
            assert_eq!(index.unwrap_or(0), 0, "failIndex of {form:?} {what}");
        }
    }
    let rows = aclrtMemcpy2dAsync(base, PAGE, host.addr, PAGE, 10, 5, H2D, stream);
    expect("rows of which one begins in the hole", rows, RT_PARAM_INVALID);
    finish(stream);
    host.assert_all(1, "host memory");
    device.assert_all(2, "device memory");
    for piece in [0, 1, 3, 4] {
        at(base + piece * PAGE, PAGE).assert_all(POISON, "a piece beside the hole");
    }
}

/// Two reservations never touch, so that a range cannot go from one into the other.
#[test]
fn reservations_do_not_merge() {
    use_device();
    const TWO: usize = 2 << 20;
    let first = reserve(TWO);
    // Asked for right behind the first: it may come close, not next to it.
    let mut second = 0;
    ok(aclrtReserveMemAddress(&mut second, TWO, 0, first + TWO, 0));
    assert!(second.abs_diff(first) > TWO, "{first:#x} and {second:#x}");
    let mut all: Vec<usize> = (0..20).map(|_| reserve(TWO)).chain([first, second]).collect();
    all.sort();
    for pair in all.windows(2) {
        assert!(pair[1] - pair[0] > TWO, "{:#x} and {:#x}", pair[0], pair[1]);
    }
    for base in &all {
        assert_eq!(base % TWO, 0, "any granularity can be mapped at the start");
        ok(aclrtMapMem(*base, TWO, 0, physical(TWO), 0));
    }
    for base in all {
        let last = base + TWO - 1;
        expect("one byte past a reservation", aclrtMemset(last, 2, 1, 2), RT_PARAM_INVALID);
        let handle = physical(2 * PAGE);
        let code = aclrtMapMem(base + TWO, 2 * PAGE, 0, handle, 0);
        expect("mapping past a reservation", code, RT_PARAM_INVALID);
    }
}

/// Addresses that were given up are nobody's for a while, neither another reservation's nor plain memory's.
#[test]
fn released_addresses_are_not_handed_out_again_at_once() {
    use_device();
    let released = reserve(8 * PAGE);
    ok(aclrtReleaseMemAddress(released));
    let others: Vec<usize> = (0..8).map(|_| reserve(8 * PAGE)).collect();
    assert!(!others.contains(&released), "{released:#x} was released just now: {others:x?}");
    let plain: Vec<Memory> = (0..8).map(|_| Memory::new(Home::Mapped, 8 * PAGE)).collect();
    expect("a copy there", aclrtMemset(released, PAGE, 1, PAGE), RT_PARAM_INVALID);
    expect("releasing it again", aclrtReleaseMemAddress(released), RT_PARAM_INVALID);
    plain.iter().for_each(|memory| ok(memory.free()));
    others.iter().for_each(|base| ok(aclrtReleaseMemAddress(*base)));
}

#[test]
fn a_wish_for_an_address_is_met_where_it_can_be() {
    use_device();
    const TWO: usize = 2 << 20;
    let free = reserve(8 * TWO);
    ok(aclrtReleaseMemAddress(free));
    for wish in [free, 0x10, 1, 0xdead_beef_dead_beef, usize::MAX, 1 << 47, 1 << 56, Memory::device(64).addr]
    {
        let mut base = 0;
        ok(aclrtReserveMemAddress(&mut base, TWO, 0, wish, 0));
        if wish != free {
            assert_ne!(base, wish);
        }
        ok(aclrtMapMem(base, TWO, 0, physical(TWO), 0));
        at(base, TWO).fill(3);
        ok(aclrtUnmapMem(base));
        ok(aclrtReleaseMemAddress(base));
    }
}

/// What was queued before an unmap reaches the memory that was mapped then; what is queued after reaches the
/// new one.
#[test]
fn copies_queued_before_a_remap_reach_the_old_memory() {
    use_device();
    let (base, stream) = (reserve(2 * PAGE), stream());
    let (old, new, rest) = (physical(PAGE), physical(PAGE), physical(PAGE));
    let look = reserve(2 * PAGE);
    ok(aclrtMapMem(look, PAGE, 0, old, 0));
    ok(aclrtMapMem(look + PAGE, PAGE, 0, new, 0));
    at(look, 2 * PAGE).fill(POISON);
    ok(aclrtMapMem(base, PAGE, 0, old, 0));
    ok(aclrtMapMem(base + PAGE, PAGE, 0, rest, 0));
    let data: Vec<Memory> =
        (1..5).map(|seed| Memory::holding(Home::Pinned, &pattern(2 * PAGE, seed))).collect();
    let out = Memory::pinned(2 * PAGE);

    let gate = block(stream);
    ok(aclrtMemcpyAsync(base, 2 * PAGE, data[0].addr, 2 * PAGE, H2D, stream));
    ok(aclrtMemcpyAsync(out.addr, 2 * PAGE, base, 2 * PAGE, D2H, stream));
    ok(aclrtMemsetAsync(base, 2 * PAGE, 0x77, 16, stream));
    ok(aclrtUnmapMem(base));
    ok(aclrtFreePhysical(old));
    ok(aclrtMapMem(base, PAGE, 0, new, 0));
    ok(aclrtMemcpyAsync(base, PAGE, data[1].addr, PAGE, H2D, stream));
    gate.unblock();
    finish(stream);

    let first = data[0].read();
    let want = [&[0x77; 16], &first[16..PAGE]].concat();
    at(look, PAGE).assert_holds(&want, "the old memory");
    at(look + PAGE, PAGE).assert_holds(&data[1].read()[..PAGE], "the new memory");
    at(base + PAGE, PAGE).assert_holds(&first[PAGE..], "the piece that stayed");
    out.assert_holds(&first, "what was read before the remap");
}

/// A descriptor is looked up when the copy runs: there the new mapping counts.
#[test]
fn a_descriptor_copy_reaches_what_is_mapped_when_it_runs() {
    use_device();
    let (base, stream, mut size) = (reserve(PAGE), stream(), 0);
    let (old, new) = (physical(PAGE), physical(PAGE));
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let (desc, src) = (Memory::device(size), Memory::holding(Home::Device, &pattern(PAGE, 8)));
    ok(aclrtMapMem(base, PAGE, 0, old, 0));
    at(base, PAGE).fill(1);
    ok(aclrtSetMemcpyDesc(desc.addr, INNER, src.addr, base, PAGE, 0));
    let gate = block(stream);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
    ok(aclrtUnmapMem(base));
    ok(aclrtMapMem(base, PAGE, 0, new, 0));
    gate.unblock();
    finish(stream);
    at(base, PAGE).assert_holds(&pattern(PAGE, 8), "mapped when the copy ran");
    ok(aclrtUnmapMem(base));
    ok(aclrtMapMem(base, PAGE, 0, old, 0));
    at(base, PAGE).assert_all(1, "no longer mapped when the copy ran");

    let gate = block(stream);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
    ok(aclrtUnmapMem(base));
    gate.unblock();
    expect("nothing is mapped when the copy runs", aclrtSynchronizeStream(stream), RT_PARAM_INVALID);
}

#[test]
fn one_physical_memory_at_two_addresses() {
    use_device();
    let (base, handle, stream) = (reserve(4 * PAGE), physical(2 * PAGE), stream());
    let (one, two) = (at(base, 2 * PAGE), at(base + 2 * PAGE, 2 * PAGE));
    ok(aclrtMapMem(one.addr, one.len, 0, handle, 0));
    ok(aclrtMapMem(two.addr, two.len, 0, handle, 0));
    let data = pattern(2 * PAGE, 5);
    one.write(&data);
    two.assert_holds(&data, "the same bytes");
    // Across the border from the end of the memory to its own start.
    let host = Memory::pinned(2 * PAGE);
    ok(aclrtMemcpyAsync(host.addr, 2 * PAGE, base + PAGE, 2 * PAGE, D2H, stream));
    finish(stream);
    host.assert_holds(&[&data[PAGE..], &data[..PAGE]].concat(), "two views side by side");
    ok(aclrtUnmapMem(one.addr));
    ok(aclrtFreePhysical(handle));
    two.assert_holds(&data, "the second mapping keeps the memory");
    ok(aclrtUnmapMem(two.addr));
}

#[test]
fn physical_memory_that_is_mapped_outlives_its_handle() {
    use_device();
    let (base, handle) = (reserve(2 * PAGE), physical(PAGE));
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    at(base, PAGE).fill(0x5a);
    ok(aclrtFreePhysical(handle));
    expect("a freed handle", aclrtMapMem(base + PAGE, PAGE, 0, handle, 0), INVALID_HANDLE);
    expect("freed twice", aclrtFreePhysical(handle), INVALID_HANDLE);
    // Others get other memory.
    let others: Vec<Memory> = (0..64).map(|_| Memory::device(PAGE)).collect();
    others.iter().for_each(|other| other.fill(0x11));
    at(base, PAGE).assert_all(0x5a, "mapped memory whose handle was freed");
    others.into_iter().for_each(|other| ok(other.free()));
    ok(aclrtUnmapMem(base));
    ok(aclrtReleaseMemAddress(base));
}

#[test]
fn undone_in_either_order() {
    use_device();
    for release_first in [true, false] {
        let (base, handle) = (reserve(PAGE), physical(PAGE));
        ok(aclrtMapMem(base, PAGE, 0, handle, 0));
        expect("still mapped", aclrtReleaseMemAddress(base), RT_PARAM_INVALID);
        at(base, PAGE).fill(1);
        at(base, PAGE).assert_all(1, "a refused release changes nothing");
        ok(aclrtUnmapMem(base));
        expect("unmapped twice", aclrtUnmapMem(base), RT_PARAM_INVALID);
        if release_first {
            ok(aclrtReleaseMemAddress(base));
            ok(aclrtFreePhysical(handle));
        } else {
            ok(aclrtFreePhysical(handle));
            ok(aclrtReleaseMemAddress(base));
        }
        expect("released twice", aclrtReleaseMemAddress(base), RT_PARAM_INVALID);
    }
}

/// A range has one home: pieces of two devices side by side are used one by one.
#[test]
fn pieces_of_two_devices_are_not_one_range() {
    use_device();
    let (base, host, mut other) = (reserve(2 * PAGE), Memory::pinned(2 * PAGE), 0);
    ok(aclrtMallocPhysical(&mut other, PAGE, &properties(NORMAL_PAGES, 1), 0));
    ok(aclrtMapMem(base, PAGE, 0, physical(PAGE), 0));
    ok(aclrtMapMem(base + PAGE, PAGE, 0, other, 0));
    for (device, start) in [(0, base), (1, base + PAGE)] {
        let (memory, mut attributes) = (at(start, PAGE), aclrtPtrAttributes::default());
        memory.fill(device as u8);
        ok(aclrtPointerGetAttributes(start, &mut attributes));
        assert_eq!(attributes.location, location(1, device));
    }
    let (both, stream) = (2 * PAGE, stream());
    let codes = [
        ("aclrtMemcpy", aclrtMemcpy(base, both, host.addr, both, H2D)),
        ("aclrtMemcpyAsync", aclrtMemcpyAsync(host.addr, both, base, both, D2H, stream)),
        ("aclrtMemset", aclrtMemset(base, both, 9, both)),
        ("aclrtMemcpy2d", aclrtMemcpy2d(base, PAGE, host.addr, PAGE, 10, 2, H2D)),
    ];
    for (name, code) in codes {
        expect(name, code, RT_PARAM_INVALID);
    }
    finish(stream);
    at(base, PAGE).assert_all(0, "device 0");
    at(base + PAGE, PAGE).assert_all(1, "device 1");
}

/// Documented: virtual memory is copied between devices by aclrtMemcpyAsync only.
// proves: X7
#[test]
fn mapped_memory_goes_to_another_device_by_the_asynchronous_copy_only() {
    ok(aclrtSetDevice(1));
    ok(aclrtDeviceEnablePeerAccess(0, 0));
    let there = Memory::device(3 * PAGE);
    use_device();
    ok(aclrtDeviceEnablePeerAccess(1, 0));
    let (range, stream) = (Mapped::scattered(&[PAGE, 2 * PAGE]).all, stream());
    let len = 3 * PAGE;
    for (what, dst, src) in [("from", there, range), ("to", range, there)] {
        let data = pattern(len, 6);
        src.write(&data);
        dst.fill(POISON);
        let codes = [
            ("aclrtMemcpy", aclrtMemcpy(dst.addr, len, src.addr, len, D2D)),
            ("aclrtMemcpy, any kind", aclrtMemcpy(dst.addr, len, src.addr, len, H2H)),
            ("aclrtMemcpy2dAsync", aclrtMemcpy2dAsync(dst.addr, 64, src.addr, 64, 64, 2, D2D, stream)),
        ];
        for (name, code) in codes {
            assert_eq!(code, RT_PARAM_INVALID, "{name} {what} mapped memory");
        }
        let said = message().unwrap_or_default();
        assert!(said.contains("aclrtMemcpyAsync"), "the way that works is told: {said}");
        finish(stream);
        dst.assert_all(POISON, "refused");
        ok(aclrtMemcpyAsync(dst.addr, len, src.addr, len, D2D, stream));
        finish(stream);
        dst.assert_holds(&data, what);
    }
    // Inside one device nothing of this holds.
    let here = Memory::device(len);
    ok(aclrtMemcpy(here.addr, len, range.addr, len, D2D));
    // Nor for memory that is not mapped.
    ok(aclrtMemcpy(there.addr, len, here.addr, len, D2D));
}
