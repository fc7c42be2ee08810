//! Every C function and where it exists: one row each. The products and their limits: `ferry::products`.

use crate::{Result, constants as c, error::fail, settings::settings};
use ferry::products::{A2, A3, B200I, B950, Form, PRODUCTS, Product, TRN};

/// A C function as the rules see it: its name, and where it exists.
pub struct ApiFunction {
    /// The C name.
    pub name: &'static str,
    /// Its place in [`ALL`].
    pub index: u16,
    on: Where,
}

/// The products and the forms that have a function, as bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Where {
    products: u8,
    forms: u8,
}

const EVERY_PRODUCT: u8 = u8::MAX;
const EVERY_FORM: u8 = u8::MAX;

const EVERYWHERE: Where = Where { products: EVERY_PRODUCT, forms: EVERY_FORM };
const NEWEST: Where = Where { products: B950 | A3 | A2, ..EVERYWHERE };
const NEWEST_AND_200I: Where = Where { products: NEWEST.products | B200I, ..EVERYWHERE };
const NEWEST_AND_TRN: Where = Where { products: NEWEST.products | TRN, ..EVERYWHERE };
/// The products whose streams can be captured.
const CAPTURING: Where = Where { products: EVERY_PRODUCT & !(B200I | TRN), ..EVERYWHERE };
const NOT_950: Where = Where { products: EVERY_PRODUCT & !B950, ..EVERYWHERE };
const ONLY_A3: Where = Where { products: A3, ..EVERYWHERE };
const A2_AND_A3: Where = Where { products: A2 | A3, ..EVERYWHERE };
const NOT_200I: Where = Where { products: EVERY_PRODUCT & !B200I, ..EVERYWHERE };
const NEITHER_950_NOR_200I: Where = Where { products: NOT_950.products & NOT_200I.products, ..EVERYWHERE };
const WITH_PEERS: Where = Where { forms: EVERY_FORM & !(Form::CtrlCpu as u8), ..NOT_200I };
/// Where host and device memory are apart.
const CARDS: Where = Where { forms: Form::Ep as u8, ..EVERYWHERE };
const NOT_ON_BOARDS: Where = Where { forms: EVERY_FORM & !(Form::Rc as u8), ..EVERYWHERE };

macro_rules! table {
    ($($name:ident: $on:ident;)*) => {
        /// The functions in the order of the table.
        #[allow(non_camel_case_types)]
        enum FunctionIndex { $($name),* }
        $(
            #[allow(non_upper_case_globals, missing_docs)]
            pub const $name: ApiFunction =
                ApiFunction { name: stringify!($name), index: FunctionIndex::$name as u16, on: $on };
        )*
        /// How many there are.
        pub const COUNT: usize = [$(FunctionIndex::$name as u16),*].len();
        /// All of them.
        pub static ALL: &[ApiFunction] = &[$($name),*];
    };
}

