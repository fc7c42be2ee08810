//! Chunks: allocations of the driver that several blocks of device memory are carved out of.
//!
//! The driver takes some 50 us to make device memory, however little, and as long to take it back, for which
//! it waits for all that the GPU has to do. So blocks up to [`MAX_PIECE`] are pieces of chunks. A chunk can
//! go back only as a whole: what is idle in it beside a piece in use is lost to everybody else. So a chunk
//! has no more than [`MAX_PIECES`] of the pieces that it is made for, and no more than a part of what the
//! program has anyway ([`slack`]).
//!
//! A piece is in use, then in quarantine, and then idle and part of one range with its idle neighbours; or it
//! is withheld, until its chunk goes back.

use std::collections::{BTreeMap, BTreeSet};

/// The largest piece. Larger blocks are allocations of their own: to make one takes the driver little longer
/// than to make the least.
pub const MAX_PIECE: usize = 32 << 20;
/// How many pieces a chunk is made for, at most.
const MAX_PIECES: usize = 16;
/// The driver makes device memory of pages of this size. Bytes of the smallest chunk.
const PAGE: usize = 2 << 20;
/// How much may be idle though a program has next to nothing.
const MIN_SLACK: usize = 32 << 20;
/// How much may be idle, whatever the program has.
const MAX_SLACK: usize = 256 << 20;

/// How much may be idle where a program uses so many bytes.
pub fn slack(used: usize) -> usize {
    (used / 4).clamp(MIN_SLACK, MAX_SLACK)
}

/// The length of a chunk for pieces like one of `len` bytes, where the program uses `used` bytes and a chunk
/// may have `most`. `None` if such a piece is better an allocation of its own.
pub fn chunk_len(len: usize, used: usize, most: usize) -> Option<usize> {
    let most = most / PAGE * PAGE;
    let wanted = slack(used).min(len.saturating_mul(MAX_PIECES)).max(PAGE).min(most);
    let pieces = wanted / len;
    let whole_pages = (pieces * len).next_multiple_of(PAGE);
    (len <= MAX_PIECE && pieces > 1).then(|| whole_pages.min(most))
}

/// The chunks for some pieces of one home.
#[derive(Default)]
pub struct Chunks {
    by_start: BTreeMap<usize, DeviceChunk>,
    /// Idle ranges, by length and start.
    idle: BTreeSet<(usize, usize)>,
    /// Chunks without pieces, the longest so first.
    empty: BTreeMap<u64, usize>,
    /// How often a chunk was emptied.
    count: u64,
    /// Bytes that are idle or withheld.
    bytes: usize,
    /// Bytes of the chunks without pieces.
    empty_bytes: usize,
}

struct DeviceChunk {
    len: usize,
    /// Idle ranges: starts and lengths. No two meet.
    idle: BTreeMap<usize, usize>,
    /// Bytes of pieces in use.
    used: usize,
    /// Bytes that are idle or withheld.
    unused: usize,
    /// Bytes that are withheld.
    withheld: usize,
    /// Since when it has no pieces: a key of `empty`.
    empty_since: Option<u64>,
}

impl DeviceChunk {
    /// The end of the idle range before `start`, if there is one, and the start of the one behind `end`:
    /// where a range there begins and ends with its idle neighbours.
    fn joined(&self, start: usize, end: usize) -> (usize, usize) {
        let before = self.idle.range(..start).next_back().filter(|(at, len)| *at + *len == start);
        let behind = self.idle.get(&end).copied().unwrap_or(0);
        (before.map_or(start, |(at, _)| *at), end + behind)
    }
}

impl Chunks {
    /// The driver has made this chunk.
    pub fn add(&mut self, start: usize, len: usize) {
        let chunk = DeviceChunk {
            len,
            idle: BTreeMap::from([(start, len)]),
            used: 0,
            unused: len,
            withheld: 0,
            empty_since: None,
        };
        self.by_start.insert(start, chunk);
        self.idle.insert((len, start));
        self.bytes += len;
        self.count_empty(start);
    }

