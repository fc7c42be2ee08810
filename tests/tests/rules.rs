//! The rules of the copy functions that are not about blocking and not about bad input: which bytes go where,
//! what limits there are and on which side of them a call still works.

use ferry_tests::code::RT_PARAM_INVALID;
use ferry_tests::kind::{D2D, D2H, DEFAULT, H2D, H2H, INNER};
use ferry_tests::*;

const POISON: u8 = 0xa5;

// proves: R20 R26 R27 R28 N12 X10
#[test]
fn bytes_land_where_they_should_at_any_size_and_alignment() {
    use_device();
    let stream = stream();
    let largest = 3 * 1024 * 1024;
    let all = [Memory::device(largest + 128), Memory::pinned(largest + 128), Memory::pinned(largest + 128)];
    let data = pattern(largest + 128, 1);
    all[1].write(&data);
    type Call = fn(dst: usize, max: usize, src: usize, count: usize, kind: i32, stream: usize) -> i32;
    let calls: [(&str, Call); 3] = [
        ("aclrtMemcpyAsync", aclrtMemcpyAsync),
        ("aclrtMemcpyAsyncWithCondition", aclrtMemcpyAsyncWithCondition),
        ("aclrtMemcpy", |d, max, s, n, kind, _| aclrtMemcpy(d, max, s, n, kind)),
    ];
    for (name, call) in calls {
        for len in [1, 2, 7, 8, 63, 64, 65, 4095, 4096, 4097, 1024 * 1024, 1024 * 1024 + 1, largest] {
            let big = len + 128;
            let [device, host, back] = all.map(|memory| memory.part(0, big));
            for (to, from) in [(0, 0), (1, 0), (0, 1), (13, 57)] {
                let what = format!("{name}, {len} bytes from {from} to {to}");
                device.fill(POISON);
                expect(&what, call(device.addr + to, big - to, host.addr + from, len, H2D, stream), 0);
                finish(stream);
                back.fill(0);
                expect(&what, call(back.addr, big, device.addr, big, D2H, stream), 0);
                finish(stream);
                let mut want = vec![POISON; big];
                want[to..to + len].copy_from_slice(&data[from..from + len]);
                back.assert_holds(&want, &what);
            }
        }
    }
}

// proves: N1
#[test]
fn the_synchronous_copy_goes_by_the_addresses_whatever_kind_says() {
    use_device();
    let data = pattern(4096, 2);
    let homes = [Home::Device, Home::Pinned, Home::Heap];
    for (to, from) in homes.into_iter().flat_map(|to| homes.map(|from| (to, from))) {
        for kind in [0, 1, 2, 3, 4, 5, 6, 7, 8, -1, 99, i32::MAX, i32::MIN] {
            let (dst, src) = (Memory::new(to, 4096), Memory::holding(from, &data));
            dst.fill(POISON);
            let what = format!("{from:?} to {to:?}, kind {kind}");
            expect(&what, aclrtMemcpy(dst.addr, 4096, src.addr, 4096, kind), 0);
            dst.assert_holds(&data, &what);
            [dst, src].into_iter().for_each(|memory| ok(memory.free()));
        }
    }
}

#[test]
fn overlapping_copies_behave_like_memmove() {
    use_device();
    let stream = stream();
    let len = 3 * 1024 * 1024;
    let data = pattern(len, 3);
    for home in [Home::Device, Home::Pinned, Home::Heap] {
        for distance in [1, 8, 63, 4096, 1024 * 1024 + 1] {
            for (to, from) in [(0, distance), (distance, 0)] {
                let what = format!("{home:?}, from {from} to {to}");
                let memory = Memory::holding(home, &data);
                let n = len - distance;
                let mut want = data.clone();
                want.copy_within(from..from + n, to);
                expect(&what, aclrtMemcpy(memory.addr + to, n, memory.addr + from, n, H2H), 0);
                memory.assert_holds(&want, &what);
                if home == Home::Device {
                    memory.write(&data);
                    expect(
                        &what,
                        aclrtMemcpyAsync(memory.addr + to, n, memory.addr + from, n, D2D, stream),
                        0,
                    );
                    finish(stream);
                    memory.assert_holds(&want, &what);
                }
                ok(memory.free());
            }
        }
    }
}

