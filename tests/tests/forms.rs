//! Boards and control CPUs, where host and device memory are one. Each case is a child process, with
//! FERRY_SOC and FERRY_FORM.

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::kind::{BUFFERED, D2D, D2H, DEFAULT, H2D, H2H, INNER, INTER};
use ferry_tests::*;

const PAGE: usize = 4096;
const LEN: usize = 5 * PAGE + 77;
const POISON: u8 = 0xa5;

/// What holds on both.
const UNIFIED: [Case; 7] = [
    ("a forked child", forked_child),
    ("the run mode", run_mode),
    ("the CPU touches device memory", cpu_touches_device_memory),
    ("any kind between any memory", any_kind_between_any_memory),
    ("the kinds for one device and for two", one_device_and_two),
    ("2-D copies and peers", what_does_not_exist),
    ("bad addresses", bad_addresses),
];
const BOARD: [Case; 2] = [("descriptors", descriptors), ("no virtual memory", no_virtual_memory)];
const CONTROL_CPU: [Case; 3] = [
    ("virtual memory", virtual_memory),
    ("memory is hidden where nothing more can be mapped", hidden_without_a_mapping),
    ("no descriptors", no_descriptors),
];
const CARD: [Case; 2] =
    [("host and device memory are apart", apart), ("no GPU is a board", refused_with_a_gpu)];

fn run(soc: &str, form: &str, cases: &[Case]) {
    let mut settings = vec![("FERRY_SOC", Some(soc)), ("FERRY_FORM", Some(form))];
    if form != "ep" {
        settings.push(("FERRY_BACKEND", Some("host"))); // no GPU is a board
    }
    for (name, _) in cases {
        children::run(name, &settings);
    }
}

// proves: R32 N7
#[test]
fn on_a_board() {
    run("Ascend310B1", "rc", &UNIFIED);
    run("Ascend310B1", "rc", &BOARD);
}

// proves: N8
#[test]
fn on_a_control_cpu() {
    run("Ascend310P3", "ctrlcpu", &UNIFIED);
    run("Ascend310P3", "ctrlcpu", &CONTROL_CPU);
}

// proves: R30 R31 R33 N6
#[test]
fn on_a_card() {
    for soc in
        ["Ascend910B1", "Ascend910_9391", "Ascend310B1", "Ascend310P3", "Ascend910A", "Ascend950PR_9599"]
    {
        run(soc, "ep", &CARD[..1]);
    }
}

#[test]
fn a_gpu_is_no_board() {
    let settings = [("FERRY_SOC", "Ascend310B1"), ("FERRY_FORM", "rc"), ("FERRY_BACKEND", "cuda")];
    children::run(CARD[1].0, &settings.map(|(name, value)| (name, Some(value))));
}

/// The child's part.
#[test]
#[ignore = "run by the others"]
fn one_case() {
    children::play(&[&UNIFIED[..], &BOARD, &CONTROL_CPU, &CARD].concat());
}

fn refused_with_a_gpu() {
    let code = aclrtSetDevice(0);
    let said = message().unwrap_or_default();
    assert_eq!(code, FEATURE_NOT_SUPPORT, "{said}");
    assert!(said.contains("FERRY_BACKEND=host"), "what to do is told: {said}");
    assert_ne!(aclrtSetDevice(0), 0, "again");
}

fn run_mode() {
    use_device();
    let mut mode = -1;
    ok(aclrtGetRunMode(&mut mode));
    assert_eq!(mode, 0, "ACL_DEVICE");
}

/// The bytes of any memory, through a pointer.
fn bytes(memory: Memory) -> &'static mut [u8] {
    // SAFETY: the memory lives until the process ends, and a case uses it from one thread.
    unsafe { std::slice::from_raw_parts_mut(memory.addr as *mut u8, memory.len) }
}

/// Whether the CPU can read at an address, asked of the kernel.
fn can_read(addr: usize) -> bool {
    let mut ends = [0; 2];
    // SAFETY: the pipe's ends go where there is room for them; an address that cannot be read is refused.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        let wrote = libc::write(ends[1], addr as *const _, 1);
        assert_eq!(libc::close(ends[0]) | libc::close(ends[1]), 0);
        wrote == 1
    }
}

