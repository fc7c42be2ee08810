//! Finds the library whose functions the module calls. Nothing is linked: a process has one engine, whoever loaded it first.

use ferry_abi::{Functions, Private};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use pyo3::{exceptions::PyImportError, prelude::*};
use std::{
    ffi::{CStr, OsStr, c_char, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The names under which programs load the library. The second is a link to the first, and has its SONAME.
const NAMES: [&str; 2] = ["libascendcl.so", "libacl_rt.so"];

/// The functions of the library of this process.
pub struct Library {
    pub functions: Functions,
    pub private: Private,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// The library. Every function of the module comes after [`load`].
pub fn library() -> &'static Library {
    LIBRARY.get().expect("a module that was imported has its library")
}

/// Takes the library that is loaded already, else loads the one beside this module.
pub fn load() -> PyResult<()> {
    if LIBRARY.get().is_some() {
        return Ok(());
    }
    let loaded = match NAMES.iter().find_map(|name| loaded_already(name)) {
        Some(loaded) => loaded,
        None => load_ours()?,
    };
    check_version(&loaded)?;
    // SAFETY: a library of our own version has these functions with these types.
    let (functions, private) = unsafe { (Functions::load(&loaded), Private::load(&loaded)) };
    let lacks = |name| PyImportError::new_err(format!("{} has no {name}", path_of(&loaded).display()));
    let library = Library { functions: functions.map_err(lacks)?, private: private.map_err(lacks)? };
    // Its threads run its code: it stays.
    std::mem::forget(loaded);
    let _ = LIBRARY.set(library);
    Ok(())
}

/// The library of this name, by its SONAME or the name it was asked for, if the process has one.
fn loaded_already(name: &str) -> Option<Loaded> {
    // SAFETY: nothing is loaded, so no initialiser runs.
    unsafe { Loaded::open(Some(name), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()
}

/// Loads the library beside this module. Its second name is a file of its own there, empty but for that name and a need for the
/// first: loaded too, it is what others get who ask for that name later, and not a second engine from wherever they would look.
fn load_ours() -> PyResult<Loaded> {
    let module = file_of(load_ours as *const c_void);
    let folder = module.parent().unwrap_or(Path::new(".")).join("lib");
    let open = |name| {
        let path = folder.join(name);
        // SAFETY: it is our library; loading it runs no more than its initialisers.
        unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }
            .map_err(|why| PyImportError::new_err(format!("cannot load {}: {why}", path.display())))
    };
    let library = open(NAMES[0])?;
    std::mem::forget(open(NAMES[1])?);
    Ok(library)
}

fn check_version(loaded: &Loaded) -> PyResult<()> {
    const OURS: &str = env!("CARGO_PKG_VERSION");
    // SAFETY: this is the function's type in every version.
    let version = unsafe { loaded.get::<unsafe extern "C" fn() -> *const c_char>(b"ferryVersion\0") };
    let Ok(version) = version else {
        return Err(PyImportError::new_err(format!(
            "this process has loaded {}, which is not Ferry's (it has no ferryVersion): Ferry's module acl cannot share it, \
             and two libraries would not know each other's memory",
            path_of(loaded).display()
        )));
    };
    // SAFETY: takes no argument and returns a C string that is never freed.
    let version = unsafe { CStr::from_ptr(version()) }.to_string_lossy().into_owned();
    if version == OURS {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "this process has loaded Ferry {version}, {}, but this module acl is of Ferry {OURS}: install the same version of both",
        path_of(loaded).display()
    )))
}

/// The file of a library, by one of the functions that every AscendCL has.
fn path_of(loaded: &Loaded) -> PathBuf {
    // SAFETY: only its address is used.
    let function = unsafe { loaded.get::<unsafe extern "C" fn()>(b"aclrtMemcpy\0") };
    function.map_or_else(|_| PathBuf::from(NAMES[0]), |function| file_of(*function as *const c_void))
}

/// The file that an address was loaded from.
fn file_of(address: *const c_void) -> PathBuf {
    // SAFETY: plain data for dladdr to fill.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return PathBuf::new();
    }
    // SAFETY: dladdr gave a C string that lives as long as the library, and no library of ours is unloaded.
    Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(info.dli_fname) }.to_bytes())).to_owned()
}
