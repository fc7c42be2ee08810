//! Streams that other libraries use as well: all work is in the CUDA stream when a call returns.

pub mod adopt;
pub mod beforehand;
pub mod bounce;
pub mod latch;
pub mod relay;
pub mod unheld;
