//! Which pages of the program's view were touched since they were hidden: without privileges, without a
//! signal, and by whoever it was, system calls too.
//!
//! Hidden pages are taken out of the page table of the view. An access puts them back, which the kernel does
//! by itself, and `/proc/self/pagemap` says so. A read puts neighbours back as well, all pages of an aligned
//! window, unless the view is registered with a userfaultfd for write protection: nothing is protected, so
//! that nothing is ever told there.

use super::uffd::Uffd;
use crate::os::{
    files::{self, Kept},
    page::page_size,
};
use std::{
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
};

/// Bytes that a read may put back at once: the kernel's `fault_around_bytes`.
const WINDOW: usize = 64 << 10;
/// Entries of the file that are read at a time.
const ENTRIES: usize = 512;
/// The bit of an entry that says that the page is in the page table.
const IS_PRESENT: u64 = 1 << 63;

/// Tells which pages were touched.
pub struct Presence {
    pagemap: Kept,
    uffd: Option<Uffd>,
    /// Whether all views are registered.
    is_exact: AtomicBool,
}

impl Presence {
    /// None if the kernel does not say.
    pub fn open() -> Option<Presence> {
        // Pages that are put back two million bytes at a time say little.
        let huge = files::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
        let is_small = |text: &str| ["[never]", "[advise]", "[deny]"].iter().any(|word| text.contains(word));
        if huge.is_ok_and(|text| !is_small(&text)) {
            return None;
        }
        let pagemap = Kept::open(|| File::open("/proc/self/pagemap")).ok()?;
        Some(Presence { pagemap, uffd: Uffd::open_for_views().ok(), is_exact: AtomicBool::new(true) })
    }

    /// The view is one whose pages are going to be hidden.
    pub fn watch(&self, view: &Range<usize>) {
        if self.uffd.as_ref().is_none_or(|uffd| uffd.register_unprotected(view).is_err()) {
            self.is_exact.store(false, Ordering::Relaxed);
        }
    }

    /// The largest range inside `bytes` which pages outside of it do not put back when they are touched.
    pub fn inside(&self, bytes: &Range<usize>) -> Range<usize> {
        // The program may have closed the descriptor.
        let is_exact = self.is_exact.load(Ordering::Relaxed)
            && self.uffd.as_ref().is_some_and(|uffd| uffd.is_open(&(0..page_size())));
        let grain = if is_exact { page_size() } else { WINDOW.max(page_size()) };
        let (start, end) = (bytes.start.next_multiple_of(grain), bytes.end / grain * grain);
        start..end.max(start)
    }

    /// Hides pages of a view, whose bytes are in a file; none changes.
    pub fn hide(&self, pages: &Range<usize>) {
        if !pages.is_empty() {
            super::uffd::take_out(pages);
        }
    }

    /// The first pages in a row that were touched since they were hidden.
    pub fn touched(&self, pages: &Range<usize>) -> Option<Range<usize>> {
        let pages = &self.inside(pages);
        let pagemap = File::from(self.pagemap.get().ok()?.try_clone_to_owned().ok()?);
        let (page, mut entries) = (page_size(), [0_u8; 8 * ENTRIES]);
        let mut first = None;
        for start in pages.clone().step_by(ENTRIES * page) {
            let count = ENTRIES.min((pages.end - start) / page);
            let part = &mut entries[..8 * count];
            if pagemap.read_exact_at(part, (start / page * 8) as u64).is_err() {
                return None;
            }
            for (index, entry) in part.chunks_exact(8).enumerate() {
                let entry = u64::from_ne_bytes(entry.try_into().expect("eight bytes"));
                let at = start + index * page;
                match (entry & IS_PRESENT != 0, first) {
                    (true, None) => first = Some(at),
                    (false, Some(first)) => return Some(first..at),
                    _ => {}
                }
            }
        }
        first.map(|first| first..pages.end)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::os::mapping::Mapping;

    #[test]
    fn pages_that_were_touched_are_told_whoever_touched_them() {
        let page = page_size();
        let len = 4 * WINDOW;
        let (engine, _) = Mapping::shared("ferry:presence", len).expect("memory");
        assert!(engine.open(0, len));
        let view = engine.again("a view").expect("a view");
        let user = view.addr().next_multiple_of(WINDOW)..(view.addr() + len) / WINDOW * WINDOW;
        let Some(presence) = Presence::open() else { return };
        presence.watch(&(view.addr()..view.addr() + len));
        let byte = |at: usize| at as *mut u8;
        // SAFETY: memory of this test's alone.
        unsafe { byte(view.addr()).write_bytes(1, len) };
        let inside = presence.inside(&(user.start + 1..user.end));
        assert!(user.start < inside.start && inside.end == user.end && !inside.is_empty());
        presence.hide(&user);
        assert_eq!(presence.touched(&user), None);
        let at = user.start + WINDOW + page;
        // SAFETY: as above.
        unsafe { byte(at).write_volatile(2) };
        assert_eq!(presence.touched(&user), Some(at..at + page), "a write");
        presence.hide(&user);
        // SAFETY: as above; a call that reads, and fails.
        unsafe { libc::write(-1, byte(at).cast(), 1) };
        assert_eq!(presence.touched(&user), None, "nothing was read");
        // SAFETY: as above.
        assert_eq!(unsafe { byte(at).read_volatile() }, 2, "no byte changes");
        let told = presence.touched(&user).expect("a read");
        assert!(told.contains(&at) && presence.inside(&told) == told, "{told:x?}");
    }
}
