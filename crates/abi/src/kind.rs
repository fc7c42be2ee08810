//! `aclrtMemcpyKind`: from where to where a copy goes.

#![allow(missing_docs)]

pub const HOST_TO_HOST: i32 = 0;
pub const HOST_TO_DEVICE: i32 = 1;
pub const DEVICE_TO_HOST: i32 = 2;
pub const DEVICE_TO_DEVICE: i32 = 3;
pub const DEFAULT: i32 = 4;
pub const HOST_TO_BUF_TO_DEVICE: i32 = 5;
pub const INNER_DEVICE_TO_DEVICE: i32 = 6;
pub const INTER_DEVICE_TO_DEVICE: i32 = 7;
