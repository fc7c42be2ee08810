//! What the environment changes. Each case is a child process: this program again, told by FERRY_TEST_CASE
//! what to do.

use std::process::Command;

use ferry_tests::code::*;
use ferry_tests::kind::H2D;
use ferry_tests::*;

const MIB: usize = 1024 * 1024;

type Case = (&'static str, &'static [(&'static str, &'static str)], fn());

const CASES: &[Case] = &[
    ("huge pages run short", &[("FERRY_DEVICE_MEMORY", "3700000")], huge_pages_run_short),
    ("a product that nobody built", &[("FERRY_SOC", "Ascend910Bogus")], || {
        refused_setting(&["FERRY_SOC", "Ascend910B1"])
    }),
    ("no memory at all", &[("FERRY_DEVICE_MEMORY", "0")], || {
        refused_setting(&["FERRY_DEVICE_MEMORY", "64K"])
    }),
    ("all memory there is", &[("FERRY_DEVICE_MEMORY", "18446744073709551615")], || {
        refused_setting(&["FERRY_DEVICE_MEMORY", "16T"])
    }),
    ("small memory", &[("FERRY_DEVICE_MEMORY", "64M")], small_memory),
    ("memory in bytes", &[("FERRY_DEVICE_MEMORY", "67108864")], || assert_eq!(mem_info().1, 64 * MIB)),
    ("memory in kibibytes", &[("FERRY_DEVICE_MEMORY", "32768K")], || assert_eq!(mem_info().1, 32 * MIB)),
    ("the largest memory", &[("FERRY_DEVICE_MEMORY", "16T")], the_largest_memory),
    ("more memory than addresses", &[("FERRY_DEVICE_MEMORY", "1T"), ("FERRY_DEVICES", "64")], || {
        more_than_addresses(1 << 40, "47 bits")
    }),
    ("more memory than the process may map", &[("FERRY_DEVICE_MEMORY", "4G")], || {
        limit_addresses(8 << 30);
        more_than_addresses(4 << 30, "RLIMIT_AS");
    }),
    ("memory that would have to be locked", &[], memory_that_would_have_to_be_locked),
    ("limbo in small memory", &[("FERRY_DEVICE_MEMORY", "64M")], limbo_in_small_memory),
    ("five devices", &[("FERRY_DEVICES", "5")], five_devices),
    ("a foreign character in the list", &visible("8", "1, 2,3"), || sees(&[1])),
    ("a device too many in the list", &visible("8", "1,3,8"), || sees(&[1, 3])),
    ("devices in the wrong order", &visible("8", "4,2"), || sees(&[4])),
    ("two of two devices", &visible("2", "0,1"), || sees(&[0, 1])),
    ("the numbers of devices that are not all visible", &visible("8", "2,5"), numbers_of_devices),
    ("the second of two devices", &visible("2", "1"), || sees(&[1])),
    ("no device", &visible("2", ""), || no_device("''")),
    ("a device that is not there", &visible("2", "7"), || no_device("'7'")),
    ("no list at all", &visible("2", "none"), || no_device("'none'")),
    ("a product without vector cores", &[("FERRY_SOC", "Ascend910A")], || numbers([32, 0, 1001], -1, false)),
    ("a product of the inference kind", &[("FERRY_SOC", "Ascend310P3")], || numbers([10, 8, 2002], 0, false)),
    ("a product with programs in threads", &[("FERRY_SOC", "Ascend950PR_9599")], || {
        numbers([32, 64, 3510], 0, true)
    }),
    ("another version", &[("FERRY_CANN_VERSION", "9.0.0-beta.2")], another_version),
    ("a limit for batches", &[("FERRY_BATCH_LIMIT", "16")], batch_limit),
    ("another product of the same rules", &[("FERRY_SOC", "Ascend910B1")], || {
        assert_eq!(soc_name().as_deref(), Some("Ascend910B1"));
    }),
    ("a product that does not exist", &[("FERRY_SOC", "Ascend123X")], || {
        refused_setting(&["FERRY_SOC", "Ascend910B1"])
    }),
    ("a switch that is neither on nor off", &[("FERRY_VERBOSE", "nein")], || {
        refused_setting(&["FERRY_VERBOSE", "0, off, no"])
    }),
    ("another switch", &[("FERRY_FAULT_NOTE", "maybe")], || refused_setting(&["FERRY_FAULT_NOTE", "1, on"])),
    ("a form that does not exist", &[("FERRY_FORM", "boat")], || refused_setting(&["FERRY_FORM", "ep"])),
    ("the form of another product", &[("FERRY_FORM", "rc")], || refused_setting(&["FERRY_FORM", "rc"])),
];

