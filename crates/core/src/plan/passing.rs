//! Lists runs where this CPU does not read them again: past its caches, so that the memory need not be fetched before it is written,
//! nor looked for in a CPU when a GPU reads it. What is asked of the runs is the same as in [`Runs::list`].

use super::{Runs, runs::AT_ONCE};
use crate::{pieces::Line, table::Part};
use std::mem::MaybeUninit;

/// Writes all of them as lines between two blocks, and says how many bytes they have and how many the longest has. `None` if they do
/// not all lie in those, or are not as many as there is room for, or the CPU or the place is not made for it: then what is in the
/// room means nothing.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn list(
    runs: &Runs,
    to: &Part,
    from: &Part,
    room: &mut [MaybeUninit<Line>; AT_ONCE],
) -> Option<(usize, usize)> {
    if !std::arch::is_x86_feature_detected!("avx2") {
        return None;
    }
    let array = super::runs::array;
    let runs = [array(runs.dsts)?, array(runs.srcs)?, array(runs.lens)?, array(runs.rooms)?];
    // SAFETY: the CPU has AVX2.
    unsafe { fours::list(runs, to, from, room) }
}

/// Other CPUs have no such loop yet.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn list(
    _: &Runs,
    _: &Part,
    _: &Part,
    _: &mut [MaybeUninit<Line>; AT_ONCE],
) -> Option<(usize, usize)> {
    None
}

/// Four runs at once, with AVX2.
#[cfg(target_arch = "x86_64")]
mod fours {
    use super::*;
    use std::arch::x86_64::*;

    /// Four words.
    type Four = __m256i;

    #[target_feature(enable = "avx2")]
    pub(super) fn list(
        [dsts, srcs, lens, rooms]: [&[usize; AT_ONCE]; 4],
        to: &Part,
        from: &Part,
        room: &mut [MaybeUninit<Line>; AT_ONCE],
    ) -> Option<(usize, usize)> {
        let place: *mut Four = room.as_mut_ptr().cast();
        if !place.is_aligned() {
            return None;
        }
        let (to, from) = (End::of(to), End::of(from));
        let [mut signs, mut bytes, mut most] = [all(0); 3];
        let arrays = dsts.as_chunks().0.iter().zip(srcs.as_chunks().0).zip(lens.as_chunks().0);
        for (index, (((dst, src), len), most_len)) in arrays.zip(rooms.as_chunks().0).enumerate() {
            if index % 2 == 0 {
                [dst, src, len, most_len].into_iter().for_each(fetch_ahead);
            }
            let [dst, src, len, most_len] = [dst, src, len, most_len].map(|words| four(words));
            let beyond = _mm256_andnot_si256(most_len, _mm256_sub_epi64(most_len, len));
            let ends = _mm256_or_si256(to.signs(dst, len), from.signs(src, len));
            signs = _mm256_or_si256(_mm256_or_si256(signs, ends), _mm256_or_si256(beyond, less_one(len)));
            bytes = _mm256_add_epi64(bytes, len);
            most = _mm256_blendv_epi8(most, len, _mm256_cmpgt_epi64(len, most));
            let lines = interleaved(to.engine(dst), from.engine(src), len);
            for (part, words) in lines.into_iter().enumerate() {
                // SAFETY: four lines are three of these, and the room is for sixteen times as many and is aligned. The plan
                // settles the sheet before anybody reads it.
                unsafe { _mm256_stream_si256(place.add(3 * index + part), words) };
            }
        }
        let is_any_bad = _mm256_movemask_pd(_mm256_castsi256_pd(signs)) != 0;
        let most = words(most).into_iter().max();
        let bytes = words(bytes).into_iter().fold(0, usize::wrapping_add);
        (!is_any_bad).then_some((bytes, most.unwrap_or(0)))
    }

    /// A block that runs begin or end in.
    struct End {
        base: Four,
        len: Four,
        shift: Four,
    }

    impl End {
        #[target_feature(enable = "avx2")]
        #[inline]
        fn of(part: &Part) -> End {
            let [base, len, shift] = part.words();
            End { base: all(base), len: all(len), shift: all(shift) }
        }

        /// As `Part::signs`, but for the sign of a run without bytes.
        #[target_feature(enable = "avx2")]
        #[inline]
        fn signs(&self, addr: Four, len: Four) -> Four {
            let (offset, most) = (_mm256_sub_epi64(addr, self.base), _mm256_sub_epi64(self.len, len));
            _mm256_or_si256(_mm256_or_si256(offset, most), _mm256_sub_epi64(most, offset))
        }

        #[target_feature(enable = "avx2")]
        #[inline]
        fn engine(&self, addr: Four) -> Four {
            _mm256_add_epi64(addr, self.shift)
        }
    }

