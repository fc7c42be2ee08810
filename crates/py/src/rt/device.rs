//! Devices and contexts.

use crate::{
    call::{Address, Device, Int, Size, enter, functions, take},
    dicts,
};
use pyo3::{prelude::*, types::PyDict};

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(get_device_utilization_rate, module)?)
}

functions! { "acl.rt":
    /// Tells where the program runs: 0 on the device (a board), 1 on a host with cards.
    ///
    /// Returns (run_mode, ret). C: aclrtGetRunMode.
    fn get_run_mode() -> (run_mode: i32)
        = aclrtGetRunMode(run_mode);

    /// Makes a device current in this thread, with its default context.
    ///
    /// device_id: 0 or more, less than acl.rt.get_device_count() tells. Each call counts: acl.rt.reset_device
    /// takes one back.
    ///
    /// Returns ret: 0, or 107001 if there is no such device. C: aclrtSetDevice.
    fn set_device(device_id: Device)
        = aclrtSetDevice(device_id);

    /// Takes one set_device back. With the last one the work of the device is waited for, and its default
    /// context ends.
    ///
    /// device_id: as given to acl.rt.set_device, by whatever thread. Streams of the default context end with
    /// it; memory, events and other contexts stay.
    ///
    /// Returns ret: 0, or 107002 if nothing is left to take back. C: aclrtResetDevice.
    fn reset_device(device_id: Device)
        = aclrtResetDevice(device_id);

    /// Takes all set_device back at once. As reset_device.
    ///
    /// Returns ret: 0, or an error code. C: aclrtResetDeviceForce.
    fn reset_device_force(device_id: Device)
        = aclrtResetDeviceForce(device_id);

    /// Tells which device is current in this thread.
    ///
    /// Returns (device_id, ret): ret is 107002 if the thread has none. C: aclrtGetDevice.
    fn get_device() -> (device_id: i32)
        = aclrtGetDevice(device_id);

    /// Counts the devices that the program sees.
    ///
    /// Returns (count, ret). C: aclrtGetDeviceCount.
    fn get_device_count() -> (count: u32)
        = aclrtGetDeviceCount(count);

    /// Tells whether a device works.
    ///
    /// device_id: any device; it need not be set.
    ///
    /// Returns (device_status, ret): 0 normal, 1 abnormal; ret is 107001 if there is no such device. C:
    /// aclrtQueryDeviceStatus.
    fn query_device_status(device_id: Device) -> (device_status: i32)
        = aclrtQueryDeviceStatus(device_id, device_status);

    /// Drops all work of a device, of every context. Whoever waits for one of its streams is told so: 107023.
    ///
    /// device_id: the device; it need not be current. timeout: milliseconds, at most 2160000, or 0 for as
    /// long as it takes.
    ///
    /// Returns ret: 0, or 107001 if there is no such device. C: aclrtDeviceTaskAbort.
    fn device_task_abort(device_id: Device, timeout: u32)
        = aclrtDeviceTaskAbort(device_id, timeout);

    /// Tells the lowest priority of streams and the highest: 7 and 0.
    ///
    /// Returns (least, greatest, ret). C: aclrtDeviceGetStreamPriorityRange.
    fn device_get_stream_priority_range() -> (least: i32, greatest: i32)
        = aclrtDeviceGetStreamPriorityRange(least, greatest);

    /// Tells the driver's number of a device, which is another one where ASCEND_RT_VISIBLE_DEVICES is set.
    ///
    /// user_dev_id: the number by which this process knows the device.
    ///
    /// Returns (logic_dev_id, ret): ret is 107001 if there is no such device. C:
    /// aclrtGetLogicDevIdByUserDevId.
    fn get_logic_dev_id_by_user_dev_id(user_dev_id: Device) -> (logic_dev_id: i32)
        = aclrtGetLogicDevIdByUserDevId(user_dev_id, logic_dev_id);

    /// Tells whether a device is set: whether acl.rt.set_device was called more often than it was taken back.
    ///
    /// device_id: any device.
    ///
    /// Returns (active, flags, ret): active is 1 or 0, flags is 0; ret is 107001 if there is no such device.
    /// C: aclrtGetPrimaryCtxState.
    fn get_primary_ctx_state(device_id: Device) -> (active: i32, flags: u32)
        = aclrtGetPrimaryCtxState(device_id, flags, active);

    /// Waits for all work of the current device, of every context.
    ///
    /// Returns ret: 0, or the first error of that work. C: aclrtSynchronizeDevice.
    fn synchronize_device()
        = aclrtSynchronizeDevice();

    /// Waits for all work of the current device, for some time at most.
    ///
    /// timeout: milliseconds, more than 0, or -1 for as long as it takes.
    ///
    /// Returns ret: 0, 507046 if the time was up, or the first error of that work. C:
    /// aclrtSynchronizeDeviceWithTimeout.
    fn synchronize_device_with_timeout(timeout: i32)
        = aclrtSynchronizeDeviceWithTimeout(timeout);

    /// Tells whether a device can reach the memory of another one.
    ///
    /// dev_id, peer_dev_id: two different devices.
    ///
    /// Returns (can, ret): 1 if it can, 0 if not. C: aclrtDeviceCanAccessPeer.
    fn device_can_access_peer(dev_id: Device, peer_dev_id: Device) -> (can: i32)
        = aclrtDeviceCanAccessPeer(can, dev_id, peer_dev_id);

    /// Lets the current device reach the memory of another one; the other direction needs a call of its own
    /// (X9).
    ///
    /// peer_dev_id: the other device. flag: 0.
    ///
    /// Returns ret: 0, or an error code. C: aclrtDeviceEnablePeerAccess.
    fn device_enable_peer_access(peer_dev_id: Device, flag: u32)
        = aclrtDeviceEnablePeerAccess(peer_dev_id, flag);

    /// Takes device_enable_peer_access back.
    ///
    /// peer_dev_id: the other device.
    ///
    /// Returns ret: 0, or an error code. C: aclrtDeviceDisablePeerAccess.
    fn device_disable_peer_access(peer_dev_id: Device)
        = aclrtDeviceDisablePeerAccess(peer_dev_id);

    /// Tells whether a device was let reach the memory of another one.
    ///
    /// device_id: the device that called acl.rt.device_enable_peer_access. peer_device_id: the other one.
    ///
    /// Returns (status, ret): 1 if so, 0 if not. C: aclrtDevicePeerAccessStatus.
    fn device_peer_access_status(device_id: i32, peer_device_id: i32) -> (status: i32)
        = aclrtDevicePeerAccessStatus(device_id, peer_device_id, status);

    /// Tells how much memory of the current device is free, and how much there is.
    ///
    /// attr: 0 DDR, 1 HBM; 2 DDR in huge pages, 3 DDR in normal pages, 4 HBM in huge pages, 5 HBM in normal
    /// pages; 6 to 9 as 2 to 5, for copies between devices (P2P); 10 HBM in pages of 1 GiB, 11 the same for
    /// P2P; and without saying whether DDR or HBM, 12 normal pages, 13 huge pages, 14 pages of 1 GiB, 15 to
    /// 17 the same for P2P. Huge pages have 2 MiB. Memory that the product does not have is 0 and 0.
    ///
    /// Returns (free, total, ret): bytes. C: aclrtGetMemInfo.
    fn get_mem_info(attr: i32) -> (free: Size, total: Size)
        = aclrtGetMemInfo(attr, free, total);

    /// Makes a context on a device, and makes it current in this thread.
    ///
    /// device_id: the device. The context has a default stream of its own.
    ///
    /// Returns (context, ret). C: aclrtCreateContext.
    fn create_context(device_id: Device) -> (context: Address)
        = aclrtCreateContext(context, device_id);

    /// Ends a context that create_context made, and waits for the work of its streams.
    ///
    /// ctx: the context.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtDestroyContext.
    fn destroy_context(ctx: Address)
        = aclrtDestroyContext(ctx);

    /// Makes a context current in this thread, and its device with it. A new thread has none.
    ///
    /// ctx: what acl.rt.create_context or acl.rt.get_context returned.
    ///
    /// Returns ret: 0, or an error code; then the thread keeps the one it has. C: aclrtSetCurrentContext.
    fn set_context(ctx: Address)
        = aclrtSetCurrentContext(ctx);

    /// Tells which context is current in this thread.
    ///
    /// Returns (context, ret): ret is 107002 if the thread has none. C: aclrtGetCurrentContext.
    fn get_context() -> (context: Address)
        = aclrtGetCurrentContext(context);
}

/// Tells how busy a device is.
///
/// device_id: the device; it need not be current.
///
/// Returns (utilization_info, ret): a dict with cubeUtilization, vectorUtilization, aicpuUtilization and
/// memoryUtilization in per cent, -1 where the device cannot tell, and utilizationExtend, which is 0. C:
/// aclrtGetDeviceUtilizationRate.
#[pyfunction]
#[pyo3(signature = (device_id, /))]
fn get_device_utilization_rate(py: Python<'_>, device_id: Int<Device>) -> PyResult<(Bound<'_, PyDict>, i32)> {
    let mut info = dicts::no_utilization();
    let nothing = dicts::utilization(py, &info)?;
    take!(py, "acl.rt.get_device_utilization_rate", [device_id], |code| (nothing, code));
    let at = &raw mut info as usize;
    // SAFETY: `info` is writable for the time of the call.
    let code = enter(py, |library| unsafe {
        (library.functions.aclrtGetDeviceUtilizationRate)(device_id, at as *mut ferry_abi::Utilization)
    })?;
    Ok((dicts::utilization(py, &info)?, code))
}
