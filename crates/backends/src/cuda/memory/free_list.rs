//! The free list of one home: memory that has been in quarantine and can be used again.
//!
//! The driver takes half a millisecond to make page-locked memory, however small it is, and a quarter to give
//! it back; and before it takes device memory back it waits for all that the GPU has to do. Small blocks of
//! page-locked memory are parts of slabs, so that even the first ones come cheap.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Bytes of a slab.
pub const SLAB: usize = 1 << 20;
/// Bytes of the smallest part of a slab.
const MIN_PART: usize = 4096;
/// Bytes of the largest part of a slab.
const MAX_PART: usize = 256 << 10;
/// How many bytes are kept that are not in use.
pub const MAX_KEPT: usize = 64 << 20;

/// What can be used again of one home.
#[derive(Default)]
pub struct FreeList {
    slabs: BTreeMap<usize, Slab>,
    /// Pieces that are no parts, by length and by how long they have been here.
    whole: BTreeSet<(usize, u64)>,
    /// Where they start, and their lengths.
    by_age: BTreeMap<u64, (usize, usize)>,
    /// How many were ever kept.
    count: u64,
    bytes: usize,
}

/// A piece that is cut into parts of one length.
struct Slab {
    part: usize,
    /// Parts that are not in use: those that never were, then the oldest first.
    idle: VecDeque<usize>,
}

impl Slab {
    fn is_idle(&self) -> bool {
        self.idle.len() * self.part == SLAB
    }
}

/// The length of the part that `len` bytes go into, if they are few.
pub fn part(len: usize) -> Option<usize> {
    (len <= MAX_PART).then(|| len.next_power_of_two().max(MIN_PART))
}

