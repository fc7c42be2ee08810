//! What real cards do against the documents (`FERRY_QUIRKS`), and limits that people hit (`FERRY_LIMIT_...`).
//! Each case is a child process: without the quirk, with it, and with all quirks in a strict library, where
//! the quirk wins.

use ferry_tests::code::*;
use ferry_tests::kind::{D2D, D2H, H2D};
use ferry_tests::*;

const LEN: usize = 4096;
const MAPPED: u32 = 0x2;
const PINNED: u32 = 0x1000_0000;

const CASES: [children::Case; 13] = [
    ("F1", unsafe_calls_in_a_capture),
    ("F2", uploads_beside_a_capture),
    ("F3", synchronous_peer_copies),
    ("F4", white_lists),
    ("F6", batches),
    ("F7", foreign_pointers),
    ("F8", large_calls),
    ("F9", unaligned_registration),
    ("F12", no_more_streams),
    ("host bytes", host_bytes),
    ("physical host memory", physical_host_memory),
    ("alignment", alignment),
    ("bad setting", bad_setting),
];

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&CASES);
}

/// Runs the case of a quirk off, on, and on with everything else.
#[track_caller]
fn each_way(quirk: &str, also: &[(&str, Option<&str>)]) {
    for (quirks, strict, told) in
        [(None, None, "no"), (Some(quirk), None, "yes"), (Some("all"), Some("1"), "yes")]
    {
        let mut settings =
            vec![("FERRY_QUIRKS", quirks), ("FERRY_STRICT", strict), ("FERRY_TEST_QUIRK", Some(told))];
        settings.extend_from_slice(also);
        children::run(quirk, &settings);
    }
}

fn is_on() -> bool {
    std::env::var("FERRY_TEST_QUIRK").expect("the parent says so") == "yes"
}

/// A call that works, unless the quirk is on: then it fails with this code, and the message names the quirk.
#[track_caller]
fn quirky(what: &str, code: i32, with_quirk: i32, id: &str) {
    match is_on() {
        true => refused(what, code, with_quirk, &[&format!("{id} of FERRY_QUIRKS")]),
        false => expect(what, code, SUCCESS),
    }
}

// proves: F1
#[test]
fn a_call_refused_with_107030_leaves_the_capture_alive() {
    each_way("F1", &[]);
}

fn unsafe_calls_in_a_capture() {
    use_device();
    let (device, heap, stream, outside) = (Memory::device(LEN), Memory::heap(LEN), stream(), stream());
    let (mut status, mut model) = (-1, 0);
    ok(aclmdlRICaptureBegin(stream, 0));
    for _ in 0..200 {
        expect("synchronous", aclrtMemset(device.addr, LEN, 1, LEN), CAPTURE_MODE_NOT_SUPPORT);
    }
    ok(aclmdlRICaptureGetInfo(stream, &mut status, &mut model));
    assert_eq!(status, if is_on() { 1 } else { 2 }, "ACTIVE with the quirk, else INVALIDATED");
    let captured = aclrtMemsetAsync(device.addr, LEN, 2, LEN, stream);
    expect("captured", captured, if is_on() { SUCCESS } else { CAPTURE_INVALIDATED });
    let ended = aclmdlRICaptureEnd(stream, &mut model);
    expect("the end", ended, if is_on() { SUCCESS } else { CAPTURE_INVALIDATED });
    if is_on() {
        ok(aclmdlRIExecute(model, -1));
        device.assert_all(2, "the capture ended well");
    }
    // Only this code: what else is refused breaks the capture as ever.
    ok(aclmdlRICaptureBegin(stream, 0));
    let pageable = aclrtMemcpyAsync(device.addr, LEN, heap.addr, LEN, H2D, outside);
    expect("pageable", pageable, CAPTURE_BLOCK_ASYNC);
    expect("the end", aclmdlRICaptureEnd(stream, &mut model), CAPTURE_INVALIDATED);
}

// proves: F2
#[test]
fn an_upload_of_another_thread_breaks_a_thread_local_capture() {
    each_way("F2", &[]);
}

fn uploads_beside_a_capture() {
    const THREAD_LOCAL: i32 = 1;
    use_device();
    let (device, heap, stream) = (Memory::device(LEN), Memory::heap(LEN), stream());
    heap.fill(3);
    let capture = |mode: i32, call: fn(usize, usize) -> i32| {
        let mut model = 0;
        ok(aclmdlRICaptureBegin(stream, mode));
        let (device, heap) = (device.addr, heap.addr);
        in_new_thread(move || {
            use_device();
            ok(call(device, heap));
        });
        aclmdlRICaptureEnd(stream, &mut model)
    };
    let upload = |device: usize, heap: usize| aclrtMemcpy(device, LEN, heap, LEN, H2D);
    let broken = if is_on() { CAPTURE_INVALIDATED } else { SUCCESS };
    expect("an upload", capture(THREAD_LOCAL, upload), broken);
    device.assert_all(3, "the copy itself works");
    let download = |device: usize, heap: usize| aclrtMemcpy(heap, LEN, device, LEN, D2H);
    expect("a download", capture(THREAD_LOCAL, download), SUCCESS);
    expect("a fill", capture(THREAD_LOCAL, |device, _| aclrtMemset(device, LEN, 1, LEN)), SUCCESS);
    expect("a relaxed capture", capture(2, upload), SUCCESS);
}