#[test]
fn each_case_in_a_process_of_its_own() {
    let program = std::env::current_exe().expect("Linux knows which program runs");
    for (name, settings, _) in CASES {
        let mut child = Command::new(&program);
        child.args(["--ignored", "--exact", "one_case", "--nocapture"]).env("FERRY_TEST_CASE", name);
        let done = child.envs(settings.iter().copied()).output().expect("this program can be started");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(
            done.status.success() && said.contains("1 passed"),
            "{name}: {said}{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
}

/// The child's part.
#[test]
#[ignore = "run by each_case_in_a_process_of_its_own"]
fn one_case() {
    let name = std::env::var("FERRY_TEST_CASE").expect("the parent says which case");
    let (_, _, case) = CASES.iter().find(|c| c.0 == name).expect("a case of this name");
    case();
}

/// So many devices, of which only some are visible.
const fn visible(devices: &'static str, list: &'static str) -> [(&'static str, &'static str); 2] {
    [("FERRY_DEVICES", devices), ("ASCEND_RT_VISIBLE_DEVICES", list)]
}

/// The process sees the devices that have these numbers on the machine, and numbers them from 0.
fn sees(physical: &[i64]) {
    let (mut count, mut id) = (0, -1);
    ok(aclrtGetDeviceCount(&mut count));
    assert_eq!(count as usize, physical.len());
    for (device, number) in physical.iter().enumerate() {
        ok(aclrtSetDevice(device as i32));
        let memory = Memory::device(4096);
        memory.fill(device as u8 + 1);
        memory.assert_all(device as u8 + 1, "a device of its own");
        ok(aclrtGetDeviceInfo(device as u32, 402, &mut id));
        assert_eq!(id, *number, "the number on the machine");
    }
    expect("one more", aclrtSetDevice(count as i32), INVALID_DEVICEID);
}

/// Nothing is visible: every call that needs a device says why.
fn no_device(list: &str) {
    let (mut count, mut context) = (7, 7);
    ok(aclInit(std::ptr::null()));
    ok(aclrtGetDeviceCount(&mut count));
    assert_eq!(count, 0);
    assert_eq!(aclrtSetDevice(0), INVALID_DEVICEID);
    let said = message().expect("a message");
    for word in ["ASCEND_RT_VISIBLE_DEVICES", "FERRY_DEVICES", list] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    expect("a context", aclrtCreateContext(&mut context, 0), INVALID_DEVICEID);
    assert_eq!(context, 7);
    ok(aclFinalize());
}

/// Cores, vector cores and architecture; how busy the vector cores are; whether there are programs in
/// threads. Products with none of the newest features have no overflow mode either.
fn numbers(want: [i64; 3], busy: i32, threads: bool) {
    use_device();
    let ask = |attr| {
        let mut value = -7;
        (aclrtGetDeviceInfo(0, attr, &mut value), value)
    };
    assert_eq!([101, 201, 601].map(ask), want.map(|value| (0, value)));
    for attr in 202..=204 {
        let (code, value) = ask(attr);
        assert_eq!(code, if threads { 0 } else { FEATURE_NOT_SUPPORT }, "{attr}");
        assert_eq!(value > 0, threads, "{attr}");
    }
    for attr in 205..=212 {
        let (code, value) = ask(attr);
        assert_eq!((code, value > 0), (0, threads), "{attr}");
    }
    let mut info = aclrtUtilizationInfo {
        cubeUtilization: 7,
        vectorUtilization: 7,
        aicpuUtilization: 7,
        memoryUtilization: 7,
        utilizationExtend: std::ptr::null_mut(),
    };
    ok(aclrtGetDeviceUtilizationRate(0, &mut info));
    assert_eq!(info.vectorUtilization, busy);
    let newest = if threads { 0 } else { FEATURE_NOT_SUPPORT };
    expect("the overflow mode", aclrtSetDeviceSatMode(1), newest);
}

fn another_version() {
    let (mut chars, mut number) = ([0; 128], 0);
    ok(aclsysGetVersionStr(c"runtime".as_ptr(), chars.as_mut_ptr()));
    let text: String = chars.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
    assert_eq!(text, "9.0.0-beta.2");
    ok(aclsysGetVersionNum(c"runtime".as_ptr(), &mut number));
    assert!((80_500_000..90_000_000).contains(&number), "{number}: after 8.5.0 and before 9.0.0");
}

/// Free and total bytes of device 0.
fn mem_info() -> (usize, usize) {
    use_device();
    let (mut free, mut total) = (0, 0);
    ok(aclrtGetMemInfo(1, &mut free, &mut total));
    (free, total)
}

/// What prefers huge pages takes normal ones when no 2 MiB are left; what insists on them fails.
fn huge_pages_run_short() {
    use_device();
    let size = 1_500_000;
    let malloc = |policy| {
        let mut addr = 0;
        aclrtMalloc(&mut addr, size, policy)
    };
    expect("huge first, room for a huge page", malloc(0), 0);
    expect("huge only, no room for another", malloc(1), 207001);
    expect("huge first, normal pages are left", malloc(0), 0);
    expect("normal only, nothing is left", malloc(2), 207001);
}

/// This process's numbers count what it sees; the driver's are those of the list.
fn numbers_of_devices() {
    let of = |call: fn(i32, *mut i32) -> i32, id| {
        let mut found = -1;
        match call(id, &mut found) {
            0 => Ok(found),
            code => Err(code),
        }
    };
    for (user, logic) in [(0, 2), (1, 5)] {
        for call in [aclrtGetLogicDevIdByUserDevId, aclrtGetPhyDevIdByUserDevId, aclrtGetPhyDevIdByLogicDevId]
        {
            assert_eq!(of(call, user), Ok(logic));
        }
        for call in [aclrtGetUserDevIdByLogicDevId, aclrtGetUserDevIdByPhyDevId] {
            assert_eq!(of(call, logic), Ok(user));
        }
        assert_eq!(of(aclrtGetLogicDevIdByPhyDevId, logic), Ok(logic));
    }
    assert_eq!(of(aclrtGetLogicDevIdByUserDevId, 2), Err(INVALID_DEVICEID));
    assert_eq!(of(aclrtGetUserDevIdByLogicDevId, 0), Err(INVALID_DEVICEID));
    assert_eq!(
        of(aclrtGetUserDevIdByPhyDevId, 3),
        Err(INVALID_DEVICEID),
        "it is there, but not for this process"
    );
    use_device();
    let (base, handle) = (reserve(4096), physical(4096));
    ok(aclrtMapMem(base, 4096, 0, handle, 0));
    // By the driver's number, as public programs do it: device 1 of this process.
    let mut desc = aclrtMemAccessDesc { flags: 3, location: location(1, 5), rsv: [0; 12] };
    ok(aclrtMemSetAccess(base, 4096, &mut desc, 1));
    let mut flag = 0;
    ok(aclrtMemGetAccess(base, &mut location(1, 1), &mut flag));
    assert_eq!(flag, 3);
    expect("no such device", aclrtMemGetAccess(base, &mut location(1, 3), &mut flag), INVALID_DEVICEID);
}

fn small_memory() {
    let (all, total) = mem_info();
    assert_eq!(total, 64 * MIB);
    assert!(all <= total);
    let down = |size, policy| {
        let before = mem_info().0;
        let mut addr = 0;
        ok(aclrtMalloc(&mut addr, size, policy));
        let taken = before - mem_info().0;
        ok(aclrtFree(addr));
        assert_eq!(mem_info().0, before, "a free gives back what the allocation took");
        taken
    };
    // Size, policy (0 huge first, 1 huge only, 2 normal only, 4 huge only for peers), bytes taken. 32 more
    // bytes than asked.
    let (page, granule) = (4096, 2 * MIB);
    for (size, policy, taken) in [
        (1, 0, page),
        (page - 32, 0, page),
        (page - 31, 0, 2 * page),
        (MIB, 0, MIB + page),
        (MIB + 1, 0, granule),
        (3 * MIB, 0, 2 * granule),
        (1, 1, granule),
        (2 * MIB, 1, 2 * granule),
        (3 * MIB, 2, 3 * MIB + page),
        (1, 4, granule),
    ] {
        assert_eq!(down(size, policy), taken, "{size} bytes with policy {policy}");
    }

    // Everything, piece by piece, then one more.
    let mut held = Vec::new();
    let mut addr = 0;
    let refused = loop {
        match aclrtMalloc(&mut addr, 2 * MIB - 32, 0) {
            0 => held.push(addr),
            code => break code,
        }
        assert!(held.len() <= 32, "64 MiB hold 32 pieces of 2 MiB");
    };
    expect("out of memory", refused, MEMORY_ALLOCATION);
    assert!(held.len() >= 31, "{} pieces of 2 MiB in 64 MiB", held.len());
    let (free, _) = mem_info();
    assert!(free < 2 * MIB, "{free} bytes are free and 2 MiB could not be had");
    // Page-locked memory is the host's, and the other device has its own.
    ok(Memory::pinned(16 * MIB).free());
    ok(aclrtSetDevice(1));
    ok(Memory::device(16 * MIB).free());
    use_device();
    held.into_iter().for_each(|addr| ok(aclrtFree(addr)));
    assert_eq!(mem_info().0, all, "everything is back");
    ok(Memory::device(48 * MIB).free());
    expect("more than there is", aclrtMalloc(&mut addr, 65 * MIB, 0), MEMORY_ALLOCATION);
}

/// A device is as large as was asked for; what is free of it, a GPU must really have.
fn the_largest_memory() {
    let (free, total) = mem_info();
    assert_eq!(total, 16 << 40);
    assert!(free == total || !on_host(), "{free} bytes are free");
    let memory = Memory::device(MIB);
    memory.fill(7);
    memory.assert_all(7, "memory of a device that is larger than any machine");
    ok(memory.free());
}

/// Devices that do not fit into the addresses of the process are refused, not made smaller. A GPU's memory
/// takes none of them.
fn more_than_addresses(each: usize, why: &str) {
    if on_host() {
        refused_setting(&["FERRY_DEVICE_MEMORY", "FERRY_DEVICES", &each.to_string(), why]);
    } else {
        assert_eq!(mem_info().1, each);
    }
}

/// A GPU's driver wants more addresses than this; there the limit stays as it is.
fn limit_addresses(bytes: u64) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: the limit is valid for the call.
    assert!(!on_host() || unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) } == 0);
}

