//! What the driver gave us, and what of it nobody uses. The driver hands freed addresses out again at once, and page-locked ones
//! may stay readable; so a freed piece rests a while, and whoever still uses its addresses is told. After that it is kept for
//! the next one of its size, or given back. Where memory is short the oldest are given back at once.

use crate::cuda::memory::pool::Pool;
use ferry_core::Home;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Pieces of memory by where they start. A block lies somewhere in its piece.
#[derive(Default)]
pub struct Pieces {
    made: BTreeMap<usize, Piece>,
    unused: HashMap<Home, Unused>,
    /// What is overdue will be given back when no stream is held.
    pub is_put_off: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    len: usize,
    home: Home,
    /// Another process may have a pass for it, which is good until the driver has it back.
    is_lent: bool,
}

/// What nobody uses in one place.
#[derive(Default)]
struct Unused {
    small: Resting,
    large: Resting,
    /// What has rested.
    pool: Pool,
    /// How many were ever laid to rest.
    count: u64,
}

/// Pieces that rest: the oldest first, each with its number among all.
#[derive(Default)]
struct Resting {
    pieces: VecDeque<(u64, usize)>,
    bytes: usize,
}

/// How much may rest in one place: enough to catch a mistake soon after it was made, and little of a GPU that others use as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Most {
    pieces: usize,
    bytes: usize,
}

/// Apart, so that a few large ones do not end the rest of many small ones.
const SMALL: usize = 1 << 20;
const MOST_SMALL: Most = Most { pieces: 1024, bytes: 64 << 20 };
const MOST_LARGE: Most = Most { pieces: 32, bytes: 256 << 20 };

impl Resting {
    fn push(&mut self, number: u64, start: usize, len: usize) {
        self.pieces.push_back((number, start));
        self.bytes += len;
    }

    fn oldest(&self) -> Option<(u64, usize)> {
        self.pieces.front().copied()
    }

    /// The oldest, if more rest than may.
    fn overdue(&self, most: Most) -> Option<usize> {
        let is_any = self.pieces.len() > most.pieces || self.bytes > most.bytes;
        self.oldest().filter(|_| is_any).map(|(_, start)| start)
    }

    /// The oldest is not here any more.
    fn pop(&mut self, len: usize) {
        self.pieces.pop_front();
        self.bytes -= len;
    }
}

impl Unused {
    fn resting(&mut self, len: usize) -> &mut Resting {
        if len <= SMALL { &mut self.small } else { &mut self.large }
    }

    /// What has rested long enough.
    fn overdue(&self) -> Option<usize> {
        self.small.overdue(MOST_SMALL).or_else(|| self.large.overdue(MOST_LARGE))
    }

    fn oldest(&self) -> Option<usize> {
        let oldest = [self.small.oldest(), self.large.oldest()];
        oldest.into_iter().flatten().min().map(|(_, start)| start)
    }

    fn bytes(&self) -> usize {
        self.small.bytes + self.large.bytes + self.pool.bytes()
    }
}

impl Pieces {
    /// The driver gave us this.
    pub fn add(&mut self, start: usize, len: usize, home: Home) {
        self.made.insert(start, Piece { len, home, is_lent: false });
    }

    /// The driver gave us a slab of page-locked memory for parts of this length.
    pub fn add_slab(&mut self, start: usize, part: usize) {
        let pool = &mut self.unused.entry(Home::Host).or_default().pool;
        let piece = Piece { len: part, home: Home::Host, is_lent: false };
        let parts = pool.add(start, part).map(|start| (start, piece));
        self.made.extend(parts);
    }

    /// Memory that has rested, for `len` bytes at a multiple of `align`. Of device memory that is a piece of that very length: what
    /// is free there is counted by the byte.
    pub fn reuse(&mut self, home: Home, len: usize, align: usize) -> Option<usize> {
        let waste = if home == Home::Host { len / 4 } else { 0 };
        self.unused.get_mut(&home)?.pool.take(len, waste, align)
    }

    /// Where a piece is that has a byte in common with the range, resting or not; or that an empty range lies in.
    pub fn reached(&self, addr: usize, len: usize) -> Option<Home> {
        let behind = || self.made.range(addr..addr.saturating_add(len)).next().map(|(_, piece)| *piece);
        self.around(addr).map(|(_, piece)| piece).or_else(behind).map(|piece| piece.home)
    }

