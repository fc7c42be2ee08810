//! Fills: aclrtMemset, aclrtMemsetAsync, aclrtMemsetD32 and aclrtMemsetD32Async.

use ferry_tests::code::{INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::*;

use crate::scene::{DEVICE_END, LEN, Scene};

/// A name, the address, the size of the block, the bytes to fill, and the code.
type Row = (&'static str, usize, usize, usize, i32);

/// What is wrong in units of 4 bytes, so that every fill can be asked for it.
fn bad_ranges(s: &Scene) -> Vec<Row> {
    let (device, pinned) = (s.device.addr, s.pinned.addr);
    vec![
        ("NULL", 0, 512, 512, INVALID_PARAM),
        ("NULL, nothing to fill", 0, 0, 0, INVALID_PARAM),
        ("more than the block holds", device, 508, 512, RT_PARAM_INVALID),
        ("more than a block of nothing holds", device, 0, 4, RT_PARAM_INVALID),
        ("0x10", 0x10, 512, 512, RT_PARAM_INVALID),
        ("not an address", 0xdead_beef_dead_bee0, 512, 512, RT_PARAM_INVALID),
        ("wraps", usize::MAX - 99, 512, 512, RT_PARAM_INVALID),
        ("freed device memory", s.wild.freed_device, 512, 512, RT_PARAM_INVALID),
        ("freed page-locked memory", s.wild.freed_pinned, 512, 512, RT_PARAM_INVALID),
        ("leaves its device memory", device + DEVICE_END - 508, 512, 512, RT_PARAM_INVALID),
        ("begins where its device memory ends", device + DEVICE_END, 4, 4, RT_PARAM_INVALID),
        ("begins before its device memory", device - 4, 512, 512, RT_PARAM_INVALID),
        ("leaves its page-locked memory", pinned + LEN - 508, 512, 512, RT_PARAM_INVALID),
        ("begins before its page-locked memory", pinned - 4, 512, 512, RT_PARAM_INVALID),
        ("not mapped", s.wild.unmapped, 512, 512, RT_PARAM_INVALID),
        ("reaches into nothing", s.wild.last_bytes.addr, 128, 128, RT_PARAM_INVALID),
        ("read-only", s.wild.read_only, 512, 512, RT_PARAM_INVALID),
        ("as much as can be", device, usize::MAX, usize::MAX - 3, RT_PARAM_INVALID),
    ]
}

#[test]
fn byte_fills() {
    let s = Scene::new();
    for (row, ptr, max, count, want) in bad_ranges(&s) {
        s.refuses("aclrtMemset", row, want, || aclrtMemset(ptr, max, 0x5a, count));
        s.refuses("aclrtMemsetAsync", row, want, || aclrtMemsetAsync(ptr, max, 0x5a, count, s.stream));
    }
    for (row, stream, want) in s.bad_streams() {
        s.refuses("aclrtMemsetAsync", row, want, || aclrtMemsetAsync(s.device.addr, 512, 0x5a, 512, stream));
    }
}

#[test]
fn word_fills() {
    let s = Scene::new();
    let mut rows = bad_ranges(&s);
    rows.push(("plain memory, which word fills do not take", s.heap.addr, 512, 512, RT_PARAM_INVALID));
    for (row, ptr, size, bytes, want) in rows {
        s.refuses("aclrtMemsetD32", row, want, || aclrtMemsetD32(ptr, size, 7, bytes / 4));
        s.refuses("aclrtMemsetD32Async", row, want, || {
            aclrtMemsetD32Async(ptr, size, 7, bytes / 4, s.stream)
        });
    }
    // N x 4 wraps to a small number.
    for n in [usize::MAX / 4 + 2, usize::MAX / 2 + 2, usize::MAX] {
        s.refuses("aclrtMemsetD32", "N x 4 wraps", RT_PARAM_INVALID, || {
            aclrtMemsetD32(s.device.addr, 4096, 7, n)
        });
        s.refuses("aclrtMemsetD32Async", "N x 4 wraps", RT_PARAM_INVALID, || {
            aclrtMemsetD32Async(s.device.addr, 4096, 7, n, s.stream)
        });
    }
    for (row, stream, want) in s.bad_streams() {
        s.refuses("aclrtMemsetD32Async", row, want, || aclrtMemsetD32Async(s.device.addr, 512, 7, 4, stream));
    }
}
