//! The operating system, as both backends need it: mappings and address ranges, files, threads and signals,
//! faults.
//!
//! A backend lives in a process that belongs to a program. So it must not meet the program's descriptors,
//! signals, cancellation or forks, must not crash on memory that the program took away, and must say which
//! limit the kernel enforced when it refuses something. Each module here is one such concern, and all system
//! calls of the backends are made here.
//!
//! What is not here: anything about devices, streams or copies. Arrows: the modules of this folder import the
//! core and each other, never `host/` or `cuda/`. At the bottom are `page`, `file_locks` and
//! `fork`/`files`; `mapping`, `refusal`, `nodes`, `threads/` and `fault/` build on them; `probe/`,
//! `ranges/`, `prefault` and `shared_table` are on top.

pub mod fault;
pub(crate) mod file_locks;
pub mod files;
pub mod fork;
pub(crate) mod machine;
pub(crate) mod mapping;
pub mod nodes;
pub mod page;
pub(crate) mod prefault;
pub mod probe;
mod process_identity;
pub(crate) mod ranges;
pub mod refusal;
pub mod shared_table;
#[doc(hidden)]
pub mod threads;
#[cfg(not(loom))]
pub mod trap;
