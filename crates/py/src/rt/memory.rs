//! Memory: of devices, page-locked, registered, and between processes.

use crate::{
    call::{Address, Int, Size, Text, cast, enter, functions, of_type, refuse, take},
    dicts::Config,
};
use pyo3::{prelude::*, types::PyList};

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(malloc_with_cfg, module)?)?;
    module.add_function(wrap_pyfunction!(malloc_host_with_cfg, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_get_export_key, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_import_by_key, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_close, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_set_import_pid, module)?)
}

functions! { "acl.rt":
    /// Allocates device memory of the current device, 64-byte aligned, with 32 bytes or more to spare behind it.
    ///
    /// policy: 0 huge pages first, 1 huge pages only, 2 normal pages only, and the forms for peer access.
    ///
    /// Returns (dev_ptr, ret). C: aclrtMalloc.
    fn malloc(size: Size, policy: i32) -> (dev_ptr: Address)
        = aclrtMalloc(dev_ptr, size, policy);

    /// Allocates device memory without bytes to spare behind it. As malloc.
    ///
    /// Returns (dev_ptr, ret). C: aclrtMallocAlign32.
    fn malloc_align32(size: Size, policy: i32) -> (dev_ptr: Address)
        = aclrtMallocAlign32(dev_ptr, size, policy);

    /// Allocates device memory that is cached. As malloc.
    ///
    /// Returns (dev_ptr, ret). C: aclrtMallocCached.
    fn malloc_cached(size: Size, policy: i32) -> (dev_ptr: Address)
        = aclrtMallocCached(dev_ptr, size, policy);

    /// Frees device memory. Copies in flight that use it still may.
    ///
    /// Returns ret: 0, or 107000 if dev_ptr is not what an allocation returned. C: aclrtFree.
    fn free(dev_ptr: Address)
        = aclrtFree(dev_ptr);

    /// Allocates page-locked host memory: copies of it are asynchronous.
    ///
    /// Returns (host_ptr, ret). C: aclrtMallocHost.
    fn malloc_host(size: Size) -> (host_ptr: Address)
        = aclrtMallocHost(host_ptr, size);

    /// Frees page-locked host memory. Copies in flight that use it still may.
    ///
    /// Returns ret: 0, or 107000 if host_ptr is not what malloc_host returned. C: aclrtFreeHost.
    fn free_host(host_ptr: Address)
        = aclrtFreeHost(host_ptr);

    /// Maps host memory of the program's for the device.
    ///
    /// Returns (dev_ptr, ret): the address the device has it at. C: aclrtHostRegister.
    fn host_register(ptr: Address, size: u64, r#type: i32) -> (dev_ptr: Address)
        = aclrtHostRegister(ptr, size, r#type, dev_ptr);

    /// Page-locks or maps host memory of the program's, by flag.
    ///
    /// The memory must stay until host_unregister: keep the object that owns it alive.
    ///
    /// Returns ret: 0, or an error code. C: aclrtHostRegisterV2.
    fn host_register_v2(ptr: Address, size: u64, flag: u32)
        = aclrtHostRegisterV2(ptr, size, flag);

    /// Tells the address that the device has registered host memory at.
    ///
    /// flag: 0.
    ///
    /// Returns (ptr_device, ret). C: aclrtHostGetDevicePointer.
    fn host_get_device_pointer(ptr_host: Address, flag: u32) -> (ptr_device: Address)
        = aclrtHostGetDevicePointer(ptr_host, ptr_device, flag);

    /// Takes host_register or host_register_v2 back.
    ///
    /// Returns ret: 0, or an error code. C: aclrtHostUnregister.
    fn host_unregister(ptr: Address)
        = aclrtHostUnregister(ptr);
}

/// Allocates device memory with a configuration.
///
/// cfg: {} for none, or {'attrs': [{'attr': int, 'value': {'moduleId': int} or {'deviceId': int}}, ...], 'numAttrs': int}.
///
/// Returns (dev_ptr, ret). C: aclrtMallocWithCfg.
#[pyfunction]
#[pyo3(signature = (size, policy, cfg, /))]
fn malloc_with_cfg(
    py: Python<'_>,
    size: Int<Size>,
    policy: Int<i32>,
    cfg: &Bound<'_, PyAny>,
) -> PyResult<(Address, i32)> {
    let name = "acl.rt.malloc_with_cfg";
    let cfg = Config::read(cfg)?;
    let refused = |code| (0, code);
    take!(py, name, [size, policy, cfg], refused);
    Ok(enter(py, |library| {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable and the configuration is whole for the time of the call.
        let code = cfg
            .with(|cfg| unsafe { (library.functions.aclrtMallocWithCfg)(&mut pointer, size, policy, cfg) });
        (pointer as Address, code)
    }))
}

/// Allocates page-locked host memory with a configuration. As malloc_host; cfg as in malloc_with_cfg.
///
/// Returns (host_ptr, ret). C: aclrtMallocHostWithCfg.
#[pyfunction]
#[pyo3(signature = (size, cfg, /))]
fn malloc_host_with_cfg(py: Python<'_>, size: Int<u64>, cfg: &Bound<'_, PyAny>) -> PyResult<(Address, i32)> {
    let name = "acl.rt.malloc_host_with_cfg";
    let cfg = Config::read(cfg)?;
    let refused = |code| (0, code);
    take!(py, name, [size, cfg], refused);
    Ok(enter(py, |library| {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable and the configuration is whole for the time of the call.
        let code =
            cfg.with(|cfg| unsafe { (library.functions.aclrtMallocHostWithCfg)(&mut pointer, size, cfg) });
        (pointer as Address, code)
    }))
}

/// Gives device memory a key by which other processes can import it.
///
/// len: bytes of the key with its end; 65. flags: as in C.
///
/// Returns (key, ret): a str. C: aclrtIpcMemGetExportKey.
#[pyfunction]
#[pyo3(signature = (dev_ptr, size, len, flags, /))]
fn ipc_mem_get_export_key(
    py: Python<'_>,
    dev_ptr: Int<Address>,
    size: Int<Size>,
    len: Int<Size>,
    flags: Int<u64>,
) -> PyResult<(String, i32)> {
    /// More than any key needs; lengths above this have no room, and the C function would not take them either.
    const MOST: usize = 4096;
    let name = "acl.rt.ipc_mem_get_export_key";
    take!(py, name, [dev_ptr, size, len, flags], |code| (String::new(), code));
    if len > MOST {
        let note = format!("len is {len}: a key takes 65 bytes, no more and no less");
        return Ok((String::new(), refuse(py, name, note)));
    }
    Ok(enter(py, |library| {
        let mut key = [0_u8; MOST];
        let function = library.functions.aclrtIpcMemGetExportKey;
        // SAFETY: that many bytes of `key` are writable for the time of the call.
        let code = unsafe { function(dev_ptr as _, size, key.as_mut_ptr().cast(), len, flags) };
        let end = key.iter().position(|byte| *byte == 0).unwrap_or(0);
        (String::from_utf8_lossy(&key[..end]).into_owned(), code)
    }))
}

/// Imports device memory that another process exported under a key.
///
/// Returns (dev_ptr, ret). C: aclrtIpcMemImportByKey.
#[pyfunction]
#[pyo3(signature = (key, flags, /))]
fn ipc_mem_import_by_key(py: Python<'_>, key: Text, flags: Int<u64>) -> PyResult<(Address, i32)> {
    take!(py, "acl.rt.ipc_mem_import_by_key", [key, flags], |code| (0, code));
    Ok(enter(py, |library| {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable and `key` a C string for the time of the call.
        let code = unsafe { (library.functions.aclrtIpcMemImportByKey)(&mut pointer, key.as_ptr(), flags) };
        (pointer as Address, code)
    }))
}

/// Ends the export or the import of a key, in the process that calls.
///
/// Returns ret: 0, or an error code. C: aclrtIpcMemClose.
#[pyfunction]
#[pyo3(signature = (key, /))]
fn ipc_mem_close(py: Python<'_>, key: Text) -> PyResult<i32> {
    take!(py, "acl.rt.ipc_mem_close", [key], |code| code);
    // SAFETY: `key` is a C string for the time of the call.
    Ok(enter(py, |library| unsafe { (library.functions.aclrtIpcMemClose)(key.as_ptr()) }))
}

/// Says which processes may import a key.
///
/// pid: a list of process ids.
///
/// Returns ret: 0, or an error code. C: aclrtIpcMemSetImportPid.
#[pyfunction]
#[pyo3(signature = (key, pid, /))]
fn ipc_mem_set_import_pid(py: Python<'_>, key: Text, pid: &Bound<'_, PyAny>) -> PyResult<i32> {
    let name = "acl.rt.ipc_mem_set_import_pid";
    let (mut pids, mut outside) = (Vec::new(), None);
    for (index, one) in cast::<PyList>(pid, "pid", "list")?.iter().enumerate() {
        match of_type(one.extract::<Int<i32>>()?.get(&format!("pid[{index}]")))? {
            Ok(value) => pids.push(value),
            Err(note) => outside = outside.or(Some(note)),
        }
    }
    take!(py, name, [key], |code| code);
    if let Some(note) = outside {
        return Ok(refuse(py, name, note));
    }
    Ok(enter(py, |library| {
        let function = library.functions.aclrtIpcMemSetImportPid;
        // SAFETY: `key` is a C string and `pids` that many numbers for the time of the call.
        unsafe { function(key.as_ptr(), pids.as_mut_ptr(), pids.len()) }
    }))
}
