//! Ways to reach devices. A backend is a folder; it loads what it needs at run time, so there is nothing to link.
//!
//! - [`host`]: devices made of memory and threads. Needs nothing but a CPU.
//! - [`cuda`]: real NVIDIA GPUs, through the CUDA driver.

pub mod cuda;
pub mod fault;
pub mod files;
pub mod fork;
pub mod host;
mod litter;
mod nobodys;
pub mod nodes;
pub mod probe;
mod ranges;
pub mod refusal;
#[doc(hidden)]
pub mod threads;
pub mod usage;
