//! Questions about devices, and parameters.

use crate::{
    enter::{Out, enter},
    types::{aclError, aclrtUtilizationInfo},
};
use ferry_acl::{
    functions,
    rules::{device, info, params},
};
use std::ptr;

/// A number of a device: cores, cache.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclGetDeviceCapability(deviceId: u32, deviceInfo: i32, value: *mut i64) -> aclError {
    enter(&functions::aclGetDeviceCapability, |_| {
        let out = Out::new("value", value)?;
        out.set(info::capability(deviceId, deviceInfo)?);
        Ok(())
    })
}

/// A fact about a device.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceInfo(deviceId: u32, attr: i32, value: *mut i64) -> aclError {
    enter(&functions::aclrtGetDeviceInfo, |_| {
        let out = Out::new("value", value)?;
        out.set(info::attribute(deviceId, attr)?);
        Ok(())
    })
}

/// How busy a device is.
///
/// # Safety
/// `utilizationInfo` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceUtilizationRate(
    deviceId: i32,
    utilizationInfo: *mut aclrtUtilizationInfo,
) -> aclError {
    enter(&functions::aclrtGetDeviceUtilizationRate, |_| {
        let out = Out::new("utilizationInfo", utilizationInfo)?;
        let found = info::utilization(deviceId)?;
        out.set(aclrtUtilizationInfo {
            cubeUtilization: found.cube,
            vectorUtilization: found.vector,
            aicpuUtilization: found.ai_cpu,
            memoryUtilization: found.memory,
            utilizationExtend: ptr::null_mut(),
        });
        Ok(())
    })
}

/// The process id by which other processes' white lists know this one.
///
/// # Safety
/// `pid` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtDeviceGetBareTgid(pid: *mut i32) -> aclError {
    enter(&functions::aclrtDeviceGetBareTgid, |_| {
        let out = Out::new("pid", pid)?;
        out.set(info::bare_tgid());
        Ok(())
    })
}

/// Keeps a mode for the current device.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetDeviceSatMode(mode: i32) -> aclError {
    enter(&functions::aclrtSetDeviceSatMode, |here| info::set_sat_mode(here, mode))
}

/// The mode that was set for the current device.
///
/// # Safety
/// `mode` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceSatMode(mode: *mut i32) -> aclError {
    enter(&functions::aclrtGetDeviceSatMode, |here| {
        let out = Out::new("mode", mode)?;
        out.set(info::sat_mode(here)?);
        Ok(())
    })
}

/// Whether one device may reach another's memory.
///
/// # Safety
/// `status` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtDevicePeerAccessStatus(
    deviceId: i32,
    peerDeviceId: i32,
    status: *mut i32,
) -> aclError {
    enter(&functions::aclrtDevicePeerAccessStatus, |_| {
        let out = Out::new("status", status)?;
        out.set(device::peer_access_status(deviceId, peerDeviceId)?.into());
        Ok(())
    })
}

/// Sets a parameter of the process.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetSysParamOpt(opt: i32, value: i64) -> aclError {
    enter(&functions::aclrtSetSysParamOpt, |_| params::set(opt, value))
}

/// A parameter of the process.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetSysParamOpt(opt: i32, value: *mut i64) -> aclError {
    enter(&functions::aclrtGetSysParamOpt, |_| {
        let out = Out::new("value", value)?;
        out.set(params::get(opt)?);
        Ok(())
    })
}

/// Sets a parameter of the current context.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtCtxSetSysParamOpt(opt: i32, value: i64) -> aclError {
    enter(&functions::aclrtCtxSetSysParamOpt, |here| params::set_in_context(here, opt, value))
}

/// A parameter of the current context.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCtxGetSysParamOpt(opt: i32, value: *mut i64) -> aclError {
    enter(&functions::aclrtCtxGetSysParamOpt, |here| {
        let out = Out::new("value", value)?;
        out.set(params::get_in_context(here, opt)?);
        Ok(())
    })
}

/// Sets how long an operator may run, in seconds. There are no operators here, so nothing ever runs too long;
/// copies have no such limit.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetOpExecuteTimeOut(timeout: u32) -> aclError {
    let _ = timeout;
    enter(&functions::aclrtSetOpExecuteTimeOut, |_| Ok(()))
}

/// Bytes of an element; 0 for what is no type. Needs nothing of the library, so it answers in a forked child
/// too.
#[unsafe(no_mangle)]
pub extern "C" fn aclDataTypeSize(dataType: i32) -> usize {
    info::data_type_size(dataType)
}
