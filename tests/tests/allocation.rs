//! The allocation functions with settings: what they refuse, and how many bytes may be used.

use ferry_tests::children::{self, Case};
use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

const HUGE: usize = 2 << 20;
const MODULE: i32 = 1;
const DEVICE: i32 = 2;
const VA_FLAG: i32 = 3;

/// A way to allocate device memory, with a policy.
type Malloc = (&'static str, fn(&mut usize, usize, i32) -> i32);

const MALLOCS: [Malloc; 5] = [
    ("aclrtMalloc", |out, size, policy| aclrtMalloc(out, size, policy)),
    ("aclrtMallocAlign32", |out, size, policy| aclrtMallocAlign32(out, size, policy)),
    ("aclrtMallocCached", |out, size, policy| aclrtMallocCached(out, size, policy)),
    ("aclrtMallocWithCfg", |out, size, policy| aclrtMallocWithCfg(out, size, policy, std::ptr::null_mut())),
    ("aclrtMallocForTaskScheduler", |out, size, policy| {
        aclrtMallocForTaskScheduler(out, size, policy, std::ptr::null_mut())
    }),
];

const CASES: [Case; 4] = [
    ("padding", padding),
    ("no padding", no_padding),
    ("nothing but cards of the first kind", older),
    ("counting", counting),
];

#[test]
fn each_case_in_a_process_of_its_own() {
    for (case, soc) in [
        (0, "Ascend910B1"),
        (0, "Ascend910_9391"),
        (0, "Ascend310B1"),
        (0, "Ascend310P3"),
        (0, "Ascend910A"),
        (1, "Ascend950PR_9599"),
        (2, "Ascend310P3"),
        (2, "Ascend310B1"),
        (2, "Ascend910A"),
        (3, "Ascend910B1"),
    ] {
        children::run(CASES[case].0, &[("FERRY_SOC", Some(soc)), ("FERRY_DEVICE_MEMORY", Some("64M"))]);
    }
}

/// The child's part.
#[test]
#[ignore = "run by each_case_in_a_process_of_its_own"]
fn one_case() {
    use_device();
    children::play(&CASES);
}

/// Asserts that exactly `usable` bytes may be used of what was allocated.
#[track_caller]
fn holds(what: &str, addr: usize, usable: usize) {
    assert_eq!(addr % 64, 0, "{what}: aligned");
    // The end is what matters; large blocks are filled by the engine.
    ok(aclrtMemset(addr, usable, 3, usable));
    let tail = usable.min(64);
    let (end, host) = (addr + usable - tail, Memory::holding(Home::Heap, &pattern(tail + 1, 1)));
    expect(what, aclrtMemcpy(end, tail, host.addr, tail, H2D), 0);
    Memory { addr: end, len: tail, home: Home::Device }.assert_holds(&pattern(tail, 1), what);
    let more = aclrtMemcpy(end, tail + 1, host.addr, tail + 1, H2D);
    refused(&format!("{what}, one byte more"), more, RT_PARAM_INVALID, &[&format!("of {usable} bytes")]);
    // A GPU's memory may end where plain memory of the process begins, and that can be filled.
    if !is_readable(addr + usable) {
        for count in [1, 0x7fff_ffff] {
            expect(what, aclrtMemset(addr + usable, count, 1, count), RT_PARAM_INVALID);
        }
    }
    ok(host.free());
}

/// Whether the CPU can read the byte.
fn is_readable(addr: usize) -> bool {
    let mut ends = [0; 2];
    // SAFETY: a pipe of our own, closed again; the kernel refuses to read what cannot be read.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0, "a pipe");
        let written = libc::write(ends[1], addr as *const libc::c_void, 1);
        ends.iter().for_each(|end| _ = libc::close(*end));
        written == 1
    }
}

