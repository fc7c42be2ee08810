//! Copies whose addresses are read when they run: descriptors and offsets.

use ferry_tests::code::{INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::kind::{D2H, INNER};
use ferry_tests::*;

use crate::scene::{DEVICE_END, LEN, Scene};

const BAD_KINDS: [i32; 9] = [-1, 0, 1, 2, 3, 4, 5, 7, 8];

fn desc_size() -> usize {
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    size
}

// proves: R72
#[test]
fn the_size_of_a_descriptor() {
    let s = Scene::new();
    for kind in BAD_KINDS {
        let mut size = 77;
        s.refuses("aclrtGetMemcpyDescSize", &format!("kind {kind}"), INVALID_PARAM, || {
            aclrtGetMemcpyDescSize(kind, &mut size)
        });
        assert_eq!(size, 77, "a refused call writes nothing");
    }
    let null = std::ptr::null_mut();
    s.refuses("aclrtGetMemcpyDescSize", "descSize NULL", INVALID_PARAM, || {
        aclrtGetMemcpyDescSize(INNER, null)
    });
    assert!(desc_size() >= 24, "two addresses and a length have to fit");
}

// proves: R73 R75
#[test]
fn setting_a_descriptor() {
    #[derive(Clone, Copy)]
    struct Set {
        desc: usize,
        kind: i32,
        src: usize,
        dst: usize,
        count: usize,
    }
    let s = Scene::new();
    let end = s.device.addr + DEVICE_END;
    let (src, dst) = (s.device.addr + 2048, s.device.addr + 1024);
    let good = Set { desc: s.device.addr, kind: INNER, src, dst, count: 512 };
    let mut rows = vec![
        ("desc NULL", Set { desc: 0, ..good }, INVALID_PARAM),
        ("src NULL", Set { src: 0, ..good }, INVALID_PARAM),
        ("dst NULL", Set { dst: 0, ..good }, INVALID_PARAM),
        ("desc in page-locked memory", Set { desc: s.pinned.addr, ..good }, RT_PARAM_INVALID),
        ("desc in plain memory", Set { desc: s.heap.addr, ..good }, RT_PARAM_INVALID),
        ("desc not an address", Set { desc: 0xdead_beef_dead_beef, ..good }, RT_PARAM_INVALID),
        ("desc 0x10", Set { desc: 0x10, ..good }, RT_PARAM_INVALID),
        ("desc freed", Set { desc: s.wild.freed_device, ..good }, RT_PARAM_INVALID),
        ("desc leaves its memory by a byte", Set { desc: end - desc_size() + 1, ..good }, RT_PARAM_INVALID),
        ("desc at the very end", Set { desc: end, ..good }, RT_PARAM_INVALID),
        ("desc wraps", Set { desc: usize::MAX - 3, ..good }, RT_PARAM_INVALID),
        ("src in page-locked memory", Set { src: s.pinned.addr, ..good }, RT_PARAM_INVALID),
        ("src in plain memory", Set { src: s.heap.addr, ..good }, RT_PARAM_INVALID),
        ("dst in plain memory", Set { dst: s.heap.addr, ..good }, RT_PARAM_INVALID),
        ("dst in page-locked memory", Set { dst: s.pinned.addr, ..good }, RT_PARAM_INVALID),
        ("src freed", Set { src: s.wild.freed_device, ..good }, RT_PARAM_INVALID),
        ("dst freed", Set { dst: s.wild.freed_device, ..good }, RT_PARAM_INVALID),
        ("src leaves its memory", Set { src: end - 511, ..good }, RT_PARAM_INVALID),
        ("dst leaves its memory", Set { dst: end - 511, ..good }, RT_PARAM_INVALID),
        ("count wraps", Set { count: usize::MAX, ..good }, RT_PARAM_INVALID),
        ("src on another device", Set { src: s.elsewhere.addr, ..good }, RT_PARAM_INVALID),
        ("dst on another device", Set { dst: s.elsewhere.addr, ..good }, RT_PARAM_INVALID),
    ];
    rows.extend(
        BAD_KINDS.map(|kind| ("a kind that descriptors do not take", Set { kind, ..good }, INVALID_PARAM)),
    );
    for (row, c, want) in rows {
        s.refuses("aclrtSetMemcpyDesc", &format!("{row} (kind {})", c.kind), want, || {
            aclrtSetMemcpyDesc(c.desc, c.kind, c.src, c.dst, c.count, 0)
        });
    }
}

// proves: R70 R73 R75 R76 R77
#[test]
fn copying_by_a_descriptor() {
    let s = Scene::new();
    let end = s.device.addr + DEVICE_END;
    let good = Memory::device(desc_size());
    ok(aclrtSetMemcpyDesc(good.addr, INNER, s.device.addr + 2048, s.device.addr + 1024, 512, 0));
    let mut rows = vec![
        ("desc NULL", 0, INNER, s.stream, INVALID_PARAM),
        ("desc in page-locked memory", s.pinned.addr, INNER, s.stream, RT_PARAM_INVALID),
        ("desc in plain memory", s.heap.addr, INNER, s.stream, RT_PARAM_INVALID),
        ("desc not an address", 0xdead_beef_dead_beef, INNER, s.stream, RT_PARAM_INVALID),
        ("desc 0x10", 0x10, INNER, s.stream, RT_PARAM_INVALID),
        ("desc freed", s.wild.freed_device, INNER, s.stream, RT_PARAM_INVALID),
        ("desc leaves its memory by a byte", end - desc_size() + 1, INNER, s.stream, RT_PARAM_INVALID),
        ("desc wraps", usize::MAX - 3, INNER, s.stream, RT_PARAM_INVALID),
    ];
    rows.extend(
        BAD_KINDS
            .map(|kind| ("a kind that descriptors do not take", good.addr, kind, s.stream, INVALID_PARAM)),
    );
    rows.extend(s.bad_streams().map(|(name, stream, want)| (name, good.addr, INNER, stream, want)));
    for (row, desc, kind, stream, want) in rows {
        s.refuses("aclrtMemcpyAsyncWithDesc", &format!("{row} (kind {kind})"), want, || {
            aclrtMemcpyAsyncWithDesc(desc, kind, stream)
        });
    }
}

/// Runs a copy that is accepted and then fails when it runs: the next synchronise tells, the one after has
/// forgotten.
fn fails_when_it_runs(s: &Scene, what: &str, function: &str, submit: impl FnOnce() -> i32) {
    expect(what, submit(), 0);
    let code = aclrtSynchronizeStream(s.stream);
    let said = message().unwrap_or_default();
    assert_eq!(code, RT_PARAM_INVALID, "{what}: {said}");
    assert!(said.contains(function), "{what}: the message does not name the copy that failed: {said:?}");
    s.unchanged(what);
}

// proves: R74 X2
#[test]
fn descriptors_that_are_bad_when_they_are_read() {
    let s = Scene::new();
    let size = desc_size();
    let desc = Memory::device(size);
    let copy = || aclrtMemcpyAsyncWithDesc(desc.addr, INNER, s.stream);
    // Bytes that no aclrtSetMemcpyDesc wrote, in every way they may look.
    for byte in [0x00, 0xff, 0x3c] {
        desc.fill(byte);
        fails_when_it_runs(&s, &format!("a descriptor full of {byte:#x}"), "aclrtMemcpyAsyncWithDesc", copy);
    }
    // Each 8-byte word of a good one overwritten.
    let (src, dst) = (s.device.addr + 2048, s.device.addr + 1024);
    let set = |count| ok(aclrtSetMemcpyDesc(desc.addr, INNER, src, dst, count, 0));
    for word in 0..size / 8 {
        set(512);
        let good = desc.read();
        desc.part(word * 8, 8).fill(0xee);
        if desc.read()[word * 8..][..8] != good[word * 8..][..8] {
            fails_when_it_runs(
                &s,
                &format!("a descriptor with word {word} overwritten"),
                "aclrtMemcpyAsyncWithDesc",
                copy,
            );
        }
    }
    // Memory that was freed after it was put in.
    let gone = Memory::device(LEN);
    ok(aclrtSetMemcpyDesc(desc.addr, INNER, gone.addr, dst, 512, 0));
    ok(gone.free());
    fails_when_it_runs(&s, "a descriptor of freed memory", "aclrtMemcpyAsyncWithDesc", copy);
    ok(desc.free());
}

/// The arguments of an offset copy.
#[derive(Clone, Copy)]
struct Offset {
    dst: usize,
    max: usize,
    dst_offset: usize,
    src: usize,
    count: usize,
    src_offset: usize,
    kind: i32,
    stream: usize,
}

fn call(c: Offset) -> i32 {
    aclrtMemcpyAsyncWithOffset(c.dst, c.max, c.dst_offset, c.src, c.count, c.src_offset, c.kind, c.stream)
}

/// Two cells in page-locked memory that hold the addresses of good memory, and an offset copy through them.
fn through_cells(s: &Scene) -> (Memory, Memory, Offset) {
    let dst = Memory::holding(Home::Pinned, &s.device.addr.to_ne_bytes());
    let src = Memory::holding(Home::Pinned, &s.device.addr.to_ne_bytes());
    let copy = Offset {
        dst: dst.addr,
        max: 512,
        dst_offset: 0,
        src: src.addr,
        count: 512,
        src_offset: 1024,
        kind: INNER,
        stream: s.stream,
    };
    (dst, src, copy)
}

#[test]
fn copying_by_offsets() {
    let s = Scene::new();
    let (_, _, good) = through_cells(&s);
    let mut rows = vec![
        ("dst NULL", Offset { dst: 0, ..good }, INVALID_PARAM),
        ("src NULL", Offset { src: 0, ..good }, INVALID_PARAM),
        ("count above destMax", Offset { max: 511, ..good }, RT_PARAM_INVALID),
        ("dst cell not an address", Offset { dst: 0xdead_beef_dead_beef, ..good }, RT_PARAM_INVALID),
        ("src cell not an address", Offset { src: 0xdead_beef_dead_beef, ..good }, RT_PARAM_INVALID),
        ("dst cell freed", Offset { dst: s.wild.freed_device, ..good }, RT_PARAM_INVALID),
        ("src cell freed", Offset { src: s.wild.freed_pinned, ..good }, RT_PARAM_INVALID),
        ("dst cell in plain memory", Offset { dst: s.heap.addr, ..good }, RT_PARAM_INVALID),
        ("src cell in plain memory", Offset { src: s.heap.addr, ..good }, RT_PARAM_INVALID),
        (
            "dst cell leaves its memory",
            Offset { dst: s.device.addr + DEVICE_END - 7, ..good },
            RT_PARAM_INVALID,
        ),
        ("src cell leaves its memory", Offset { src: s.pinned.addr + LEN - 7, ..good }, RT_PARAM_INVALID),
        ("dst cell wraps", Offset { dst: usize::MAX - 3, ..good }, RT_PARAM_INVALID),
        ("dst offset + count wraps", Offset { dst_offset: usize::MAX - 100, ..good }, RT_PARAM_INVALID),
        ("src offset + count wraps", Offset { src_offset: usize::MAX - 100, ..good }, RT_PARAM_INVALID),
    ];
    rows.extend(
        BAD_KINDS.map(|kind| ("a kind that offsets do not take", Offset { kind, ..good }, INVALID_PARAM)),
    );
    rows.extend(s.bad_streams().map(|(name, stream, want)| (name, Offset { stream, ..good }, want)));
    for (row, copy, want) in rows {
        s.refuses("aclrtMemcpyAsyncWithOffset", &format!("{row} (kind {})", copy.kind), want, || call(copy));
    }
}

// proves: X2
#[test]
fn cells_that_are_bad_when_they_are_read() {
    let s = Scene::new();
    let (dst, src, good) = through_cells(&s);
    let addresses = [
        ("NULL", 0),
        ("not an address", 0xdead_beef_dead_beef),
        ("freed device memory", s.wild.freed_device),
        ("plain memory", s.heap.addr),
        ("page-locked memory", s.pinned.addr),
        ("the end of its memory", s.device.addr + DEVICE_END - 511),
        ("memory of another device", s.elsewhere.addr),
        ("the top of all addresses", usize::MAX - 1023),
    ];
    for (name, address) in addresses {
        for (end, cell) in [("dst", dst), ("src", src)] {
            cell.write(&address.to_ne_bytes());
            let copy = Offset { src_offset: 0, ..good };
            let what = format!("a {end} cell that holds {name}");
            fails_when_it_runs(&s, &what, "aclrtMemcpyAsyncWithOffset", || call(copy));
            cell.write(&s.device.addr.to_ne_bytes());
        }
    }
    let far = Offset { src_offset: DEVICE_END - 511, ..good };
    fails_when_it_runs(
        &s,
        "an offset that leaves the memory by a byte",
        "aclrtMemcpyAsyncWithOffset",
        || call(far),
    );
}

/// A failed task does not stop the stream, and the first failure is the one told.
// proves: X2
#[test]
fn the_stream_goes_on_after_a_failed_copy() {
    let s = Scene::new();
    let desc = Memory::device(desc_size());
    desc.fill(0);
    let data = pattern(512, 77);
    let (from, to) = (Memory::holding(Home::Device, &data), Memory::pinned(512));
    to.fill(0);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, s.stream));
    ok(aclrtMemcpyAsync(to.addr, 512, from.addr, 512, D2H, s.stream));
    expect("the failed copy", aclrtSynchronizeStream(s.stream), RT_PARAM_INVALID);
    to.assert_holds(&data, "the copy after it");
    s.unchanged("a failed copy is told once");
}

// proves: X2
#[test]
fn a_failed_copy_is_told_once_by_the_first_call_that_looks() {
    let s = Scene::new();
    let desc = Memory::device(desc_size());
    desc.fill(0);
    type Look = fn(stream: usize) -> i32;
    let looks: [(&str, Look); 3] = [
        ("aclrtSynchronizeStream", aclrtSynchronizeStream),
        ("aclrtSynchronizeStreamWithTimeout", |stream| aclrtSynchronizeStreamWithTimeout(stream, 60_000)),
        ("aclrtStreamQuery", |stream| aclrtStreamQuery(stream, &mut 0)),
    ];
    for (name, look) in looks {
        ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, s.stream));
        // Waiting for an event waits for the copy and tells nothing about it.
        ok(aclrtRecordEvent(s.event, s.stream));
        ok(aclrtSynchronizeEvent(s.event));
        expect(name, look(s.stream), RT_PARAM_INVALID);
        expect(name, look(s.stream), 0);
    }
}
