//! The C types.

use std::ffi::c_void;

/// 0 is success; see the error table.
pub type aclError = i32;
/// A stream's handle; NULL is the default stream of the current context.
pub type aclrtStream = *mut c_void;
/// An event's handle.
pub type aclrtEvent = *mut c_void;
/// A context's handle.
pub type aclrtContext = *mut c_void;
/// A function that runs on the host in stream order.
pub type aclrtHostFunc = Option<unsafe extern "C" fn(args: *mut c_void)>;

/// A function that a subscribed thread runs.
pub type aclrtCallback = Option<unsafe extern "C" fn(userData: *mut c_void)>;

/// Where memory is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtMemLocation {
    /// Device id; ignored for host memory.
    pub id: u32,
    /// aclrtMemLocationType.
    pub type_: i32,
}

/// What memory a group of copies of a batch is in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtMemcpyBatchAttr {
    /// Where the destinations are.
    pub dstLoc: aclrtMemLocation,
    /// Where the sources are.
    pub srcLoc: aclrtMemLocation,
    /// Must be zero.
    pub rsv: [u8; 16],
}

/// What a pointer belongs to.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtPtrAttributes {
    /// Where it is.
    pub location: aclrtMemLocation,
    /// Bytes of a page.
    pub pageSize: u32,
    /// Zero.
    pub rsv: [u32; 4],
}
