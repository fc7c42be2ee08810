//! What can be set of a stream and asked of it, and limits of cores.

use crate::{
    enter::{Out, array, enter},
    types::{aclError, aclrtStream, aclrtStreamAttrValue},
};
use ferry_acl::{
    functions,
    rules::{attributes, fill, limits, values},
};
use std::ffi::c_void;

/// The priority of a stream: 0 is the highest.
///
/// # Safety
/// `priority` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtStreamGetPriority(stream: aclrtStream, priority: *mut u32) -> aclError {
    enter(&functions::aclrtStreamGetPriority, |here| {
        let out = Out::new("priority", priority)?;
        out.set(attributes::priority(here, stream as usize)?);
        Ok(())
    })
}

/// The flags that a stream was made with.
///
/// # Safety
/// `flags` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtStreamGetFlags(stream: aclrtStream, flags: *mut u32) -> aclError {
    enter(&functions::aclrtStreamGetFlags, |here| {
        let out = Out::new("flags", flags)?;
        out.set(attributes::flags(here, stream as usize)?);
        Ok(())
    })
}

/// Keeps whether a stream is to look for overflows.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetStreamOverflowSwitch(stream: aclrtStream, flag: u32) -> aclError {
    enter(&functions::aclrtSetStreamOverflowSwitch, |here| {
        attributes::set_overflow_switch(here, stream as usize, flag)
    })
}

/// Whether a stream is to look for overflows.
///
/// # Safety
/// `flag` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetStreamOverflowSwitch(stream: aclrtStream, flag: *mut u32) -> aclError {
    enter(&functions::aclrtGetStreamOverflowSwitch, |here| {
        let out = Out::new("flag", flag)?;
        out.set(attributes::overflow_switch(here, stream as usize)?);
        Ok(())
    })
}

/// Sets an attribute of a stream.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtSetStreamAttribute(
    stream: aclrtStream,
    stmAttrType: i32,
    value: *mut aclrtStreamAttrValue,
) -> aclError {
    enter(&functions::aclrtSetStreamAttribute, |here| {
        // SAFETY: the C contract.
        let value = unsafe { array("value", value, 1) }?[0];
        // SAFETY: every member of the union lies in its first 64 bits, and all bits are valid numbers.
        attributes::set(here, stream as usize, stmAttrType, unsafe { value.failureMode })
    })
}

/// An attribute of a stream.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetStreamAttribute(
    stream: aclrtStream,
    stmAttrType: i32,
    value: *mut aclrtStreamAttrValue,
) -> aclError {
    enter(&functions::aclrtGetStreamAttribute, |here| {
        let out = Out::new("value", value)?;
        let found = attributes::get(here, stream as usize, stmAttrType)?;
        out.set(aclrtStreamAttrValue { reserve: [found as u32, (found >> 32) as u32, 0, 0] });
        Ok(())
    })
}

/// Writes that nothing overflowed, in stream order.
///
/// # Safety
/// The memory stays valid until the stream has passed this task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetOverflowStatus(
    outputAddr: *mut c_void,
    outputSize: usize,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtGetOverflowStatus, |here| {
        // SAFETY: the C contract.
        unsafe { fill::overflow_status(here, outputAddr as usize, outputSize, stream as usize) }
    })
}

/// Forgets overflows, of which there are none.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetOverflowStatus(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtResetOverflowStatus, |here| attributes::flags(here, stream as usize).map(drop))
}

/// A hint to a cache, which there is none of.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtCmoAsync(
    src: *mut c_void,
    size: usize,
    cmoType: i32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtCmoAsync, |here| {
        fill::cache_hint(here, src as usize, size, cmoType, stream as usize)
    })
}

/// Limits the cores of a device for this process.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetDeviceResLimit(deviceId: i32, type_: i32, value: u32) -> aclError {
    enter(&functions::aclrtSetDeviceResLimit, |_| limits::set_of_device(deviceId, type_, value))
}

/// The cores of a device that this process may use.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetDeviceResLimit(deviceId: i32, type_: i32, value: *mut u32) -> aclError {
    enter(&functions::aclrtGetDeviceResLimit, |_| {
        let out = Out::new("value", value)?;
        out.set(limits::of_device(deviceId, type_)?);
        Ok(())
    })
}

/// Ends all limits of a device.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetDeviceResLimit(deviceId: i32) -> aclError {
    enter(&functions::aclrtResetDeviceResLimit, |_| limits::reset_of_device(deviceId))
}

/// Limits the cores of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtSetStreamResLimit(stream: aclrtStream, type_: i32, value: u32) -> aclError {
    enter(&functions::aclrtSetStreamResLimit, |here| {
        limits::set_of_stream(here, stream as usize, type_, value)
    })
}

/// The cores that a stream may use.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetStreamResLimit(
    stream: aclrtStream,
    type_: i32,
    value: *mut u32,
) -> aclError {
    enter(&functions::aclrtGetStreamResLimit, |here| {
        let out = Out::new("value", value)?;
        out.set(limits::of_stream(here, stream as usize, type_)?);
        Ok(())
    })
}

/// Ends all limits of a stream.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtResetStreamResLimit(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtResetStreamResLimit, |here| limits::reset_of_stream(here, stream as usize))
}

/// Has this thread use a stream's limits.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtUseStreamResInCurrentThread(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtUseStreamResInCurrentThread, |here| limits::use_in_thread(here, stream as usize))
}

/// Ends the use of a stream's limits.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnuseStreamResInCurrentThread(stream: aclrtStream) -> aclError {
    enter(&functions::aclrtUnuseStreamResInCurrentThread, |here| {
        limits::unuse_in_thread(here, stream as usize)
    })
}

/// The cores that this thread may use.
///
/// # Safety
/// `value` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtGetResInCurrentThread(type_: i32, value: *mut u32) -> aclError {
    enter(&functions::aclrtGetResInCurrentThread, |here| {
        let out = Out::new("value", value)?;
        out.set(limits::of_thread(here, type_)?);
        Ok(())
    })
}

/// Writes a 64-bit cell of device memory, in stream order.
///
/// # Safety
/// The cell stays valid until the stream has passed this task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtValueWrite(
    devAddr: *mut c_void,
    value: u64,
    flag: u32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtValueWrite, |here| {
        // SAFETY: the C contract.
        unsafe { values::write(here, devAddr as usize, value, flag, stream as usize) }
    })
}

/// Holds later tasks of a stream until a 64-bit cell of device memory is as `flag` says.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtValueWait(
    devAddr: *mut c_void,
    value: u64,
    flag: u32,
    stream: aclrtStream,
) -> aclError {
    enter(&functions::aclrtValueWait, |here| {
        values::wait(here, devAddr as usize, value, flag, stream as usize)
    })
}