/// A program that locks all that it will ever map, and may lock little: devices do not fit, and the message
/// says why.
fn memory_that_would_have_to_be_locked() {
    if !on_host() {
        return;
    }
    give_up_locking_without_limit();
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the first call writes the limit, the second reads it; what is mapped after the third is locked.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit), 0);
        limit.rlim_cur = limit.rlim_max.min(32 << 20);
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit), 0);
        assert_eq!(libc::mlockall(libc::MCL_FUTURE), 0);
    }
    let words = ["mlockall(MCL_FUTURE)", "RLIMIT_MEMLOCK", &limit.rlim_cur.to_string()];
    refused("devices larger than the limit", aclrtSetDevice(0), DRV_INTERNAL_ERROR, &words);
}

/// Drops CAP_IPC_LOCK, which root has: limits do not hold for who has it.
fn give_up_locking_without_limit() {
    const IPC_LOCK: u32 = 1 << 14;
    let mut header = [0x2008_0522_u32, 0];
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: a header of version 3 and two triples of sets, as both calls expect; the sets shrink.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()), 0);
        sets[0].iter_mut().for_each(|set| *set &= !IPC_LOCK);
        assert_eq!(libc::syscall(libc::SYS_capset, header.as_mut_ptr(), sets.as_ptr()), 0);
    }
}

