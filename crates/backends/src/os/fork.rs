//! Tells a process from its children, whichever way those were made: `fork`, `_Fork`, `clone` or the system
//! call itself. A child has a copy of everything but the threads and the devices, so nothing in it can go on.
//!
//! The kernel does it: a page is mapped so that a child finds it cleared (`MADV_WIPEONFORK`), and asking is
//! two loads. Where the kernel cannot, the number of the process is compared. A child that shares the
//! parent's memory (`vfork`, `CLONE_VM`) is not told apart: there it is the parent's engine that answers, and
//! its threads that work.

use super::{files, page::page_size};
use ferry_core::{Error, Kind, Result};
use std::{
    io, ptr,
    sync::{
        Once,
        atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
    },
};

/// What a page says in the process that wrote it.
const OURS: u32 = 1;
/// What a page says where the kernel does not clear pages: whether it is the same process has to be asked.
const ASK: u32 = 2;

#[repr(C)]
struct MarkPage {
    state: AtomicU32,
    process: AtomicU32,
}

/// The page of a mark that was never set: no process is a child.
static UNSET: MarkPage = MarkPage { state: AtomicU32::new(OURS), process: AtomicU32::new(0) };

/// Something that is true of the process that set it and of none of its children.
pub struct ForkMark {
    /// What is looked at.
    current: AtomicPtr<MarkPage>,
    /// The page of this mark, once it has one.
    own: AtomicPtr<MarkPage>,
}

