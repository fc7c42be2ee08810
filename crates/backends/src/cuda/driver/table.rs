//! The CUDA driver, loaded at run time: the functions used here and nothing more, and what its error codes say.
//!
//! The table is our own, in place of cudarc's raw bindings, since it is short and plain: some fifty functions with numbers for handles
//! and addresses, so that nothing needs a CUDA toolkit to build, what older drivers lack is optional, and no binding's types spread.

use crate::cuda::driver::errors::meaning;
use crate::os::ranges::Ranges;
use ferry_core::{Error, Kind, Result, Rows, sync::Mutex};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_void},
    fmt, mem, ptr,
};

/// A result code of the driver.
pub type Code = i32;
/// A stream, event, context, module or function of the driver; 0 is none.
pub type Handle = usize;
/// What the driver calls when a stream gets there: the stream, the result so far, the caller's data.
pub type Callback = unsafe extern "C" fn(Handle, Code, *mut c_void);

/// The call did what was asked.
pub const SUCCESS: Code = 0;
/// The work asked about is not done yet.
pub const NOT_READY: Code = 600;

/// The device accepts work of any stream of the process; other flags of the driver are not used.
pub const STREAM_NON_BLOCKING: u32 = 1;
/// The stream that all of the process use who name none.
pub const STREAM_LEGACY: Handle = 1;
/// The same, but of the calling thread alone.
pub const STREAM_PER_THREAD: Handle = 2;
/// A stream that takes work to run, and not into a graph.
pub const CAPTURES_NOTHING: i32 = 0;
/// A stream waits until the number in memory is no less than the one given.
pub const WAIT_UNTIL_AS_LARGE: u32 = 0;
/// The event remembers when it was reached.
pub const EVENT_TIMED: u32 = 0;
/// The event does not.
pub const EVENT_UNTIMED: u32 = 2;
/// Page-locked for every context, and readable by devices.
pub const HOST_PORTABLE_AND_MAPPED: u32 = 1 | 2;
/// Where an address lies is found by the address itself.
pub const MEMORY_UNIFIED: u32 = 4;
/// How many multiprocessors a device has, among its attributes.
pub const MULTIPROCESSORS: i32 = 16;
/// Whether its streams can wait for a number of 64 bits, and write one.
pub const STREAMS_WAIT_FOR_NUMBERS: i32 = 122;
/// Memory of a device, as `Attribute::MemoryType` says it.
pub const MEMORY_DEVICE: u32 = 2;

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

/// A rectangle to move, as the driver wants it. Memory types are always [`MEMORY_UNIFIED`].
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Rectangle {
    pub src_x: usize,
    pub src_y: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: usize,
    pub src_array: usize,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: usize,
    pub dst_array: usize,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
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

/// What the driver may do with the pieces of a batch from one on: when their sources are read, where it might be told that both
/// ends are, and flags.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Hints {
    pub sources_read: u32,
    pub source: [i32; 2],
    pub target: [i32; 2],
    pub flags: u32,
}

impl Hints {
    /// Sources are read when the stream gets there.
    pub const IN_THE_STREAM: Hints = Hints { sources_read: 1, source: [0; 2], target: [0; 2], flags: 0 };
}

/// cuMemcpyBatchAsync: where pieces go and come from, their lengths and number; hints, the first piece that each is about, and how
/// many; which piece was refused; the stream.
pub type CopyTogether = unsafe extern "C" fn(
    *const usize,
    *const usize,
    *const usize,
    usize,
    *const Hints,
    *const usize,
    usize,
    *mut usize,
    Handle,
) -> Code;

/// What another process opens an allocation with.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass(pub [u8; 64]);

