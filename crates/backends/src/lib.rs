//! Ways to reach devices. A backend is a folder; it loads what it needs at run time, so there is nothing to
//! link.
//!
//! - [`host`]: devices made of memory and threads. Needs nothing but a CPU.
//! - [`cuda`]: real NVIDIA GPUs, through the CUDA driver.
//!
//! The two do not know each other. Under both lies one floor that knows neither: [`os`] (the operating
//! system) and the modules beside it.

pub mod bytes;
pub mod cuda;
pub mod host;
mod litter;
pub mod os;
mod pool;
mod unallocated;
pub mod usage;
