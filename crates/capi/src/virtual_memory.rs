//! Reserved addresses, physical memory, and mappings of the one at the other.

use crate::{
    enter::{Out, array, enter},
    types::{aclError, aclrtDrvMemHandle, aclrtMemAccessDesc, aclrtMemLocation, aclrtPhysicalMemProp},
};
use ferry_acl::{
    Result, functions,
    rules::virtual_memory::{
        self,
        mapped::{self, AccessRequest},
        physical::{self, Properties},
    },
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
    enter(&functions::aclrtReserveMemAddress, |here| {
        let out = Out::new("virPtr", virPtr)?;
        out.set(virtual_memory::reserve(here, size, alignment, expectPtr as usize, flags)? as *mut c_void);
        Ok(())
    })
}

/// Gives reserved addresses back.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtReleaseMemAddress(virPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtReleaseMemAddress, |here| virtual_memory::release(here, virPtr as usize))
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
    enter(&functions::aclrtMallocPhysical, |here| {
        let out = Out::new("handle", handle)?;
        // SAFETY: the C contract.
        let properties = unsafe { properties(prop) }?;
        out.set(physical::malloc_physical(here, size, &properties, flags)? as aclrtDrvMemHandle);
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
    enter(&functions::aclrtFreePhysical, |_| physical::free_physical(handle as usize))
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
    enter(&functions::aclrtMapMem, |here| {
        virtual_memory::map(here, virPtr as usize, size, offset, handle as usize, flags)
    })
}

/// Undoes aclrtMapMem; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtUnmapMem(virPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtUnmapMem, |here| virtual_memory::unmap(here, virPtr as usize))
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
    enter(&functions::aclrtMemGetAllocationGranularity, |here| {
        let out = Out::new("granularity", granularity)?;
        // SAFETY: the C contract.
        let properties = unsafe { properties(prop) }?;
        out.set(physical::granularity(here, &properties, option)?);
        Ok(())
    })
}

/// Reserves the very addresses that are asked for.
///
/// # Safety
/// `virPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtReserveMemAddressNoUCMemory(
    virPtr: *mut *mut c_void,
    size: usize,
    alignment: usize,
    expectPtr: *mut c_void,
    flags: u64,
) -> aclError {
    enter(&functions::aclrtReserveMemAddressNoUCMemory, |here| {
        let out = Out::new("virPtr", virPtr)?;
        out.set(
            virtual_memory::reserve_exactly(here, size, alignment, expectPtr as usize, flags)? as *mut c_void
        );
        Ok(())
    })
}

/// Gives places access to what is mapped.
///
/// # Safety
/// `desc` is NULL or an array of `count`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemSetAccess(
    virPtr: *mut c_void,
    size: usize,
    desc: *mut aclrtMemAccessDesc,
    count: usize,
) -> aclError {
    enter(&functions::aclrtMemSetAccess, |here| {
        // SAFETY: the C contract.
        let given = unsafe { array("desc", desc, count) }?;
        let given: Vec<_> = given.iter().map(access).collect();
        mapped::set_access(here, virPtr as usize, size, &given)
    })
}

fn access(desc: &aclrtMemAccessDesc) -> AccessRequest {
    let aclrtMemAccessDesc { flags, location, rsv } = *desc;
    AccessRequest { flags, location: location.type_, id: location.id, is_plain: rsv == [0; 12] }
}

/// The access that a place has to what is mapped.
///
/// # Safety
/// `location` and `flag` are NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemGetAccess(
    virPtr: *mut c_void,
    location: *mut aclrtMemLocation,
    flag: *mut u64,
) -> aclError {
    enter(&functions::aclrtMemGetAccess, |here| {
        let out = Out::new("flag", flag)?;
        // SAFETY: the C contract.
        let place = unsafe { array("location", location, 1) }?[0];
        out.set(mapped::access(here, virPtr as usize, place.type_, place.id)? as u64);
        Ok(())
    })
}

/// The handle of what is mapped, to be freed once more.
///
/// # Safety
/// `handle` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemRetainAllocationHandle(
    virPtr: *mut c_void,
    handle: *mut aclrtDrvMemHandle,
) -> aclError {
    enter(&functions::aclrtMemRetainAllocationHandle, |here| {
        let out = Out::new("handle", handle)?;
        out.set(mapped::retain(here, virPtr as usize)? as aclrtDrvMemHandle);
        Ok(())
    })
}

/// What physical memory was made with.
///
/// # Safety
/// `prop` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMemGetAllocationPropertiesFromHandle(
    handle: aclrtDrvMemHandle,
    prop: *mut aclrtPhysicalMemProp,
) -> aclError {
    enter(&functions::aclrtMemGetAllocationPropertiesFromHandle, |_| {
        let out = Out::new("prop", prop)?;
        let Properties { handle_type, allocation_type, attribute, location, id, reserve } =
            physical::properties_of(handle as usize)?;
        out.set(aclrtPhysicalMemProp {
            handleType: handle_type,
            allocationType: allocation_type,
            memAttr: attribute,
            location: aclrtMemLocation { id, type_: location },
            reserve,
        });
        Ok(())
    })
}
