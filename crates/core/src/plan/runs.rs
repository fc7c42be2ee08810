//! The runs of a batch as its caller has them, in arrays. They are checked in loops without branches, which
//! compilers turn into vector instructions (see [`ferry_simd`]); where a check of many fails, the first bad
//! one is searched for one by one.

use super::{
    rows::Misfit,
    segments::{Segment, Sizes},
};
use crate::{Kind, Result, table::Lookup};
use ferry_simd::{Loop, best};
use std::{iter::Zip, slice::Iter};

/// How many runs are checked in one go.
pub(crate) const CHUNK: usize = 64;
/// How many runs a [`Chunk`] hands out at a time: a vector register of most CPUs holds as many words.
const LANES: usize = 4;

/// Addresses, lengths and rooms, each in an array of its own, all of one length. A run of which an address is
/// 0 or which does not fit its room is refused.
#[derive(Clone, Copy)]
pub struct Runs<'a> {
    /// Destinations.
    pub dsts: &'a [usize],
    /// Sources.
    pub srcs: &'a [usize],
    /// Bytes.
    pub lens: &'a [usize],
    /// As many bytes may be written to the destinations.
    pub rooms: &'a [usize],
}

/// Runs that were checked and listed.
#[derive(Clone, Copy, Default)]
pub(crate) struct Listed {
    /// How many they are.
    pub(crate) count: usize,
    /// How large they are.
    pub(crate) sizes: Sizes,
}

/// As many runs of a batch as are checked in one go, and the two blocks that they must lie in. What a
/// [`SegmentSink`](crate::SegmentSink) gets to append: it is checked while it is written.
pub struct Chunk<'a> {
    runs: Runs<'a>,
    to: &'a Lookup,
    from: &'a Lookup,
}

impl Chunk<'_> {
    /// How many segments a chunk makes.
    pub const LEN: usize = CHUNK;

    /// What is added, wrapping, to the user's address of a destination and of a source to get the engine's.
    pub fn shifts(&self) -> [usize; 2] {
        [self.to.engine_address(0), self.from.engine_address(0)]
    }

    /// Checks the runs, and hands them to `write` on the way, four at a time and in order: an array each of
    /// destinations, sources and lengths, in the user's addresses. Says how large they are; `None` if not all
    /// of them lie in the two blocks and fit their rooms: then what was written means nothing.
    ///
    /// Always inlined, so that a caller that is compiled for a better CPU has a loop for that.
    #[inline(always)]
    pub fn check(&self, mut write: impl FnMut([&[usize; LANES]; 3])) -> Option<Sizes> {
        let Runs { dsts, srcs, lens, rooms } = self.runs;
        // Copies, so that nothing that `write` writes could change them.
        let (to, from, mut signs) = (*self.to, *self.from, [0_usize; LANES]);
        let ends = lanes(dsts)?.iter().zip(lanes(srcs)?);
        for ((dst, src), (len, room)) in ends.zip(lanes(lens)?.iter().zip(lanes(rooms)?)) {
            for lane in 0..LANES {
                signs[lane] |= to.signs(dst[lane], len[lane])
                    | from.signs(src[lane], len[lane])
                    | beyond(len[lane], room[lane]);
            }
            write([dst, src, len]);
        }
        let is_any_bad = has_sign(signs.into_iter().fold(0, |all, word| all | word));
        let bytes = lens.iter().fold(0, |all, len| len.wrapping_add(all));
        let longest = lens.iter().fold(0, |most, len| (*len as isize).max(most)) as usize;
        (!is_any_bad).then_some(Sizes { bytes, longest })
    }
}

/// The words of a whole chunk, [`LANES`] at a time.
#[inline(always)]
fn lanes(words: &[usize]) -> Option<&[[usize; LANES]; CHUNK / LANES]> {
    words.as_chunks().0.try_into().ok()
}

impl<'a> Runs<'a> {
    /// Refuses the first of which an address is 0 or which does not fit its room.
    pub(crate) fn are_sound(&self) -> Result<(), Misfit> {
        self.first_unsound().map_or(Ok(()), |item| Err(self.refuse(item)))
    }

