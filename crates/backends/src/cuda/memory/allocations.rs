//! The registry of the memory that blocks are made of: what is in use, what is in quarantine, and what can be
//! used again.
//!
//! A block lies in a piece of memory: an allocation of the driver's, or a part of one. The driver hands freed
//! addresses out again at once, and page-locked ones may stay readable. So a freed piece is in quarantine for
//! a while, where a use of its addresses is refused. After that it is idle again in its chunk
//! ([`chunks`](super::chunks)), or goes into the free list for the next request of its size, or back to the
//! driver. Where memory is short the oldest go back at once.

use crate::cuda::memory::{
    chunks::{Chunks, chunk_len, slack},
    free_list::{FreeList, MAX_KEPT},
};
use ferry_core::Home;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Pieces by where they start. A block lies somewhere in its piece.
#[derive(Default)]
pub struct Allocations {
    pieces: BTreeMap<usize, MemoryPiece>,
    homes: HashMap<Home, HomeMemory>,
    /// Whether a deferred call will give back what is overdue.
    pub is_deferred: bool,
}

/// What is known of one of them. What is idle in a chunk is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MemoryPiece {
    len: usize,
    home: Home,
    is_used: bool,
    /// Another process may have a handle of it, which is good until the driver has it back.
    is_lent: bool,
}

/// What there is of one home.
#[derive(Default)]
struct HomeMemory {
    small: PieceClass,
    large: PieceClass,
    /// What has been in quarantine and is no part of a chunk.
    free: FreeList,
    /// Bytes that are in use.
    used: usize,
    /// How many pieces were ever put into quarantine.
    count: u64,
}

/// Pieces of some sizes: what they are carved out of, and those in quarantine.
#[derive(Default)]
struct PieceClass {
    chunks: Chunks,
    quarantine: Quarantine,
}

/// Freed pieces, the oldest first, each with its number among all.
#[derive(Default)]
struct Quarantine {
    freed: VecDeque<(u64, usize)>,
    bytes: usize,
}

/// How much may be in quarantine of one home: enough to catch a mistake soon after it was made, and little of
/// a GPU that other programs use as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct QuarantineLimit {
    count: usize,
    bytes: usize,
}

/// What becomes of memory that is not in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaimed {
    /// What starts there is to be given back. It stays known until it is
    /// [`forgotten`](Allocations::forget).
    Whole(usize),
    /// A part of something larger has left quarantine, and can be used again.
    Part,
}

/// Pieces up to this size have a quarantine of their own, so that a few large ones do not end that of many
/// small ones; and chunks of their own, so that a small one does not keep a large chunk.
const SMALL: usize = 1 << 20;
const SMALL_LIMIT: QuarantineLimit = QuarantineLimit { count: 1024, bytes: 64 << 20 };
const LARGE_LIMIT: QuarantineLimit = QuarantineLimit { count: 32, bytes: 256 << 20 };

impl Quarantine {
    fn push(&mut self, number: u64, start: usize, len: usize) {
        self.freed.push_back((number, start));
        self.bytes += len;
    }

    fn oldest(&self) -> Option<(u64, usize)> {
        self.freed.front().copied()
    }

    /// The oldest, if there is more than may be.
    fn overdue(&self, limit: QuarantineLimit) -> Option<usize> {
        let is_any = self.freed.len() > limit.count || self.bytes > limit.bytes;
        self.oldest().filter(|_| is_any).map(|(_, start)| start)
    }

    /// Takes the oldest out.
    fn pop(&mut self, len: usize) {
        self.freed.pop_front();
        self.bytes -= len;
    }
}

impl HomeMemory {
    fn class_of(&mut self, len: usize) -> &mut PieceClass {
        if len <= SMALL { &mut self.small } else { &mut self.large }
    }

    fn class(&self, len: usize) -> &PieceClass {
        if len <= SMALL { &self.small } else { &self.large }
    }

