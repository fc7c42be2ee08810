//! Memory: of devices, page-locked, registered, and between processes.

use crate::{
    call::{Address, Int, Size, Text, enter, functions, list_of, refuse, refuse_as, take},
    dicts::Config,
    library::Library,
};
use ferry_abi::MallocConfig;
use pyo3::prelude::*;
use std::ffi::c_void;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(malloc_with_cfg, module)?)?;
    module.add_function(wrap_pyfunction!(malloc_for_task_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(malloc_host_with_cfg, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_get_export_key, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_import_by_key, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_close, module)?)?;
    module.add_function(wrap_pyfunction!(ipc_mem_set_import_pid, module)?)
}

functions! { "acl.rt":
    /// Allocates device memory of the current device, 64-byte aligned, with 32 bytes or more to spare behind
    /// it.
    ///
    /// size: bytes, not 0. policy: 0 huge pages (2 MiB) above 1 MiB, else normal ones, 1 huge pages only, 2
    /// normal pages only; 3, 4 and 5 as 0, 1 and 2 for copies between devices (P2P); 6 pages of 1 GiB, 7 the
    /// same for P2P. The memory is not zeroed. The host cannot read or write it, unless the program runs on a
    /// board.
    ///
    /// Returns (dev_ptr, ret): ret is 207001 if there is no memory left. C: aclrtMalloc.
    fn malloc(size: Size, policy: i32) -> (dev_ptr: Address)
        = aclrtMalloc(dev_ptr, size, policy);

    /// Allocates device memory without bytes to spare behind it. As malloc.
    ///
    /// Returns (dev_ptr, ret). C: aclrtMallocAlign32.
    fn malloc_align32(size: Size, policy: i32) -> (dev_ptr: Address)
        = aclrtMallocAlign32(dev_ptr, size, policy);

    /// Allocates device memory that is cached. As malloc, with the policies 0, 1, 2 and 6 only.
    ///
    /// Returns (dev_ptr, ret). C: aclrtMallocCached.
    fn malloc_cached(size: Size, policy: i32) -> (dev_ptr: Address)
        = aclrtMallocCached(dev_ptr, size, policy);

    /// Frees device memory, at once (X4). Copies in flight that use it still may.
    ///
    /// Returns ret: 0, 107000 if dev_ptr is not what an allocation returned, 100000 if it is 0. C: aclrtFree.
    fn free(dev_ptr: Address)
        = aclrtFree(dev_ptr);

    /// Allocates page-locked host memory: copies of it are asynchronous (X3).
    ///
    /// size: bytes, not 0. The memory starts at a multiple of 64 and is not zeroed; acl.util.ptr_to_numpy
    /// makes an array of it.
    ///
    /// Returns (host_ptr, ret). C: aclrtMallocHost.
    fn malloc_host(size: Size) -> (host_ptr: Address)
        = aclrtMallocHost(host_ptr, size);

    /// Frees page-locked host memory, at once (X4). Copies in flight that use it still may; an array made of
    /// it must not be used.
    ///
    /// Returns ret: 0, also if host_ptr is 0, or 107000 if it is not what malloc_host returned. C:
    /// aclrtFreeHost.
    fn free_host(host_ptr: Address)
        = aclrtFreeHost(host_ptr);

    /// Maps host memory of the program's for the device.
    ///
    /// ptr: an address, a multiple of 4096 (else 107008). size: bytes. type: 0, mapped. The memory is not
    /// page-locked by this, and must stay until acl.rt.host_unregister: keep the object that owns it alive.
    ///
    /// Returns (dev_ptr, ret): the address the device has it at, which copies must not use (X5). C:
    /// aclrtHostRegister.
    fn host_register(ptr: Address, size: u64, r#type: i32) -> (dev_ptr: Address)
        = aclrtHostRegister(ptr, size, r#type, dev_ptr);

    /// Page-locks or maps host memory of the program's, by flag.
    ///
    /// ptr: an address, a multiple of 4096 (else 107008). size: bytes. flag: 0x10000000 page-locked, so that
    /// copies are asynchronous, 0x2 mapped for the device, or both; 0x4 and 0x8 are refused with 207000. The
    /// memory must stay until acl.rt.host_unregister: keep the object that owns it alive.
    ///
    /// Returns ret: 0, or an error code. C: aclrtHostRegisterV2.
    fn host_register_v2(ptr: Address, size: u64, flag: u32)
        = aclrtHostRegisterV2(ptr, size, flag);

    /// Tells the address that the device has registered host memory at.
    ///
    /// ptr_host: an address in memory that was mapped by acl.rt.host_register or acl.rt.host_register_v2.
    /// flag: 0.
    ///
    /// Returns (ptr_device, ret): copies must not use it (X5). C: aclrtHostGetDevicePointer.
    fn host_get_device_pointer(ptr_host: Address, flag: u32) -> (ptr_device: Address)
        = aclrtHostGetDevicePointer(ptr_host, ptr_device, flag);

    /// Takes host_register or host_register_v2 back.
    ///
    /// ptr: the address that was registered. The memory must stay until copies in flight that use it are
    /// done.
    ///
    /// Returns ret: 0, or 507911 if nothing is registered there. C: aclrtHostUnregister.
    fn host_unregister(ptr: Address)
        = aclrtHostUnregister(ptr);
}

/// Allocates device memory with a configuration.
///
/// size: bytes, not 0. policy: as in malloc, or-ed with 0x100 for low or 0x1000 for high bandwidth and
/// 0x100000 for memory that the host only reads. cfg: {} for none, or {'attrs': [{'attr': int, 'value':
/// dict}, ...], 'numAttrs': int}, where attr 1 has the value {'moduleId': int} (33 is the application), 2
/// {'deviceId': int}, the current device, and 3 {'vaFlag': int}, for host memory only.
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
    let function = |library: &Library| library.functions.aclrtMallocWithCfg;
    configured(py, "acl.rt.malloc_with_cfg", function, size, policy, cfg)
}

/// Allocates device memory for task schedulers. As malloc_with_cfg.
///
/// Returns (dev_ptr, ret). C: aclrtMallocForTaskScheduler.
#[pyfunction]
#[pyo3(signature = (size, policy, cfg, /))]
fn malloc_for_task_scheduler(
    py: Python<'_>,
    size: Int<Size>,
    policy: Int<i32>,
    cfg: &Bound<'_, PyAny>,
) -> PyResult<(Address, i32)> {
    let function = |library: &Library| library.functions.aclrtMallocForTaskScheduler;
    configured(py, "acl.rt.malloc_for_task_scheduler", function, size, policy, cfg)
}

type Configured = unsafe extern "C" fn(*mut *mut c_void, usize, i32, *mut MallocConfig) -> i32;

/// Calls a function that allocates with a configuration.
fn configured(
    py: Python<'_>,
    name: &str,
    function: impl FnOnce(&Library) -> Configured + Send,
    size: Int<Size>,
    policy: Int<i32>,
    cfg: &Bound<'_, PyAny>,
) -> PyResult<(Address, i32)> {
    let cfg = Config::read(cfg)?;
    take!(py, name, [size, policy, cfg], |code| (0, code));
    enter(py, |library| {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable and the configuration is whole for the time of the call.
        let code = cfg.with(|cfg| unsafe { function(library)(&mut pointer, size, policy, cfg) });
        (pointer as Address, code)
    })
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
    enter(py, |library| {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable and the configuration is whole for the time of the call.
        let code =
            cfg.with(|cfg| unsafe { (library.functions.aclrtMallocHostWithCfg)(&mut pointer, size, cfg) });
        (pointer as Address, code)
    })
}

/// Gives device memory a key by which other processes can import it.
///
/// dev_ptr: what acl.rt.malloc returned. size: bytes. len: bytes of the key with its end, 65. flags: 0, only
/// processes that acl.rt.ipc_mem_set_import_pid names may import it, or 1, any of this user.
///
/// Returns (key, ret): a str, empty if ret is not 0. C: aclrtIpcMemGetExportKey.
#[pyfunction]
#[pyo3(signature = (dev_ptr, size, len, flags, /))]
fn ipc_mem_get_export_key(
    py: Python<'_>,
    dev_ptr: Int<Address>,
    size: Int<Size>,
    len: Int<Size>,
    flags: Int<u64>,
) -> PyResult<(String, i32)> {
    /// More than any key needs; lengths above this have no room, and the C function would not take them
    /// either.
    const MAX_KEY: usize = 4096;
    let name = "acl.rt.ipc_mem_get_export_key";
    take!(py, name, [dev_ptr, size, len, flags], |code| (String::new(), code));
    if len > MAX_KEY {
        let note = format!("len is {len}: a key takes 65 bytes, no more and no less");
        return Ok((String::new(), refuse(py, name, note)));
    }
    enter(py, |library| {
        let mut key = [0_u8; MAX_KEY];
        let function = library.functions.aclrtIpcMemGetExportKey;
        // SAFETY: that many bytes of `key` are writable for the time of the call.
        let code = unsafe { function(dev_ptr as _, size, key.as_mut_ptr().cast(), len, flags) };
        let end = key.iter().position(|byte| *byte == 0).unwrap_or(0);
        (String::from_utf8_lossy(&key[..end]).into_owned(), code)
    })
}

/// Imports device memory that another process exported under a key. It is closed, not freed.
///
/// flags: 0, or 1 to enable peer access if it is of another device, whose copies have limits (X6).
///
/// Returns (dev_ptr, ret): ret is 207006 if this process is not allowed to, 507022 if the other one is gone.
/// C: aclrtIpcMemImportByKey.
#[pyfunction]
#[pyo3(signature = (key, flags, /))]
fn ipc_mem_import_by_key(py: Python<'_>, key: Text, flags: Int<u64>) -> PyResult<(Address, i32)> {
    take!(py, "acl.rt.ipc_mem_import_by_key", [key, flags], |code| (0, code));
    enter(py, |library| {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: `pointer` is writable and `key` a C string for the time of the call.
        let code = unsafe { (library.functions.aclrtIpcMemImportByKey)(&mut pointer, key.as_ptr(), flags) };
        (pointer as Address, code)
    })
}

/// Ends the export or the import of a key, in the process that calls. Importers first, then the exporter.
///
/// Returns ret: 0, or an error code. C: aclrtIpcMemClose.
#[pyfunction]
#[pyo3(signature = (key, /))]
fn ipc_mem_close(py: Python<'_>, key: Text) -> PyResult<i32> {
    take!(py, "acl.rt.ipc_mem_close", [key], |code| code);
    // SAFETY: `key` is a C string for the time of the call.
    enter(py, |library| unsafe { (library.functions.aclrtIpcMemClose)(key.as_ptr()) })
}

/// Says which processes may import a key.
///
/// pid: a list of process ids; it adds to those named before.
///
/// Returns ret: 0, or an error code. C: aclrtIpcMemSetImportPid.
#[pyfunction]
#[pyo3(signature = (key, pid, /))]
fn ipc_mem_set_import_pid(py: Python<'_>, key: Text, pid: &Bound<'_, PyAny>) -> PyResult<i32> {
    let name = "acl.rt.ipc_mem_set_import_pid";
    let pids = list_of::<i32>(pid, "pid")?;
    take!(py, name, [key], |code| code);
    let mut pids = match pids {
        Ok(pids) => pids,
        Err((code, note)) => return Ok(refuse_as(py, name, code, note)),
    };
    enter(py, |library| {
        let function = library.functions.aclrtIpcMemSetImportPid;
        // SAFETY: `key` is a C string and `pids` that many numbers for the time of the call.
        unsafe { function(key.as_ptr(), pids.as_mut_ptr(), pids.len()) }
    })
}
