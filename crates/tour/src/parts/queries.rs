//! Queries: devices, versions, the last error, peer access, parameters.

use std::ffi::{CStr, c_char};

use ferry_abi::error::{ensure, refused};
use ferry_abi::memory::{Block, Home};
use ferry_abi::peer::PeerAccess;
use ferry_abi::{Library, PackageVersion, Result, Utilization, call};

use crate::ctx::Ctx;
use crate::part::{TourPart, part};
use crate::proof::Proof;

pub const PARTS: &[TourPart] = &[
    part("cores, memory, load of every device", "two queries agree", devices),
    part("versions: API, and packages in three ways", "all three agree", versions),
    part("last error: looked at, taken, of this thread", "the code, once", last_error),
    part("peer access: off, on one way, off again", "X9", peer_status),
    part("parameters of process and context, sizes", "what was set", parameters),
];

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, seen: T) -> Result<()> {
    ensure(expected == seen, what, format!("{expected:?}"), format!("{seen:?}"))
}

fn devices(ctx: &mut Ctx) -> Result<Proof> {
    const AI_CORES: (i32, i32) = (101, 0);
    const VECTOR_CORES: (i32, i32) = (201, 1);
    const L2_CACHE: (i32, i32) = (302, 2);
    const GLOBAL_MEMORY: i32 = 301;
    let library = ctx.library;
    for device in 0..ctx.devices {
        let (number, id) = (device as u32, device as i32);
        for (attribute, older) in [AI_CORES, VECTOR_CORES, L2_CACHE] {
            let mut value = -1;
            // SAFETY: `value` is writable for the time of the call.
            unsafe { call!(library, aclGetDeviceCapability(number, older, &mut value)) }?;
            equal("aclGetDeviceCapability", library.device_info(number, attribute)?, value)?;
        }
        let (current, (_, total)) =
            ctx.on(device, || Ok((current_device(library)?, library.memory_info()?)))?;
        equal("aclrtGetDevice", id, current)?;
        equal("the memory of a device", total as i64, library.device_info(number, GLOBAL_MEMORY)?)?;
        let load = load(library, id)?;
        ensure((-1..=100).contains(&load.cube), "load in per cent", "-1 to 100", load.cube)?;
    }
    let beyond = library.device_info(ctx.devices as u32, GLOBAL_MEMORY).map(drop);
    refused("a device that does not exist", 107001, beyond)?;
    stream_numbers(ctx)?;
    ctx.proof()
}

fn current_device(library: &Library) -> Result<i32> {
    let mut current = -1;
    // SAFETY: `current` is writable for the time of the call.
    unsafe { call!(library, aclrtGetDevice(&mut current)) }?;
    Ok(current)
}

fn load(library: &Library, device: i32) -> Result<Utilization> {
    let extend = std::ptr::null_mut();
    let mut load = Utilization { cube: -2, vector: -2, ai_cpu: -2, memory: -2, extend };
    // SAFETY: `load` is writable for the time of the call.
    unsafe { call!(library, aclrtGetDeviceUtilizationRate(device, &mut load)) }?;
    Ok(load)
}

/// aclrtStreamGetId: no two living streams have the same.
fn stream_numbers(ctx: &Ctx) -> Result<()> {
    let streams = (0..32).map(|_| ctx.stream()).collect::<Result<Vec<_>>>()?;
    let mut numbers = Vec::new();
    for stream in &streams {
        let mut number = -1;
        // SAFETY: `number` is writable for the time of the call.
        unsafe { call!(ctx.library, aclrtStreamGetId(stream.handle(), &mut number)) }?;
        numbers.push(number);
    }
    numbers.sort_unstable();
    numbers.dedup();
    equal("different numbers of 32 streams", 32, numbers.len())
}

/// The text in an array of characters.
fn text(bytes: &[c_char]) -> String {
    let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).collect();
    CStr::from_bytes_until_nul(&bytes).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
}

fn versions(ctx: &mut Ctx) -> Result<Proof> {
    let library = ctx.library;
    let [mut major, mut minor, mut patch] = [-1; 3];
    // SAFETY: all three are writable for the time of the call.
    unsafe { call!(library, aclrtGetVersion(&mut major, &mut minor, &mut patch)) }?;
    equal("the version of the API, as in acl_rt.h", (1, 15, 0), (major, minor, patch))?;
    for (package, name) in [(0, c"cann"), (1, c"runtime"), (7, c"driver")] {
        let mut whole: [c_char; 128] = [!0; 128];
        let mut version = PackageVersion { whole, parts: [[!0; 64]; 4], reserved: [!0; 128] };
        let (mut number, name) = (-1, name.as_ptr().cast_mut());
        // SAFETY: the name is a C string that is only read, the text has the documented size, all are
        // writable.
        unsafe {
            call!(library, aclsysGetVersionStr(name, whole.as_mut_ptr()))?;
            call!(library, aclsysGetVersionNum(name, &mut number))?;
            call!(library, aclsysGetCANNVersion(package, &mut version))?;
        }
        equal("aclsysGetCANNVersion", text(&whole), text(&version.whole))?;
        let parts = version.parts.map(|part| text(&part));
        let begins = text(&whole).starts_with(&format!("{}.{}", parts[0], parts[1]));
        ensure(begins, "the parts of a version", text(&whole), parts.join("."))?;
        let major = parts[0].parse().unwrap_or(-1);
        equal("the major version in aclsysGetVersionNum", major, number / 10_000_000)?;
    }
    // SAFETY: the name is a C string that is only read; the number is not written.
    let unknown = unsafe { call!(library, aclsysGetVersionNum(c"sundial".as_ptr().cast_mut(), &mut major)) };
    refused("a package that does not exist", 107000, unknown)?;
    ctx.proof()
}

