//! The tracer: reads facts, keeps a bounded model of what happened, and writes it in two forms for people to
//! look at.
//!
//! `collect` makes the model (`model`) of facts. `json` writes it as Chrome JSON in the form of msprof, for
//! viewers that people already have. `html` writes it as one self-contained page: `tables` and `columns` pack
//! the model, and the scripts in `page/` unpack, lay out and draw it in the browser. `finding_table` is what
//! the checker has found in the same facts, for the page of `ferry check --report`.
//!
//! Nothing here reads a running program's buffers or its executables: facts are handed in, and the caller
//! brings a function that names return addresses. Arrows: `html`, `json` -> `names`, `model` <- `collect`.

mod collect;
mod columns;
mod finding_table;
mod html;
mod json;
mod model;
mod names;
mod tables;
mod write;

pub use collect::{TraceLimits, Tracer};
pub use model::TraceModel;
pub use write::TraceSummary;

#[cfg(test)]
mod tests;
