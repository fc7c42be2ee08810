//! Host memory that was registered: page-locked by aclrtHostRegisterV2 it is copied asynchronously, mapped it is not.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, H2H, INNER};
use ferry_tests::*;

const PAGE: usize = 4096;
const LEN: usize = 64 * PAGE;
const POISON: u8 = 0xa5;
const MAPPED: u32 = 0x2;
const PINNED: u32 = 0x1000_0000;

/// An asynchronous copy of `len` bytes from `src` to `dst`, whatever shape its function gives it.
type Form = (&'static str, fn(dst: usize, src: usize, len: usize, kind: i32, stream: usize) -> i32);

const FORMS: [Form; 5] = [
    ("aclrtMemcpyAsync", |d, s, n, kind, stream| aclrtMemcpyAsync(d, n, s, n, kind, stream)),
    ("aclrtMemcpyAsyncWithCondition", |d, s, n, kind, stream| {
        aclrtMemcpyAsyncWithCondition(d, n, s, n, kind, stream)
    }),
    ("aclrtMemcpy2dAsync", |d, s, n, kind, stream| aclrtMemcpy2dAsync(d, n, s, n, n, 1, kind, stream)),
    ("aclrtMemcpyBatchAsync", |d, s, n, kind, stream| batch(d, s, n, kind, BatchForm::Async, stream)),
    ("aclrtMemcpyBatchAsyncV2", |d, s, n, kind, stream| batch(d, s, n, kind, BatchForm::AsyncV2, stream)),
];

fn batch(dst: usize, src: usize, len: usize, kind: i32, form: BatchForm, stream: usize) -> i32 {
    let attr = if kind == H2D { HOST_TO_DEVICE } else { DEVICE_TO_HOST };
    Batch::of(&[(dst, src, len)], attr).call(form, stream).0
}

/// Memory of the program's, alone on its pages, that can be registered.
fn mine(len: usize) -> Memory {
    Memory::new(Home::Mapped, len)
}

/// Memory of the program's that is registered.
fn registered(len: usize, flag: u32) -> Memory {
    let memory = mine(len);
    ok(aclrtHostRegisterV2(memory.addr, len, flag));
    memory
}

/// Asserts the code, and that the message says all of `words`.
#[track_caller]
fn refused(what: &str, code: i32, want: i32, words: &[&str]) {
    let said = message().unwrap_or_default();
    assert_eq!(code, want, "{what}: {said}");
    for word in words {
        assert!(said.contains(word), "{what}: `{word}` is not in: {said}");
    }
}

/// Copies `len` bytes at `offset` of `host` in every way and both directions behind a gate, and tells whether the calls
/// waited, which must be the same for all; the bytes must be right whichever it is.
fn waits(what: &str, host: Memory, offset: usize, len: usize) -> bool {
    let mut answers = Vec::new();
    for (name, call) in FORMS {
        for kind in [H2D, D2H] {
            let what = format!("{what}: {name}, kind {kind}");
            let (part, device, data) =
                (host.part(offset, len), Memory::device(len), pattern(len, kind as u8));
            let (dst, src) = if kind == H2D { (device, part) } else { (part, device) };
            src.write(&data);
            dst.fill(POISON);
            let stream = stream();
            let gate = Gate::on(stream);
            match blocked::call(move || call(dst.addr, src.addr, len, kind, stream)) {
                blocked::Outcome::Returned(code) => {
                    assert_eq!(code, 0, "{what}");
                    dst.assert_all(POISON, &what);
                    gate.open();
                    answers.push(false);
                }
                blocked::Outcome::Blocked(pending) => {
                    dst.assert_all(POISON, &what);
                    gate.open();
                    assert_eq!(pending.join(), 0, "{what}");
                    dst.assert_holds(&data, &format!("{what}: when the call came back"));
                    answers.push(true);
                }
            }
            finish(stream);
            dst.assert_holds(&data, &what);
            ok(device.free());
            ok(aclrtDestroyStream(stream));
        }
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{what}: {answers:?}");
    answers[0]
}

// proves: N5 X3
#[test]
fn page_locked_by_registration_means_asynchronous() {
    use_device();
    for (flag, want) in [(PINNED, false), (PINNED | MAPPED, false), (MAPPED, true)] {
        let memory = registered(LEN, flag);
        assert_eq!(waits(&format!("flag {flag:#x}"), memory, 0, LEN), want, "flag {flag:#x}");
        assert_eq!(waits(&format!("flag {flag:#x}, a part"), memory, 77, LEN - 100), want, "flag {flag:#x}");
        ok(aclrtHostUnregister(memory.addr));
        assert!(waits("unregistered again", memory, 0, LEN), "after flag {flag:#x}");
    }
    let (memory, mut device) = (mine(LEN), 0);
    ok(aclrtHostRegister(memory.addr, LEN, 0, &mut device));
    assert!(waits("aclrtHostRegister", memory, 0, LEN), "aclrtHostRegister maps and does not page-lock");
    ok(aclrtHostUnregister(memory.addr));
}

// proves: X3
#[test]
fn memory_of_the_functions_with_settings_is_page_locked() {
    use_device();
    let mut addr = 0;
    ok(aclrtMallocHostWithCfg(&mut addr, LEN as u64, std::ptr::null_mut()));
    let memory = Memory { addr, len: LEN, home: Home::Pinned };
    assert!(!waits("aclrtMallocHostWithCfg", memory, 0, LEN));
    ok(memory.free());
}

/// A range of which some is registered and some is not is pageable, and copied right.
#[test]
fn ranges_that_are_partly_registered_wait() {
    use_device();
    let memory = mine(LEN);
    let (first, len) = (memory.addr + 16 * PAGE, 16 * PAGE + 100);
    ok(aclrtHostRegisterV2(first, len, PINNED));
    let rows = [
        ("inside", 16 * PAGE, 16 * PAGE + 100, false),
        ("a byte inside", 32 * PAGE + 99, 1, false),
        ("from before", 16 * PAGE - 1, 2, true),
        ("to after, on the last page", 32 * PAGE + 99, 2, true),
        ("behind it, on the last page", 32 * PAGE + 100, 64, true),
        ("to after, pages on", 20 * PAGE, 30 * PAGE, true),
        ("from before to after", 0, LEN, true),
        ("beside", 0, 16 * PAGE, true),
    ];
    for (what, offset, len, want) in rows {
        assert_eq!(waits(what, memory, offset, len), want, "{what}");
    }
    // Two that touch are still two: only what lies in one of them is page-locked as a whole.
    ok(aclrtHostRegisterV2(memory.addr, 16 * PAGE, PINNED));
    assert!(waits("over two registrations", memory, 15 * PAGE, 2 * PAGE));
    for base in [memory.addr, first] {
        ok(aclrtHostUnregister(base));
    }
}

#[test]
fn what_was_queued_is_done_though_the_memory_is_unregistered() {
    use_device();
    let (memory, device, stream) = (registered(LEN, PINNED), Memory::device(LEN), stream());
    let back = registered(LEN, PINNED);
    memory.write(&pattern(LEN, 9));
    let gate = Gate::on(stream);
    ok(aclrtMemcpyAsync(device.addr, LEN, memory.addr, LEN, H2D, stream));
    ok(aclrtMemcpyAsync(back.addr, LEN, device.addr, LEN, D2H, stream));
    let (one, two) = (memory.addr, back.addr);
    let call = blocked::call(move || (aclrtHostUnregister(one), aclrtHostUnregister(two)));
    assert_eq!(call.returned("aclrtHostUnregister with copies queued"), (0, 0));
    // Registered anew while the copies wait: what ends then is the old registration.
    ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
    gate.open();
    finish(stream);
    back.assert_holds(&pattern(LEN, 9), "there and back");
    assert!(!waits("registered anew", memory, 0, LEN));
    ok(aclrtHostUnregister(memory.addr));
    expect("unregistered twice", aclrtHostUnregister(memory.addr), NOT_REGISTERED);
}

/// Bytes of this process that are locked in memory.
fn locked_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).expect("a line for locked memory");
    line.split_whitespace().next().expect("a number").parse().expect("a number")
}

