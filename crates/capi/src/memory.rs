//! Allocation.

use crate::{
    aclError, aclrtMemLocation, aclrtPtrAttributes,
    enter::{Out, enter},
};
use ferry_acl::{call::not_null, functions, memory};
use std::ffi::c_void;

/// Allocates memory of the current device.
///
/// # Safety
/// `devPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMalloc(devPtr: *mut *mut c_void, size: usize, policy: i32) -> aclError {
    enter(&functions::aclrtMalloc, || {
        let out = Out::new("devPtr", devPtr)?;
        out.set(memory::malloc(size, policy)? as *mut c_void);
        Ok(())
    })
}

/// Frees memory of aclrtMalloc; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFree(devPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtFree, || memory::free(devPtr as usize))
}

/// Allocates page-locked host memory.
///
/// # Safety
/// `hostPtr` is NULL or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn aclrtMallocHost(hostPtr: *mut *mut c_void, size: usize) -> aclError {
    enter(&functions::aclrtMallocHost, || {
        let out = Out::new("hostPtr", hostPtr)?;
        out.set(memory::malloc_host(size)? as *mut c_void);
        Ok(())
    })
}

/// Frees memory of aclrtMallocHost; returns at once.
#[unsafe(no_mangle)]
pub extern "C" fn aclrtFreeHost(hostPtr: *mut c_void) -> aclError {
    enter(&functions::aclrtFreeHost, || memory::free_host(hostPtr as usize))
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
    enter(&functions::aclrtPointerGetAttributes, || {
        not_null("ptr", ptr as usize)?;
        let out = Out::new("attributes", attributes)?;
        let found = memory::attributes(ptr as usize)?;
        let location = aclrtMemLocation { id: found.id, type_: found.location };
        out.set(aclrtPtrAttributes { location, pageSize: found.page_size, rsv: [0; 4] });
        Ok(())
    })
}
