//! Plain host memory for calls with many ranges of it: mappings are asked for once each, and whether the
//! pages of a range are there is found out by reading a byte of each.
//!
//! Populating a page that is there costs a system call of some hundred nanoseconds, reading it a few. Only
//! private anonymous memory is read so. Of that every page may be accessed alike, or is missing: what is
//! not mapped yet comes when it is read, a guard inside the mapping makes a fault, which `guarded` turns into
//! an answer. So there is no survey on a thread on which another handler than ours would get that fault.

use super::{Access, Mappings, SMALLEST_PAGE, fault, guarded, page_size, populate};
use ferry_core::{PlainRange, Survey};
use std::{cell::Cell, ops::Range, ptr};

/// Mappings that are remembered; pieces of a batch seldom lie in more.
const REMEMBERED: usize = 8;

/// The mappings of one call.
pub struct MappingSurvey<F> {
    mappings: Mappings,
    /// Whether a mapping around an address is plain memory, as far as a backend knows.
    is_plain: F,
    /// Ranges that can be accessed, and how.
    known: Vec<(Range<usize>, Access)>,
}

impl<F: Fn(usize, &Range<usize>) -> bool> MappingSurvey<F> {
    /// A survey, if this thread may make one. `is_plain` is asked once for each mapping, about an address in
    /// it.
    pub fn begin(is_plain: F) -> Option<MappingSurvey<F>> {
        if !fault::is_ours_to_meet() {
            return None;
        }
        Some(MappingSurvey { mappings: Mappings::ask()?, is_plain, known: Vec::new() })
    }
}

impl<F: Fn(usize, &Range<usize>) -> bool> Survey for MappingSurvey<F> {
    /// The mapping, if it is private anonymous memory of which a page that is there can be accessed that way.
    fn around(&mut self, addr: usize, access: Access) -> Option<Range<usize>> {
        let is_it = |(range, known): &&(Range<usize>, Access)| *known == access && range.contains(&addr);
        if let Some((range, _)) = self.known.iter().find(is_it) {
            return Some(range.clone());
        }
        let mapping = self.mappings.around(addr)??;
        // What is read to find a page must be readable, however it is used later.
        let may = mapping.is_readable && (access == Access::Read || mapping.is_writable);
        let (range, page) = (mapping.start..mapping.end, addr & !(page_size() - 1));
        let is_plain = mapping.is_anonymous && may && (self.is_plain)(addr, &range);
        // One page tells what rights do not: protection keys.
        if !is_plain || !populate(page, page_size(), access) {
            return None;
        }
        if self.known.len() == REMEMBERED {
            self.known.remove(0);
        }
        self.known.push((range.clone(), access));
        Some(range)
    }

    fn count_there(&self, ranges: &[PlainRange]) -> usize {
        let found = Cell::new(0);
        let read = || {
            for range in ranges {
                let (mut at, end) = (range.addr, range.addr + range.len);
                while at < end {
                    // SAFETY: in a mapping that may be read, or else a fault that is expected.
                    unsafe { ptr::read_volatile(at as *const u8) };
                    at = (at & !(SMALLEST_PAGE - 1)) + SMALLEST_PAGE;
                }
                found.set(found.get() + 1);
            }
        };
        let covers = |at: usize| {
            let holds = |range: &PlainRange| (page_of(range.addr)..range.addr + range.len).contains(&at);
            ranges.iter().any(holds)
        };
        // SAFETY: a plain loop.
        let _ = unsafe { guarded(covers, read) };
        found.get()
    }
}

