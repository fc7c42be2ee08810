//! Non-temporal stores: they go past the caches, straight to memory.
//!
//! They are for bytes that this CPU does not read again soon: large copies, and lists that a GPU reads. The
//! destination need not be fetched into a cache before it is written, what is in the caches stays there,
//! and a device that reads the memory finds no CPU's cache line to ask for. They are weakly ordered:
//! neither an atomic with release nor unlocking a mutex orders them, only [`fence`] does. Code that makes
//! such stores ends with it.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ptr;

/// Orders the non-temporal stores of this thread before whatever it stores next, as seen by other threads and
/// devices.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 CPU has it.
    unsafe {
        _mm_sfence()
    };
}

/// Stores 32 bytes.
///
/// # Safety
/// `to` is aligned and may be written, and the CPU has AVX.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
pub unsafe fn store(to: *mut __m256i, bytes: __m256i) {
    // SAFETY: the caller's promise.
    unsafe { _mm256_stream_si256(to, bytes) }
}

/// Stores a cache line.
///
/// # Safety
/// `to` is the start of a cache line that may be written, and the CPU has AVX.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
pub unsafe fn store_line(to: *mut u8, (low, high): (__m256i, __m256i)) {
    // SAFETY: the caller's promise: 64 bytes, aligned.
    unsafe {
        store(to.cast(), low);
        store(to.add(32).cast(), high);
    }
}

/// Copies words, past the caches where the CPU has AVX. [`fence`] is left to the caller, who may have more to
/// write.
///
/// # Safety
/// There is room for the words at `to`, at their alignment.
pub unsafe fn copy_words(to: *mut u64, words: &[u64]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the CPU has AVX, and the caller's promise.
        return unsafe { copy_fours(to, words) };
    }
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(words.as_ptr(), to, words.len()) };
}

/// Four words at once, where they are aligned: they take fewer of the CPU's write-combining buffers, so that
/// it goes on meanwhile.
///
/// # Safety
/// There is room for the words.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn copy_fours(to: *mut u64, words: &[u64]) {
    const FOUR: usize = 4 * size_of::<u64>();
    let head = ((to as usize).next_multiple_of(FOUR) - to as usize) / size_of::<u64>();
    let (head, others) = words.split_at(head.min(words.len()));
    let (fours, tail) = others.as_chunks::<4>();
    let one = |(at, word): (usize, &u64)| {
        // SAFETY: in the room.
        unsafe { _mm_stream_si64(to.add(at).cast(), *word as i64) }
    };
    head.iter().enumerate().for_each(one);
    for (index, four) in fours.iter().enumerate() {
        // SAFETY: in the room, and aligned.
        unsafe {
            let place = to.add(head.len() + 4 * index).cast();
            store(place, _mm256_loadu_si256(four.as_ptr().cast()));
        }
    }
    (words.len() - tail.len()..).zip(tail).for_each(one);
}
