//! aclrtReserveMemAddressNoUCMemory, which one product has: a process of its own.

use std::ptr::null_mut;

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::*;

const GIB: usize = 1 << 30;
/// 41 TiB: where the documents advise to ask.
const THERE: usize = 41 << 40;

pub const CASES: [Case; 1] = [("the very addresses", the_very_addresses)];

// proves: D3
#[test]
fn addresses_that_are_asked_for_on_a_product_that_has_them() {
    children::run(CASES[0].0, &[("FERRY_SOC", Some("Ascend910_9391"))]);
    let mut base = 77;
    let code = aclrtReserveMemAddressNoUCMemory(&mut base, GIB, 0, THERE, 0);
    refused("on other products", code, FEATURE_NOT_SUPPORT, &["aclrtReserveMemAddressNoUCMemory"]);
    assert_eq!(base, 77);
}

fn the_very_addresses() {
    use_device();
    let (mut base, mut more) = (0, 77);
    for flags in [0, 1] {
        ok(aclrtReserveMemAddressNoUCMemory(&mut base, 2 * GIB, 0, THERE, flags));
        assert_eq!(base, THERE);
        let taken = aclrtReserveMemAddressNoUCMemory(&mut more, GIB, 0, THERE + GIB, flags);
        refused("taken", taken, MEMORY_ALLOCATION, &["expectPtr", &format!("{:#x}", THERE + GIB)]);
        let handle = physical(4096);
        ok(aclrtMapMem(base, 4096, 0, handle, 0));
        Memory { addr: base, len: 4096, home: Home::Device }.fill(3);
        ok(aclrtUnmapMem(base));
        ok(aclrtReleaseMemAddress(base));
    }
    let call = aclrtReserveMemAddressNoUCMemory;
    for (what, code, want) in [
        ("virPtr", call(null_mut(), GIB, 0, THERE, 0), INVALID_PARAM),
        ("size", call(&mut more, 0, 0, THERE, 0), RT_PARAM_INVALID),
        ("size", call(&mut more, GIB + 4096, 0, THERE, 0), RT_PARAM_INVALID),
        ("size", call(&mut more, usize::MAX, 0, THERE, 0), RT_PARAM_INVALID),
        ("alignment", call(&mut more, GIB, 1, THERE, 0), RT_PARAM_INVALID),
        ("flags", call(&mut more, GIB, 0, THERE, 2), RT_PARAM_INVALID),
        ("expectPtr", call(&mut more, GIB, 0, 0, 0), RT_PARAM_INVALID),
        ("not aligned", call(&mut more, GIB, 0, THERE + 4096, 0), MEMORY_ALLOCATION),
        ("higher than there are addresses", call(&mut more, GIB, 0, 200 << 40, 0), MEMORY_ALLOCATION),
    ] {
        expect(what, code, want);
    }
    assert_eq!(more, 77, "a refused call writes nothing");
}
