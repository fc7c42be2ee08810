//! How much memory of its GPU a device may have: all of it, a part where several devices share the GPU, or
//! what the user says.

use crate::usage::Account;
use ferry_core::{DeviceId, Kind, Result, table::GRANULE};
use std::sync::{
    OnceLock,
    atomic::{AtomicUsize, Ordering},
};

/// The limit of one device, and what it has of it. Counts what was asked for, in whole pages, so that a limit
/// is exact.
#[derive(Debug, Default)]
pub struct Quota {
    most: Option<usize>,
    sharers: usize,
    /// What the GPU has, once that was asked.
    total: OnceLock<usize>,
    /// The most that was ever used.
    peak: AtomicUsize,
    used: AtomicUsize,
    /// What others are told that this process has of it.
    account: Option<Account>,
}

impl Quota {
    /// For a device that shares its GPU with others, `sharers` in all; `most` is the user's limit.
    pub fn new(most: Option<usize>, sharers: usize) -> Quota {
        Quota { most, sharers, ..Quota::default() }
    }

    /// Has other processes told what is taken.
    pub fn telling(self, account: Option<Account>) -> Quota {
        Quota { account, ..self }
    }

    /// What the GPU has, if that matters: the driver takes its time to say so.
    pub fn total(&self, ask: impl FnOnce() -> Result<usize>) -> Result<usize> {
        match self.total.get() {
            Some(total) => Ok(*total),
            None if self.most.is_some() || self.sharers < 2 => Ok(0),
            None => ask().map(|total| *self.total.get_or_init(|| total)),
        }
    }

    /// What the device may still take of a GPU with `total`.
    pub fn left(&self, total: usize) -> usize {
        let limit = self.limit(total).unwrap_or(usize::MAX);
        limit.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Free and total bytes of the device, where its GPU has so much.
    pub fn info(&self, (free, total): (usize, usize)) -> (usize, usize) {
        match self.limit(total) {
            None => (free, total),
            Some(limit) => (limit.saturating_sub(self.used.load(Ordering::Relaxed)).min(free), limit),
        }
    }

    /// Takes the pages that `len` bytes are on, `whole` bytes, for the device, of a GPU with `total`.
    pub fn take(&self, device: DeviceId, (len, whole): (usize, usize), total: usize) -> Result<()> {
        let limit = self.limit(total).unwrap_or(usize::MAX);
        let fits = |used: usize| used.checked_add(whole).filter(|sum| *sum <= limit);
        let taken = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits);
        self.account.iter().filter(|_| taken.is_ok()).for_each(|account| account.take(whole));
        taken
            .map(drop)
            .map_err(|used| Kind::OutOfMemory.because(out_of_memory(device, len, (limit - used, limit))))
    }

    /// The driver has granted what was taken last.
    pub fn granted(&self) {
        self.peak.fetch_max(self.used.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Used bytes: now, and the most so far.
    pub fn usage(&self) -> (usize, usize) {
        (self.used.load(Ordering::Relaxed), self.peak.load(Ordering::Relaxed))
    }

    /// Gives them back.
    pub fn give(&self, len: usize) {
        self.used.fetch_sub(len, Ordering::Relaxed);
        self.account.iter().for_each(|account| account.give(len));
    }

    /// Whether the GPU's memory is not simply the device's.
    pub fn is_limited(&self) -> bool {
        self.most.is_some() || self.sharers > 1
    }

    fn limit(&self, total: usize) -> Option<usize> {
        let part = || total / self.sharers / GRANULE * GRANULE;
        self.is_limited().then(|| self.most.unwrap_or_else(part))
    }
}

/// The note of a request for more than there is.
pub fn out_of_memory(device: DeviceId, len: usize, (free, total): (usize, usize)) -> String {
    format!("{len} bytes of device {device} were asked for, {free} of {total} are free")
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const GPU: (usize, usize) = (900 * GRANULE, 1000 * GRANULE);

    #[test]
    fn a_device_has_its_gpu_or_a_part_or_what_was_said() {
        for (most, sharers, want) in [
            (None, 1, GPU),
            (None, 3, (333 * GRANULE, 333 * GRANULE)),
            (Some(5 * GRANULE), 1, (5 * GRANULE, 5 * GRANULE)),
            (Some(5 * GRANULE), 3, (5 * GRANULE, 5 * GRANULE)),
            (Some(5000 * GRANULE), 1, (900 * GRANULE, 5000 * GRANULE)),
        ] {
            assert_eq!(Quota::new(most, sharers).info(GPU), want, "{most:?} of {sharers}");
        }
    }

    #[test]
    fn the_gpu_is_asked_once_and_only_for_its_parts() {
        for (most, sharers, want) in [(None, 1, 0), (Some(5), 3, 0), (None, 2, 7)] {
            let quota = Quota::new(most, sharers);
            assert_eq!(quota.total(|| Ok(7)), Ok(want));
            assert_eq!(quota.total(|| Ok(8)), Ok(want), "it is not asked again");
        }
    }

    #[test]
    fn what_is_over_the_limit_is_refused_and_takes_nothing() {
        let quota = Quota::new(Some(10 * GRANULE), 2);
        let take = |len: usize, whole| quota.take(1, (len, whole), GPU.1);
        take(3 * GRANULE + 5, 4 * GRANULE).expect("room");
        for (len, whole) in [(6 * GRANULE + 1, 7 * GRANULE), (usize::MAX, usize::MAX)] {
            let why = take(len, whole).expect_err("too much");
            let note = format!("{len} bytes of device 1 were asked for, 24576 of 40960 are free");
            assert_eq!((why.kind, &*why.note), (Kind::OutOfMemory, &*note));
        }
        take(6 * GRANULE, 6 * GRANULE).expect("just fits");
        quota.give(4 * GRANULE);
        assert_eq!((quota.info(GPU).0, quota.left(GPU.1)), (4 * GRANULE, 4 * GRANULE));
        assert_eq!(Quota::new(None, 1).left(GPU.1), usize::MAX);
    }
}
