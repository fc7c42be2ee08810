//! Zero bytes at the end of a buffer, which is how a loop over chunks ends: every copy and fill succeeds and
//! touches nothing, whatever lies behind the buffer.

use ferry_tests::code::*;
use ferry_tests::kind::*;
use ferry_tests::*;

const LEN: usize = 4096;
const POISON: u8 = 0xa5;
/// Registered memory is page-locked.
const PINNED: u32 = 0x10000000;
/// An address of no kind at all.
const WILD: usize = 0x10;

/// Ends of buffers, by what lies behind them, and places that are no buffer's at all.
fn ends() -> Vec<(&'static str, usize)> {
    ok(aclrtSetDevice(1));
    let mut elsewhere = 0;
    ok(aclrtMallocPhysical(&mut elsewhere, LEN, &properties(NORMAL_PAGES, 1), 0));
    use_device();
    let mixed = reserve(3 * LEN);
    ok(aclrtMapMem(mixed, LEN, 0, physical(LEN), 0));
    ok(aclrtMapMem(mixed + LEN, LEN, 0, elsewhere, 0));
    let [first, second] = [Memory::device(LEN), Memory::device(LEN)];
    let (pinned, wild) = (Memory::pinned(LEN), Wild::new());
    let registered = Memory::new(Home::Mapped, 2 * LEN);
    ok(aclrtHostRegisterV2(registered.addr, LEN, PINNED));
    vec![
        ("the end of a device allocation", first.addr + LEN + 32),
        ("the end of another", second.addr + LEN + 32),
        ("device memory, with memory of another device behind it", mixed + LEN),
        ("device memory, with reserved addresses behind it", mixed + 2 * LEN),
        ("the end of page-locked memory", pinned.addr + LEN),
        ("registered memory, with pageable memory behind it", registered.addr + LEN),
        ("pageable memory, with nothing behind it", wild.last_bytes.addr + 64),
        ("pageable memory, with memory behind it that cannot be written", wild.read_only),
        ("what was freed", wild.freed_device),
        ("nowhere", WILD),
        ("the last address", usize::MAX),
    ]
}

#[test]
fn every_copy_and_fill_of_nothing_succeeds_wherever_its_ends_are() {
    let ends = ends();
    let (there, host, stream) = (Memory::device(LEN), Memory::pinned(LEN), stream());
    let cells = Memory::device(16);
    for (what, end) in ends {
        for (way, dst, src, kind) in
            [("to", end, host.addr, H2D), ("from", host.addr, end, D2H), ("inside", end, there.addr, INNER)]
        {
            let rows = [
                ("aclrtMemcpy", aclrtMemcpy(dst, 0, src, 0, kind)),
                ("aclrtMemcpyAsync", aclrtMemcpyAsync(dst, 0, src, 0, kind, stream)),
                ("aclrtMemcpyAsync, DEFAULT", aclrtMemcpyAsync(dst, 0, src, 0, DEFAULT, stream)),
                ("aclrtMemcpyAsync, BUFFERED", aclrtMemcpyAsync(dst, 0, src, 0, BUFFERED, stream)),
                ("WithCondition", aclrtMemcpyAsyncWithCondition(dst, 0, src, 0, kind, stream)),
                ("aclrtMemcpy2d, no rows", aclrtMemcpy2d(dst, 64, src, 64, 64, 0, H2D)),
                ("aclrtMemcpy2d, empty rows", aclrtMemcpy2d(dst, 64, src, 64, 0, 4, D2H)),
                ("aclrtMemcpy2dAsync, no rows", aclrtMemcpy2dAsync(dst, 64, src, 64, 64, 0, D2D, stream)),
                ("aclrtMemcpy2dAsync, empty rows", aclrtMemcpy2dAsync(dst, 64, src, 64, 0, 4, H2D, stream)),
                ("aclrtReduceAsync", reduce(dst, src, stream)),
                ("a descriptor", through_descriptor(dst, src, stream)),
                ("pointers and offsets", through_pointers(cells, dst, src, stream)),
                ("aclrtSynchronizeStream", aclrtSynchronizeStream(stream)),
            ];
            for (call, code) in rows {
                expect(&format!("{call}: {way} {what}"), code, SUCCESS);
            }
        }
        let rows = [
            ("aclrtMemset", aclrtMemset(end, 0, 7, 0)),
            ("aclrtMemsetAsync", aclrtMemsetAsync(end, 0, 7, 0, stream)),
            ("aclrtMemsetD32", aclrtMemsetD32(end, 0, 7, 0)),
            ("aclrtMemsetD32Async", aclrtMemsetD32Async(end, 0, 7, 0, stream)),
            ("aclrtSynchronizeStream", aclrtSynchronizeStream(stream)),
        ];
        for (call, code) in rows {
            expect(&format!("{call}: {what}"), code, SUCCESS);
        }
    }
}

fn reduce(dst: usize, src: usize, stream: usize) -> i32 {
    const SUM: i32 = 10;
    const FLOAT: i32 = 0;
    aclrtReduceAsync(dst, src, 0, SUM, FLOAT, stream, 0)
}

/// Sets a descriptor and copies by it.
fn through_descriptor(dst: usize, src: usize, stream: usize) -> i32 {
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let desc = Memory::device(size);
    match aclrtSetMemcpyDesc(desc.addr, INNER, src, dst, 0, 0) {
        0 => aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream),
        refused => refused,
    }
}