fn bounds(pad: usize) {
    for size in [1, 31, 32, 33, 100, 4096, 5000, HUGE, HUGE + 1] {
        for policy in [0, 1, 2] {
            for (name, malloc) in MALLOCS {
                let (mut addr, what) = (0, format!("{name}, {size} bytes, policy {policy}"));
                expect(&what, malloc(&mut addr, size, policy), 0);
                let pad = if name == "aclrtMallocAlign32" { 0 } else { pad };
                holds(&what, addr, size.next_multiple_of(32) + pad);
                ok(aclrtFree(addr));
            }
        }
    }
}

fn padding() {
    bounds(32);
}

fn no_padding() {
    bounds(0);
}

/// Older products have no pages of 1 GiB.
fn older() {
    for (name, malloc) in MALLOCS {
        let mut addr = 77;
        refused(name, malloc(&mut addr, 64, 6), FEATURE_NOT_SUPPORT, &["1 GiB"]);
        assert_eq!(addr, 77);
    }
    let code = aclrtMallocHostWithCfg(&mut 0, 64, &mut one(VA_FLAG, 1));
    refused("vaFlag", code, FEATURE_NOT_SUPPORT, &["attrs[0]", "A2 and A3"]);
}

/// Whole pages are taken, and free memory goes down by them.
fn counting() {
    let free = || {
        let (mut free, mut total) = (0, 0);
        ok(aclrtGetMemInfo(1, &mut free, &mut total));
        free
    };
    let before = free();
    for (policy, size, taken) in [
        (2, 1, 4096),
        (0, 1, 4096),
        (0, (1 << 20) + 1, HUGE),
        (1, 1, HUGE),
        (1, HUGE, 2 * HUGE),
        (2, 4096, 8192),
    ] {
        for (name, malloc) in MALLOCS {
            let what = format!("{name}, {size} bytes, policy {policy}");
            // What fills its last page has no room for padding there.
            let taken = match name {
                "aclrtMallocAlign32" if size == HUGE => HUGE,
                "aclrtMallocAlign32" if size == 4096 => 4096,
                _ => taken,
            };
            let mut addr = 0;
            ok(malloc(&mut addr, size, policy));
            assert_eq!(before - free(), taken, "{what}");
            ok(aclrtFree(addr));
            assert_eq!(free(), before, "{what}");
        }
    }
    for (name, malloc) in MALLOCS {
        let mut addr = 77;
        for (size, policy) in
            [(65 << 20, 0), (65 << 20, 2), (1 << 46, 1), (usize::MAX, 0), (usize::MAX - 64, 2), (1, 6)]
        {
            refused(
                &format!("{name}, {size} bytes"),
                malloc(&mut addr, size, policy),
                MEMORY_ALLOCATION,
                &[],
            );
        }
        assert_eq!((addr, free()), (77, before), "nothing changed");
    }
    for size in [1 << 46, u64::MAX, u64::MAX - 100] {
        let code = aclrtMallocHostWithCfg(&mut 77, size, std::ptr::null_mut());
        refused("host memory", code, MEMORY_ALLOCATION, &[]);
    }
}

