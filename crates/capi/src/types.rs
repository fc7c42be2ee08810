//! The C types.

use std::ffi::{c_char, c_void};

/// 0 is success; see the error table.
pub type aclError = i32;
/// A 16-bit float as its bits.
pub type aclFloat16 = u16;
/// A stream's handle; NULL is the default stream of the current context.
pub type aclrtStream = *mut c_void;
/// An event's handle.
pub type aclrtEvent = *mut c_void;
/// A notify's handle.
pub type aclrtNotify = *mut c_void;
/// A model's handle.
pub type aclmdlRI = *mut c_void;
/// A task group's handle.
pub type aclrtTaskGrp = *mut c_void;
/// A context's handle.
pub type aclrtContext = *mut c_void;
/// A handle of physical memory.
pub type aclrtDrvMemHandle = *mut c_void;
/// A function that runs on the host in stream order.
pub type aclrtHostFunc = Option<unsafe extern "C" fn(args: *mut c_void)>;

/// A function that a subscribed thread runs.
pub type aclrtCallback = Option<unsafe extern "C" fn(userData: *mut c_void)>;

/// A task that failed, as the user's function knows it: a handle, and no memory.
pub enum aclrtExceptionInfo {}

/// A function that hears of failed tasks.
pub type aclrtExceptionInfoCallback = Option<unsafe extern "C" fn(exceptionInfo: *mut aclrtExceptionInfo)>;

/// An event as other processes open it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct aclrtIpcEventHandle {
    /// Opaque.
    pub reserved: [c_char; 64],
}

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

/// Value of one setting of an allocation: 16 bits for a module, 32 for a device or a flag.
#[repr(C)]
#[derive(Clone, Copy)]
pub union aclrtMallocAttrValue {
    /// Module that owns the memory.
    pub moduleId: u16,
    /// Device of the memory.
    pub deviceId: u32,
    /// Kind of virtual address.
    pub vaFlag: u32,
    /// Reserved.
    pub rsv: [u8; 8],
}

/// One setting of an allocation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct aclrtMallocAttribute {
    /// aclrtMallocAttrType.
    pub attr: i32,
    /// Its value.
    pub value: aclrtMallocAttrValue,
}

/// Settings of an allocation.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct aclrtMallocConfig {
    /// The settings.
    pub attrs: *mut aclrtMallocAttribute,
    /// How many.
    pub numAttrs: usize,
}

/// Properties of physical memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtPhysicalMemProp {
    /// aclrtMemHandleType.
    pub handleType: i32,
    /// aclrtMemAllocationType.
    pub allocationType: i32,
    /// aclrtMemAttr.
    pub memAttr: i32,
    /// Where.
    pub location: aclrtMemLocation,
    /// Reserved.
    pub reserve: u64,
}

/// A place, and how it may touch memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtMemAccessDesc {
    /// aclrtMemAccessFlags.
    pub flags: i32,
    /// The place.
    pub location: aclrtMemLocation,
    /// Must be zero.
    pub rsv: [u8; 12],
}

/// The version of a package, whole and in parts.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct aclCANNPackageVersion {
    /// The whole.
    pub version: [c_char; 128],
    /// The first part.
    pub majorVersion: [c_char; 64],
    /// The second part.
    pub minorVersion: [c_char; 64],
    /// The third part, or 0.
    pub releaseVersion: [c_char; 64],
    /// The fourth part, or 0.
    pub patchVersion: [c_char; 64],
    /// Zero.
    pub reserved: [c_char; 128],
}

/// How busy a device is, in per cent; -1 where it cannot tell.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct aclrtUtilizationInfo {
    /// Cube cores.
    pub cubeUtilization: i32,
    /// Vector cores.
    pub vectorUtilization: i32,
    /// AI CPUs.
    pub aicpuUtilization: i32,
    /// Memory.
    pub memoryUtilization: i32,
    /// NULL.
    pub utilizationExtend: *mut c_void,
}

/// Value of a stream attribute.
#[repr(C)]
#[derive(Clone, Copy)]
pub union aclrtStreamAttrValue {
    /// What a failure of the stream's work does.
    pub failureMode: u64,
    /// Whether overflows are looked for.
    pub overflowSwitch: u32,
    /// The user's own tag.
    pub userCustomTag: u32,
    /// Whether information on operators is kept.
    pub cacheOpInfoSwitch: u32,
    /// 0 (highest) to 7.
    pub streamPriority: u32,
    /// Reserved.
    pub reserve: [u32; 4],
}

/// Memory that one module uses.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtMemUsageInfo {
    /// The module.
    pub name: [c_char; 32],
    /// Bytes now.
    pub curMemSize: u64,
    /// Most bytes so far.
    pub memPeakSize: u64,
    /// Zero.
    pub reserved: [usize; 8],
}

/// A range with an uncorrectable memory error.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct aclrtMemUceInfo {
    /// Its start.
    pub addr: *mut c_void,
    /// Its length in bytes.
    pub len: usize,
    /// Zero.
    pub reserved: [usize; 14],
}

impl Default for aclrtMemUceInfo {
    fn default() -> Self {
        aclrtMemUceInfo { addr: std::ptr::null_mut(), len: 0, reserved: [0; 14] }
    }
}

/// Ranges with memory errors.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtMemUceInfoArray {
    /// How many.
    pub arraySize: usize,
    /// The ranges.
    pub memUceInfoArray: [aclrtMemUceInfo; 20],
}

/// More about a fault, by its kind.
#[repr(C)]
#[derive(Clone, Copy)]
pub union aclrtErrorInfoDetail {
    /// Of memory.
    pub uceInfo: aclrtMemUceInfoArray,
    /// Of AI cores: aclrtAicoreErrorType.
    pub aicoreErrType: i32,
}

/// What is wrong with a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct aclrtErrorInfo {
    /// Whether it can be repaired.
    pub tryRepair: u8,
    /// Whether `detail` says more.
    pub hasDetail: u8,
    /// Zero.
    pub reserved: [u8; 2],
    /// aclrtErrorType.
    pub errorType: i32,
    /// More about it.
    pub detail: aclrtErrorInfoDetail,
}

/// What names a device on its machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct aclrtUuid {
    /// 16 bytes.
    pub bytes: [c_char; 16],
}
