//! Blocks of one granule, told by 32 bits: their length, and which sort they are. Small blocks of a process
//! have few sorts: those of one home, page size and origin, at one distance between the user's address and
//! the engine's.

use super::{
    GRANULE, GRANULE_BITS,
    slot::{Lookup, encode},
};
use crate::Block;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

/// How many sorts can be told apart; blocks of further ones are found by their slots.
const MOST: usize = 255;

/// The sorts that there are so far. One is written before the first cell that names it, and stays.
pub(super) struct Classes {
    list: Box<[Class]>,
    known: Mutex<Vec<(usize, u32)>>,
}

#[derive(Default)]
struct Class {
    /// From the user's address to the engine's.
    shift: AtomicUsize,
    /// Home, page size and origin.
    sort: AtomicU32,
}

impl Default for Classes {
    fn default() -> Self {
        Classes { list: (0..=MOST).map(|_| Class::default()).collect(), known: Mutex::default() }
    }
}

impl Classes {
    /// What the upper half of a cell says of the block; 0 if it cannot be told. For writers.
    pub(super) fn tell(&self, block: &Block) -> u64 {
        let sort = (block.at.wrapping_sub(block.base), encode(block));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match known.iter().position(|other| *other == sort) {
            Some(index) => index,
            None if known.len() == MOST => return 0,
            None => {
                known.push(sort);
                let place = &self.list[known.len()];
                place.shift.store(sort.0, Ordering::Relaxed);
                place.sort.store(sort.1, Ordering::Relaxed);
                known.len() - 1
            }
        };
        (((index + 1) << GRANULE_BITS | (block.len - 1)) as u64) << 32
    }

    /// The block of one granule that a cell for `addr` tells, if it does.
    #[inline(always)]
    pub(super) fn small(&self, cell: u64, addr: usize) -> Option<Lookup> {
        let told = (cell >> 32) as usize;
        if told == 0 {
            return None;
        }
        let sort = self.list.get(told >> GRANULE_BITS)?;
        let (shift, sort) = (sort.shift.load(Ordering::Relaxed), sort.sort.load(Ordering::Relaxed));
        Some(Lookup::shifted(addr & !(GRANULE - 1), (told & (GRANULE - 1)) + 1, shift, sort))
    }
}