/// The calls that allocate device memory with settings; they have the same rules.
type WithSettings = (&'static str, fn(&mut usize, usize, i32, *mut aclrtMallocConfig) -> i32);

const WITH_SETTINGS: [WithSettings; 2] = [
    ("aclrtMallocWithCfg", |out, size, policy, cfg| aclrtMallocWithCfg(out, size, policy, cfg)),
    ("aclrtMallocForTaskScheduler", |out, size, policy, cfg| {
        aclrtMallocForTaskScheduler(out, size, policy, cfg)
    }),
];

/// One setting.
fn setting(attr: i32, value: u32) -> aclrtMallocAttribute {
    let mut all = aclrtMallocAttrValue { rsv: [0xee; 8] };
    match attr {
        MODULE => all.moduleId = value as u16,
        _ => all.deviceId = value,
    }
    aclrtMallocAttribute { attr, value: all }
}

/// A configuration of one setting, which lives on.
fn one(attr: i32, value: u32) -> aclrtMallocConfig {
    several(vec![setting(attr, value)])
}

fn several(settings: Vec<aclrtMallocAttribute>) -> aclrtMallocConfig {
    let settings = settings.leak();
    aclrtMallocConfig { attrs: settings.as_mut_ptr(), numAttrs: settings.len() }
}

#[test]
fn settings_that_are_taken() {
    use_device();
    let null = std::ptr::null_mut();
    let configs = [
        ("none", aclrtMallocConfig { attrs: null, numAttrs: 0 }),
        ("module", one(MODULE, 33)),
        ("any module", one(MODULE, 65535)),
        ("device", one(DEVICE, 0)),
        ("reserved", one(0, 5)),
        ("both", several(vec![setting(DEVICE, 0), setting(MODULE, 33)])),
    ];
    for (what, mut config) in configs {
        let mut addr = 0;
        for policy in [0, 0x100, 0x1000, 0x100000, 0x100100, 0x101002] {
            for (name, malloc) in WITH_SETTINGS {
                expect(&format!("{name}: {what}"), malloc(&mut addr, 100, policy, &mut config), 0);
                Memory { addr, len: 160, home: Home::Device }.fill(1);
                ok(aclrtFree(addr));
            }
        }
        expect(what, aclrtMallocHostWithCfg(&mut addr, 100, &mut config), 0);
        Memory { addr, len: 100, home: Home::Pinned }.fill(1);
        ok(aclrtFreeHost(addr));
    }
    for flag in [0, 1] {
        let mut addr = 0;
        ok(aclrtMallocHostWithCfg(&mut addr, 100, &mut one(VA_FLAG, flag)));
        ok(aclrtFreeHost(addr));
    }
    // Huge pages asked for together with a bandwidth are huge pages.
    for (name, malloc) in WITH_SETTINGS {
        let (mut addr, mut attributes) = (0, aclrtPtrAttributes::default());
        ok(malloc(&mut addr, 100, 0x1001, null.cast()));
        ok(aclrtPointerGetAttributes(addr, &mut attributes));
        assert_eq!(attributes.pageSize as usize, HUGE, "{name}");
        ok(aclrtFree(addr));
    }
    // On another current device, that one is meant.
    in_new_thread(|| {
        ok(aclrtSetDevice(1));
        for (name, malloc) in WITH_SETTINGS {
            let mut addr = 0;
            ok(malloc(&mut addr, 100, 0, &mut one(DEVICE, 1)));
            let mut attributes = aclrtPtrAttributes::default();
            ok(aclrtPointerGetAttributes(addr, &mut attributes));
            assert_eq!(attributes.location, location(1, 1), "{name}");
            refused(name, malloc(&mut addr, 100, 0, &mut one(DEVICE, 0)), RT_PARAM_INVALID, &[]);
        }
    });
}

#[test]
fn settings_that_are_refused() {
    use_device();
    let wild = Wild::new();
    let attrs = |addr: usize, count| aclrtMallocConfig { attrs: addr as _, numAttrs: count };
    let configs = [
        ("another device", one(DEVICE, 1), RT_PARAM_INVALID, "device 1"),
        ("no device", one(DEVICE, u32::MAX), RT_PARAM_INVALID, "attrs[0]"),
        ("the second", several(vec![setting(MODULE, 1), setting(DEVICE, 9)]), RT_PARAM_INVALID, "attrs[1]"),
        ("unknown", one(4, 0), RT_PARAM_INVALID, "attrs[0].attr is 4"),
        ("unknown", one(-1, 0), RT_PARAM_INVALID, "attrs[0].attr is -1"),
        ("NULL attrs", attrs(0, 1), INVALID_PARAM, "cfg->attrs"),
        ("unmapped attrs", attrs(wild.unmapped, 1), RT_PARAM_INVALID, "cfg->attrs"),
        ("attrs that run out", attrs(wild.last_bytes.addr, 6), RT_PARAM_INVALID, "cfg->attrs"),
        ("more than there are", attrs(wild.last_bytes.addr, usize::MAX), RT_PARAM_INVALID, "cfg->attrs"),
        ("attrs of a garbage count", attrs(wild.last_bytes.addr, 1 << 40), RT_PARAM_INVALID, "cfg->attrs"),
    ];
    for (what, mut config, want, word) in configs {
        let mut addr = 77;
        for (name, malloc) in WITH_SETTINGS {
            refused(what, malloc(&mut addr, 100, 0, &mut config), want, &[name, word]);
        }
        refused(what, aclrtMallocHostWithCfg(&mut addr, 100, &mut config), want, &[word]);
        assert_eq!(addr, 77, "{what}: a refused call writes nothing");
    }
    let mut addr = 77;
    for (cfg, want) in
        [(wild.unmapped, RT_PARAM_INVALID), (1, RT_PARAM_INVALID), (usize::MAX, RT_PARAM_INVALID)]
    {
        for (name, malloc) in WITH_SETTINGS {
            refused("cfg", malloc(&mut addr, 100, 0, cfg as _), want, &[name, "cfg"]);
        }
        refused("cfg", aclrtMallocHostWithCfg(&mut addr, 100, cfg as _), want, &["cfg"]);
    }
    for (name, malloc) in WITH_SETTINGS {
        let va = malloc(&mut addr, 100, 0, &mut one(VA_FLAG, 0));
        refused("vaFlag of device memory", va, FEATURE_NOT_SUPPORT, &[name, "attrs[0]", "host memory"]);
        let both = malloc(&mut addr, 100, 0x1100, std::ptr::null_mut());
        refused("two bandwidths", both, RT_PARAM_INVALID, &[name, "0x1100"]);
    }
    let va = aclrtMallocHostWithCfg(&mut addr, 100, &mut one(VA_FLAG, 2));
    refused("vaFlag", va, RT_PARAM_INVALID, &["vaFlag", "2"]);
    for policy in [3, 4, 5, 7, 0x100, 0x1000, 99, -1] {
        let code = aclrtMallocCached(&mut addr, 100, policy);
        refused("cached", code, RT_PARAM_INVALID, &["policy", &policy.to_string()]);
    }
    assert_eq!(addr, 77, "refused calls write nothing");
}

#[test]
fn what_every_allocation_refuses() {
    use_device();
    let wild = Wild::new();
    let null = std::ptr::null_mut();
    type Raw = (&'static str, fn(*mut usize, usize) -> i32);
    let all: [Raw; 5] = [
        ("aclrtMallocAlign32", |out, size| aclrtMallocAlign32(out, size, 0)),
        ("aclrtMallocCached", |out, size| aclrtMallocCached(out, size, 0)),
        ("aclrtMallocWithCfg", |out, size| aclrtMallocWithCfg(out, size, 0, std::ptr::null_mut())),
        ("aclrtMallocForTaskScheduler", |out, size| {
            aclrtMallocForTaskScheduler(out, size, 0, std::ptr::null_mut())
        }),
        ("aclrtMallocHostWithCfg", |out, size| {
            aclrtMallocHostWithCfg(out, size as u64, std::ptr::null_mut())
        }),
    ];
    for (name, malloc) in all {
        let mut addr = 77;
        refused(name, malloc(null, 64), INVALID_PARAM, &["NULL"]);
        refused(name, malloc(wild.unmapped as _, 64), RT_PARAM_INVALID, &[]);
        refused(name, malloc(wild.read_only as _, 64), RT_PARAM_INVALID, &[]);
        refused(name, malloc(&mut addr, 0), RT_PARAM_INVALID, &["size"]);
        assert_eq!(addr, 77, "{name}");
        in_new_thread(move || refused(name, malloc(&mut 0, 0), CONTEXT_NULL, &[]));
    }
    // A policy outside the enum is none the less a policy: documented, huge pages from 2 MiB on.
    for (size, page) in [(100, 4096), (HUGE - 1, 4096), (HUGE, HUGE)] {
        let (mut addr, mut attributes) = (0, aclrtPtrAttributes::default());
        ok(aclrtMallocAlign32(&mut addr, size, 12345));
        ok(aclrtPointerGetAttributes(addr, &mut attributes));
        assert_eq!(attributes.pageSize as usize, page, "{size} bytes");
        ok(aclrtFree(addr));
    }
}

/// The forms that wait: work of the device is done when they come back, and what cannot be freed is refused
/// as ever.
// proves: X4
#[test]
fn freeing_with_a_wait_for_the_device() {
    use_device();
    const LEN: usize = 1 << 20;
    for host in [false, true] {
        let (device, pinned, out, stream) = (
            Memory::device(LEN),
            Memory::holding(Home::Pinned, &pattern(LEN, 2)),
            Memory::device(LEN),
            stream(),
        );
        out.fill(0);
        let gate = block(stream);
        ok(aclrtMemcpyAsync(out.addr, LEN, pinned.addr, LEN, H2D, stream));
        let call = blocked::call(move || match host {
            true => aclrtFreeHostWithDevSync(pinned.addr),
            false => aclrtFreeWithDevSync(device.addr),
        });
        let pending = call.blocked("a free that waits for the device");
        out.assert_all(0, "the copy has not run");
        gate.unblock();
        assert_eq!(pending.join(), 0);
        assert_eq!(stream_status(stream), STREAM_COMPLETE, "nothing is left to do");
        out.assert_holds(&pattern(LEN, 2), "the copy has run");
        let again =
            if host { aclrtFreeHostWithDevSync(pinned.addr) } else { aclrtFreeWithDevSync(device.addr) };
        refused("freed twice", again, RT_PARAM_INVALID, &["freed"]);
    }
    ok(aclrtFreeHostWithDevSync(0));
    refused("NULL", aclrtFreeWithDevSync(0), INVALID_PARAM, &["devPtr"]);
    let (device, pinned) = (Memory::device(64), Memory::pinned(64));
    refused("host", aclrtFreeWithDevSync(pinned.addr), RT_PARAM_INVALID, &["aclrtFreeHost"]);
    refused("device", aclrtFreeHostWithDevSync(device.addr), RT_PARAM_INVALID, &["aclrtFree"]);
    refused("inside", aclrtFreeWithDevSync(device.addr + 1), RT_PARAM_INVALID, &[]);
    refused("garbage", aclrtFreeHostWithDevSync(1), RT_PARAM_INVALID, &[]);
    device.fill(1);
    pinned.fill(1);
}

/// A request that nothing could meet leaves freed addresses at rest: nobody else is given them at once.
#[test]
fn what_cannot_be_allocated_ends_nobodys_rest() {
    use_device();
    for home in [Home::Device, Home::Pinned] {
        let freed = [64, 8192, 300 << 10, 3 << 20].map(|len| Memory::new(home, len));
        freed.iter().for_each(|memory| ok(memory.free()));
        refused("device memory", aclrtMalloc(&mut 0, 1 << 50, 0), MEMORY_ALLOCATION, &[]);
        refused("host memory", aclrtMallocHost(&mut 0, usize::MAX), MEMORY_ALLOCATION, &[]);
        let again = freed.iter().flat_map(|memory| (0..8).map(|_| Memory::new(home, memory.len)));
        let others: Vec<Memory> = again.collect();
        for memory in freed {
            let other = others.iter().find(|other| other.addr == memory.addr);
            assert!(other.is_none(), "{home:?}: {memory:?} was handed out again: {other:?}");
            refused("freed twice", memory.free(), RT_PARAM_INVALID, &["freed"]);
        }
        others.iter().for_each(|memory| ok(memory.free()));
    }
}
