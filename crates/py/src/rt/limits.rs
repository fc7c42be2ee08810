//! Limits of cores that operators may use. There are no operators here: limits are kept, and told when asked.

use crate::call::{Address, Device, functions};
use pyo3::prelude::*;

/// Adds the functions of this file.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)
}

functions! { "acl.rt":
    /// Limits the cores of a device for this process. The last one counts.
    ///
    /// device_id: the device. type: 0 cube cores, 1 vector cores. value: 1 to as many as the product has.
    ///
    /// Returns ret: 0, or 107000 for another type or value. C: aclrtSetDeviceResLimit.
    fn set_device_res_limit(device_id: Device, r#type: i32, value: u32)
        = aclrtSetDeviceResLimit(device_id, r#type, value);

    /// Tells how many cores of a device this process may use: what was set, else what the product has.
    ///
    /// As set_device_res_limit.
    ///
    /// Returns (value, ret). C: aclrtGetDeviceResLimit.
    fn get_device_res_limit(device_id: Device, r#type: i32) -> (value: u32)
        = aclrtGetDeviceResLimit(device_id, r#type, value);

    /// Ends all limits of a device.
    ///
    /// device_id: the device.
    ///
    /// Returns ret: 0, or 107001 if there is no such device. C: aclrtResetDeviceResLimit.
    fn reset_device_res_limit(device_id: Device)
        = aclrtResetDeviceResLimit(device_id);

    /// Limits the cores of a stream. The last one counts.
    ///
    /// stream: 0 is the default stream. type: 0 cube cores, 1 vector cores. value: 1 to as many as the
    /// product has.
    ///
    /// Returns ret: 0, or 107000 for another type or value. C: aclrtSetStreamResLimit.
    fn set_stream_res_limit(stream: Address, r#type: i32, value: u32)
        = aclrtSetStreamResLimit(stream, r#type, value);

    /// Tells how many cores a stream may use: what was set for it, else for its device, else what the product
    /// has.
    ///
    /// As set_stream_res_limit.
    ///
    /// Returns (value, ret). C: aclrtGetStreamResLimit.
    fn get_stream_res_limit(stream: Address, r#type: i32) -> (value: u32)
        = aclrtGetStreamResLimit(stream, r#type, value);

    /// Ends all limits of a stream.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtResetStreamResLimit.
    fn reset_stream_res_limit(stream: Address)
        = aclrtResetStreamResLimit(stream);

    /// Has this thread use the limits of a stream. The last one counts.
    ///
    /// stream: 0 is the default stream.
    ///
    /// Returns ret: 0, or 107017 if it is none. C: aclrtUseStreamResInCurrentThread.
    fn use_stream_res_in_current_thread(stream: Address)
        = aclrtUseStreamResInCurrentThread(stream);

    /// Takes use_stream_res_in_current_thread back.
    ///
    /// Returns ret: 0, or 107000 if this thread uses the limits of another stream, or none. C:
    /// aclrtUnuseStreamResInCurrentThread.
    fn unuse_stream_res_in_current_thread(stream: Address)
        = aclrtUnuseStreamResInCurrentThread(stream);

    /// Tells how many cores this thread may use: by the stream whose limits it uses, else by its device, else
    /// what the product has.
    ///
    /// type: 0 cube cores, 1 vector cores.
    ///
    /// Returns (value, ret). C: aclrtGetResInCurrentThread.
    fn get_res_in_current_thread(r#type: i32) -> (value: u32)
        = aclrtGetResInCurrentThread(r#type, value);
}
