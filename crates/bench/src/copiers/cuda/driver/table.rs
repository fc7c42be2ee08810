//! The driver's functions and types, as its documents have them.
//!
//! A driver may lack the functions for batches and graphs.

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;

use crate::matrix::Matrix;

/// `CUresult`: 0 is success.
pub type CuResult = i32;
/// A context, stream, event, module or function of the driver.
pub type CudaHandle = usize;
/// A function that a stream calls on the host, with its argument.
pub type CudaHostFunction = unsafe extern "C" fn(*mut c_void);

functions! {
    /// The functions of the driver that are used. Device addresses are numbers.
    pub CudaFunctions {
        cuGetErrorName: fn(CuResult, *mut *const c_char) -> CuResult;
        cuDriverGetVersion: fn(*mut i32) -> CuResult;
        cuDeviceGet: fn(*mut i32, i32) -> CuResult;
        cuDeviceGetName: fn(*mut c_char, i32, i32) -> CuResult;
        cuDeviceGetAttribute: fn(*mut i32, i32, i32) -> CuResult;
        cuDevicePrimaryCtxRetain: fn(*mut CudaHandle, i32) -> CuResult;
        cuCtxPushCurrent_v2: fn(CudaHandle) -> CuResult;
        cuCtxPopCurrent_v2: fn(*mut CudaHandle) -> CuResult;
        cuStreamCreate: fn(*mut CudaHandle, u32) -> CuResult;
        cuStreamDestroy_v2: fn(CudaHandle) -> CuResult;
        cuStreamSynchronize: fn(CudaHandle) -> CuResult;
        cuStreamWaitEvent: fn(CudaHandle, CudaHandle, u32) -> CuResult;
        cuEventCreate: fn(*mut CudaHandle, u32) -> CuResult;
        cuEventDestroy_v2: fn(CudaHandle) -> CuResult;
        cuEventRecord: fn(CudaHandle, CudaHandle) -> CuResult;
        cuEventQuery: fn(CudaHandle) -> CuResult;
        cuEventSynchronize: fn(CudaHandle) -> CuResult;
        cuEventElapsedTime: fn(*mut f32, CudaHandle, CudaHandle) -> CuResult;
        cuMemcpyAsync: fn(usize, usize, usize, CudaHandle) -> CuResult;
        cuMemcpyHtoD_v2: fn(usize, *const c_void, usize) -> CuResult;
        cuMemcpyDtoH_v2: fn(*mut c_void, usize, usize) -> CuResult;
        cuMemcpy2DAsync_v2: fn(*const Rectangle, CudaHandle) -> CuResult;
        cuMemsetD8Async: fn(usize, u8, usize, CudaHandle) -> CuResult;
        cuMemsetD32Async: fn(usize, u32, usize, CudaHandle) -> CuResult;
        cuLaunchHostFunc: fn(CudaHandle, CudaHostFunction, *mut c_void) -> CuResult;
        cuMemAlloc_v2: fn(*mut usize, usize) -> CuResult;
        cuMemFree_v2: fn(usize) -> CuResult;
        cuMemHostAlloc: fn(*mut *mut c_void, usize, u32) -> CuResult;
        cuMemFreeHost: fn(*mut c_void) -> CuResult;
        cuMemHostRegister_v2: fn(*mut c_void, usize, u32) -> CuResult;
        cuMemHostUnregister: fn(*mut c_void) -> CuResult;
        cuModuleLoadData: fn(*mut CudaHandle, *const c_void) -> CuResult;
        cuModuleGetFunction: fn(*mut CudaHandle, CudaHandle, *const c_char) -> CuResult;
        cuFuncSetAttribute: fn(CudaHandle, i32, i32) -> CuResult;
        cuLaunchKernel: fn(
            CudaHandle, u32, u32, u32, u32, u32, u32, u32, CudaHandle, *mut *mut c_void, *mut *mut c_void
        ) -> CuResult;
    }
}

