//! Which copies come back at once and which wait, proved by holding the stream: a copy behind a closed gate
//! cannot have run.

use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, H2H, INNER};
use ferry_tests::*;

const LEN: usize = 256 * 1024;
const POISON: u8 = 0xa5;

/// An asynchronous copy of `len` bytes from `src` to `dst`, whatever shape its function gives it.
#[derive(Clone, Copy)]
struct Form {
    name: &'static str,
    call: fn(dst: usize, src: usize, len: usize, kind: i32, stream: usize) -> i32,
}

const FORMS: [Form; 5] = [
    Form {
        name: "aclrtMemcpyAsync",
        call: |d, s, n, kind, stream| aclrtMemcpyAsync(d, n, s, n, kind, stream),
    },
    Form {
        name: "aclrtMemcpyAsyncWithCondition",
        call: |d, s, n, kind, stream| aclrtMemcpyAsyncWithCondition(d, n, s, n, kind, stream),
    },
    Form {
        name: "aclrtMemcpy2dAsync",
        call: |d, s, n, kind, stream| aclrtMemcpy2dAsync(d, n / 4, s, n / 4, n / 4, 4, kind, stream),
    },
    Form {
        name: "aclrtMemcpyBatchAsync",
        call: |d, s, n, kind, stream| quarters(d, s, n, kind, BatchForm::Async, stream),
    },
    Form {
        name: "aclrtMemcpyBatchAsyncV2",
        call: |d, s, n, kind, stream| quarters(d, s, n, kind, BatchForm::AsyncV2, stream),
    },
];

fn quarters(dst: usize, src: usize, len: usize, kind: i32, form: BatchForm, stream: usize) -> i32 {
    let items: Vec<_> = (0..4).map(|i| i * len / 4).map(|at| (dst + at, src + at, len / 4)).collect();
    let attr = if kind == H2D { HOST_TO_DEVICE } else { DEVICE_TO_HOST };
    Batch::of(&items, attr).call(form, stream).0
}

/// A source that holds a pattern and a poisoned destination, one of them in device memory and the other in
/// `host` memory.
fn ends(host: Home, kind: i32) -> (Memory, Memory, Vec<u8>) {
    let data = pattern(LEN, kind as u8 + 1);
    let (to, from) = if kind == H2D { (Home::Device, host) } else { (host, Home::Device) };
    let (dst, src) = (Memory::new(to, LEN), Memory::holding(from, &data));
    dst.fill(POISON);
    (dst, src, data)
}

// proves: R2 R3 R4 R5 R6 R8 R16 R22 R24 R25 R43 R45 R46 R53 N5 X3
#[test]
fn copies_of_page_locked_memory_come_back_before_they_run() {
    use_device();
    for form in FORMS {
        for kind in [H2D, D2H] {
            let what = format!("{}, kind {kind}, page-locked", form.name);
            let (dst, src, data) = ends(Home::Pinned, kind);
            let stream = stream();
            let gate = block(stream);
            let code =
                blocked::call(move || (form.call)(dst.addr, src.addr, LEN, kind, stream)).returned(&what);
            assert_eq!(code, 0, "{what}");
            blocked::settle();
            dst.assert_all(POISON, &what);
            assert_eq!(stream_status(stream), STREAM_NOT_READY, "{what}");
            gate.unblock();
            finish(stream);
            dst.assert_holds(&data, &what);
        }
    }
}

// proves: R6 R7 R23 R43 R44 N5 X3
#[test]
fn copies_of_pageable_memory_come_back_when_they_are_done() {
    use_device();
    for form in FORMS {
        for (kind, host) in [(H2D, Home::Heap), (D2H, Home::Heap), (H2D, Home::Mapped), (D2H, Home::Mapped)] {
            let what = format!("{}, kind {kind}, {host:?}", form.name);
            let (dst, src, data) = ends(host, kind);
            let stream = stream();
            let gate = block(stream);
            let call =
                blocked::call(move || (form.call)(dst.addr, src.addr, LEN, kind, stream)).blocked(&what);
            dst.assert_all(POISON, &what);
            gate.unblock();
            assert_eq!(call.join(), 0, "{what}");
            dst.assert_holds(&data, &what);
        }
    }
}

