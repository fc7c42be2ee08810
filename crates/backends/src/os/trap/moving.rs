//! Moves of memory of the program's, while other threads may use it: its pages are not in the page table and
//! userfaultfd is told of accesses, so that a thread that comes waits until the new mapping is there. All
//! opening of pages goes through the gate of this module, which a move closes.

use super::{
    step,
    uffd::{Opening, Uffd, take_out},
    watchdog,
};
use crate::os::page::page_size;
use std::{
    ffi::c_void,
    ops::Range,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

const MREMAP_DONTUNMAP: i32 = 4;

/// The pages that are being moved: whoever accesses them waits.
static HELD: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// Threads that are opening pages.
static OPENERS: AtomicUsize = AtomicUsize::new(0);

/// Whether the page is being moved.
pub fn is_held(address: usize) -> bool {
    let [start, end] = [0, 1].map(|word| HELD[word].load(Ordering::SeqCst));
    (start..end).contains(&address)
}

/// Opens pages, unless the first of them is being moved: whoever waits for it is woken when that is done. All
/// opening goes this way, since a page that is opened in the middle of a move would lose what is written to
/// it. Only system calls are made.
pub fn open_pages(uffd: &Uffd, pages: &Range<usize>) {
    // The monitor takes the events that this may have to wait for.
    // SAFETY: lets another thread run.
    open_pages_taking(uffd, pages, Opening::Whole, || unsafe {
        libc::sched_yield();
    });
}

/// The same for the monitor, which takes the events itself.
pub fn open_pages_taking(uffd: &Uffd, pages: &Range<usize>, how: Opening, take_events: impl Fn()) {
    OPENERS.fetch_add(1, Ordering::SeqCst);
    if !is_held(pages.start) {
        uffd.open_pages(pages, how, take_events);
    }
    OPENERS.fetch_sub(1, Ordering::SeqCst);
}

/// The same in one go: false if an event has to be taken first.
pub fn try_open(uffd: &Uffd, pages: &Range<usize>, how: Opening) -> bool {
    OPENERS.fetch_add(1, Ordering::SeqCst);
    let is_open = is_held(pages.start) || uffd.try_open(pages, how);
    OPENERS.fetch_sub(1, Ordering::SeqCst);
    is_open
}

/// From here on nobody opens pages of the range.
fn hold(range: &Range<usize>) {
    HELD[0].store(range.start, Ordering::SeqCst);
    HELD[1].store(range.end, Ordering::SeqCst);
    // Whoever did not see that yet is done in a moment, or was interrupted by a debugger.
    let since = Instant::now();
    while OPENERS.load(Ordering::SeqCst) != 0 && since.elapsed() < Duration::from_secs(1) {
        std::thread::yield_now();
    }
}

/// A move unmaps, too. When it is over that was told, but the monitor may still be about to look whether the
/// memory has gone, and the program may unmap it as soon as it can.
fn let_go(uffd: &Uffd, range: &Range<usize>) {
    watchdog::wait_for_event_in_work();
    HELD[1].store(0, Ordering::Release);
    uffd.wake(range);
}

/// Moves the bytes of private memory of the program's to the engine's, which are as many and zero, and lays
/// those over the program's addresses. One thread at a time.
pub fn move_to_engine(uffd: &Uffd, engine: usize, user: &Range<usize>) -> Result<(), String> {
    uffd.register_missing(user).map_err(|why| format!("userfaultfd: {why}"))?;
    hold(user);
    // Nothing is allocated until all is moved: the allocator's memory may be among it.
    let is_moved = move_to(engine, user);
    let_go(uffd, user);
    if is_moved {
        return Ok(());
    }
    uffd.unregister(user);
    Err("its pages cannot be moved".into())
}

/// Moves the bytes back into private memory; the engine keeps its view. One thread at a time.
pub fn move_to_program(uffd: &Uffd, engine: usize, user: &Range<usize>) {
    let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the system's choice.
    let own = unsafe { libc::mmap(ptr::null_mut(), user.len(), access, flags, -1, 0) };
    if own == libc::MAP_FAILED {
        return;
    }
    hold(user);
    step::wait_for(user);
    if uffd.register_missing(user).is_ok() {
        take_out(user);
        let move_over = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the bytes of the engine's view, which is as long; then the copy is moved over the view of
        // the program, whose bytes it has.
        unsafe {
            copy_pages(engine, own.addr(), user.len());
            libc::mremap(own, user.len(), user.len(), move_over, user.start as *mut c_void);
        }
    }
    let_go(uffd, user);
}

/// Moves the bytes of the program's pages to the engine's, and lays those over the program's addresses.
fn move_to(engine: usize, user: &Range<usize>) -> bool {
    let Some(taken) = take_away(user) else { return false };
    // SAFETY: the pages were taken away from everybody else; the engine's view is as long, and empty.
    unsafe { copy_pages(taken, engine, user.len()) };
    let is_laid = lay(engine, user);
    if is_laid {
        // SAFETY: the pages that were taken away; their bytes are in the engine's view.
        unsafe { libc::munmap(taken as *mut c_void, user.len()) };
    } else {
        let move_over = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        let (from, to) = (taken as *mut c_void, user.start as *mut c_void);
        // SAFETY: puts the pages back.
        unsafe { libc::mremap(from, user.len(), user.len(), move_over, to) };
    }
    is_laid
}

/// Moves the pages of a mapping to other addresses; its own are empty then, and still mapped.
fn take_away(part: &Range<usize>) -> Option<usize> {
    let flags = libc::MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    let (at, len) = (part.start as *mut c_void, part.len());
    // SAFETY: whoever accesses the pages waits until their bytes are back.
    let taken = unsafe { libc::mremap(at, len, len, flags, ptr::null_mut::<c_void>()) };
    (taken != libc::MAP_FAILED).then_some(taken.addr())
}

/// Lays the engine's memory over the program's addresses, too.
fn lay(engine: usize, user: &Range<usize>) -> bool {
    let (from, to) = (engine as *mut c_void, user.start as *mut c_void);
    // SAFETY: the bytes that were at these addresses are in the engine's view; of that, none is taken away,
    // since its length is 0 here.
    let laid = unsafe { libc::mremap(from, 0, user.len(), libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, to) };
    laid != libc::MAP_FAILED
}

/// Copies pages, but for those that are zero: the other side is empty.
///
/// # Safety
/// Both sides are whole pages that are mapped, as long as that.
unsafe fn copy_pages(from: usize, to: usize, len: usize) {
    for offset in (0..len).step_by(page_size()) {
        let (from, to) = ((from + offset) as *const u64, (to + offset) as *mut u64);
        let words = page_size() / 8;
        // SAFETY: the caller's promise.
        unsafe {
            if (0..words).any(|word| from.add(word).read() != 0) {
                ptr::copy_nonoverlapping(from, to, words);
            }
        }
    }
}
