//! 1-D copies: aclrtMemcpyAsync, aclrtMemcpyAsyncWithCondition and aclrtMemcpy.

use ferry_tests::code::{FEATURE_NOT_SUPPORT, INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, H2H, INNER, INTER};
use ferry_tests::*;

use crate::scene::{DEVICE_END, LEN, Scene};

/// The arguments of a 1-D copy.
#[derive(Clone, Copy)]
struct Linear {
    dst: usize,
    max: usize,
    src: usize,
    count: usize,
    kind: i32,
    stream: usize,
}

type Row = (&'static str, Linear, i32);

/// Good copies of 512 bytes in the middle of things, to be bent.
struct Good {
    h2d: Linear,
    d2h: Linear,
    /// Like the two above with memory from malloc.
    heap_in: Linear,
    heap_out: Linear,
    d2d: Linear,
    h2h: Linear,
}

fn good(s: &Scene) -> Good {
    let at = |dst, src, kind| Linear { dst, max: 512, src, count: 512, kind, stream: s.stream };
    let (device, pinned, heap) = (s.device.addr + 1024, s.pinned.addr + 512, s.heap.addr + 512);
    Good {
        h2d: at(device, pinned, H2D),
        d2h: at(pinned, device, D2H),
        heap_in: at(device, heap, H2D),
        heap_out: at(heap, device, D2H),
        d2d: at(device, s.device.addr, D2D),
        h2h: at(pinned, heap, H2H),
    }
}

/// What is wrong whatever kind and stream say, so it holds for the synchronous copy too.
fn bad_ranges(s: &Scene) -> Vec<Row> {
    let Good { h2d, d2h, heap_in, heap_out, d2d, .. } = good(s);
    let everything = usize::MAX;
    vec![
        ("dst NULL", Linear { dst: 0, ..h2d }, INVALID_PARAM),
        ("src NULL", Linear { src: 0, ..h2d }, INVALID_PARAM),
        ("dst NULL, nothing to copy", Linear { dst: 0, count: 0, ..h2d }, INVALID_PARAM),
        ("src NULL, nothing to copy", Linear { src: 0, max: 0, count: 0, ..h2d }, INVALID_PARAM),
        ("count above destMax", Linear { max: 511, ..h2d }, RT_PARAM_INVALID),
        ("count above destMax of 0", Linear { max: 0, count: 1, ..h2d }, RT_PARAM_INVALID),
        ("count above destMax, device to host", Linear { count: 513, ..d2h }, RT_PARAM_INVALID),
        ("dst 0x10", Linear { dst: 0x10, ..h2d }, RT_PARAM_INVALID),
        ("src 0x10", Linear { src: 0x10, ..h2d }, RT_PARAM_INVALID),
        ("dst not an address at all", Linear { dst: 0xdead_beef_dead_beef, ..d2h }, RT_PARAM_INVALID),
        ("src not an address at all", Linear { src: 0xdead_beef_dead_beef, ..h2d }, RT_PARAM_INVALID),
        ("dst + count wraps", Linear { dst: usize::MAX - 100, ..d2h }, RT_PARAM_INVALID),
        ("src + count wraps", Linear { src: usize::MAX - 100, ..h2d }, RT_PARAM_INVALID),
        ("src + count wraps to 0", Linear { src: usize::MAX - 511, ..h2d }, RT_PARAM_INVALID),
        (
            "count wraps from device memory",
            Linear { max: everything, count: everything, ..d2h },
            RT_PARAM_INVALID,
        ),
        (
            "count wraps from page-locked memory",
            Linear { max: everything, count: everything, ..h2d },
            RT_PARAM_INVALID,
        ),
        (
            "count wraps from plain memory",
            Linear { max: everything, count: everything, ..heap_in },
            RT_PARAM_INVALID,
        ),
        (
            "count reaches the top",
            Linear { max: everything, count: everything - h2d.dst, ..h2d },
            RT_PARAM_INVALID,
        ),
        ("dst freed device memory", Linear { dst: s.wild.freed_device, ..h2d }, RT_PARAM_INVALID),
        (
            "dst inside freed device memory",
            Linear { dst: s.wild.freed_device + 4096, ..d2d },
            RT_PARAM_INVALID,
        ),
        ("src freed device memory", Linear { src: s.wild.freed_device, ..d2h }, RT_PARAM_INVALID),
        ("src freed page-locked memory", Linear { src: s.wild.freed_pinned, ..h2d }, RT_PARAM_INVALID),
        ("dst freed page-locked memory", Linear { dst: s.wild.freed_pinned + 64, ..d2h }, RT_PARAM_INVALID),
        (
            "dst leaves its device memory",
            Linear { dst: s.device.addr + DEVICE_END - 511, ..h2d },
            RT_PARAM_INVALID,
        ),
        (
            "src leaves its device memory",
            Linear { src: s.device.addr + DEVICE_END - 511, ..d2h },
            RT_PARAM_INVALID,
        ),
        (
            "dst at the end of device memory",
            Linear { dst: s.device.addr + DEVICE_END, count: 1, ..h2d },
            RT_PARAM_INVALID,
        ),
        ("dst one byte before device memory", Linear { dst: s.device.addr - 1, ..h2d }, RT_PARAM_INVALID),
        ("src one byte before device memory", Linear { src: s.device.addr - 1, ..d2h }, RT_PARAM_INVALID),
        (
            "src leaves its page-locked memory",
            Linear { src: s.pinned.addr + LEN - 511, ..h2d },
            RT_PARAM_INVALID,
        ),
        (
            "dst leaves its page-locked memory",
            Linear { dst: s.pinned.addr + LEN - 511, ..d2h },
            RT_PARAM_INVALID,
        ),
        (
            "src one byte before page-locked memory",
            Linear { src: s.pinned.addr - 1, ..h2d },
            RT_PARAM_INVALID,
        ),
        (
            "dst one byte before page-locked memory",
            Linear { dst: s.pinned.addr - 1, ..d2h },
            RT_PARAM_INVALID,
        ),
        ("src not mapped", Linear { src: s.wild.unmapped, ..heap_in }, RT_PARAM_INVALID),
        ("dst not mapped", Linear { dst: s.wild.unmapped, ..heap_out }, RT_PARAM_INVALID),
        (
            "src reaches into nothing",
            Linear { src: s.wild.last_bytes.addr, count: 65, ..heap_in },
            RT_PARAM_INVALID,
        ),
        (
            "dst reaches into nothing",
            Linear { dst: s.wild.last_bytes.addr, count: 65, ..heap_out },
            RT_PARAM_INVALID,
        ),
        ("dst read-only", Linear { dst: s.wild.read_only, ..heap_out }, RT_PARAM_INVALID),
        ("between devices without peer access", Linear { src: s.elsewhere.addr, ..d2d }, RT_PARAM_INVALID),
        ("to another device without peer access", Linear { dst: s.elsewhere.addr, ..d2d }, RT_PARAM_INVALID),
    ]
}

/// Kinds that are no kinds, that EP refuses, and that contradict the addresses.
fn bad_kinds(s: &Scene) -> Vec<Row> {
    let Good { h2d, d2h, heap_in, heap_out, d2d, h2h } = good(s);
    let mut rows = Vec::new();
    for kind in [-1, 8, 99, i32::MIN, i32::MAX] {
        rows.push(("a kind that does not exist", Linear { kind, ..h2d }, INVALID_PARAM));
    }
    for copy in [h2h, h2d, d2h, d2d, heap_in] {
        rows.push(("host to host", Linear { kind: H2H, ..copy }, FEATURE_NOT_SUPPORT));
    }
    rows.push(("DEFAULT between host addresses", Linear { kind: DEFAULT, ..h2h }, FEATURE_NOT_SUPPORT));
    let contradictions: [(&'static str, Linear, &[i32]); 6] = [
        ("page-locked to device", h2d, &[D2H, D2D, INNER, INTER]),
        ("plain to device", heap_in, &[D2H, D2D, INNER, INTER]),
        ("device to page-locked", d2h, &[H2D, D2D, BUFFERED, INNER, INTER]),
        ("device to plain", heap_out, &[H2D, D2D, BUFFERED, INNER, INTER]),
        ("inside a device", d2d, &[H2D, D2H, BUFFERED, INTER]),
        ("host to host under another name", h2h, &[H2D, D2H, D2D, BUFFERED, INNER, INTER]),
    ];
    for (name, copy, kinds) in contradictions {
        rows.extend(kinds.iter().map(|&kind| (name, Linear { kind, ..copy }, RT_PARAM_INVALID)));
    }
    rows
}

fn bad_streams(s: &Scene) -> Vec<Row> {
    let row = |(name, stream, want)| (name, Linear { stream, ..good(s).h2d }, want);
    s.bad_streams().into_iter().map(row).collect()
}

// proves: R17 R20 R26 R28 R33 N6 N10 X10
#[test]
fn asynchronous_copies() {
    type Call = fn(Linear) -> i32;
    let functions: [(&str, Call); 2] = [
        ("aclrtMemcpyAsync", |c| aclrtMemcpyAsync(c.dst, c.max, c.src, c.count, c.kind, c.stream)),
        ("aclrtMemcpyAsyncWithCondition", |c| {
            aclrtMemcpyAsyncWithCondition(c.dst, c.max, c.src, c.count, c.kind, c.stream)
        }),
    ];
    let s = Scene::new();
    for (function, call) in functions {
        for (row, copy, want) in [bad_ranges(&s), bad_kinds(&s), bad_streams(&s)].concat() {
            s.refuses(function, &format!("{row} (kind {})", copy.kind), want, || call(copy));
        }
    }
}

// proves: N3 X10
#[test]
fn synchronous_copies() {
    let s = Scene::new();
    for (row, c, want) in bad_ranges(&s) {
        s.refuses("aclrtMemcpy", row, want, || aclrtMemcpy(c.dst, c.max, c.src, c.count, c.kind));
    }
}

/// The other side of the rows above: the same arguments one step inside the limit are accepted.
#[test]
fn the_last_legal_byte_is_legal() {
    let s = Scene::new();
    let Good { h2d, d2h, heap_in, .. } = good(&s);
    let rows = [
        ("device memory to its rounded end", Linear { dst: s.device.addr + DEVICE_END - 512, ..h2d }),
        ("page-locked memory to its end", Linear { dst: s.pinned.addr + LEN - 512, ..d2h }),
        ("plain memory to the end of its page", Linear { src: s.wild.last_bytes.addr, count: 64, ..heap_in }),
        ("out of read-only memory", Linear { src: s.wild.read_only, ..heap_in }),
        ("count equal to destMax", h2d),
    ];
    for (row, c) in rows {
        expect(row, aclrtMemcpyAsync(c.dst, c.max, c.src, c.count, c.kind, c.stream), 0);
        expect(row, aclrtSynchronizeStream(c.stream), 0);
        expect(row, aclrtMemcpy(c.dst, c.max, c.src, c.count, c.kind), 0);
    }
}
