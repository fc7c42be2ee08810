//! Every C function of the library under its own name, with addresses and handles as numbers.
//!
//! The functions are safe to call by decree. What a test hands over is either memory it owns and leaves alone
//! until the work is done, or a number that the library must answer with a code: that it can be trusted to is
//! what is tested here.

#![allow(non_snake_case, clippy::too_many_arguments, clippy::not_unsafe_ptr_arg_deref)]

use std::ffi::{CStr, c_char};

use crate::{
    aclCANNPackageVersion, aclrtErrorInfo, aclrtExceptionInfo, aclrtExceptionInfoCallback, aclrtHostFunc,
    aclrtIpcEventHandle, aclrtMallocConfig, aclrtMemAccessDesc, aclrtMemLocation, aclrtMemUceInfo,
    aclrtMemUsageInfo, aclrtMemcpyBatchAttr, aclrtPhysicalMemProp, aclrtPtrAttributes, aclrtStreamAttrValue,
    aclrtUtilizationInfo, aclrtUuid,
};

macro_rules! calls {
    ($($name:ident($($arg:ident: $type:ty),*);)*) => { $(
        /// The C function of this name.
        #[allow(unused_unsafe)] // those without pointers are safe already
        pub fn $name($($arg: $type),*) -> i32 {
            // SAFETY: buffers named by the arguments are owned by the test; see the head of this module for
            // the others.
            unsafe { ascendcl::$name($($arg as _),*) }
        }
    )* };
}

