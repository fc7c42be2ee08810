//! Whether this process is a forked child of one that used Ferry.
//!
//! A child inherits memory and handles, and none of the threads, devices or locks behind them. The mark is
//! set when the engine is opened and lives in memory that the kernel clears in children, so that it costs one
//! load to ask. It is a module of its own because everything above asks, also what has to work without an
//! engine.

use ferry::engine::fork;
use std::ffi::CStr;

/// Set in the process that has opened the engine, or is about to.
pub(crate) static OWNER: fork::ForkMark = fork::ForkMark::new();

/// Whether this process is the child of one that used Ferry, however it was made: every call fails then.
#[inline]
pub(crate) fn is_forked() -> bool {
    OWNER.is_child()
}

/// What every call in a forked child says.
pub(crate) const FORKED: &CStr =
    c"this process was forked from one that uses Ferry: devices do not survive a fork; use acl after exec, \
      or initialise it in the child only";