#[test]
fn copying_nothing_is_fine() {
    use_device();
    let stream = stream();
    let (device, host) = (Memory::device(64), Memory::pinned(64));
    device.fill(POISON);
    host.fill(1);
    let (d, h) = (device.addr, host.addr);
    let mut batch = Batch::of(&[(d, h, 0), (d + 32, h, 0)], HOST_TO_DEVICE);
    let rows = [
        ("aclrtMemcpy", aclrtMemcpy(d, 64, h, 0, H2D)),
        ("aclrtMemcpy, destMax 0", aclrtMemcpy(d, 0, h, 0, H2D)),
        ("aclrtMemcpyAsync", aclrtMemcpyAsync(d, 64, h, 0, H2D, stream)),
        ("aclrtMemcpyAsyncWithCondition", aclrtMemcpyAsyncWithCondition(d, 64, h, 0, H2D, stream)),
        ("aclrtMemcpy2d, no rows", aclrtMemcpy2d(d, 8, h, 8, 8, 0, H2D)),
        ("aclrtMemcpy2d, empty rows", aclrtMemcpy2d(d, 8, h, 8, 0, 8, H2D)),
        ("aclrtMemcpy2dAsync, no rows", aclrtMemcpy2dAsync(d, 8, h, 8, 8, 0, H2D, stream)),
        ("aclrtMemcpy2dAsync, empty rows", aclrtMemcpy2dAsync(d, 8, h, 8, 0, 8, H2D, stream)),
        ("aclrtMemset", aclrtMemset(d, 64, 7, 0)),
        ("aclrtMemsetAsync", aclrtMemsetAsync(d, 64, 7, 0, stream)),
        ("aclrtMemsetD32", aclrtMemsetD32(d, 64, 7, 0)),
        ("aclrtMemsetD32Async", aclrtMemsetD32Async(d, 64, 7, 0, stream)),
        ("aclrtMemcpyBatch", batch.call(BatchForm::Sync, 0).0),
        ("aclrtMemcpyBatchAsync", batch.call(BatchForm::Async, stream).0),
        ("aclrtSynchronizeStream", aclrtSynchronizeStream(stream)),
    ];
    for (name, code) in rows {
        assert_eq!(code, 0, "{name}");
    }
    device.assert_all(POISON, "nothing was copied");
}

// proves: X1
#[test]
fn tasks_of_a_stream_run_in_the_order_given() {
    use_device();
    let stream = stream();
    let len = 64 * 1024;
    let data = pattern(len, 4);
    // A chain: each copy takes what the one before it brought, and each source is spoilt behind the copy that
    // used it.
    let links: Vec<Memory> = (0..64).map(|_| Memory::device(len)).collect();
    let (first, last) = (Memory::holding(Home::Pinned, &data), Memory::pinned(len));
    for round in 0..4 {
        last.fill(POISON);
        ok(aclrtMemcpyAsync(links[0].addr, len, first.addr, len, H2D, stream));
        for pair in links.windows(2) {
            ok(aclrtMemcpyAsync(pair[1].addr, len, pair[0].addr, len, D2D, stream));
            ok(aclrtMemsetAsync(pair[0].addr, len, 0, len, stream));
        }
        ok(aclrtMemcpyAsync(last.addr, len, links[63].addr, len, D2H, stream));
        finish(stream);
        last.assert_holds(&data, &format!("round {round}"));
    }
}

