//! The guide: short chapters to be read in this order, each with programs that run.
//!
//! 1. [The first copy](first_copy): a runtime, a device, a stream, there and back.
//! 2. [Page-locked memory](page_locked): why asynchronous copies ask for it, and its parts.
//! 3. [Streams and events](streams_and_events): what runs after what, what runs side by side.
//! 4. [What a copy owns](ownership): tokens and scopes, which to take when; drop, forget, panic, abort.
//! 5. [Rows and columns](matrices): 2-D copies.
//! 6. [Batches](batches): thousands of blocks of a KV cache as one piece of work.
//! 7. [Descriptors](descriptors): copies whose ends are read when they run.
//! 8. [Graphs](graphs): a step that is captured once and launched many times.
//! 9. [Tasks](tasks): async/await, under any executor.
//! 10. [Errors](errors): what fails where, and what comes back with the error.
//! 11. [Products and backends](products): options and the environment.
//!
//! For those who come from elsewhere: [from aclrt calls](from_aclrt), [from cudarc](from_cudarc).

#[doc = include_str!("guide/first_copy.md")]
pub mod first_copy {}

#[doc = include_str!("guide/page_locked.md")]
pub mod page_locked {}

#[doc = include_str!("guide/streams_and_events.md")]
pub mod streams_and_events {}

#[doc = include_str!("guide/ownership.md")]
pub mod ownership {}

#[doc = include_str!("guide/matrices.md")]
pub mod matrices {}

#[doc = include_str!("guide/batches.md")]
pub mod batches {}

#[doc = include_str!("guide/descriptors.md")]
pub mod descriptors {}

#[doc = include_str!("guide/graphs.md")]
pub mod graphs {}

#[doc = include_str!("guide/tasks.md")]
pub mod tasks {}

#[doc = include_str!("guide/errors.md")]
pub mod errors {}

#[doc = include_str!("guide/products.md")]
pub mod products {}

#[doc = include_str!("guide/from_aclrt.md")]
pub mod from_aclrt {}

#[doc = include_str!("guide/from_cudarc.md")]
pub mod from_cudarc {}
