//! Reserved addresses, physical memory, and mappings of the one at the other.

use crate::{
    aclError, aclrtDrvMemHandle, aclrtPhysicalMemProp,
    enter::{Out, array, enter},
};
use ferry_acl::{
    Result, functions,
    virtual_memory::{self, Properties},
};
use std::ffi::c_void;

/// Reserves addresses.
///
/// # Safety
/// `virPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtReserveMemAddress(
    virPtr: *mut *mut c_void,
    size: usize,
    alignment: usize,
    expectPtr: *mut c_void,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtReserveMemAddress, || {
        let out = Out::new("virPtr", virPtr)?;
        out.set(virtual_memory::reserve(size, alignment, expectPtr as usize, flags)? as *mut c_void);
        Ok(())
    })
}

/// Gives reserved addresses back.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtReleaseMemAddress(virPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtReleaseMemAddress, || virtual_memory::release(virPtr as usize))
}

/// Allocates physical memory.
///
/// # Safety
/// `handle` and `prop` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocPhysical(
    handle: *mut aclrtDrvMemHandle,
    size: usize,
    prop: *const aclrtPhysicalMemProp,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtMallocPhysical, || {
        let out = Out::new("handle", handle)?;
        // SAFETY: the C contract.
        let properties = unsafe { properties(prop) }?;
        out.set(virtual_memory::malloc_physical(size, &properties, flags)? as aclrtDrvMemHandle);
        Ok(())
    })
}

/// # Safety
/// The properties do not change during the call.
unsafe fn properties(prop: *const aclrtPhysicalMemProp) -> Result<Properties> {
    // SAFETY: the caller's promise.
    let given = unsafe { array("prop", prop, 1) }?[0];
    Ok(Properties {
        handle_type: given.handleType,
        allocation_type: given.allocationType,
        attribute: given.memAttr,
        location: given.location.type_,
        id: given.location.id,
        reserve: given.reserve,
    })
}

/// Frees physical memory, once it is no longer mapped.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreePhysical(handle: aclrtDrvMemHandle) -> aclError {
    enter(&functions::aclrtFreePhysical, || virtual_memory::free_physical(handle as usize))
}

/// Maps physical memory at reserved addresses.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtMapMem(
    virPtr: *mut c_void,
    size: usize,
    offset: usize,
    handle: aclrtDrvMemHandle,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtMapMem, || {
        virtual_memory::map(virPtr as usize, size, offset, handle as usize, flags)
    })
}

/// Undoes aclrtMapMem; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnmapMem(virPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtUnmapMem, || virtual_memory::unmap(virPtr as usize))
}

/// The granularity of physical memory.
///
/// # Safety
/// `prop` and `granularity` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemGetAllocationGranularity(
    prop: *mut aclrtPhysicalMemProp,
    option: i32,
    granularity: *mut usize,
) -> aclError {
    enter(&functions::aclrtMemGetAllocationGranularity, || {
        let out = Out::new("granularity", granularity)?;
        // SAFETY: the C contract.
        let properties = unsafe { properties(prop) }?;
        out.set(virtual_memory::granularity(&properties, option)?);
        Ok(())
    })
}