// proves: N9
#[test]
fn the_null_stream_is_the_default_stream_of_the_current_context() {
    use_device();
    let mut contexts = [0; 2];
    contexts.iter_mut().for_each(|c| ok(aclrtCreateContext(c, 0)));
    let (dst, src) = (Memory::device(64), Memory::holding(Home::Pinned, &[1; 64]));
    dst.fill(POISON);
    let gate = block(0);
    ok(aclrtMemcpyAsync(dst.addr, 64, src.addr, 64, H2D, 0));
    blocked::settle();
    dst.assert_all(POISON, "the default stream of the second context is held");
    // The first context has a default stream of its own, and a created stream does not wait for either.
    ok(aclrtSetCurrentContext(contexts[0]));
    for free in [0, stream()] {
        let other = Memory::device(64);
        other.fill(POISON);
        ok(aclrtMemcpyAsync(other.addr, 64, src.addr, 64, H2D, free));
        blocked::call(move || aclrtSynchronizeStream(free))
            .returned("a stream of another context than the held one");
        other.assert_all(1, "a stream of another context than the held one");
    }
    gate.unblock();
    ok(aclrtSetCurrentContext(contexts[1]));
    finish(0);
    dst.assert_all(1, "the default stream of the second context");
}

// proves: X3
#[test]
fn pointers_know_where_they_belong() {
    ok(aclrtSetDevice(1));
    let elsewhere = Memory::device(64);
    use_device();
    let freed = Memory::device(64);
    ok(freed.free());
    let rows = [
        ("device memory", Memory::device(4096).addr, 1, 0),
        ("inside device memory", Memory::device(4096).addr + 4095, 1, 0),
        ("memory of device 1", elsewhere.addr, 1, 1),
        ("page-locked memory", Memory::pinned(4096).addr, 0, 0),
        ("inside page-locked memory", Memory::pinned(4096).addr + 100, 0, 0),
        ("malloc", Memory::heap(4096).addr, 2, 0),
        ("mmap", Memory::new(Home::Mapped, 8192).addr, 2, 0),
        ("freed", freed.addr, 2, 0),
        ("garbage", 0xdead_beef_dead_beef, 2, 0),
    ];
    for (name, addr, type_, id) in rows {
        let mut got = aclrtPtrAttributes { location: location(77, 77), pageSize: 77, rsv: [77; 4] };
        expect(name, aclrtPointerGetAttributes(addr, &mut got), 0);
        assert_eq!(got.location.type_, type_, "{name}");
        assert_eq!(got.rsv, [0; 4], "{name}");
        if type_ == 1 {
            assert_eq!(got.location.id, id, "{name}");
            assert!(
                [4096, 2 * 1024 * 1024].contains(&got.pageSize),
                "{name}: pages of {} bytes",
                got.pageSize
            );
        }
    }
    expect("attributes NULL", aclrtPointerGetAttributes(elsewhere.addr, std::ptr::null_mut()), 100000);
}

#[test]
fn host_and_device_copies_may_name_memory_of_any_device() {
    ok(aclrtSetDevice(1));
    let elsewhere = Memory::device(4096);
    use_device();
    let stream = stream();
    let data = pattern(4096, 5);
    for host in [Home::Pinned, Home::Heap] {
        let (src, dst) = (Memory::holding(host, &data), Memory::new(host, 4096));
        elsewhere.fill(POISON);
        dst.fill(POISON);
        ok(aclrtMemcpyAsync(elsewhere.addr, 4096, src.addr, 4096, H2D, stream));
        ok(aclrtMemcpyAsync(dst.addr, 4096, elsewhere.addr, 4096, DEFAULT, stream));
        finish(stream);
        dst.assert_holds(&data, "there and back");
    }
}

#[test]
fn memory_is_aligned_and_allocations_do_not_touch() {
    use_device();
    for home in [Home::Device, Home::Pinned] {
        let all: Vec<Memory> = (1..200).map(|i| Memory::new(home, i * 37)).collect();
        for memory in &all {
            assert_eq!(memory.addr % 64, 0, "{memory:?}");
        }
        for (i, memory) in all.iter().enumerate() {
            memory.fill(i as u8);
        }
        for (i, memory) in all.iter().enumerate() {
            memory.assert_all(i as u8, &format!("{memory:?}"));
            ok(memory.free());
        }
    }
}

