//! Ferry for Rust programs.

mod batch;
mod descriptor;
mod device;
#[doc(hidden)]
pub mod engine;
mod event;
mod extent;
mod fill;
mod flight;
mod host;
mod matrix;
mod memory;
mod options;
mod part;
pub mod products;
mod runtime;
mod scope;
mod stream;
mod wake;

pub use batch::{Batch, HostPool, HostPoolMut, Spot};
pub use descriptor::Descriptor;
pub use device::{DeviceBuffer, DeviceSlice};
pub use event::{Event, Reached};
pub use ferry_backends::probe;
pub use ferry_core::{Error, Kind, Observer, Result};
pub use fill::FillValue;
pub use flight::{Failed, InFlight, Synchronized};
pub use host::{HostBuffer, HostSlice, SharedBuffer};
pub use matrix::{DeviceMatrix, HostMatrix, HostMatrixMut};
pub use memory::{HostRead, HostWrite, OnDevice};
pub use options::{BackendName, Options, parse_size};
pub use part::{Part, Whole};
pub use runtime::{Device, MemoryInfo, Runtime};
pub use scope::Scope;
pub use stream::Stream;