    #[cold]
    fn refuse(&self, item: usize) -> Misfit {
        let Runs { dsts, srcs, lens, rooms } = self.part(item, 1);
        let note = format!("{lens:?} bytes from {srcs:x?} to {dsts:x?}, where there is room for {rooms:?}");
        Misfit { item, error: Kind::BadShape.because(note) }
    }

    fn first_unsound(&self) -> Option<usize> {
        if best(Soundness(self)) {
            return None;
        }
        let is_unsound = |(((dst, src), len), room): (((&usize, &usize), &usize), &usize)| {
            *dst == 0 || *src == 0 || len > room
        };
        self.iter().zip(self.rooms).position(is_unsound)
    }

    /// All of them as a chunk between two blocks, if they are as many as a chunk has.
    #[inline(always)]
    pub(crate) fn chunk(&self, to: &'a Lookup, from: &'a Lookup) -> Option<Chunk<'a>> {
        (self.lens.len() == CHUNK).then_some(Chunk { runs: *self, to, from })
    }

    /// The first of them as segments between two blocks, as long as they lie in those, and how large they
    /// are.
    pub(crate) fn list(&self, to: &Lookup, from: &Lookup, room: &mut [Segment; CHUNK]) -> Listed {
        let part = self.part(0, CHUNK);
        match best(Listing { runs: &part, to, from, room }) {
            Some(listed) => listed,
            None => {
                let is_good = |(((dst, src), len), room): &(((&usize, &usize), &usize), &usize)| {
                    to.holds_all(**dst, **len) & from.holds_all(**src, **len) & (len <= room)
                };
                let count = part.iter().zip(part.rooms).take_while(is_good).count();
                // All that are left are good, or else there are none.
                let good = Listing { runs: &part.part(0, count), to, from, room };
                best(good).unwrap_or_default()
            }
        }
    }

    /// One of them between two blocks that it lies in.
    #[inline(always)]
    pub(crate) fn segment(&self, index: usize, to: &Lookup, from: &Lookup) -> Segment {
        let [dst, src, len] = [self.dsts[index], self.srcs[index], self.lens[index]];
        Segment { dst: to.engine_address(dst), src: from.engine_address(src), len }
    }

    /// Whether this run begins, at both ends, where the one before it ends.
    #[inline(always)]
    pub(crate) fn continues(&self, index: usize) -> bool {
        let Some(last) = index.checked_sub(1) else { return false };
        let len = self.lens[last];
        self.dsts[index] == self.dsts[last].wrapping_add(len)
            && self.srcs[index] == self.srcs[last].wrapping_add(len)
    }

    /// Those from `first` on, `count` at most.
    #[inline(always)]
    pub(crate) fn part(&self, first: usize, count: usize) -> Runs<'a> {
        let end = self.lens.len().min(first.saturating_add(count));
        let part = |words: &'a [usize]| &words[first..end];
        Runs { dsts: part(self.dsts), srcs: part(self.srcs), lens: part(self.lens), rooms: part(self.rooms) }
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> Zip<Zip<Iter<'a, usize>, Iter<'a, usize>>, Iter<'a, usize>> {
        self.dsts.iter().zip(self.srcs).zip(self.lens)
    }
}

/// Whether no address is 0 and every run fits its room. The check is by sign bits: it may refuse good runs
/// whose addresses or lengths have the highest bit set.
struct Soundness<'a>(&'a Runs<'a>);

impl Loop for Soundness<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let signs = self.0.iter().zip(self.0.rooms).fold(0, |signs, (((dst, src), len), room)| {
            signs | dst.wrapping_sub(1) | src.wrapping_sub(1) | len | beyond(*len, *room)
        });
        !has_sign(signs)
    }
}

/// Lists runs between two blocks. `None` unless all lie there: then no difference at either end has its sign
/// bit set. Vector units have few unsigned comparisons.
struct Listing<'a> {
    runs: &'a Runs<'a>,
    to: &'a Lookup,
    from: &'a Lookup,
    room: &'a mut [Segment; CHUNK],
}