/// Cases that count for the whole process.
const ALONE: [Case; 2] =
    [("pages are locked", pages_are_locked), ("rounds leave nothing", rounds_leave_nothing)];
/// Cases that end it.
const DEADLY: [Case; 2] = [("read", touch), ("write", touch)];

#[test]
fn each_case_in_a_process_of_its_own() {
    for (name, _) in ALONE {
        children::run(name, &[]);
    }
}

/// The child's part.
#[test]
#[ignore = "run by each_case_in_a_process_of_its_own and the_cpu_cannot_touch_a_device_address"]
fn one_case() {
    use_device();
    children::play(&[ALONE, DEADLY].concat());
}

/// Registered memory is locked in memory, where the limits of the process allow it, and unlocked again.
fn pages_are_locked() {
    let memory = mine(16 * PAGE);
    memory.fill(1);
    // SAFETY: locking changes no byte.
    let allowed = unsafe { libc::mlock(memory.addr as *const _, memory.len) == 0 };
    // SAFETY: as above.
    unsafe { libc::munlock(memory.addr as *const _, memory.len) };
    let before = locked_kib();
    if !allowed {
        return;
    }
    let stream = stream();
    for round in 0..3 {
        ok(aclrtHostRegisterV2(memory.addr, memory.len, PINNED));
        assert_eq!(locked_kib(), before + 64, "round {round}");
        // Registered anew while a copy holds the old registration: the new one stays locked when that ends.
        let (device, gate) = (Memory::device(64), Gate::on(stream));
        ok(aclrtMemcpyAsync(device.addr, 64, memory.addr, 64, H2D, stream));
        ok(aclrtHostUnregister(memory.addr));
        ok(aclrtHostRegisterV2(memory.addr, memory.len, PINNED));
        gate.open();
        finish(stream);
        ok(device.free()); // gives back what can be given back
        assert_eq!(locked_kib(), before + 64, "registered anew, round {round}");
        ok(aclrtHostUnregister(memory.addr));
        ok(Memory::device(64).free());
        assert_eq!(locked_kib(), before, "round {round}");
    }
}

