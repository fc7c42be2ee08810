//! What is put into a CUDA stream: kernels, copies and their choice, argument lists, events, the doorbell of a finished
//! kernel.

pub mod bell;
pub mod commands;
pub mod events;
pub mod list_writer;
pub mod memset;
pub mod page;
pub mod planner;
pub mod reduce;
pub mod ring;
pub mod settings;
pub mod streams;