calls! {
    aclInit(configPath: *const c_char);
    aclFinalize();
    aclFinalizeReference(refCount: *mut u64);
    aclrtPeekAtLastError(level: i32);
    aclrtGetLastError(level: i32);
    aclrtGetVersion(major: *mut i32, minor: *mut i32, patch: *mut i32);
    aclsysGetVersionStr(pkgName: *const c_char, versionStr: *mut c_char);
    aclsysGetVersionNum(pkgName: *const c_char, versionNum: *mut i32);
    aclsysGetCANNVersion(name: i32, version: *mut aclCANNPackageVersion);
    aclrtGetRunMode(runMode: *mut i32);

    aclmdlRICaptureBegin(stream: usize, mode: i32);
    aclmdlRICaptureGetInfo(stream: usize, status: *mut i32, model: *mut usize);
    aclmdlRICaptureEnd(stream: usize, model: *mut usize);
    aclmdlRICaptureThreadExchangeMode(mode: *mut i32);
    aclmdlRICaptureTaskGrpBegin(stream: usize);
    aclmdlRICaptureTaskGrpEnd(stream: usize, handle: *mut usize);
    aclmdlRICaptureTaskUpdateBegin(stream: usize, handle: usize);
    aclmdlRICaptureTaskUpdateEnd(stream: usize);
    aclmdlRIExecute(model: usize, timeout: i32);
    aclmdlRIExecuteAsync(model: usize, stream: usize);
    aclmdlRIDestroy(model: usize);
    aclmdlRIDebugPrint(model: usize);
    aclmdlRIDebugJsonPrint(model: usize, path: *const c_char, flags: u32);
    aclmdlRISetName(model: usize, name: *const c_char);
    aclmdlRIGetName(model: usize, maxLen: u32, name: *mut c_char);
    aclmdlRIGetId(model: usize, id: *mut u32);
    aclmdlRIAbort(model: usize);
    aclmdlRIDestroyRegisterCallback(model: usize, func: aclrtHostFunc, data: usize);
    aclmdlRIDestroyUnregisterCallback(model: usize, func: aclrtHostFunc);
    aclmdlRIBuildBegin(model: *mut usize, flag: u32);
    aclmdlRIBindStream(model: usize, stream: usize, flag: u32);
    aclmdlRIEndTask(model: usize, stream: usize);
    aclmdlRIBuildEnd(model: usize, reserve: usize);
    aclmdlRIUnbindStream(model: usize, stream: usize);
    aclrtActiveStream(active: usize, stream: usize);
    aclrtRecordEventWithFlag(event: usize, stream: usize, flag: u32);
    aclrtStreamWaitEventWithFlag(stream: usize, event: usize, timeout: u32, flag: u32);

    aclrtSetDevice(device: i32);
    aclrtResetDevice(device: i32);
    aclrtResetDeviceForce(device: i32);
    aclrtGetDevice(device: *mut i32);
    aclrtGetDeviceCount(count: *mut u32);
    aclrtSynchronizeDevice();
    aclrtSynchronizeDeviceWithTimeout(timeout: i32);
    aclrtGetMemInfo(attr: i32, free: *mut usize, total: *mut usize);
    aclrtDeviceCanAccessPeer(can: *mut i32, device: i32, peer: i32);
    aclrtDeviceEnablePeerAccess(peer: i32, flags: u32);
    aclrtDeviceDisablePeerAccess(peer: i32);
    aclrtDevicePeerAccessStatus(device: i32, peer: i32, status: *mut i32);
    aclGetDeviceCapability(device: u32, info: i32, value: *mut i64);
    aclrtGetDeviceInfo(device: u32, attr: i32, value: *mut i64);
    aclrtGetDeviceUtilizationRate(device: i32, info: *mut aclrtUtilizationInfo);
    aclrtDeviceGetBareTgid(pid: *mut i32);
    aclrtGetLogicDevIdByUserDevId(user: i32, logic: *mut i32);
    aclrtGetUserDevIdByLogicDevId(logic: i32, user: *mut i32);
    aclrtGetLogicDevIdByPhyDevId(physical: i32, logic: *mut i32);
    aclrtGetPhyDevIdByLogicDevId(logic: i32, physical: *mut i32);
    aclrtGetUserDevIdByPhyDevId(physical: i32, user: *mut i32);
    aclrtGetPhyDevIdByUserDevId(user: i32, physical: *mut i32);
    aclrtSetDeviceSatMode(mode: i32);
    aclrtGetDeviceSatMode(mode: *mut i32);
    aclrtSetSysParamOpt(opt: i32, value: i64);
    aclrtGetSysParamOpt(opt: i32, value: *mut i64);
    aclrtCtxSetSysParamOpt(opt: i32, value: i64);
    aclrtCtxGetSysParamOpt(opt: i32, value: *mut i64);
    aclrtSetOpExecuteTimeOut(timeout: u32);
    aclrtSetOpExecuteTimeOutV2(timeout: u64, actual: *mut u64);
    aclrtQueryDeviceStatus(device: i32, status: *mut i32);
    aclrtDeviceGetUuid(device: i32, uuid: *mut aclrtUuid);
    aclrtGetMemUsageInfo(device: i32, info: *mut aclrtMemUsageInfo, room: usize, found: *mut usize);
    aclrtDeviceGetStreamPriorityRange(least: *mut i32, greatest: *mut i32);
    aclrtDeviceTaskAbort(device: i32, timeout: u32);
    aclrtGetMemUceInfo(device: i32, ranges: *mut aclrtMemUceInfo, room: usize, found: *mut usize);
    aclrtMemUceRepair(device: i32, ranges: *mut aclrtMemUceInfo, count: usize);
    aclrtGetErrorVerbose(device: i32, info: *mut aclrtErrorInfo);
    aclrtRepairError(device: i32, info: *const aclrtErrorInfo);
    aclrtGetPrimaryCtxState(device: i32, flags: *mut u32, active: *mut i32);

    aclrtCreateContext(context: *mut usize, device: i32);
    aclrtDestroyContext(context: usize);
    aclrtSetCurrentContext(context: usize);
    aclrtGetCurrentContext(context: *mut usize);

    aclrtCreateStream(stream: *mut usize);
    aclrtCreateStreamWithConfig(stream: *mut usize, priority: u32, flag: u32);
    aclrtDestroyStream(stream: usize);
    aclrtDestroyStreamForce(stream: usize);
    aclrtStreamAbort(stream: usize);
    aclrtSynchronizeStream(stream: usize);
    aclrtSynchronizeStreamWithTimeout(stream: usize, timeout: i32);
    aclrtStreamQuery(stream: usize, status: *mut i32);
    aclrtSetStreamFailureMode(stream: usize, mode: u64);
    aclrtStreamGetId(stream: usize, id: *mut i32);
    aclrtStreamGetPriority(stream: usize, priority: *mut u32);
    aclrtStreamGetFlags(stream: usize, flags: *mut u32);
    aclrtSetStreamAttribute(stream: usize, attribute: i32, value: *mut aclrtStreamAttrValue);
    aclrtGetStreamAttribute(stream: usize, attribute: i32, value: *mut aclrtStreamAttrValue);
    aclrtSetStreamOverflowSwitch(stream: usize, flag: u32);
    aclrtGetStreamOverflowSwitch(stream: usize, flag: *mut u32);
    aclrtGetOverflowStatus(addr: usize, size: usize, stream: usize);
    aclrtResetOverflowStatus(stream: usize);
    aclrtCmoAsync(src: usize, size: usize, kind: i32, stream: usize);
    aclrtValueWrite(addr: usize, value: u64, flag: u32, stream: usize);
    aclrtValueWait(addr: usize, value: u64, flag: u32, stream: usize);
    aclrtSetDeviceResLimit(device: i32, kind: i32, value: u32);
    aclrtGetDeviceResLimit(device: i32, kind: i32, value: *mut u32);
    aclrtResetDeviceResLimit(device: i32);
    aclrtSetStreamResLimit(stream: usize, kind: i32, value: u32);
    aclrtGetStreamResLimit(stream: usize, kind: i32, value: *mut u32);
    aclrtResetStreamResLimit(stream: usize);
    aclrtUseStreamResInCurrentThread(stream: usize);
    aclrtUnuseStreamResInCurrentThread(stream: usize);
    aclrtGetResInCurrentThread(kind: i32, value: *mut u32);
    aclrtStreamWaitEvent(stream: usize, event: usize);
    ferryStreamAdopt(native: usize, stream: *mut usize);
    ferryStreamNative(stream: usize, native: *mut usize);

    aclrtGetEventId(event: usize, id: *mut u32);
    aclrtIpcGetEventHandle(event: usize, handle: *mut aclrtIpcEventHandle);
    aclrtIpcOpenEventHandle(handle: aclrtIpcEventHandle, event: *mut usize);

    aclrtCreateNotify(notify: *mut usize, flag: u64);
    aclrtDestroyNotify(notify: usize);
    aclrtRecordNotify(notify: usize, stream: usize);
    aclrtWaitAndResetNotify(notify: usize, stream: usize, timeout: u32);
    aclrtGetNotifyId(notify: usize, id: *mut u32);
    aclrtNotifyBatchReset(notifies: *mut usize, num: usize);
    aclrtNotifyGetExportKey(notify: usize, key: *mut c_char, len: usize, flags: u64);
    aclrtNotifySetImportPid(notify: usize, pid: *mut i32, num: usize);
    aclrtNotifyImportByKey(notify: *mut usize, key: *const c_char, flags: u64);

    aclrtCreateEvent(event: *mut usize);
    aclrtCreateEventWithFlag(event: *mut usize, flag: u32);
    aclrtCreateEventExWithFlag(event: *mut usize, flag: u32);
    aclrtDestroyEvent(event: usize);
    aclrtRecordEvent(event: usize, stream: usize);
    aclrtResetEvent(event: usize, stream: usize);
    aclrtQueryEvent(event: usize, status: *mut i32);
    aclrtQueryEventWaitStatus(event: usize, status: *mut i32);
    aclrtEventGetTimestamp(event: usize, timestamp: *mut u64);
    aclrtQueryEventStatus(event: usize, status: *mut i32);
    aclrtSynchronizeEvent(event: usize);
    aclrtSynchronizeEventWithTimeout(event: usize, timeout: i32);
    aclrtEventElapsedTime(ms: *mut f32, start: usize, end: usize);

    aclrtSetOpWaitTimeout(seconds: u32);
    aclrtSetExceptionInfoCallback(function: aclrtExceptionInfoCallback);

    aclrtSubscribeReport(thread: u64, stream: usize);
    aclrtProcessReport(timeout: i32);
    aclrtLaunchCallback(func: aclrtHostFunc, data: usize, block: i32, stream: usize);
    aclrtUnSubscribeReport(thread: u64, stream: usize);
    aclrtLaunchHostFunc(stream: usize, func: aclrtHostFunc, args: usize);

    aclrtMalloc(ptr: *mut usize, size: usize, policy: i32);
    aclrtFree(ptr: usize);
    aclrtMallocHost(ptr: *mut usize, size: usize);
    aclrtFreeHost(ptr: usize);
    aclrtMallocAlign32(ptr: *mut usize, size: usize, policy: i32);
    aclrtMallocCached(ptr: *mut usize, size: usize, policy: i32);
    aclrtMallocWithCfg(ptr: *mut usize, size: usize, policy: i32, cfg: *mut aclrtMallocConfig);
    aclrtMallocForTaskScheduler(ptr: *mut usize, size: usize, policy: i32, cfg: *mut aclrtMallocConfig);
    aclrtMallocHostWithCfg(ptr: *mut usize, size: u64, cfg: *mut aclrtMallocConfig);
    aclrtFreeWithDevSync(ptr: usize);
    aclrtFreeHostWithDevSync(ptr: usize);
    aclrtHostRegister(ptr: usize, size: usize, kind: i32, device: *mut usize);
    aclrtHostRegisterV2(ptr: usize, size: usize, flag: u32);
    aclrtHostGetDevicePointer(host: usize, device: *mut usize, flag: u32);
    aclrtHostUnregister(ptr: usize);
    aclrtPointerGetAttributes(ptr: usize, attributes: *mut aclrtPtrAttributes);

    aclrtMemGetAddressRange(ptr: usize, base: *mut usize, size: *mut usize);

    aclrtReserveMemAddress(ptr: *mut usize, size: usize, alignment: usize, expect: usize, flags: u64);
    aclrtReleaseMemAddress(ptr: usize);
    aclrtMallocPhysical(handle: *mut usize, size: usize, prop: *const aclrtPhysicalMemProp, flags: u64);
    aclrtFreePhysical(handle: usize);
    aclrtMapMem(ptr: usize, size: usize, offset: usize, handle: usize, flags: u64);
    aclrtUnmapMem(ptr: usize);
    aclrtMemGetAllocationGranularity(prop: *mut aclrtPhysicalMemProp, option: i32, granularity: *mut usize);
    aclrtReserveMemAddressNoUCMemory(ptr: *mut usize, size: usize, alignment: usize, expect: usize,
        flags: u64);
    aclrtMemSetAccess(ptr: usize, size: usize, desc: *mut aclrtMemAccessDesc, count: usize);
    aclrtMemGetAccess(ptr: usize, location: *mut aclrtMemLocation, flag: *mut u64);
    aclrtMemRetainAllocationHandle(ptr: usize, handle: *mut usize);
    aclrtMemGetAllocationPropertiesFromHandle(handle: usize, prop: *mut aclrtPhysicalMemProp);
    aclrtMemExportToShareableHandle(handle: usize, handleType: i32, flags: u64, shareableHandle: *mut u64);
    aclrtMemSetPidToShareableHandle(shareableHandle: u64, pid: *mut i32, pidNum: usize);
    aclrtMemImportFromShareableHandle(shareableHandle: u64, deviceId: i32, handle: *mut usize);
    aclrtMemExportToShareableHandleV2(handle: usize, flags: u64, shareType: i32, shareableHandle: usize);
    aclrtMemSetPidToShareableHandleV2(shareableHandle: usize, shareType: i32, pid: *mut i32, pidNum: usize);
    aclrtMemImportFromShareableHandleV2(shareableHandle: usize, shareType: i32, flags: u64,
        handle: *mut usize);

    aclrtIpcMemGetExportKey(devPtr: usize, size: usize, key: *mut c_char, len: usize, flags: u64);
    aclrtIpcMemSetImportPid(key: *const c_char, pid: *mut i32, num: usize);
    aclrtIpcMemImportByKey(devPtr: *mut usize, key: *const c_char, flags: u64);
    aclrtIpcMemClose(key: *const c_char);

    aclrtMemcpy(dst: usize, destMax: usize, src: usize, count: usize, kind: i32);
    aclrtMemcpyAsync(dst: usize, destMax: usize, src: usize, count: usize, kind: i32, stream: usize);
    aclrtMemcpyAsyncWithCondition(dst: usize, destMax: usize, src: usize, count: usize, kind: i32,
        stream: usize);
    aclrtMemcpy2d(dst: usize, dpitch: usize, src: usize, spitch: usize, width: usize, height: usize,
        kind: i32);
    aclrtMemcpy2dAsync(
        dst: usize, dpitch: usize, src: usize, spitch: usize, width: usize, height: usize, kind: i32,
            stream: usize
    );
    aclrtMemcpyBatch(
        dsts: *mut usize, destMaxs: *mut usize, srcs: *mut usize, sizes: *mut usize, numBatches: usize,
        attrs: *mut aclrtMemcpyBatchAttr, attrsIndexes: *mut usize, numAttrs: usize, failIndex: *mut usize
    );
    aclrtMemcpyBatchV2(
        dsts: *mut usize, destMaxs: *mut usize, srcs: *mut usize, sizes: *mut usize, numBatches: usize,
        attrs: *mut aclrtMemcpyBatchAttr, attrsIndexes: *mut usize, numAttrs: usize
    );
    aclrtMemcpyBatchAsync(
        dsts: *mut usize, destMaxs: *mut usize, srcs: *mut usize, sizes: *mut usize, numBatches: usize,
        attrs: *mut aclrtMemcpyBatchAttr, attrsIndexes: *mut usize, numAttrs: usize, failIndex: *mut usize,
            stream: usize
    );
    aclrtMemcpyBatchAsyncV2(
        dsts: *mut usize, destMaxs: *mut usize, srcs: *mut usize, sizes: *mut usize, numBatches: usize,
        attrs: *mut aclrtMemcpyBatchAttr, attrsIndexes: *mut usize, numAttrs: usize, stream: usize
    );
    aclrtGetMemcpyDescSize(kind: i32, descSize: *mut usize);
    aclrtSetMemcpyDesc(desc: usize, kind: i32, srcAddr: usize, dstAddr: usize, count: usize, config: usize);
    aclrtMemcpyAsyncWithDesc(desc: usize, kind: i32, stream: usize);
    aclrtMemcpyAsyncWithOffset(
        dst: usize, destMax: usize, dstDataOffset: usize, src: usize, count: usize, srcDataOffset: usize,
            kind: i32, stream: usize
    );
    aclrtMemset(ptr: usize, maxCount: usize, value: i32, count: usize);
    aclrtMemsetAsync(ptr: usize, maxCount: usize, value: i32, count: usize, stream: usize);
    aclrtMemsetD32(ptr: usize, memSize: usize, value: u32, n: usize);
    aclrtMemsetD32Async(ptr: usize, memSize: usize, value: u32, n: usize, stream: usize);
    aclrtReduceAsync(
        dst: usize, src: usize, count: u64, kind: i32, dataType: i32, stream: usize, reserve: usize
    );
}

