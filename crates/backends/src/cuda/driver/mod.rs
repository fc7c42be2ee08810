//! The CUDA driver, loaded at run time: the table of its functions, what its codes mean, memory that it owns. Everything
//! else in this backend stands on this floor; it knows nothing above it.

pub mod errors;
pub mod own;
mod table;

pub use table::*;
