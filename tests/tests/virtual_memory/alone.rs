//! What counts for the whole process: free memory, resident memory, mappings. Each case is a child process.

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::kind::{D2H, H2D};
use ferry_tests::*;

use crate::PAGE;

const MIB: usize = 1 << 20;

pub const CASES: [Case; 4] = [
    ("physical memory counts", physical_memory_counts),
    ("physical memory comes back when queued copies have passed", queued_copies_hold_memory),
    ("physical memory runs out", runs_out),
    ("rounds of map and unmap leave nothing behind", nothing_is_left),
];

#[test]
fn each_case_in_a_process_of_its_own() {
    for (name, _) in CASES {
        children::run(name, &[("FERRY_DEVICE_MEMORY", Some("64M"))]);
    }
}

/// Free bytes of device 0.
fn free() -> usize {
    let (mut free, mut total) = (0, 0);
    ok(aclrtGetMemInfo(1, &mut free, &mut total));
    assert_eq!(total, 64 * MIB);
    free
}

fn made(attribute: i32, len: usize) -> usize {
    let mut handle = 0;
    ok(aclrtMallocPhysical(&mut handle, len, &properties(attribute, 0), 0));
    handle
}

fn physical_memory_counts() {
    use_device();
    assert_eq!(free(), 64 * MIB);
    let base = reserve(32 * MIB);
    assert_eq!(free(), 64 * MIB, "addresses are free");
    let (small, large) = (made(NORMAL_PAGES, 5 * PAGE), made(13, 4 * MIB));
    let left = 60 * MIB - 5 * PAGE;
    assert_eq!(free(), left, "made, not mapped");
    ok(aclrtMapMem(base, 4 * MIB, 0, large, 0));
    ok(aclrtMapMem(base + 4 * MIB, 4 * MIB, 0, large, 0));
    assert_eq!(free(), left, "mapped twice, there once");
    ok(aclrtFreePhysical(large));
    assert_eq!(free(), left, "freed while it is mapped");
    ok(aclrtUnmapMem(base));
    assert_eq!(free(), left, "mapped once more");
    ok(aclrtUnmapMem(base + 4 * MIB));
    assert_eq!(free(), 64 * MIB - 5 * PAGE, "the last mapping gone");
    ok(aclrtFreePhysical(small));
    ok(aclrtReleaseMemAddress(base));
    assert_eq!(free(), 64 * MIB);
}

fn queued_copies_hold_memory() {
    use_device();
    let (base, stream, host) = (reserve(4 * MIB), stream(), Memory::pinned(4 * MIB));
    for unmap_first in [true, false] {
        let handles = [made(NORMAL_PAGES, MIB), made(NORMAL_PAGES, MIB)];
        ok(aclrtMapMem(base, MIB, 0, handles[0], 0));
        ok(aclrtMapMem(base + MIB, MIB, 0, handles[1], 0));
        let gate = block(stream);
        let data = pattern(2 * MIB, 4);
        host.write(&data);
        let back = host.part(2 * MIB, 2 * MIB);
        ok(aclrtMemcpyAsync(base, 2 * MIB, host.addr, 2 * MIB, H2D, stream));
        ok(aclrtMemcpyAsync(back.addr, 2 * MIB, base, 2 * MIB, D2H, stream));
        for (piece, handle) in handles.into_iter().enumerate() {
            let unmap = || ok(aclrtUnmapMem(base + piece * MIB));
            let free = || ok(aclrtFreePhysical(handle));
            if unmap_first {
                (unmap(), free())
            } else {
                (free(), unmap())
            };
        }
        assert_eq!(free(), 62 * MIB, "the copies have not run");
        // What others get and write meanwhile is not what the copies use.
        let others: Vec<Memory> = (0..60).map(|_| Memory::device(MIB / 2)).collect();
        others.iter().for_each(|other| other.fill(0x99));
        gate.unblock();
        finish(stream);
        back.assert_holds(&data, "through memory that was unmapped and freed meanwhile");
        others.into_iter().for_each(|other| {
            other.assert_all(0x99, "memory made meanwhile");
            ok(other.free());
        });
        assert_eq!(free(), 64 * MIB, "the copies have passed");
    }
}