fn cpu_touches_device_memory() {
    use_device();
    for len in [1, 64, PAGE, 3 << 20] {
        for policy in [0, 1, 2] {
            let (mut addr, data) = (0, pattern(len, 7));
            ok(aclrtMalloc(&mut addr, len, policy));
            let memory = Memory { addr, len, home: Home::Device };
            bytes(memory).copy_from_slice(&data);
            memory.assert_holds(&data, "written by the CPU, read by a copy");
            memory.fill(0x31);
            assert!(bytes(memory).iter().all(|byte| *byte == 0x31), "written by a copy, read by the CPU");
            ok(aclrtMemset(addr, len, 0x62, len));
            assert!(bytes(memory).iter().all(|byte| *byte == 0x62), "filled, read by the CPU");
            ok(memory.free());
        }
    }
    // Two allocations are two.
    let (one, two) = (Memory::device(PAGE), Memory::device(PAGE));
    bytes(one).fill(1);
    bytes(two).fill(2);
    one.assert_all(1, "the first");
    two.assert_all(2, "the second");
    let mut attributes = aclrtPtrAttributes::default();
    ok(aclrtPointerGetAttributes(one.addr, &mut attributes));
    assert_eq!(attributes.location, location(1, 0));
}

/// Unmapped memory is out of the CPU's reach, also where the system refuses every new mapping: it may be
/// another block's soon.
fn hidden_without_a_mapping() {
    use_device();
    let (base, handle) = (reserve(PAGE), physical(PAGE));
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    assert!(can_read(base));
    let mut all = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the first call writes the limit, the second reads one.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_AS, &mut all), 0);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &libc::rlimit { rlim_cur: PAGE as u64, ..all }), 0);
    }
    let code = aclrtUnmapMem(base);
    // SAFETY: the limit of before.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &all) }, 0);
    expect("unmapping", code, 0);
    assert!(!can_read(base), "it can still be read");
    ok(aclrtMapMem(base, PAGE, 0, handle, 0));
    assert!(can_read(base), "mapped once more");
}

/// Whether a forked child could read at an address.
fn child_can_read(addr: usize) -> bool {
    // SAFETY: the child makes system calls only, and ends.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(can_read(addr).into()),
            child => {
                let mut status = -1;
                assert_eq!(libc::waitpid(child, &mut status, 0), child);
                assert!(libc::WIFEXITED(status));
                libc::WEXITSTATUS(status) == 1
            }
        }
    }
}

/// A forked child has the program's memory and none of the device's, which is the parent's.
fn forked_child() {
    use_device();
    let (device, heap) = (Memory::device(PAGE), Memory::heap(PAGE));
    assert!(can_read(device.addr) && !child_can_read(device.addr));
    assert!(can_read(heap.addr) && child_can_read(heap.addr));
    let mut base = 0;
    if aclrtReserveMemAddress(&mut base, PAGE, 0, 0, 0) == 0 {
        ok(aclrtMapMem(base, PAGE, 0, physical(PAGE), 0));
        assert!(can_read(base) && !child_can_read(base), "mapped memory");
    }
}

type Call = fn(dst: usize, max: usize, src: usize, len: usize, kind: i32, stream: usize) -> i32;

const ASYNC: [(&str, Call); 2] = [
    ("aclrtMemcpyAsync", aclrtMemcpyAsync),
    ("aclrtMemcpyAsyncWithCondition", aclrtMemcpyAsyncWithCondition),
];

fn any_kind_between_any_memory() {
    use_device();
    let homes = [Home::Device, Home::Pinned, Home::Heap];
    for (to, from) in homes.into_iter().flat_map(|to| homes.map(|from| (to, from))) {
        let (dst, src) = (Memory::new(to, LEN), Memory::new(from, LEN));
        for kind in [H2H, H2D, D2H, D2D, DEFAULT, BUFFERED, INNER] {
            let data = pattern(LEN, kind as u8 + 1);
            bytes(src).copy_from_slice(&data);
            bytes(dst).fill(POISON);
            let what = format!("aclrtMemcpy, kind {kind}, {from:?} to {to:?}");
            expect(&what, aclrtMemcpy(dst.addr, LEN, src.addr, LEN, kind), 0);
            assert!(bytes(dst) == data, "{what}");
            for (name, call) in ASYNC {
                let what = format!("{name}, kind {kind}, {from:?} to {to:?}");
                bytes(src).copy_from_slice(&data);
                bytes(dst).fill(POISON);
                // Kind 5 has taken its data when it comes back, whatever memory that was in.
                let taken = kind == BUFFERED;
                let waits = to == Home::Heap || (from == Home::Heap && !taken);
                copies(&what, call, dst, src, kind, waits, taken);
                assert!(bytes(dst) == data, "{what}");
            }
        }
    }
}