    /// The piece around `addr` is lent to another process: from where it starts, and for nobody else afterwards.
    pub fn lend(&mut self, addr: usize) -> Option<usize> {
        let (start, piece) = self.around(addr)?;
        self.made.insert(start, Piece { is_lent: true, ..piece });
        Some(start)
    }

    /// Lays the piece around `addr` to rest. Says where it is, or nothing if there is none. One that is larger than all that may rest
    /// is the next to go.
    pub fn rest(&mut self, addr: usize) -> Option<Home> {
        let (start, Piece { len, home, .. }) = self.around(addr)?;
        let unused = self.unused.entry(home).or_default();
        unused.count += 1;
        let number = unused.count;
        unused.resting(len).push(number, start, len);
        if len > MOST_LARGE.bytes {
            unused.large.pieces.rotate_right(1);
        }
        Some(home)
    }

    /// Bytes of a place that nobody uses.
    pub fn unused(&self, home: Home) -> usize {
        self.unused.get(&home).map_or(0, Unused::bytes)
    }

    /// What is to be given back next, if more of a place rest than may. It stays known until it is [`forgotten`](Self::forget).
    pub fn overdue(&mut self, home: Home) -> Option<usize> {
        let unused = self.unused.get_mut(&home)?;
        while let Some(start) = unused.overdue() {
            let Piece { len, is_lent, .. } = self.made[&start];
            if is_lent || !unused.pool.keep(start, len) {
                return Some(start);
            }
            unused.resting(len).pop(len);
        }
        unused.pool.surplus(false)
    }

    /// What is to be given back next where memory is short: what has rested, then the oldest of what rests. Like
    /// [`overdue`](Self::overdue), until nothing is left that could be.
    pub fn oldest(&mut self, home: Home) -> Option<usize> {
        let unused = self.unused.get_mut(&home)?;
        loop {
            if let Some(start) = unused.pool.surplus(true) {
                return Some(start);
            }
            let start = unused.oldest()?;
            if !unused.pool.is_part(start) {
                return Some(start);
            }
            // Goes with its slab.
            let len = self.made[&start].len;
            unused.pool.keep(start, len);
            unused.resting(len).pop(len);
        }
    }

    /// All places with something that nobody uses.
    pub fn places(&self) -> Vec<Home> {
        self.unused.keys().copied().collect()
    }

    /// What began at `start` and was to be given back was. Says how many bytes that were.
    pub fn forget(&mut self, start: usize) -> usize {
        let Piece { mut len, home, .. } = self.made[&start];
        let unused = self.unused.get_mut(&home).expect("it was found there");
        let resting = unused.resting(len);
        if resting.oldest().is_some_and(|(_, oldest)| oldest == start) {
            resting.pop(len);
        } else {
            len = unused.pool.forget(start);
        }
        let gone: Vec<_> = self.made.range(start..start + len).map(|(start, _)| *start).collect();
        for start in gone {
            self.made.remove(&start);
        }
        len
    }

