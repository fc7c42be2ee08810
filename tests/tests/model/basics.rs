//! The few things that whoever calls the C ABI needs: errors in words, a current device, handles and memory.

use std::cell::Cell;
use std::ffi::{CStr, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ascendcl::*;

use crate::program::{FIRST_CELLS, Kind};

pub const HUGE_FIRST: i32 = 0;
const REPEAT_INITIALIZE: i32 = 100002;

pub fn pointer(address: usize) -> *mut c_void {
    without_provenance_mut(address)
}

/// Makes a failed call an error with the library's own words.
pub fn ok(call: &str, code: i32) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    let text = aclGetRecentErrMsg();
    let text = match text.is_null() {
        true => String::new(),
        // SAFETY: a text that is not NULL ends with a NUL, and stays until this thread's next call.
        false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    };
    Err(format!("{call} answered {code}: {text}"))
}

/// Turns the refusal that documents ask for into success, and anything else into an error.
pub fn refused(answer: Result<(), String>) -> Result<(), String> {
    match answer {
        Ok(()) => Err("was accepted".into()),
        Err(why) if why.contains(" answered 107000: ") => Ok(()),
        Err(why) => Err(format!("should answer 107000: {why}")),
    }
}

/// The contexts of the program that runs now, if it has its own.
static CONTEXTS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Makes `device` the calling thread's, if it is not, with the program's own context or the device's default
/// one.
pub fn set_device(device: usize) -> Result<(), String> {
    thread_local!(static CURRENT: Cell<Option<(usize, usize)>> = const { Cell::new(None) });
    let wanted = (device, CONTEXTS[device].load(Ordering::Relaxed));
    if CURRENT.get() != Some(wanted) {
        match wanted.1 {
            0 => ok("aclrtSetDevice", aclrtSetDevice(device as i32))?,
            context => ok("aclrtSetCurrentContext", aclrtSetCurrentContext(pointer(context)))?,
        }
        CURRENT.set(Some(wanted));
    }
    Ok(())
}

/// A context to be stopped for good, with a piece of device memory that is no descriptor.
pub struct Stoppable {
    context: usize,
    pub bad: usize,
}

impl Stoppable {
    pub fn new(device: usize) -> Result<Stoppable, String> {
        set_device(device)?;
        let mut context = null_mut();
        // SAFETY: `context` is a valid place for a handle.
        ok("aclrtCreateContext", unsafe { aclrtCreateContext(&mut context, device as i32) })?;
        let (bad, len) = (device_malloc(desc_len(0)?, HUGE_FIRST)?, desc_len(0)?);
        // SAFETY: just allocated.
        ok("aclrtMemset", unsafe { aclrtMemset(pointer(bad), len, 0, len) })?;
        CONTEXTS[device].store(context.addr(), Ordering::Relaxed);
        Ok(Stoppable { context: context.addr(), bad })
    }

    pub fn close(&self, device: usize) -> Result<(), String> {
        CONTEXTS[device].store(0, Ordering::Relaxed);
        set_device(device)?;
        ok("aclrtFree", aclrtFree(pointer(self.bad)))?;
        ok("aclrtDestroyContext", aclrtDestroyContext(pointer(self.context)))
    }
}

/// Starts the library and lets the two devices reach each other, once per process.
pub fn start() -> Result<(), String> {
    static STARTED: OnceLock<Result<(), String>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // SAFETY: NULL means no configuration file.
            let code = unsafe { aclInit(std::ptr::null()) };
            ok("aclInit", if code == REPEAT_INITIALIZE { 0 } else { code })?;
            for device in [0, 1] {
                set_device(device)?;
                ok("aclrtDeviceEnablePeerAccess", aclrtDeviceEnablePeerAccess(1 - device as i32, 0))?;
            }
            Ok(())
        })
        .clone()
}

pub fn create_stream() -> Result<usize, String> {
    let mut stream = null_mut();
    // SAFETY: `stream` is a valid place for a handle.
    ok("aclrtCreateStream", unsafe { aclrtCreateStream(&mut stream) })?;
    Ok(stream.addr())
}

pub fn device_malloc(len: usize, policy: i32) -> Result<usize, String> {
    let mut device = null_mut();
    // SAFETY: `device` is a valid place for a pointer.
    ok("aclrtMalloc", unsafe { aclrtMalloc(&mut device, len, policy) })?;
    Ok(device.addr())
}

pub fn host_malloc(len: usize) -> Result<usize, String> {
    let mut host = null_mut();
    // SAFETY: `host` is a valid place for a pointer.
    ok("aclrtMallocHost", unsafe { aclrtMallocHost(&mut host, len) })?;
    Ok(host.expose_provenance())
}

/// Bytes of a descriptor, or of a pair of pointers.
pub fn desc_len(desc: usize) -> Result<usize, String> {
    let mut len = 2 * size_of::<usize>();
    if desc < FIRST_CELLS {
        // SAFETY: `len` is a valid place for a number.
        ok("aclrtGetMemcpyDescSize", unsafe {
            aclrtGetMemcpyDescSize(Kind::INNER_DEVICE_TO_DEVICE.0, &mut len)
        })?;
    }
    Ok(len)
}
