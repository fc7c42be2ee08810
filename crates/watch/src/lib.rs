//! What a program's copies did, as plain data: the facts, the buffers that they travel in, and their readers.
//!
//! A [`Fact`] is one thing that happened: a call returned, an op was submitted, an op has passed, a block
//! became known. The program that is watched writes facts; a command reads them while it runs or afterwards,
//! and makes a trace, statistics or a recording of them. Facts need nothing of our engine: a library that
//! stands in front of another implementation can write the same ones.
//!
//! Arrows: readers know facts and nothing of how they came here; nothing in this crate steers a program.

#![warn(missing_docs)]

pub mod blocks;
pub mod buffers;
pub mod caller;
pub mod check;
pub mod clock;
pub mod collector;
mod contents;
pub mod fact;
mod local;
pub mod modules;
mod numbers;
pub mod page_style;
pub mod recording;
pub mod site;
mod span_map;
pub mod stacks;
pub mod stat;
pub mod symbols;
#[doc(hidden)]
pub mod testing;
pub mod trace;
pub mod unwind;
pub mod words;
pub mod writer;

pub use contents::ContentHasher;
pub use fact::{Fact, FactReader, FactSource};
