//! Finds the library whose functions the module calls. Nothing is linked: a process has one engine, which
//! another library may have loaded before.

use ferry_abi::{Functions, Private};
use libloading::os::unix::{Library as Loaded, RTLD_LOCAL, RTLD_NOW};
use pyo3::{exceptions::PyImportError, prelude::*};
use std::{
    error::Error,
    ffi::{CStr, CString, OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The names under which programs load the library. The second is a link to the first, and has its SONAME.
const NAMES: [&str; 2] = ["libascendcl.so", "libacl_rt.so"];

/// The function by which the library is known.
const VERSION: &[u8] = b"ferryVersion\0";

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
    if let several @ [_, _, ..] = &*engines() {
        return Err(too_many(several));
    }
    let loaded = match NAMES.into_iter().find_map(loaded_already) {
        Some(loaded) => loaded,
        None => load_ours(NAMES[0])?,
    };
    check_version(&loaded)?;
    // SAFETY: a library of our own version has these functions with these types.
    let (functions, private) = unsafe { (Functions::load(&loaded), Private::load(&loaded)) };
    let lacks = |name| PyImportError::new_err(format!("{} has no {name}", path_of(&loaded).display()));
    let library = Library { functions: functions.map_err(lacks)?, private: private.map_err(lacks)? };
    // Its threads run its code: it stays.
    std::mem::forget(loaded);
    load_second_name()?;
    let _ = LIBRARY.set(library);
    Ok(())
}

/// The files of Ferry's engines that the process has.
fn engines() -> Vec<PathBuf> {
    let mut libraries = Vec::<CString>::new();
    // SAFETY: the function only adds to the list that it is given.
    unsafe { libc::dl_iterate_phdr(Some(note_name), (&raw mut libraries).cast()) };
    let mut engines = Vec::new();
    for library in libraries.iter().filter_map(|name| loaded_already(OsStr::from_bytes(name.to_bytes()))) {
        // Found in the library itself or in one that it needs.
        // SAFETY: only its address is used.
        let Ok(function) = (unsafe { library.get::<unsafe extern "C" fn()>(VERSION) }) else { continue };
        let path = file_of(*function as *const c_void);
        if !engines.contains(&path) {
            engines.push(path);
        }
    }
    engines
}

/// Adds the name of a library to a list; the program itself has none.
///
/// # Safety
/// `info` is what dl_iterate_phdr gives, and `names` a list of names.
unsafe extern "C" fn note_name(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
    // SAFETY: the caller's word; the name is a C string.
    let (names, name) = unsafe { (&mut *names.cast::<Vec<CString>>(), CStr::from_ptr((*info).dlpi_name)) };
    if !name.is_empty() {
        names.push(name.to_owned());
    }
    0
}

/// A library that the process has, by its path, its SONAME, or the name it was asked for.
fn loaded_already(name: impl libloading::AsFilename) -> Option<Loaded> {
    // SAFETY: nothing is loaded, so no initialiser runs.
    unsafe { Loaded::open(Some(name), RTLD_NOW | libc::RTLD_NOLOAD) }.ok()
}

/// Loads a library that lies beside this module.
fn load_ours(name: &str) -> PyResult<Loaded> {
    let module = file_of(load_ours as *const c_void);
    let path = module.parent().unwrap_or(Path::new(".")).join("lib").join(name);
    // SAFETY: it is our library; loading it runs no more than its initialisers.
    unsafe { Loaded::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.map_err(|why| cannot(&path, why))
}

/// The library's second name is a file of its own beside this module, empty but for that name and a need for
/// the first: loaded too, it is what others get who ask for that name later, and not a second engine from
/// wherever they would look.
fn load_second_name() -> PyResult<()> {
    // What has the first name only by its file's would not be what the second finds.
    if loaded_already(NAMES[0]).is_some() && loaded_already(NAMES[1]).is_none() {
        std::mem::forget(load_ours(NAMES[1])?);
    }
    Ok(())
}

fn cannot(path: &Path, why: libloading::Error) -> PyErr {
    // What the system says is one further down.
    let why = why.source().map_or_else(|| why.to_string(), ToString::to_string);
    PyImportError::new_err(format!("cannot load {}: {why}", path.display()))
}

fn too_many(paths: &[PathBuf]) -> PyErr {
    let paths = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
    PyImportError::new_err(format!(
        "this process has loaded Ferry more than once, {paths}, and they do not know each other's memory: \
         see that all that use \
         it find the same file (LD_LIBRARY_PATH)"
    ))
}

fn check_version(loaded: &Loaded) -> PyResult<()> {
    const OURS: &str = env!("CARGO_PKG_VERSION");
    // SAFETY: this is the function's type in every version.
    let version = unsafe { loaded.get::<unsafe extern "C" fn() -> *const c_char>(VERSION) };
    let Ok(version) = version else {
        return Err(PyImportError::new_err(format!(
            "this process has loaded {}, which is not Ferry's (it has no ferryVersion): Ferry's module acl \
             cannot share it, \
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
        "this process has loaded Ferry {version}, {}, but this module acl is of Ferry {OURS}: install the \
         same version of both",
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
