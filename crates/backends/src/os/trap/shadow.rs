//! What memory in flight should hold: a private copy of its bytes, which they are compared with later. It
//! needs no privileges, and says that bytes have changed, not who changed them.

use crate::os::fault::guarded;
use std::{ffi::c_void, ops::Range, ptr};

/// Bytes that are compared at a time: a loop that may be left stays short.
const CHUNK: usize = 4096;

/// A copy of some of the bytes of a block. Only the pages that were copied take memory.
pub struct Shadow {
    copy: *mut u8,
    block: Range<usize>,
}

// SAFETY: the copy is memory of this value's alone; it is written through `&mut`.
unsafe impl Send for Shadow {}

impl Shadow {
    /// One for the block of these addresses, without any bytes yet; `None` without addresses for it.
    pub fn new(block: Range<usize>) -> Option<Shadow> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the system's choice.
        let copy = unsafe { libc::mmap(ptr::null_mut(), block.len().max(1), access, flags, -1, 0) };
        if copy == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping was just made; a child of a fork has no use for it.
        unsafe { libc::madvise(copy, block.len().max(1), libc::MADV_DONTFORK) };
        Some(Shadow { copy: copy.cast(), block })
    }

    /// Copies these bytes as they are now; false if some are not there any more.
    pub fn keep(&mut self, bytes: &Range<usize>) -> bool {
        self.chunks(bytes).all(|(at, copy, len)| {
            // SAFETY: a plain copy, into the shadow; if the block is gone it ends.
            let kept = unsafe {
                guarded(
                    |fault| covers(at, len, fault),
                    || {
                        ptr::copy_nonoverlapping(at as *const u8, copy, len);
                    },
                )
            };
            kept.is_ok()
        })
    }

    /// The first bytes in a row that are not as they were kept; nothing if some are not there any more.
    pub fn first_change(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        let mut found: Option<Range<usize>> = None;
        for (at, copy, len) in self.chunks(bytes) {
            // SAFETY: reads the shadow and the block; if that is gone it ends.
            let change = unsafe { guarded(|fault| covers(at, len, fault), || change_in(at, copy, len)) };
            match (change, &mut found) {
                (Err(_), _) => return None,
                (Ok(Some((0, end))), Some(found)) => found.end = at + end,
                (Ok(_), Some(_)) => break,
                (Ok(change), None) => found = change.map(|(start, end)| at + start..at + end),
            }
            if found.as_ref().is_some_and(|found| found.end < at + len) {
                break;
            }
        }
        found
    }

    /// Address, place in the copy and length of each part of a range.
    fn chunks(&self, bytes: &Range<usize>) -> impl Iterator<Item = (usize, *mut u8, usize)> + use<> {
        let (start, end) = (bytes.start.max(self.block.start), bytes.end.min(self.block.end));
        let (copy, first) = (self.copy, self.block.start);
        (start..end).step_by(CHUNK).map(move |at| {
            // SAFETY: inside the copy, which is as long as the block.
            (at, unsafe { copy.add(at - first) }, CHUNK.min(end - at))
        })
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing refers to it any more.
        unsafe { libc::munmap(self.copy.cast::<c_void>(), self.block.len().max(1)) };
    }
}

fn covers(at: usize, len: usize, fault: usize) -> bool {
    (at / CHUNK * CHUNK..at + len).contains(&fault)
}

/// Where bytes begin to differ, and where they are equal again.
///
/// # Safety
/// `len` bytes are at `copy`, and at `at` as far as they are not gone.
unsafe fn change_in(at: usize, copy: *const u8, len: usize) -> Option<(usize, usize)> {
    let at = at as *const u8;
    // SAFETY: the caller's promise.
    let is_equal = unsafe { libc::memcmp(at.cast(), copy.cast(), len) == 0 };
    // SAFETY: as above. Other threads may write the block meanwhile.
    let differs = |byte: usize| unsafe { at.add(byte).read_volatile() != *copy.add(byte) };
    if is_equal {
        return None;
    }
    let start = (0..len).find(|byte| differs(*byte))?;
    let end = (start + 1..len).find(|byte| !differs(*byte)).unwrap_or(len);
    Some((start, end))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_found_byte_by_byte_and_only_among_what_is_asked_for() {
        let mut bytes = vec![1_u8; 3 * CHUNK];
        let start = bytes.as_mut_ptr().addr();
        let mut shadow = Shadow::new(start..start + bytes.len()).expect("memory");
        let all = start + 10..start + 3 * CHUNK;
        assert!(shadow.keep(&all));
        assert_eq!(shadow.first_change(&all), None);
        for (at, len) in [(10, 1), (3 * CHUNK - 1, 1), (CHUNK + 5, 7)] {
            bytes[at..at + len].fill(2);
            assert_eq!(shadow.first_change(&all), Some(start + at..start + at + len));
            assert_eq!(shadow.first_change(&(start + at + len..start + 3 * CHUNK)), None);
            assert!(shadow.keep(&all));
        }
        bytes[9] = 2;
        assert_eq!(shadow.first_change(&all), None, "not among them");
    }
}
