//! Ranges that the calling thread was told it can access, for who asks about the same few again and again.
//!
//! Populating pages that are there takes longer than copying them. So a range that this thread has populated
//! before is touched instead: a byte of each page is read, or written as it is. If that faults, or the range
//! is another one, the kernel is asked. What was never asked about is not touched, so that garbage pointers
//! make no fault; nor is anything where another handler than ours would get the fault.

use super::{Access, Result, SMALLEST_PAGE, fault, guarded, page::populate, page_size};
use std::{
    cell::RefCell,
    ops::Range,
    ptr,
    sync::atomic::{AtomicU8, Ordering},
};

/// Ranges that are remembered.
const REMEMBERED: usize = 8;
/// Beyond so many bytes a range is not remembered: to touch all pages takes as long as to ask.
const LARGEST: usize = 8 << 20;

thread_local! {
    static REMEMBERS: RefCell<Memory> = const { RefCell::new(Memory::EMPTY) };
}

/// What one thread remembers: whole pages, the oldest of which is forgotten first.
struct Memory {
    ranges: [(Range<usize>, Access); REMEMBERED],
    oldest: usize,
}

/// As [`accessible`](super::accessible).
pub fn accessible(addr: usize, len: usize, access: Access) -> Result<()> {
    if REMEMBERS.try_with(|memory| memory.borrow_mut().knows(addr, len, access)).unwrap_or(false) {
        return Ok(());
    }
    super::accessible(addr, len, access)?;
    let _ = REMEMBERS.try_with(|memory| memory.borrow_mut().learn(addr, len, access));
    Ok(())
}

impl Memory {
    const EMPTY: Memory = Memory { ranges: [const { (0..0, Access::Read) }; REMEMBERED], oldest: 0 };

    /// Whether the range is remembered, and can be accessed as it could be then.
    fn knows(&mut self, addr: usize, len: usize, access: Access) -> bool {
        let Some(end) = addr.checked_add(len) else { return false };
        let covers = |(range, known): &(Range<usize>, Access)| {
            range.start <= addr && end <= range.end && (*known == access || *known == Access::Write)
        };
        let Some(place) = self.ranges.iter().position(covers) else { return false };
        let is_there = fault::is_ours_to_meet() && touch(addr..end, access);
        if !is_there {
            self.ranges[place] = (0..0, Access::Read);
        }
        is_there
    }

