//! What each function refuses, with which code, and that the message names the argument.

use ferry_tests::code::*;
use ferry_tests::*;

use crate::PAGE;

const HUGE: usize = 2 << 20;
const GIANT: usize = 1 << 30;

#[test]
fn granularity_by_attribute() {
    use_device();
    let page_of = |attribute| match attribute {
        3 | 5 | 7 | 9 | 12 | 15 => PAGE,
        10 | 11 | 14 | 17 => GIANT,
        _ => HUGE,
    };
    for attribute in 0..18 {
        for option in [0, 1] {
            let mut size = 0;
            ok(aclrtMemGetAllocationGranularity(&mut properties(attribute, 0), option, &mut size));
            assert_eq!(size, page_of(attribute), "attribute {attribute}");
        }
        let size = page_of(attribute);
        if size == GIANT {
            continue; // as much as some machines that run this have
        }
        let (mut handle, base) = (0, reserve(4 * size));
        let half = aclrtMallocPhysical(&mut handle, size / 2, &properties(attribute, 0), 0);
        refused("half a page", half, RT_PARAM_INVALID, &["size", &size.to_string(), &(size / 2).to_string()]);
        assert_eq!(handle, 0, "a refused call writes nothing");
        ok(aclrtMallocPhysical(&mut handle, size, &properties(attribute, 0), 0));
        let odd = aclrtMapMem(base + size / 2, size, 0, handle, 0);
        refused("half a page in", odd, RT_PARAM_INVALID, &["virPtr", &size.to_string()]);
        ok(aclrtMapMem(base + size, size, 0, handle, 0));
        ok(aclrtUnmapMem(base + size));
        ok(aclrtFreePhysical(handle));
        ok(aclrtReleaseMemAddress(base));
    }
}

#[test]
fn properties_that_make_no_sense() {
    use_device();
    let good = properties(NORMAL_PAGES, 0);
    let with = |change: fn(&mut aclrtPhysicalMemProp)| {
        let mut bad = good;
        change(&mut bad);
        bad
    };
    let cases = [
        ("handleType", with(|p| p.handleType = 2), FEATURE_NOT_SUPPORT, "2"),
        ("allocationType", with(|p| p.allocationType = 1), RT_PARAM_INVALID, "1"),
        ("memAttr", with(|p| p.memAttr = 18), RT_PARAM_INVALID, "18"),
        ("memAttr", with(|p| p.memAttr = -1), RT_PARAM_INVALID, "-1"),
        ("location.type", with(|p| p.location.type_ = 3), RT_PARAM_INVALID, "3"),
        ("location.type", with(|p| p.location.type_ = 2), RT_PARAM_INVALID, "2"),
        ("location.type", with(|p| p.location.type_ = 99), RT_PARAM_INVALID, "99"),
        ("device", with(|p| p.location.id = 2), INVALID_DEVICEID, "2"),
        ("device", with(|p| p.location.id = u32::MAX), INVALID_DEVICEID, "-1"),
        ("reserve", with(|p| p.reserve = 5), RT_PARAM_INVALID, "5"),
    ];
    for (name, mut prop, want, value) in cases {
        let (mut handle, mut size) = (77, 77);
        let code = aclrtMallocPhysical(&mut handle, PAGE, &prop, 0);
        refused(&format!("aclrtMallocPhysical, {prop:?}"), code, want, &[name, value]);
        let code = aclrtMemGetAllocationGranularity(&mut prop, 0, &mut size);
        refused(&format!("aclrtMemGetAllocationGranularity, {prop:?}"), code, want, &[name, value]);
        assert_eq!((handle, size), (77, 77), "a refused call writes nothing");
    }
    let mut size = 0;
    for option in [2, -1, 0xffff] {
        let code = aclrtMemGetAllocationGranularity(&mut good.clone(), option, &mut size);
        refused("option", code, RT_PARAM_INVALID, &["option", &option.to_string()]);
    }
}