/// aclGetRecentErrMsg: the messages of this thread's failed calls since the last time, or `None`.
pub fn message() -> Option<String> {
    // SAFETY: takes no argument; the text is copied before any other call of this thread can replace it.
    unsafe { text(ascendcl::aclGetRecentErrMsg()) }
}

/// aclrtGetSocName.
pub fn soc_name() -> Option<String> {
    // SAFETY: takes no argument; the name lives as long as the library.
    unsafe { text(ascendcl::aclrtGetSocName()) }
}

/// aclDataTypeSize.
pub fn data_type_size(data_type: i32) -> usize {
    ascendcl::aclDataTypeSize(data_type)
}

/// What aclrtGet...FromExceptionInfo tell: task, stream, thread, device, code.
pub fn told(info: *const aclrtExceptionInfo) -> [u32; 5] {
    [
        ascendcl::aclrtGetTaskIdFromExceptionInfo(info),
        ascendcl::aclrtGetStreamIdFromExceptionInfo(info),
        ascendcl::aclrtGetThreadIdFromExceptionInfo(info),
        ascendcl::aclrtGetDeviceIdFromExceptionInfo(info),
        ascendcl::aclrtGetErrorCodeFromExceptionInfo(info),
    ]
}

/// aclFloat16ToFloat.
pub fn float_of(half: u16) -> f32 {
    ascendcl::aclFloat16ToFloat(half)
}

/// aclFloatToFloat16.
pub fn half_of(value: f32) -> u16 {
    ascendcl::aclFloatToFloat16(value)
}

/// aclAppLog without anything behind the format.
pub fn app_log(level: i32, func: &CStr, file: &CStr, line: u32, fmt: &CStr) {
    app_log_raw(level, Some(func), Some(file), line, Some(fmt));
}

/// The same where anything may be NULL.
pub fn app_log_raw(level: i32, func: Option<&CStr>, file: Option<&CStr>, line: u32, fmt: Option<&CStr>) {
    let raw = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: NULL or C strings, and the tests' formats ask for no arguments.
    unsafe { ascendcl::aclAppLog(level, raw(func), raw(file), line, raw(fmt)) }
}

/// # Safety
/// `chars` is NULL or a C string.
unsafe fn text(chars: *const c_char) -> Option<String> {
    // SAFETY: not NULL here, so the caller's promise makes it a C string.
    (!chars.is_null()).then(|| unsafe { CStr::from_ptr(chars) }.to_string_lossy().into_owned())
}
