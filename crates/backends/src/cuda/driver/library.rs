//! The driver's shared library, loaded and initialised at run time, so that a machine without one can build
//! and run all the rest.

use super::{
    errors::meaning,
    table::{Code, CopyBatch, Functions, SUCCESS},
};
use crate::os::ranges::CountedRanges;
use ferry_core::{Error, Kind, Result, sync::Mutex};
use libloading::Library;
use std::{
    ffi::{CStr, c_char, c_void},
    fmt, mem, ptr,
    sync::OnceLock,
};

/// The driver, initialised.
pub struct Driver {
    pub(super) calls: Functions,
    /// Copies many segments in one call; newer drivers have it.
    pub(super) copy_batch: Option<CopyBatch>,
    /// Memory that this library has taken for itself.
    pub(super) own: Mutex<CountedRanges>,
    /// Whether all GPUs reach registered memory by the host's addresses, once that was asked.
    shares_host_addresses: OnceLock<bool>,
}

/// Attribute of a device: whether it reaches registered memory by the host's addresses.
const REGISTERED_BY_HOST_ADDRESS: i32 = 91;

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
        mem::forget(library);
        let calls = calls
            .map_err(|why| refuse(format!("{name} is no CUDA driver that we know: {}", reason(&why))))?;
        let (own, shares_host_addresses) = (Mutex::default(), OnceLock::new());
        let mut driver = Driver { calls, copy_batch: None, own, shares_host_addresses };
        // SAFETY: no preconditions.
        let code = unsafe { (driver.calls.cuInit)(0) };
        driver.check("cuInit", code).map_err(|why| refuse(why.to_string()))?;
        driver.copy_batch = driver.find_copy_batch();
        Ok(driver)
    }

    /// Its arguments differ from one version to the next, so it is asked for in one.
    fn find_copy_batch(&self) -> Option<CopyBatch> {
        const VERSION: i32 = 12080;
        let (mut found, mut status, ask) = (ptr::null_mut(), 0, self.calls.cuGetProcAddress?);
        // SAFETY: the name ends with a zero, and the others receive the function and how it was found.
        let code = unsafe { ask(c"cuMemcpyBatchAsync".as_ptr(), &mut found, VERSION, 0, &mut status) };
        let is_found = code == SUCCESS && status == 0 && !found.is_null();
        // SAFETY: the function of this name in this version, and so of this type.
        is_found.then(|| unsafe { mem::transmute::<*mut c_void, CopyBatch>(found) })
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

    /// Whether all GPUs reach registered memory by the host's addresses, as they do memory that the driver
    /// made.
    pub(super) fn shares_host_addresses(&self) -> bool {
        *self.shares_host_addresses.get_or_init(|| {
            let Some(ask) = self.calls.cuDeviceGetAttribute else { return false };
            let does = |ordinal: u32| {
                let (mut device, mut value) = (0, 0);
                // SAFETY: `device` receives the device.
                let found = unsafe { (self.calls.cuDeviceGet)(&mut device, ordinal as i32) };
                // SAFETY: `value` receives the number, if the device is one.
                found == SUCCESS
                    && unsafe { ask(&mut value, REGISTERED_BY_HOST_ADDRESS, device) } == SUCCESS
                    && value == 1
            };
            self.gpus().is_ok_and(|gpus| (0..gpus).all(does))
        })
    }

    /// Makes a result of a code that `call` returned.
    pub(super) fn check(&self, call: impl fmt::Display, code: Code) -> Result<()> {
        match code {
            SUCCESS => Ok(()),
            code => Err(self.error(call, code)),
        }
    }

    /// What a code means, with the driver's own words.
    #[cold]
    pub(super) fn error(&self, call: impl fmt::Display, code: Code) -> Error {
        let (name, text) =
            (self.text(self.calls.cuGetErrorName, code), self.text(self.calls.cuGetErrorString, code));
        meaning(code).kind.because(format!("{call}: {name} ({code}): {text}"))
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