#[test]
fn null_and_wild_pointers() {
    use_device();
    let (wild, mut word, mut good) = (Wild::new(), 0_usize, properties(NORMAL_PAGES, 0));
    let (base, handle) = (reserve(PAGE), physical(PAGE));
    let bad_out = [(0, INVALID_PARAM), (wild.unmapped, RT_PARAM_INVALID), (wild.read_only, RT_PARAM_INVALID)];
    for (out, want) in bad_out {
        let out = out as *mut usize;
        refused("virPtr", aclrtReserveMemAddress(out, PAGE, 0, 0, 0), want, &["virPtr"]);
        refused("handle", aclrtMallocPhysical(out, PAGE, &good, 0), want, &["handle"]);
        refused("granularity", aclrtMemGetAllocationGranularity(&mut good, 0, out), want, &["granularity"]);
    }
    for (prop, want) in [(0, INVALID_PARAM), (wild.unmapped, RT_PARAM_INVALID)] {
        refused("prop", aclrtMallocPhysical(&mut word, PAGE, prop as _, 0), want, &["prop"]);
        refused("prop", aclrtMemGetAllocationGranularity(prop as _, 0, &mut word), want, &["prop"]);
    }
    refused("virPtr", aclrtMapMem(0, PAGE, 0, handle, 0), INVALID_PARAM, &["virPtr"]);
    refused("handle", aclrtMapMem(base, PAGE, 0, 0, 0), INVALID_PARAM, &["handle"]);
    refused("virPtr", aclrtUnmapMem(0), INVALID_PARAM, &["virPtr"]);
    refused("virPtr", aclrtReleaseMemAddress(0), INVALID_PARAM, &["virPtr"]);
    refused("handle", aclrtFreePhysical(0), INVALID_PARAM, &["handle"]);
    assert_eq!(word, 0);
}

#[test]
fn handles_that_are_none() {
    use_device();
    let (base, freed, stream) = (reserve(PAGE), physical(PAGE), stream());
    ok(aclrtFreePhysical(freed));
    // Not its neighbour: that may be a handle of another test, which runs at the same time.
    let handles = [freed, 1, 0xdead_beef, usize::MAX, stream, freed ^ (1 << 30), base];
    for handle in handles {
        let name = format!("{handle:#x}");
        refused("aclrtMapMem", aclrtMapMem(base, PAGE, 0, handle, 0), INVALID_HANDLE, &[&name]);
        refused("aclrtFreePhysical", aclrtFreePhysical(handle), INVALID_HANDLE, &[&name]);
    }
}