impl ForkMark {
    /// A mark that is not set yet.
    pub const fn new() -> ForkMark {
        ForkMark {
            current: AtomicPtr::new((&raw const UNSET).cast_mut()),
            own: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Sets it: from here on children are told. A child that sets it again is no child any more. One thread
    /// at a time.
    pub fn set(&self) -> io::Result<()> {
        let mut own = self.own.load(Ordering::Relaxed);
        if own.is_null() {
            own = new_page()?;
            self.own.store(own, Ordering::Relaxed);
        }
        // SAFETY: the page of this mark, which lives as long as it does.
        let page = unsafe { &*own };
        page.process.store(std::process::id(), Ordering::Relaxed);
        // In a child it was cleared, and is in that child's children, since they inherit the advice.
        let _ = page.state.compare_exchange(0, OURS, Ordering::Release, Ordering::Relaxed);
        // Last: until then others look at a page that may be cleared.
        self.current.store(own, Ordering::Release);
        Ok(())
    }

    /// Takes it back. The page stays: another thread may be reading it.
    pub fn unset(&self) {
        self.current.store((&raw const UNSET).cast_mut(), Ordering::Release);
    }

    /// Whether this process is a child of the one that set the mark.
    #[inline]
    pub fn is_child(&self) -> bool {
        self.page().state.load(Ordering::Relaxed) != OURS && self.is_other_process()
    }

    /// Refuses what cannot be done in a child.
    #[inline]
    pub fn is_no_child(&self) -> Result<()> {
        if self.is_child() { Err(lost()) } else { Ok(()) }
    }

    #[cold]
    fn is_other_process(&self) -> bool {
        let page = self.page();
        page.state.load(Ordering::Relaxed) != ASK
            || page.process.load(Ordering::Relaxed) != std::process::id()
    }

    #[inline]
    fn page(&self) -> &MarkPage {
        // SAFETY: the pointer is to a static, or to the page of this mark, which lives as long as it does.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }
}

#[cold]
fn lost() -> Error {
    Kind::Lost
        .because("this process was forked from the one that opened the device: devices do not survive a fork")
}

impl Drop for ForkMark {
    fn drop(&mut self) {
        let own = *self.own.get_mut();
        if !own.is_null() {
            // SAFETY: made by `new_page`, and no reference to it is left.
            unsafe { libc::munmap(own.cast(), page_size()) };
        }
    }
}

impl Default for ForkMark {
    fn default() -> ForkMark {
        ForkMark::new()
    }
}

/// A page of its own, so that clearing it clears nothing else.
fn new_page() -> io::Result<*mut MarkPage> {
    let (len, rights) = (page_size(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, wherever the kernel likes.
    let page = unsafe { libc::mmap(ptr::null_mut(), len, rights, flags, -1, 0) };
    if page == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: advice for the mapping just made.
    let wiped = unsafe { libc::madvise(page, len, libc::MADV_WIPEONFORK) } == 0;
    let state = AtomicU32::new(if wiped { OURS } else { ASK });
    let page = page.cast::<MarkPage>();
    // SAFETY: the mapping is as large as a page of memory, and no other thread has seen it.
    unsafe { page.write(MarkPage { state, process: AtomicU32::new(std::process::id()) }) };
    Ok(page)
}

/// Whether the C library's `fork` made a process above this one, or this one: its locks, such as the
/// allocator's, can be used in the child. After `_Fork` and `clone` a thread that does not exist there may
/// hold them for ever.
pub fn by_c_library() -> bool {
    BY_C_LIBRARY.load(Ordering::Relaxed)
}

static BY_C_LIBRARY: AtomicBool = AtomicBool::new(false);

/// Has the C library tell us of `fork`. Kept descriptors are closed in the child.
///
/// Called as soon as the library is loaded: of the handlers that run before a fork, those that were
/// registered first come last. So a handler of the program's that waits for a lock does so before we hold
/// what is kept.
pub fn watch() -> io::Result<()> {
    static ASKED: Once = Once::new();
    static REFUSED: AtomicBool = AtomicBool::new(false);
    ASKED.call_once(|| {
        // SAFETY: the handlers lock, unlock and close what is ours.
        let code = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        REFUSED.store(code != 0, Ordering::Relaxed);
    });
    if REFUSED.load(Ordering::Relaxed) { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(()) }
}

extern "C" fn before() {
    files::lock_for_fork();
}

extern "C" fn in_parent() {
    files::unlock_after_fork();
}

extern "C" fn in_child() {
    BY_C_LIBRARY.store(true, Ordering::Relaxed);
    files::close_all();
    files::unlock_after_fork();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What a child of the system call itself answers.
    fn in_raw_child(answer: impl FnOnce() -> i32) -> i32 {
        // SAFETY: as fork without the C library; the child only looks and ends.
        match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
            // SAFETY: ends the child.
            0 => unsafe { libc::_exit(answer()) },
            pid => {
                let mut status = 0;
                // SAFETY: waits for the child just made.
                assert_eq!(unsafe { libc::waitpid(pid as i32, &mut status, 0) }, pid as i32);
                libc::WEXITSTATUS(status)
            }
        }
    }

    #[test]
    fn a_child_of_any_kind_is_told_until_it_sets_the_mark_itself() {
        let mark = ForkMark::new();
        assert_eq!((mark.is_child(), in_raw_child(|| mark.is_child().into())), (false, 0), "not set");
        mark.set().expect("a page");
        assert_eq!((mark.is_child(), in_raw_child(|| mark.is_child().into())), (false, 1));
        let grandchild = || {
            let _ = mark.set();
            i32::from(mark.is_child()) + 2 * in_raw_child(|| mark.is_child().into())
        };
        assert_eq!(in_raw_child(grandchild), 2, "a process of its own, with children of its own");
        mark.unset();
        assert_eq!(in_raw_child(|| mark.is_child().into()), 0);
    }

    #[test]
    fn without_the_kernels_help_processes_are_compared() {
        let mark = ForkMark::new();
        mark.set().expect("a page");
        mark.page().state.store(ASK, Ordering::Relaxed);
        assert!(!mark.is_child());
        mark.page().process.store(1, Ordering::Relaxed);
        assert!(mark.is_child());
        mark.set().expect("set already");
        assert!(!mark.is_child());
    }
}