/// A rectangle to move, as the driver wants it.
#[repr(C)]
#[derive(Default)]
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

impl Rectangle {
    /// Rows from one address to another.
    pub fn new(dst_device: usize, src_device: usize, rows: &Matrix) -> Rectangle {
        /// CU_MEMORYTYPE_UNIFIED: the address says where the memory is.
        const UNIFIED: u32 = 4;
        Rectangle {
            src_type: UNIFIED,
            src_device,
            src_pitch: rows.src_pitch,
            dst_type: UNIFIED,
            dst_device,
            dst_pitch: rows.dst_pitch,
            width: rows.width,
            height: rows.height,
            ..Rectangle::default()
        }
    }
}

/// cuMemcpyBatchAsync as it is since CUDA 12.8: targets, sources, lengths, how many; attributes, the piece
/// that each begins with, how many; which piece failed; the stream.
pub type BatchFunction = unsafe extern "C" fn(
    *mut usize,
    *mut usize,
    *mut usize,
    usize,
    *mut BatchAttributes,
    *mut usize,
    usize,
    *mut usize,
    CudaHandle,
) -> CuResult;
/// cuGetProcAddress since CUDA 12.0: the name, where the function goes, the version it is wanted in, flags,
/// what was found.
type LookupFunction = unsafe extern "C" fn(*const c_char, *mut *mut c_void, i32, u64, *mut i32) -> CuResult;

/// How the pieces of a batch are read, as the driver wants it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct BatchAttributes {
    source_order: u32,
    source_hint: [i32; 2],
    target_hint: [i32; 2],
    flags: u32,
}

impl BatchAttributes {
    /// Sources are read in stream order, as Ferry reads them.
    pub fn in_stream_order() -> BatchAttributes {
        const STREAM: u32 = 1;
        BatchAttributes { source_order: STREAM, ..BatchAttributes::default() }
    }
}

functions! {
    /// The functions for graphs.
    pub GraphFunctions {
        cuStreamBeginCapture_v2: fn(CudaHandle, i32) -> CuResult;
        cuStreamEndCapture: fn(CudaHandle, *mut CudaHandle) -> CuResult;
        cuGraphInstantiateWithFlags: fn(*mut CudaHandle, CudaHandle, u64) -> CuResult;
        cuGraphUpload: fn(CudaHandle, CudaHandle) -> CuResult;
        cuGraphLaunch: fn(CudaHandle, CudaHandle) -> CuResult;
    }
}

/// Finds cuMemcpyBatchAsync with the arguments of CUDA 12.8. It has other ones since CUDA 13.0; the driver
/// keeps both, and the version selects one.
pub fn find_batch(library: &libloading::Library) -> Option<BatchFunction> {
    const VERSION: i32 = 12080;
    // SAFETY: the type is the prototype that the driver gives this name.
    let lookup = *unsafe { library.get::<LookupFunction>(b"cuGetProcAddress_v2\0") }.ok()?;
    let (mut found, mut status) = (null_mut(), 0);
    // SAFETY: the name is a string, and what is written to is writable.
    let code = unsafe { lookup(c"cuMemcpyBatchAsync".as_ptr(), &mut found, VERSION, 0, &mut status) };
    let found = (code == 0 && status == 0 && !found.is_null()).then_some(found)?;
    // SAFETY: it is the function of this name in this version, and so of this type.
    Some(unsafe { std::mem::transmute::<*mut c_void, BatchFunction>(found) })
}

/// The functions for graphs, if the driver has all of them.
pub fn find_graphs(library: &libloading::Library) -> Option<GraphFunctions> {
    // SAFETY: it is a CUDA driver, by its name.
    unsafe { GraphFunctions::load(library) }.ok()
}

#[cfg(test)]
mod tests {
    use super::{BatchAttributes, Rectangle};

    #[test]
    fn what_the_driver_reads_is_laid_out_as_it_documents() {
        assert_eq!((size_of::<Rectangle>(), size_of::<BatchAttributes>()), (128, 24));
    }
}
