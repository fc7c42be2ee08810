//! `acl.rt`: the functions of the runtime, one file for each part of it.
//!
//! A function here is one C function with Python's types around it, mostly a line in a list; it has no rules
//! of its own. What all of them do alike (taking ints apart, letting go of the interpreter, giving codes
//! back) is in `call.rs`, which knows none of these files.

mod batch;
mod copy;
mod device;
mod event;
mod limits;
mod memory;
mod notify;
mod stream;
mod virtual_memory;

use pyo3::prelude::*;

/// Adds everything to the module `acl.rt`.
pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.setattr(
        "__doc__",
        "The runtime: devices, contexts, streams, events, memory and every way of copying it.\n\n\
         Addresses, streams, events and contexts are ints. Every function returns its code, 0 for success, \
         alone or behind \
         its outputs; acl.get_recent_err_msg() tells what a failed call found wrong.",
    )?;
    copy::add_to(module)?;
    batch::add_to(module)?;
    device::add_to(module)?;
    stream::add_to(module)?;
    event::add_to(module)?;
    notify::add_to(module)?;
    limits::add_to(module)?;
    memory::add_to(module)?;
    virtual_memory::add_to(module)?;
    crate::exceptions::add_to(module)?;
    crate::report::add_to(module)
}
