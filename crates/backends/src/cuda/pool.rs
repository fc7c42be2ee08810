//! Page-locked memory that can be used again: making some takes the driver more than half a millisecond, however small it is, and
//! giving it back a quarter. Small blocks are parts of slabs, so that even the first ones come cheap.

use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a slab.
pub const SLAB: usize = 1 << 20;
/// The smallest part of one.
const LEAST: usize = 4096;
/// The largest.
const MOST: usize = 256 << 10;
/// How many bytes are kept that nobody uses.
const KEPT: usize = 64 << 20;

/// What can be used again.
#[derive(Default)]
pub struct Pool {
    slabs: BTreeMap<usize, Slab>,
    /// Pieces that are no parts, by length and start.
    whole: BTreeSet<(usize, usize)>,
    bytes: usize,
}

/// A piece that is cut into parts of one length.
struct Slab {
    part: usize,
    idle: Vec<usize>,
}

impl Slab {
    fn is_idle(&self) -> bool {
        self.idle.len() * self.part == SLAB
    }
}

/// The length of the part that `len` bytes go into, if they are few.
pub fn part(len: usize) -> Option<usize> {
    (len <= MOST).then(|| len.next_power_of_two().max(LEAST))
}

impl Pool {
    /// A fresh slab, in parts of this length. Returns where they start.
    pub fn add(&mut self, start: usize, part: usize) -> impl Iterator<Item = usize> + use<> {
        let parts = (start..start + SLAB).step_by(part);
        self.slabs.insert(start, Slab { part, idle: parts.clone().rev().collect() });
        self.bytes += SLAB;
        parts
    }

    /// A piece for `len` bytes at a multiple of `align`: its start.
    pub fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let (start, len) = self.take_part(len, align).or_else(|| self.take_whole(len, align))?;
        self.bytes -= len;
        Some(start)
    }

    fn take_part(&mut self, len: usize, align: usize) -> Option<(usize, usize)> {
        let part = part(len).filter(|_| align <= LEAST)?;
        let slab = self.slabs.values_mut().find(|slab| slab.part == part && !slab.idle.is_empty())?;
        slab.idle.pop().map(|start| (start, part))
    }

    /// At most a quarter of the piece is wasted.
    fn take_whole(&mut self, len: usize, align: usize) -> Option<(usize, usize)> {
        let fits = (len, 0)..=(len.checked_add(len / 4)?, usize::MAX);
        let (len, start) = *self.whole.range(fits).find(|(_, start)| start % align == 0)?;
        self.whole.remove(&(len, start));
        Some((start, len))
    }

    /// Keeps a piece that nobody uses any more. False if that would be too much.
    pub fn keep(&mut self, start: usize, len: usize) -> bool {
        if let Some(slab) = self.slab_of(start) {
            slab.idle.push(start);
        } else if self.bytes + len <= KEPT {
            self.whole.insert((len, start));
        } else {
            return false;
        }
        self.bytes += len;
        true
    }

    /// Something that is better given back: a whole slab or piece, if more than may are kept, or if `all` go.
    pub fn surplus(&self, all: bool) -> Option<usize> {
        if !all && self.bytes <= KEPT {
            return None;
        }
        let slab = || self.slabs.iter().find(|(_, slab)| slab.is_idle()).map(|(start, _)| *start);
        self.whole.first().map(|(_, start)| *start).or_else(slab)
    }

    /// The surplus at `start`, a slab or a piece of `len` bytes, was given back. Returns how many bytes went.
    pub fn forget(&mut self, start: usize, len: usize) -> usize {
        let is_slab = self.slabs.remove(&start).is_some();
        self.whole.remove(&(len, start));
        let gone = if is_slab { SLAB } else { len };
        self.bytes -= gone;
        gone
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
            (MOST, Some(MOST)),
            (MOST + 1, None),
            (usize::MAX, None),
        ] {
            assert_eq!(part(len), want, "{len} bytes");
        }
    }

    #[test]
    fn a_piece_is_used_for_what_nearly_fills_it() {
        let mut pool = Pool::default();
        assert!(pool.keep(0x30_1000, 1_000_000) && pool.keep(0x80_0000, 1_000_000));
        assert_eq!(pool.take(1_000_001, 4096), None);
        assert_eq!(pool.take(700_000, 4096), None, "too much would be wasted");
        assert_eq!(pool.take(900_000, 1 << 20), Some(0x80_0000), "where it is aligned");
        assert_eq!(pool.take(900_000, 1 << 20), None);
        assert_eq!(pool.take(1_000_000, 4096), Some(0x30_1000));
        assert_eq!((pool.take(1, 4096), pool.take(usize::MAX, 4096)), (None, None));
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let mut pool = Pool::default();
        assert!(pool.keep(0, KEPT) && !pool.keep(KEPT, 4096));
        assert_eq!(pool.surplus(false), None);
        let parts: Vec<_> = pool.add(KEPT, MOST).collect();
        assert_eq!(pool.surplus(false), Some(0), "the slab came on top");
        assert_eq!(pool.forget(0, KEPT), KEPT);
        assert_eq!((pool.surplus(false), pool.surplus(true)), (None, Some(KEPT)));
        assert_eq!(pool.take(MOST, 4096), Some(parts[0]));
        assert_eq!(pool.surplus(true), None, "a part is in use");
        assert!(pool.keep(parts[0], MOST));
        assert_eq!(pool.forget(KEPT, MOST), SLAB);
        assert_eq!((pool.surplus(true), pool.bytes), (None, 0));
    }
}