/// A piece that a queued copy still needs cannot be had again, and can when the copy has passed.
// proves: X4
fn limbo_in_small_memory() {
    use_device();
    let stream = stream();
    let size = 40 * MIB;
    let (piece, host) = (Memory::device(size), Memory::holding(Home::Pinned, &[1; 64]));
    let gate = block(stream);
    ok(aclrtMemcpyAsync(piece.addr, size, host.addr, 64, H2D, stream));
    ok(piece.free());
    let mut again = 0;
    // It may wait a little for the copy, but not until the gate opens.
    let malloc = move || {
        let code = aclrtMalloc(&mut again, size, 0);
        let said = message().unwrap_or_default();
        assert!(said.contains(&format!("{} bytes that were freed", size + 32)), "{said}");
        code
    };
    let code = match blocked::call(malloc) {
        blocked::Outcome::Returned(code) => code,
        blocked::Outcome::Blocked(pending) => pending.join(),
    };
    expect("memory that a queued copy needs", code, MEMORY_ALLOCATION);
    gate.unblock();
    finish(stream);
    // Many times more than there is, one piece after the other, with nobody synchronising.
    for _ in 0..50 {
        let piece = Memory::device(size);
        ok(aclrtMemcpyAsync(piece.addr, size, host.addr, 64, H2D, stream));
        ok(piece.free());
    }
    finish(stream);
    // A stream that is held by something that has no addresses keeps no memory.
    let gate = block(stream);
    for _ in 0..5 {
        let piece = Memory::device(size);
        piece.fill(7);
        ok(piece.free());
    }
    gate.unblock();
    finish(stream);
}