macro_rules! functions {
    (
        needed { $($name:ident = $symbol:literal ($($kind:ty),*);)* }
        optional { $($more:ident = $newer:literal ($($with:ty),*);)* }
    ) => {
        /// Pointers into the driver library, which is never unloaded. What older drivers lack is optional.
        #[allow(non_snake_case, dead_code)]
        pub struct Functions {
            $(pub $name: unsafe extern "C" fn($($kind),*) -> Code,)*
            $(pub $more: Option<unsafe extern "C" fn($($with),*) -> Code>,)*
        }

        impl Functions {
            /// # Safety
            /// `library` is a CUDA driver and is never unloaded.
            unsafe fn find(library: &Library) -> Result<Self, libloading::Error> {
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
        cuLaunchKernel = "cuLaunchKernel" (Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void);
    }
    optional {
        cuDriverGetVersion = "cuDriverGetVersion" (*mut i32);
        cuDeviceGetName = "cuDeviceGetName" (*mut c_char, i32, i32);
        cuDeviceGetAttribute = "cuDeviceGetAttribute" (*mut i32, i32, i32);
        cuCtxGetCurrent = "cuCtxGetCurrent" (*mut Handle);
        cuFuncSetAttribute = "cuFuncSetAttribute" (Handle, i32, i32);
        cuStreamGetCtx = "cuStreamGetCtx" (Handle, *mut Handle);
        cuStreamIsCapturing = "cuStreamIsCapturing" (Handle, *mut i32);
        cuStreamWaitValue64 = "cuStreamWaitValue64_v2" (Handle, usize, u64, u32);
        cuStreamWriteValue64 = "cuStreamWriteValue64_v2" (Handle, usize, u64, u32);
        cuGetProcAddress = "cuGetProcAddress_v2" (*const c_char, *mut *mut c_void, i32, u64, *mut i32);
        cuIpcGetMemHandle = "cuIpcGetMemHandle" (*mut Pass, usize);
        cuIpcOpenMemHandle = "cuIpcOpenMemHandle_v2" (*mut usize, Pass, u32);
        cuIpcCloseMemHandle = "cuIpcCloseMemHandle" (usize);
    }
}

/// The driver, initialised.
pub struct Driver {
    pub calls: Functions,
    /// Copies many pieces in one call.
    pub copy_together: Option<CopyTogether>,
    /// Memory that this library has taken for itself (`own.rs`).
    pub own: Mutex<Ranges>,
}

impl Driver {
    /// Loads and initialises the driver library called `name`.
    pub fn load(name: &str) -> Result<Driver> {
        let refuse = |why: String| Kind::Unsupported.because(format!("the cuda backend: {why}"));
        // SAFETY: the driver's constructors have no preconditions.
        let library = unsafe { Library::new(name) }
            .map_err(|why| refuse(format!("{name} cannot be loaded: {}", reason(&why))))?;
        // SAFETY: it is kept loaded by the next statement.
        let calls = unsafe { Functions::find(&library) };
        // The driver has threads of its own: it must never be unloaded.
        std::mem::forget(library);
        let calls = calls
            .map_err(|why| refuse(format!("{name} is no CUDA driver that we know: {}", reason(&why))))?;
        let mut driver = Driver { calls, copy_together: None, own: Mutex::default() };
        // SAFETY: no preconditions.
        let code = unsafe { (driver.calls.cuInit)(0) };
        driver.check("cuInit", code).map_err(|why| refuse(why.to_string()))?;
        driver.copy_together = driver.find_copy_together();
        Ok(driver)
    }

    /// Its arguments differ from one version to the next, so it is asked for in one.
    fn find_copy_together(&self) -> Option<CopyTogether> {
        const VERSION: i32 = 12080;
        let (mut found, mut status, ask) = (ptr::null_mut(), 0, self.calls.cuGetProcAddress?);
        // SAFETY: the name ends with a zero, and the others receive the function and how it was found.
        let code = unsafe { ask(c"cuMemcpyBatchAsync".as_ptr(), &mut found, VERSION, 0, &mut status) };
        let is_found = code == SUCCESS && status == 0 && !found.is_null();
        // SAFETY: the function of this name in this version, and so of this type.
        is_found.then(|| unsafe { mem::transmute::<*mut c_void, CopyTogether>(found) })
    }

    /// How many GPUs there are. `Unsupported` if there is none.
    pub fn gpus(&self) -> Result<u32> {
        let mut count = 0;
        // SAFETY: `count` receives the number.
        let code = unsafe { (self.calls.cuDeviceGetCount)(&mut count) };
        self.check("cuDeviceGetCount", code)?;
        let none = || Kind::Unsupported.because("the cuda backend: the driver is there, but no GPU");
        u32::try_from(count).ok().filter(|count| *count > 0).ok_or_else(none)
    }

    /// Makes a result of a code that `call` returned.
    pub fn check(&self, call: impl fmt::Display, code: Code) -> Result<()> {
        match code {
            SUCCESS => Ok(()),
            code => Err(self.error(call, code)),
        }
    }

    /// What a code means, with the driver's own words.
    #[cold]
    pub fn error(&self, call: impl fmt::Display, code: Code) -> Error {
        let (name, text) =
            (self.text(self.calls.cuGetErrorName, code), self.text(self.calls.cuGetErrorString, code));
        meaning(code).kind.because(format!("{call}: {name} ({code}): {text}"))
    }

    /// What another process opens the allocation with that starts at `start`. Its context is current.
    pub fn pass_for(&self, start: usize) -> Result<Pass> {
        let mut pass = Pass([0; 64]);
        let call = self.calls.cuIpcGetMemHandle.ok_or_else(no_sharing)?;
        // SAFETY: `pass` receives the bytes.
        let code = unsafe { call(&mut pass, start) };
        self.check("cuIpcGetMemHandle", code).map(|()| pass)
    }

    /// Opens an allocation of another process: where it starts here. A context of its device is current.
    pub fn open_pass(&self, pass: Pass) -> Result<usize> {
        let (mut start, lazily) = (0, 1);
        let call = self.calls.cuIpcOpenMemHandle.ok_or_else(no_sharing)?;
        // SAFETY: `start` receives the address.
        let code = unsafe { call(&mut start, pass, lazily) };
        self.check("cuIpcOpenMemHandle", code).map(|()| start)
    }

    /// Undoes `open_pass`.
    ///
    /// # Safety
    /// Nothing uses the memory any more.
    pub unsafe fn close_pass(&self, start: usize) -> Result<()> {
        let call = self.calls.cuIpcCloseMemHandle.ok_or_else(no_sharing)?;
        // SAFETY: opened here; the caller vouches for the rest.
        let code = unsafe { call(start) };
        self.check("cuIpcCloseMemHandle", code)
    }

    /// Asks several things about `addr`; each answer goes where its pointer says. Memory unknown to the driver answers 0.
    pub fn ask<const N: usize>(&self, addr: usize, questions: [(Attribute, *mut c_void); N]) -> Result<()> {
        let (attributes, mut answers) =
            (questions.map(|question| question.0), questions.map(|question| question.1));
        let call = self.calls.cuPointerGetAttributes;
        // SAFETY: as many answers as questions, each with room for its kind: see `foreign.rs`, where our callers are.
        let code = unsafe { call(N as u32, attributes.as_ptr(), answers.as_mut_ptr(), addr) };
        self.check("cuPointerGetAttributes", code)
    }

    fn text(&self, ask: unsafe extern "C" fn(Code, *mut *const c_char) -> Code, code: Code) -> String {
        let mut text = ptr::null();
        // SAFETY: `text` receives a pointer to a constant of the driver, or nothing.
        let asked = unsafe { ask(code, &mut text) };
        if asked != SUCCESS || text.is_null() {
            return "unknown error".into();
        }
        // SAFETY: the driver's texts are constant and end with a zero.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

fn no_sharing() -> Error {
    Kind::Unsupported.because("this CUDA driver cannot share memory between processes")
}

/// The loader's own words, which sit behind libloading's.
fn reason(why: &libloading::Error) -> String {
    std::error::Error::source(why).map_or_else(|| why.to_string(), ToString::to_string)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_the_driver_is_told_so() {
        let why = Driver::load("libcuda-of-nobody.so.1").err().expect("there is no such library");
        assert_eq!(why.kind, Kind::Unsupported);
        let start = "the cuda backend: libcuda-of-nobody.so.1 cannot be loaded: ";
        assert!(why.note.starts_with(start) && why.note.len() > start.len(), "{why}");
        assert!(why.note.contains("No such file"), "the loader's reason: {why}");
    }

    #[test]
    fn a_library_that_is_no_driver_is_told_from_one() {
        let why = Driver::load("libc.so.6").err().expect("libc is no driver");
        assert_eq!(why.kind, Kind::Unsupported);
        assert!(why.note.contains("libc.so.6 is no CUDA driver") && why.note.contains("cuInit"), "{why}");
    }
}
