//! Allocation.

use crate::{
    enter::{Out, array, enter},
    types::{aclError, aclrtMallocConfig, aclrtMemLocation, aclrtPtrAttributes},
};
use ferry_acl::{
    Result,
    arguments::not_null,
    functions,
    rules::{
        memory::{self, MallocAttribute, Padding},
        register,
    },
};
use std::ffi::c_void;

/// Allocates memory of the current device.
///
/// # Safety
/// `devPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMalloc(devPtr: *mut *mut c_void, size: usize, policy: i32) -> aclError {
    enter(&functions::aclrtMalloc, |here| {
        let out = Out::new("devPtr", devPtr)?;
        out.set(memory::malloc(here, size, policy, Padding::Usual)? as *mut c_void);
        Ok(())
    })
}

/// Allocates memory of the current device, rounded up to 32 bytes and no more.
///
/// # Safety
/// `devPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocAlign32(devPtr: *mut *mut c_void, size: usize, policy: i32) -> aclError {
    enter(&functions::aclrtMallocAlign32, |here| {
        let out = Out::new("devPtr", devPtr)?;
        out.set(memory::malloc(here, size, policy, Padding::Align32)? as *mut c_void);
        Ok(())
    })
}

/// Allocates memory of the current device; fewer policies than aclrtMalloc.
///
/// # Safety
/// `devPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocCached(devPtr: *mut *mut c_void, size: usize, policy: i32) -> aclError {
    enter(&functions::aclrtMallocCached, |here| {
        let out = Out::new("devPtr", devPtr)?;
        out.set(memory::malloc_cached(here, size, policy)? as *mut c_void);
        Ok(())
    })
}

/// Allocates memory of the current device with settings.
///
/// # Safety
/// `devPtr` and `cfg` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocWithCfg(
    devPtr: *mut *mut c_void,
    size: usize,
    policy: i32,
    cfg: *mut aclrtMallocConfig,
) -> aclError {
    enter(&functions::aclrtMallocWithCfg, |here| {
        let out = Out::new("devPtr", devPtr)?;
        // SAFETY: the C contract.
        let config = unsafe { config(cfg) }?;
        out.set(memory::malloc_with(here, size, policy, &config)? as *mut c_void);
        Ok(())
    })
}

/// As aclrtMallocWithCfg, for memory that the device's task scheduler reads: all memory here is such memory.
///
/// # Safety
/// `devPtr` and `cfg` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocForTaskScheduler(
    devPtr: *mut *mut c_void,
    size: usize,
    policy: i32,
    cfg: *mut aclrtMallocConfig,
) -> aclError {
    enter(&functions::aclrtMallocForTaskScheduler, |here| {
        let out = Out::new("devPtr", devPtr)?;
        // SAFETY: the C contract.
        let config = unsafe { config(cfg) }?;
        out.set(memory::malloc_with(here, size, policy, &config)? as *mut c_void);
        Ok(())
    })
}

/// The settings of an allocation; none if `cfg` is NULL.
///
/// # Safety
/// The settings do not change during the call.
unsafe fn config(cfg: *mut aclrtMallocConfig) -> Result<Vec<MallocAttribute>> {
    if cfg.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    let given = unsafe { array("cfg", cfg.cast_const(), 1) }?[0];
    if given.numAttrs == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise.
    let attrs = unsafe { array("cfg->attrs", given.attrs.cast_const(), given.numAttrs) }?;
    let read = |one: &crate::types::aclrtMallocAttribute| {
        let is_module = one.attr == ferry_acl::constants::ACL_RT_MEM_ATTR_MODULE_ID;
        // SAFETY: every bit pattern is a value of either member, and the array was found readable.
        let value = unsafe { if is_module { one.value.moduleId.into() } else { one.value.deviceId } };
        MallocAttribute { attr: one.attr, value }
    };
    Ok(attrs.iter().map(read).collect())
}

/// Waits for the device of the memory, then frees it.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreeWithDevSync(devPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtFreeWithDevSync, |here| memory::free_with_sync(here, devPtr as usize))
}

/// Frees memory of aclrtMalloc; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFree(devPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtFree, |here| memory::free(here, devPtr as usize))
}

