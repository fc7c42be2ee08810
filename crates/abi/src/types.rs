//! The types of the C ABI, laid out as `include/acl/` declares them.

use std::ffi::{c_char, c_void};

/// `aclrtStream`, `aclrtEvent`, `aclrtContext` and `aclrtDrvMemHandle`.
pub type Handle = *mut c_void;
/// `aclrtHostFunc` and `aclrtCallback`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
/// The function that a wait calls between two slices: a value other than 0 ends the wait.
pub type Check = unsafe extern "C" fn() -> i32;

/// `aclrtMemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    /// The device's number.
    pub id: u32,
    /// `aclrtMemLocationType`.
    pub kind: i32,
}

/// `aclrtMemcpyBatchAttr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchAttribute {
    /// Where the targets are.
    pub dst: Location,
    /// Where the sources are.
    pub src: Location,
    /// Must be zero.
    pub reserved: [u8; 16],
}

/// `aclrtPtrAttributes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PointerAttributes {
    /// Where the memory is.
    pub location: Location,
    /// The size of its pages.
    pub page: u32,
    /// Not written.
    pub reserved: [u32; 4],
}

/// `aclrtPhysicalMemProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PhysicalProperties {
    /// `aclrtMemHandleType`.
    pub handle_type: i32,
    /// `aclrtMemAllocationType`.
    pub allocation_type: i32,
    /// `aclrtMemAttr`: the size of its pages.
    pub attribute: i32,
    /// Where the memory is.
    pub location: Location,
    /// Must be zero.
    pub reserve: u64,
}

/// `aclrtMallocAttribute`. The value is a union of numbers, the smallest first.
#[repr(C)]
pub struct MallocAttribute {
    /// `aclrtMallocAttrType`.
    pub attribute: i32,
    /// Its value.
    pub value: [u32; 2],
}

/// `aclrtMallocConfig`.
#[repr(C)]
pub struct MallocConfig {
    /// An array of attributes.
    pub attributes: *mut MallocAttribute,
    /// How many there are.
    pub count: usize,
}

/// `aclrtUtilizationInfo`.
#[repr(C)]
pub struct Utilization {
    /// Per cent of the cube units.
    pub cube: i32,
    /// Per cent of the vector units.
    pub vector: i32,
    /// Per cent of the AI CPUs.
    pub ai_cpu: i32,
    /// Per cent of the memory.
    pub memory: i32,
    /// Reserved.
    pub extend: *mut c_void,
}

/// `aclrtStreamAttrValue`, a union of numbers, all of which begin where it begins.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StreamAttribute {
    /// The number.
    pub value: u64,
    /// The rest of the union.
    pub reserved: u64,
}

/// `aclCANNPackageVersion`.
#[repr(C)]
pub struct PackageVersion {
    /// The whole version, as text.
    pub whole: [c_char; 128],
    /// Its four numbers, as texts.
    pub parts: [[c_char; 64]; 4],
    /// Reserved.
    pub reserved: [c_char; 128],
}