    /// The range can be accessed.
    fn learn(&mut self, addr: usize, len: usize, access: Access) {
        // Nothing at all is accessible at any address, the last one included.
        if !(1..=LARGEST).contains(&len) {
            return;
        }
        let (page, mask) = (page_size(), page_size() - 1);
        let range = addr & !mask..(addr + len).next_multiple_of(page);
        // Mappings that cannot be populated may be of devices, which are not to be touched.
        if populate(range.start, page, access).is_ok() && fault::is_ours_to_meet() {
            self.ranges[self.oldest] = (range, access);
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
    }
}

/// Whether a byte of each page of the range can be accessed.
fn touch(range: Range<usize>, access: Access) -> bool {
    let (start, end) = (range.start, range.end);
    let work = || {
        let mut at = start;
        while at < end {
            match access {
                // SAFETY: memory that could be read before, or else a fault that is expected.
                Access::Read => drop(unsafe { ptr::read_volatile(at as *const u8) }),
                Access::Write => write_as_it_is(at),
            }
            at = (at & !(SMALLEST_PAGE - 1)) + SMALLEST_PAGE;
        }
    };
    let covers = |at: usize| (start & !(SMALLEST_PAGE - 1)..end).contains(&at);
    // SAFETY: a plain loop.
    unsafe { guarded(covers, work) }.is_ok()
}

/// Writes the byte at `at` without changing it, whoever else writes there.
fn write_as_it_is(at: usize) {
    // SAFETY: memory that could be written before, or else a fault that is expected; any byte is a number.
    let byte = unsafe { AtomicU8::from_ptr(at as *mut u8) };
    let mut seen = byte.load(Ordering::Relaxed);
    while let Err(other) = byte.compare_exchange_weak(seen, seen, Ordering::Relaxed, Ordering::Relaxed) {
        seen = other;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{super::POPULATE_AT_ONCE, *};

    const PAGES: usize = 8;

    /// Anonymous memory that can be read and written, with a byte in it that is not zero.
    fn pages() -> usize {
        pages_near(0)
    }

    /// The same, at this address if there is nothing.
    fn pages_near(wish: usize) -> usize {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, at a place where there is nothing.
        let at = unsafe { libc::mmap(wish as *mut _, PAGES * page_size(), rights, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        // SAFETY: mapped just now.
        unsafe { ptr::write_bytes(at.cast::<u8>(), 0x5a, PAGES * page_size()) };
        at as usize
    }

    fn protect(at: usize, pages: usize, rights: i32) {
        // SAFETY: pages of the test's own.
        assert_eq!(unsafe { libc::mprotect(at as *mut _, pages * page_size(), rights) }, 0);
    }

    fn is_remembered(at: usize, len: usize, access: Access) -> bool {
        REMEMBERS.with(|memory| memory.borrow_mut().knows(at, len, access))
    }

    #[test]
    fn what_was_accessible_is_known_until_it_is_not() {
        /// Far from where the kernel maps what other threads ask for: when it is unmapped it stays so.
        const FAR: usize = 0x2000_0000_0000;
        fault::install();
        let (at, page) = (pages_near(FAR), page_size());
        let (begin, len) = (at + 5, (PAGES - 2) * page);
        assert!(!is_remembered(begin, len, Access::Read), "never asked about");
        assert_eq!(accessible(begin, len, Access::Read), Ok(()));
        assert!(is_remembered(begin, len, Access::Read) && is_remembered(at + page, 1, Access::Read));
        assert!(!is_remembered(begin, len, Access::Write), "to be read");
        assert!(!is_remembered(begin, len + 2 * page, Access::Read), "farther");
        assert_eq!(accessible(begin, len, Access::Write), Ok(()));
        assert!(is_remembered(begin, len, Access::Write));
        // SAFETY: the test's own.
        let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, PAGES * page) };
        assert!(bytes.iter().all(|byte| *byte == 0x5a), "nothing has changed");
        protect(at + 3 * page, 1, libc::PROT_READ);
        assert!(accessible(begin, len, Access::Read).is_ok());
        assert!(accessible(begin, len, Access::Write).is_err(), "it cannot be written any more");
        protect(at + 3 * page, 1, libc::PROT_NONE);
        assert!(accessible(begin, len, Access::Read).is_err(), "nor read");
        protect(at + 3 * page, 1, libc::PROT_READ | libc::PROT_WRITE);
        assert!(accessible(begin, len, Access::Write).is_ok(), "again");
        // SAFETY: the test's own.
        unsafe { libc::munmap(at as *mut _, PAGES * page) };
        assert!(accessible(begin, 1, Access::Read).is_err() && accessible(begin, 1, Access::Write).is_err());
    }

    #[test]
    fn a_thread_remembers_its_own_and_no_more_than_a_few() {
        fault::install();
        let at = pages();
        assert_eq!(accessible(at, 1, Access::Write), Ok(()));
        std::thread::scope(|scope| scope.spawn(|| assert!(!is_remembered(at, 1, Access::Write))).join())
            .expect("not there");
        let others: Vec<_> = (0..REMEMBERED).map(|_| pages()).collect();
        others.iter().for_each(|other| assert_eq!(accessible(*other, 1, Access::Read), Ok(())));
        assert!(!is_remembered(at, 1, Access::Write) && is_remembered(others[0], 1, Access::Read));
        assert_eq!(accessible(at, 0, Access::Read), Ok(()));
        assert_eq!(accessible(usize::MAX, 0, Access::Read), Ok(()), "nothing, at the last address");
        assert!(accessible(usize::MAX - 5, 100, Access::Read).is_err());
    }

    #[test]
    fn a_byte_that_others_write_is_not_changed() {
        let byte = AtomicU8::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..200_000).for_each(|_| write_as_it_is(byte.as_ptr() as usize)));
            (0..200_000).for_each(|_| _ = byte.fetch_add(1, Ordering::Relaxed));
        });
        assert_eq!(byte.into_inner(), (200_000 % 256) as u8);
    }

    /// A range over [`POPULATE_AT_ONCE`] is asked about in another way.
    #[test]
    fn large_ranges_are_remembered_up_to_a_size() {
        fault::install();
        let larger = LARGEST + 2 * page_size();
        let large = vec![1_u8; larger];
        for (len, is_known) in [(POPULATE_AT_ONCE + 1, true), (LARGEST, true), (larger, false)] {
            assert_eq!(accessible(large.as_ptr() as usize, len, Access::Read), Ok(()));
            assert_eq!(is_remembered(large.as_ptr() as usize, len, Access::Read), is_known, "{len} bytes");
        }
    }
}