// proves: R43 R44
#[test]
fn one_pageable_piece_makes_a_batch_wait() {
    use_device();
    for form in [BatchForm::Async, BatchForm::AsyncV2] {
        let (dst, pinned, data) = ends(Home::Pinned, H2D);
        let heap = Memory::holding(Home::Heap, &data[LEN / 2..]);
        let items = [(dst.addr, pinned.addr, LEN / 2), (dst.addr + LEN / 2, heap.addr, LEN / 2)];
        let stream = stream();
        let gate = block(stream);
        let call = blocked::call(move || Batch::of(&items, HOST_TO_DEVICE).call(form, stream).0);
        let call = call.blocked("a batch of page-locked and pageable memory");
        gate.unblock();
        assert_eq!(call.join(), 0);
        dst.assert_holds(&data, "a batch of page-locked and pageable memory");
    }
}

// proves: R15 R27 N12
#[test]
fn the_default_kind_waits_for_pageable_memory_only() {
    use_device();
    for form in &FORMS[..2] {
        for (direction, host) in
            [(H2D, Home::Pinned), (D2H, Home::Pinned), (H2D, Home::Heap), (D2H, Home::Heap)]
        {
            let what = format!("{}, DEFAULT, {direction}, {host:?}", form.name);
            let (dst, src, data) = ends(host, direction);
            let (stream, call) = (stream(), form.call);
            let gate = block(stream);
            let call = blocked::call(move || call(dst.addr, src.addr, LEN, DEFAULT, stream));
            if host == Home::Pinned {
                assert_eq!(call.returned(&what), 0, "{what}");
                dst.assert_all(POISON, &what);
                gate.unblock();
                finish(stream);
            } else {
                let call = call.blocked(&what);
                gate.unblock();
                assert_eq!(call.join(), 0, "{what}");
            }
            dst.assert_holds(&data, &what);
        }
    }
}

// proves: R8 R15 N12 N14
#[test]
fn copies_inside_a_device_come_back_before_they_run() {
    use_device();
    for (form, kind) in [
        (FORMS[0], D2D),
        (FORMS[0], INNER),
        (FORMS[0], DEFAULT),
        (FORMS[1], D2D),
        (FORMS[1], INNER),
        (FORMS[2], D2D),
    ] {
        let what = format!("{}, kind {kind}", form.name);
        let data = pattern(LEN, 9);
        let (dst, src) = (Memory::device(LEN), Memory::holding(Home::Device, &data));
        dst.fill(POISON);
        let stream = stream();
        let gate = block(stream);
        let code = blocked::call(move || (form.call)(dst.addr, src.addr, LEN, kind, stream)).returned(&what);
        assert_eq!(code, 0, "{what}");
        dst.assert_all(POISON, &what);
        gate.unblock();
        finish(stream);
        dst.assert_holds(&data, &what);
    }
}

/// Both streams of a fresh context that a synchronous call could be put behind: its default stream and a
/// created one.
fn hold_everything() -> [Blocker; 2] {
    let mut context = 0;
    ok(aclrtCreateContext(&mut context, 0));
    let gates = [block(0), block(stream())];
    gates.iter().for_each(Blocker::wait_until_reached);
    gates
}

// proves: N2 N4
#[test]
fn synchronous_copies_are_not_put_behind_any_stream() {
    type Sync = fn(dst: usize, src: usize, kind: i32) -> i32;
    let forms: [(&str, &[i32], Sync); 4] = [
        ("aclrtMemcpy", &[H2D, D2H, D2D, H2H], |d, s, kind| aclrtMemcpy(d, LEN, s, LEN, kind)),
        ("aclrtMemcpy2d", &[H2D, D2H], |d, s, kind| aclrtMemcpy2d(d, LEN / 4, s, LEN / 4, LEN / 4, 4, kind)),
        ("aclrtMemcpyBatch", &[H2D, D2H], |d, s, kind| quarters(d, s, LEN, kind, BatchForm::Sync, 0)),
        ("aclrtMemcpyBatchV2", &[H2D, D2H], |d, s, kind| quarters(d, s, LEN, kind, BatchForm::SyncV2, 0)),
    ];
    use_device();
    let _held = hold_everything();
    for (name, kinds, call) in forms {
        for &kind in kinds {
            for host in [Home::Pinned, Home::Heap] {
                let what = format!("{name}, kind {kind}, {host:?}");
                let (to, from) =
                    [(host, host), (Home::Device, host), (host, Home::Device), (Home::Device, Home::Device)]
                        [kind as usize];
                let data = pattern(LEN, kind as u8 + 3);
                let (dst, src) = (Memory::new(to, LEN), Memory::holding(from, &data));
                dst.fill(POISON);
                let code = blocked::call(move || call(dst.addr, src.addr, kind)).returned(&what);
                assert_eq!(code, 0, "{what}");
                dst.assert_holds(&data, &what);
            }
        }
    }
}