/// Allocates page-locked host memory.
///
/// # Safety
/// `hostPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocHost(hostPtr: *mut *mut c_void, size: usize) -> aclError {
    enter(&functions::aclrtMallocHost, |here| {
        let out = Out::new("hostPtr", hostPtr)?;
        out.set(memory::malloc_host(here, size)? as *mut c_void);
        Ok(())
    })
}

/// Allocates page-locked host memory with settings.
///
/// # Safety
/// `ptr` and `cfg` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocHostWithCfg(
    ptr: *mut *mut c_void,
    size: u64,
    cfg: *mut aclrtMallocConfig,
) -> aclError {
    enter(&functions::aclrtMallocHostWithCfg, |here| {
        let out = Out::new("ptr", ptr)?;
        // SAFETY: the C contract.
        let config = unsafe { config(cfg) }?;
        out.set(memory::malloc_host_with(here, size as usize, &config)? as *mut c_void);
        Ok(())
    })
}

/// Waits for the current device, then frees memory of aclrtMallocHost.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreeHostWithDevSync(hostPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtFreeHostWithDevSync, |here| memory::free_host_with_sync(here, hostPtr as usize))
}

/// Maps host memory for devices.
///
/// # Safety
/// `devPtr` is NULL or valid; the memory stays mapped until it is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtHostRegister(
    ptr: *mut c_void,
    size: u64,
    r#type: i32,
    devPtr: *mut *mut c_void,
) -> aclError {
    enter(&functions::aclrtHostRegister, |here| {
        not_null("ptr", ptr as usize)?;
        let out = Out::new("devPtr", devPtr)?;
        out.set(register::register(here, ptr as usize, size as usize, r#type)? as *mut c_void);
        Ok(())
    })
}

/// Maps host memory for devices, page-locks it, or both.
///
/// # Safety
/// The memory stays mapped until it is unregistered and no copy uses it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtHostRegisterV2(ptr: *mut c_void, size: u64, flag: u32) -> aclError {
    enter(&functions::aclrtHostRegisterV2, |here| {
        register::register_v2(here, ptr as usize, size as usize, flag)
    })
}

/// The address on devices of registered, mapped memory.
///
/// # Safety
/// `pDevice` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtHostGetDevicePointer(
    pHost: *mut c_void,
    pDevice: *mut *mut c_void,
    flag: u32,
) -> aclError {
    enter(&functions::aclrtHostGetDevicePointer, |here| {
        not_null("pHost", pHost as usize)?;
        let out = Out::new("pDevice", pDevice)?;
        out.set(register::device_pointer(here, pHost as usize, flag)? as *mut c_void);
        Ok(())
    })
}

/// Undoes aclrtHostRegister and aclrtHostRegisterV2; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtHostUnregister(ptr: *mut c_void) -> aclError {
    enter(&functions::aclrtHostUnregister, |here| register::unregister(here, ptr as usize))
}

/// Frees memory of aclrtMallocHost; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreeHost(hostPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtFreeHost, |here| memory::free_host(here, hostPtr as usize))
}

/// What a pointer belongs to.
///
/// # Safety
/// `attributes` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtPointerGetAttributes(
    ptr: *const c_void,
    attributes: *mut aclrtPtrAttributes,
) -> aclError {
    enter(&functions::aclrtPointerGetAttributes, |_| {
        not_null("ptr", ptr as usize)?;
        let out = Out::new("attributes", attributes)?;
        let found = memory::attributes(ptr as usize)?;
        let location = aclrtMemLocation { id: found.id, type_: found.location };
        out.set(aclrtPtrAttributes { location, pageSize: found.page_size, rsv: [0; 4] });
        Ok(())
    })
}

/// Start and length of the memory around an address. One of the two outputs may be NULL.
///
/// # Safety
/// `pbase` and `psize` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemGetAddressRange(
    ptr: *mut c_void,
    pbase: *mut *mut c_void,
    psize: *mut usize,
) -> aclError {
    enter(&functions::aclrtMemGetAddressRange, |here| {
        if pbase.is_null() {
            not_null("psize (and pbase)", psize as usize)?;
        }
        let outs = (Out::unless_null("pbase", pbase)?, Out::unless_null("psize", psize)?);
        let (base, size) = memory::address_range(here, ptr as usize)?;
        outs.0.into_iter().for_each(|out| out.set(base as *mut c_void));
        outs.1.into_iter().for_each(|out| out.set(size));
        Ok(())
    })
}
