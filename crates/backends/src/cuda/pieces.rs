//! What the driver gave us, and what of it rests. The driver hands freed addresses out again at once, and page-locked ones
//! may stay readable; so a freed piece rests a while, and whoever still uses its addresses is told. After that it is given back,
//! or used again if it is page-locked.

use super::pool::Pool;
use ferry_core::Home;
use std::collections::{BTreeMap, VecDeque};

/// Pieces of memory by where they start. A block lies somewhere in its piece.
#[derive(Default)]
pub struct Pieces {
    made: BTreeMap<usize, Piece>,
    resting: VecDeque<usize>,
    resting_bytes: usize,
    pool: Pool,
    /// What is overdue will be given back when no stream is held.
    pub is_put_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    len: usize,
    home: Home,
}

/// How much may rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Pieces.
    pub pieces: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl Rest {
    /// Enough to catch a mistake soon after it was made.
    pub const SOME: Rest = Rest { pieces: 1024, bytes: 256 << 20 };
    /// Everything is given back.
    pub const NONE: Rest = Rest { pieces: 0, bytes: 0 };
}

impl Pieces {
    /// The driver gave us this.
    pub fn add(&mut self, start: usize, len: usize, home: Home) {
        self.made.insert(start, Piece { len, home });
    }

    /// The driver gave us a slab for parts of this length.
    pub fn add_slab(&mut self, start: usize, part: usize) {
        let parts = self.pool.add(start, part).map(|start| (start, Piece { len: part, home: Home::Host }));
        self.made.extend(parts);
    }

    /// Page-locked memory that has rested, for `len` bytes at a multiple of `align`.
    pub fn reuse(&mut self, len: usize, align: usize) -> Option<usize> {
        self.pool.take(len, align)
    }

    /// Where a piece is that has a byte in common with the range, resting or not; or that an empty range lies in.
    pub fn reached(&self, addr: usize, len: usize) -> Option<Home> {
        let behind = || self.made.range(addr..addr.saturating_add(len)).next().map(|(_, piece)| *piece);
        self.around(addr).map(|(_, piece)| piece).or_else(behind).map(|piece| piece.home)
    }

    /// Where the piece around `addr` starts.
    pub fn start(&self, addr: usize) -> Option<usize> {
        self.around(addr).map(|(start, _)| start)
    }

    /// Lays the piece around `addr` to rest. False if there is none. One that is too large to rest is the next to go.
    pub fn rest(&mut self, addr: usize) -> bool {
        let Some((start, piece)) = self.around(addr) else { return false };
        if piece.len > Rest::SOME.bytes {
            self.resting.push_front(start);
        } else {
            self.resting.push_back(start);
        }
        self.resting_bytes += piece.len;
        true
    }

    /// Bytes that rest there.
    pub fn resting(&self, home: Home) -> usize {
        self.resting
            .iter()
            .map(|start| &self.made[start])
            .filter(|piece| piece.home == home)
            .map(|piece| piece.len)
            .sum()
    }

    /// What is to be given back next, if more rest than may. It stays known until it is [`forgotten`](Self::forget).
    pub fn overdue(&mut self, most: Rest) -> Option<(usize, Home)> {
        while self.resting.len() > most.pieces || self.resting_bytes > most.bytes {
            let start = *self.resting.front()?;
            let Piece { len, home } = self.made[&start];
            if home != Home::Host || !self.pool.keep(start, len) {
                return Some((start, home));
            }
            self.resting.pop_front();
            self.resting_bytes -= len;
        }
        self.pool.surplus(most == Rest::NONE).map(|start| (start, Home::Host))
    }

    /// What began at `start` and was overdue was given back.
    pub fn forget(&mut self, start: usize) {
        let mut len = self.made[&start].len;
        if self.resting.front() == Some(&start) {
            self.resting.pop_front();
            self.resting_bytes -= len;
        } else {
            len = self.pool.forget(start, len);
        }
        let gone: Vec<_> = self.made.range(start..start + len).map(|(start, _)| *start).collect();
        for start in gone {
            self.made.remove(&start);
        }
    }