fn rounds_leave_nothing() {
    let memory = mine(4 * PAGE);
    let lines = || std::fs::read_to_string("/proc/self/maps").expect("Linux tells").lines().count();
    let round = |_| {
        ok(aclrtHostRegisterV2(memory.addr, 4 * PAGE, PINNED | MAPPED));
        ok(aclrtHostUnregister(memory.addr));
        let mut device = 0;
        ok(aclrtHostRegister(memory.addr, 4 * PAGE, 0, &mut device));
        ok(aclrtHostUnregister(memory.addr));
    };
    (0..100).for_each(round);
    let before = lines();
    (0..5000).for_each(round);
    assert!(lines() <= before + 4, "{before} mappings became {}", lines());
}

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

fn location_of(addr: usize) -> i32 {
    let mut attributes = aclrtPtrAttributes::default();
    ok(aclrtPointerGetAttributes(addr, &mut attributes));
    attributes.location.type_
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
    let (both, only_pinned, mut device) =
        (registered(4 * PAGE, PINNED | MAPPED), registered(PAGE, PINNED), 0);
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

/// Documented: the address that devices have of registered memory must not be used in copies.
// proves: X5
#[test]
fn copies_refuse_device_addresses_of_registered_memory() {
    use_device();
    let (memory, pinned, device, stream) =
        (registered(2 * PAGE, MAPPED | PINNED), Memory::pinned(2 * PAGE), Memory::device(2 * PAGE), stream());
    let others = [(memory, Memory::pinned(PAGE)), (mine(2 * PAGE), Memory::pinned(PAGE))];
    let mut views = Vec::new();
    for (index, (memory, _)) in others.into_iter().enumerate() {
        let mut view = 0;
        match index {
            0 => ok(aclrtHostGetDevicePointer(memory.addr, &mut view, 0)),
            _ => ok(aclrtHostRegister(memory.addr, 2 * PAGE, 0, &mut view)),
        }
        memory.fill(POISON);
        views.push((memory, view));
    }
    let (p, d) = (pinned.addr, device.addr);
    pinned.fill(1);
    device.fill(2);
    let cell = Memory::holding(Home::Pinned, &d.to_ne_bytes());
    let mut size = 0;
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let desc = Memory::device(size);
    for (memory, view) in views {
        for (v, len) in [(view, 64), (view + PAGE, PAGE), (view + 2 * PAGE - 1, 1)] {
            let one = |dst, src, attr, form| Batch::of(&[(dst, src, len)], attr).call(form, stream).0;
            let codes = vec![
                ("aclrtMemcpy in", aclrtMemcpy(v, len, p, len, H2D)),
                ("aclrtMemcpy out", aclrtMemcpy(p, len, v, len, D2H)),
                ("aclrtMemcpy host to host", aclrtMemcpy(p, len, v, len, H2H)),
                ("aclrtMemcpyAsync in", aclrtMemcpyAsync(v, len, p, len, H2D, stream)),
                ("aclrtMemcpyAsync out", aclrtMemcpyAsync(p, len, v, len, D2H, stream)),
                ("aclrtMemcpyAsync inside", aclrtMemcpyAsync(v, len, d, len, D2D, stream)),
                ("aclrtMemcpyAsync from it", aclrtMemcpyAsync(d, len, v, len, D2D, stream)),
                ("aclrtMemcpyAsync as host", aclrtMemcpyAsync(d, len, v, len, H2D, stream)),
                ("aclrtMemcpyAsync DEFAULT", aclrtMemcpyAsync(d, len, v, len, DEFAULT, stream)),
                ("aclrtMemcpyAsync BUFFERED", aclrtMemcpyAsync(d, len, v, len, BUFFERED, stream)),
                ("WithCondition in", aclrtMemcpyAsyncWithCondition(v, len, p, len, H2D, stream)),
                ("WithCondition out", aclrtMemcpyAsyncWithCondition(p, len, v, len, D2H, stream)),
                ("aclrtMemcpy2d in", aclrtMemcpy2d(v, len, p, len, len, 1, H2D)),
                ("aclrtMemcpy2d out", aclrtMemcpy2d(p, len, v, len, len, 1, D2H)),
                ("aclrtMemcpy2dAsync in", aclrtMemcpy2dAsync(v, len, p, len, len, 1, H2D, stream)),
                ("aclrtMemcpy2dAsync inside", aclrtMemcpy2dAsync(v, len, d, len, len, 1, D2D, stream)),
                ("Batch in", one(v, p, HOST_TO_DEVICE, BatchForm::Sync)),
                ("BatchV2 out", one(p, v, DEVICE_TO_HOST, BatchForm::SyncV2)),
                ("BatchAsync in", one(v, p, HOST_TO_DEVICE, BatchForm::Async)),
                ("BatchAsyncV2 as host", one(d, v, HOST_TO_DEVICE, BatchForm::AsyncV2)),
                ("aclrtMemset", aclrtMemset(v, len, 7, len)),
                ("aclrtMemsetAsync", aclrtMemsetAsync(v, len, 7, len, stream)),
                ("aclrtMemsetD32", aclrtMemsetD32(v, len, 7, 0)),
                ("aclrtSetMemcpyDesc to", aclrtSetMemcpyDesc(desc.addr, INNER, d, v, len, 0)),
                ("aclrtSetMemcpyDesc from", aclrtSetMemcpyDesc(desc.addr, INNER, v, d, len, 0)),
                ("a descriptor there", aclrtMemcpyAsyncWithDesc(v, INNER, stream)),
                ("a cell there", aclrtMemcpyAsyncWithOffset(v, len, 0, cell.addr, len, 0, INNER, stream)),
            ];
            // At most 16 messages are kept; what is asked for is that these say so.
            let said = message().unwrap_or_default();
            for (name, code) in codes {
                assert_eq!(code, RT_PARAM_INVALID, "{name}, {len} bytes");
            }
            let host = format!("{:#x}", memory.addr);
            for line in said.lines() {
                let says = line.contains("registered host memory") && line.contains(&host);
                assert!(says, "the message does not name the host address: {line}");
            }
            let indirect = Memory::holding(Home::Pinned, &v.to_ne_bytes());
            ok(aclrtMemcpyAsyncWithOffset(indirect.addr, len, 0, cell.addr, len, 0, INNER, stream));
            refused(
                "behind a cell",
                aclrtSynchronizeStream(stream),
                RT_PARAM_INVALID,
                &["registered host memory"],
            );
        }
        memory.assert_all(POISON, "registered memory");
    }
    finish(stream);
    pinned.assert_all(1, "page-locked memory");
    device.assert_all(2, "device memory");
}

/// Touches the device address of registered memory with the CPU.
fn touch() {
    let (memory, mut device) = (mine(PAGE), 0);
    memory.fill(1);
    ok(aclrtHostRegister(memory.addr, PAGE, 0, &mut device));
    println!("about to touch");
    let pointer = device as *mut u8;
    // SAFETY: none: this ends the process, which is what is looked for.
    unsafe {
        match std::env::var("FERRY_TEST_CASE").as_deref() {
            Ok("read") => println!("{}", pointer.read_volatile()),
            _ => pointer.write_volatile(2),
        }
    }
    println!("came through");
}

// proves: X5
#[test]
fn the_cpu_cannot_touch_a_device_address() {
    for (name, _) in DEADLY {
        let mut child = Command::new(std::env::current_exe().expect("Linux knows which program runs"));
        child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", name);
        let done = child.output().expect("this program can be started");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(said.contains("about to touch") && !said.contains("came through"), "{name}: {said}");
        let signal = done.status.signal();
        assert!(matches!(signal, Some(libc::SIGSEGV | libc::SIGBUS)), "{name}: {signal:?}");
    }
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
    let shared = mine(LEN);
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
