//! aclrtValueWrite and aclrtValueWait: cells of device memory that streams write and wait for.

use ferry_tests::code::*;
use ferry_tests::kind::{D2D, D2H, H2D};
use ferry_tests::*;

const GEQ: u32 = 0;
const EQ: u32 = 1;
const AND: u32 = 2;
const NOR: u32 = 3;

/// A cell that holds `value`.
fn cell(value: u64) -> Memory {
    Memory::holding(Home::Device, &value.to_ne_bytes())
}

fn value(cell: &Memory) -> u64 {
    u64::from_ne_bytes(cell.read().try_into().expect("eight bytes"))
}

#[test]
fn a_write_is_a_task_of_its_stream() {
    use_device();
    let (stream, cell, seen) = (stream(), cell(7), Memory::pinned(24));
    let gate = block(stream);
    for (turn, value) in [u64::MAX, 0, 0x0123_4567_89ab_cdef].into_iter().enumerate() {
        ok(aclrtValueWrite(cell.addr, value, 0, stream));
        ok(aclrtMemcpyAsync(seen.addr + 8 * turn, 8, cell.addr, 8, D2H, stream));
    }
    assert_eq!(value(&cell), 7, "nothing has run");
    gate.unblock();
    finish(stream);
    let want = [u64::MAX, 0, 0x0123_4567_89ab_cdef].map(u64::to_ne_bytes).concat();
    seen.assert_holds(&want, "each value as long as it was there");
    ok(aclrtValueWrite(cell.addr, 5, 0, 0));
    finish(0);
    assert_eq!(value(&cell), 5, "in the default stream");
}

// proves: D13
#[test]
fn a_wait_holds_what_is_behind_it_until_another_stream_writes() {
    use_device();
    let (waits, writes, other) = (stream(), stream(), stream());
    for (flag, first, wrong, right) in [
        (EQ, 1, 2, 1),
        (GEQ, 10, 9, 11),
        (GEQ, 1, u64::MAX, 1),
        (AND, 0b110, 0b1001, 0b100),
        (NOR, 1, u64::MAX - 1, 0),
    ] {
        let start = if flag == NOR { u64::MAX } else { 0 };
        let (cell, target) = (cell(start), Memory::device(64));
        target.fill(1);
        let source = Memory::holding(Home::Pinned, &[2; 64]);
        ok(aclrtValueWait(cell.addr, first, flag, waits));
        ok(aclrtMemcpyAsync(target.addr, 64, source.addr, 64, H2D, waits));
        ok(aclrtValueWrite(cell.addr, wrong, 0, writes));
        finish(writes);
        ok(aclrtMemsetAsync(source.addr, 0, 0, 0, other));
        finish(other);
        assert_eq!(stream_status(waits), STREAM_NOT_READY, "flag {flag}: {wrong} is not {first}");
        target.assert_all(1, "behind the wait");
        ok(aclrtValueWrite(cell.addr, right, 0, writes));
        finish(waits);
        target.assert_all(2, "the wait is over");
    }
}

#[test]
fn a_wait_looks_when_its_stream_gets_there() {
    use_device();
    let (one, other, cell) = (stream(), stream(), cell(1));
    // The cell is right when the calls are made, and wrong when the stream gets to the wait.
    let gate = block(one);
    ok(aclrtValueWrite(cell.addr, 0, 0, one));
    ok(aclrtValueWait(cell.addr, 1, EQ, one));
    ok(aclrtValueWrite(cell.addr, 100, 0, one));
    // A wait of another stream that comes later and is over: whoever looks after waits has had a look at
    // both.
    ok(aclrtValueWait(cell.addr, 1, EQ, other));
    finish(other);
    gate.unblock();
    eventually("the first write", || value(&cell) == 0);
    assert_eq!(stream_status(one), STREAM_NOT_READY);
    ok(aclrtValueWrite(cell.addr, 1, 0, other));
    finish(one);
    assert_eq!(value(&cell), 100);
    // And a wait that is fulfilled already holds nothing.
    ok(aclrtValueWait(cell.addr, 100, EQ, one));
    finish(one);
}

