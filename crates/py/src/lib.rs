//! The Python module `acl`: pyACL's functions, argument by argument, on top of libascendcl.so.
//!
//! This is the only code that knows Python, and it knows nothing else: each function takes its arguments
//! apart, lets go of the interpreter and calls the C function of the library that the process has
//! (`library`), so that Python, C and other extensions share one engine. `call` holds what all functions do
//! alike.

mod buffer;
mod call;
mod dicts;
mod exceptions;
mod exit;
mod interrupt;
mod library;
mod line;
mod report;
mod rt;
mod top;
mod util;

use pyo3::{exceptions::PyImportError, ffi, prelude::*};

/// The native part of the package `acl`, which takes its names from here.
#[pymodule]
fn _acl(module: &Bound<'_, PyModule>) -> PyResult<()> {
    only_in_the_first_interpreter(module.py())?;
    library::load()?;
    exit::register(module)?;
    interrupt::register(module.py())?;
    top::add_to(module)?;
    rt::add_to(&part(module, "rt")?)?;
    util::add_to(&part(module, "util")?)?;
    top::add_sys_to(&part(module, "sys")?)
}

/// Other interpreters of the process end before it does, and the engine with them. Python refuses by itself
/// since 3.12.
fn only_in_the_first_interpreter(_py: Python<'_>) -> PyResult<()> {
    // SAFETY: the interpreter is held.
    match unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) } {
        0 => Ok(()),
        _ => Err(PyImportError::new_err("module acl._acl does not support loading in subinterpreters")),
    }
}

/// A new module `acl.NAME`, which `import acl.NAME` finds too.
fn part<'py>(module: &Bound<'py, PyModule>, name: &str) -> PyResult<Bound<'py, PyModule>> {
    let full = format!("acl.{name}");
    let part = PyModule::new(module.py(), &full)?;
    module.add(name, &part)?;
    module.py().import("sys")?.getattr("modules")?.set_item(full, &part)?;
    Ok(part)
}