    /// A piece of `len` bytes at a multiple of `align`, out of the smallest idle range that has room for it:
    /// where it starts.
    pub fn take(&mut self, len: usize, align: usize) -> Option<usize> {
        let (room, from) = self.fitting(len, align)?;
        let start = from.next_multiple_of(align);
        let (in_chunk, chunk) = self.by_start.range_mut(..=from).next_back().expect("it has the range");
        chunk.idle.remove(&from);
        self.idle.remove(&(room, from));
        for (at, end) in [(from, start), (start + len, from + room)].into_iter().filter(|(at, end)| at < end)
        {
            chunk.idle.insert(at, end - at);
            self.idle.insert((end - at, at));
        }
        chunk.used += len;
        chunk.unused -= len;
        self.bytes -= len;
        let in_chunk = *in_chunk;
        self.count_empty(in_chunk);
        Some(start)
    }

    /// Whether [`take`](Self::take) would find a piece.
    pub fn has_room(&self, len: usize, align: usize) -> bool {
        self.fitting(len, align).is_some()
    }

    /// The length and the start of the smallest idle range with room for a piece.
    fn fitting(&self, len: usize, align: usize) -> Option<(usize, usize)> {
        let fits = |(room, from): &&(usize, usize)| from.next_multiple_of(align) - from <= room - len;
        self.idle.range((len, 0)..).find(fits).copied()
    }

    /// A piece is in use no more, and may be afterwards what it likes.
    pub fn release(&mut self, start: usize, len: usize) {
        if let Some((_, chunk)) = self.chunk_of(start) {
            chunk.used -= len;
        }
    }

    /// A piece that was [released](Self::release) is idle from here on.
    pub fn put(&mut self, start: usize, len: usize) {
        let Some((in_chunk, chunk)) = self.chunk_of(start) else { return };
        let (from, end) = chunk.joined(start, start + len);
        let neighbours = [(from, start), (start + len, end)].into_iter().filter(|(at, end)| at < end);
        let gone: Vec<_> = neighbours.map(|(at, end)| (end - at, at)).collect();
        gone.iter().for_each(|(_, at)| _ = chunk.idle.remove(at));
        chunk.idle.insert(from, end - from);
        chunk.unused += len;
        gone.iter().for_each(|range| _ = self.idle.remove(range));
        self.idle.insert((end - from, from));
        self.bytes += len;
        self.count_empty(in_chunk);
    }

    /// A piece that was [released](Self::release) is no part of another one again.
    pub fn withhold(&mut self, start: usize, len: usize) {
        let Some((in_chunk, chunk)) = self.chunk_of(start) else { return };
        chunk.withheld += len;
        chunk.unused += len;
        self.bytes += len;
        self.count_empty(in_chunk);
    }

    /// The start and the length of the chunk around `addr`.
    pub fn around(&self, addr: usize) -> Option<(usize, usize)> {
        let (start, chunk) = self.by_start.range(..=addr).next_back()?;
        (addr - start < chunk.len).then_some((*start, chunk.len))
    }

    /// Whether any of the range is in a chunk.
    pub fn meets(&self, addr: usize, len: usize) -> bool {
        self.around(addr).is_some() || self.by_start.range(addr..addr.saturating_add(len)).next().is_some()
    }

    /// Bytes that are idle or withheld.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the chunks without pieces.
    pub fn empty_bytes(&self) -> usize {
        self.empty_bytes
    }

    /// Starts and lengths of the chunks, and how many bytes of each are in use.
    pub fn all(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.by_start.iter().map(|(start, chunk)| (*start, chunk.len, chunk.used))
    }

    /// The chunk that has had no pieces for longest, if all such chunks together have more than `kept` bytes;
    /// and before it any of them with something that is withheld.
    pub fn surplus(&self, kept: usize) -> Option<usize> {
        let withholds = |start: &&usize| self.by_start[*start].withheld > 0;
        let oldest = || self.empty.values().next().filter(|_| self.empty_bytes > kept);
        self.empty.values().find(withholds).or_else(oldest).copied()
    }

