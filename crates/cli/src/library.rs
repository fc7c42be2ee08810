//! Finds libascendcl.so, loads it and holds the functions the command calls.
//!
//! Nothing is linked: the command takes the public C ABI, by name, as any program could. The table below lists only
//! what is called here; names and types are those of `include/acl/`.

use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// `aclrtStream`, `aclrtEvent`, `aclrtContext` and `aclrtDrvMemHandle`.
pub type Handle = *mut c_void;
/// `aclrtHostFunc` and `aclrtCallback`.
pub type HostFunction = unsafe extern "C" fn(*mut c_void);

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

/// `aclCANNPackageVersion`.
#[repr(C)]
pub struct PackageVersion {
    pub whole: [c_char; 128],
    pub parts: [[c_char; 64]; 4],
    pub reserved: [c_char; 128],
}

type Ptr = *mut c_void;
type Const = *const c_void;
type Ptrs = *mut Ptr;
type Sizes = *mut usize;
type Attributes = *mut BatchAttribute;
type Code = i32;

/// Declares the struct of function pointers and how each is found, from one list.
macro_rules! functions {
    ($($name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        /// The C functions the command calls, under their own names.
        #[allow(non_snake_case)]
        pub struct Functions { $(pub $name: unsafe extern "C" fn($($arg),*) -> $ret,)* }

        impl Functions {
            fn load(library: &libloading::Library) -> Result<Functions> {
                Ok(Functions { $(
                    // SAFETY: the type is the prototype that our header gives this name.
                    $name: unsafe { symbol(library, stringify!($name)) }?,
                )* })
            }
        }
    };
}

functions! {
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
    aclrtMemcpyBatch: fn(Ptrs, Sizes, Ptrs, Sizes, usize, Attributes, Sizes, usize, Sizes) -> Code;
    aclrtMemcpyBatchV2: fn(Ptrs, Sizes, Ptrs, Sizes, usize, Attributes, Sizes, usize) -> Code;
    aclrtMemcpyBatchAsync: fn(Ptrs, Sizes, Ptrs, Sizes, usize, Attributes, Sizes, usize, Sizes, Handle) -> Code;
    aclrtMemcpyBatchAsyncV2: fn(Ptrs, Sizes, Ptrs, Sizes, usize, Attributes, Sizes, usize, Handle) -> Code;
    aclrtGetMemcpyDescSize: fn(i32, *mut usize) -> Code;
    aclrtSetMemcpyDesc: fn(Ptr, i32, Ptr, Ptr, usize, Ptr) -> Code;
    aclrtMemcpyAsyncWithDesc: fn(Ptr, i32, Handle) -> Code;
    aclrtMemcpyAsyncWithOffset: fn(*mut Ptr, usize, usize, *mut Const, usize, usize, i32, Handle) -> Code;
    aclrtMemset: fn(Ptr, usize, i32, usize) -> Code;
    aclrtMemsetAsync: fn(Ptr, usize, i32, usize, Handle) -> Code;
    aclrtMemsetD32: fn(Ptr, usize, u32, usize) -> Code;
    aclrtMemsetD32Async: fn(Ptr, usize, u32, usize, Handle) -> Code;
    aclrtReduceAsync: fn(Ptr, Const, u64, i32, i32, Handle, Ptr) -> Code;
}

/// Calls a function of the table by its name, inside an `unsafe` block, and checks its code.
macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $library.check(stringify!($name), ($library.functions.$name)($($argument),*))
    };
}
pub(crate) use call;

/// The loaded library. It is never unloaded (its threads run its code), hence always `&'static`.
pub struct Library {
    pub path: PathBuf,
    /// Known only for the library that came with this command; there is no call to ask another one.
    pub version: Option<&'static str>,
    pub functions: Functions,
}

