//! `aclrtMemcpyKind`: from where to where a copy goes.

/// Within host memory.
pub const HOST_TO_HOST: i32 = 0;
/// From host memory to a device.
pub const HOST_TO_DEVICE: i32 = 1;
/// From a device to host memory.
pub const DEVICE_TO_HOST: i32 = 2;
/// Within a device, or from one to another.
pub const DEVICE_TO_DEVICE: i32 = 3;
/// As the addresses say.
pub const DEFAULT: i32 = 4;
/// From host memory to a device by way of a staging buffer: the source may be freed at once.
pub const HOST_TO_BUF_TO_DEVICE: i32 = 5;
/// Within a device.
pub const INNER_DEVICE_TO_DEVICE: i32 = 6;
/// From one device to another.
pub const INTER_DEVICE_TO_DEVICE: i32 = 7;
