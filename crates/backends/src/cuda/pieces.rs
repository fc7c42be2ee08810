//! What the driver gave us, and what of it rests. The driver hands freed addresses out again at once, and page-locked ones
//! may stay readable; so a freed piece rests a while before it is given back, and whoever still uses its addresses is told.

use ferry_core::Home;
use std::collections::{BTreeMap, VecDeque};

/// Pieces of memory by where they start. A block lies somewhere in its piece.
#[derive(Default)]
pub struct Pieces {
    made: BTreeMap<usize, Piece>,
    resting: VecDeque<usize>,
    resting_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    len: usize,
    home: Home,
}

/// How much may rest.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// Pieces.
    pub pieces: usize,
    /// Bytes of all of them.
    pub bytes: usize,
}

impl Rest {
    /// Enough to catch a mistake soon after it was made.
    pub const SOME: Rest = Rest { pieces: 1024, bytes: 64 << 20 };
    /// Everything is given back.
    pub const NONE: Rest = Rest { pieces: 0, bytes: 0 };
}

impl Pieces {
    /// The driver gave us this.
    pub fn add(&mut self, start: usize, len: usize, home: Home) {
        self.made.insert(start, Piece { len, home });
    }

    /// Whether the range has a byte in common with any piece, resting or not; an empty range, whether it lies in one.
    pub fn reaches(&self, addr: usize, len: usize) -> bool {
        self.around(addr).is_some() || self.made.range(addr..addr.saturating_add(len)).next().is_some()
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

    /// The piece that rests longest, if more rest than may. It stays known until it is [`forgotten`](Self::forget).
    pub fn overdue(&self, most: Rest) -> Option<(usize, Home)> {
        let over = self.resting.len() > most.pieces || self.resting_bytes > most.bytes;
        let start = *self.resting.front().filter(|_| over)?;
        Some((start, self.made[&start].home))
    }

    /// The piece that rests longest was given back.
    pub fn forget(&mut self) {
        if let Some(piece) = self.resting.pop_front().and_then(|start| self.made.remove(&start)) {
            self.resting_bytes -= piece.len;
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

    fn pieces(made: &[(usize, usize)]) -> Pieces {
        let mut pieces = Pieces::default();
        made.iter().for_each(|(start, len)| pieces.add(*start, *len, Home::Host));
        pieces
    }

    #[test]
    fn ranges_that_reach_into_memory_of_ours_are_seen() {
        let pieces = pieces(&[(0x1000, 0x1000), (0x5000, 0x10)]);
        for (addr, len, want) in [
            (0x1000, 0, true),
            (0x1fff, 1, true),
            (0x2000, 0x3000, false),
            (0x2000, 0x3001, true),
            (0xfff, 1, false),
            (0, usize::MAX, true),
            (0x5010, usize::MAX, false),
        ] {
            assert_eq!(pieces.reaches(addr, len), want, "{len} bytes at {addr:#x}");
        }
    }

    #[test]
    fn the_oldest_go_first_and_rest_until_there_are_too_many() {
        let mut pieces = pieces(&[(0x1000, 0x1000), (0x3000, 0x1000), (0x5000, 0x1000)]);
        assert!(pieces.rest(0x3010) && pieces.rest(0x1000) && !pieces.rest(0x2000));
        for (most, want) in [
            (Rest { pieces: 2, bytes: 0x2000 }, None),
            (Rest { pieces: 1, bytes: 0x2000 }, Some((0x3000, Home::Host))),
            (Rest { pieces: 2, bytes: 0x1fff }, Some((0x3000, Home::Host))),
        ] {
            assert_eq!(pieces.overdue(most), want, "{most:?}");
        }
        assert!(pieces.reaches(0x3000, 1), "still known");
        assert_eq!((pieces.resting(Home::Host), pieces.resting(Home::Device(0))), (0x2000, 0));
        pieces.forget();
        assert!(!pieces.reaches(0x3000, 1) && pieces.reaches(0x1000, 1));
        assert_eq!(pieces.overdue(Rest::NONE), Some((0x1000, Home::Host)));
        pieces.forget();
        assert_eq!(pieces.overdue(Rest::NONE), None, "the third is in use");
        pieces.add(0x10_0000, Rest::SOME.bytes + 1, Home::Device(0));
        assert!(pieces.rest(0x5000) && pieces.rest(0x10_0000));
        assert_eq!(pieces.overdue(Rest::SOME), Some((0x10_0000, Home::Device(0))), "too large to rest");
        pieces.forget();
        assert_eq!(pieces.overdue(Rest::SOME), None, "the small one rests on");
    }
}
