//! Finds and loads libascendcl.so, and resolves its functions by name. Nothing is linked.

use std::ffi::{CStr, c_char};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::functions::Functions;

/// Calls a function of the table by its name, inside an `unsafe` block, and checks its code.
#[macro_export]
macro_rules! call {
    ($library:expr, $name:ident($($argument:expr),* $(,)?)) => {
        $library.check(stringify!($name), ($library.functions.$name)($($argument),*))
    };
}

/// The loaded library. It is never unloaded (its threads run its code), hence always `&'static`.
pub struct Library {
    /// Its file, without links.
    pub path: PathBuf,
    /// Its version, known only for the library that came with this command; there is no call to ask another
    /// one.
    pub version: Option<&'static str>,
    /// Its functions.
    pub functions: Functions,
}

impl Library {
    /// Finds and loads the library and calls `aclInit`.
    pub fn open() -> Result<&'static Library> {
        let path = find()?;
        let version = named_by_the_user().is_none().then_some(env!("CARGO_PKG_VERSION"));
        // SAFETY: it is our library or one the user named; loading it runs no more than its initialisers.
        let loaded = unsafe { libloading::Library::new(&path) };
        let loaded =
            loaded.map_err(|error| setup(format!("cannot load {}: {error}", path.display())))?.into();
        // SAFETY: it is our library or one the user named, which is to have the same ABI.
        let functions = unsafe { Functions::load(&loaded) };
        let older = |name| setup(format!("the library has no {name}: it is older than this command"));
        let functions = functions.map_err(older)?;
        std::mem::forget(loaded);
        let library: &'static Library = Box::leak(Box::new(Library { path, version, functions }));
        // SAFETY: NULL is a documented argument: no configuration file.
        library.check("aclInit", unsafe { (library.functions.aclInit)(std::ptr::null()) })?;
        Ok(library)
    }

    /// Turns a code other than 0 into an error with the function's name and the library's own message.
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

    /// The version that the library reports of a package.
    pub fn package_version(&self, package: &str) -> Result<String> {
        let mut name: Vec<c_char> = package.bytes().chain([0]).map(|byte| byte as c_char).collect();
        let mut version: [c_char; 128] = [0; 128];
        // SAFETY: a C string, and the room that the documents ask for.
        unsafe { crate::call!(self, aclsysGetVersionStr(name.as_mut_ptr(), version.as_mut_ptr())) }?;
        // SAFETY: the call has succeeded, so it wrote a string.
        Ok(unsafe { text(version.as_ptr()) }.unwrap_or_default())
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
        unsafe { crate::call!(self, aclrtGetRunMode(&mut mode)) }?;
        Ok(mode)
    }

    /// An attribute of a device: `aclrtDevAttr`.
    pub fn device_info(&self, device: u32, attribute: i32) -> Result<i64> {
        let mut value = 0;
        // SAFETY: `value` is writable for the time of the call.
        unsafe { crate::call!(self, aclrtGetDeviceInfo(device, attribute, &mut value)) }?;
        Ok(value)
    }

    /// The physical number of a device, which differs from its logical one where not all devices are visible.
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
    // The last is where a wheel has it.
    [
        "deps/libascendcl.so",
        "libascendcl.so",
        "../lib64/libascendcl.so",
        "../lib/libascendcl.so",
        "../../../acl/lib/libascendcl.so",
    ]
    .iter()
    .find_map(|place| folder.join(place).canonicalize().ok())
    .ok_or_else(|| {
        let beside = folder.display();
        setup(format!(
            "no libascendcl.so beside {beside} (deps/, ./, ../lib64/, ../lib/); \
                 FERRY_LIBRARY may name one"
        ))
    })
}

/// The backend the library will open: what the environment says.
pub fn backend_name() -> String {
    std::env::var("FERRY_BACKEND").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| "host".to_owned())
}

/// Whether the product or the form is not the default one, which has every function.
pub fn is_other_product() -> bool {
    [("FERRY_SOC", "Ascend910B1"), ("FERRY_FORM", "ep")]
        .iter()
        .any(|(name, usual)| std::env::var_os(name).is_some_and(|value| value != *usual))
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
