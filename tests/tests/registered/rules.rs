//! What can be registered, what is refused, and what the registered memory is to other functions.

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

use crate::{MAPPED, PAGE, PINNED, POISON, location_of, mine, registered};

#[test]
fn registrations_do_not_overlap() {
    use_device();
    for flag in [PINNED, MAPPED, PINNED | MAPPED] {
        let memory = mine(16 * PAGE);
        let first = memory.addr + 4 * PAGE;
        ok(aclrtHostRegisterV2(first, 4 * PAGE + 5, flag));
        let others = [
            (first, 4 * PAGE),
            (first, 1),
            (first + PAGE, PAGE),
            (first + 4 * PAGE, PAGE),
            (first - PAGE, PAGE + 1),
            (memory.addr, 16 * PAGE),
        ];
        for other in [PINNED, MAPPED] {
            for (addr, len) in others {
                let code = aclrtHostRegisterV2(addr, len, other);
                refused("overlap", code, ALREADY_REGISTERED, &[&format!("{first:#x}"), "16389"]);
            }
            let mut device = 77;
            refused("V1", aclrtHostRegister(first, PAGE, 0, &mut device), ALREADY_REGISTERED, &[]);
            assert_eq!(device, 77, "a refused call writes nothing");
            // Right beside is another matter.
            for addr in [first - PAGE, first + 5 * PAGE] {
                ok(aclrtHostRegisterV2(addr, PAGE, other));
                ok(aclrtHostUnregister(addr));
            }
        }
        for addr in [first + PAGE, first + 1, memory.addr, Memory::device(64).addr, 1, usize::MAX] {
            refused("unregister", aclrtHostUnregister(addr), NOT_REGISTERED, &[&format!("{addr:#x}")]);
        }
        ok(aclrtHostUnregister(first));
        refused("twice", aclrtHostUnregister(first), NOT_REGISTERED, &[&format!("{first:#x}")]);
    }
}