// proves: F3
#[test]
fn synchronous_copies_between_devices_fail() {
    each_way("F3", &[]);
}

fn synchronous_peer_copies() {
    ok(aclrtSetDevice(1));
    let there = Memory::holding(Home::Device, &pattern(LEN, 1));
    use_device();
    let (here, stream) = (Memory::device(LEN), stream());
    here.fill(0);
    let no_access = aclrtMemcpy(here.addr, LEN, there.addr, LEN, D2D);
    refused("without access", no_access, RT_PARAM_INVALID, &["aclrtDeviceEnablePeerAccess"]);
    ok(aclrtDeviceEnablePeerAccess(1, 0));
    quirky("synchronous", aclrtMemcpy(here.addr, LEN, there.addr, LEN, D2D), DRV_INTERNAL_ERROR, "F3");
    here.assert_holds(&if is_on() { vec![0; LEN] } else { pattern(LEN, 1) }, "copied, or unchanged");
    here.fill(0);
    ok(aclrtMemcpyAsync(here.addr, LEN, there.addr, LEN, D2D, stream));
    finish(stream);
    here.assert_holds(&pattern(LEN, 1), "asynchronous copies work");
    let other = Memory::device(LEN);
    ok(aclrtMemcpy(other.addr, LEN, here.addr, LEN, D2D)); // inside one device
}

// proves: F4
#[test]
fn white_lists_of_memory_between_processes_fail() {
    each_way("F4", &[]);
}

fn white_lists() {
    use_device();
    let memory = Memory::holding(Home::Device, &pattern(LEN, 1));
    let (mut listed, mut open, mut pid, mut far) = ([0; 65], [0; 65], 0, 7);
    ok(aclrtIpcMemGetExportKey(memory.addr, LEN, listed.as_mut_ptr(), 65, 0));
    ok(aclrtIpcMemGetExportKey(memory.addr, LEN, open.as_mut_ptr(), 65, 1));
    ok(aclrtDeviceGetBareTgid(&mut pid));
    let unlisted = if is_on() { DRV_INTERNAL_ERROR } else { NO_PERMISSION };
    refused("not listed", aclrtIpcMemImportByKey(&mut far, listed.as_ptr(), 0), unlisted, &["white list"]);
    let allowed = aclrtIpcMemSetImportPid(listed.as_ptr(), &mut pid, 1);
    quirky("a white list", allowed, DRV_INTERNAL_ERROR, "F4");
    let imported = aclrtIpcMemImportByKey(&mut far, listed.as_ptr(), 0);
    quirky("with a white list", imported, DRV_INTERNAL_ERROR, "F4");
    ok(aclrtIpcMemImportByKey(&mut far, open.as_ptr(), 0));
    let copy = Memory::device(LEN);
    ok(aclrtMemcpy(copy.addr, LEN, far, LEN, D2D));
    copy.assert_holds(&pattern(LEN, 1), "exported without a white list");
    // A key that makes no sense is refused as ever.
    expect("no key", aclrtIpcMemSetImportPid(c"nonsense".as_ptr(), &mut pid, 1), RT_PARAM_INVALID);
}

// proves: F6
#[test]
fn batches_have_at_most_4096_items() {
    each_way("F6", &[]);
}

fn batches() {
    use_device();
    let (device, host, stream) = (Memory::device(8), Memory::pinned(4097), stream());
    for n in [4096, 4097] {
        let items: Vec<_> = (0..n).map(|i| (device.addr, host.addr + i, 1)).collect();
        for form in BatchForm::ALL {
            let (code, index) = Batch::of(&items, HOST_TO_DEVICE).call(form, stream);
            match n {
                4096 => expect("as many as there may be", code, SUCCESS),
                _ => quirky("one more", code, RT_PARAM_INVALID, "F6"),
            }
            if code != SUCCESS {
                assert_eq!(index, form.tells_index().then_some(usize::MAX));
            }
        }
    }
    finish(stream);
}

// proves: F7
#[test]
fn memory_that_acl_did_not_allocate_has_no_attributes() {
    each_way("F7", &[]);
}