#[test]
fn values_and_addresses_that_do_not_fit() {
    use_device();
    let (base, handle, wild) = (reserve(8 * PAGE), physical(2 * PAGE), Wild::new());
    let mut out = 77;
    let reserved = |out: &mut usize, size, align, flags| aclrtReserveMemAddress(out, size, align, 0, flags);
    refused("size", reserved(&mut out, 0, 0, 0), RT_PARAM_INVALID, &["size", "0"]);
    refused("alignment", reserved(&mut out, PAGE, 64, 0), RT_PARAM_INVALID, &["alignment", "64"]);
    refused("flags", reserved(&mut out, PAGE, 0, 2), RT_PARAM_INVALID, &["flags", "2"]);
    for size in [1 << 47, 1 << 56, usize::MAX, usize::MAX - PAGE] {
        refused("too much", reserved(&mut out, size, 0, 0), MEMORY_ALLOCATION, &[]);
    }
    let made =
        |out: &mut usize, size, flags| aclrtMallocPhysical(out, size, &properties(NORMAL_PAGES, 0), flags);
    refused("size", made(&mut out, 0, 0), RT_PARAM_INVALID, &["size"]);
    refused("size", made(&mut out, 4097, 0), RT_PARAM_INVALID, &["size", "4097"]);
    refused("flags", made(&mut out, PAGE, 1), RT_PARAM_INVALID, &["flags", "1"]);
    for size in [1 << 46, usize::MAX / PAGE * PAGE] {
        refused("too much", made(&mut out, size, 0), MEMORY_ALLOCATION, &[]);
    }
    assert_eq!(out, 77, "refused calls write nothing");

    let mapped = |va, size, offset, flags| aclrtMapMem(va, size, offset, handle, flags);
    refused("size", mapped(base, PAGE, 0, 0), RT_PARAM_INVALID, &["size", "4096", "8192"]);
    refused("size", mapped(base, 4 * PAGE, 0, 0), RT_PARAM_INVALID, &["size", "16384", "8192"]);
    refused("size", mapped(base, 0, 0, 0), RT_PARAM_INVALID, &["size"]);
    refused("offset", mapped(base, 2 * PAGE, PAGE, 0), RT_PARAM_INVALID, &["offset", "4096"]);
    refused("flags", mapped(base, 2 * PAGE, 0, 1), RT_PARAM_INVALID, &["flags", "1"]);
    let heap = Memory::new(Home::Mapped, 4 * PAGE);
    for va in [
        base + 64,
        base + 7 * PAGE,
        base + 8 * PAGE,
        base.wrapping_sub(PAGE),
        heap.addr,
        Memory::device(64).addr,
        Memory::pinned(64).addr,
        wild.unmapped,
        usize::MAX - PAGE + 1,
        PAGE,
    ] {
        refused("virPtr", mapped(va, 2 * PAGE, 0, 0), RT_PARAM_INVALID, &[&format!("{va:#x}")]);
    }
    ok(mapped(base + 2 * PAGE, 2 * PAGE, 0, 0));
    for va in [base + PAGE, base + 2 * PAGE, base + 3 * PAGE] {
        refused("taken", mapped(va, 2 * PAGE, 0, 0), RT_PARAM_INVALID, &["mapped"]);
    }
    let mapping = base + 2 * PAGE;
    for va in [base, mapping + PAGE, mapping + 1, base + 4 * PAGE, heap.addr, usize::MAX, 1] {
        refused("unmap", aclrtUnmapMem(va), RT_PARAM_INVALID, &[&format!("{va:#x}")]);
    }
    for va in [base + PAGE, mapping, heap.addr, Memory::device(64).addr, 1, usize::MAX] {
        refused("release", aclrtReleaseMemAddress(va), RT_PARAM_INVALID, &[&format!("{va:#x}")]);
    }
    // Memory that is mapped is not freed by the functions for other memory.
    refused("aclrtFree", aclrtFree(mapping), RT_PARAM_INVALID, &["aclrtUnmapMem"]);
    refused("aclrtFreeHost", aclrtFreeHost(mapping), RT_PARAM_INVALID, &["aclrtUnmapMem"]);
    refused("aclrtFreeWithDevSync", aclrtFreeWithDevSync(mapping), RT_PARAM_INVALID, &["aclrtUnmapMem"]);
    refused("aclrtUnmapMem", aclrtUnmapMem(Memory::device(64).addr), RT_PARAM_INVALID, &[]);
    Memory { addr: mapping, len: 2 * PAGE, home: Home::Device }.fill(1);
    ok(aclrtUnmapMem(mapping));
}

#[test]
fn a_context_is_needed_before_values_are_looked_at() {
    in_new_thread(|| {
        let mut out = 0;
        let bad = properties(-1, 9);
        let rows = [
            ("aclrtReserveMemAddress", aclrtReserveMemAddress(&mut out, 0, 9, 9, 9)),
            ("aclrtMallocPhysical", aclrtMallocPhysical(&mut out, 1, &bad, 9)),
            ("aclrtMapMem", aclrtMapMem(1, 1, 1, 1, 1)),
        ];
        for (name, code) in rows {
            assert_eq!(code, CONTEXT_NULL, "{name}");
        }
    });
}
