//! Addresses that were reserved for the user, and those that were released a short time ago.

use crate::os::mapping::Mapping;
use ferry_core::{
    Block, Kind, Result,
    sync::{Mutex, lock},
    table::GRANULE,
};
use std::collections::{HashMap, VecDeque};

/// Released addresses stay in quarantine before they are handed out again: at most so many ranges, and so
/// many bytes.
const QUARANTINE_RANGES: usize = 64;
const QUARANTINE_BYTES: usize = 1 << 30;

/// The reservations of a runtime.
#[derive(Default)]
pub struct Reservations {
    reserved: Mutex<HashMap<usize, Mapping>>,
    quarantine: Mutex<Quarantine>,
}

/// Addresses that were reserved and given up, the oldest first: without access rights, so that a stale
/// pointer is met by an error and not by whatever the system puts there next.
#[derive(Default)]
struct Quarantine {
    mappings: VecDeque<Mapping>,
    bytes: usize,
}

impl Quarantine {
    fn add(&mut self, mapping: Mapping) {
        if mapping.len() > QUARANTINE_BYTES {
            return;
        }
        self.bytes += mapping.len();
        self.mappings.push_back(mapping);
        while self.mappings.len() > QUARANTINE_RANGES || self.bytes > QUARANTINE_BYTES {
            self.bytes -= self.mappings.pop_front().map_or(0, |oldest| oldest.len());
        }
    }

    /// Takes the range around this address out: it was asked for by address.
    fn release(&mut self, addr: usize) {
        self.mappings.retain(|mapping| !mapping.contains(addr, 1));
        self.bytes = self.mappings.iter().map(Mapping::len).sum();
    }
}

impl Reservations {
    /// Sets addresses aside.
    pub fn reserve(&self, len: usize, align: usize, wish: usize) -> Result<usize> {
        // Room to align, and a page at the end that nothing is ever mapped to: blocks that touch are of one
        // reservation.
        let slack = align.max(GRANULE).checked_add(GRANULE);
        let whole = slack.and_then(|slack| len.checked_next_multiple_of(GRANULE)?.checked_add(slack));
        let whole = whole.ok_or_else(|| {
            Kind::OutOfMemory.because(format!("{len} bytes are more than there are addresses"))
        })?;
        // A wish for high addresses would be met on machines that have them, and the address table has none.
        let wish = if wish >> 47 == 0 { wish } else { 0 };
        lock(&self.quarantine).release(wish);
        let reserve = || Mapping::bare_near("ferry:reserved", whole, wish);
        let mapping = reserve().or_else(|_| {
            // There may be a limit on addresses.
            *lock(&self.quarantine) = Quarantine::default();
            reserve()
        });
        let mapping = mapping.map_err(|error| Kind::OutOfMemory.because(error.note.clone()))?;
        let base = mapping.addr().next_multiple_of(align.max(GRANULE));
        lock(&self.reserved).insert(base, mapping);
        Ok(base)
    }

    /// Gives reserved addresses back to the system, after a rest.
    pub fn release(&self, base: usize) {
        let released = lock(&self.reserved).remove(&base);
        if let Some(mapping) = released {
            lock(&self.quarantine).add(mapping);
        }
    }

    /// Lets the CPU see a block at reserved addresses too.
    pub fn show(&self, base: usize, block: &Block) -> Result<()> {
        let reserved = lock(&self.reserved);
        let inside = reserved.values().find(|mapping| mapping.contains(base, block.len));
        let mapping = inside.ok_or_else(|| Kind::BadAddress.because(format!("{base:#x} is not reserved")))?;
        mapping.lay(base, block.at, block.len)
    }

    /// Undoes `show`.
    pub fn hide(&self, base: usize, len: usize) {
        let reserved = lock(&self.reserved);
        if let Some(mapping) = reserved.values().find(|mapping| mapping.contains(base, len)) {
            mapping.bare_again(base, len);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reserved_addresses_are_aligned_and_have_a_gap_behind_them() {
        let reservations = Reservations::default();
        for _ in 0..8 {
            let base = reservations.reserve(4 << 20, 2 << 20, 0).expect("addresses");
            assert_eq!(base % (2 << 20), 0);
            let mapping = &lock(&reservations.reserved)[&base];
            assert!(mapping.contains(base, (4 << 20) + GRANULE), "the gap is ours");
        }
        assert!(reservations.reserve(usize::MAX, 4096, 0).is_err());
        assert!(reservations.reserve(1 << 50, 4096, 0).is_err());
    }

    #[test]
    fn addresses_that_were_given_up_rest_unless_somebody_wishes_for_them() {
        let reservations = Reservations::default();
        let base = reservations.reserve(1 << 20, 4096, 0).expect("addresses");
        reservations.release(base);
        let others: Vec<_> =
            (0..8).map(|_| reservations.reserve(1 << 20, 4096, 0).expect("addresses")).collect();
        assert!(!others.contains(&base), "{base:#x} rests: {others:x?}");
        assert_eq!(reservations.reserve(1 << 20, 4096, base), Ok(base), "who wishes for it gets it");
        for turn in 0..2 * QUARANTINE_RANGES {
            let len = if turn % 9 == 0 { 2 << 30 } else { 100 << 20 };
            reservations.release(reservations.reserve(len, 4096, 0).expect("addresses"));
            let quarantine = lock(&reservations.quarantine);
            assert!(quarantine.mappings.len() <= QUARANTINE_RANGES && quarantine.bytes <= QUARANTINE_BYTES);
            assert_eq!(quarantine.bytes, quarantine.mappings.iter().map(Mapping::len).sum());
        }
        assert_eq!(lock(&reservations.quarantine).mappings.len(), 10, "as many as may");
    }
}