fn foreign_pointers() {
    use_device();
    let (heap, mine, registered) =
        (Memory::heap(LEN), Memory::new(Home::Mapped, LEN), Memory::new(Home::Mapped, LEN));
    let mut view = 0;
    ok(aclrtHostRegister(registered.addr, LEN, 0, &mut view));
    let mut said = Default::default();
    for memory in [heap, mine, registered] {
        let asked = aclrtPointerGetAttributes(memory.addr, &mut said);
        quirky("memory of the program", asked, RT_PARAM_INVALID, "F7");
    }
    let pinned = Memory::new(Home::Mapped, LEN);
    ok(aclrtHostRegisterV2(pinned.addr, LEN, PINNED));
    for (memory, location) in [(pinned, 0), (Memory::pinned(LEN), 0), (Memory::device(LEN), 1)] {
        ok(aclrtPointerGetAttributes(memory.addr, &mut said));
        assert_eq!(said.location.type_, location);
    }
}

// proves: F8
#[test]
fn one_call_locks_a_limited_number_of_bytes() {
    each_way("F8", &[]);
}

fn large_calls() {
    use_device();
    let most = 128 << 20;
    let memory = Memory::new(Home::Mapped, most + LEN);
    let mut view = 0;
    ok(aclrtHostRegister(memory.addr, most, 0, &mut view));
    ok(aclrtHostUnregister(memory.addr));
    let one_more = aclrtHostRegister(memory.addr, most + LEN, 0, &mut view);
    quirky("registration", one_more, MEMORY_ALLOCATION, "F8");
    if is_on() {
        // Without the quirk it would be tried.
        let mut addr = 7;
        let code = aclrtMallocHost(&mut addr, (200 << 30) + 1);
        refused("allocation", code, MEMORY_ALLOCATION, &["F8 of FERRY_QUIRKS", "214748364801"]);
        assert_eq!(addr, 7, "a refused call writes nothing");
    }
}

// proves: F9
#[test]
fn unaligned_registration_has_the_code_of_the_driver() {
    each_way("F9", &[]);
}

fn unaligned_registration() {
    use_device();
    let memory = Memory::new(Home::Mapped, 4 * LEN);
    let code = if is_on() { DRV_INTERNAL_ERROR } else { ADDR_UNALIGNED };
    for offset in [1, 64, 2048] {
        let at = memory.addr + offset;
        for flags in [MAPPED, PINNED] {
            refused("V2", aclrtHostRegisterV2(at, LEN, flags), code, &["multiple of 4096"]);
        }
        refused("V1", aclrtHostRegister(at, LEN, 0, &mut 0), code, &["multiple of 4096"]);
    }
    ok(aclrtHostRegisterV2(memory.addr, LEN, PINNED));
}

// proves: F12
#[test]
fn a_shortage_of_streams_has_the_text_of_the_driver() {
    each_way("F12", &[("FERRY_LIMIT_STREAMS", Some("3"))]);
}

/// Also that the limit counts the default stream, and each device for itself.
fn no_more_streams() {
    use_device();
    let streams = [stream(), stream()];
    let mut none = 77;
    let (code, words): (i32, &[&str]) = match is_on() {
        true => (207008, &["alloc sq cq fail", "FERRY_LIMIT_STREAMS", "3 streams"]),
        false => (RESOURCE_ALLOC_FAIL, &["FERRY_LIMIT_STREAMS", "3 streams"]),
    };
    refused("one too many", aclrtCreateStream(&mut none), code, words);
    refused("one too many", aclrtCreateStreamWithConfig(&mut none, 0, 3), code, words);
    refused("a context's stream", aclrtCreateContext(&mut none, 0), code, words);
    assert_eq!(none, 77, "a refused call writes nothing");
    ok(aclrtSetDevice(1));
    stream();
    use_device();
    ok(aclrtDestroyStream(streams[0]));
    stream();
}

#[test]
fn page_locked_memory_is_limited() {
    children::run("host bytes", &[("FERRY_LIMIT_HOST_BYTES", Some("1M"))]);
    children::run("physical host memory", &[("FERRY_LIMIT_HOST_BYTES", Some("4M"))]);
}

#[track_caller]
fn too_much(what: &str, code: i32, used: usize, asked: usize) {
    let words = [&format!("{used} bytes"), &format!("{asked} more"), "FERRY_LIMIT_HOST_BYTES is 1048576"];
    refused(what, code, MEMORY_ALLOCATION, &words);
}