    fn classes(&self) -> [&PieceClass; 2] {
        [&self.small, &self.large]
    }

    /// What has been in quarantine long enough.
    fn overdue(&self) -> Option<usize> {
        self.small.quarantine.overdue(SMALL_LIMIT).or_else(|| self.large.quarantine.overdue(LARGE_LIMIT))
    }

    fn oldest(&self) -> Option<usize> {
        let oldest = self.classes().map(|class| class.quarantine.oldest());
        oldest.into_iter().flatten().min().map(|(_, start)| start)
    }

    /// Bytes that are not in use.
    fn unused(&self) -> usize {
        let bytes = self.classes().map(|class| class.quarantine.bytes + class.chunks.bytes());
        bytes.iter().sum::<usize>() + self.free.bytes()
    }

    /// Something outside of quarantine that is better given back: if more is kept than may be, or if `all`
    /// goes.
    fn surplus(&self, all: bool) -> Option<usize> {
        let empty: usize = self.classes().iter().map(|class| class.chunks.empty_bytes()).sum();
        let kept = if all { 0 } else { slack(self.used).max(MAX_KEPT) };
        let chunk = |class: &PieceClass| class.chunks.surplus(if empty > kept { 0 } else { usize::MAX });
        self.free.surplus(all).or_else(|| chunk(&self.large)).or_else(|| chunk(&self.small))
    }
}

impl Allocations {
    /// The driver has made this allocation, for one block.
    pub fn add(&mut self, start: usize, len: usize, home: Home) {
        self.homes.entry(home).or_default().used += len;
        self.pieces.insert(start, MemoryPiece { len, home, is_used: true, is_lent: false });
    }

    /// The driver has made a slab of page-locked memory, for parts of this length.
    pub fn add_slab(&mut self, start: usize, part: usize) {
        let free = &mut self.homes.entry(Home::Host).or_default().free;
        let found = MemoryPiece { len: part, home: Home::Host, is_used: false, is_lent: false };
        let parts = free.add(start, part).map(|start| (start, found));
        self.pieces.extend(parts);
    }

    /// The length of a chunk that is worth making for a block of `len` bytes, of `most` bytes at most.
    pub fn chunk_len(&self, home: Home, len: usize, most: usize) -> Option<usize> {
        chunk_len(len, self.homes.get(&home).map_or(0, |memory| memory.used), most)
    }

    /// The driver has made a chunk of device memory, for blocks like one of `part` bytes.
    pub fn add_chunk(&mut self, start: usize, len: usize, home: Home, part: usize) {
        self.homes.entry(home).or_default().class_of(part).chunks.add(start, len);
    }

    /// Memory for `len` bytes at a multiple of `align` that is there and not in use. Of device memory it has
    /// that very length: what is free there is counted by the byte.
    pub fn reuse(&mut self, home: Home, len: usize, align: usize) -> Option<usize> {
        let waste = if home == Home::Host { len / 4 } else { 0 };
        let memory = self.homes.get_mut(&home)?;
        let whole = memory.free.take(len, waste, align);
        let start = whole.or_else(|| memory.class_of(len).chunks.take(len, align))?;
        let fresh = MemoryPiece { len, home, is_used: true, is_lent: false };
        let piece = self.pieces.entry(start).or_insert(fresh);
        piece.is_used = true;
        memory.used += piece.len;
        Some(start)
    }

    /// Whether [`reuse`](Self::reuse) would find memory in a chunk.
    pub fn has_room(&self, home: Home, len: usize, align: usize) -> bool {
        self.homes.get(&home).is_some_and(|memory| memory.class(len).chunks.has_room(len, align))
    }