#[test]
fn handles_are_never_used_again() {
    use_device();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..500 {
        let (stream, event) = (stream(), event());
        assert!(seen.insert(stream) && seen.insert(event), "a handle came back");
        ok(aclrtDestroyStream(stream));
        ok(aclrtDestroyEvent(event));
        expect("a destroyed stream", aclrtSynchronizeStream(stream), 107017);
        expect("a destroyed event", aclrtSynchronizeEvent(event), 107017);
    }
}

// proves: R72 R74
#[test]
fn a_descriptor_may_be_used_again() {
    use_device();
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let (desc, src, dst) = (Memory::device(size), Memory::device(4096), Memory::device(4096));
    ok(aclrtSetMemcpyDesc(desc.addr, INNER, src.addr + 3, dst.addr + 5, 1000, 0));
    let stream = stream();
    for seed in 0..20 {
        let data = pattern(4096, seed);
        src.write(&data);
        dst.fill(POISON);
        ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
        finish(stream);
        let want = [&[POISON; 5], &data[3..1003], &[POISON; 4096 - 1005]].concat();
        dst.assert_holds(&want, "source before destination, and only count bytes");
    }
    ok(aclrtSetMemcpyDesc(desc.addr, INNER, src.addr, dst.addr, 0, 0));
    dst.fill(POISON);
    ok(aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream));
    finish(stream);
    dst.assert_all(POISON, "a descriptor of nothing");
}

// proves: R18 R34 R64 R78
#[test]
fn the_default_product_has_every_function_of_the_documents() {
    use_device();
    let mut mode = -1;
    ok(aclrtGetRunMode(&mut mode));
    assert_eq!((soc_name().as_deref(), mode), (Some("Ascend910B1"), 1), "A2 in a host");
    let stream = stream();
    let (device, host, mut size) = (Memory::device(4096), Memory::pinned(4096), 0);
    ok(aclrtMemcpy2dAsync(device.addr, 64, host.addr, 64, 64, 2, H2D, stream));
    ok(aclrtMemcpyAsyncWithCondition(device.addr, 64, host.addr, 64, H2D, stream));
    ok(Batch::of(&[(device.addr, host.addr, 64)], HOST_TO_DEVICE).call(BatchForm::Async, stream).0);
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    // A descriptor is set at once, not in stream order: what the copies above write must be there first.
    finish(stream);
    ok(aclrtSetMemcpyDesc(device.addr, INNER, device.addr + 1024, device.addr + 2048, 64, 0));
    ok(aclrtMemcpyAsyncWithDesc(device.addr, INNER, stream));
    finish(stream);
}

/// A stream remembers what its last copy went between; nobody may notice.
#[test]
fn a_good_copy_vouches_for_no_other() {
    use_device();
    let (device, host, freed) = (Memory::device(4096), Memory::pinned(4096), Memory::device(4096));
    let (d, h, f) = (device.addr, host.addr, freed.addr);
    let copy = |to: usize, stream| aclrtMemcpyAsync(to, 4096, h, 4096, H2D, stream);
    let warm = |stream, to: usize| (0..2).for_each(|_| ok(copy(to, stream)));
    let other = stream();
    warm(other, f);
    finish(other);
    ok(freed.free());
    let bad: [(usize, usize, usize, usize, i32); 11] = [
        (f, 4096, h, 4096, H2D),
        (d, 4096, h, 4096, D2H),
        (d, 4096, h, 4096, D2D),
        (d, 4096, h, 4096, H2H),
        (d, 4096, h, 4096, 99),
        (d, 4096, h, 4096, -1),
        (d, 4095, h, 4096, H2D),
        (d, 8192, h, 4097, H2D),
        (h + 1, 4096, d, 4096, D2H),
        (0, 4096, h, 4096, H2D),
        (d, 4096, 0, 4096, H2D),
    ];
    for (dst, max, src, count, kind) in bad {
        let (first, used) = (stream(), stream());
        let want = aclrtMemcpyAsync(dst, max, src, count, kind, first);
        assert_ne!(want, 0, "{dst:#x}, {src:#x}, {count}, kind {kind}");
        warm(used, d);
        let what = format!("{count} of {max} bytes from {src:#x} to {dst:#x}, kind {kind}");
        expect(&what, aclrtMemcpyAsync(dst, max, src, count, kind, used), want);
        ok(copy(d, used));
        ok(aclrtDestroyStream(used));
        assert_ne!(copy(d, used), 0, "a stream that is gone");
        ok(aclrtDestroyStream(first));
    }
}