fn five_devices() {
    let mut count = 0;
    ok(aclrtGetDeviceCount(&mut count));
    assert_eq!(count, 5);
    for device in 0..5 {
        ok(aclrtSetDevice(device));
        let memory = Memory::device(4096);
        memory.fill(device as u8);
        memory.assert_all(device as u8, "a device of its own");
    }
    expect("a sixth device", aclrtSetDevice(5), INVALID_DEVICEID);
}

fn batch_limit() {
    use_device();
    let (device, host, stream) = (Memory::device(4096), Memory::pinned(4096), stream());
    for (n, want) in [(16, 0), (17, RT_PARAM_INVALID)] {
        let items: Vec<_> = (0..n).map(|i| (device.addr + i * 64, host.addr + i * 64, 64)).collect();
        for form in BatchForm::ALL {
            let (code, fail) = Batch::of(&items, HOST_TO_DEVICE).call(form, stream);
            expect(&format!("{form:?} of {n}"), code, want);
            assert_eq!(fail, form.tells_index().then_some(usize::MAX));
        }
    }
    finish(stream);
}

/// A setting that is refused fails both calls that a program starts with, and the message helps.
fn refused_setting(words: &[&str]) {
    for (name, code) in [("aclInit", aclInit(std::ptr::null())), ("aclrtSetDevice", aclrtSetDevice(0))] {
        assert_eq!(code, INVALID_PARAM, "{name}");
    }
    let said = message().expect("two calls failed");
    words.iter().for_each(|word| assert!(said.contains(word), "{word} is not in {said}"));
}
