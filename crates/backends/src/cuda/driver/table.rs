//! The table of driver functions as C declares them, those that are called here and no others. Only this
//! folder calls them.
//!
//! The table is our own, in place of cudarc's raw bindings, since it is short: some fifty functions with
//! numbers for handles and addresses, so that nothing needs a CUDA toolkit to build, what older drivers lack
//! is optional, and no binding's types spread.

use ferry_core::Rows;
use libloading::Library;
use std::ffi::{c_char, c_void};

/// A result code of the driver.
pub type Code = i32;
/// A stream, event, context, module or function of the driver; 0 is none.
pub type Handle = usize;
/// What the driver calls when a stream gets there, with the stream, the result so far, and the caller's data.
pub type Callback = unsafe extern "C" fn(Handle, Code, *mut c_void);

/// The call did what was asked.
pub const SUCCESS: Code = 0;
/// The work asked about is not done yet.
pub const NOT_READY: Code = 600;

/// Where an address lies is found by the address itself.
const MEMORY_UNIFIED: u32 = 4;

/// What can be asked about an address.
#[repr(u32)]
#[derive(Clone, Copy, Debug)]
pub enum Attribute {
    /// The context; 0 for memory that belongs to none: that of a pool, or mapped.
    Context = 1,
    /// 0 for plain host memory, 1 for page-locked, 2 for a device's.
    MemoryType = 2,
    /// The number of the device.
    Device = 9,
    /// Where the allocation starts.
    Start = 11,
    /// How long it is.
    Len = 12,
    /// The pool that it is of, or 0.
    Pool = 17,
    /// How much was mapped there at once.
    MappingLen = 18,
    /// Where that starts.
    MappingStart = 19,
}

/// A rectangle to copy (`CUDA_MEMCPY2D`). Memory types are always [`MEMORY_UNIFIED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rectangle {
    src_x: usize,
    src_y: usize,
    src_type: u32,
    src_host: usize,
    src_device: usize,
    src_array: usize,
    src_pitch: usize,
    dst_x: usize,
    dst_y: usize,
    dst_type: u32,
    dst_host: usize,
    dst_device: usize,
    dst_array: usize,
    dst_pitch: usize,
    width: usize,
    height: usize,
}

impl From<&Rows> for Rectangle {
    fn from(rows: &Rows) -> Rectangle {
        Rectangle {
            src_type: MEMORY_UNIFIED,
            src_device: rows.src,
            src_pitch: rows.src_pitch,
            dst_type: MEMORY_UNIFIED,
            dst_device: rows.dst,
            dst_pitch: rows.dst_pitch,
            width: rows.width,
            height: rows.height,
            ..Rectangle::default()
        }
    }
}

/// How the driver may do a batch (`CUmemcpyAttributes`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BatchAttributes {
    /// When sources are read.
    src_access_order: u32,
    /// A hint where sources are.
    src_location: [i32; 2],
    /// A hint where destinations are.
    dst_location: [i32; 2],
    /// Flags of the driver.
    flags: u32,
}

impl BatchAttributes {
    /// Sources are read when the stream gets there.
    pub const IN_STREAM_ORDER: BatchAttributes =
        BatchAttributes { src_access_order: 1, src_location: [0; 2], dst_location: [0; 2], flags: 0 };
}

/// How a kernel is launched (`CUlaunchConfig`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of shared memory that are given at the launch.
    pub shared: u32,
    /// Where it is launched.
    pub stream: Handle,
    /// What else is said of it.
    pub attributes: *const LaunchAttribute,
    /// How much that is.
    pub attribute_count: u32,
}

/// What else is said of a launch (`CUlaunchAttribute`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute {
    id: u32,
    unused: u32,
    value: [u32; 16],
}

impl LaunchAttribute {
    /// Blocks go to neighbouring multiprocessors in clusters of so many.
    pub const fn clusters_of(blocks: u32) -> LaunchAttribute {
        const CLUSTER_DIMENSION: u32 = 4;
        let mut value = [0; 16];
        (value[0], value[1], value[2]) = (blocks, 1, 1);
        LaunchAttribute { id: CLUSTER_DIMENSION, unused: 0, value }
    }
}

/// cuMemcpyBatchAsync: destinations, sources, lengths and number of segments; attributes, the first segment
/// that each is about, and how many; which segment was refused; the stream.
pub type CopyBatch = unsafe extern "C" fn(
    *const usize,
    *const usize,
    *const usize,
    usize,
    *const BatchAttributes,
    *const usize,
    usize,
    *mut usize,
    Handle,
) -> Code;

/// What another process opens an allocation with (`CUipcMemHandle`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpcHandle(pub [u8; 64]);