// proves: N2
#[test]
fn a_synchronous_copy_does_not_wait_for_queued_work_on_its_own_memory() {
    use_device();
    let (dst, src, data) = ends(Home::Pinned, H2D);
    let stream = stream();
    let gate = block(stream);
    ok(aclrtMemcpyAsync(dst.addr, LEN, src.addr, LEN, H2D, stream));
    // What the copy will bring is not there yet, and what is written now is overwritten when the copy runs.
    let other = Memory::pinned(LEN);
    blocked::call(move || aclrtMemcpy(other.addr, LEN, dst.addr, LEN, D2H))
        .returned("a read of memory that waits for a copy");
    other.assert_all(POISON, "memory that a queued copy has not reached");
    dst.fill(0x11);
    gate.unblock();
    finish(stream);
    dst.assert_holds(&data, "the queued copy runs after the synchronous one");
}

#[test]
fn synchronous_fills_are_not_put_behind_any_stream() {
    use_device();
    let _held = hold_everything();
    for home in [Home::Device, Home::Pinned, Home::Heap] {
        let memory = Memory::new(home, LEN);
        memory.fill(POISON);
        let code = blocked::call(move || aclrtMemset(memory.addr, LEN, 0x177, LEN)).returned("aclrtMemset");
        assert_eq!(code, 0, "aclrtMemset of {home:?}");
        memory.assert_all(0x77, "the low byte of the value");
    }
    for home in [Home::Device, Home::Pinned] {
        let memory = Memory::new(home, LEN);
        memory.fill(POISON);
        let code = blocked::call(move || aclrtMemsetD32(memory.addr, LEN, 0x0403_0201, LEN / 4))
            .returned("aclrtMemsetD32");
        assert_eq!(code, 0, "aclrtMemsetD32 of {home:?}");
        memory.assert_holds(&[1, 2, 3, 4].repeat(LEN / 4), "aclrtMemsetD32");
    }
}

#[test]
fn a_buffered_copy_has_taken_its_data_when_it_comes_back() {
    use_device();
    for form in &FORMS[..2] {
        for host in [Home::Pinned, Home::Heap, Home::Mapped] {
            for len in [1, 4096, LEN, 5 * 1024 * 1024 + 3] {
                let what = format!("{}, kind 5, {len} bytes of {host:?}", form.name);
                let data = pattern(len, 5);
                let (dst, src) = (Memory::device(len), Memory::holding(host, &data));
                dst.fill(POISON);
                let (stream, call) = (stream(), form.call);
                let gate = block(stream);
                let code =
                    blocked::call(move || call(dst.addr, src.addr, len, BUFFERED, stream)).returned(&what);
                assert_eq!(code, 0, "{what}");
                src.fill(0x66);
                ok(src.free());
                dst.assert_all(POISON, &what);
                gate.unblock();
                finish(stream);
                dst.assert_holds(&data, &what);
                ok(dst.free());
            }
        }
    }
}

#[test]
fn asynchronous_fills_of_device_memory_come_back_before_they_run() {
    use_device();
    type Fill = fn(ptr: usize, stream: usize) -> i32;
    let fills: [(&str, Fill, &[u8]); 2] = [
        ("aclrtMemsetAsync", |p, s| aclrtMemsetAsync(p, LEN, -1, LEN, s), &[0xff, 0xff, 0xff, 0xff]),
        (
            "aclrtMemsetD32Async",
            |p, s| aclrtMemsetD32Async(p, LEN, 0xdead_beef, LEN / 4, s),
            &[0xef, 0xbe, 0xad, 0xde],
        ),
    ];
    for (name, fill, unit) in fills {
        let memory = Memory::device(LEN);
        memory.fill(POISON);
        let stream = stream();
        let gate = block(stream);
        assert_eq!(blocked::call(move || fill(memory.addr, stream)).returned(name), 0, "{name}");
        blocked::settle();
        memory.assert_all(POISON, name);
        gate.unblock();
        finish(stream);
        memory.assert_holds(&unit.repeat(LEN / 4), name);
    }
}