#[test]
fn any_copy_may_write_the_cell() {
    use_device();
    let (waits, writes) = (stream(), stream());
    let source = Memory::holding(Home::Pinned, &3_u64.to_ne_bytes());
    let near = cell(3);
    type Write = fn(&Memory, &Memory, &Memory, usize) -> i32;
    let ways: [(&str, Write); 5] = [
        ("aclrtMemcpy", |cell, source, _, _| aclrtMemcpy(cell.addr, 8, source.addr, 8, H2D)),
        ("host to device", |cell, source, _, to| aclrtMemcpyAsync(cell.addr, 8, source.addr, 8, H2D, to)),
        ("inside the device", |cell, _, near, to| aclrtMemcpyAsync(cell.addr, 8, near.addr, 8, D2D, to)),
        ("aclrtMemset", |cell, _, _, _| aclrtMemset(cell.addr, 8, 3, 8)),
        ("aclrtMemsetAsync", |cell, _, _, to| aclrtMemsetAsync(cell.addr, 8, 3, 8, to)),
    ];
    for (what, write) in ways {
        let cell = cell(0);
        ok(aclrtValueWait(cell.addr, 3, GEQ, waits));
        expect(what, write(&cell, &source, &near, writes), 0);
        finish(waits);
    }
}

#[test]
fn many_streams_wait_for_one_cell() {
    use_device();
    let (cell, writes) = (cell(0), stream());
    let streams: Vec<_> = (0..16).map(|_| stream()).collect();
    for (turn, stream) in streams.iter().enumerate() {
        ok(aclrtValueWait(cell.addr, turn as u64 + 1, GEQ, *stream));
    }
    for (turn, stream) in streams.iter().enumerate() {
        ok(aclrtValueWrite(cell.addr, turn as u64 + 1, 0, writes));
        finish(*stream);
    }
}

#[test]
fn a_wait_ends_with_an_abort_and_with_its_stream() {
    use_device();
    let (cell, one) = (cell(0), stream());
    ok(aclrtValueWait(cell.addr, 1, EQ, one));
    ok(aclrtStreamAbort(one));
    expect("the wait was dropped", aclrtSynchronizeStream(one), STREAM_ABORT);
    finish(one);
    let other = stream();
    ok(aclrtValueWait(cell.addr, 1, EQ, other));
    ok(aclrtDestroyStreamForce(other));
    // What nobody waits for any more is not looked at: its memory may go.
    ok(cell.free());
    finish(one);
}

#[test]
fn a_wait_for_memory_that_is_freed_fails() {
    use_device();
    let (cell, stream) = (cell(0), stream());
    ok(aclrtValueWait(cell.addr, 1, EQ, stream));
    ok(cell.free());
    let words = ["aclrtValueWait", &format!("{:#x}", cell.addr)];
    refused("freed", aclrtSynchronizeStream(stream), RT_PARAM_INVALID, &words);
    finish(stream);
}

#[test]
fn cells_that_make_no_sense() {
    use_device();
    let (stream, cell, wild, pinned) = (stream(), Memory::device(64), Wild::new(), Memory::pinned(64));
    ok(aclrtSetDevice(1));
    let far = Memory::device(64);
    ok(aclrtSetDevice(0));
    type Call = fn(usize, u64, u32, usize) -> i32;
    for (what, call) in [("aclrtValueWrite", aclrtValueWrite as Call), ("aclrtValueWait", aclrtValueWait)] {
        for (row, addr, want) in [
            ("NULL", 0, INVALID_PARAM),
            ("odd", cell.addr + 1, ADDR_UNALIGNED),
            ("a half", cell.addr + 4, ADDR_UNALIGNED),
            ("host memory", pinned.addr, RT_PARAM_INVALID),
            ("another device's", far.addr, RT_PARAM_INVALID),
            ("freed", wild.freed_device, RT_PARAM_INVALID),
            ("unmapped", wild.unmapped, RT_PARAM_INVALID),
            ("behind", cell.addr + 96, RT_PARAM_INVALID),
        ] {
            refused(&format!("{what}, {row}"), call(addr, 1, 0, stream), want, &[what, "devAddr"]);
        }
        for flag in [4, u32::MAX] {
            refused(what, call(cell.addr, 1, flag, stream), RT_PARAM_INVALID, &["flag", &flag.to_string()]);
        }
        expect(what, call(cell.addr, 1, 0, wild.dead_stream), INVALID_HANDLE);
    }
    refused("aclrtValueWrite", aclrtValueWrite(cell.addr, 1, 1, stream), RT_PARAM_INVALID, &["flag", "1"]);
    in_new_thread(move || {
        expect("no context", aclrtValueWrite(cell.addr, 1, 0, 0), CONTEXT_NULL);
        expect("no context", aclrtValueWait(cell.addr, 1, 0, 0), CONTEXT_NULL);
    });
    finish(stream);
}