impl Loop for Listing<'_> {
    type Output = Option<Listed>;

    #[inline(always)]
    fn run(self) -> Option<Listed> {
        let Listing { runs, to, from, room } = self;
        match (whole(runs.dsts), whole(runs.srcs), whole(runs.lens), whole(runs.rooms)) {
            // The compiler knows how many there are.
            (Some(dsts), Some(srcs), Some(lens), Some(rooms)) => {
                list(&Runs { dsts, srcs, lens, rooms }, to, from, room)
            }
            _ => list(runs, to, from, room),
        }
    }
}

#[inline(always)]
fn whole(words: &[usize]) -> Option<&[usize; CHUNK]> {
    words.try_into().ok()
}

#[inline(always)]
fn list(runs: &Runs, to: &Lookup, from: &Lookup, listed: &mut [Segment; CHUNK]) -> Option<Listed> {
    let (mut signs, mut bytes, mut longest) = (0, 0_usize, 0);
    for ((((dst, src), len), room), segment) in runs.iter().zip(runs.rooms).zip(listed) {
        signs |= to.signs(*dst, *len) | from.signs(*src, *len) | beyond(*len, *room);
        bytes = bytes.wrapping_add(*len);
        longest = (*len as isize).max(longest);
        *segment = Segment { dst: to.engine_address(*dst), src: from.engine_address(*src), len: *len };
    }
    let sizes = Sizes { bytes, longest: longest as usize };
    (!has_sign(signs)).then_some(Listed { count: runs.lens.len(), sizes })
}

/// For a `len` below 2^63: the sign bit is clear iff `len <= room`.
#[inline(always)]
fn beyond(len: usize, room: usize) -> usize {
    room.wrapping_sub(len) & !room
}

