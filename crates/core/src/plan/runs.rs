//! The runs of a batch as its caller has them. What is asked of all of them at once is asked without a branch for each, in
//! loops that compilers turn into instructions for several at a time: CPUs with AVX2 have loops of their own. Wider instructions
//! gained nothing on one Xeon and took twice the time on another.

use super::Misfit;
use crate::{Kind, Result, pieces::Line, table::Part};
use std::{iter::Zip, slice::Iter};

/// How many runs are looked at in one go; among those that are not all good the first is looked for one by one.
pub(super) const AT_ONCE: usize = 64;

/// Addresses, lengths and rooms, each in an array of its own, all of one length. A run of which an address is 0 or which does not
/// fit its room is refused.
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

/// Room for the lines of some runs.
pub(super) type Listed = [Line; AT_ONCE];

/// What is known of some runs at once.
#[derive(Clone, Copy, Default)]
pub(super) struct Seen {
    /// How many these are.
    pub(super) count: usize,
    /// Bytes of all of them.
    pub(super) bytes: usize,
    /// Bytes of the longest.
    pub(super) most: usize,
}

impl<'a> Runs<'a> {
    /// Refuses the first of which an address is 0 or which does not fit its room.
    pub(super) fn are_sound(&self) -> Result<(), Misfit> {
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

    /// The first of them as lines between two blocks, as long as they lie in those, and what is known of these.
    pub(super) fn list(&self, to: &Part, from: &Part, listed: &mut Listed) -> Seen {
        let part = self.part(0, AT_ONCE);
        match best(Listing { runs: &part, to, from, listed }) {
            Some(seen) => seen,
            None => {
                let is_good = |(((dst, src), len), room): &(((&usize, &usize), &usize), &usize)| {
                    to.holds_all(**dst, **len) & from.holds_all(**src, **len) & (len <= room)
                };
                let count = part.iter().zip(part.rooms).take_while(is_good).count();
                // All that are left are good, or else there are none.
                let good = Listing { runs: &part.part(0, count), to, from, listed };
                best(good).unwrap_or_default()
            }
        }
    }

    /// One of them between two blocks that it lies in.
    #[inline(always)]
    pub(super) fn line(&self, index: usize, to: &Part, from: &Part) -> Line {
        let [dst, src, len] = [self.dsts[index], self.srcs[index], self.lens[index]];
        Line { dst: to.engine_address(dst), src: from.engine_address(src), len }
    }

    /// Those from `first` on, `count` at most.
    #[inline(always)]
    pub(super) fn part(&self, first: usize, count: usize) -> Runs<'a> {
        let end = self.lens.len().min(first.saturating_add(count));
        let part = |words: &'a [usize]| &words[first..end];
        Runs { dsts: part(self.dsts), srcs: part(self.srcs), lens: part(self.lens), rooms: part(self.rooms) }
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> Zip<Zip<Iter<'a, usize>, Iter<'a, usize>>, Iter<'a, usize>> {
        self.dsts.iter().zip(self.srcs).zip(self.lens)
    }
}

/// A loop over runs. It is always inlined, so that it becomes instructions of the CPU that it is built for.
trait Look {
    type Seen;
    fn look(self) -> Self::Seen;
}

/// What it sees, built for the best CPU that this is.
#[inline(always)]
fn best<L: Look>(runs: L) -> L::Seen {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { with_avx2(runs) };
    }
    runs.look()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<L: Look>(runs: L) -> L::Seen {
    runs.look()
}

/// Whether no address is 0 and every run fits its room, as far as can be told by signs: if not, it may be so all the same.
struct Soundness<'a>(&'a Runs<'a>);

impl Look for Soundness<'_> {
    type Seen = bool;

    #[inline(always)]
    fn look(self) -> bool {
        let signs = self.0.iter().zip(self.0.rooms).fold(0, |signs, (((dst, src), len), room)| {
            signs | dst.wrapping_sub(1) | src.wrapping_sub(1) | len | beyond(*len, *room)
        });
        !has_sign(signs)
    }
}

/// Lists runs between two blocks. `None` unless all lie there: then no difference at either end has a sign. To compare words without
/// signs would take AVX2 longer.
struct Listing<'a> {
    runs: &'a Runs<'a>,
    to: &'a Part,
    from: &'a Part,
    listed: &'a mut Listed,
}

