//! Virtual memory: addresses and physical memory apart.

use crate::{
    call::{Address, Int, Size, enter, functions, take},
    dicts::Properties,
};
use pyo3::prelude::*;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(malloc_physical, module)?)
}

functions! { "acl.rt":
    /// Reserves a range of addresses, without memory behind it.
    ///
    /// alignment, expect_ptr: 0. flags: as in C.
    ///
    /// Returns (vir_ptr, ret). C: aclrtReserveMemAddress.
    fn reserve_mem_address(size: Size, alignment: Size, expect_ptr: Address, flags: u64) -> (vir_ptr: Address)
        = aclrtReserveMemAddress(vir_ptr, size, alignment, expect_ptr, flags);

    /// Gives a reserved range of addresses back.
    ///
    /// Returns ret: 0, or an error code. C: aclrtReleaseMemAddress.
    fn release_mem_address(vir_ptr: Address)
        = aclrtReleaseMemAddress(vir_ptr);

    /// Frees physical memory.
    ///
    /// Returns ret: 0, or an error code. C: aclrtFreePhysical.
    fn free_physical(handle: Address)
        = aclrtFreePhysical(handle);

    /// Maps physical memory at reserved addresses.
    ///
    /// offset: 0. flags: 0.
    ///
    /// Returns ret: 0, or an error code. C: aclrtMapMem.
    fn map_mem(vir_ptr: Address, size: Size, offset: Size, handle: Address, flags: u64)
        = aclrtMapMem(vir_ptr, size, offset, handle, flags);

    /// Takes map_mem back.
    ///
    /// Returns ret: 0, or an error code. C: aclrtUnmapMem.
    fn unmap_mem(vir_ptr: Address)
        = aclrtUnmapMem(vir_ptr);
}

/// Allocates physical memory, without an address.
///
/// prop: {'handleType': 0, 'allocationType': 0, 'memAttr': int, 'location': {'id': device, 'type': 1}, 'reserve': 0}. flags: 0.
///
/// Returns (handle, ret). C: aclrtMallocPhysical.
#[pyfunction]
#[pyo3(signature = (size, prop, flags, /))]
fn malloc_physical(
    py: Python<'_>,
    size: Int<Size>,
    prop: &Bound<'_, PyAny>,
    flags: Int<u64>,
) -> PyResult<(Address, i32)> {
    let name = "acl.rt.malloc_physical";
    let prop = Properties::read(prop)?;
    let refused = |code| (0, code);
    take!(py, name, [size, prop, flags], refused);
    Ok(enter(py, |library| {
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable and the properties are whole for the time of the call.
        let code = unsafe { (library.functions.aclrtMallocPhysical)(&mut handle, size, &prop, flags) };
        (handle as Address, code)
    }))
}