fn has_sign(word: usize) -> bool {
    (word as isize) < 0
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Block, Home, Origin};

    const COUNT: usize = 3 * CHUNK / 2;

    fn part(base: usize, len: usize, at: usize) -> Lookup {
        Lookup::from(&Block { base, len, home: Home::Host, at, page: 4096, origin: Origin::Allocated })
    }

    /// Good runs, of which each goes on where the one before it ended.
    fn runs(to: usize, from: usize) -> [[usize; COUNT]; 4] {
        let place = |start| std::array::from_fn(|index| start + 8 * index);
        [place(to), place(from), [8; COUNT], [usize::MAX; COUNT]]
    }

    /// A listing with room of its own.
    struct Owned<'a>(Runs<'a>, Lookup, Lookup);

    impl Loop for Owned<'_> {
        type Output = (Option<Listed>, [Segment; CHUNK]);

        #[inline(always)]
        fn run(self) -> Self::Output {
            let mut room = [Segment::default(); CHUNK];
            let Owned(runs, to, from) = &self;
            (Listing { runs, to, from, room: &mut room }.run(), room)
        }
    }

    /// What every version of a loop says.
    fn all<L: Loop>(make: impl Fn() -> L) -> [L::Output; 2] {
        [make().run(), best(make())]
    }

    /// What a chunk is written as, if it is.
    fn written(runs: &Runs, to: &Lookup, from: &Lookup) -> Option<(Sizes, Vec<Segment>)> {
        let mut all = Vec::new();
        let chunk = runs.chunk(to, from)?;
        let [to, from] = chunk.shifts();
        let sizes = chunk.check(|[dst, src, len]| {
            let at = |lane: usize| (dst[lane].wrapping_add(to), src[lane].wrapping_add(from), len[lane]);
            all.extend((0..LANES).map(at).map(|(dst, src, len)| Segment { dst, src, len }));
        });
        sizes.map(|sizes| (sizes, all))
    }

    #[test]
    fn the_first_that_leaves_its_block_ends_the_list_wherever_it_is() {
        let (to, from) = (part(0x10_0000, 0x1000, 0x70_0000), part(0x20_0000, 0x1000, 0x20_0000));
        for bad in [0, 1, 7, 8, 61, 62, 63, 64, COUNT] {
            for (which, value) in [
                (0, 0x10_0ff9),
                (0, 0xf_ffff),
                (0, 0),
                (0, usize::MAX),
                (1, 0x20_1000),
                (1, 1 << 63),
                (2, 0),
                (2, usize::MAX),
                (2, 1 << 63),
                (2, 0x1001),
                (3, 7),
            ] {
                let mut words = runs(0x10_0000, 0x20_0000);
                if bad < COUNT {
                    words[which][bad] = value;
                }
                let [dsts, srcs, lens, rooms] = &words;
                let (runs, mut listed) = (Runs { dsts, srcs, lens, rooms }, [Segment::default(); CHUNK]);
                let Listed { count, sizes } = runs.list(&to, &from, &mut listed);
                let chunk = written(&runs.part(0, CHUNK), &to, &from);
                assert_eq!(chunk, (count == CHUNK).then(|| (sizes, listed.to_vec())), "a chunk");
                assert_eq!(count, bad.min(CHUNK), "{value:#x} in {which} of {bad}");
                for (index, segment) in listed[..count].iter().enumerate() {
                    let want = Segment { dst: 0x70_0000 + 8 * index, src: 0x20_0000 + 8 * index, len: 8 };
                    assert_eq!(*segment, want, "{value:#x} in {which} of {bad}");
                }
                let most = if count > 0 { 8 } else { 0 };
                assert_eq!((sizes.bytes, sizes.longest), (8 * count, most));
            }
        }
    }

    #[test]
    fn every_cpu_sees_the_same() {
        let (to, from) = (part(0x1000, 0x1000, 0), part(0x9000, 0x2000, 0x9000));
        for count in 0..=CHUNK {
            for odd in [0, count / 2, count.saturating_sub(1)] {
                let [dsts, mut srcs, mut lens, rooms] = runs(0x1000, 0x9000);
                (0..count).filter(|index| *index != odd).for_each(|index| srcs[index] += 0x800 * (index % 2));
                lens[odd] = 8 + odd % 3;
                let runs = Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &rooms }.part(0, count);
                let want = (runs.lens.iter().sum(), runs.lens.iter().copied().max().unwrap_or(0));
                for (checked, listed) in all(|| Owned(runs, to, from)) {
                    let Sizes { bytes, longest } = checked.expect("all are good").sizes;
                    assert_eq!((bytes, longest), want, "{count} and {odd}");
                    let segments = runs.iter().map(|((dst, src), len)| Segment {
                        dst: dst - 0x1000,
                        src: *src,
                        len: *len,
                    });
                    assert!(segments.eq(listed.into_iter().take(count)), "{count} and {odd}");
                }
            }
        }
    }

    #[test]
    fn the_first_unsound_one_is_found_and_no_other_seems_so() {
        for (which, value, room, sound) in [
            (0, 1, 8, true),
            (0, 0, 8, false),
            (0, usize::MAX, 8, true),
            (1, 0, 8, false),
            (1, 1, usize::MAX, true),
            (2, 0, 0, true),
            (2, 9, 8, false),
            (2, 9, 9, true),
            (2, usize::MAX, usize::MAX, true),
            (2, usize::MAX, usize::MAX - 1, false),
            (2, usize::MAX, 8, false),
            (2, 1 << 63, (1 << 63) - 1, false),
            (2, (1 << 63) - 1, 1 << 63, true),
        ] {
            for at in [0, 5, 63, COUNT - 1] {
                let mut words = runs(0x1000, 0x2000);
                (words[which][at], words[3][at]) = (value, room);
                let [dsts, srcs, lens, rooms] = &words;
                let runs = Runs { dsts, srcs, lens, rooms };
                assert_eq!(runs.first_unsound(), (!sound).then_some(at), "{value:#x} in {which}, {room:#x}");
                assert!(sound || all(|| Soundness(&runs)).iter().all(|seems| !seems));
            }
        }
    }
}
