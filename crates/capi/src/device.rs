//! Devices and contexts.

use crate::{
    enter::{Out, enter},
    types::{aclError, aclrtContext},
};
use ferry_acl::{
    arguments::not_null,
    functions,
    rules::{context, device},
};

/// Whether the application runs on the host or on the device.
///
/// # Safety
/// `runMode` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetRunMode(runMode: *mut i32) -> aclError {
    enter(&functions::aclrtGetRunMode, |_| {
        let out = Out::new("runMode", runMode)?;
        out.set(device::run_mode()?);
        Ok(())
    })
}

/// Makes a device current in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetDevice(deviceId: i32) -> aclError {
    enter(&functions::aclrtSetDevice, |here| device::set(here, deviceId))
}

/// Undoes one aclrtSetDevice.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetDevice(deviceId: i32) -> aclError {
    enter(&functions::aclrtResetDevice, |here| device::reset(here, deviceId))
}

/// Undoes every aclrtSetDevice of a device at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetDeviceForce(deviceId: i32) -> aclError {
    enter(&functions::aclrtResetDeviceForce, |here| device::reset_force(here, deviceId))
}

/// The current device of this thread.
///
/// # Safety
/// `deviceId` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDevice(deviceId: *mut i32) -> aclError {
    enter(&functions::aclrtGetDevice, |here| {
        let out = Out::new("deviceId", deviceId)?;
        out.set(device::current(here)?);
        Ok(())
    })
}

/// The number of devices.
///
/// # Safety
/// `count` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceCount(count: *mut u32) -> aclError {
    enter(&functions::aclrtGetDeviceCount, |_| {
        let out = Out::new("count", count)?;
        out.set(device::count()?);
        Ok(())
    })
}

/// Waits for all streams of the current device.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeDevice() -> aclError {
    enter(&functions::aclrtSynchronizeDevice, device::synchronize)
}

/// Waits for all streams of the current device, for at most `timeout` milliseconds; -1 waits for ever.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSynchronizeDeviceWithTimeout(timeout: i32) -> aclError {
    enter(&functions::aclrtSynchronizeDeviceWithTimeout, |here| device::synchronize_within(here, timeout))
}

/// Free and total bytes of the current device.
///
/// # Safety
/// `free` and `total` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetMemInfo(attr: i32, free: *mut usize, total: *mut usize) -> aclError {
    enter(&functions::aclrtGetMemInfo, |here| {
        let outs = (Out::new("free", free)?, Out::new("total", total)?);
        let (free, total) = device::memory_info(here, attr)?;
        outs.0.set(free);
        outs.1.set(total);
        Ok(())
    })
}

/// Whether one device can reach another's memory.
///
/// # Safety
/// `canAccessPeer` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtDeviceCanAccessPeer(
    canAccessPeer: *mut i32,
    deviceId: i32,
    peerDeviceId: i32,
) -> aclError {
    enter(&functions::aclrtDeviceCanAccessPeer, |_| {
        let out = Out::new("canAccessPeer", canAccessPeer)?;
        out.set(device::can_access_peer(deviceId, peerDeviceId)?.into());
        Ok(())
    })
}

/// Lets the current device reach another's memory.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceEnablePeerAccess(peerDeviceId: i32, flags: u32) -> aclError {
    enter(&functions::aclrtDeviceEnablePeerAccess, |here| {
        device::set_peer_access(here, peerDeviceId, flags, true)
    })
}

/// Undoes aclrtDeviceEnablePeerAccess.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDeviceDisablePeerAccess(peerDeviceId: i32) -> aclError {
    enter(&functions::aclrtDeviceDisablePeerAccess, |here| {
        device::set_peer_access(here, peerDeviceId, 0, false)
    })
}

/// Makes a context of a device and makes it current.
///
/// # Safety
/// `context` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtCreateContext(context: *mut aclrtContext, deviceId: i32) -> aclError {
    enter(&functions::aclrtCreateContext, |here| {
        let out = Out::new("context", context)?;
        out.set(context::create(here, deviceId)? as aclrtContext);
        Ok(())
    })
}

/// Destroys a context made by aclrtCreateContext.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtDestroyContext(context: aclrtContext) -> aclError {
    enter(&functions::aclrtDestroyContext, |here| {
        not_null("context", context as usize)?;
        context::destroy(here, context as usize)
    })
}

/// Makes a context current in this thread.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetCurrentContext(context: aclrtContext) -> aclError {
    enter(&functions::aclrtSetCurrentContext, |here| {
        not_null("context", context as usize)?;
        context::set_current(here, context as usize)
    })
}

/// The current context of this thread.
///
/// # Safety
/// `context` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetCurrentContext(context: *mut aclrtContext) -> aclError {
    enter(&functions::aclrtGetCurrentContext, |here| {
        let out = Out::new("context", context)?;
        out.set(context::current(here)? as aclrtContext);
        Ok(())
    })
}