/// Refusing is not enough: the number given must be the one that was compared.
// proves: R14 N13
#[test]
fn heights_and_widths_up_to_their_maximum() {
    use_device();
    const ROWS: usize = 5_242_880;
    const WIDE: usize = 5_000_000;
    let stream = stream();
    let len = ROWS + 64;
    let data = pattern(len, 6);
    let (device, host) = (Memory::device(len), Memory::holding(Home::Pinned, &data));
    // width, height, what the asynchronous function says, what the synchronous one says
    let rows = [
        (1, ROWS, 0, 0),
        (1, ROWS + 1, RT_PARAM_INVALID, 0),
        (WIDE, 1, 0, 0),
        (WIDE + 1, 1, RT_PARAM_INVALID, 0),
    ];
    for (width, height, asynchronous, synchronous) in rows {
        let moved = |code, what: &str| {
            finish(stream);
            let bytes = if code == 0 { width * height } else { 0 };
            let want = [&data[..bytes], &vec![POISON; len - bytes]].concat();
            device.assert_holds(&want, what);
            device.fill(POISON);
        };
        device.fill(POISON);
        let what = format!("aclrtMemcpy2dAsync, {width} x {height}");
        let (d, h) = (device.addr, host.addr);
        expect(&what, aclrtMemcpy2dAsync(d, width, h, width, width, height, H2D, stream), asynchronous);
        moved(asynchronous, &what);
        let what = format!("aclrtMemcpy2d, {width} x {height}");
        expect(&what, aclrtMemcpy2d(d, width, h, width, width, height, H2D), synchronous);
        moved(synchronous, &what);
    }
}

// proves: R1 R2 R9 R11 R12 R13 R17 N14
#[test]
fn rectangles_go_row_by_row_and_spare_what_lies_between() {
    use_device();
    let stream = stream();
    let len = 64 * 1024;
    let data = pattern(len, 7);
    // dpitch, spitch, width, height
    let shapes = [
        (64, 64, 64, 16),
        (100, 64, 64, 16),
        (64, 100, 64, 16),
        (100, 80, 1, 500),
        (4096, 333, 333, 15),
        (77, 77, 76, 800),
    ];
    type Call =
        fn(d: usize, dp: usize, s: usize, sp: usize, w: usize, h: usize, kind: i32, stream: usize) -> i32;
    let calls: [(&str, Call, &[i32]); 2] = [
        ("aclrtMemcpy2dAsync", aclrtMemcpy2dAsync, &[H2D, D2H, D2D]),
        ("aclrtMemcpy2d", |d, dp, s, sp, w, h, kind, _| aclrtMemcpy2d(d, dp, s, sp, w, h, kind), &[H2D, D2H]),
    ];
    for (name, call, kinds) in calls {
        for &kind in kinds {
            for host in [Home::Pinned, Home::Heap] {
                let (to, from) = [(Home::Device, host), (host, Home::Device), (Home::Device, Home::Device)]
                    [kind as usize - 1];
                let (dst, src) = (Memory::new(to, len), Memory::holding(from, &data));
                for (dpitch, spitch, width, height) in shapes {
                    let what = format!(
                        "{name}, kind {kind}, {host:?}, {width} x {height}, pitches {dpitch} and {spitch}"
                    );
                    dst.fill(POISON);
                    expect(
                        &what,
                        call(dst.addr + 3, dpitch, src.addr + 5, spitch, width, height, kind, stream),
                        0,
                    );
                    finish(stream);
                    let mut want = vec![POISON; len];
                    for row in 0..height {
                        want[3 + row * dpitch..][..width].copy_from_slice(&data[5 + row * spitch..][..width]);
                    }
                    dst.assert_holds(&want, &what);
                }
                [dst, src].into_iter().for_each(|memory| ok(memory.free()));
            }
        }
    }
}
