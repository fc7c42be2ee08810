//! Can plain host memory be touched? Asked of the operating system before a copy of it is submitted, so that
//! a garbage pointer becomes an error instead of a crash.
//!
//! `madvise(MADV_POPULATE_*)` answers exactly this, permissions included, and does the page faults that the
//! copy would have done anyway. Kernels before 5.14 and some sandboxes lack it; there `/proc/self/maps` is
//! read, and pages of files are touched where a fault is caught.
//!
//! Populating looks at every page, some 130 ns each even if it is there, which for a large range takes longer
//! than its copy. So a large range is asked for mapping by mapping: one page tells what may be done with all
//! of a mapping, and where that is anonymous memory `mincore` tells cheaply which pages are there already.
//! The others are populated: a page that is not there may be one that must not be touched, such as a guard
//! inside its mapping.

mod mappings;
pub mod remembered;
mod stack;
pub mod survey;

pub use super::page::page_size;
use super::{
    fault::{self, guarded},
    files,
    page::{self, SMALLEST_PAGE},
    threads::together,
};
use ferry_core::{Access, Kind, Result};
use mappings::Mappings;
pub use stack::is_on_stack;
use std::{
    ops::Range,
    ptr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
};

/// Up to here one call populates everything; beyond it the last page is asked for first.
const POPULATE_AT_ONCE: usize = 256 << 10;
/// From here on mappings are worth asking for, if the kernel can be asked.
const QUERY_MAPPINGS_FROM: usize = 1 << 20;
/// From here on, if all of them have to be read.
const READ_MAPPINGS_FROM: usize = 64 << 20;
/// From here on several threads populate pages that are absent.
const POPULATE_IN_PARALLEL_FROM: usize = 32 << 20;
/// The most threads that do.
const MAX_THREADS: usize = 8;

/// `Ok` if every byte of the range can be accessed that way now. An empty range always can.
pub fn accessible(addr: usize, len: usize, access: Access) -> Result<()> {
    if len == 0 || is_on_stack(addr, len) {
        return Ok(());
    }
    let page = page_size();
    // The last page of the address space is the kernel's; so a range that ends there is as bad as one that
    // wraps.
    let Some(past) = addr.checked_add(len).and_then(|end| end.checked_next_multiple_of(page)) else {
        return Err(Kind::BadAddress
            .because(format!("{len} bytes at {addr:#x} wrap round the end of the address space")));
    };
    if is_good(addr & !(page - 1), past, access) {
        return Ok(());
    }
    let (verb, why) = (verb(access), why_not(addr, past, access));
    Err(Kind::BadAddress.because(format!("{len} bytes at {addr:#x} cannot be {verb}: {why}")))
}

fn verb(access: Access) -> &'static str {
    if access == Access::Write { "written" } else { "read" }
}

/// What is wrong with a range that cannot be accessed: with the first of its mappings that is to blame.
pub fn why_not(addr: usize, past: usize, access: Access) -> String {
    let Ok(maps) = files::read_to_string(mappings::LIST) else { return "not mapped, or protected".into() };
    match stopped_at(&maps, addr, past, access) {
        None => "mapped, but the file behind it ends before it, or what is there cannot be brought in".into(),
        Some((at, Some(rights))) if at == addr => format!("mapped, but protected ({rights})"),
        Some((at, Some(rights))) => format!("{at:#x} is mapped, but protected ({rights})"),
        Some((at, None)) if at == addr => "not mapped in this process".into(),
        Some((at, None)) => format!("{at:#x} is not mapped in this process"),
    }
}

/// Whether these pages can be accessed.
fn is_good(first: usize, past: usize, access: Access) -> bool {
    let (len, page) = (past - first, page_size());
    if len <= POPULATE_AT_ONCE {
        return populate(first, len, access);
    }
    // The last page first: a garbage length then fails before anything large is brought in.
    populate(past - page, page, access)
        && (mappings(len).and_then(|mappings| by_mapping(&mappings, first, past, access)))
            .unwrap_or_else(|| populate(first, len - page, access))
}

/// The mappings, where asking for them takes less time than looking at all pages.
fn mappings(len: usize) -> Option<Mappings> {
    let asked = if len >= QUERY_MAPPINGS_FROM { Mappings::ask() } else { None };
    asked.or_else(|| if len >= READ_MAPPINGS_FROM { Mappings::read() } else { None })
}

