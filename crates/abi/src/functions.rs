//! The functions of the C ABI as tables of pointers, filled by name at run time.

#![allow(missing_docs)]

use std::ffi::{c_char, c_void};

use crate::types::*;

type Ptr = *mut c_void;
type Const = *const c_void;
type Ptrs = *mut Ptr;
type Usizes = *mut usize;
type Attributes = *mut BatchAttribute;
type Code = i32;

/// Declares the struct of function pointers and how each is found, from one list.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident { $($name:ident: fn($($arg:ty),*) -> $ret:ty;)* }) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        pub struct $table { $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)* }

        impl $table {
            /// Finds all of them; the error is the name of one that the library lacks.
            ///
            /// # Safety
            /// The library is Ferry's: what it exports under these names has these types.
            pub unsafe fn load(library: &libloading::os::unix::Library) -> Result<$table, &'static str> {
                Ok($table { $(
                    // SAFETY: the type is the prototype that our header gives this name.
                    $name: unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) }
                        .map(|symbol| *symbol)
                        .map_err(|_| stringify!($name))?,
                )* })
            }
        }
    };
}

functions! {
    /// The functions of the C ABI, under their own names.
    Functions {
        aclInit: fn(*const c_char) -> Code;
        aclFinalize: fn() -> Code;
        aclFinalizeReference: fn(*mut u64) -> Code;
        aclGetRecentErrMsg: fn() -> *const c_char;
        aclrtPeekAtLastError: fn(i32) -> Code;
        aclrtGetLastError: fn(i32) -> Code;
        aclrtGetVersion: fn(*mut i32, *mut i32, *mut i32) -> Code;
        aclsysGetVersionStr: fn(*mut c_char, *mut c_char) -> Code;
        aclsysGetVersionNum: fn(*mut c_char, *mut i32) -> Code;
        aclsysGetCANNVersion: fn(i32, *mut PackageVersion) -> Code;
        aclDataTypeSize: fn(i32) -> usize;
        aclFloat16ToFloat: fn(u16) -> f32;
        aclFloatToFloat16: fn(f32) -> u16;
        aclrtGetSocName: fn() -> *const c_char;
        aclrtGetRunMode: fn(*mut i32) -> Code;

        aclrtGetDeviceCount: fn(*mut u32) -> Code;
        aclrtSetDevice: fn(i32) -> Code;
        aclrtResetDevice: fn(i32) -> Code;
        aclrtResetDeviceForce: fn(i32) -> Code;
        aclrtGetDevice: fn(*mut i32) -> Code;
        aclrtSynchronizeDevice: fn() -> Code;
        aclrtSynchronizeDeviceWithTimeout: fn(i32) -> Code;
        aclrtGetMemInfo: fn(i32, *mut usize, *mut usize) -> Code;
        aclrtDeviceCanAccessPeer: fn(*mut i32, i32, i32) -> Code;
        aclrtDeviceEnablePeerAccess: fn(i32, u32) -> Code;
        aclrtDeviceDisablePeerAccess: fn(i32) -> Code;
        aclrtDevicePeerAccessStatus: fn(i32, i32, *mut i32) -> Code;
        aclGetDeviceCapability: fn(u32, i32, *mut i64) -> Code;
        aclrtGetDeviceInfo: fn(u32, i32, *mut i64) -> Code;
        aclrtGetDeviceUtilizationRate: fn(i32, *mut Utilization) -> Code;
        aclrtDeviceGetBareTgid: fn(*mut i32) -> Code;
        aclrtSetDeviceSatMode: fn(i32) -> Code;
        aclrtGetDeviceSatMode: fn(*mut i32) -> Code;
        aclrtSetSysParamOpt: fn(i32, i64) -> Code;
        aclrtGetSysParamOpt: fn(i32, *mut i64) -> Code;
        aclrtSetOpExecuteTimeOut: fn(u32) -> Code;
        aclrtQueryDeviceStatus: fn(i32, *mut i32) -> Code;
        aclrtDeviceTaskAbort: fn(i32, u32) -> Code;
        aclrtDeviceGetStreamPriorityRange: fn(*mut i32, *mut i32) -> Code;
        aclrtGetLogicDevIdByUserDevId: fn(i32, *mut i32) -> Code;
        aclrtGetPrimaryCtxState: fn(i32, *mut u32, *mut i32) -> Code;
        aclrtSetDeviceResLimit: fn(i32, i32, u32) -> Code;
        aclrtGetDeviceResLimit: fn(i32, i32, *mut u32) -> Code;
        aclrtResetDeviceResLimit: fn(i32) -> Code;
        aclrtGetResInCurrentThread: fn(i32, *mut u32) -> Code;
        aclrtCtxSetSysParamOpt: fn(i32, i64) -> Code;
        aclrtCtxGetSysParamOpt: fn(i32, *mut i64) -> Code;
        aclrtCreateContext: fn(*mut Handle, i32) -> Code;
        aclrtDestroyContext: fn(Handle) -> Code;
        aclrtGetCurrentContext: fn(*mut Handle) -> Code;
        aclrtSetCurrentContext: fn(Handle) -> Code;

        aclrtCreateStream: fn(*mut Handle) -> Code;
        aclrtCreateStreamWithConfig: fn(*mut Handle, u32, u32) -> Code;
        aclrtDestroyStream: fn(Handle) -> Code;
        aclrtDestroyStreamForce: fn(Handle) -> Code;
        aclrtStreamAbort: fn(Handle) -> Code;
        aclrtSetStreamFailureMode: fn(Handle, u64) -> Code;
        aclrtStreamGetId: fn(Handle, *mut i32) -> Code;
        aclrtSetStreamAttribute: fn(Handle, i32, *mut StreamAttribute) -> Code;
        aclrtGetStreamAttribute: fn(Handle, i32, *mut StreamAttribute) -> Code;
        aclrtSetStreamOverflowSwitch: fn(Handle, u32) -> Code;
        aclrtGetStreamOverflowSwitch: fn(Handle, *mut u32) -> Code;
        aclrtGetOverflowStatus: fn(Ptr, usize, Handle) -> Code;
        aclrtResetOverflowStatus: fn(Handle) -> Code;
        aclrtCmoAsync: fn(Ptr, usize, i32, Handle) -> Code;
        aclrtValueWrite: fn(Ptr, u64, u32, Handle) -> Code;
        aclrtValueWait: fn(Ptr, u64, u32, Handle) -> Code;
        aclrtSetStreamResLimit: fn(Handle, i32, u32) -> Code;
        aclrtGetStreamResLimit: fn(Handle, i32, *mut u32) -> Code;
        aclrtResetStreamResLimit: fn(Handle) -> Code;
        aclrtUseStreamResInCurrentThread: fn(Handle) -> Code;
        aclrtUnuseStreamResInCurrentThread: fn(Handle) -> Code;
        aclrtSynchronizeStream: fn(Handle) -> Code;
        aclrtSynchronizeStreamWithTimeout: fn(Handle, i32) -> Code;
        aclrtStreamQuery: fn(Handle, *mut i32) -> Code;
        aclrtStreamWaitEvent: fn(Handle, Handle) -> Code;
        aclrtLaunchHostFunc: fn(Handle, HostFunction, Ptr) -> Code;

        aclrtSubscribeReport: fn(u64, Handle) -> Code;
        aclrtProcessReport: fn(i32) -> Code;
        aclrtLaunchCallback: fn(HostFunction, Ptr, i32, Handle) -> Code;
        aclrtUnSubscribeReport: fn(u64, Handle) -> Code;

        aclrtCreateEvent: fn(*mut Handle) -> Code;
        aclrtCreateEventWithFlag: fn(*mut Handle, u32) -> Code;
        aclrtCreateEventExWithFlag: fn(*mut Handle, u32) -> Code;
        aclrtDestroyEvent: fn(Handle) -> Code;
        aclrtRecordEvent: fn(Handle, Handle) -> Code;
        aclrtResetEvent: fn(Handle, Handle) -> Code;
        aclrtQueryEvent: fn(Handle, *mut i32) -> Code;
        aclrtQueryEventWaitStatus: fn(Handle, *mut i32) -> Code;
        aclrtEventGetTimestamp: fn(Handle, *mut u64) -> Code;
        aclrtQueryEventStatus: fn(Handle, *mut i32) -> Code;
        aclrtSynchronizeEvent: fn(Handle) -> Code;
        aclrtSynchronizeEventWithTimeout: fn(Handle, i32) -> Code;
        aclrtEventElapsedTime: fn(*mut f32, Handle, Handle) -> Code;
        aclrtSetOpWaitTimeout: fn(u32) -> Code;

        aclrtCreateNotify: fn(*mut Handle, u64) -> Code;
        aclrtDestroyNotify: fn(Handle) -> Code;
        aclrtRecordNotify: fn(Handle, Handle) -> Code;
        aclrtWaitAndResetNotify: fn(Handle, Handle, u32) -> Code;
        aclrtNotifyBatchReset: fn(*mut Handle, usize) -> Code;
        aclrtNotifySetImportPid: fn(Handle, *mut i32, usize) -> Code;
        aclrtNotifyImportByKey: fn(*mut Handle, *const c_char, u64) -> Code;

        aclrtSetExceptionInfoCallback: fn(Option<HostFunction>) -> Code;
        aclrtGetTaskIdFromExceptionInfo: fn(Const) -> u32;
        aclrtGetStreamIdFromExceptionInfo: fn(Const) -> u32;
        aclrtGetThreadIdFromExceptionInfo: fn(Const) -> u32;
        aclrtGetDeviceIdFromExceptionInfo: fn(Const) -> u32;
        aclrtGetErrorCodeFromExceptionInfo: fn(Const) -> u32;

        aclrtMalloc: fn(*mut Ptr, usize, i32) -> Code;
        aclrtFree: fn(Ptr) -> Code;
        aclrtMallocHost: fn(*mut Ptr, usize) -> Code;
        aclrtFreeHost: fn(Ptr) -> Code;
        aclrtMallocAlign32: fn(*mut Ptr, usize, i32) -> Code;
        aclrtMallocCached: fn(*mut Ptr, usize, i32) -> Code;
        aclrtMallocWithCfg: fn(*mut Ptr, usize, i32, *mut MallocConfig) -> Code;
        aclrtMallocForTaskScheduler: fn(*mut Ptr, usize, i32, *mut MallocConfig) -> Code;
        aclrtFreeWithDevSync: fn(Ptr) -> Code;
        aclrtMallocHostWithCfg: fn(*mut Ptr, u64, *mut MallocConfig) -> Code;
        aclrtFreeHostWithDevSync: fn(Ptr) -> Code;
        aclrtHostRegister: fn(Ptr, u64, i32, *mut Ptr) -> Code;
        aclrtHostRegisterV2: fn(Ptr, u64, u32) -> Code;
        aclrtHostGetDevicePointer: fn(Ptr, *mut Ptr, u32) -> Code;
        aclrtHostUnregister: fn(Ptr) -> Code;
        aclrtPointerGetAttributes: fn(Const, *mut PointerAttributes) -> Code;

        aclrtReserveMemAddress: fn(*mut Ptr, usize, usize, Ptr, u64) -> Code;
        aclrtReleaseMemAddress: fn(Ptr) -> Code;
        aclrtMallocPhysical: fn(*mut Handle, usize, *const PhysicalProperties, u64) -> Code;
        aclrtFreePhysical: fn(Handle) -> Code;
        aclrtMapMem: fn(Ptr, usize, usize, Handle, u64) -> Code;
        aclrtUnmapMem: fn(Ptr) -> Code;
        aclrtMemGetAllocationGranularity: fn(*mut PhysicalProperties, i32, *mut usize) -> Code;
        aclrtMemExportToShareableHandle: fn(Handle, i32, u64, *mut u64) -> Code;
        aclrtMemSetPidToShareableHandle: fn(u64, *mut i32, usize) -> Code;
        aclrtMemImportFromShareableHandle: fn(u64, i32, *mut Handle) -> Code;
        aclrtMemExportToShareableHandleV2: fn(Handle, u64, i32, Ptr) -> Code;
        aclrtMemSetPidToShareableHandleV2: fn(Ptr, i32, *mut i32, usize) -> Code;
        aclrtMemImportFromShareableHandleV2: fn(Ptr, i32, u64, *mut Handle) -> Code;

        aclrtIpcMemGetExportKey: fn(Ptr, usize, *mut c_char, usize, u64) -> Code;
        aclrtIpcMemSetImportPid: fn(*const c_char, *mut i32, usize) -> Code;
        aclrtIpcMemImportByKey: fn(*mut Ptr, *const c_char, u64) -> Code;
        aclrtIpcMemClose: fn(*const c_char) -> Code;

        aclrtMemcpy: fn(Ptr, usize, Const, usize, i32) -> Code;
        aclrtMemcpyAsync: fn(Ptr, usize, Const, usize, i32, Handle) -> Code;
        aclrtMemcpyAsyncWithCondition: fn(Ptr, usize, Const, usize, i32, Handle) -> Code;
        aclrtMemcpy2d: fn(Ptr, usize, Const, usize, usize, usize, i32) -> Code;
        aclrtMemcpy2dAsync: fn(Ptr, usize, Const, usize, usize, usize, i32, Handle) -> Code;
        aclrtMemcpyBatch: fn(Ptrs, Usizes, Ptrs, Usizes, usize, Attributes, Usizes, usize, Usizes) -> Code;
        aclrtMemcpyBatchV2: fn(Ptrs, Usizes, Ptrs, Usizes, usize, Attributes, Usizes, usize) -> Code;
        aclrtMemcpyBatchAsync: fn(
            Ptrs, Usizes, Ptrs, Usizes, usize, Attributes, Usizes, usize, Usizes, Handle
        ) -> Code;
        aclrtMemcpyBatchAsyncV2: fn(
            Ptrs, Usizes, Ptrs, Usizes, usize, Attributes, Usizes, usize, Handle
        ) -> Code;
        aclrtGetMemcpyDescSize: fn(i32, *mut usize) -> Code;
        aclrtSetMemcpyDesc: fn(Ptr, i32, Ptr, Ptr, usize, Ptr) -> Code;
        aclrtMemcpyAsyncWithDesc: fn(Ptr, i32, Handle) -> Code;
        aclrtMemcpyAsyncWithOffset: fn(*mut Ptr, usize, usize, *mut Const, usize, usize, i32, Handle) -> Code;
        aclrtMemset: fn(Ptr, usize, i32, usize) -> Code;
        aclrtMemsetAsync: fn(Ptr, usize, i32, usize, Handle) -> Code;
        aclrtReduceAsync: fn(Ptr, Const, u64, i32, i32, Handle, Ptr) -> Code;
        aclrtMemsetD32: fn(Ptr, usize, u32, usize) -> Code;
        aclrtMemsetD32Async: fn(Ptr, usize, u32, usize, Handle) -> Code;

        aclmdlRICaptureBegin: fn(Handle, i32) -> Code;
        aclmdlRICaptureThreadExchangeMode: fn(*mut i32) -> Code;
        aclmdlRICaptureEnd: fn(Handle, *mut Handle) -> Code;
        aclmdlRIExecuteAsync: fn(Handle, Handle) -> Code;
        aclmdlRIDestroy: fn(Handle) -> Code;
    }
}

functions! {
    /// What the library has for the Python module; only the same version is sure to have it.
    Private {
        ferryMemcpyAsyncWithCondition: fn(Ptr, usize, Const, usize, i32, Handle) -> Code;
        ferryLaunchCallback: fn(HostFunction, HostFunction, Ptr, i32, Handle) -> Code;
        ferryRefuse: fn(*const c_char, *const c_char, i32) -> Code;
        ferryIsWatched: fn() -> i32;
        ferryDefineLine: fn(*const c_char, *const c_char, u32) -> u32;
        ferrySetLines: fn(*const u32, usize) -> ();
        ferryHostRange: fn(Const, usize, i32, *mut c_char, usize) -> Code;
        ferryCheckWhileWaiting: fn(Option<Check>) -> Option<Check>;
        ferryStop: fn() -> Code;
    }
}