impl FreeList {
    /// A fresh slab, in parts of this length. Returns where they start.
    pub fn add(&mut self, start: usize, part: usize) -> impl Iterator<Item = usize> + use<> {
        let parts = (start..start + SLAB).step_by(part);
        self.slabs.insert(start, Slab { part, idle: parts.clone().collect() });
        self.bytes += SLAB;
        parts
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A piece for `len` bytes at a multiple of `align`, with `waste` bytes more at most: its start.
    pub fn take(&mut self, len: usize, waste: usize, align: usize) -> Option<usize> {
        let (start, len) = self.take_part(len, align).or_else(|| self.take_whole(len, waste, align))?;
        self.bytes -= len;
        Some(start)
    }

    fn take_part(&mut self, len: usize, align: usize) -> Option<(usize, usize)> {
        let part = part(len).filter(|_| align <= MIN_PART)?;
        let slab = self.slabs.values_mut().find(|slab| slab.part == part && !slab.idle.is_empty())?;
        slab.idle.pop_front().map(|start| (start, part))
    }

    fn take_whole(&mut self, len: usize, waste: usize, align: usize) -> Option<(usize, usize)> {
        let fits = (len, 0)..=(len.checked_add(waste)?, u64::MAX);
        let mut pieces = self.whole.range(fits).map(|(len, age)| (*len, *age));
        let (len, age) = pieces.find(|(_, age)| self.by_age[age].0.is_multiple_of(align))?;
        self.whole.remove(&(len, age));
        self.by_age.remove(&age)
    }

    /// Keeps a piece that has rested. False if that would be too much; if it is too much with others there is
    /// a [surplus](Self::surplus).
    pub fn keep(&mut self, start: usize, len: usize) -> bool {
        if let Some(slab) = self.slab_of(start) {
            slab.idle.push_back(start);
        } else if len <= MAX_KEPT {
            self.count += 1;
            self.whole.insert((len, self.count));
            self.by_age.insert(self.count, (start, len));
        } else {
            return false;
        }
        self.bytes += len;
        true
    }

    /// Something that is better given back: the oldest piece or a whole slab, if more than may are kept, or
    /// if `all` go.
    pub fn surplus(&self, all: bool) -> Option<usize> {
        if !all && self.bytes <= MAX_KEPT {
            return None;
        }
        let slab = || self.slabs.iter().find(|(_, slab)| slab.is_idle()).map(|(start, _)| *start);
        self.by_age.values().next().map(|(start, _)| *start).or_else(slab)
    }

    /// The surplus at `start` was given back. Returns how many bytes went.
    pub fn forget(&mut self, start: usize) -> usize {
        let gone = match self.by_age.first_entry().filter(|oldest| oldest.get().0 == start) {
            Some(oldest) => {
                let (age, (_, len)) = oldest.remove_entry();
                self.whole.remove(&(len, age));
                len
            }
            None => self.slabs.remove(&start).map_or(0, |_| SLAB),
        };
        self.bytes -= gone;
        gone
    }

    /// Whether a piece is a part of a slab.
    pub fn is_part(&mut self, start: usize) -> bool {
        self.slab_of(start).is_some()
    }

    fn slab_of(&mut self, addr: usize) -> Option<&mut Slab> {
        let (start, slab) = self.slabs.range_mut(..=addr).next_back()?;
        (addr - start < SLAB).then_some(slab)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_are_parts_of_the_next_power_of_two() {
        for (len, want) in [
            (1, Some(4096)),
            (4096, Some(4096)),
            (4097, Some(8192)),
            (MAX_PART, Some(MAX_PART)),
            (MAX_PART + 1, None),
            (usize::MAX, None),
        ] {
            assert_eq!(part(len), want, "{len} bytes");
        }
    }

    #[test]
    fn a_piece_is_used_for_what_nearly_fills_it() {
        let mut list = FreeList::default();
        assert!(list.keep(0x30_1000, 1_000_000) && list.keep(0x80_0000, 1_000_000));
        let mut take = |len: usize, align| list.take(len, len / 4, align);
        assert_eq!(take(1_000_001, 4096), None);
        assert_eq!(take(700_000, 4096), None, "too much would be wasted");
        assert_eq!(take(900_000, 1 << 20), Some(0x80_0000), "where it is aligned");
        assert_eq!(take(900_000, 1 << 20), None);
        assert_eq!(take(1_000_000, 4096), Some(0x30_1000));
        assert_eq!((take(1, 4096), take(usize::MAX, 4096)), (None, None));
        assert!(list.keep(0x30_1000, 1_000_000));
        assert_eq!((list.take(999_999, 0, 4096), list.take(1_000_000, 0, 4096)), (None, Some(0x30_1000)));
        assert_eq!(list.bytes(), 0);
    }

    #[test]
    fn the_oldest_is_used_first() {
        let mut list = FreeList::default();
        assert!([0x5000, 0x1000, 0x3000].into_iter().all(|start| list.keep(start, 0x1000)));
        let taken = [(); 3].map(|()| list.take(0x1000, 0, 4096));
        assert_eq!(taken, [0x5000, 0x1000, 0x3000].map(Some));
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let mut list = FreeList::default();
        assert!(!list.keep(0, MAX_KEPT + 1) && list.keep(0, MAX_KEPT));
        assert_eq!(list.surplus(false), None);
        let parts: Vec<_> = list.add(MAX_KEPT, MAX_PART).collect();
        assert_eq!(list.surplus(false), Some(0), "the slab came on top");
        assert_eq!(list.forget(0), MAX_KEPT);
        assert_eq!((list.surplus(false), list.surplus(true)), (None, Some(MAX_KEPT)));
        assert_eq!(list.take(MAX_PART, 0, 4096), Some(parts[0]));
        assert_eq!(list.surplus(true), None, "a part is in use");
        assert!(list.keep(parts[0], MAX_PART) && list.is_part(parts[0]) && !list.is_part(0));
        assert_eq!(list.take(MAX_PART, 0, 4096), Some(parts[1]), "what nobody has used yet comes first");
        assert!(list.keep(parts[1], MAX_PART));
        assert_eq!(list.forget(MAX_KEPT), SLAB);
        assert_eq!((list.surplus(true), list.bytes), (None, 0));
    }
}