table! {
    // Initialisation, versions, messages, logs.
    aclInit: EVERYWHERE;
    aclFinalize: EVERYWHERE;
    aclFinalizeReference: EVERYWHERE;
    aclGetRecentErrMsg: EVERYWHERE;
    aclrtPeekAtLastError: EVERYWHERE;
    aclrtGetLastError: EVERYWHERE;
    aclrtSetExceptionInfoCallback: EVERYWHERE;
    aclrtGetTaskIdFromExceptionInfo: EVERYWHERE;
    aclrtGetStreamIdFromExceptionInfo: EVERYWHERE;
    aclrtGetThreadIdFromExceptionInfo: EVERYWHERE;
    aclrtGetDeviceIdFromExceptionInfo: EVERYWHERE;
    aclrtGetErrorCodeFromExceptionInfo: EVERYWHERE;
    aclrtGetSocName: EVERYWHERE;
    aclrtGetVersion: EVERYWHERE;
    aclsysGetVersionStr: EVERYWHERE;
    aclsysGetVersionNum: EVERYWHERE;
    aclsysGetCANNVersion: EVERYWHERE;
    aclGetDeviceCapability: EVERYWHERE;
    aclDataTypeSize: EVERYWHERE;
    aclFloat16ToFloat: EVERYWHERE;
    aclFloatToFloat16: EVERYWHERE;
    aclAppLog: EVERYWHERE;

    // Graphs: captured, built, executed.
    aclmdlRICaptureBegin: CAPTURING;
    aclmdlRICaptureGetInfo: CAPTURING;
    aclmdlRICaptureEnd: CAPTURING;
    aclmdlRICaptureThreadExchangeMode: CAPTURING;
    aclmdlRICaptureTaskGrpBegin: CAPTURING;
    aclmdlRICaptureTaskGrpEnd: CAPTURING;
    aclmdlRICaptureTaskUpdateBegin: CAPTURING;
    aclmdlRICaptureTaskUpdateEnd: CAPTURING;
    aclmdlRIExecuteAsync: CAPTURING;
    aclmdlRIDebugPrint: CAPTURING;
    aclmdlRIDebugJsonPrint: CAPTURING;
    aclmdlRIGetId: CAPTURING;
    aclmdlRIBuildBegin: EVERYWHERE;
    aclmdlRIBindStream: EVERYWHERE;
    aclmdlRIEndTask: EVERYWHERE;
    aclmdlRIBuildEnd: EVERYWHERE;
    aclmdlRIUnbindStream: EVERYWHERE;
    aclmdlRIExecute: EVERYWHERE;
    aclmdlRIDestroy: EVERYWHERE;
    aclmdlRISetName: EVERYWHERE;
    aclmdlRIGetName: EVERYWHERE;
    aclmdlRIAbort: EVERYWHERE;
    aclmdlRIDestroyRegisterCallback: EVERYWHERE;
    aclmdlRIDestroyUnregisterCallback: EVERYWHERE;
    aclrtActiveStream: EVERYWHERE;
    aclrtRecordEventWithFlag: NEWEST;
    aclrtStreamWaitEventWithFlag: NEWEST;

    // Devices.
    aclrtGetRunMode: EVERYWHERE;
    aclrtSetDevice: EVERYWHERE;
    aclrtResetDevice: EVERYWHERE;
    aclrtResetDeviceForce: EVERYWHERE;
    aclrtGetDevice: EVERYWHERE;
    aclrtGetDeviceCount: EVERYWHERE;
    aclrtSynchronizeDevice: EVERYWHERE;
    aclrtSynchronizeDeviceWithTimeout: EVERYWHERE;
    aclrtGetMemInfo: EVERYWHERE;
    aclrtGetDeviceInfo: EVERYWHERE;
    aclrtGetDeviceUtilizationRate: EVERYWHERE;
    aclrtDeviceGetBareTgid: EVERYWHERE;
    aclrtGetLogicDevIdByUserDevId: EVERYWHERE;
    aclrtGetUserDevIdByLogicDevId: EVERYWHERE;
    aclrtGetLogicDevIdByPhyDevId: EVERYWHERE;
    aclrtGetPhyDevIdByLogicDevId: EVERYWHERE;
    aclrtGetUserDevIdByPhyDevId: EVERYWHERE;
    aclrtGetPhyDevIdByUserDevId: EVERYWHERE;
    aclrtSetDeviceSatMode: NEWEST;
    aclrtGetDeviceSatMode: NEWEST;
    aclrtSetSysParamOpt: EVERYWHERE;
    aclrtGetSysParamOpt: EVERYWHERE;
    aclrtSetOpExecuteTimeOut: EVERYWHERE;
    aclrtSetOpExecuteTimeOutV2: EVERYWHERE;
    aclrtQueryDeviceStatus: EVERYWHERE;
    aclrtDeviceGetUuid: NEWEST;
    aclrtGetMemUsageInfo: NOT_950;
    aclrtDeviceGetStreamPriorityRange: EVERYWHERE;
    aclrtDeviceTaskAbort: NEWEST;
    aclrtGetMemUceInfo: EVERYWHERE;
    aclrtMemUceRepair: EVERYWHERE;
    aclrtGetErrorVerbose: NEWEST;
    aclrtRepairError: NEWEST;
    aclrtSetDeviceResLimit: EVERYWHERE;
    aclrtGetDeviceResLimit: EVERYWHERE;
    aclrtResetDeviceResLimit: EVERYWHERE;
    aclrtGetResInCurrentThread: EVERYWHERE;
    aclrtDeviceCanAccessPeer: WITH_PEERS;
    aclrtDeviceEnablePeerAccess: WITH_PEERS;
    aclrtDeviceDisablePeerAccess: WITH_PEERS;
    aclrtDevicePeerAccessStatus: WITH_PEERS;

    // Contexts.
    aclrtCreateContext: EVERYWHERE;
    aclrtDestroyContext: EVERYWHERE;
    aclrtSetCurrentContext: EVERYWHERE;
    aclrtGetCurrentContext: EVERYWHERE;
    aclrtGetPrimaryCtxState: EVERYWHERE;
    aclrtCtxSetSysParamOpt: EVERYWHERE;
    aclrtCtxGetSysParamOpt: EVERYWHERE;

    // Streams.
    aclrtCreateStream: EVERYWHERE;
    aclrtCreateStreamWithConfig: EVERYWHERE;
    aclrtDestroyStream: EVERYWHERE;
    aclrtDestroyStreamForce: EVERYWHERE;
    aclrtSynchronizeStream: EVERYWHERE;
    aclrtSynchronizeStreamWithTimeout: EVERYWHERE;
    aclrtStreamQuery: EVERYWHERE;
    aclrtStreamWaitEvent: EVERYWHERE;
    aclrtSetStreamFailureMode: EVERYWHERE;
    aclrtStreamGetId: EVERYWHERE;
    aclrtStreamGetPriority: EVERYWHERE;
    aclrtStreamGetFlags: EVERYWHERE;
    aclrtSetStreamAttribute: EVERYWHERE;
    aclrtGetStreamAttribute: EVERYWHERE;
    aclrtSetStreamOverflowSwitch: EVERYWHERE;
    aclrtGetStreamOverflowSwitch: EVERYWHERE;
    aclrtGetOverflowStatus: EVERYWHERE;
    aclrtResetOverflowStatus: EVERYWHERE;
    aclrtCmoAsync: NEWEST;
    aclrtValueWrite: NEWEST;
    aclrtValueWait: NEWEST;
    aclrtSetStreamResLimit: EVERYWHERE;
    aclrtGetStreamResLimit: EVERYWHERE;
    aclrtResetStreamResLimit: EVERYWHERE;
    aclrtUseStreamResInCurrentThread: EVERYWHERE;
    aclrtUnuseStreamResInCurrentThread: EVERYWHERE;
    aclrtStreamAbort: NEWEST;

    // Streams that other libraries know: ferry_ext.h.
    ferryStreamAdopt: EVERYWHERE;
    ferryStreamNative: EVERYWHERE;

    // Operators that ferry_acl.torch runs; in no header.
    ferryOperator: EVERYWHERE;

    // Functions of the user's, in stream order.
    aclrtLaunchHostFunc: EVERYWHERE;
    aclrtSubscribeReport: EVERYWHERE;
    aclrtProcessReport: EVERYWHERE;
    aclrtLaunchCallback: EVERYWHERE;
    aclrtUnSubscribeReport: EVERYWHERE;

    // Events.
    aclrtCreateEvent: EVERYWHERE;
    aclrtCreateEventWithFlag: EVERYWHERE;
    aclrtCreateEventExWithFlag: EVERYWHERE;
    aclrtDestroyEvent: EVERYWHERE;
    aclrtRecordEvent: EVERYWHERE;
    aclrtResetEvent: EVERYWHERE;
    aclrtQueryEvent: EVERYWHERE;
    aclrtQueryEventStatus: EVERYWHERE;
    aclrtQueryEventWaitStatus: EVERYWHERE;
    aclrtSynchronizeEvent: EVERYWHERE;
    aclrtSynchronizeEventWithTimeout: EVERYWHERE;
    aclrtEventElapsedTime: EVERYWHERE;
    aclrtEventGetTimestamp: EVERYWHERE;
    aclrtSetOpWaitTimeout: EVERYWHERE;
    aclrtGetEventId: EVERYWHERE;
    aclrtIpcGetEventHandle: A2_AND_A3;
    aclrtIpcOpenEventHandle: A2_AND_A3;

    // Notifies.
    aclrtCreateNotify: EVERYWHERE;
    aclrtDestroyNotify: EVERYWHERE;
    aclrtRecordNotify: EVERYWHERE;
    aclrtWaitAndResetNotify: EVERYWHERE;
    aclrtGetNotifyId: EVERYWHERE;
    aclrtNotifyBatchReset: NEWEST;
    aclrtNotifyGetExportKey: NOT_200I;
    aclrtNotifySetImportPid: NEITHER_950_NOR_200I;
    aclrtNotifyImportByKey: NOT_200I;

    // Memory.
    aclrtMalloc: EVERYWHERE;
    aclrtMallocAlign32: EVERYWHERE;
    aclrtMallocCached: EVERYWHERE;
    aclrtMallocWithCfg: EVERYWHERE;
    aclrtMallocForTaskScheduler: EVERYWHERE;
    aclrtFree: EVERYWHERE;
    aclrtFreeWithDevSync: EVERYWHERE;
    aclrtMallocHost: EVERYWHERE;
    aclrtMallocHostWithCfg: EVERYWHERE;
    aclrtFreeHost: EVERYWHERE;
    aclrtFreeHostWithDevSync: EVERYWHERE;
    aclrtPointerGetAttributes: EVERYWHERE;
    aclrtMemGetAddressRange: EVERYWHERE;
    aclrtHostRegister: NEWEST;
    aclrtHostRegisterV2: NEWEST;
    aclrtHostGetDevicePointer: NEWEST;
    aclrtHostUnregister: NEWEST;

    // Virtual memory.
    aclrtReserveMemAddress: NOT_ON_BOARDS;
    aclrtReleaseMemAddress: NOT_ON_BOARDS;
    aclrtMallocPhysical: NOT_ON_BOARDS;
    aclrtFreePhysical: NOT_ON_BOARDS;
    aclrtMapMem: NOT_ON_BOARDS;
    aclrtUnmapMem: NOT_ON_BOARDS;
    aclrtMemGetAllocationGranularity: NOT_ON_BOARDS;
    aclrtReserveMemAddressNoUCMemory: ONLY_A3;
    aclrtMemSetAccess: NOT_ON_BOARDS;
    aclrtMemGetAccess: NOT_ON_BOARDS;
    aclrtMemRetainAllocationHandle: NOT_ON_BOARDS;
    aclrtMemGetAllocationPropertiesFromHandle: NOT_ON_BOARDS;
    aclrtMemExportToShareableHandle: NOT_ON_BOARDS;
    aclrtMemSetPidToShareableHandle: NOT_ON_BOARDS;
    aclrtMemImportFromShareableHandle: NOT_ON_BOARDS;
    aclrtMemExportToShareableHandleV2: NOT_ON_BOARDS;
    aclrtMemSetPidToShareableHandleV2: NOT_ON_BOARDS;
    aclrtMemImportFromShareableHandleV2: NOT_ON_BOARDS;

    // Memory between processes.
    aclrtIpcMemGetExportKey: NOT_200I;
    aclrtIpcMemSetImportPid: NOT_200I;
    aclrtIpcMemImportByKey: NOT_200I;
    aclrtIpcMemClose: NOT_200I;

    // Below AscendCL: ferry_rt.h.
    rtDeviceGetBareTgid: EVERYWHERE;
    rtGetDeviceInfo: EVERYWHERE;
    rtGetLogicDevIdByUserDevId: EVERYWHERE;
    rtIpcSetMemoryName: NOT_200I;
    rtSetIpcMemorySuperPodPid: NOT_200I;
    rtIpcOpenMemory: NOT_200I;
    rtIpcCloseMemory: NOT_200I;
    rtIpcDestroyMemoryName: NOT_200I;
    rtEnableP2P: WITH_PEERS;
    rtDisableP2P: WITH_PEERS;
    rtMemcpyAsyncWithoutCheckKind: EVERYWHERE;

    // Copies, fills and reductions.
    aclrtMemcpy: EVERYWHERE;
    aclrtMemcpyAsync: EVERYWHERE;
    aclrtMemcpyAsyncWithCondition: EVERYWHERE;
    aclrtMemset: EVERYWHERE;
    aclrtMemsetAsync: EVERYWHERE;
    aclrtReduceAsync: EVERYWHERE;
    aclrtMemcpy2d: CARDS;
    aclrtMemcpy2dAsync: CARDS;
    aclrtMemcpyBatch: NEWEST;
    aclrtMemcpyBatchAsync: NEWEST;
    aclrtMemcpyBatchV2: NEWEST;
    aclrtMemcpyBatchAsyncV2: NEWEST;
    aclrtMemsetD32: NEWEST;
    aclrtMemsetD32Async: NEWEST;
    aclrtGetMemcpyDescSize: NEWEST_AND_200I;
    aclrtSetMemcpyDesc: NEWEST_AND_200I;
    aclrtMemcpyAsyncWithDesc: NEWEST_AND_200I;
    aclrtMemcpyAsyncWithOffset: NEWEST_AND_TRN;
}

impl ApiFunction {
    /// Whether the function exists on this product in this form.
    #[inline]
    pub fn exists_on(&self, product: &Product, form: Form) -> bool {
        self.on.products & product.bit != 0 && self.on.forms & form as u8 != 0
    }

    /// Whether the function exists on the product and form of this process; if not, it does nothing and says
    /// so.
    #[inline]
    pub fn allowed(&self) -> Result<()> {
        if self.on == EVERYWHERE {
            return Ok(());
        }
        let (product, form) = current();
        if self.exists_on(product, form) {
            return Ok(());
        }
        Err(fail(
            c::ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
            format!("{} does not exist on {} in the {} form", self.name, product.soc, form.name()),
        ))
    }
}

/// The product and form of this process; the default ones where the settings make no sense, which aclInit and
/// aclrtSetDevice complain about.
fn current() -> (&'static Product, Form) {
    settings().map_or((&PRODUCTS[0], Form::Ep), |settings| (settings.options.product, settings.options.form))
}
