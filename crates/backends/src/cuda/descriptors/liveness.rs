//! Liveness of the memory that descriptors name: a generation number for each such allocation, in pinned
//! memory that kernels read.
//!
//! A stamp is the number of a slot and the generation that the slot held when the descriptor was set. When
//! the allocation leaves the address table its slot gets the next generation, so that no stamp of it fits any
//! more, and the slot can serve another one.

use ferry_core::{
    Result,
    sync::{AtomicBool, Mutex, Ordering, lock},
};
use std::{
    collections::HashMap,
    sync::{OnceLock, atomic::AtomicU32},
};

/// How many slots there are. Allocations that find none are not watched.
const SLOTS: usize = 1 << 18;
/// The stamp of memory that only the host can find. No kernel takes it: sealed.cu.
pub const FOR_THE_HOST: u64 = u64::MAX;

/// The allocations of one device that descriptors name.
#[derive(Default)]
pub struct Liveness {
    at: OnceLock<usize>,
    /// Whether there ever was one: most programs have none, and free much.
    is_used: AtomicBool,
    slots: Mutex<LivenessSlots>,
}

#[derive(Default)]
struct LivenessSlots {
    /// By the first address of the allocation.
    taken: HashMap<usize, u32>,
    spare: Vec<u32>,
    made: u32,
}

impl Liveness {
    /// The address of the slots, the same for the GPU; `take` gives zeroed pinned memory when first
    /// asked.
    pub fn at(&self, take: impl FnOnce(usize) -> Result<usize>) -> Result<usize> {
        let _alone = lock(&self.slots);
        match self.at.get() {
            Some(at) => Ok(*at),
            None => {
                let made = take(SLOTS * size_of::<u32>())?;
                Ok(*self.at.get_or_init(|| made))
            }
        }
    }

    /// The memory, if there is any, to be given back when it is not used any more.
    pub fn made(&self) -> Option<usize> {
        self.at.get().copied()
    }

    /// The stamp of the allocation that starts at `base`. `at` was called before.
    pub fn stamp(&self, base: usize) -> u64 {
        self.is_used.store(true, Ordering::SeqCst);
        let mut slots = lock(&self.slots);
        let Some(slot) = slots.find(base) else { return 0 };
        u64::from(slot) << 32 | u64::from(self.slot(slot).load(Ordering::Relaxed))
    }

    /// The allocation that started at `base` is gone.
    pub fn forget(&self, base: usize) {
        if !self.is_used.load(Ordering::SeqCst) {
            return;
        }
        let mut slots = lock(&self.slots);
        if let Some(slot) = slots.taken.remove(&base) {
            self.slot(slot).fetch_add(1, Ordering::SeqCst);
            slots.spare.push(slot);
        }
    }

    fn slot(&self, slot: u32) -> &AtomicU32 {
        let at = *self.at.get().expect("there are stamps only once there are slots");
        // SAFETY: the memory has so many slots and stays as long as `self`; kernels only read it.
        unsafe { &*(at as *const AtomicU32).add(slot as usize) }
    }
}

impl LivenessSlots {
    /// The slot of an allocation. 0 belongs to none.
    fn find(&mut self, base: usize) -> Option<u32> {
        if let Some(slot) = self.taken.get(&base) {
            return Some(*slot);
        }
        let slot = self.spare.pop().or_else(|| {
            self.made += 1;
            Some(self.made).filter(|slot| (*slot as usize) < SLOTS)
        })?;
        self.taken.insert(base, slot);
        Some(slot)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn live() -> Liveness {
        let live = Liveness::default();
        live.at(|len| Ok(vec![0_u64; len.div_ceil(8)].leak().as_ptr() as usize)).expect("memory");
        live
    }

    /// What a kernel asks.
    fn is_alive(live: &Liveness, stamp: u64) -> bool {
        stamp >> 32 == 0 || live.slot((stamp >> 32) as u32).load(Ordering::Relaxed) == stamp as u32
    }

    #[test]
    fn stamps_fit_until_the_allocation_is_gone_and_never_again() {
        let live = live();
        live.forget(0x1000);
        let (one, two) = (live.stamp(0x1000), live.stamp(0x2000));
        assert!(one != two && live.stamp(0x1000) == one, "one each");
        live.forget(0x1000);
        assert!(!is_alive(&live, one) && is_alive(&live, two));
        let next = live.stamp(0x3000);
        assert_eq!(next >> 32, one >> 32, "the slot serves again");
        assert!(is_alive(&live, next) && !is_alive(&live, one));
        live.forget(0x1000);
        assert!(is_alive(&live, next), "told twice is told once");
        let again = live.stamp(0x1000);
        assert!(is_alive(&live, again) && !is_alive(&live, one), "the same address, another allocation");
    }

    #[test]
    fn allocations_that_find_no_slot_are_not_watched() {
        let live = live();
        let stamps: Vec<u64> = (1..SLOTS + 2).map(|number| live.stamp(number << 12)).collect();
        assert_eq!((stamps[SLOTS - 2] >> 32, &stamps[SLOTS - 1..]), (SLOTS as u64 - 1, &[0, 0][..]));
        live.forget(1 << 12);
        assert_eq!(live.stamp(1 << 40) >> 32, stamps[0] >> 32);
    }
}