#[test]
fn what_cannot_be_registered() {
    use_device();
    let (wild, memory, mut device) = (Wild::new(), mine(4 * PAGE), 77);
    let (pinned, on_device) = (Memory::pinned(2 * PAGE), Memory::device(2 * PAGE));
    let mapped = Mapped::scattered(&[PAGE, PAGE]);
    let hole = reserve(PAGE);
    let mut v1 = |ptr, size, kind| aclrtHostRegister(ptr, size, kind, &mut device);
    for flag in [PINNED, MAPPED, PINNED | MAPPED] {
        let v2 = |ptr, size| aclrtHostRegisterV2(ptr, size, flag);
        refused("NULL", v2(0, PAGE), INVALID_PARAM, &["ptr"]);
        refused("no bytes", v2(memory.addr, 0), RT_PARAM_INVALID, &["size"]);
        for odd in [1, 64, 2048] {
            refused("unaligned", v2(memory.addr + odd, PAGE), ADDR_UNALIGNED, &["4096"]);
        }
        refused("device memory", v2(on_device.addr, PAGE), RT_PARAM_INVALID, &["device memory"]);
        refused("mapped memory", v2(mapped.all.addr, PAGE), RT_PARAM_INVALID, &["device memory"]);
        refused("a reservation", v2(hole, PAGE), RT_PARAM_INVALID, &["reserved"]);
        refused("not mapped", v2(wild.unmapped, PAGE), RT_PARAM_INVALID, &[&format!("{:#x}", wild.unmapped)]);
        refused("read-only", v2(wild.read_only, PAGE), RT_PARAM_INVALID, &["written"]);
        refused("into a hole", v2(wild.unmapped - PAGE, 2 * PAGE), RT_PARAM_INVALID, &[]);
        refused("wraps", v2(memory.addr, usize::MAX), RT_PARAM_INVALID, &[]);
        // Other tests' registrations may lie in so large a range.
        assert!([RT_PARAM_INVALID, ALREADY_REGISTERED].contains(&v2(memory.addr, 1 << 47)));
        refused("freed device memory", v2(wild.freed_device, PAGE), RT_PARAM_INVALID, &[]);
        refused("freed page-locked memory", v2(wild.freed_pinned, PAGE), RT_PARAM_INVALID, &[]);
    }
    for flag in [0, 1, 3, 0x10, 0x8000_0000, PINNED | 1, u32::MAX] {
        let code = aclrtHostRegisterV2(memory.addr, PAGE, flag);
        refused("flag", code, RT_PARAM_INVALID, &["flag", &format!("{flag:#x}")]);
    }
    for flag in [4, 8, PINNED | 4, MAPPED | 8] {
        refused("reserved flag", aclrtHostRegisterV2(memory.addr, PAGE, flag), FEATURE_NOT_SUPPORT, &[]);
    }
    refused("NULL", v1(0, PAGE, 0), INVALID_PARAM, &["ptr"]);
    refused("no bytes", v1(memory.addr, 0, 0), RT_PARAM_INVALID, &["size"]);
    refused("unaligned", v1(memory.addr + 1, PAGE, 0), ADDR_UNALIGNED, &["4096"]);
    refused("device memory", v1(on_device.addr, PAGE, 0), RT_PARAM_INVALID, &["device memory"]);
    for kind in [4, 8] {
        refused("reserved type", v1(memory.addr, PAGE, kind), FEATURE_NOT_SUPPORT, &[]);
    }
    for kind in [1, 2, -1, 12] {
        refused("type", v1(memory.addr, PAGE, kind), RT_PARAM_INVALID, &["type", &kind.to_string()]);
    }
    assert_eq!(device, 77, "refused calls write nothing");
    let null = std::ptr::null_mut();
    refused("NULL", aclrtHostRegister(memory.addr, PAGE, 0, null), INVALID_PARAM, &["devPtr"]);
    refused("NULL", aclrtHostUnregister(0), INVALID_PARAM, &["ptr"]);
    refused(
        "read-only",
        aclrtHostRegister(memory.addr, PAGE, 0, wild.read_only as _),
        RT_PARAM_INVALID,
        &["devPtr"],
    );

    // Page-locked memory of acl can be mapped for devices and not page-locked again.
    refused(
        "page-locked",
        aclrtHostRegisterV2(pinned.addr, PAGE, PINNED),
        RT_PARAM_INVALID,
        &["page-locked"],
    );
    refused(
        "both",
        aclrtHostRegisterV2(pinned.addr, PAGE, PINNED | MAPPED),
        RT_PARAM_INVALID,
        &["page-locked"],
    );
    refused("too long", aclrtHostRegisterV2(pinned.addr, 3 * PAGE, MAPPED), RT_PARAM_INVALID, &["leave"]);
    ok(aclrtHostRegisterV2(pinned.addr, PAGE, MAPPED));
    // None of the refusals left anything behind.
    ok(aclrtHostRegisterV2(memory.addr, 4 * PAGE, PINNED | MAPPED));
    ok(aclrtHostUnregister(memory.addr));
}

#[test]
fn a_context_is_needed_before_values_are_looked_at() {
    let memory = mine(PAGE);
    in_new_thread(move || {
        let mut out = 0;
        let rows = [
            ("aclrtHostRegister", aclrtHostRegister(memory.addr + 1, 0, 99, &mut out)),
            ("aclrtHostRegisterV2", aclrtHostRegisterV2(memory.addr + 1, 0, 1)),
            ("aclrtHostRegisterV2, good flag", aclrtHostRegisterV2(memory.addr + 1, 0, PINNED)),
            ("aclrtHostGetDevicePointer", aclrtHostGetDevicePointer(1, &mut out, 9)),
        ];
        for (name, code) in rows {
            assert_eq!(code, CONTEXT_NULL, "{name}");
        }
    });
}

