//! libascendcl.so: the C ABI of AscendCL's runtime. Each function parses its arguments and calls the rule of
//! the same name in `ferry-acl`; beside them there is only what the Python module and the companion libraries
//! need (`private.rs`). The headers in `include/acl` are the contract, and `xtask abi` compares the two.
//!
//! Arrows: `types` and `enter` <- one module for each family of functions. None of those needs another, but
//! for the keys of `ipc`, which `rt` and `notify` read too.
#![allow(non_camel_case_types, non_snake_case)]

mod app_log;
mod attributes;
mod copy;
mod device;
mod enter;
mod event;
mod exceptions;
mod ext;
mod graph;
mod health;
mod ids;
mod info;
mod init;
mod ipc;
mod memory;
mod notify;
mod private;
mod report;
mod rt;
mod stream;
mod types;
mod version;
mod virtual_memory;

pub use app_log::*;
pub use attributes::*;
pub use copy::*;
pub use device::*;
pub use event::*;
pub use exceptions::*;
pub use ext::*;
pub use ferry_acl::constants;
pub use graph::*;
pub use health::*;
pub use ids::*;
pub use info::*;
pub use init::*;
pub use ipc::*;
pub use memory::*;
pub use notify::*;
pub use private::*;
pub use report::*;
pub use rt::*;
pub use stream::*;
pub use types::*;
pub use version::*;
pub use virtual_memory::*;

/// What the loader calls when it has loaded the library.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    ferry_acl::state::load();
}
