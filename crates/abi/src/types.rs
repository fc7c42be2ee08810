//! The types of the C ABI, laid out as `include/acl/` declares them.

#![allow(missing_docs)]

use std::ffi::{c_char, c_void};

/// `aclrtStream`, `aclrtEvent`, `aclrtContext` and `aclrtDrvMemHandle`.
pub type Handle = *mut c_void;
/// `aclrtHostFunc` and `aclrtCallback`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);
/// What a wait asks now and then: not 0 ends it.
pub type Check = unsafe extern "C" fn() -> i32;

/// `aclrtMemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Location {
    pub id: u32,
    pub kind: i32,
}

/// `aclrtMemcpyBatchAttr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct BatchAttribute {
    pub dst: Location,
    pub src: Location,
    pub reserved: [u8; 16],
}

/// `aclrtPtrAttributes`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PointerAttributes {
    pub location: Location,
    pub page: u32,
    pub reserved: [u32; 4],
}

/// `aclrtPhysicalMemProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PhysicalProperties {
    pub handle_type: i32,
    pub allocation_type: i32,
    pub attribute: i32,
    pub location: Location,
    pub reserve: u64,
}

/// `aclrtMallocAttribute`. The value is a union of numbers, the smallest first.
#[repr(C)]
pub struct MallocAttribute {
    pub attribute: i32,
    pub value: [u32; 2],
}

/// `aclrtMallocConfig`.
#[repr(C)]
pub struct MallocConfig {
    pub attributes: *mut MallocAttribute,
    pub count: usize,
}

/// `aclrtUtilizationInfo`.
#[repr(C)]
pub struct Utilization {
    pub cube: i32,
    pub vector: i32,
    pub ai_cpu: i32,
    pub memory: i32,
    pub extend: *mut c_void,
}

/// `aclrtStreamAttrValue`, a union of numbers, all of which begin where it begins.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct StreamAttribute {
    pub value: u64,
    pub reserved: u64,
}

/// `aclCANNPackageVersion`.
#[repr(C)]
pub struct PackageVersion {
    pub whole: [c_char; 128],
    pub parts: [[c_char; 64]; 4],
    pub reserved: [c_char; 128],
}