#[test]
fn a_word_fill_of_host_memory_is_not_put_on_the_stream() {
    use_device();
    let memory = Memory::pinned(LEN);
    memory.fill(POISON);
    let stream = stream();
    let gate = block(stream);
    let call = blocked::call(move || aclrtMemsetD32Async(memory.addr, LEN, 0x0807_0605, LEN / 4, stream));
    assert_eq!(call.returned("aclrtMemsetD32Async of host memory"), 0);
    memory.assert_holds(&[5, 6, 7, 8].repeat(LEN / 4), "filled although the stream is held");
    gate.unblock();
    finish(stream);
}

// proves: R71 R72 R73 R74 R75 R76
#[test]
fn a_descriptor_is_read_when_its_copy_runs() {
    use_device();
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let desc = Memory::device(size);
    let (old, new) = (pattern(LEN, 1), pattern(LEN, 2));
    let (old_src, new_src) = (Memory::holding(Home::Device, &old), Memory::holding(Home::Device, &new));
    let (old_dst, new_dst) = (Memory::device(LEN), Memory::device(LEN));
    old_dst.fill(POISON);
    new_dst.fill(POISON);
    ok(aclrtSetMemcpyDesc(desc.addr, INNER, old_src.addr, old_dst.addr, LEN, 0));

    let stream = stream();
    let gate = block(stream);
    let call = blocked::call(move || aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
    assert_eq!(call.returned("aclrtMemcpyAsyncWithDesc"), 0);
    let set =
        blocked::call(move || aclrtSetMemcpyDesc(desc.addr, INNER, new_src.addr, new_dst.addr, LEN - 7, 0));
    assert_eq!(set.returned("aclrtSetMemcpyDesc"), 0);
    new_dst.assert_all(POISON, "the copy has not run yet");
    gate.unblock();
    finish(stream);
    old_dst.assert_all(POISON, "where the descriptor pointed when the copy was submitted");
    let want = [&new[..LEN - 7], &[POISON; 7]].concat();
    new_dst.assert_holds(&want, "where the descriptor pointed when the copy ran");
}

#[test]
fn an_earlier_task_of_the_stream_may_write_the_descriptor() {
    use_device();
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let (first, second) = (Memory::device(size), Memory::device(size));
    let data = pattern(LEN, 7);
    let (src, dst) = (Memory::holding(Home::Device, &data), Memory::device(LEN));
    dst.fill(POISON);
    ok(aclrtSetMemcpyDesc(first.addr, INNER, src.addr, dst.addr, LEN, 0));
    let stream = stream();
    ok(aclrtMemcpyAsync(second.addr, size, first.addr, size, D2D, stream));
    ok(aclrtMemcpyAsyncWithDesc(second.addr, INNER, stream));
    finish(stream);
    dst.assert_holds(&data, "a descriptor copied as bytes is a second valid descriptor");
}

#[test]
fn offset_copies_read_their_cells_when_they_run() {
    use_device();
    for cells in [Home::Device, Home::Pinned] {
        let what = format!("aclrtMemcpyAsyncWithOffset, cells in {cells:?} memory");
        let (old, new) = (pattern(LEN, 3), pattern(LEN, 4));
        let (old_src, new_src) = (Memory::holding(Home::Device, &old), Memory::holding(Home::Device, &new));
        let (old_dst, new_dst) = (Memory::device(LEN), Memory::device(LEN));
        old_dst.fill(POISON);
        new_dst.fill(POISON);
        let dst_cell = Memory::holding(cells, &old_dst.addr.to_ne_bytes());
        let src_cell = Memory::holding(cells, &old_src.addr.to_ne_bytes());
        let stream = stream();
        let gate = block(stream);
        let call = blocked::call(move || {
            aclrtMemcpyAsyncWithOffset(dst_cell.addr, LEN, 64, src_cell.addr, 4096, 128, INNER, stream)
        });
        assert_eq!(call.returned(&what), 0, "{what}");
        dst_cell.write(&new_dst.addr.to_ne_bytes());
        src_cell.write(&new_src.addr.to_ne_bytes());
        gate.unblock();
        finish(stream);
        old_dst.assert_all(POISON, &what);
        let want = [&[POISON; 64], &new[128..128 + 4096], &[POISON; LEN - 64 - 4096]].concat();
        new_dst.assert_holds(&want, &what);
    }
}
