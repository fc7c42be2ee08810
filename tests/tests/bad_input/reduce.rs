//! Reductions: aclrtReduceAsync.

use ferry_tests::code::{FEATURE_NOT_SUPPORT, INVALID_PARAM, RT_PARAM_INVALID};
use ferry_tests::*;

use crate::scene::{DEVICE_END, LEN, Scene};

const SUM: i32 = 10;
const FLOAT: i32 = 0;

#[test]
fn values() {
    let s = Scene::new();
    let device = s.device.addr;
    let call =
        |count, kind, data_type| aclrtReduceAsync(device, device + 512, count, kind, data_type, s.stream, 0);
    for kind in [0, 1, 9, 14, -1, i32::MAX, i32::MIN] {
        s.refuses("aclrtReduceAsync", &format!("kind {kind}"), INVALID_PARAM, || call(64, kind, FLOAT));
    }
    s.refuses("aclrtReduceAsync", "EQUAL", FEATURE_NOT_SUPPORT, || call(64, 13, FLOAT));
    for data_type in [-1, 4, 5, 7, 8, 9, 10, 11, 12, 13, 16, 17, 29, 35, 42, 99, i32::MAX, i32::MIN] {
        let row = format!("type {data_type}");
        s.refuses("aclrtReduceAsync", &row, FEATURE_NOT_SUPPORT, || call(64, SUM, data_type));
    }
    for (data_type, size, counts) in
        [(FLOAT, 4, [1, 2, 3, 63]), (3, 4, [5, 6, 7, 65]), (1, 2, [1, 3, 63, 65]), (27, 2, [5, 7, 9, 11])]
    {
        for count in counts {
            let row = format!("{count} bytes of type {data_type}");
            s.refuses("aclrtReduceAsync", &row, RT_PARAM_INVALID, || call(count, SUM, data_type));
            let code = call(count, SUM, data_type);
            refused(
                &row,
                code,
                RT_PARAM_INVALID,
                &[&format!("count is {count}"), &format!("multiple of {size}")],
            );
        }
    }
}

#[test]
fn addresses() {
    let s = Scene::new();
    let (device, good) = (s.device.addr, s.device.addr + 2048);
    let rows: [(&str, usize, u64, i32); 15] = [
        ("NULL", 0, 512, INVALID_PARAM),
        ("NULL, nothing to do", 0, 0, INVALID_PARAM),
        ("0x10", 0x10, 512, RT_PARAM_INVALID),
        ("not an address", 0xdead_beef_dead_bee0, 512, RT_PARAM_INVALID),
        ("wraps", usize::MAX - 99, 512, RT_PARAM_INVALID),
        ("as much as can be", device, u64::MAX - 3, RT_PARAM_INVALID),
        ("leaves its memory", device + DEVICE_END - 508, 512, RT_PARAM_INVALID),
        ("begins where its memory ends", device + DEVICE_END, 4, RT_PARAM_INVALID),
        ("begins before its memory", device - 4, 512, RT_PARAM_INVALID),
        ("freed memory", s.wild.freed_device, 512, RT_PARAM_INVALID),
        ("memory of another device", s.elsewhere.addr, 512, RT_PARAM_INVALID),
        ("page-locked memory", s.pinned.addr, 512, RT_PARAM_INVALID),
        ("freed page-locked memory", s.wild.freed_pinned, 512, RT_PARAM_INVALID),
        ("plain memory", s.heap.addr, 512, RT_PARAM_INVALID),
        ("not mapped", s.wild.unmapped, 512, RT_PARAM_INVALID),
    ];
    for (row, addr, count, want) in rows {
        s.refuses("aclrtReduceAsync", &format!("dst: {row}"), want, || {
            aclrtReduceAsync(addr, good, count, SUM, FLOAT, s.stream, 0)
        });
        s.refuses("aclrtReduceAsync", &format!("src: {row}"), want, || {
            aclrtReduceAsync(good, addr, count, SUM, FLOAT, s.stream, 0)
        });
    }
    let code = aclrtReduceAsync(good, s.elsewhere.addr, 64, SUM, FLOAT, s.stream, 0);
    let words = ["src must be memory of device 0", "device 1", &format!("{:#x}", s.elsewhere.addr)];
    refused("memory of another device", code, RT_PARAM_INVALID, &words);
    let code = aclrtReduceAsync(s.heap.addr, good, 64, SUM, FLOAT, s.stream, 0);
    refused("plain memory", code, RT_PARAM_INVALID, &["dst must be memory of device 0", "plain host memory"]);
    let code = aclrtReduceAsync(good, device + DEVICE_END - 4, 8, SUM, FLOAT, s.stream, 0);
    refused("leaves", code, RT_PARAM_INVALID, &["8 bytes", &format!("of {DEVICE_END} bytes")]);
    s.unchanged("refused reductions");
    for (row, stream, want) in s.bad_streams() {
        s.refuses("aclrtReduceAsync", row, want, || {
            aclrtReduceAsync(device, good, LEN as u64 / 4, SUM, FLOAT, stream, 0)
        });
    }
}