/// Writes the addresses of buffers into device memory, and copies at the offsets where they end.
fn through_pointers(cells: Memory, dst: usize, src: usize, stream: usize) -> i32 {
    let offset = LEN.min(dst).min(src);
    cells.write(&[(dst - offset).to_ne_bytes(), (src - offset).to_ne_bytes()].concat());
    let (to, from) = (cells.addr, cells.addr + 8);
    let code = aclrtMemcpyAsyncWithOffset(to, 0, offset, from, 0, offset, INNER, stream);
    // The next one writes the same cells.
    finish(stream);
    code
}

#[test]
fn a_batch_does_its_other_pieces() {
    let ends = ends();
    let (there, host, stream) = (Memory::device(3 * LEN), Memory::pinned(3 * LEN), stream());
    host.write(&pattern(3 * LEN, 9));
    let (d, h) = (there.addr, host.addr);
    for (what, end) in ends {
        // Nothing comes first, between, last, and in a row; and each piece has its own attribute, too.
        for (order, nothing) in
            [("first", vec![0]), ("between", vec![1]), ("last", vec![3]), ("all over", vec![0, 1, 1, 5])]
        {
            let mut items = vec![(d, h, LEN), (d + LEN, h + LEN, 100), (d + 2 * LEN, h + 2 * LEN, LEN)];
            nothing.iter().for_each(|index| items.insert(*index, (end, h, 0)));
            let mut turned = items.clone();
            turned.iter_mut().filter(|item| item.2 == 0).for_each(|item| *item = (item.1, item.0, 0));
            for items in [items, turned] {
                let one = Batch::of(&items, HOST_TO_DEVICE);
                let each: Vec<_> = (0..items.len()).map(|index| (index, HOST_TO_DEVICE)).collect();
                for mut batch in [one.clone(), one.with_attrs(&each)] {
                    for form in BatchForm::ALL {
                        let what = format!("{form:?}: nothing {order}, {what}");
                        there.fill(POISON);
                        let (code, index) = batch.call(form, stream);
                        expect(&what, code, SUCCESS);
                        assert!(index.is_none_or(|index| index == usize::MAX), "{what}");
                        finish(stream);
                        there.part(0, LEN).assert_holds(&pattern(3 * LEN, 9)[..LEN], &what);
                        there.part(2 * LEN, LEN).assert_holds(&pattern(3 * LEN, 9)[2 * LEN..], &what);
                    }
                }
            }
        }
        let mut nothing = Batch::of(&[(end, h, 0), (d, end, 0)], HOST_TO_DEVICE);
        expect(what, nothing.call(BatchForm::Async, stream).0, SUCCESS);
    }
}

/// Nothing at all is asked of memory; of the other arguments, all that is asked otherwise.
#[test]
fn arguments_are_refused_as_ever() {
    let end = ends()[0].1;
    let (host, stream) = (Memory::pinned(LEN), stream());
    let h = host.addr;
    let rows = [
        ("dst NULL", aclrtMemcpy(0, 0, h, 0, H2D), INVALID_PARAM),
        ("src NULL", aclrtMemcpyAsync(end, 0, 0, 0, H2D, stream), INVALID_PARAM),
        ("2-D, dst NULL", aclrtMemcpy2d(0, 8, h, 8, 8, 0, H2D), INVALID_PARAM),
        ("fill, NULL", aclrtMemset(0, 0, 0, 0), INVALID_PARAM),
        ("32-bit fill, NULL", aclrtMemsetD32Async(0, 0, 0, 0, stream), INVALID_PARAM),
        ("reduction, NULL", reduce(end, 0, stream), INVALID_PARAM),
        ("an unknown kind", aclrtMemcpyAsync(end, 0, h, 0, 8, stream), INVALID_PARAM),
        ("host to host", aclrtMemcpyAsync(end, 0, h, 0, H2H, stream), FEATURE_NOT_SUPPORT),
        ("2-D, DEFAULT", aclrtMemcpy2d(end, 8, h, 8, 8, 0, DEFAULT), INVALID_PARAM),
        ("2-D, width above the pitch", aclrtMemcpy2d(end, 7, h, 8, 8, 0, H2D), RT_PARAM_INVALID),
        ("no stream", aclrtMemcpyAsync(end, 0, h, 0, H2D, WILD), INVALID_HANDLE),
        ("fill, no stream", aclrtMemsetAsync(end, 0, 0, 0, WILD), INVALID_HANDLE),
    ];
    for (what, code, want) in rows {
        expect(what, code, want);
    }
    let wrong_type = aclrtMemcpyBatchAttr { dstLoc: location(3, 0), ..HOST_TO_DEVICE };
    let reserved = aclrtMemcpyBatchAttr { rsv: [1; 16], ..HOST_TO_DEVICE };
    for (what, items, attr, want) in [
        ("dsts[1] NULL", [(end, h, 0), (0, h, 0)], HOST_TO_DEVICE, (INVALID_PARAM, Some(1))),
        (
            "a location type that batches do not have",
            [(end, h, 0); 2],
            wrong_type,
            (RT_PARAM_INVALID, Some(0)),
        ),
        ("reserved bytes", [(end, h, 0); 2], reserved, (RT_PARAM_INVALID, Some(0))),
    ] {
        assert_eq!(Batch::of(&items, attr).call(BatchForm::Async, stream), want, "{what}");
    }
}
