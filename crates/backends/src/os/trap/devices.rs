//! Addresses of devices, which have nothing behind them: the first access of the CPU to a page of them is
//! told, whatever handlers the program has, and then fails as it would have.
//!
//! Nothing can tell of accesses to a mapping without rights but a signal, and a program may have a handler of
//! its own. So such addresses get rights, and no pages: userfaultfd tells of the access, the rights of that
//! page are taken away again, and the thread goes on into its fault. A forked child has no userfaultfd, and
//! takes the rights away at once.

use super::{place::SystemCall, uffd::Uffd};
use crate::os::page::page_size;
use std::{
    ffi::c_void,
    ops::Range,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Ranges that can be watched; further ones stay without rights.
const MOST: usize = 64;
/// The calls that touch all pages of a process, or all of a range, and are no use of their bytes.
const POPULATING: [i64; 5] =
    [libc::SYS_madvise, libc::SYS_mlock, libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_mmap];

/// First address and end of each range; the end is 0 without one. Also read by a forked child.
static DEVICES: [[AtomicUsize; 2]; MOST] = [const { [const { AtomicUsize::new(0) }; 2] }; MOST];

fn range_of(place: &[AtomicUsize; 2]) -> Range<usize> {
    let [start, end] = [0, 1].map(|word| place[word].load(Ordering::Acquire));
    start..end
}

fn place_of(address: usize) -> Option<&'static [AtomicUsize; 2]> {
    DEVICES.iter().find(|place| range_of(place).contains(&address))
}

/// Whether the address is one that is watched.
pub fn is_watched(address: usize) -> bool {
    place_of(address).is_some()
}

/// The first address from here on that is watched.
pub(super) fn next_from(address: usize) -> Option<usize> {
    let ranges = DEVICES.iter().map(range_of).filter(|range| address < range.end && !range.is_empty());
    ranges.map(|range| range.start.max(address)).min()
}

/// Watches whole pages that have no rights and nothing behind them; false if they stay as they are.
pub(super) fn watch(uffd: &Uffd, range: &Range<usize>) -> bool {
    let Some(place) = DEVICES.iter().find(|place| range_of(place).is_empty()) else { return false };
    if uffd.register_missing(range).is_err() {
        return false;
    }
    place[0].store(range.start, Ordering::Release);
    place[1].store(range.end, Ordering::Release);
    // Last: whoever comes is told of from here on.
    let is_open = set_rights(range, libc::PROT_READ | libc::PROT_WRITE);
    if !is_open {
        place[1].store(0, Ordering::Release);
        uffd.unregister(range);
    }
    is_open
}

/// An access to the page fails from here on.
pub(super) fn close(page: usize) {
    set_rights(&(page..page + page_size()), libc::PROT_NONE);
}

/// Accesses to all pages of the range that has the address fail from here on, and are not told.
pub(super) fn close_range(uffd: &Uffd, address: usize) {
    if let Some(place) = place_of(address) {
        let range = range_of(place);
        set_rights(&range, libc::PROT_NONE);
        place[1].store(0, Ordering::Release);
        uffd.unregister(&range);
    }
}

/// The program, or the library, has unmapped some addresses.
pub(super) fn unmapped(range: &Range<usize>) {
    for place in &DEVICES {
        let known = range_of(place);
        if known.start < range.end && range.start < known.end {
            place[1].store(0, Ordering::Release);
        }
    }
}

/// Whether a system call touches pages and makes no use of their bytes.
pub(super) fn is_populating(call: Option<SystemCall>) -> bool {
    call.is_some_and(|call| POPULATING.contains(&call.number))
}

/// In a forked child: accesses fail. Only system calls are made.
pub fn close_in_child() {
    for range in DEVICES.iter().map(range_of).filter(|range| !range.is_empty()) {
        set_rights(&range, libc::PROT_NONE);
    }
}

fn set_rights(range: &Range<usize>, rights: i32) -> bool {
    // SAFETY: addresses of ours, at which nothing lies.
    unsafe { libc::mprotect(range.start as *mut c_void, range.len(), rights) == 0 }
}