    /// The home of memory that has a byte in common with the range, in use or not; or that an empty range
    /// lies in.
    pub fn reached(&self, addr: usize, len: usize) -> Option<Home> {
        let behind = || self.pieces.range(addr..addr.saturating_add(len)).next().map(|(_, found)| *found);
        let piece = self.around(addr).map(|(_, found)| found).or_else(behind).map(|found| found.home);
        let meets = |memory: &HomeMemory| memory.classes().iter().any(|class| class.chunks.meets(addr, len));
        let chunk = || self.homes.iter().find(|(_, memory)| meets(memory)).map(|(home, _)| *home);
        piece.or_else(chunk)
    }

    /// The piece around `addr` is lent to another process, and never reused afterwards: the start and the
    /// length of the driver's allocation that it lies in.
    pub fn lend(&mut self, addr: usize) -> Option<(usize, usize)> {
        let (start, found) = self.around(addr)?;
        self.pieces.insert(start, MemoryPiece { is_lent: true, ..found });
        let chunk = self.homes.get_mut(&found.home)?.class_of(found.len).chunks.around(start);
        Some(chunk.unwrap_or((start, found.len)))
    }

    /// Puts the piece around `addr` into quarantine: its home, if there is one. One that is larger than all
    /// that may be there is the next to leave it.
    pub fn quarantine(&mut self, addr: usize) -> Option<Home> {
        let (start, found) = self.around(addr)?;
        let MemoryPiece { len, home, .. } = found;
        self.pieces.insert(start, MemoryPiece { is_used: false, ..found });
        let memory = self.homes.entry(home).or_default();
        memory.used -= len;
        memory.count += 1;
        let number = memory.count;
        let class = memory.class_of(len);
        class.chunks.release(start, len);
        class.quarantine.push(number, start, len);
        if len > LARGE_LIMIT.bytes {
            class.quarantine.freed.rotate_right(1);
        }
        Some(home)
    }

    /// Bytes of a home that are not in use.
    pub fn unused(&self, home: Home) -> usize {
        self.homes.get(&home).map_or(0, HomeMemory::unused)
    }

    /// Bytes of a home that the driver could have back: what is not in use and no part of something that is.
    pub fn reclaimable(&self, home: Home) -> usize {
        let kept = |class: &PieceClass| -> usize {
            let kept = class.chunks.all().filter(|(_, _, used)| *used > 0).map(|(_, len, used)| len - used);
            kept.sum()
        };
        let free = |memory: &HomeMemory| memory.unused() - memory.classes().map(kept).iter().sum::<usize>();
        self.homes.get(&home).map_or(0, free)
    }

    /// Whether a chunk has room for `len` bytes at a multiple of `align`, or would have it if nothing were in
    /// quarantine.
    pub fn could_have_room(&self, home: Home, len: usize, align: usize) -> bool {
        let Some(memory) = self.homes.get(&home) else { return false };
        memory.class(len).chunks.all().any(|(start, chunk, _)| {
            let lasting = self.pieces.range(start..start + chunk);
            let lasting = lasting.filter(|(_, piece)| piece.is_used || piece.is_lent);
            let ends = lasting.clone().map(|(at, piece)| at + piece.len);
            let (from, to) = ([start].into_iter().chain(ends), lasting.map(|(at, _)| *at));
            let mut gaps = from.zip(to.chain([start + chunk]));
            gaps.any(|(from, to)| to.saturating_sub(from.next_multiple_of(align)) >= len)
        })
    }

    /// What is to be given back next, if there is more than may be kept. It stays known until it is
    /// [`forgotten`](Self::forget).
    pub fn overdue(&mut self, home: Home) -> Option<usize> {
        while let Some(start) = self.homes.get(&home)?.overdue() {
            let MemoryPiece { len, is_lent, .. } = self.pieces[&start];
            if !self.rejoin(start) {
                let memory = self.homes.get_mut(&home)?;
                if is_lent || !memory.free.keep(start, len) {
                    return Some(start);
                }
                memory.class_of(len).quarantine.pop(len);
            }
        }
        self.homes.get(&home)?.surplus(false)
    }