impl Look for Listing<'_> {
    type Seen = Option<Seen>;

    #[inline(always)]
    fn look(self) -> Option<Seen> {
        let Listing { runs, to, from, listed } = self;
        match (array(runs.dsts), array(runs.srcs), array(runs.lens), array(runs.rooms)) {
            // The compiler knows how many there are.
            (Some(dsts), Some(srcs), Some(lens), Some(rooms)) => {
                list(&Runs { dsts, srcs, lens, rooms }, to, from, listed)
            }
            _ => list(runs, to, from, listed),
        }
    }
}

#[inline(always)]
pub(super) fn array(words: &[usize]) -> Option<&[usize; AT_ONCE]> {
    words.try_into().ok()
}

#[inline(always)]
fn list(runs: &Runs, to: &Part, from: &Part, listed: &mut Listed) -> Option<Seen> {
    let (mut signs, mut bytes, mut most) = (0, 0_usize, 0);
    for ((((dst, src), len), room), line) in runs.iter().zip(runs.rooms).zip(listed) {
        signs |= to.signs(*dst, *len) | from.signs(*src, *len) | beyond(*len, *room);
        bytes = bytes.wrapping_add(*len);
        most = (*len as isize).max(most);
        *line = Line { dst: to.engine_address(*dst), src: from.engine_address(*src), len: *len };
    }
    (!has_sign(signs)).then_some(Seen { count: runs.lens.len(), bytes, most: most as usize })
}

/// A word without a sign if a length without one fits the room. A room with one is larger than any.
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

    const COUNT: usize = 3 * AT_ONCE / 2;

    fn part(base: usize, len: usize, at: usize) -> Part {
        Part::from(&Block { base, len, home: Home::Host, at, page: 4096, origin: Origin::Allocated })
    }

    /// Good runs, of which each goes on where the one before it ended.
    fn runs(to: usize, from: usize) -> [[usize; COUNT]; 4] {
        let place = |start| std::array::from_fn(|index| start + 8 * index);
        [place(to), place(from), [8; COUNT], [usize::MAX; COUNT]]
    }

    /// A listing with room of its own.
    struct Owned<'a>(Runs<'a>, Part, Part);

    impl Look for Owned<'_> {
        type Seen = (Option<Seen>, Listed);

        #[inline(always)]
        fn look(self) -> Self::Seen {
            let mut listed = [Line::default(); AT_ONCE];
            let Owned(runs, to, from) = &self;
            (Listing { runs, to, from, listed: &mut listed }.look(), listed)
        }
    }

    /// What every build of a loop says, that for this CPU last.
    fn all<L: Look>(make: impl Fn() -> L) -> Vec<L::Seen> {
        let mut seen = vec![make().look()];
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has AVX2.
            seen.push(unsafe { with_avx2(make()) });
        }
        seen.push(best(make()));
        seen
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
                let mut listed = [Line::default(); AT_ONCE];
                let seen = Runs { dsts, srcs, lens, rooms }.list(&to, &from, &mut listed);
                let count = seen.count;
                assert_eq!(count, bad.min(AT_ONCE), "{value:#x} in {which} of {bad}");
                for (index, line) in listed[..count].iter().enumerate() {
                    let want = Line { dst: 0x70_0000 + 8 * index, src: 0x20_0000 + 8 * index, len: 8 };
                    assert_eq!(*line, want, "{value:#x} in {which} of {bad}");
                }
                let most = if count > 0 { 8 } else { 0 };
                assert_eq!((seen.bytes, seen.most), (8 * count, most));
            }
        }
    }

    #[test]
    fn every_cpu_sees_the_same() {
        let (to, from) = (part(0x1000, 0x1000, 0), part(0x9000, 0x2000, 0x9000));
        for count in 0..=AT_ONCE {
            for odd in [0, count / 2, count.saturating_sub(1)] {
                let [dsts, mut srcs, mut lens, rooms] = runs(0x1000, 0x9000);
                (0..count).filter(|index| *index != odd).for_each(|index| srcs[index] += 0x800 * (index % 2));
                lens[odd] = 8 + odd % 3;
                let runs = Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &rooms }.part(0, count);
                let want = (runs.lens.iter().sum(), runs.lens.iter().copied().max().unwrap_or(0));
                for (seen, listed) in all(|| Owned(runs, to, from)) {
                    let seen = seen.expect("all are good");
                    assert_eq!((seen.bytes, seen.most), want, "{count} and {odd}");
                    let lines =
                        runs.iter().map(|((dst, src), len)| Line { dst: dst - 0x1000, src: *src, len: *len });
                    assert!(lines.eq(listed.into_iter().take(count)), "{count} and {odd}");
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