#[test]
fn registered_memory_is_not_freed_by_other_functions() {
    use_device();
    let memory = registered(PAGE, PINNED);
    type Free = fn(usize) -> i32;
    let frees: [(&str, Free); 4] = [
        ("aclrtFree", aclrtFree),
        ("aclrtFreeHost", aclrtFreeHost),
        ("aclrtFreeWithDevSync", aclrtFreeWithDevSync),
        ("aclrtFreeHostWithDevSync", aclrtFreeHostWithDevSync),
    ];
    for (name, free) in frees {
        refused(name, free(memory.addr), RT_PARAM_INVALID, &["aclrtHostUnregister"]);
        assert_eq!(location_of(memory.addr), 0, "{name} changed nothing");
    }
    ok(aclrtHostUnregister(memory.addr));
    // The registration of page-locked memory of acl goes with the memory.
    let (pinned, mut device) = (Memory::pinned(PAGE), 0);
    ok(aclrtHostRegister(pinned.addr, PAGE, 0, &mut device));
    ok(aclrtFreeHost(pinned.addr));
    refused("gone", aclrtHostUnregister(pinned.addr), NOT_REGISTERED, &[]);
    assert_eq!(location_of(device), 2, "its device address means nothing any more");
}

#[test]
fn pointers_know_what_is_registered() {
    use_device();
    let memory = mine(8 * PAGE);
    ok(aclrtHostRegisterV2(memory.addr + PAGE, 2 * PAGE + 100, PINNED));
    let rows = [
        ("before", 0, 2),
        ("just before", PAGE - 1, 2),
        ("first", PAGE, 0),
        ("last", 3 * PAGE + 99, 0),
        ("just behind, on the last page", 3 * PAGE + 100, 2),
        ("behind, on the last page", 3 * PAGE + 101, 2),
        ("the page behind", 4 * PAGE, 2),
    ];
    for (what, offset, want) in rows {
        assert_eq!(location_of(memory.addr + offset), want, "{what}");
    }
    ok(aclrtHostUnregister(memory.addr + PAGE));
    assert_eq!(location_of(memory.addr + PAGE), 2, "unregistered");
    let mapped = registered(PAGE, MAPPED);
    assert_eq!(location_of(mapped.addr), 2, "mapped for devices, still the program's pageable memory");
    let mut view = 0;
    ok(aclrtHostGetDevicePointer(mapped.addr, &mut view, 0));
    let mut attributes = aclrtPtrAttributes::default();
    for addr in [view, view + PAGE - 1] {
        let code = aclrtPointerGetAttributes(addr, &mut attributes);
        refused("a device address", code, RT_PARAM_INVALID, &[&format!("{:#x}", mapped.addr)]);
    }
}

#[test]
fn device_pointers_of_registered_memory() {
    use_device();
    // With memory on either side that is not registered, whatever the system maps next to it.
    let (both, only_pinned, mut device) = (mine(6 * PAGE).part(PAGE, 4 * PAGE), registered(PAGE, PINNED), 0);
    ok(aclrtHostRegisterV2(both.addr, both.len, PINNED | MAPPED));
    ok(aclrtHostGetDevicePointer(both.addr, &mut device, 0));
    assert_ne!(device, both.addr);
    let (mut inside, mut again) = (0, 0);
    ok(aclrtHostGetDevicePointer(both.addr + PAGE + 3, &mut inside, 0));
    assert_eq!(inside, device + PAGE + 3, "inside");
    ok(aclrtHostGetDevicePointer(both.addr, &mut again, 0));
    assert_eq!(again, device, "the same every time");
    let (other, mut first) = (mine(PAGE), 0);
    ok(aclrtHostRegister(other.addr, PAGE, 0, &mut first));
    ok(aclrtHostGetDevicePointer(other.addr, &mut again, 0));
    assert_eq!(again, first, "as aclrtHostRegister said");

    let mut out = 77;
    let mut ask = |host, flag| aclrtHostGetDevicePointer(host, &mut out, flag);
    refused("NULL", ask(0, 0), INVALID_PARAM, &["pHost"]);
    refused("flag", ask(both.addr, 1), RT_PARAM_INVALID, &["flag", "1"]);
    refused("page-locked only", ask(only_pinned.addr, 0), RT_PARAM_INVALID, &["ACL_HOST_REG_MAPPED"]);
    for host in [both.addr + 4 * PAGE, both.addr - 1, mine(PAGE).addr, Memory::device(64).addr, 1, usize::MAX]
    {
        refused("not registered", ask(host, 0), NOT_REGISTERED, &[&format!("{host:#x}")]);
    }
    assert_eq!(out, 77, "refused calls write nothing");
    let null = std::ptr::null_mut();
    refused("NULL", aclrtHostGetDevicePointer(both.addr, null, 0), INVALID_PARAM, &["pDevice"]);
}