    fn around(&self, addr: usize) -> Option<(usize, Piece)> {
        let (start, piece) = self.made.range(..=addr).next_back()?;
        (addr - start < piece.len).then_some((*start, *piece))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cuda::memory::pool::SLAB;

    const GPU: Home = Home::Device(0);

    fn pieces(made: &[(usize, usize)], home: Home) -> Pieces {
        let mut pieces = Pieces::default();
        made.iter().for_each(|(start, len)| pieces.add(*start, *len, home));
        pieces
    }

    /// Gives back what is overdue: where that starts.
    fn give_back(pieces: &mut Pieces, home: Home) -> Vec<usize> {
        std::iter::from_fn(|| pieces.overdue(home).inspect(|start| _ = pieces.forget(*start))).collect()
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
    fn where_memory_is_short_the_oldest_go_first() {
        let large = (1 << 30, SMALL + 1);
        let mut pieces = pieces(&[(0x1000, 0x1000), (0x3000, 0x1000), large, (0x5000, 0x1000)], GPU);
        assert_eq!([0x3010, large.0, 0x1000].map(|addr| pieces.rest(addr)), [Some(GPU); 3]);
        assert_eq!((pieces.rest(0x2000), pieces.overdue(GPU)), (None, None));
        assert_eq!((pieces.unused(GPU), pieces.unused(Home::Host)), (0x2000 + large.1, 0));
        assert_eq!(pieces.oldest(Home::Device(1)), None, "another device");
        for (start, len) in [(0x3000, 0x1000), large, (0x1000, 0x1000)] {
            assert_eq!(pieces.oldest(GPU), Some(start));
            assert!(pieces.reached(start, 1).is_some(), "still known");
            assert_eq!((pieces.forget(start), pieces.reached(start, 1)), (len, None));
        }
        assert_eq!((pieces.oldest(GPU), pieces.unused(GPU)), (None, 0), "the last is in use");
    }

    #[test]
    fn large_pieces_do_not_end_the_rest_of_small_ones() {
        let mut pieces = pieces(&[(0x1000, 0x1000)], GPU);
        pieces.rest(0x1000);
        for number in 1..=100 {
            pieces.add(number << 30, 100 << 20, GPU);
            pieces.rest(number << 30);
            let gone = give_back(&mut pieces, GPU);
            assert_eq!(
                gone,
                if number <= 2 { vec![] } else { vec![(number - 2) << 30] },
                "the oldest large one"
            );
        }
        pieces.add(1 << 40, MOST_LARGE.bytes + 1, GPU);
        pieces.rest(1 << 40);
        assert_eq!(give_back(&mut pieces, GPU), [1 << 40], "too large to rest");
        assert!(pieces.reached(0x1000, 1).is_some(), "the small one rests on");
        assert_eq!(pieces.unused(GPU), 0x1000 + (200 << 20));
    }

    #[test]
    fn what_has_rested_is_used_again_and_not_given_back() {
        for (home, len) in [(GPU, 4 << 20), (Home::Host, 4 << 20), (GPU, 4096)] {
            let (mut pieces, mut made) = (Pieces::default(), Vec::new());
            let most = if len <= SMALL { MOST_SMALL.pieces } else { MOST_LARGE.pieces };
            for turn in 0..3 * most {
                let start = pieces.reuse(home, len, 4096).unwrap_or_else(|| {
                    made.push((turn + 1) << 30);
                    pieces.add((turn + 1) << 30, len, home);
                    (turn + 1) << 30
                });
                // As many others come and go before an address comes again.
                assert_eq!(start, made[turn % (most + 1)], "{home:?}, turn {turn}");
                pieces.rest(start);
                assert_eq!(pieces.overdue(home), None);
            }
            assert_eq!((made.len(), pieces.unused(home)), (most + 1, (most + 1) * len));
            assert_eq!(
                pieces.reuse(home, len - 1, 4096).is_some(),
                home == Home::Host,
                "device memory is exact"
            );
        }
    }

    #[test]
    fn what_another_process_may_open_is_not_used_again() {
        let mut pieces = pieces(&[(0x1000, 4096)], GPU);
        assert_eq!((pieces.lend(0x1800), pieces.lend(0x2000)), (Some(0x1000), None));
        for start in (1..=MOST_SMALL.pieces).map(|number| number << 30) {
            pieces.add(start, 4096, GPU);
            pieces.rest(if start == 1 << 30 { 0x1000 } else { start });
        }
        pieces.rest(1 << 30);
        assert_eq!((give_back(&mut pieces, GPU), pieces.reuse(GPU, 4096, 4096)), (vec![0x1000], None));
    }

    #[test]
    fn parts_of_a_slab_rest_one_by_one_and_go_together() {
        let mut pieces = Pieces::default();
        pieces.add_slab(SLAB, SLAB / 4);
        assert!(pieces.reached(SLAB + 5, 1).is_some(), "also what nobody uses");
        let parts: Vec<_> = (0..4).filter_map(|_| pieces.reuse(Home::Host, 200_000, 4096)).collect();
        assert_eq!(parts, [0, 1, 2, 3].map(|part| SLAB + part * SLAB / 4));
        assert_eq!(pieces.reuse(Home::Host, 1, 4096), None, "another length");
        parts[1..].iter().for_each(|part| assert_eq!(pieces.rest(*part), Some(Home::Host)));
        assert_eq!((pieces.overdue(Home::Host), pieces.reuse(Home::Host, 200_000, 4096)), (None, None));
        assert_eq!(pieces.oldest(Home::Host), None, "one part is in use");
        assert_eq!(pieces.reuse(Home::Host, 200_000, 4096), Some(parts[1]), "the others have rested");
        assert_eq!([parts[0], parts[1]].map(|part| pieces.rest(part)), [Some(Home::Host); 2]);
        assert_eq!(pieces.oldest(Home::Host), Some(SLAB));
        assert_eq!(pieces.forget(SLAB), SLAB);
        assert!(pieces.reached(0, usize::MAX).is_none() && pieces.oldest(Home::Host).is_none());
    }
}
