//! `acl` itself: initialisation, versions, messages; and `acl.sys`.

use crate::call::{Int, Text, Why, enter, enter_briefly, functions, take};
use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
};
use std::ffi::{CStr, c_char};

/// Adds the functions to the module `acl`.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    add_list_to(module)?;
    module.add_function(wrap_pyfunction!(init, module)?)?;
    module.add_function(wrap_pyfunction!(get_recent_err_msg, module)?)?;
    module.add_function(wrap_pyfunction!(get_soc_name, module)?)?;
    module.add_function(wrap_pyfunction!(float16_to_float, module)?)?;
    module.add_function(wrap_pyfunction!(float_to_float16, module)?)?;
    module.add_function(wrap_pyfunction!(get_version_str, module)?)
}

/// Adds the functions to the module `acl.sys`.
pub fn add_sys_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.setattr("__doc__", "Versions of packages.")?;
    module.add_function(wrap_pyfunction!(get_version_str, module)?)
}

functions! { "acl":
    /// Shuts acl down, however often it was initialised: all work is waited for, and the default contexts
    /// end.
    ///
    /// Returns ret: 0, or 100037 if it was not initialised. C: aclFinalize.
    fn finalize()
        = aclFinalize();

    /// Takes one acl.init back; with the last one acl shuts down.
    ///
    /// Returns (count, ret): how many are left. C: aclFinalizeReference.
    fn finalize_reference() -> (count: u64)
        = aclFinalizeReference(count);

    /// Tells the version of the interface.
    ///
    /// Deprecated: use get_version_str.
    ///
    /// Returns (major, minor, patch, ret). C: aclrtGetVersion.
    fn get_version() -> (major: i32, minor: i32, patch: i32)
        = aclrtGetVersion(major, minor, patch);
}

/// Initialises acl.
///
/// config_path: the path of a JSON file, or nothing.
///
/// Returns ret: 0, 100002 if it was initialised already, which counts and is no harm, 100003 if there is no
/// such file, 100006 if it is not JSON, or another error code. C: aclInit.
#[pyfunction]
#[pyo3(signature = (config_path = None, /))]
fn init(py: Python<'_>, config_path: Option<Text>) -> PyResult<i32> {
    let Some(config_path) = config_path else {
        // SAFETY: NULL is a documented argument.
        return enter(py, |library| unsafe { (library.functions.aclInit)(std::ptr::null()) });
    };
    take!(py, "acl.init", [config_path], |code| code);
    // SAFETY: a C string for the time of the call.
    enter(py, |library| unsafe { (library.functions.aclInit)(config_path.as_ptr()) })
}

/// Tells what the calls of this thread that failed found wrong, newest first, and forgets it.
///
/// Returns a str, or None if there is nothing to tell. C: aclGetRecentErrMsg.
#[pyfunction]
#[pyo3(signature = ())]
fn get_recent_err_msg(py: Python<'_>) -> Option<String> {
    // SAFETY: takes no argument; the text is valid until this thread's next call of it, and copied at once.
    enter_briefly(py, |library| unsafe { text((library.functions.aclGetRecentErrMsg)()) })
}

/// Tells the name of the product, such as Ascend910B1.
///
/// Returns a str, or None. C: aclrtGetSocName.
#[pyfunction]
#[pyo3(signature = ())]
fn get_soc_name(py: Python<'_>) -> Option<String> {
    // SAFETY: takes no argument; the text lives as long as the library.
    enter_briefly(py, |library| unsafe { text((library.functions.aclrtGetSocName)()) })
}

/// Turns a 16-bit float into a float of Python's.
///
/// value: its bits, an int from 0 to 65535; another one raises ValueError.
///
/// Returns output: a float. C: aclFloat16ToFloat.
#[pyfunction]
#[pyo3(signature = (value, /))]
fn float16_to_float(py: Python<'_>, value: Int<u16>) -> PyResult<f32> {
    let value = value.get("value").map_err(|why| match why {
        Why::Type(error) => error,
        Why::Value(_, note) => PyValueError::new_err(note),
    })?;
    // SAFETY: takes a number.
    Ok(enter_briefly(py, |library| unsafe { (library.functions.aclFloat16ToFloat)(value) }))
}

/// Turns a float of Python's into the nearest 16-bit one, the even one of two; infinity for what is too
/// large.
///
/// value: a float.
///
/// Returns output: its bits, an int. C: aclFloatToFloat16.
#[pyfunction]
#[pyo3(signature = (value, /))]
fn float_to_float16(py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<u16> {
    let named = |error: PyErr| PyTypeError::new_err(format!("argument 'value': {}", error.value(py)));
    let value: f64 = value.extract().map_err(named)?;
    // SAFETY: takes a number.
    Ok(enter_briefly(py, |library| unsafe { (library.functions.aclFloatToFloat16)(value as f32) }))
}

/// Tells the version of a package.
///
/// pkgName: a str: 'cann', 'runtime', 'compiler', 'hccl', 'toolkit', 'opp', 'opp_kernel', 'driver' or
/// 'firmware'.
///
/// Returns (version_str, ret). C: aclsysGetVersionStr.
#[pyfunction]
#[pyo3(signature = (pkgName, /))]
#[allow(non_snake_case)]
fn get_version_str(py: Python<'_>, pkgName: Text) -> PyResult<(String, i32)> {
    /// Documented: the room that the C function may fill.
    const ROOM: usize = 128;
    take!(py, "acl.get_version_str", [pkgName], |code| (String::new(), code));
    enter(py, |library| {
        let mut version = [0 as c_char; ROOM];
        let function = library.functions.aclsysGetVersionStr;
        // SAFETY: the name is a C string, which the function only reads, and the version has the documented
        // room.
        let code = unsafe { function(pkgName.as_ptr().cast_mut(), version.as_mut_ptr()) };
        version[ROOM - 1] = 0;
        // SAFETY: it ends, at the latest where a zero was just put.
        (unsafe { text(version.as_ptr()) }.unwrap_or_default(), code)
    })
}

/// Copies a C string.
///
/// # Safety
/// `at` is NULL or a string that stays as it is for the time of the call.
unsafe fn text(at: *const c_char) -> Option<String> {
    // SAFETY: not NULL, and a string by the caller's word.
    (!at.is_null()).then(|| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned())
}
