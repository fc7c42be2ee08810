//! The engine's core: what memory exists, what a checked copy is, and in which order work is handed to a
//! device.
//!
//! Eight words carry it: a [`Backend`] reaches devices, a [`Queue`] runs [`Op`]s in the order given, a
//! [`Fence`] stands for "everything submitted so far", a [`Plan`] is a copy that has been checked, a
//! [`Stream`] and an [`Event`] are what users hold, and an [`Observer`] watches. The core validates and
//! backends trust. It has no FFI, no globals and no thread-locals, and it knows nothing of AscendCL's
//! numbers.

pub mod backend;
pub mod block;
pub mod error;
pub mod event;
mod faulty;
pub mod fence;
pub mod footprint;
pub mod gate;
pub mod graph;
pub mod halt;
pub mod indirect;
pub mod memory;
pub mod observe;
pub mod op;
pub mod plan;
mod planning;
pub mod queue;
pub mod recorder;
pub mod reduce;
pub mod runtime;
pub mod status;
pub mod stream;
mod submissions;
pub mod sync;
pub mod table;
mod uses;

pub use backend::{
    AddressSpace, Backend, BlockWatch, DeviceMemory, Features, NativeStreams, OpenFile, PlainRange, Shared,
    Sharing, Survey,
};
pub use block::{Access, Block, DeviceId, Home, Origin, Place, Request};
pub use error::{Error, Kind, Result};
pub use event::Event;
pub use faulty::CopyFaults;
pub use fence::{Fence, Mark, Point, Ticket};
pub use footprint::Footprint;
pub use gate::Gate;
pub use graph::{
    Graph,
    capture::{Capture, Unjoined},
    group::{OpGroup, OpList},
    task::{Branch, Edge},
};
pub use halt::Halt;
pub use indirect::{Indirect, Resolver};
pub use memory::{
    Memory,
    exports::Lease,
    limbo::RECLAIM_TIMEOUT,
    spaces::{Physical, Purpose},
};
pub use observe::{DeviceEngine, DeviceTime, Fate, JoinKind, Observer, Observers, Seen};
pub use op::{Fill, Op};
pub use plan::{
    Chunk, Ends, Linear, Misfit, Pieces, Plan, Recent, Route, Rows, Runs, Segment, SegmentSink, Sizes,
};
pub use queue::{Queue, QueueOptions};
pub use recorder::Recorder;
pub use reduce::Reduction;
pub use runtime::{Runtime, share::Export};
pub use status::Status;
pub use stream::{RECORDED, Stream};
pub use table::AddressTable;
