//! The four batch copies: codes, and failIndex where the function has one.

use ferry_tests::code::{INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::*;

use crate::scene::{DEVICE_END, LEN, Scene};

/// failIndex when no single copy is to blame.
const NO_ITEM: usize = usize::MAX;

/// A name, what is bent, the code and failIndex.
type Row = (&'static str, fn(&Scene, &mut Batch), i32, usize);

/// Three good copies to the device: two out of page-locked memory, one out of plain memory.
fn to_device(s: &Scene) -> Batch {
    let (device, pinned, heap) = (s.device.addr, s.pinned.addr, s.heap.addr);
    let items =
        [(device, pinned, 512), (device + 1024, pinned + 1024, 512), (device + 2048, heap + 2048, 512)];
    Batch::of(&items, HOST_TO_DEVICE)
}

/// The same copies the other way round.
fn turn(b: &mut Batch) {
    std::mem::swap(&mut b.dsts, &mut b.srcs);
    b.attrs = vec![DEVICE_TO_HOST];
}

/// An attribute that differs from the good one in `from`'s (or `to`'s) location.
fn from(type_: i32, id: u32) -> aclrtMemcpyBatchAttr {
    aclrtMemcpyBatchAttr { srcLoc: location(type_, id), ..HOST_TO_DEVICE }
}

fn to(type_: i32, id: u32) -> aclrtMemcpyBatchAttr {
    aclrtMemcpyBatchAttr { dstLoc: location(type_, id), ..HOST_TO_DEVICE }
}

fn reserved(at: usize) -> aclrtMemcpyBatchAttr {
    let mut attr = HOST_TO_DEVICE;
    attr.rsv[at] = 1;
    attr
}

/// Gives items 1 and up another attribute.
fn from_second_on(b: &mut Batch, attr: aclrtMemcpyBatchAttr) {
    b.attrs.push(attr);
    b.indexes.push(1);
    b.num_attrs = 2;
}

/// Arguments that contradict each other: no copy is to blame.
const WHOLE: &[Row] = &[
    ("numBatches 0", |_, b| b.num = 0, RT_PARAM_INVALID, NO_ITEM),
    ("numAttrs 0", |_, b| b.num_attrs = 0, RT_PARAM_INVALID, NO_ITEM),
    (
        "more attributes than copies",
        |_, b| {
            *b = b.clone().with_attrs(&[
                (0, HOST_TO_DEVICE),
                (1, HOST_TO_DEVICE),
                (2, HOST_TO_DEVICE),
                (3, HOST_TO_DEVICE),
            ])
        },
        RT_PARAM_INVALID,
        NO_ITEM,
    ),
    ("attrsIndexes[0] not 0", |_, b| b.indexes[0] = 1, RT_PARAM_INVALID, NO_ITEM),
    (
        "attrsIndexes twice the same",
        |_, b| *b = b.clone().with_attrs(&[(0, HOST_TO_DEVICE), (1, HOST_TO_DEVICE), (1, HOST_TO_DEVICE)]),
        RT_PARAM_INVALID,
        NO_ITEM,
    ),
    (
        "attrsIndexes falling",
        |_, b| *b = b.clone().with_attrs(&[(0, HOST_TO_DEVICE), (2, HOST_TO_DEVICE), (1, HOST_TO_DEVICE)]),
        RT_PARAM_INVALID,
        NO_ITEM,
    ),
    (
        "attrsIndexes twice 0",
        |_, b| *b = b.clone().with_attrs(&[(0, HOST_TO_DEVICE), (0, HOST_TO_DEVICE)]),
        RT_PARAM_INVALID,
        NO_ITEM,
    ),
    (
        "the last attrsIndexes behind the last copy",
        |_, b| *b = b.clone().with_attrs(&[(0, HOST_TO_DEVICE), (3, HOST_TO_DEVICE)]),
        RT_PARAM_INVALID,
        NO_ITEM,
    ),
    (
        "the last attrsIndexes as large as can be",
        |_, b| *b = b.clone().with_attrs(&[(0, HOST_TO_DEVICE), (usize::MAX, HOST_TO_DEVICE)]),
        RT_PARAM_INVALID,
        NO_ITEM,
    ),
    ("sizes[1] above destMaxs[1]", |_, b| b.maxs[1] = 511, RT_PARAM_INVALID, NO_ITEM),
    ("sizes[2] as large as can be", |_, b| b.sizes[2] = usize::MAX, RT_PARAM_INVALID, NO_ITEM),
];

/// A copy whose memory is not what the arrays say.
const ITEMS: &[Row] = &[
    ("dsts[0] 0x10", |_, b| b.dsts[0] = 0x10, RT_PARAM_INVALID, 0),
    ("srcs[1] not an address", |_, b| b.srcs[1] = 0xdead_beef_dead_beef, RT_PARAM_INVALID, 1),
    ("srcs[2] wraps", |_, b| b.srcs[2] = usize::MAX - 100, RT_PARAM_INVALID, 2),
    (
        "item 2 as long as can be",
        |_, b| (b.sizes[2], b.maxs[2]) = (usize::MAX, usize::MAX),
        RT_PARAM_INVALID,
        2,
    ),
    ("dsts[1] freed", |s, b| b.dsts[1] = s.wild.freed_device, RT_PARAM_INVALID, 1),
    ("srcs[2] freed", |s, b| b.srcs[2] = s.wild.freed_pinned, RT_PARAM_INVALID, 2),
    (
        "dsts[1] freed, to the host",
        |s, b| {
            turn(b);
            b.dsts[1] = s.wild.freed_pinned;
        },
        RT_PARAM_INVALID,
        1,
    ),
    ("dsts[2] leaves its memory", |s, b| b.dsts[2] = s.device.addr + DEVICE_END - 511, RT_PARAM_INVALID, 2),
    ("srcs[0] leaves its memory", |s, b| b.srcs[0] = s.pinned.addr + LEN - 511, RT_PARAM_INVALID, 0),
    ("srcs[1] before its memory", |s, b| b.srcs[1] = s.pinned.addr - 1, RT_PARAM_INVALID, 1),
    ("srcs[2] not mapped", |s, b| b.srcs[2] = s.wild.unmapped, RT_PARAM_INVALID, 2),
    ("srcs[2] reaches into nothing", |s, b| b.srcs[2] = s.wild.last_bytes.addr, RT_PARAM_INVALID, 2),
    (
        "dsts[2] reaches into nothing",
        |s, b| {
            turn(b);
            b.dsts[2] = s.wild.last_bytes.addr;
        },
        RT_PARAM_INVALID,
        2,
    ),
    (
        "dsts[2] read-only",
        |s, b| {
            turn(b);
            b.dsts[2] = s.wild.read_only;
        },
        RT_PARAM_INVALID,
        2,
    ),
    ("item 1 inside the device", |s, b| b.srcs[1] = s.device.addr + 3072, RT_PARAM_INVALID, 1),
    ("item 1 inside the host", |s, b| b.dsts[1] = s.pinned.addr + 3072, RT_PARAM_INVALID, 1),
    ("item 2 on another device than it says", |s, b| b.dsts[2] = s.elsewhere.addr, RT_PARAM_INVALID, 2),
];

/// An attribute that does not fit, named by the first copy that uses it.
const ATTRS: &[Row] = &[
    ("host memory said to be device memory", |_, b| b.attrs[0] = from(1, 0), RT_PARAM_INVALID, 0),
    ("device memory said to be host memory", |_, b| b.attrs[0] = to(0, 0), RT_PARAM_INVALID, 0),
    ("device memory said not to be ours", |_, b| b.attrs[0] = to(2, 0), RT_PARAM_INVALID, 0),
    ("page-locked memory said not to be ours", |_, b| b.attrs[0] = from(2, 0), RT_PARAM_INVALID, 0),
    ("device 1 for memory of device 0", |_, b| b.attrs[0] = to(1, 1), RT_PARAM_INVALID, 0),
    ("a device that does not exist", |_, b| b.attrs[0] = to(1, u32::MAX), RT_PARAM_INVALID, 0),
    ("managed memory", |_, b| from_second_on(b, from(3, 0)), RT_PARAM_INVALID, 1),
    ("memory of a NUMA node", |_, b| from_second_on(b, from(4, 0)), RT_PARAM_INVALID, 1),
    ("a type that does not exist", |_, b| from_second_on(b, to(5, 0)), RT_PARAM_INVALID, 1),
    ("a negative type", |_, b| from_second_on(b, to(-1, 0)), RT_PARAM_INVALID, 1),
    ("a reserved byte, all copies", |_, b| b.attrs[0] = reserved(0), RT_PARAM_INVALID, 0),
    ("the last reserved byte, second copy", |_, b| from_second_on(b, reserved(15)), RT_PARAM_INVALID, 1),
    (
        "the second attribute turns the direction",
        |_, b| {
            from_second_on(b, DEVICE_TO_HOST);
            std::mem::swap(&mut b.dsts[1], &mut b.srcs[1]);
            std::mem::swap(&mut b.dsts[2], &mut b.srcs[2]);
        },
        RT_PARAM_INVALID,
        1,
    ),
    (
        "inside the device, and the attribute says so",
        |s, b| {
            b.attrs[0] = from(1, 0);
            b.srcs = vec![s.device.addr + 3072; 3];
        },
        RT_PARAM_INVALID,
        0,
    ),
    (
        "inside the host, and the attribute says so",
        |s, b| {
            b.attrs[0] = to(0, 0);
            b.dsts = vec![s.heap.addr, s.heap.addr + 512, s.heap.addr + 1024];
        },
        RT_PARAM_INVALID,
        0,
    ),
];

fn name(form: BatchForm) -> &'static str {
    match form {
        BatchForm::Sync => "aclrtMemcpyBatch",
        BatchForm::SyncV2 => "aclrtMemcpyBatchV2",
        BatchForm::Async => "aclrtMemcpyBatchAsync",
        BatchForm::AsyncV2 => "aclrtMemcpyBatchAsyncV2",
    }
}

fn refuse(s: &Scene, rows: &[Row]) {
    for form in BatchForm::ALL {
        for (row, bend, want, index) in rows {
            let mut batch = to_device(s);
            bend(s, &mut batch);
            let mut got = None;
            s.refuses(name(form), row, *want, || {
                let (code, fail) = batch.call(form, s.stream);
                got = fail;
                code
            });
            assert_eq!(got, form.tells_index().then_some(*index), "{form:?}: {row}: failIndex");
        }
    }
}

// proves: R41 R48 R50 R52 R54 R57 R59 R60 R61 R62
#[test]
fn arguments_that_contradict_each_other() {
    refuse(&Scene::new(), WHOLE);
}

// proves: R47 R51 R54
#[test]
fn a_copy_whose_memory_is_not_what_it_says() {
    refuse(&Scene::new(), ITEMS);
}

// proves: R51 R63
#[test]
fn an_attribute_that_does_not_fit() {
    refuse(&Scene::new(), ATTRS);
}

#[test]
fn a_null_item_is_refused() {
    let s = Scene::new();
    for form in BatchForm::ALL {
        for bend in [|b: &mut Batch| b.dsts[1] = 0, |b: &mut Batch| b.srcs[1] = 0] {
            let mut batch = to_device(&s);
            bend(&mut batch);
            s.refuses(name(form), "a NULL address in an array", INVALID_PARAM, || {
                batch.call(form, s.stream).0
            });
        }
    }
}

/// NULL is told from garbage; neither is read.
// proves: R41 R52
#[test]
fn arrays_that_are_not_there() {
    let s = Scene::new();
    let places = [
        ("NULL", 0, INVALID_PARAM),
        ("0x10", 0x10, RT_PARAM_INVALID),
        ("not an address", 0xdead_beef_dead_bee0, RT_PARAM_INVALID),
        ("not mapped", s.wild.unmapped, RT_PARAM_INVALID),
        ("device memory", s.device.addr, RT_PARAM_INVALID),
        ("reaching into nothing", s.wild.last_bytes.addr + 56, RT_PARAM_INVALID),
        ("wrapping", usize::MAX - 7, RT_PARAM_INVALID),
    ];
    for form in BatchForm::ALL {
        for arg in Arg::ARRAYS {
            for (place, addr, want) in places {
                // One element fits where the last bytes of a page are; attrs and three of the others do not.
                if arg == Arg::AttrsIndexes && place == "reaching into nothing" {
                    continue;
                }
                let mut batch = to_device(&s);
                batch.instead = Some((arg, addr));
                let mut got = None;
                s.refuses(name(form), &format!("{arg:?} {place}"), want, || {
                    let (code, fail) = batch.call(form, s.stream);
                    got = fail;
                    code
                });
                assert_eq!(
                    got,
                    form.tells_index().then_some(NO_ITEM),
                    "{form:?}: {arg:?} {place}: failIndex"
                );
            }
        }
        for num in [1 << 40, usize::MAX / 8, usize::MAX] {
            let mut batch = to_device(&s);
            batch.num = num;
            s.refuses(name(form), "numBatches far behind the arrays", RT_PARAM_INVALID, || {
                batch.call(form, s.stream).0
            });
        }
    }
}

// proves: R41
#[test]
fn a_fail_index_that_cannot_be_written() {
    let s = Scene::new();
    let places = [
        ("NULL", 0, INVALID_PARAM),
        ("0x10", 0x10, RT_PARAM_INVALID),
        ("not mapped", s.wild.unmapped, RT_PARAM_INVALID),
        ("read-only", s.wild.read_only, RT_PARAM_INVALID),
        ("device memory", s.device.addr, RT_PARAM_INVALID),
    ];
    for form in BatchForm::ALL.into_iter().filter(|f| f.tells_index()) {
        for (place, addr, want) in places {
            let mut batch = to_device(&s);
            batch.instead = Some((Arg::FailIndex, addr));
            s.refuses(name(form), &format!("failIndex {place}"), want, || batch.call(form, s.stream).0);
        }
    }
}

// proves: R53
#[test]
fn streams() {
    let s = Scene::new();
    for form in BatchForm::ALL.into_iter().filter(|f| f.takes_stream()) {
        for (row, stream, want) in s.bad_streams() {
            s.refuses(name(form), row, want, || to_device(&s).call(form, stream).0);
        }
    }
}

/// A refused batch copies nothing at all, not even the good items before the bad one: covered by every row
/// above, because the good items would have changed the scene. Here is the proof that they are good.
#[test]
fn the_batch_that_the_rows_bend_is_good() {
    let s = Scene::new();
    for form in BatchForm::ALL {
        let (code, fail) = to_device(&s).call(form, s.stream);
        expect(name(form), code, 0);
        finish(s.stream);
        assert_eq!(fail, form.tells_index().then_some(NO_ITEM), "failIndex of a batch that went well");
        let mut back = to_device(&s);
        turn(&mut back);
        let (code, fail) = back.call(form, s.stream);
        expect(name(form), code, 0);
        finish(s.stream);
        assert_eq!(fail, form.tells_index().then_some(NO_ITEM), "failIndex of a batch that went well");
    }
}
