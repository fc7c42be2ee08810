//! The CUDA driver, loaded at run time, behind functions that return a [`Result`](ferry_core::Result).
//!
//! There is one method for each function of the driver that this backend calls, and no call of the driver
//! anywhere else. Those that need a context are methods of [`Current`], the proof that one is current on the
//! calling thread; handles of streams, events and kernels have types of their own. What a result code means
//! is decided in one table, and a code that says that the device is lost is remembered with its [`Context`],
//! which then refuses every later call.
//!
//! Nothing here knows of queues, tickets or plans: that is the business of the floors above, all of which
//! stand on this one. It imports nothing of them.

mod context;
mod contexts;
mod copies;
mod errors;
mod handles;
mod implicit_sync;
mod kernels;
mod library;
mod memory;
mod streams;
mod table;

pub use context::{Context, Current};
pub use contexts::Contexts;
pub use copies::MAX_PITCH;
pub use handles::{EventHandle, KernelHandle, StreamHandle};
pub use implicit_sync::ImplicitSync;
pub use kernels::arg;
pub use library::Driver;
pub use memory::Allocation;
pub use streams::StreamCallback;
pub use table::{Code, IpcHandle, SUCCESS};
