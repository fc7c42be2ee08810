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
    /// size: bytes, not 0. alignment: 0. expect_ptr: 0, or an address to have it at if that is free. flags:
    /// 0, or 1 for huge pages.
    ///
    /// Returns (vir_ptr, ret). C: aclrtReserveMemAddress.
    fn reserve_mem_address(size: Size, alignment: Size, expect_ptr: Address, flags: u64) -> (vir_ptr: Address)
        = aclrtReserveMemAddress(vir_ptr, size, alignment, expect_ptr, flags);

    /// Gives a reserved range of addresses back. Nothing may be mapped there.
    ///
    /// vir_ptr: what acl.rt.reserve_mem_address returned.
    ///
    /// Returns ret: 0, or an error code. C: aclrtReleaseMemAddress.
    fn release_mem_address(vir_ptr: Address)
        = aclrtReleaseMemAddress(vir_ptr);

    /// Frees physical memory; as long as it is mapped it stays.
    ///
    /// handle: what acl.rt.malloc_physical returned.
    ///
    /// Returns ret: 0, or an error code. C: aclrtFreePhysical.
    fn free_physical(handle: Address)
        = aclrtFreePhysical(handle);

    /// Maps physical memory at reserved addresses.
    ///
    /// vir_ptr: an address inside a range of acl.rt.reserve_mem_address. size: that of the physical memory.
    /// offset: 0. handle: what acl.rt.malloc_physical returned. flags: 0.
    ///
    /// Returns ret: 0, or an error code. C: aclrtMapMem.
    fn map_mem(vir_ptr: Address, size: Size, offset: Size, handle: Address, flags: u64)
        = aclrtMapMem(vir_ptr, size, offset, handle, flags);

    /// Takes map_mem back.
    ///
    /// vir_ptr: the address that was mapped.
    ///
    /// Returns ret: 0, or an error code. C: aclrtUnmapMem.
    fn unmap_mem(vir_ptr: Address)
        = aclrtUnmapMem(vir_ptr);
}

/// Allocates physical memory, without an address.
///
/// size: bytes, a multiple of the page that memAttr says: 4 KiB, 2 MiB or 1 GiB. prop: {'handleType': 0,
/// 'allocationType': 0, 'memAttr': int, 'location': {'id': device, 'type': 1}, 'reserve': 0}, with memAttr as
/// the attr of acl.rt.get_mem_info, such as 4 for huge pages or 5 for normal ones; reserve may be left out.
/// flags: 0.
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
    enter(py, |library| {
        let mut handle = std::ptr::null_mut();
        // SAFETY: `handle` is writable and the properties are whole for the time of the call.
        let code = unsafe { (library.functions.aclrtMallocPhysical)(&mut handle, size, &prop, flags) };
        (handle as Address, code)
    })
}
