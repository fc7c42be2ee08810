//! Blocks of one granule, described by 32 bits in the leaf of the tree: their length and their class. A class
//! is all that such blocks have in common: home, page size, origin, and the distance from the user's address
//! to the engine's. A process has few classes.

use super::{
    GRANULE, GRANULE_BITS,
    slot::{Lookup, encode},
};
use crate::Block;
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering},
};

/// How many classes there can be; blocks of further ones are found by their slots.
const MOST_CLASSES: usize = 255;

/// The classes so far. A class is written before the first cell that names it, and never changes.
pub(super) struct Classes {
    list: Box<[Class]>,
    known: Mutex<Vec<(usize, u32)>>,
}

#[derive(Default)]
struct Class {
    /// From the user's address to the engine's.
    shift: AtomicUsize,
    /// Home, page size and origin.
    class: AtomicU32,
}

impl Default for Classes {
    fn default() -> Self {
        Classes { list: (0..=MOST_CLASSES).map(|_| Class::default()).collect(), known: Mutex::default() }
    }
}

impl Classes {
    /// The upper half of a cell for the block; 0 if there are too many classes. For writers.
    pub(super) fn tell(&self, block: &Block) -> u64 {
        let class = (block.at.wrapping_sub(block.base), encode(block));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let index = match known.iter().position(|other| *other == class) {
            Some(index) => index,
            None if known.len() == MOST_CLASSES => return 0,
            None => {
                known.push(class);
                let place = &self.list[known.len()];
                place.shift.store(class.0, Ordering::Relaxed);
                place.class.store(class.1, Ordering::Relaxed);
                known.len() - 1
            }
        };
        (((index + 1) << GRANULE_BITS | (block.len - 1)) as u64) << 32
    }

    /// The block of one granule that a cell for `addr` describes, if it describes one.
    #[inline(always)]
    pub(super) fn small(&self, cell: u64, addr: usize) -> Option<Lookup> {
        let told = (cell >> 32) as usize;
        if told == 0 {
            return None;
        }
        let class = self.list.get(told >> GRANULE_BITS)?;
        let (shift, class) = (class.shift.load(Ordering::Relaxed), class.class.load(Ordering::Relaxed));
        Some(Lookup::shifted(addr & !(GRANULE - 1), (told & (GRANULE - 1)) + 1, shift, class))
    }
}