/// HOST is right for any host memory, UNREGISTERED for what acl did not allocate: registered memory is both.
#[test]
fn batch_attributes_of_registered_memory() {
    use_device();
    let (device, stream) = (Memory::device(PAGE), stream());
    let acl = Memory::pinned(PAGE);
    let memories = [("page-locked", registered(PAGE, PINNED)), ("mapped", registered(PAGE, MAPPED))];
    for (what, memory) in memories {
        for type_ in [0, 2] {
            let host = location(type_, 0);
            let to = aclrtMemcpyBatchAttr { srcLoc: host, ..HOST_TO_DEVICE };
            let from = aclrtMemcpyBatchAttr { dstLoc: host, ..DEVICE_TO_HOST };
            for form in BatchForm::ALL {
                let what = format!("{what}, location type {type_}, {form:?}");
                memory.write(&pattern(PAGE, type_ as u8));
                device.fill(POISON);
                let code = Batch::of(&[(device.addr, memory.addr, PAGE)], to).call(form, stream).0;
                expect(&what, code, 0);
                finish(stream);
                memory.fill(POISON);
                expect(&what, Batch::of(&[(memory.addr, device.addr, PAGE)], from).call(form, stream).0, 0);
                finish(stream);
                memory.assert_holds(&pattern(PAGE, type_ as u8), &what);
            }
        }
        let wrong = aclrtMemcpyBatchAttr { srcLoc: location(1, 0), ..HOST_TO_DEVICE };
        let (code, index) =
            Batch::of(&[(device.addr, memory.addr, PAGE)], wrong).call(BatchForm::Async, stream);
        refused(what, code, RT_PARAM_INVALID, &["item 0", "srcLoc"]);
        assert_eq!(index, Some(0));
    }
    let unregistered = aclrtMemcpyBatchAttr { srcLoc: location(2, 0), ..HOST_TO_DEVICE };
    let (code, index) =
        Batch::of(&[(device.addr, acl.addr, PAGE)], unregistered).call(BatchForm::Async, stream);
    refused("memory of acl as UNREGISTERED", code, RT_PARAM_INVALID, &["item 0", "srcLoc"]);
    assert_eq!(index, Some(0));
}

/// Registering, copying and unregistering from many threads, on memory of one's own and on the same.
#[test]
fn threads_register_and_copy() {
    use_device();
    let shared = mine(4 * PAGE);
    std::thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                use_device();
                let (own, device, stream) = (mine(4 * PAGE), Memory::device(4 * PAGE), stream());
                let (mut view, data) = (0, pattern(4 * PAGE, thread));
                for _ in 0..300 {
                    ok(aclrtHostRegisterV2(own.addr, own.len, PINNED | MAPPED));
                    own.write(&data);
                    ok(aclrtMemcpyAsync(device.addr, own.len, own.addr, own.len, H2D, stream));
                    ok(aclrtHostUnregister(own.addr));
                    finish(stream);
                    let code = aclrtHostRegister(shared.addr, PAGE, 0, &mut view);
                    assert!([0, ALREADY_REGISTERED, NOT_REGISTERED].contains(&code), "{code}");
                    let code = aclrtHostUnregister(shared.addr);
                    assert!([0, NOT_REGISTERED].contains(&code), "{code}");
                    let code = aclrtMemcpyAsync(device.addr, 64, shared.addr, 64, H2D, stream);
                    assert_eq!(code, 0, "{:?}", message());
                }
                finish(stream);
                device.part(64, 4 * PAGE - 64).assert_holds(&data[64..], "the last copy");
            });
        }
    });
}