fn last_error(ctx: &mut Ctx) -> Result<Proof> {
    const THREAD: i32 = 0;
    let library = ctx.library;
    // SAFETY: both take a number; they answer with a code that is not their own.
    let (peek, take) = (
        || unsafe { (library.functions.aclrtPeekAtLastError)(THREAD) },
        || unsafe { (library.functions.aclrtGetLastError)(THREAD) },
    );
    take();
    equal("the last error when there was none", 0, take())?;
    let nothing = Block::new(library, Home::Device, 0).map(drop);
    refused("an allocation of no bytes", 107000, nothing)?;
    ctx.stream()?.synchronise()?;
    equal("aclrtPeekAtLastError", 107000, peek())?;
    let elsewhere = std::thread::spawn(move || {
        // SAFETY: takes a number.
        unsafe { (library.functions.aclrtPeekAtLastError)(THREAD) }
    });
    equal("the last error of another thread", 0, elsewhere.join().unwrap_or(-1))?;
    equal("aclrtGetLastError", 107000, take())?;
    equal("aclrtGetLastError again", 0, take())?;
    ctx.proof()
}

fn peer_status(ctx: &mut Ctx) -> Result<Proof> {
    // Fails with `NotHere` if there is no second device.
    ctx.on(1, || Ok(()))?;
    let library = ctx.library;
    let status = |from: i32, to: i32| {
        let mut status = -1;
        // SAFETY: `status` is writable for the time of the call.
        unsafe { call!(library, aclrtDevicePeerAccessStatus(from, to, &mut status)) }?;
        Ok(status)
    };
    equal("before", (0, 0), (status(0, 1)?, status(1, 0)?))?;
    let access = PeerAccess::enable(library, 0, 1)?;
    equal("after device 0 enabled device 1", (1, 0), (status(0, 1)?, status(1, 0)?))?;
    drop(access);
    equal("after it disabled it", (0, 0), (status(0, 1)?, status(1, 0)?))?;
    ctx.proof()
}

fn parameters(ctx: &mut Ctx) -> Result<Proof> {
    const DETERMINISTIC: i32 = 0;
    const INFNAN: i32 = 1;
    let (library, mut value) = (ctx.library, -1);
    // SAFETY: `value` is writable for the time of each call, the rest are numbers.
    unsafe {
        let unset = call!(library, aclrtCtxGetSysParamOpt(DETERMINISTIC, &mut value));
        refused("a parameter of the context never set", 107021, unset)?;
        call!(library, aclrtCtxSetSysParamOpt(DETERMINISTIC, 1))?;
        call!(library, aclrtCtxGetSysParamOpt(DETERMINISTIC, &mut value))?;
        equal("aclrtCtxGetSysParamOpt", 1, value)?;
        call!(library, aclrtGetSysParamOpt(DETERMINISTIC, &mut value))?;
        equal("the process's own, never set", 0, value)?;
        call!(library, aclrtSetSysParamOpt(DETERMINISTIC, 1))?;
        call!(library, aclrtGetSysParamOpt(DETERMINISTIC, &mut value))?;
        equal("aclrtGetSysParamOpt", 1, value)?;
        call!(library, aclrtSetSysParamOpt(DETERMINISTIC, 0))?;
        call!(library, aclrtSetOpExecuteTimeOut(60))?;
    }
    for (data_type, size) in [(0, 4), (1, 2), (2, 1), (9, 8), (17, 16), (27, 2)] {
        // SAFETY: takes a number.
        let seen = unsafe { (library.functions.aclDataTypeSize)(data_type) };
        equal(&format!("aclDataTypeSize of {data_type}"), size, seen)?;
    }
    let (mut old, mut mode) = (-1, -1);
    // SAFETY: `old` and `mode` are writable for the time of each call, the rest are numbers.
    unsafe {
        call!(library, aclrtGetDeviceSatMode(&mut old))?;
        call!(library, aclrtSetDeviceSatMode(INFNAN))?;
        call!(library, aclrtGetDeviceSatMode(&mut mode))?;
        call!(library, aclrtSetDeviceSatMode(old))?;
    }
    equal("aclrtGetDeviceSatMode", INFNAN, mode)?;
    ctx.proof()
}
