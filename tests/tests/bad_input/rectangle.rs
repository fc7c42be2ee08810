//! 2-D copies: aclrtMemcpy2dAsync and aclrtMemcpy2d.

use ferry_tests::code::{INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, H2H, INNER, INTER};
use ferry_tests::*;

use crate::scene::{DEVICE_END, LEN, Scene};

/// The arguments of a 2-D copy.
#[derive(Clone, Copy)]
struct Rect {
    dst: usize,
    dpitch: usize,
    src: usize,
    spitch: usize,
    width: usize,
    height: usize,
    kind: i32,
    stream: usize,
}

type Row = (&'static str, Rect, i32);

/// Bytes from the first to the last of 8 rows of 48, 64 apart on the device side.
const SPAN: usize = 7 * 64 + 48;

fn good(s: &Scene) -> [Rect; 4] {
    let h2d = |host| Rect {
        dst: s.device.addr + 1024,
        dpitch: 64,
        src: host,
        spitch: 128,
        width: 48,
        height: 8,
        kind: H2D,
        stream: s.stream,
    };
    let turned = |r: Rect| Rect { dst: r.src, dpitch: 128, src: r.dst, spitch: 64, kind: D2H, ..r };
    let (pinned, heap) = (h2d(s.pinned.addr + 512), h2d(s.heap.addr + 512));
    [pinned, turned(pinned), heap, turned(heap)]
}

fn bad_values(s: &Scene) -> Vec<Row> {
    let [h2d, d2h, heap_in, heap_out] = good(s);
    let last = s.wild.last_bytes.addr;
    let half = usize::MAX / 2 + 1;
    let mut rows = vec![
        ("dst NULL", Rect { dst: 0, ..h2d }, INVALID_PARAM),
        ("src NULL", Rect { src: 0, ..h2d }, INVALID_PARAM),
        ("dst NULL, no rows", Rect { dst: 0, height: 0, ..h2d }, INVALID_PARAM),
        ("src NULL, empty rows", Rect { src: 0, width: 0, ..h2d }, INVALID_PARAM),
        ("width above dpitch", Rect { dpitch: 47, ..h2d }, RT_PARAM_INVALID),
        ("width above spitch", Rect { spitch: 47, ..h2d }, RT_PARAM_INVALID),
        ("dpitch 0", Rect { dpitch: 0, ..h2d }, RT_PARAM_INVALID),
        ("spitch 0, one row", Rect { spitch: 0, height: 1, ..d2h }, RT_PARAM_INVALID),
        ("dpitch x height wraps", Rect { dpitch: half, height: 3, ..h2d }, RT_PARAM_INVALID),
        ("spitch x height wraps", Rect { spitch: half, height: 3, ..h2d }, RT_PARAM_INVALID),
        (
            "dpitch x height wraps on plain memory",
            Rect { dpitch: half, height: 3, ..heap_out },
            RT_PARAM_INVALID,
        ),
        (
            "pitches as large as can be",
            Rect { dpitch: usize::MAX, spitch: usize::MAX, ..h2d },
            RT_PARAM_INVALID,
        ),
        ("as many rows as can be", Rect { height: usize::MAX, ..h2d }, RT_PARAM_INVALID),
        (
            "as wide as can be",
            Rect { width: usize::MAX, dpitch: usize::MAX, spitch: usize::MAX, height: 1, ..h2d },
            RT_PARAM_INVALID,
        ),
        ("the second row of dst wraps", Rect { dst: usize::MAX - 63, ..d2h }, RT_PARAM_INVALID),
        ("the second row of src wraps", Rect { src: usize::MAX - 127, ..h2d }, RT_PARAM_INVALID),
        ("dst not an address at all", Rect { dst: 0xdead_beef_dead_beef, ..h2d }, RT_PARAM_INVALID),
        ("src not an address at all", Rect { src: 0xdead_beef_dead_beef, ..h2d }, RT_PARAM_INVALID),
        ("dst 0x10", Rect { dst: 0x10, ..d2h }, RT_PARAM_INVALID),
        ("dst freed device memory", Rect { dst: s.wild.freed_device, ..h2d }, RT_PARAM_INVALID),
        ("src freed device memory", Rect { src: s.wild.freed_device, ..d2h }, RT_PARAM_INVALID),
        ("src freed page-locked memory", Rect { src: s.wild.freed_pinned, ..h2d }, RT_PARAM_INVALID),
        ("dst freed page-locked memory", Rect { dst: s.wild.freed_pinned, ..d2h }, RT_PARAM_INVALID),
        (
            "the last row of dst leaves by a byte",
            Rect { dst: s.device.addr + DEVICE_END - SPAN + 1, ..h2d },
            RT_PARAM_INVALID,
        ),
        (
            "the last row of src leaves by a byte",
            Rect { src: s.device.addr + DEVICE_END - SPAN + 1, ..d2h },
            RT_PARAM_INVALID,
        ),
        (
            "the last row leaves page-locked memory",
            Rect { dst: s.pinned.addr + LEN - 943, ..d2h },
            RT_PARAM_INVALID,
        ),
        ("one row too many", Rect { height: 49, ..h2d }, RT_PARAM_INVALID),
        ("rows in front of device memory", Rect { dst: s.device.addr - 64, ..h2d }, RT_PARAM_INVALID),
        ("src not mapped", Rect { src: s.wild.unmapped, ..heap_in }, RT_PARAM_INVALID),
        ("dst not mapped", Rect { dst: s.wild.unmapped, ..heap_out }, RT_PARAM_INVALID),
        (
            "the third row of src is not there",
            Rect { src: last, spitch: 48, height: 3, ..heap_in },
            RT_PARAM_INVALID,
        ),
        (
            "the third row of dst is not there",
            Rect { dst: last, dpitch: 48, height: 3, ..heap_out },
            RT_PARAM_INVALID,
        ),
        ("dst read-only", Rect { dst: s.wild.read_only, ..heap_out }, RT_PARAM_INVALID),
        ("host to device between host addresses", Rect { dst: s.heap.addr, ..h2d }, RT_PARAM_INVALID),
        ("host to device inside a device", Rect { src: s.device.addr + 2048, ..h2d }, RT_PARAM_INVALID),
        ("host to device the wrong way round", Rect { kind: H2D, ..d2h }, RT_PARAM_INVALID),
        ("device to host the wrong way round", Rect { kind: D2H, ..heap_in }, RT_PARAM_INVALID),
    ];
    for kind in [H2H, DEFAULT, BUFFERED, INNER, INTER, -1, 8, i32::MIN, i32::MAX] {
        rows.push(("a kind that 2-D copies do not take", Rect { kind, ..h2d }, INVALID_PARAM));
    }
    rows
}

// proves: R1 R9 R12 R13 R14 R15 R17 N13 N15
#[test]
fn asynchronous_copies() {
    let s = Scene::new();
    let [h2d, d2h, ..] = good(&s);
    let inside = Rect { src: s.device.addr + 2048, kind: D2D, ..h2d };
    let mut rows = bad_values(&s);
    rows.extend([
        ("one row above the maximum", Rect { height: 5_242_881, ..h2d }, RT_PARAM_INVALID),
        (
            "one row above the maximum, all in bounds",
            Rect { height: 5_242_881, width: 0, dpitch: 0, spitch: 0, ..h2d },
            RT_PARAM_INVALID,
        ),
        (
            "one byte above the maximal width, no rows",
            Rect { width: 5_000_001, dpitch: 5_000_001, spitch: 5_000_001, height: 0, ..h2d },
            RT_PARAM_INVALID,
        ),
        ("inside a device, but host addresses", Rect { kind: D2D, ..h2d }, RT_PARAM_INVALID),
        ("inside a device, but to the host", Rect { kind: D2D, ..d2h }, RT_PARAM_INVALID),
        ("inside a device, into freed memory", Rect { dst: s.wild.freed_device, ..inside }, RT_PARAM_INVALID),
        ("between devices without peer access", Rect { src: s.elsewhere.addr, ..inside }, RT_PARAM_INVALID),
    ]);
    rows.extend(s.bad_streams().map(|(name, stream, want)| (name, Rect { stream, ..h2d }, want)));
    for (row, r, want) in rows {
        s.refuses("aclrtMemcpy2dAsync", &format!("{row} (kind {})", r.kind), want, || {
            aclrtMemcpy2dAsync(r.dst, r.dpitch, r.src, r.spitch, r.width, r.height, r.kind, r.stream)
        });
    }
}

#[test]
fn synchronous_copies() {
    let s = Scene::new();
    let mut rows = bad_values(&s);
    let inside = Rect { src: s.device.addr + 2048, kind: D2D, ..good(&s)[0] };
    rows.push(("inside a device, which only the asynchronous form does", inside, INVALID_PARAM));
    for (row, r, want) in rows {
        s.refuses("aclrtMemcpy2d", &format!("{row} (kind {})", r.kind), want, || {
            aclrtMemcpy2d(r.dst, r.dpitch, r.src, r.spitch, r.width, r.height, r.kind)
        });
    }
}

/// The other side of the rows above: the last row needs its width, not its pitch.
// proves: R12 R13
#[test]
fn the_last_row_may_end_where_its_memory_ends() {
    let s = Scene::new();
    let [h2d, d2h, heap_in, _] = good(&s);
    let rows = [
        ("device memory to its rounded end", Rect { dst: s.device.addr + DEVICE_END - SPAN, ..h2d }),
        ("page-locked memory to its end", Rect { dst: s.pinned.addr + LEN - 944, ..d2h }),
        (
            "plain memory to the end of its page",
            Rect { src: s.wild.last_bytes.addr, width: 16, spitch: 48, height: 2, ..heap_in },
        ),
        (
            "a pitch that no second row uses",
            Rect { dpitch: usize::MAX, spitch: usize::MAX, height: 1, ..h2d },
        ),
    ];
    for (row, r) in rows {
        let code = aclrtMemcpy2dAsync(r.dst, r.dpitch, r.src, r.spitch, r.width, r.height, r.kind, r.stream);
        expect(row, code, 0);
        expect(row, aclrtSynchronizeStream(r.stream), 0);
        expect(row, aclrtMemcpy2d(r.dst, r.dpitch, r.src, r.spitch, r.width, r.height, r.kind), 0);
    }
}
