//! Writes the segments of a plan as a kernel reads them, while the core checks them: with non-temporal
//! stores, since this CPU does not read them again. Chunks that it cannot write this way come as checked
//! segments (`ListSlot::add`).

use ferry_core::{Chunk, Segment, Sizes};
use std::mem::MaybeUninit;

/// Writes the segments of a chunk as they are checked, and says how large they are. `None` if they were not
/// all good, or if this CPU or the alignment of the room is not made for it: then what is in the room means
/// nothing. A [fence](crate::bytes::nontemporal::fence) comes before the GPU is told.
#[inline]
pub fn write_chunk(room: &mut [MaybeUninit<Segment>; Chunk::LEN], chunk: &Chunk<'_>) -> Option<Sizes> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has AVX2.
        return unsafe { avx2::write_chunk(room, chunk) };
    }
    let _ = (room, chunk);
    None
}

/// Four words at a time: fewer write-combining buffers are occupied, and the CPU goes on meanwhile.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use crate::bytes::nontemporal;
    use std::arch::x86_64::*;

    /// Four words.
    type Four = __m256i;

    #[target_feature(enable = "avx2")]
    pub(super) fn write_chunk(
        room: &mut [MaybeUninit<Segment>; Chunk::LEN],
        chunk: &Chunk<'_>,
    ) -> Option<Sizes> {
        let mut place: *mut Four = room.as_mut_ptr().cast();
        if !place.is_aligned() {
            return None;
        }
        let [to, from] = chunk.shifts().map(|shift| _mm256_set1_epi64x(shift as i64));
        // Two fours of an array are a cache line.
        let mut is_new_line = true;
        chunk.check(|[dst, src, len]| {
            if is_new_line {
                [dst, src, len].into_iter().for_each(prefetch);
            }
            is_new_line = !is_new_line;
            let [dst, src] = [_mm256_add_epi64(four(dst), to), _mm256_add_epi64(four(src), from)];
            for words in interleaved(dst, src, four(len)) {
                // SAFETY: four segments are three of these, the room is for all segments of the chunk, and it
                // is aligned.
                unsafe {
                    nontemporal::store(place, words);
                    place = place.add(1);
                }
            }
        })
    }

    /// Four segments, one after the other: three words of each.
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
    fn four(words: &[usize; 4]) -> Four {
        // SAFETY: as many words as are read.
        unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
    }

    /// Has the CPU fetch what comes a page later in an array of the batch, which hardware prefetchers do not:
    /// after other work the arrays are in no cache.
    #[inline(always)]
    fn prefetch(words: &[usize; 4]) {
        const PREFETCH_BYTES: usize = 4096;
        // SAFETY: a hint, whatever is there.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(words.as_ptr().wrapping_byte_add(PREFETCH_BYTES).cast()) };
    }
}
