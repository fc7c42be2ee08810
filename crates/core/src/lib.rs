//! The engine's core: what memory exists, what a checked copy is, and in which order work is handed to a device.
//!
//! Eight words carry it: a [`Backend`] reaches devices, a [`Queue`] runs [`Op`]s in the order given, a [`Fence`] stands for
//! "everything submitted so far", a [`Plan`] is a copy that has been checked, a [`Stream`] and an [`Event`] are what users
//! hold, and an [`Observer`] watches. The core validates and backends trust. It has no FFI, no globals and no thread-locals,
//! and it knows nothing of AscendCL's numbers.

pub mod backend;
pub mod error;
pub mod event;
pub mod fence;
pub mod gate;
pub mod halt;
pub mod indirect;
mod limbo;
mod line;
pub mod memory;
pub mod observe;
pub mod op;
mod pieces;
pub mod plan;
pub mod queue;
pub mod reduce;
pub mod runtime;
pub mod share;
pub mod space;
pub mod status;
pub mod stream;
pub mod sync;
pub mod table;
mod uses;

pub use backend::{AddressSpace, Backend, BlockWatch, DeviceMemory, Features, NativeStreams, Sharing};
pub use error::{Error, Kind, Result};
pub use event::Event;
pub use fence::{Fence, Mark, Point};
pub use gate::Gate;
pub use halt::Halt;
pub use indirect::Indirect;
pub use limbo::PATIENCE;
pub use memory::{Access, Block, DeviceId, Home, Memory, Origin, Place, Request};
pub use observe::Observer;
pub use op::{Fill, Op};
pub use pieces::{Pieces, Segment, SegmentSink, Sizes};
pub use plan::{Chunk, Ends, Linear, Misfit, Plan, Route, Rows, Runs};
pub use queue::{Queue, QueueOptions};
pub use reduce::Reduction;
pub use runtime::Runtime;
pub use share::{Export, Lease, OpenFile, Shared};
pub use space::Physical;
pub use status::{Status, Ticket};
pub use stream::Stream;
pub use table::AddressTable;