macro_rules! functions {
    (
        needed { $($name:ident = $symbol:literal ($($kind:ty),*);)* }
        optional { $($more:ident = $newer:literal ($($with:ty),*);)* }
    ) => {
        /// Pointers into the driver library, which is never unloaded. What older drivers lack is optional.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($kind),*) -> Code,)*
            $(pub $more: Option<unsafe extern "C" fn($($with),*) -> Code>,)*
        }

        impl Functions {
            /// # Safety
            /// `library` is a CUDA driver and is never unloaded.
            pub unsafe fn find(library: &Library) -> Result<Self, libloading::Error> {
                Ok(Functions {
                    // SAFETY: the type is that of the driver's function of this name.
                    $($name: unsafe { *library.get($symbol)? },)*
                    // SAFETY: as above.
                    $($more: unsafe { library.get($newer) }.ok().map(|found| *found),)*
                })
            }
        }
    };
}

functions! {
    needed {
        cuInit = "cuInit" (u32);
        cuGetErrorName = "cuGetErrorName" (Code, *mut *const c_char);
        cuGetErrorString = "cuGetErrorString" (Code, *mut *const c_char);
        cuDeviceGetCount = "cuDeviceGetCount" (*mut i32);
        cuDeviceGet = "cuDeviceGet" (*mut i32, i32);
        cuDevicePrimaryCtxRetain = "cuDevicePrimaryCtxRetain" (*mut Handle, i32);
        cuDevicePrimaryCtxRelease = "cuDevicePrimaryCtxRelease_v2" (i32);
        cuCtxPushCurrent = "cuCtxPushCurrent_v2" (Handle);
        cuCtxPopCurrent = "cuCtxPopCurrent_v2" (*mut Handle);
        cuMemGetInfo = "cuMemGetInfo_v2" (*mut usize, *mut usize);
        cuMemAlloc = "cuMemAlloc_v2" (*mut usize, usize);
        cuMemFree = "cuMemFree_v2" (usize);
        cuMemHostAlloc = "cuMemHostAlloc" (*mut usize, usize, u32);
        cuMemFreeHost = "cuMemFreeHost" (usize);
        cuMemHostRegister = "cuMemHostRegister_v2" (usize, usize, u32);
        cuMemHostUnregister = "cuMemHostUnregister" (usize);
        cuPointerGetAttributes = "cuPointerGetAttributes" (u32, *const Attribute, *mut *mut c_void, usize);
        cuStreamCreate = "cuStreamCreate" (*mut Handle, u32);
        cuStreamDestroy = "cuStreamDestroy_v2" (Handle);
        cuStreamSynchronize = "cuStreamSynchronize" (Handle);
        cuStreamQuery = "cuStreamQuery" (Handle);
        cuStreamWaitEvent = "cuStreamWaitEvent" (Handle, Handle, u32);
        cuStreamAddCallback = "cuStreamAddCallback" (Handle, Callback, *mut c_void, u32);
        cuEventCreate = "cuEventCreate" (*mut Handle, u32);
        cuEventDestroy = "cuEventDestroy_v2" (Handle);
        cuEventRecord = "cuEventRecord" (Handle, Handle);
        cuEventQuery = "cuEventQuery" (Handle);
        cuEventSynchronize = "cuEventSynchronize" (Handle);
        cuEventElapsedTime = "cuEventElapsedTime" (*mut f32, Handle, Handle);
        cuMemcpyAsync = "cuMemcpyAsync" (usize, usize, usize, Handle);
        cuMemcpy2DAsync = "cuMemcpy2DAsync_v2" (*const Rectangle, Handle);
        cuMemsetD8Async = "cuMemsetD8Async" (usize, u8, usize, Handle);
        cuMemsetD32Async = "cuMemsetD32Async" (usize, u32, usize, Handle);
        cuModuleLoadData = "cuModuleLoadData" (*mut Handle, *const c_void);
        cuModuleGetFunction = "cuModuleGetFunction" (*mut Handle, Handle, *const c_char);
        cuLaunchKernel = "cuLaunchKernel"
            (Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    }
    optional {
        cuDeviceGetAttribute = "cuDeviceGetAttribute" (*mut i32, i32, i32);
        cuStreamCreateWithPriority = "cuStreamCreateWithPriority" (*mut Handle, u32, i32);
        cuCtxGetStreamPriorityRange = "cuCtxGetStreamPriorityRange" (*mut i32, *mut i32);
        cuLaunchKernelEx = "cuLaunchKernelEx"
            (*const LaunchConfig, Handle, *mut *mut c_void, *mut *mut c_void);
        cuDeviceTotalMem = "cuDeviceTotalMem_v2" (*mut usize, i32);
        cuStreamGetCtx = "cuStreamGetCtx" (Handle, *mut Handle);
        cuStreamIsCapturing = "cuStreamIsCapturing" (Handle, *mut i32);
        cuStreamWaitValue64 = "cuStreamWaitValue64_v2" (Handle, usize, u64, u32);
        cuStreamWriteValue64 = "cuStreamWriteValue64_v2" (Handle, usize, u64, u32);
        cuGetProcAddress = "cuGetProcAddress_v2" (*const c_char, *mut *mut c_void, i32, u64, *mut i32);
        cuIpcGetMemHandle = "cuIpcGetMemHandle" (*mut IpcHandle, usize);
        cuIpcOpenMemHandle = "cuIpcOpenMemHandle_v2" (*mut usize, IpcHandle, u32);
        cuIpcCloseMemHandle = "cuIpcCloseMemHandle" (usize);
    }
}