/// Copies behind a gate and asserts that the call waits, or comes back before the copy has run.
fn copies(what: &str, call: Call, dst: Memory, src: Memory, kind: i32, waits: bool, taken: bool) {
    let stream = stream();
    let gate = block(stream);
    let outcome = blocked::call(move || call(dst.addr, LEN, src.addr, LEN, kind, stream));
    if waits {
        let pending = outcome.blocked(what);
        gate.unblock();
        assert_eq!(pending.join(), 0, "{what}");
    } else {
        assert_eq!(outcome.returned(what), 0, "{what}: {:?}", message());
        assert!(bytes(dst).iter().all(|byte| *byte == POISON), "{what}: too early");
        if taken {
            bytes(src).fill(0);
        }
        gate.unblock();
    }
    finish(stream);
    ok(aclrtDestroyStream(stream));
}

/// Kind 6 is for one device and kind 7 for two; peers do not exist in these forms, so nothing goes from one
/// to another.
fn one_device_and_two() {
    use_device();
    let (here, host, heap, stream) = (Memory::device(64), Memory::pinned(64), Memory::heap(64), stream());
    ok(aclrtSetDevice(1));
    let there = Memory::device(64);
    use_device();
    [here, host, heap, there].into_iter().for_each(|memory| bytes(memory).fill(POISON));
    let rows = [
        (INTER, here, here),
        (INTER, here, host),
        (INTER, host, here),
        (INTER, host, heap),
        (INTER, here, there),
        (INNER, here, there),
        (INNER, there, here),
        (D2D, here, there),
        (DEFAULT, there, here),
    ];
    for (kind, dst, src) in rows {
        for (name, call) in ASYNC {
            let what = format!("{name}, kind {kind}, {src:?} to {dst:?}");
            expect(&what, call(dst.addr, 64, src.addr, 64, kind, stream), RT_PARAM_INVALID);
        }
    }
    for kind in [8, -1, i32::MAX] {
        expect("no kind", aclrtMemcpyAsync(here.addr, 64, host.addr, 64, kind, stream), INVALID_PARAM);
    }
    finish(stream);
    for memory in [here, host, heap, there] {
        assert!(bytes(memory).iter().all(|byte| *byte == POISON), "{memory:?}");
    }
    // Host memory goes to any device.
    bytes(host).fill(1);
    ok(aclrtMemcpyAsync(there.addr, 64, host.addr, 64, H2D, stream));
    finish(stream);
    assert!(bytes(there).iter().all(|byte| *byte == 1));
}

fn what_does_not_exist() {
    use_device();
    let (device, host, stream) = (Memory::device(64), Memory::pinned(64), stream());
    bytes(device).fill(POISON);
    bytes(host).fill(1);
    let (d, h, mut can) = (device.addr, host.addr, 0);
    for kind in [H2H, H2D, D2H, D2D, DEFAULT] {
        expect("aclrtMemcpy2d", aclrtMemcpy2d(d, 8, h, 8, 8, 8, kind), FEATURE_NOT_SUPPORT);
        expect("aclrtMemcpy2dAsync", aclrtMemcpy2dAsync(d, 8, h, 8, 8, 8, kind, stream), FEATURE_NOT_SUPPORT);
    }
    expect("peer access", aclrtDeviceEnablePeerAccess(1, 0), FEATURE_NOT_SUPPORT);
    expect("peer access", aclrtDeviceCanAccessPeer(&mut can, 0, 1), FEATURE_NOT_SUPPORT);
    expect("registration", aclrtHostRegisterV2(h, 64, 2), FEATURE_NOT_SUPPORT);
    finish(stream);
    assert!(bytes(device).iter().all(|byte| *byte == POISON));
}