    /// Four lines, a word of each after the other.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn interleaved(dst: Four, src: Four, len: Four) -> [Four; 3] {
        let even = _mm256_unpacklo_epi64(dst, src);
        let between = _mm256_blend_epi32::<0b1100_1100>(len, dst);
        let odd = _mm256_unpackhi_epi64(src, len);
        [
            _mm256_permute2x128_si256::<0x20>(even, between),
            _mm256_blend_epi32::<0b1111_0000>(odd, even),
            _mm256_permute2x128_si256::<0x31>(between, odd),
        ]
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn all(word: usize) -> Four {
        _mm256_set1_epi64x(word as i64)
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn less_one(words: Four) -> Four {
        _mm256_sub_epi64(words, all(1))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn four(words: &[usize; 4]) -> Four {
        // SAFETY: as many words as are read.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    /// Has the CPU fetch what comes a page later, which it does not do by itself: after other work none of the arrays is in its caches.
    #[inline(always)]
    fn fetch_ahead(words: &[usize; 4]) {
        const PAGE: usize = 4096;
        // SAFETY: a hint, whatever is there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_byte_add(PAGE).cast()) };
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn words(four: Four) -> [usize; 4] {
        let mut words = [0; 4];
        // SAFETY: as many words as are written.
        unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), four) };
        words
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Block, Home, Origin, plan::runs::Seen};

    fn part(base: usize, len: usize, at: usize) -> Part {
        Part::from(&Block { base, len, home: Home::Host, at, page: 4096, origin: Origin::Allocated })
    }

    /// Room that starts so many lines behind a place that is aligned.
    #[repr(align(64))]
    struct Room([MaybeUninit<Line>; AT_ONCE + 4]);

    impl Room {
        fn new() -> Room {
            Room([MaybeUninit::new(Line::default()); AT_ONCE + 4])
        }

        fn from(&mut self, first: usize) -> &mut [MaybeUninit<Line>; AT_ONCE] {
            self.0[first..].first_chunk_mut().expect("room for some more")
        }
    }

    /// Runs of lengths that differ, some behind each other and some not.
    fn runs() -> [[usize; AT_ONCE]; 4] {
        let place = |start, step| std::array::from_fn(|index| start + step * (index ^ 5));
        [
            place(0x10_0000, 40),
            place(0x20_0000, 32),
            std::array::from_fn(|index| 1 + index % 32),
            [64; AT_ONCE],
        ]
    }

    fn blocks() -> (Part, Part) {
        (part(0x10_0000, 0x1000, 0x70_0000), part(0x20_0000, 0x1000, 0x20_0000))
    }

    /// Whether the loop for this CPU says the same as the one for every CPU.
    fn agrees(words: &[[usize; AT_ONCE]; 4]) -> bool {
        let ([dsts, srcs, lens, rooms], (to, from)) = (words, blocks());
        let (runs, mut listed, mut room) =
            (Runs { dsts, srcs, lens, rooms }, [Line::default(); AT_ONCE], Room::new());
        let Seen { count, bytes, most } = runs.list(&to, &from, &mut listed);
        match list(&runs, &to, &from, room.from(0)) {
            Some(sizes) => {
                // SAFETY: it was made of lines.
                let same =
                    |(line, place): (&Line, &MaybeUninit<Line>)| *line == unsafe { place.assume_init() };
                count == AT_ONCE && sizes == (bytes, most) && listed.iter().zip(room.from(0).iter()).all(same)
            }
            None => count < AT_ONCE,
        }
    }

    fn has_loop() -> bool {
        #[cfg(target_arch = "x86_64")]
        return std::arch::is_x86_feature_detected!("avx2");
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    #[test]
    fn good_runs_are_written_as_lines_and_one_bad_one_is_noticed_wherever_it_is() {
        if !has_loop() {
            return;
        }
        assert!(agrees(&runs()), "all good");
        for bad in 0..AT_ONCE {
            for (which, value) in [
                (0, 0x10_0fff),
                (0, 0xf_ffff),
                (0, 0),
                (0, usize::MAX),
                (1, 0x20_1000),
                (1, 1 << 63),
                (2, 0),
                (2, usize::MAX),
                (2, 1 << 63),
                (2, 0x1001),
                (3, 0),
                (3, usize::MAX),
            ] {
                let mut words = runs();
                words[which][bad] = value;
                assert!(agrees(&words), "{value:#x} in {which} of {bad}");
            }
        }
    }

    #[test]
    fn too_few_runs_and_places_in_between_are_left_to_others() {
        let ([dsts, srcs, lens, rooms], (to, from), mut room) = (runs(), blocks(), Room::new());
        let runs = Runs { dsts: &dsts, srcs: &srcs, lens: &lens, rooms: &rooms };
        for first in 0..4 {
            let is_listed = list(&runs, &to, &from, room.from(first)).is_some();
            assert_eq!(is_listed, has_loop() && first == 0, "{first} lines behind");
        }
        assert_eq!(list(&runs.part(1, AT_ONCE), &to, &from, room.from(0)), None);
    }
}