impl Library {
    /// Finds and loads the library and calls `aclInit`.
    pub fn open() -> Result<&'static Library> {
        let path = find()?;
        let version = named_by_the_user().is_none().then_some(env!("CARGO_PKG_VERSION"));
        // SAFETY: it is our library or one the user named; loading it runs no more than its initialisers.
        let loaded = unsafe { libloading::Library::new(&path) };
        let loaded = loaded.map_err(|error| setup(format!("cannot load {}: {error}", path.display())))?;
        let functions = Functions::load(&loaded)?;
        std::mem::forget(loaded);
        let library: &'static Library = Box::leak(Box::new(Library { path, version, functions }));
        // SAFETY: NULL is a documented argument: no configuration file.
        library.check("aclInit", unsafe { (library.functions.aclInit)(std::ptr::null()) })?;
        Ok(library)
    }

    /// Turns a code other than 0 into an error with the function's name and the library's own words.
    pub fn check(&self, name: &'static str, code: i32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: takes no argument; the text stays valid until the next call, and `text` copies it at once.
        let message = unsafe { text((self.functions.aclGetRecentErrMsg)()) }.unwrap_or_default();
        Err(Error::Call { name, code, message: message.trim_end().to_owned() })
    }

    /// The name of the product the library stands in for.
    pub fn soc_name(&self) -> Result<String> {
        // SAFETY: takes no argument and returns a string that lives as long as the library, or NULL.
        let name = unsafe { text((self.functions.aclrtGetSocName)()) };
        name.ok_or_else(|| setup("aclrtGetSocName answered NULL".to_owned()))
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: `count` is writable for the time of the call.
        self.check("aclrtGetDeviceCount", unsafe { (self.functions.aclrtGetDeviceCount)(&mut count) })?;
        Ok(count)
    }

    /// Makes `device` current in this thread.
    pub fn set_device(&self, device: i32) -> Result<()> {
        // SAFETY: takes a number.
        self.check("aclrtSetDevice", unsafe { (self.functions.aclrtSetDevice)(device) })
    }

    /// Takes back one `set_device`.
    pub fn reset_device(&self, device: i32) -> Result<()> {
        // SAFETY: takes a number.
        self.check("aclrtResetDevice", unsafe { (self.functions.aclrtResetDevice)(device) })
    }

    /// Free and total bytes of the current device.
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        const HBM: i32 = 1;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are writable for the time of the call.
        let code = unsafe { (self.functions.aclrtGetMemInfo)(HBM, &mut free, &mut total) };
        self.check("aclrtGetMemInfo", code)?;
        Ok((free, total))
    }

    /// aclrtGetRunMode: 0 is on the device or its board, 1 on a host.
    pub fn run_mode(&self) -> Result<i32> {
        let mut mode = -1;
        // SAFETY: `mode` is writable for the time of the call.
        unsafe { call!(self, aclrtGetRunMode(&mut mode)) }?;
        Ok(mode)
    }

    /// A fact about a device: `aclrtDevAttr`.
    pub fn device_info(&self, device: u32, attribute: i32) -> Result<i64> {
        let mut value = 0;
        // SAFETY: `value` is writable for the time of the call.
        unsafe { call!(self, aclrtGetDeviceInfo(device, attribute, &mut value)) }?;
        Ok(value)
    }

    /// The number that a device has on this machine, which differs from its own where not all devices are visible.
    pub fn physical_number(&self, device: u32) -> Result<i64> {
        const PHY_CHIP_ID: i32 = 402;
        self.device_info(device, PHY_CHIP_ID)
    }

    /// Shuts the library down.
    pub fn finish(&self) -> Result<()> {
        // SAFETY: takes no argument.
        self.check("aclFinalize", unsafe { (self.functions.aclFinalize)() })
    }
}

/// The library's file: `$FERRY_LIBRARY`, else the first that exists beside this command.
pub fn find() -> Result<PathBuf> {
    if let Some(path) = named_by_the_user() {
        let missing = |error| setup(format!("FERRY_LIBRARY names {}: {error}", path.display()));
        return path.canonicalize().map_err(missing);
    }
    let exe = std::env::current_exe().and_then(|path| path.canonicalize());
    let exe = exe.map_err(|error| setup(format!("cannot tell where this command is: {error}")))?;
    let folder = exe.parent().unwrap_or(Path::new("/"));
    ["deps/libascendcl.so", "libascendcl.so", "../lib/libascendcl.so"]
        .iter()
        .find_map(|place| folder.join(place).canonicalize().ok())
        .ok_or_else(|| {
            let beside = folder.display();
            setup(format!(
                "no libascendcl.so beside {beside} (deps/, ./, ../lib/); FERRY_LIBRARY may name one"
            ))
        })
}

fn named_by_the_user() -> Option<PathBuf> {
    std::env::var_os("FERRY_LIBRARY").filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn setup(text: String) -> Error {
    Error::Setup(text)
}

/// Copies a C string.
///
/// # Safety
/// `at` is NULL or a string that stays as it is for the time of the call.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: not NULL, and a string by the caller's word.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}

/// One function of the library.
///
/// # Safety
/// `F` is the function pointer type of `name`.
unsafe fn symbol<F: Copy>(library: &libloading::Library, name: &str) -> Result<F> {
    // SAFETY: passed on to the caller.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found
        .map(|symbol| *symbol)
        .map_err(|_| setup(format!("the library has no {name}: it is older than this command")))
}