fn bad_addresses() {
    use_device();
    let (wild, stream, device) = (Wild::new(), stream(), Memory::device(LEN));
    let (host, heap) = (Memory::pinned(LEN), Memory::heap(LEN));
    bytes(device).fill(POISON);
    let end = device.addr + LEN.next_multiple_of(32) + 32;
    for (what, addr) in [
        ("freed device memory", wild.freed_device),
        ("freed page-locked memory", wild.freed_pinned),
        ("nothing", wild.unmapped),
        ("past the end", end - 63),
        ("behind", end),
        ("garbage", 0xdead_beef_dead_beef),
    ] {
        for other in [device, host, heap] {
            for kind in [H2H, H2D, D2H, D2D, DEFAULT, BUFFERED] {
                let code = aclrtMemcpyAsync(addr, 64, other.addr, 64, kind, stream);
                expect(&format!("to {what}, kind {kind}"), code, RT_PARAM_INVALID);
                let code = aclrtMemcpyAsync(other.addr, 64, addr, 64, kind, stream);
                expect(&format!("from {what}, kind {kind}"), code, RT_PARAM_INVALID);
            }
            expect(what, aclrtMemcpy(addr, 64, other.addr, 64, H2H), RT_PARAM_INVALID);
        }
    }
    expect("read-only", aclrtMemcpyAsync(wild.read_only, 64, device.addr, 64, D2H, stream), RT_PARAM_INVALID);
    ok(aclrtMemcpyAsync(device.addr, 64, wild.read_only, 64, H2H, stream));
    finish(stream);
    assert!(bytes(device)[..64].iter().all(|byte| *byte == 0x3c), "read-only memory can be read");
    assert!(bytes(device)[64..].iter().all(|byte| *byte == POISON), "and nothing else changed");
}

/// Descriptor copies between any memory of acl, and descriptors in any memory of acl.
fn descriptors() {
    use_device();
    let (mut size, stream, data) = (0, stream(), pattern(LEN, 3));
    ok(aclrtGetMemcpyDescSize(INNER, &mut size));
    let homes = [Home::Device, Home::Pinned];
    for (to, from, of) in homes
        .into_iter()
        .flat_map(|to| homes.map(|from| (to, from)))
        .flat_map(|(to, from)| homes.map(|of| (to, from, of)))
    {
        let what = format!("{from:?} to {to:?}, descriptor in {of:?}");
        let (dst, src, desc) = (Memory::new(to, LEN), Memory::holding(from, &data), Memory::new(of, size));
        bytes(dst).fill(POISON);
        expect(&what, aclrtSetMemcpyDesc(desc.addr, INNER, src.addr, dst.addr, LEN, 0), 0);
        let gate = block(stream);
        expect(&what, aclrtMemcpyAsyncWithDesc(desc.addr, INNER, stream), 0);
        assert!(bytes(dst).iter().all(|byte| *byte == POISON), "{what}: too early");
        gate.unblock();
        finish(stream);
        assert!(bytes(dst) == data, "{what}");
    }
    let (heap, device, desc) = (Memory::heap(LEN), Memory::device(LEN), Memory::device(size));
    for (what, desc, src, dst) in [
        ("pageable source", desc, heap, device),
        ("pageable destination", desc, device, heap),
        ("pageable descriptor", heap, device, device),
    ] {
        let code = aclrtSetMemcpyDesc(desc.addr, INNER, src.addr, dst.addr, LEN, 0);
        expect(what, code, RT_PARAM_INVALID);
    }
    expect("pageable descriptor", aclrtMemcpyAsyncWithDesc(heap.addr, INNER, stream), RT_PARAM_INVALID);
    for kind in [H2H, H2D, D2H, D2D, DEFAULT, BUFFERED, INTER] {
        expect("kind", aclrtMemcpyAsyncWithDesc(desc.addr, kind, stream), INVALID_PARAM);
    }
}

fn no_descriptors() {
    use_device();
    let mut size = 0;
    expect("aclrtGetMemcpyDescSize", aclrtGetMemcpyDescSize(INNER, &mut size), FEATURE_NOT_SUPPORT);
}

fn no_virtual_memory() {
    use_device();
    let mut out = 77;
    let rows = [
        ("aclrtReserveMemAddress", aclrtReserveMemAddress(&mut out, PAGE, 0, 0, 0)),
        ("aclrtMallocPhysical", aclrtMallocPhysical(&mut out, PAGE, &properties(NORMAL_PAGES, 0), 0)),
        ("aclrtMapMem", aclrtMapMem(1, 1, 0, 1, 0)),
        ("aclrtUnmapMem", aclrtUnmapMem(1)),
    ];
    for (name, code) in rows {
        assert_eq!(code, FEATURE_NOT_SUPPORT, "{name}");
    }
    assert_eq!(out, 77);
}

