//! How much page-locked (pinned) host memory the process has, and the limits on it.
//!
//! What aclrtMallocHost allocates, what is registered and what aclrtMallocPhysical allocates on the host is
//! counted together, since real drivers page-lock all of it. `FERRY_LIMIT_HOST_BYTES` limits the sum, the
//! quirk F8 the bytes of one call. Freed memory is no longer counted, also while work in flight uses it.

use crate::{Result, constants::ACL_ERROR_RT_MEMORY_ALLOCATION, error::fail, settings::Settings};
use std::{
    mem,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Bytes of page-locked host memory that the process has.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Bytes that are counted as page-locked until this is dropped.
pub(crate) struct PinnedBytes(usize);

impl PinnedBytes {
    /// Counts `len` more bytes, if the process may have them.
    pub(crate) fn reserve(settings: &Settings, len: usize) -> Result<PinnedBytes> {
        let most = settings.host_bytes.unwrap_or(usize::MAX);
        let sum = |used: usize| used.checked_add(len).filter(|sum| *sum <= most);
        match IN_USE.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum) {
            Ok(_) => Ok(PinnedBytes(len)),
            Err(used) => Err(fail(
                ACL_ERROR_RT_MEMORY_ALLOCATION,
                format!(
                    "FERRY_LIMIT_HOST_BYTES is {most}: {used} bytes of page-locked host memory are in use, \
                     and {len} more were asked for"
                ),
            )),
        }
    }

    /// No bytes: for memory that is counted already.
    pub(crate) fn none() -> PinnedBytes {
        PinnedBytes(0)
    }

    /// Keeps the bytes counted until [`give_back`].
    pub(crate) fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

/// Ends the count of bytes that were [kept](PinnedBytes::keep).
pub(crate) fn give_back(len: usize) {
    IN_USE.fetch_sub(len, Ordering::Relaxed);
}

/// Refuses more bytes than one call page-locks under the quirk F8; `what` names the argument.
pub(crate) fn within_one_call(what: &str, len: usize, most: Option<usize>) -> Result<()> {
    match most {
        Some(most) if len > most => Err(fail(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            format!("{what} is {len}: F8 of FERRY_QUIRKS is on, and one call takes at most {most} bytes"),
        )),
        _ => Ok(()),
    }
}
