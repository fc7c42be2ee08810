//! The CUDA driver, found at run time: declared here once more, beside the backend's, since a peer that
//! shared the backend's would share its mistakes.
//!
//! The files of this folder are the only ones here that call it. `table` declares its functions, `context`
//! finds them and has the GPU's primary context; `stream` and `event` are what has an order, `batch`, `graph`
//! and `kernel` are put into streams, `memory` is the driver's own.

pub use batch::CudaBatch;
pub use context::CudaDriver;
pub use event::CudaEvent;
pub use graph::CudaGraph;
pub use kernel::{CudaKernel, LaunchShape};
pub use memory::CudaBlock;
pub use stream::CudaStream;
pub use table::Rectangle;

mod batch;
mod context;
mod event;
mod graph;
mod kernel;
mod memory;
mod stream;
mod table;