/// Mapped memory is the CPU's as well: at the address where it is mapped, over borders, and at two addresses.
fn virtual_memory() {
    use_device();
    let range = Mapped::scattered(&[PAGE, 3 * PAGE, 2 * PAGE]);
    let (all, stream, data) = (range.all, stream(), pattern(6 * PAGE, 4));
    bytes(all).copy_from_slice(&data);
    all.assert_holds(&data, "written by the CPU, read by a copy over borders");
    let host = Memory::pinned(6 * PAGE);
    for kind in [H2H, H2D, D2H, D2D, DEFAULT] {
        host.fill(kind as u8);
        ok(aclrtMemcpyAsync(all.addr + 5, 5 * PAGE, host.addr, 5 * PAGE, kind, stream));
        finish(stream);
        assert!(bytes(all)[5..][..5 * PAGE].iter().all(|byte| *byte == kind as u8), "kind {kind}");
        assert!(bytes(all)[..5] == data[..5] && bytes(all)[5 * PAGE + 5..] == data[5 * PAGE + 5..]);
    }
    // At another address as well.
    let second = reserve(4 * PAGE);
    assert!(!can_read(second), "nothing is mapped there");
    ok(aclrtMapMem(second, 3 * PAGE, 0, range.handles[1], 0));
    assert!(can_read(second) && !can_read(second + 3 * PAGE));
    bytes(Memory { addr: second, len: 3 * PAGE, home: Home::Device }).fill(0x6b);
    assert!(bytes(all)[PAGE..4 * PAGE].iter().all(|byte| *byte == 0x6b), "one memory, two addresses");
    // Unmapped: a hole for the CPU and for copies; what lies beside it stays.
    ok(aclrtUnmapMem(all.addr + PAGE));
    assert!(can_read(all.addr) && !can_read(all.addr + PAGE) && can_read(all.addr + 4 * PAGE));
    expect("a hole", aclrtMemset(all.addr, 6 * PAGE, 0, 6 * PAGE), RT_PARAM_INVALID);
    assert!(can_read(second), "the other mapping stays");
    // Other memory in its place, with copies queued to the old one.
    ok(aclrtMapMem(all.addr + PAGE, 3 * PAGE, 0, physical(3 * PAGE), 0));
    bytes(all)[PAGE..4 * PAGE].fill(0x11);
    let gate = block(stream);
    ok(aclrtMemsetAsync(second, 3 * PAGE, 0x22, 3 * PAGE, stream));
    ok(aclrtUnmapMem(second));
    gate.unblock();
    finish(stream);
    assert!(bytes(all)[PAGE..4 * PAGE].iter().all(|byte| *byte == 0x11), "the new memory");
    ok(aclrtMapMem(second, 3 * PAGE, 0, range.handles[1], 0));
    let old = Memory { addr: second, len: 3 * PAGE, home: Home::Device };
    assert!(bytes(old).iter().all(|byte| *byte == 0x22), "the old memory");
    ok(aclrtUnmapMem(second));
    ok(aclrtReleaseMemAddress(second));
    for start in [0, PAGE, 4 * PAGE] {
        ok(aclrtUnmapMem(all.addr + start));
    }
    ok(aclrtReleaseMemAddress(all.addr));
    assert!(!can_read(all.addr));
}

/// In a host: no copies inside the host, the CPU cannot touch device memory, and the run mode says so.
fn apart() {
    use_device();
    let (device, to, from, heap) =
        (Memory::device(64), Memory::pinned(64), Memory::pinned(64), Memory::heap(64));
    assert!(!can_read(device.addr) && can_read(to.addr));
    to.fill(POISON);
    for (name, call) in ASYNC {
        for src in [from, heap] {
            expect(name, call(to.addr, 64, src.addr, 64, H2H, 0), FEATURE_NOT_SUPPORT);
            expect(name, call(to.addr, 64, src.addr, 64, DEFAULT, 0), FEATURE_NOT_SUPPORT);
            expect(name, call(device.addr, 64, src.addr, 64, D2D, 0), RT_PARAM_INVALID);
        }
    }
    finish(0);
    to.assert_all(POISON, "nothing was copied");
    let mut mode = -1;
    ok(aclrtGetRunMode(&mut mode));
    assert_eq!(mode, 1, "ACL_HOST");
}