    /// The chunk at `start`, without pieces, was given back: how many bytes that were, if there was one.
    pub fn forget(&mut self, start: usize) -> Option<usize> {
        let since = self.by_start.get(&start)?.empty_since?;
        let chunk = self.by_start.remove(&start)?;
        chunk.idle.iter().for_each(|(at, len)| _ = self.idle.remove(&(*len, *at)));
        self.empty.remove(&since);
        self.empty_bytes -= chunk.len;
        self.bytes -= chunk.len;
        Some(chunk.len)
    }

    /// Counts a chunk as one without pieces, or no more as one.
    fn count_empty(&mut self, start: usize) {
        let Some(chunk) = self.by_start.get_mut(&start) else { return };
        match (chunk.unused == chunk.len, chunk.empty_since) {
            (true, None) => {
                self.count += 1;
                chunk.empty_since = Some(self.count);
                self.empty.insert(self.count, start);
                self.empty_bytes += chunk.len;
            }
            (false, Some(since)) => {
                chunk.empty_since = None;
                self.empty.remove(&since);
                self.empty_bytes -= chunk.len;
            }
            _ => {}
        }
    }

    fn chunk_of(&mut self, addr: usize) -> Option<(usize, &mut DeviceChunk)> {
        let (start, chunk) = self.by_start.range_mut(..=addr).next_back()?;
        (addr - start < chunk.len).then_some((*start, chunk))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_chunk_is_for_some_pieces_and_no_more_than_a_part_of_what_is_used() {
        for (len, used, most, want) in [
            (4096, 0, usize::MAX, Some(2 * MIB)),
            (64 << 10, 0, usize::MAX, Some(2 * MIB)),
            (256 << 10, 0, usize::MAX, Some(4 * MIB)),
            (6 * MIB, 6 * MIB, usize::MAX, Some(30 * MIB)),
            (6 * MIB, 200 * MIB, usize::MAX, Some(48 * MIB)),
            (6 * MIB, 1 << 40, usize::MAX, Some(96 * MIB)),
            (MIB + 4096, 0, usize::MAX, Some(18 * MIB)),
            (18 * MIB, 0, usize::MAX, None),
            (18 * MIB, 1 << 40, usize::MAX, Some(252 * MIB)),
            (MAX_PIECE, 1 << 40, usize::MAX, Some(256 * MIB)),
            (MAX_PIECE + 4096, 1 << 40, usize::MAX, None),
            (usize::MAX, 1 << 40, usize::MAX, None),
            (4096, 0, 2 * MIB - 1, None),
            (MIB + 4096, 0, 4 * MIB + 9, Some(4 * MIB)),
            (6 * MIB, 0, 11 * MIB, None),
        ] {
            assert_eq!(chunk_len(len, used, most), want, "{len} bytes where {used} are used, {most} at most");
        }
    }

    /// A chunk of 16 pieces' room at 0x1_0000, in pieces of these lengths.
    fn carved(lens: &[usize]) -> (Chunks, Vec<usize>) {
        let mut chunks = Chunks::default();
        chunks.add(0x1_0000, 0x1_0000);
        let starts = lens.iter().map(|len| chunks.take(*len, 0x1000).expect("room")).collect();
        (chunks, starts)
    }

    fn free(chunks: &mut Chunks, start: usize, len: usize) {
        chunks.release(start, len);
        chunks.put(start, len);
    }

    #[test]
    fn idle_neighbours_become_one_range() {
        let lens = [0x4000, 0x4000, 0x4000, 0x4000];
        for order in [[0, 1, 2, 3], [0, 2, 1, 3], [3, 2, 1, 0], [1, 3, 0, 2]] {
            let (mut chunks, starts) = carved(&lens);
            assert_eq!((chunks.bytes(), chunks.take(1, 1)), (0, None), "all is in use");
            order.iter().for_each(|piece| free(&mut chunks, starts[*piece], lens[*piece]));
            assert_eq!((chunks.bytes(), chunks.empty_bytes()), (0x1_0000, 0x1_0000), "{order:?}");
            assert_eq!(chunks.take(0x1_0000, 0x1000), Some(0x1_0000), "{order:?}");
            assert_eq!((chunks.bytes(), chunks.empty_bytes()), (0, 0), "{order:?}");
        }
    }

    #[test]
    fn the_smallest_range_with_room_is_carved_and_the_rest_stays() {
        let (mut chunks, starts) = carved(&[0x3000, 0x1000, 0x2000, 0x1000]);
        free(&mut chunks, starts[0], 0x3000);
        free(&mut chunks, starts[2], 0x2000);
        assert_eq!(chunks.take(0x1000, 0x1000), Some(starts[2]));
        assert_eq!(chunks.take(0x1000, 0x1000), Some(starts[2] + 0x1000), "what was left of it");
        assert_eq!(chunks.take(0x1000, 0x2000), Some(starts[0]), "aligned");
        assert_eq!(chunks.take(0x1000, 0x2000), Some(0x1_2000), "in the middle of what is left");
        assert_eq!(chunks.take(0x2000, 0x1000), Some(starts[3] + 0x1000), "where there is more");
        assert!(chunks.has_room(0x1000, 0x1000) && !chunks.has_room(0x1_0000, 0x1000));
        assert!(!chunks.has_room(usize::MAX, 0x1000));
    }

    #[test]
    fn chunks_without_pieces_are_given_back_the_longest_so_first() {
        let mut chunks = Chunks::default();
        [0x1_0000, 0x5_0000, 0x9_0000].iter().for_each(|start| chunks.add(*start, 0x1_0000));
        let taken: Vec<_> = (0..3).filter_map(|_| chunks.take(0x1_0000, 0x1000)).collect();
        assert_eq!((taken.len(), chunks.surplus(0)), (3, None));
        for start in [0x5_0000, 0x9_0000, 0x1_0000] {
            free(&mut chunks, start, 0x1_0000);
        }
        assert_eq!((chunks.surplus(0x3_0000), chunks.surplus(0x2_ffff)), (None, Some(0x5_0000)));
        assert_eq!((chunks.forget(0x5_0000), chunks.forget(0x5_0000)), (Some(0x1_0000), None));
        assert_eq!(chunks.take(0x1000, 0x1000), Some(0x1_0000));
        assert_eq!((chunks.forget(0x1_0000), chunks.surplus(0)), (None, Some(0x9_0000)), "one is in use");
        assert_eq!((chunks.bytes(), chunks.empty_bytes()), (0x1_f000, 0x1_0000));
        assert_eq!((chunks.forget(0x9_0000), chunks.surplus(0)), (Some(0x1_0000), None));
        assert!(
            chunks.meets(0x1_ffff, 1) && chunks.meets(0, 0x1_0001) && !chunks.meets(0x2_0000, 0xffff_ffff)
        );
    }

    #[test]
    fn what_is_withheld_stays_away_and_its_chunk_goes_first() {
        let (mut chunks, starts) = carved(&[0x8000, 0x8000]);
        chunks.add(0x9_0000, 0x1_0000);
        chunks.release(starts[0], 0x8000);
        assert_eq!(chunks.surplus(0), Some(0x9_0000), "the other chunk");
        chunks.withhold(starts[0], 0x8000);
        free(&mut chunks, starts[1], 0x8000);
        assert_eq!(chunks.bytes(), 0x2_0000);
        assert_eq!(chunks.take(0x9000, 0x1000), Some(0x9_0000), "the two halves are no range");
        assert_eq!(chunks.surplus(usize::MAX), Some(0x1_0000));
        assert_eq!((chunks.forget(0x1_0000), chunks.bytes()), (Some(0x1_0000), 0x7000));
        assert!(!chunks.has_room(0x8000, 0x1000), "what was idle there is gone with it");
    }
}