    /// What becomes of memory of this home next where that is short: what has been in quarantine goes back,
    /// then the oldest that is in it. Until nothing is left that could.
    pub fn reclaim(&mut self, home: Home) -> Option<Reclaimed> {
        let memory = self.homes.get_mut(&home)?;
        if let Some(start) = memory.surplus(true) {
            return Some(Reclaimed::Whole(start));
        }
        let start = memory.oldest()?;
        if self.rejoin(start) {
            return Some(Reclaimed::Part);
        }
        let memory = self.homes.get_mut(&home)?;
        if memory.free.is_part(start) {
            // Goes with its slab.
            let len = self.pieces[&start].len;
            memory.free.keep(start, len);
            memory.class_of(len).quarantine.pop(len);
            return Some(Reclaimed::Part);
        }
        Some(Reclaimed::Whole(start))
    }

    /// Takes a piece out of quarantine, of which it is the oldest, and into its chunk. False if it has none.
    fn rejoin(&mut self, start: usize) -> bool {
        let Some(MemoryPiece { len, home, is_lent, .. }) = self.pieces.get(&start).copied() else {
            return false;
        };
        let Some(class) = self.homes.get_mut(&home).map(|memory| memory.class_of(len)) else { return false };
        if class.chunks.around(start).is_none() {
            return false;
        }
        class.quarantine.pop(len);
        if is_lent {
            class.chunks.withhold(start, len);
        } else {
            class.chunks.put(start, len);
            self.pieces.remove(&start);
        }
        true
    }

    /// All homes that memory was made of.
    pub fn homes(&self) -> Vec<Home> {
        self.homes.keys().copied().collect()
    }

    /// What began at `start` was given back: how many bytes that were.
    pub fn forget(&mut self, home: Home, start: usize) -> usize {
        let memory = self.homes.get_mut(&home).expect("it was found there");
        let chunk = memory.small.chunks.forget(start).or_else(|| memory.large.chunks.forget(start));
        let len = chunk.unwrap_or_else(|| {
            let len = self.pieces[&start].len;
            let quarantine = &mut memory.class_of(len).quarantine;
            if quarantine.oldest().is_some_and(|(_, oldest)| oldest == start) {
                quarantine.pop(len);
                return len;
            }
            memory.free.forget(start)
        });
        let gone: Vec<_> = self.pieces.range(start..start + len).map(|(start, _)| *start).collect();
        gone.iter().for_each(|start| _ = self.pieces.remove(start));
        len
    }

