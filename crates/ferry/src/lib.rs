//! Moves memory between a program and accelerator devices, and makes the usual mistake of it impossible: host
//! memory cannot be read, changed or freed while a copy still uses it, because that does not compile. Copies
//! are asynchronous and run in streams, as in AscendCL and CUDA; whoever wants a result waits for it, in a
//! thread or in a task. The devices are emulated by the machine's own memory and threads, with the rules of
//! Ascend products, or are NVIDIA GPUs; a program is the same for both.
//!
//! ```
//! fn main() -> ferry::Result<()> {
//!     let runtime = ferry::Runtime::new()?;
//!     let device = runtime.device(0)?;
//!     let stream = device.stream()?;
//!
//!     let host = runtime.alloc_host_from(b"there and back")?; // page-locked memory of the host
//!     let there = device.alloc::<u8>(host.len())?; // memory of the device
//!
//!     let token = stream.upload(&there, host)?; // handed over; `host` went along
//!     let mut host = token.wait()?; // done; `host` is back
//!     host.fill(0);
//!     let host = stream.download(host, &there)?.wait()?;
//!     assert_eq!(host[..], *b"there and back");
//!     Ok(())
//! }
//! ```
//!
//! # The life of a buffer
//!
//! ```text
//!                  upload, download                       wait, .await
//!  HostBuffer<T> --------------------> InFlight<...> --------------------> HostBuffer<T>
//!  yours                               in flight: no way to the bytes      yours again
//!                                        |       ^
//!                                        +-------+  the next copy takes the token, without waiting
//! ```
//!
//! Copies that own their buffer give a token, [`InFlight`]; copies that borrow live in a
//! [`scope`](Stream::scope). Dropping a token, forgetting it, a panic, an abort: none of these lets a copy
//! touch memory that is somebody else's by then. Device memory is a shared handle ([`DeviceBuffer`]), which
//! the CPU never sees.
//!
//! # The types
//!
//! | | |
//! |---|---|
//! | [`Runtime`], [`Options`], [`Device`] | what is opened, and where memory and streams come from |
//! | [`Stream`], [`Scope`], [`Event`] | copies, fills and functions in order; memory that is lent; points in that order |
//! | [`HostBuffer`], [`SharedBuffer`], [`HostSlice`], [`Part`], [`HostMatrix`], [`HostMatrixMut`] | page-locked memory: owned, shared, lent, parts of it |
//! | [`DeviceBuffer`], [`DeviceSlice`], [`DeviceMatrix`] | device memory and parts of it |
//! | [`InFlight`], [`Synchronized`], [`Reached`] | copies, streams and events that can be waited for and awaited |
//! | [`Batch`], [`Descriptor`] | many copies as one; copies whose ends are read when they run |
//! | [`Graph`], [`Recorder`], [`GraphSlice`] | work that is captured once and launched many times |
//! | [`Error`], [`Kind`], [`Failed`] | what went wrong, and the buffer that was given to it |
//! | [`HostRead`], [`HostWrite`], [`HostPool`], [`HostPoolMut`], [`OnDevice`], [`FillValue`], [`Whole`] | what the methods take, for functions that are generic over it |
//!
//! # The guide
//!
//! 1. [The first copy](guide::first_copy)
//! 2. [Page-locked memory](guide::page_locked)
//! 3. [Streams and events](guide::streams_and_events)
//! 4. [What a copy owns](guide::ownership): tokens and scopes, and what happens on drop, forget, panic and
//!    abort
//! 5. [Rows and columns](guide::matrices): 2-D copies
//! 6. [Batches](guide::batches), for KV caches
//! 7. [Descriptors](guide::descriptors)
//! 8. [Graphs](guide::graphs): a step that is captured once and launched many times
//! 9. [Tasks](guide::tasks): async/await under tokio, smol or anything else
//! 10. [Errors](guide::errors)
//! 11. [Products and backends](guide::products): options and the environment
//!
//! Coming [from aclrt calls](guide::from_aclrt) or [from cudarc](guide::from_cudarc): tables of what takes
//! the place of what.
//!
//! `examples/rust` has numbered programs, twins of those in C.

mod batch;
mod descriptor;
mod device;
#[doc(hidden)]
pub mod engine;
mod event;
mod extent;
mod faults;
mod fill;
mod flight;
mod graph;
pub mod guide;
mod host;
mod matrix;
mod memory;
mod options;
mod part;
mod pending;
pub mod products;
#[doc(hidden)]
pub mod replay;
mod runtime;
mod scope;
mod stream;
mod wake;
pub mod watching;

pub use batch::{Batch, HostPool, HostPoolMut, Spot};
pub use bytemuck::Pod;
pub use descriptor::Descriptor;
pub use device::{DeviceBuffer, DeviceSlice};
pub use event::{Event, Reached};
pub use faults::FaultPlan;
pub use ferry_backends::host::schedule::RunOrder;
pub use ferry_core::{Block, Error, Kind, Observer, Op, Result, Ticket};
pub use fill::FillValue;
pub use flight::{Failed, InFlight, Synchronized};
pub use graph::{Graph, GraphSlice, Recorder};
pub use host::{HostBuffer, HostSlice, SharedBuffer};
pub use matrix::{DeviceMatrix, HostMatrix, HostMatrixMut};
pub use memory::{Element, HostRead, HostWrite, OnDevice};
pub use options::{BackendName, Options, SHARED_FOLDER, parse_size};
pub use part::{Part, Whole};
pub use runtime::{Device, MemoryInfo, Runtime};
pub use scope::Scope;
pub use stream::Stream;