/// The first byte of the page of `addr`.
fn page_of(addr: usize) -> usize {
    addr & !(SMALLEST_PAGE - 1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const PAGE: usize = 4096;
    /// MADV_GUARD_INSTALL, of Linux 6.13.
    const GUARD: i32 = 102;

    /// Anonymous pages with these rights.
    fn pages(count: usize, rights: i32) -> usize {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, at a place that the kernel picks.
        let at = unsafe { libc::mmap(ptr::null_mut(), count * PAGE, rights, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        at as usize
    }

    fn survey() -> Option<impl Survey> {
        survey_of(|_, _| true)
    }

    fn survey_of(is_plain: impl Fn(usize, &Range<usize>) -> bool) -> Option<impl Survey> {
        fault::install();
        MappingSurvey::begin(is_plain)
    }

    #[test]
    fn a_mapping_is_found_whole_and_as_its_rights_allow() {
        let Some(mut survey) = survey() else { return };
        let (both, read, none) = (
            pages(4, libc::PROT_READ | libc::PROT_WRITE),
            pages(4, libc::PROT_READ),
            pages(4, libc::PROT_NONE),
        );
        for (at, access, is_known) in [
            (both, Access::Write, true),
            (both, Access::Read, true),
            (read, Access::Read, true),
            (read, Access::Write, false),
            (none, Access::Read, false),
            (none, Access::Write, false),
        ] {
            let found = survey.around(at + PAGE, access);
            assert_eq!(found.is_some(), is_known, "{at:#x}, {access:?}");
            let Some(range) = found else { continue };
            assert!(range.start <= at && range.end >= at + 4 * PAGE, "{range:x?}");
            let whole = PlainRange { addr: at + 5, len: 4 * PAGE - 5 };
            assert_eq!(survey.count_there(&[whole, whole]), 2, "pages come when they are read");
        }
        assert!(survey.around(8, Access::Read).is_none(), "nothing is mapped there");
        let fresh = pages(2, libc::PROT_READ);
        let mut refusing =
            survey_of(move |at, range| at != fresh + 8 && range.contains(&fresh)).expect("as above");
        assert!(refusing.around(fresh + 8, Access::Read).is_none(), "refused");
        assert!(refusing.around(fresh, Access::Read).is_some(), "asked again, since it was not remembered");
    }

    #[test]
    fn a_guard_inside_a_mapping_is_met_and_not_fallen_over() {
        let Some(mut survey) = survey() else { return };
        let at = pages(4, libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a page of ours.
        if unsafe { libc::madvise((at + 2 * PAGE) as *mut _, PAGE, GUARD) } != 0 {
            return;
        }
        assert!(survey.around(at, Access::Read).is_some());
        let ranges = [(0, 2 * PAGE), (3 * PAGE, PAGE), (PAGE + 1, PAGE), (0, 1), (2 * PAGE, 1), (1, 1)]
            .map(|(skip, len)| PlainRange { addr: at + skip, len });
        for (first, count) in [(0, 2), (1, 1), (2, 0), (3, 1), (4, 0), (5, 1), (6, 0)] {
            assert_eq!(survey.count_there(&ranges[first..]), count, "from {first} on");
        }
    }

    #[test]
    fn files_are_not_surveyed() {
        let Some(mut survey) = survey() else { return };
        // SAFETY: a name, and a file of ours.
        let at = unsafe {
            let file = libc::memfd_create(c"survey".as_ptr(), 0);
            assert_eq!(libc::ftruncate(file, PAGE as i64), 0);
            libc::mmap(ptr::null_mut(), 2 * PAGE, libc::PROT_READ, libc::MAP_SHARED, file, 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        assert!(survey.around(at as usize, Access::Read).is_none());
    }

    #[test]
    fn there_is_no_survey_where_a_fault_would_not_come_to_us() {
        if survey().is_none() {
            return;
        }
        let blocked = std::thread::spawn(|| {
            // SAFETY: a set of signals on the stack, valid for the calls.
            unsafe {
                let mut faults: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&mut faults);
                libc::sigaddset(&mut faults, libc::SIGSEGV);
                libc::pthread_sigmask(libc::SIG_BLOCK, &faults, ptr::null_mut());
            }
            MappingSurvey::begin(|_, _| true).is_none()
        });
        assert!(blocked.join().expect("asked"));
    }
}
