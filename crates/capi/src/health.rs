//! Faults of devices, memory that is used, and other questions about devices.

use crate::{
    enter::{Out, array, enter},
    types::{
        aclError, aclFloat16, aclrtErrorInfo, aclrtErrorInfoDetail, aclrtMemUceInfo, aclrtMemUceInfoArray,
        aclrtMemUsageInfo, aclrtUuid,
    },
};
use ferry_acl::{
    functions,
    rules::{health, info},
};
use std::ffi::c_char;

/// Whether a device works.
///
/// # Safety
/// `deviceStatus` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtQueryDeviceStatus(deviceId: i32, deviceStatus: *mut i32) -> aclError {
    enter(&functions::aclrtQueryDeviceStatus, |_| {
        let out = Out::new("deviceStatus", deviceStatus)?;
        out.set(health::status(deviceId)?);
        Ok(())
    })
}

/// Drops all work of a device.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceTaskAbort(deviceId: i32, timeout: u32) -> aclError {
    enter(&functions::aclrtDeviceTaskAbort, |_| health::abort(deviceId, timeout))
}

/// Ranges of a device with memory errors, of which there are none.
///
/// # Safety
/// `memUceInfoArray` has room for `arraySize`, and `retSize` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetMemUceInfo(
    deviceId: i32,
    memUceInfoArray: *mut aclrtMemUceInfo,
    arraySize: usize,
    retSize: *mut usize,
) -> aclError {
    enter(&functions::aclrtGetMemUceInfo, |_| {
        let out = Out::new("retSize", retSize)?;
        let found = health::memory_errors(deviceId, arraySize)?;
        if arraySize > 0 {
            Out::new("memUceInfoArray", memUceInfoArray)?;
        }
        out.set(found);
        Ok(())
    })
}

/// Repairs ranges with memory errors, of which there are none.
///
/// # Safety
/// `memUceInfoArray` is an array of `arraySize`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemUceRepair(
    deviceId: i32,
    memUceInfoArray: *mut aclrtMemUceInfo,
    arraySize: usize,
) -> aclError {
    let _ = memUceInfoArray;
    enter(&functions::aclrtMemUceRepair, |_| health::repair_memory(deviceId, arraySize))
}

/// What is wrong with a device.
///
/// # Safety
/// `errorInfo` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetErrorVerbose(deviceId: i32, errorInfo: *mut aclrtErrorInfo) -> aclError {
    enter(&functions::aclrtGetErrorVerbose, |_| {
        let out = Out::new("errorInfo", errorInfo)?;
        let errorType = health::error_kind(deviceId)?;
        let detail = aclrtErrorInfoDetail { uceInfo: aclrtMemUceInfoArray::default() };
        out.set(aclrtErrorInfo { tryRepair: 0, hasDetail: 0, reserved: [0; 2], errorType, detail });
        Ok(())
    })
}

/// Repairs what is wrong with a device.
///
/// # Safety
/// `errorInfo` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtRepairError(deviceId: i32, errorInfo: *const aclrtErrorInfo) -> aclError {
    enter(&functions::aclrtRepairError, |_| {
        // SAFETY: the C contract.
        let kind = unsafe { array("errorInfo", errorInfo, 1) }?[0].errorType;
        health::repair(deviceId, kind)
    })
}

/// 16 bytes that name a device on this machine.
///
/// # Safety
/// `uuid` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtDeviceGetUuid(deviceId: i32, uuid: *mut aclrtUuid) -> aclError {
    enter(&functions::aclrtDeviceGetUuid, |_| {
        let out = Out::new("uuid", uuid)?;
        out.set(aclrtUuid { bytes: info::uuid(deviceId)?.map(|byte| byte as c_char) });
        Ok(())
    })
}

/// What is used of a device's memory, by module.
///
/// # Safety
/// `memUsageInfo` has room for `inputNum`, and `outputNum` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetMemUsageInfo(
    deviceId: i32,
    memUsageInfo: *mut aclrtMemUsageInfo,
    inputNum: usize,
    outputNum: *mut usize,
) -> aclError {
    enter(&functions::aclrtGetMemUsageInfo, |_| {
        let outs = (Out::new("memUsageInfo", memUsageInfo)?, Out::new("outputNum", outputNum)?);
        let (now, peak) = info::memory_usage(deviceId, inputNum)?;
        let mut name = [0; 32];
        name.iter_mut().zip(b"FERRY").for_each(|(cell, byte)| *cell = *byte as c_char);
        outs.0.set(aclrtMemUsageInfo {
            name,
            curMemSize: now as u64,
            memPeakSize: peak as u64,
            reserved: [0; 8],
        });
        outs.1.set(1);
        Ok(())
    })
}

/// The lowest priority of streams and the highest.
///
/// # Safety
/// `leastPriority` and `greatestPriority` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtDeviceGetStreamPriorityRange(
    leastPriority: *mut i32,
    greatestPriority: *mut i32,
) -> aclError {
    enter(&functions::aclrtDeviceGetStreamPriorityRange, |_| {
        let outs =
            (Out::new("leastPriority", leastPriority)?, Out::new("greatestPriority", greatestPriority)?);
        let (least, greatest) = info::priorities();
        outs.0.set(least);
        outs.1.set(greatest);
        Ok(())
    })
}

/// Whether a device's default context is in use; `flags` is never written.
///
/// # Safety
/// `active` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetPrimaryCtxState(
    deviceId: i32,
    flags: *mut u32,
    active: *mut i32,
) -> aclError {
    let _ = flags;
    enter(&functions::aclrtGetPrimaryCtxState, |_| {
        let out = Out::new("active", active)?;
        out.set(info::primary_is_active(deviceId)?.into());
        Ok(())
    })
}

/// Sets how long an operator may run, in microseconds, and says that it is so. There are no operators here.
///
/// # Safety
/// `actualTimeout` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtSetOpExecuteTimeOutV2(timeout: u64, actualTimeout: *mut u64) -> aclError {
    enter(&functions::aclrtSetOpExecuteTimeOutV2, |_| {
        Out::new("actualTimeout", actualTimeout)?.set(timeout);
        Ok(())
    })
}

/// A 16-bit float as a 32-bit one. Needs nothing of the library, so it answers in a forked child too.
#[unsafe(no_mangle)]
pub extern "C" fn aclFloat16ToFloat(value: aclFloat16) -> f32 {
    info::float_of(value)
}

/// The nearest 16-bit float. Needs nothing of the library, so it answers in a forked child too.
#[unsafe(no_mangle)]
pub extern "C" fn aclFloatToFloat16(value: f32) -> aclFloat16 {
    info::half_of(value)
}