fn host_bytes() {
    use_device();
    let half = 512 * 1024;
    let (first, mine) = (Memory::pinned(half), Memory::new(Home::Mapped, 2 * half));
    let (mut addr, mut view) = (7, 7);
    too_much("the sum", aclrtMallocHost(&mut addr, half + 1), half, half + 1);
    too_much("overflow", aclrtMallocHost(&mut addr, usize::MAX), half, usize::MAX);
    too_much("registration", aclrtHostRegisterV2(mine.addr, half + LEN, PINNED), half, half + LEN);
    too_much("mapping", aclrtHostRegister(mine.addr, half + LEN, 0, &mut view), half, half + LEN);
    assert_eq!((addr, view), (7, 7), "refused calls write nothing");
    // What acl page-locked is not counted again when it is mapped.
    ok(aclrtHostRegister(first.addr, half, 0, &mut view));
    ok(aclrtHostRegisterV2(mine.addr, half, PINNED));
    too_much("nothing is left", aclrtMallocHost(&mut addr, 1), 2 * half, 1);
    ok(aclrtHostUnregister(mine.addr));
    ok(aclrtHostRegister(mine.addr, half, 0, &mut view));
    too_much("nor is it now", aclrtMallocHost(&mut addr, 1), 2 * half, 1);
    ok(aclrtHostUnregister(mine.addr));
    // A refused registration is not counted, and freed memory is not.
    let refused_anyway = aclrtHostRegisterV2(first.addr, half, PINNED);
    expect("page-locked already", refused_anyway, ALREADY_REGISTERED);
    ok(first.free());
    let all = Memory::pinned(2 * half);
    let device = Memory::device(2 * half);
    ok(aclrtMemcpy(device.addr, all.len, all.addr, all.len, H2D));
    ok(aclrtMemcpy(mine.addr, all.len, device.addr, all.len, D2H)); // pageable memory counts for nothing
    ok(all.free());
}

/// Physical memory of the host counts until it is freed and unmapped.
fn physical_host_memory() {
    use_device();
    let huge = 2 << 20;
    let on_host = aclrtPhysicalMemProp { location: location(0, 0), ..properties(13, 0) };
    let (mut handle, mut other) = (0, 7);
    ok(aclrtMallocPhysical(&mut handle, 2 * huge, &on_host, 0));
    let is_full = |other: &mut usize| {
        refused("more", aclrtMallocPhysical(other, huge, &on_host, 0), MEMORY_ALLOCATION, &["4194304"]);
        refused("more", aclrtMallocHost(other, 1), MEMORY_ALLOCATION, &["4194304"]);
    };
    is_full(&mut other);
    ok(aclrtMallocPhysical(&mut other, huge, &properties(13, 0), 0)); // a device's
    ok(aclrtFreePhysical(other));
    let base = reserve(2 * huge);
    ok(aclrtMapMem(base, 2 * huge, 0, handle, 0));
    ok(aclrtFreePhysical(handle));
    is_full(&mut other);
    // A handle that is made anew for what is mapped is the same memory.
    let mut again = 0;
    ok(aclrtMemRetainAllocationHandle(base, &mut again));
    ok(aclrtUnmapMem(base));
    is_full(&mut other);
    ok(aclrtFreePhysical(again));
    ok(Memory::pinned(2 * huge).free());
}

#[test]
fn registered_memory_is_aligned_as_told() {
    children::run("alignment", &[("FERRY_LIMIT_REGISTER_ALIGN", Some("64K"))]);
    let both = [("FERRY_LIMIT_REGISTER_ALIGN", Some("64K")), ("FERRY_QUIRKS", Some("F9"))];
    children::run("alignment", &both);
}

fn alignment() {
    use_device();
    let memory = Memory::new(Home::Mapped, 192 * 1024);
    let aligned = memory.addr.next_multiple_of(65536);
    let code = match std::env::var_os("FERRY_QUIRKS") {
        Some(_) => DRV_INTERNAL_ERROR,
        None => ADDR_UNALIGNED,
    };
    let words = ["multiple of 65536", "FERRY_LIMIT_REGISTER_ALIGN"];
    refused("V2", aclrtHostRegisterV2(aligned + LEN, LEN, PINNED), code, &words);
    refused("V1", aclrtHostRegister(aligned + LEN, LEN, 0, &mut 0), code, &words);
    ok(aclrtHostRegisterV2(aligned, LEN, PINNED)); // its length need not be
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (name, value, says) in [
        ("FERRY_QUIRKS", "F5", "F1, F2, F3, F4, F6, F7, F8, F9, F12"),
        ("FERRY_LIMIT_HOST_BYTES", "lots", "K, M, G or T"),
        ("FERRY_LIMIT_REGISTER_ALIGN", "100", "power of two"),
        ("FERRY_LIMIT_STREAMS", "0", "1 to"),
    ] {
        children::run("bad setting", &[(name, Some(value)), ("FERRY_TEST_SAYS", Some(says))]);
    }
}

fn bad_setting() {
    let says = std::env::var("FERRY_TEST_SAYS").expect("the parent says so");
    refused("aclInit", aclInit(std::ptr::null()), INVALID_PARAM, &[&says]);
    refused("aclrtSetDevice", aclrtSetDevice(0), INVALID_PARAM, &[&says]);
}