fn runs_out() {
    use_device();
    let base = reserve(128 * MIB);
    let mut handles: Vec<usize> = (0..32).map(|_| made(13, 2 * MIB)).collect();
    let mut one_more = 77;
    for (attribute, len) in [(13, 2 * MIB), (NORMAL_PAGES, PAGE)] {
        let code = aclrtMallocPhysical(&mut one_more, len, &properties(attribute, 0), 0);
        expect("one more", code, MEMORY_ALLOCATION);
    }
    expect("aclrtMalloc of the same memory", aclrtMalloc(&mut one_more, 64, 2), MEMORY_ALLOCATION);
    assert_eq!((one_more, free()), (77, 0));
    // Still usable, all of it.
    for (piece, handle) in handles.iter().enumerate() {
        ok(aclrtMapMem(base + piece * 2 * MIB, 2 * MIB, 0, *handle, 0));
    }
    let whole = Memory { addr: base, len: 64 * MIB, home: Home::Device };
    let data = pattern(64 * MIB, 1);
    whole.write(&data);
    whole.assert_holds(&data, "all memory of a device in one range");
    ok(aclrtUnmapMem(base));
    ok(aclrtFreePhysical(handles.remove(0)));
    ok(aclrtMalloc(&mut one_more, MIB, 2));
    let giant = aclrtMallocPhysical(&mut one_more, 1 << 30, &properties(14, 0), 0);
    expect("a page of 1 GiB", giant, MEMORY_ALLOCATION);
}

/// Resident bytes and mappings of this process.
fn footprint() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line =
        status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line for resident memory");
    let kib: usize = line.split_whitespace().next().expect("a number").parse().expect("a number");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux tells");
    (kib * 1024, maps.lines().count())
}

fn nothing_is_left() {
    use_device();
    let (stream, host) = (stream(), Memory::pinned(4 * PAGE));
    let round = |index: usize| {
        // Now and then another reservation, and copies that are still queued when their memory goes.
        let base = reserve(8 * MIB);
        let handles = [made(NORMAL_PAGES, 2 * PAGE), made(NORMAL_PAGES, 2 * PAGE), made(13, 2 * MIB)];
        ok(aclrtMapMem(base, 2 * PAGE, 0, handles[0], 0));
        ok(aclrtMapMem(base + 2 * PAGE, 2 * PAGE, 0, handles[1], 0));
        ok(aclrtMapMem(base + 4 * MIB, 2 * MIB, 0, handles[2], 0));
        ok(aclrtMemcpyAsync(base, 4 * PAGE, host.addr, 4 * PAGE, H2D, stream));
        ok(aclrtMemsetAsync(base + 4 * MIB, 2 * MIB, 1, PAGE, stream));
        for (start, handle) in [0, 2 * PAGE, 4 * MIB].into_iter().zip(handles) {
            ok(aclrtUnmapMem(base + start));
            ok(aclrtFreePhysical(handle));
        }
        ok(aclrtReleaseMemAddress(base));
        if index.is_multiple_of(10) {
            finish(stream);
        }
    };
    // A driver takes its time, the more so beside other processes: enough that what was freed rests no more,
    // and then some.
    let (first, more) = if on_host() { (2000, 10_000) } else { (500, 1500) };
    (0..first).for_each(round);
    finish(stream);
    assert_eq!(free(), 64 * MIB);
    let before = footprint();
    (0..more).for_each(round);
    finish(stream);
    assert_eq!(free(), 64 * MIB);
    let after = footprint();
    let grown = after.0.saturating_sub(before.0);
    assert!(grown < 8 * MIB, "{more} rounds cost {grown} bytes");
    assert!(after.1 <= before.1 + 8, "{} mappings became {}", before.1, after.1);
}