    fn around(&self, addr: usize) -> Option<(usize, MemoryPiece)> {
        let (start, found) = self.pieces.range(..=addr).next_back()?;
        (addr - start < found.len).then_some((*start, *found))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::cuda::memory::free_list::SLAB;

    const GPU: Home = Home::Device(0);

    fn allocations(made: &[(usize, usize)], home: Home) -> Allocations {
        let mut allocations = Allocations::default();
        made.iter().for_each(|(start, len)| allocations.add(*start, *len, home));
        allocations
    }

    /// Gives back what is overdue: where that starts.
    fn give_back(allocations: &mut Allocations, home: Home) -> Vec<usize> {
        let next = || allocations.overdue(home).inspect(|start| _ = allocations.forget(home, *start));
        std::iter::from_fn(next).collect()
    }

    /// What becomes of all that is not in use where memory is short.
    fn reclaimed(allocations: &mut Allocations, home: Home) -> Vec<Reclaimed> {
        let forget = |allocations: &mut Allocations, what| {
            if let Reclaimed::Whole(start) = what {
                allocations.forget(home, start);
            }
            what
        };
        let next = || allocations.reclaim(home).map(|what| forget(allocations, what));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn ranges_that_reach_into_memory_of_ours_are_seen() {
        let allocations = allocations(&[(0x1000, 0x1000), (0x5000, 0x10)], GPU);
        for (addr, len, want) in [
            (0x1000, 0, true),
            (0x1fff, 1, true),
            (0x2000, 0x3000, false),
            (0x2000, 0x3001, true),
            (0xfff, 1, false),
            (0, usize::MAX, true),
            (0x5010, usize::MAX, false),
        ] {
            assert_eq!(allocations.reached(addr, len), want.then_some(GPU), "{len} bytes at {addr:#x}");
        }
    }

    #[test]
    fn where_memory_is_short_the_oldest_go_first() {
        let large = (1 << 30, SMALL + 1);
        let mut allocations =
            allocations(&[(0x1000, 0x1000), (0x3000, 0x1000), large, (0x5000, 0x1000)], GPU);
        assert_eq!([0x3010, large.0, 0x1000].map(|addr| allocations.quarantine(addr)), [Some(GPU); 3]);
        assert_eq!((allocations.quarantine(0x2000), allocations.overdue(GPU)), (None, None));
        assert_eq!((allocations.unused(GPU), allocations.unused(Home::Host)), (0x2000 + large.1, 0));
        assert_eq!(allocations.reclaim(Home::Device(1)), None, "another device");
        for (start, len) in [(0x3000, 0x1000), large, (0x1000, 0x1000)] {
            assert_eq!(allocations.reclaim(GPU), Some(Reclaimed::Whole(start)));
            assert!(allocations.reached(start, 1).is_some(), "still known");
            assert_eq!((allocations.forget(GPU, start), allocations.reached(start, 1)), (len, None));
        }
        assert_eq!((allocations.reclaim(GPU), allocations.unused(GPU)), (None, 0), "the last is in use");
    }

    #[test]
    fn large_allocations_do_not_end_the_rest_of_small_ones() {
        let mut allocations = allocations(&[(0x1000, 0x1000)], GPU);
        allocations.quarantine(0x1000);
        for number in 1..=100 {
            allocations.add(number << 30, 100 << 20, GPU);
            allocations.quarantine(number << 30);
            let gone = give_back(&mut allocations, GPU);
            assert_eq!(
                gone,
                if number <= 2 { vec![] } else { vec![(number - 2) << 30] },
                "the oldest large one"
            );
        }
        allocations.add(1 << 40, LARGE_LIMIT.bytes + 1, GPU);
        allocations.quarantine(1 << 40);
        assert_eq!(give_back(&mut allocations, GPU), [1 << 40], "too large to rest");
        assert!(allocations.reached(0x1000, 1).is_some(), "the small one rests on");
        assert_eq!(allocations.unused(GPU), 0x1000 + (200 << 20));
    }

    #[test]
    fn what_has_rested_is_used_again_and_not_given_back() {
        for (home, len) in [(GPU, 4 << 20), (Home::Host, 4 << 20), (GPU, 4096)] {
            let (mut allocations, mut made) = (Allocations::default(), Vec::new());
            let most = if len <= SMALL { SMALL_LIMIT.count } else { LARGE_LIMIT.count };
            for turn in 0..3 * most {
                let start = allocations.reuse(home, len, 4096).unwrap_or_else(|| {
                    made.push((turn + 1) << 30);
                    allocations.add((turn + 1) << 30, len, home);
                    (turn + 1) << 30
                });
                // As many others come and go before an address comes again.
                assert_eq!(start, made[turn % (most + 1)], "{home:?}, turn {turn}");
                allocations.quarantine(start);
                assert_eq!(allocations.overdue(home), None);
            }
            assert_eq!((made.len(), allocations.unused(home)), (most + 1, (most + 1) * len));
            assert_eq!(
                allocations.reuse(home, len - 1, 4096).is_some(),
                home == Home::Host,
                "device memory is exact"
            );
        }
    }

    #[test]
    fn what_another_process_may_open_is_not_used_again() {
        let mut allocations = allocations(&[(0x1000, 4096)], GPU);
        assert_eq!((allocations.lend(0x1800), allocations.lend(0x2000)), (Some((0x1000, 4096)), None));
        for start in (1..=SMALL_LIMIT.count).map(|number| number << 30) {
            allocations.add(start, 4096, GPU);
            allocations.quarantine(if start == 1 << 30 { 0x1000 } else { start });
        }
        allocations.quarantine(1 << 30);
        assert_eq!(
            (give_back(&mut allocations, GPU), allocations.reuse(GPU, 4096, 4096)),
            (vec![0x1000], None)
        );
    }

    #[test]
    fn parts_of_a_slab_rest_one_by_one_and_go_together() {
        let mut allocations = Allocations::default();
        allocations.add_slab(SLAB, SLAB / 4);
        assert!(allocations.reached(SLAB + 5, 1).is_some(), "also what nobody uses");
        let parts: Vec<_> = (0..4).filter_map(|_| allocations.reuse(Home::Host, 200_000, 4096)).collect();
        assert_eq!(parts, [0, 1, 2, 3].map(|part| SLAB + part * SLAB / 4));
        assert_eq!(allocations.reuse(Home::Host, 1, 4096), None, "another length");
        parts[1..].iter().for_each(|part| assert_eq!(allocations.quarantine(*part), Some(Home::Host)));
        assert_eq!(
            (allocations.overdue(Home::Host), allocations.reuse(Home::Host, 200_000, 4096)),
            (None, None)
        );
        assert_eq!(reclaimed(&mut allocations, Home::Host), [Reclaimed::Part; 3], "one part is in use");
        assert_eq!(allocations.reuse(Home::Host, 200_000, 4096), Some(parts[1]), "the others have rested");
        assert_eq!([parts[0], parts[1]].map(|part| allocations.quarantine(part)), [Some(Home::Host); 2]);
        let last = [Reclaimed::Part, Reclaimed::Part, Reclaimed::Whole(SLAB)];
        assert_eq!(reclaimed(&mut allocations, Home::Host), last);
        assert!(allocations.reached(0, usize::MAX).is_none() && allocations.unused(Home::Host) == 0);
    }

    const MIB: usize = 1 << 20;
    const CHUNK: usize = 1 << 30;

    /// A chunk of four pieces of 4 MiB, all in use.
    fn chunk() -> (Allocations, Vec<usize>) {
        let mut allocations = Allocations::default();
        allocations.add_chunk(CHUNK, 16 * MIB, GPU, 4 * MIB);
        let pieces: Vec<_> = std::iter::from_fn(|| allocations.reuse(GPU, 4 * MIB, 2 * MIB)).collect();
        assert_eq!(pieces, [0, 4, 8, 12].map(|mib| CHUNK + mib * MIB));
        (allocations, pieces)
    }

    #[test]
    fn pieces_of_a_chunk_rest_one_by_one_and_go_together() {
        let (mut allocations, pieces) = chunk();
        assert_eq!(allocations.reuse(GPU, 4 * MIB, 4096), None);
        pieces.iter().for_each(|piece| assert_eq!(allocations.quarantine(*piece + 5), Some(GPU)));
        assert_eq!((allocations.overdue(GPU), allocations.unused(GPU)), (None, 16 * MIB));
        assert_eq!(allocations.reuse(GPU, 4 * MIB, 4096), None, "all of them rest");
        let want: Vec<_> = [Reclaimed::Part; 4].into_iter().chain([Reclaimed::Whole(CHUNK)]).collect();
        assert_eq!(reclaimed(&mut allocations, GPU), want);
        assert_eq!((allocations.unused(GPU), allocations.reached(0, usize::MAX)), (0, None));
    }

    #[test]
    fn a_chunk_with_a_piece_in_use_stays_and_its_idle_memory_is_known_and_used() {
        let (mut allocations, pieces) = chunk();
        pieces[1..].iter().for_each(|piece| _ = allocations.quarantine(*piece));
        assert_eq!((allocations.reclaimable(GPU), allocations.unused(GPU)), (0, 12 * MIB));
        assert!(allocations.could_have_room(GPU, 12 * MIB, 2 * MIB));
        assert!(!allocations.could_have_room(GPU, 12 * MIB, 8 * MIB), "from 8 MiB on there are 8");
        assert!(!allocations.could_have_room(GPU, 12 * MIB + 1, 4096));
        assert!(!allocations.could_have_room(GPU, MIB, 4096), "small pieces have other chunks");
        assert!(!allocations.has_room(GPU, 4 * MIB, 4096));
        assert_eq!(reclaimed(&mut allocations, GPU), [Reclaimed::Part; 3]);
        assert!(allocations.has_room(GPU, 12 * MIB, 4096) && !allocations.has_room(GPU, MIB, 4096));
        assert_eq!(allocations.reached(pieces[2] + 7, 1), Some(GPU), "idle, and nobody else's");
        assert_eq!(allocations.reached(CHUNK + 16 * MIB, 1), None);
        assert_eq!(allocations.reuse(GPU, 12 * MIB, 4096), Some(pieces[1]));
        assert_eq!(allocations.unused(GPU), 0);
    }

    #[test]
    fn no_more_is_kept_in_empty_chunks_than_may_be() {
        let mut allocations = Allocations::default();
        for number in 1..=4 {
            allocations.add_chunk(number << 30, MAX_KEPT / 2, GPU, 4 * MIB);
        }
        assert_eq!(give_back(&mut allocations, GPU), [1 << 30, 2 << 30]);
        assert_eq!(allocations.unused(GPU), MAX_KEPT);
        // A program that uses much may keep more.
        allocations.add(1 << 40, 3 * MAX_KEPT * 4 / 2, GPU);
        allocations.add_chunk(5 << 30, MAX_KEPT / 2, GPU, 4 * MIB);
        assert_eq!(give_back(&mut allocations, GPU), []);
        assert_eq!(allocations.chunk_len(GPU, 4 * MIB, usize::MAX), Some(64 * MIB), "and larger chunks");
        allocations.quarantine(1 << 40);
        assert_eq!(give_back(&mut allocations, GPU), [1 << 40, 3 << 30]);
    }

    #[test]
    fn a_lent_piece_names_its_chunk_and_keeps_others_from_its_place() {
        let (mut allocations, pieces) = chunk();
        assert_eq!(allocations.lend(pieces[1] + 9), Some((CHUNK, 16 * MIB)));
        pieces[..3].iter().for_each(|piece| _ = allocations.quarantine(*piece));
        assert!(!allocations.could_have_room(GPU, 8 * MIB, 4096), "it is between the others");
        assert_eq!(reclaimed(&mut allocations, GPU), [Reclaimed::Part; 3]);
        let others = [(); 3].map(|()| allocations.reuse(GPU, 4 * MIB, 4096));
        assert_eq!(others, [Some(pieces[0]), Some(pieces[2]), None]);
        assert_eq!(allocations.unused(GPU), 4 * MIB, "free, though nobody has it");
        [0, 2, 3].iter().for_each(|piece| _ = allocations.quarantine(pieces[*piece]));
        assert_eq!(reclaimed(&mut allocations, GPU).last(), Some(&Reclaimed::Whole(CHUNK)));
        assert_eq!((allocations.unused(GPU), allocations.reached(0, usize::MAX)), (0, None));
    }

    #[test]
    fn a_chunk_of_which_something_was_lent_is_not_kept() {
        let (mut allocations, pieces) = chunk();
        allocations.lend(pieces[0]);
        pieces.iter().for_each(|piece| _ = allocations.quarantine(*piece));
        for number in 1..=LARGE_LIMIT.count {
            allocations.add(number << 40, 2 * MIB, GPU);
            allocations.quarantine(number << 40);
        }
        assert_eq!(give_back(&mut allocations, GPU), [CHUNK]);
    }
}
