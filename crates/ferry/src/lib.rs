//! Ferry for Rust programs. Today: [`Options`], which say what to open, from the program or from the environment. The runtime,
//! typed buffers and async/await come next.

#[doc(hidden)]
pub mod engine;
mod options;
pub mod products;

pub use ferry_backends::probe;
pub use ferry_core::{Error, Kind, Observer, Result};
pub use options::{BackendName, Options, parse_size};
