//! Prefaulting: private memory whose pages are all there before anybody uses it, huge ones where possible,
//! cleared by several threads. For memory that a driver is to page-lock, which would bring in one page after
//! the other.

use super::{
    machine::available_memory,
    mapping::Mapping,
    page::{page_size, populate},
    threads::together,
};
use ferry_core::Access;
use std::{
    ffi::CStr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
};

/// A huge page.
const HUGE: usize = 2 << 20;
/// The most threads that clear pages: more do not have more of the memory's bandwidth.
const MAX_THREADS: usize = 8;
/// A thread clears so many bytes at a time, or fewer of less memory.
const MAX_PART: usize = 64 << 20;

/// Such memory, until it is dropped. On either side of it is a page that nobody can touch, so that nothing of
/// the process lies next to it.
pub struct PrefaultedPages {
    mapping: Mapping,
    addr: usize,
}

impl PrefaultedPages {
    /// Makes `len` bytes, at a multiple of the size of huge pages and all zero. The pages lie on the memory
    /// nodes where the calling thread would get them. A forked child does not have them: it would get copies
    /// of all that a driver has locked, at once. Core dumps leave them out.
    ///
    /// `None` where the system cannot do that (before Linux 5.14), or has not so much memory to spare that
    /// nothing else would have to go for it.
    pub fn make(name: &CStr, len: usize) -> Option<PrefaultedPages> {
        // Two at once would each find enough for one.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        if len > available_memory() / 4 * 3 {
            return None;
        }
        let (guard, len) = (page_size(), len.next_multiple_of(page_size()));
        let mapping = Mapping::private(name, len.checked_add(HUGE + 2 * guard)?).ok()?;
        let addr = (mapping.addr() + guard).next_multiple_of(HUGE);
        let offset = addr - mapping.addr();
        mapping.advise(0, mapping.len(), libc::MADV_DONTDUMP);
        if !mapping.advise(0, mapping.len(), libc::MADV_DONTFORK) || !mapping.open(offset, offset + len) {
            return None;
        }
        // Without huge pages it takes longer.
        mapping.advise(offset, len, libc::MADV_HUGEPAGE);
        let cpus = || thread::available_parallelism().map_or(1, |count| count.get());
        let threads = if mapping.place_as_here() { cpus().min(MAX_THREADS) } else { 1 };
        clear(addr, len, threads).then_some(PrefaultedPages { mapping, addr })
    }

    /// The first address.
    pub fn addr(&self) -> usize {
        self.addr
    }

    /// Leaves the memory where it is, for good.
    pub fn leak(self) {
        std::mem::forget(self.mapping);
    }
}

/// Brings in all pages of a range, by so many threads.
fn clear(addr: usize, len: usize, threads: usize) -> bool {
    let part = (len / (4 * threads)).next_multiple_of(HUGE).clamp(HUGE, MAX_PART);
    let (next, is_good) = (AtomicUsize::new(0), AtomicBool::new(true));
    let work = || {
        loop {
            let from = part.saturating_mul(next.fetch_add(1, Ordering::Relaxed));
            if from >= len || !is_good.load(Ordering::Relaxed) {
                break;
            }
            if populate(addr + from, part.min(len - from), Access::Write).is_err() {
                is_good.store(false, Ordering::Relaxed);
            }
        }
    };
    together("ferry-pages", threads.min(len.div_ceil(part)) - 1, &work);
    is_good.into_inner()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Whether a page is in memory; `None` where nothing is mapped.
    fn is_there(addr: usize) -> Option<bool> {
        let mut there = 0_u8;
        // SAFETY: nothing is touched, and there is room for the state of one page.
        let asked = unsafe { libc::mincore(addr as *mut libc::c_void, 1, &mut there) };
        (asked == 0).then_some(there & 1 == 1)
    }

    #[test]
    fn all_pages_are_there_and_zero_and_end_with_guards() {
        for len in [4096, 2 * MIB, 17 * MIB + 4096] {
            let pages = PrefaultedPages::make(c"ferry:test", len).expect("there is so much memory");
            let addr = pages.addr();
            assert_eq!(addr % HUGE, 0);
            let end = addr + len.next_multiple_of(page_size());
            assert!((addr..end).step_by(page_size()).all(|page| is_there(page) == Some(true)), "{len} bytes");
            // SAFETY: readable memory of that length.
            let bytes = unsafe { std::slice::from_raw_parts(addr as *const u8, len) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            for guard in [addr - page_size(), end] {
                assert!(populate(guard, page_size(), Access::Read).is_err(), "{guard:#x} can be touched");
            }
        }
    }

    #[test]
    fn there_is_no_more_than_the_machine_has() {
        for len in [1 << 46, usize::MAX, usize::MAX - 4096] {
            assert!(PrefaultedPages::make(c"ferry:test", len).is_none());
        }
    }

    #[test]
    fn one_thread_or_several_bring_in_every_page() {
        for threads in [1, 2, 3, 100] {
            let len = 9 * MIB + 4096;
            let mapping = Mapping::private(c"ferry:test", len).expect("addresses");
            assert!(mapping.open(0, len) && is_there(mapping.addr()) == Some(false));
            assert!(clear(mapping.addr(), len, threads));
            let mut pages = (mapping.addr()..mapping.addr() + len).step_by(page_size());
            assert!(pages.all(|page| is_there(page) == Some(true)), "{threads} threads");
        }
        let bare = Mapping::private(c"ferry:test", MIB).expect("addresses");
        assert!(!clear(bare.addr(), MIB, 2), "without rights nothing is brought in");
    }

    #[test]
    fn what_is_leaked_stays() {
        let pages = PrefaultedPages::make(c"ferry:test", MIB).expect("there is so much memory");
        let addr = pages.addr();
        pages.leak();
        assert_eq!(is_there(addr), Some(true));
    }
}