    fn around(&self, addr: usize) -> Option<(usize, Piece)> {
        let (start, piece) = self.made.range(..=addr).next_back()?;
        (addr - start < piece.len).then_some((*start, *piece))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cuda::pool::SLAB;

    const GPU: Home = Home::Device(0);

    fn pieces(made: &[(usize, usize)], home: Home) -> Pieces {
        let mut pieces = Pieces::default();
        made.iter().for_each(|(start, len)| pieces.add(*start, *len, home));
        pieces
    }

    #[test]
    fn ranges_that_reach_into_memory_of_ours_are_seen() {
        let pieces = pieces(&[(0x1000, 0x1000), (0x5000, 0x10)], GPU);
        for (addr, len, want) in [
            (0x1000, 0, true),
            (0x1fff, 1, true),
            (0x2000, 0x3000, false),
            (0x2000, 0x3001, true),
            (0xfff, 1, false),
            (0, usize::MAX, true),
            (0x5010, usize::MAX, false),
        ] {
            assert_eq!(pieces.reached(addr, len), want.then_some(GPU), "{len} bytes at {addr:#x}");
        }
    }

    #[test]
    fn the_oldest_go_first_and_rest_until_there_are_too_many() {
        let mut pieces = pieces(&[(0x1000, 0x1000), (0x3000, 0x1000), (0x5000, 0x1000)], GPU);
        assert!(pieces.rest(0x3010) && pieces.rest(0x1000) && !pieces.rest(0x2000));
        for (most, want) in [
            (Rest { pieces: 2, bytes: 0x2000 }, None),
            (Rest { pieces: 1, bytes: 0x2000 }, Some((0x3000, GPU))),
            (Rest { pieces: 2, bytes: 0x1fff }, Some((0x3000, GPU))),
        ] {
            assert_eq!(pieces.overdue(most), want, "{most:?}");
        }
        assert!(pieces.reached(0x3000, 1).is_some(), "still known");
        assert_eq!((pieces.resting(GPU), pieces.resting(Home::Host)), (0x2000, 0));
        pieces.forget(0x3000);
        assert!(pieces.reached(0x3000, 1).is_none() && pieces.reached(0x1000, 1).is_some());
        assert_eq!(pieces.overdue(Rest::NONE), Some((0x1000, GPU)));
        pieces.forget(0x1000);
        assert_eq!(pieces.overdue(Rest::NONE), None, "the third is in use");
        pieces.add(0x10_0000, Rest::SOME.bytes + 1, GPU);
        assert!(pieces.rest(0x5000) && pieces.rest(0x10_0000));
        assert_eq!(pieces.overdue(Rest::SOME), Some((0x10_0000, GPU)), "too large to rest");
        pieces.forget(0x10_0000);
        assert_eq!(pieces.overdue(Rest::SOME), None, "the small one rests on");
    }

    #[test]
    fn page_locked_pieces_are_used_again_when_they_have_rested() {
        const ONE: Rest = Rest { pieces: 1, bytes: usize::MAX };
        let mut pieces = pieces(&[(0x10_0000, 0x10_0000), (0x80_0000, 0x10_0000)], Home::Host);
        assert!(pieces.rest(0x10_0000));
        assert_eq!((pieces.overdue(ONE), pieces.reuse(0x10_0000, 4096)), (None, None), "it rests");
        assert!(pieces.rest(0x80_0000));
        assert_eq!(pieces.overdue(ONE), None, "kept, not given back");
        assert_eq!(pieces.resting(Home::Host), 0x10_0000, "the newer one");
        assert!(pieces.reached(0x10_0000, 1).is_some(), "and known");
        assert_eq!(pieces.reuse(0xf_0000, 4096), Some(0x10_0000));
        assert_eq!(pieces.reuse(0xf_0000, 4096), None);
        assert!(pieces.rest(0x10_0000), "as any other");
        assert_eq!(pieces.overdue(Rest::NONE), Some((0x10_0000, Home::Host)));
        pieces.forget(0x10_0000);
        assert_eq!(pieces.overdue(Rest::NONE), Some((0x80_0000, Home::Host)));
        pieces.forget(0x80_0000);
        assert_eq!(pieces.overdue(Rest::NONE), None);
        assert!(pieces.reached(0, usize::MAX).is_none());
    }

    #[test]
    fn parts_of_a_slab_rest_one_by_one_and_go_together() {
        let mut pieces = Pieces::default();
        pieces.add_slab(SLAB, SLAB / 4);
        assert!(pieces.reached(SLAB + 5, 1).is_some(), "also what nobody uses");
        let parts: Vec<_> = (0..4).filter_map(|_| pieces.reuse(200_000, 4096)).collect();
        assert_eq!(parts, [0, 1, 2, 3].map(|part| SLAB + part * SLAB / 4));
        assert_eq!(pieces.reuse(1, 4096), None, "another length");
        parts[1..].iter().for_each(|part| assert!(pieces.rest(*part)));
        assert_eq!(pieces.overdue(Rest::NONE), None, "one part is in use");
        assert_eq!(pieces.reuse(200_000, 4096), Some(parts[3]), "the others have rested");
        assert!(pieces.rest(parts[0]) && pieces.rest(parts[3]));
        assert_eq!(pieces.overdue(Rest::NONE), Some((SLAB, Home::Host)));
        pieces.forget(SLAB);
        assert!(pieces.reached(0, usize::MAX).is_none() && pieces.overdue(Rest::NONE).is_none());
    }
}
