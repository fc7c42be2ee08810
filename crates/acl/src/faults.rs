//! Allocations and synchronisations that fail because FERRY_FAULT asks for it. Copies fail in the core, when
//! they run.

use crate::{Result, settings::settings};
use ferry::engine::{FaultClass, FaultCounter};
use std::sync::OnceLock;

/// Counts one more allocation of so many bytes, and fails if it is to fail.
pub(crate) fn alloc(bytes: usize) -> Result<()> {
    next(FaultClass::Alloc, bytes)
}

/// Counts one more wait for a stream, an event or a device, and fails if it is to fail. Then the call does
/// not wait.
pub(crate) fn sync() -> Result<()> {
    next(FaultClass::Sync, 0)
}

fn next(class: FaultClass, bytes: usize) -> Result<()> {
    static COUNTER: OnceLock<FaultCounter> = OnceLock::new();
    let options = &settings()?.options;
    if options.faults.is_empty() {
        return Ok(());
    }
    let counter = COUNTER.get_or_init(|| FaultCounter::new(options.faults.clone(), options.seed));
    counter.next(class, bytes).map_or(Ok(()), |error| Err(error.into()))
}
