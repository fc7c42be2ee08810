//! Memory, events and notifies between processes: how an importer gets what an exporter has, without the
//! rules of AscendCL's functions.
//!
//! A process that exports memory has one thread (`service.rs`) that answers from its table (`exports.rs`): it
//! checks who asks, and sends the descriptor of the file behind the memory. An importer (`ask.rs`) keeps the
//! connection open, which is the lease, and counts what it has imported (`imports.rs`). What the two say to
//! each other is in `wire.rs`, the system calls are in `socket.rs`. `docs/IPC.md` has the picture.
//!
//! Events and notifies are tables that all of their processes map (`records.rs` for events): once a process
//! has one it asks nobody any more, and `bell.rs` has a thread for those that are waited for.
//!
//! Four words, as in `core/runtime/share.rs`: export, import, shared, lease. Nothing here knows allocations
//! or handles; those rules are `rules/export_key.rs`, `rules/shareable.rs`, `rules/ipc_event.rs` and
//! `rules/notify.rs`.
//!
//! Arrows: `socket`, `wire` <- `exports` <- `service`, `ask`, `imports`, `bell`; `records` stands alone.

pub(crate) mod ask;
pub(crate) mod bell;
pub(crate) mod exports;
pub(crate) mod imports;
pub(crate) mod records;
mod service;
mod socket;
pub(crate) mod wire;

#[cfg(test)]
mod tests;

use crate::Result;
use exports::{Exports, ServedExports, Source};
use ferry_core::sync::lock;
use std::sync::{Arc, Mutex};

/// The exports of this process, once there were any.
static EXPORTS: Mutex<Option<Arc<Exports>>> = Mutex::new(None);

/// The exports of this process, if it ever exported anything.
pub(crate) fn exports() -> Option<Arc<Exports>> {
    lock(&EXPORTS).clone()
}

/// The exports of this process, with a service that is started if there is none or it has ended.
pub(crate) fn served_exports() -> Result<ServedExports> {
    let mut exports = lock(&EXPORTS);
    loop {
        if let Some(served) = exports.as_ref().and_then(|exports| exports.retain()) {
            return Ok(served);
        }
        *exports = Some(service::start()?);
    }
}

/// Memory was just freed: it cannot be imported any more. What was imported before stays.
pub(crate) fn freed(source: Source) {
    if let Some(exports) = exports() {
        exports.freed(source);
    }
}