/// Whether these pages can be accessed, by the mappings they lie in; `None` if those cannot be told.
fn by_mapping(mappings: &Mappings, first: usize, past: usize, access: Access) -> Option<bool> {
    let mut from = first;
    while from < past {
        let Some(mapping) = mappings.around(from)? else { return Some(false) };
        let to = mapping.end.min(past);
        let good = if mapping.is_anonymous {
            // What may be done with one page of a mapping may be done with all that are there.
            populate(from, page_size(), access) && bring_in(from, to, access)
        } else {
            populate(from, to - from, access)
        };
        if !good {
            return Some(false);
        }
        from = to;
    }
    Some(true)
}

/// Populates those pages of an anonymous mapping that are not there.
fn bring_in(first: usize, past: usize, access: Access) -> bool {
    let absent = absent(first, past);
    let bytes: usize = absent.iter().map(Range::len).sum();
    if bytes < POPULATE_IN_PARALLEL_FROM {
        return absent.iter().all(|range| populate(range.start, range.len(), access));
    }
    // Fresh pages are cleared as they come, at a few GB/s by one thread.
    let cpus = thread::available_parallelism().map_or(1, |count| count.get());
    let (next, good) = (AtomicUsize::new(0), AtomicBool::new(true));
    let work = || {
        while let Some(range) = absent.get(next.fetch_add(1, Ordering::Relaxed)) {
            if good.load(Ordering::Relaxed) && !populate(range.start, range.len(), access) {
                good.store(false, Ordering::Relaxed);
            }
        }
    };
    together("ferry-probe", cpus.min(MAX_THREADS) - 1, &work);
    good.into_inner()
}

/// Where pages of an anonymous mapping are not there, roughly: one range for each stretch of some MiB that
/// lacks any.
fn absent(first: usize, past: usize) -> Vec<Range<usize>> {
    const PAGES: usize = 4096;
    let page = page_size();
    let mut there = [0_u8; PAGES];
    let look = |from: usize| {
        let len = (past - from).min(PAGES * page);
        // SAFETY: nothing is touched, and `there` has room for one byte a page.
        if unsafe { libc::mincore(from as *mut libc::c_void, len, there.as_mut_ptr()) } != 0 {
            return Some(from..from + len);
        }
        let is_absent = |state: &u8| state & 1 == 0;
        let there = &there[..len / page];
        let (start, last) = (there.iter().position(is_absent)?, there.iter().rposition(is_absent)?);
        Some(from + start * page..from + (last + 1) * page)
    };
    (first..past).step_by(PAGES * page).filter_map(look).collect()
}

fn populate(first: usize, len: usize, access: Access) -> bool {
    match page::populate(first, len, access).map_err(|why| why.raw_os_error()) {
        Ok(()) => true,
        // The advice is unknown to this kernel, means nothing for this kind of mapping, or is not for this
        // sandbox.
        Err(Some(libc::EINVAL | libc::ENOSYS | libc::EPERM)) => in_maps(first, len, access),
        Err(_) => false,
    }
}

/// Whether the mappings of the process cover the range with the right permission, and files reach to where
/// they are mapped.
fn in_maps(first: usize, len: usize, access: Access) -> bool {
    let Ok(maps) = files::read_to_string(mappings::LIST) else { return false };
    let past = first + len;
    let within = |line: &mappings::MapsLine| line.mapping.start.max(first)..line.mapping.end.min(past);
    stopped_at(&maps, first, past, access).is_none()
        && mappings::lines(&maps).filter(|line| line.is_of_file()).all(|line| can_be_touched(within(&line)))
}

/// Whether each page of the range can be read: the files of mappings may have become shorter.
fn can_be_touched(range: Range<usize>) -> bool {
    let covers = |addr| range.contains(&addr);
    let touch = || {
        for page in range.clone().step_by(page_size()) {
            // SAFETY: mapped with the right to read it a moment ago, or else a fault that is expected.
            unsafe { ptr::read_volatile(page as *const u8) };
        }
    };
    // SAFETY: a plain loop.
    unsafe { guarded(covers, touch) }.is_ok()
}

/// Where the range cannot be accessed, by the list of mappings, and with which rights it is mapped there, if
/// it is.
fn stopped_at(maps: &str, mut from: usize, to: usize, access: Access) -> Option<(usize, Option<String>)> {
    let right = if access == Access::Write { 'w' } else { 'r' };
    for line in mappings::lines(maps) {
        if line.mapping.start <= from && from < line.mapping.end {
            if !line.rights.contains(right) {
                return Some((from, Some(line.rights.into())));
            }
            from = line.mapping.end;
        }
        if from >= to {
            return None;
        }
    }
    Some((from, None))
}

#[cfg(all(test, not(loom)))]
mod tests;
