//! The state of each copying thread, in a slot that a signal handler can read. Slots are found by the
//! thread's number for the kernel: the handler runs on any thread of the process and must not touch
//! thread-local memory of ours, which may have to be allocated first.

use super::Fault;
use std::{
    cell::Cell,
    ffi::c_void,
    mem, ptr,
    sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering},
};

/// Says whether the loop touches an address.
pub type Covers = unsafe fn(*const c_void, usize) -> bool;

/// One thread's. Only that thread uses it, and handlers on it; written for every copy, so alone on its cache
/// line.
#[derive(Default)]
#[repr(align(64))]
pub struct ThreadSlot {
    /// The thread's number for the kernel; 0: the slot is free.
    thread: AtomicI32,
    /// Where the frame of the loop is that runs; 0: none does.
    frame: AtomicUsize,
    /// The thread is one of ours.
    is_ours: AtomicBool,
    /// The handler has blocked a signal that was sent, and that is for the program's threads.
    is_deaf: AtomicBool,
    covers: Cell<Option<(Covers, *const c_void)>>,
    fault: Cell<Option<Fault>>,
    /// The next of all slots, which are never freed.
    next: AtomicPtr<ThreadSlot>,
}

/// The first of all slots.
static FIRST: AtomicPtr<ThreadSlot> = AtomicPtr::new(ptr::null_mut());

thread_local! {
    static MINE: Cell<*const ThreadSlot> = const { Cell::new(ptr::null()) };
    static RELEASE: ReleaseAtExit = const { ReleaseAtExit };
}

/// Gives the thread's slot to others when the thread ends.
struct ReleaseAtExit;

impl Drop for ReleaseAtExit {
    fn drop(&mut self) {
        let mine = MINE.replace(ptr::null());
        // SAFETY: slots are never freed.
        if let Some(slot) = unsafe { mine.as_ref() } {
            slot.is_ours.store(false, Ordering::Relaxed);
            slot.is_deaf.store(false, Ordering::Relaxed);
            slot.thread.store(0, Ordering::Release);
        }
    }
}

/// All slots.
fn all() -> impl Iterator<Item = &'static ThreadSlot> {
    // SAFETY: slots are never freed, and are whole before they are among all.
    let at = |place: &AtomicPtr<ThreadSlot>| unsafe { place.load(Ordering::Acquire).as_ref() };
    std::iter::successors(at(&FIRST), move |slot| at(&slot.next))
}

impl ThreadSlot {
    /// The calling thread's; `None` while the thread ends.
    #[inline]
    pub fn mine() -> Option<&'static ThreadSlot> {
        // SAFETY: slots are never freed.
        unsafe { MINE.get().as_ref() }.or_else(ThreadSlot::take)
    }

    /// A free slot, or a new one.
    #[cold]
    fn take() -> Option<&'static ThreadSlot> {
        RELEASE.try_with(|_| ()).ok()?;
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        let takes = |slot: &&ThreadSlot| {
            slot.thread.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        let slot = all().find(takes).unwrap_or_else(|| ThreadSlot::add(me));
        MINE.set(slot);
        Some(slot)
    }

    fn add(thread: i32) -> &'static ThreadSlot {
        let slot =
            Box::leak(Box::new(ThreadSlot { thread: AtomicI32::new(thread), ..ThreadSlot::default() }));
        let new = ptr::from_ref(slot).cast_mut();
        let behind = |first| {
            slot.next.store(first, Ordering::Relaxed);
            Some(new)
        };
        let _ = FIRST.fetch_update(Ordering::Release, Ordering::Relaxed, behind);
        slot
    }

    /// The slot of a thread, for its handler.
    pub fn of(thread: i32) -> Option<&'static ThreadSlot> {
        all().find(|slot| slot.thread.load(Ordering::Acquire) == thread)
    }

    /// The calling thread is one of ours: signals that are sent to the process are not for it.
    pub fn is_of_ours(&self) {
        self.is_ours.store(true, Ordering::Relaxed);
    }

    /// For the handler: whether a signal that was sent has to go to another thread. If so the caller blocks
    /// it in this one.
    pub fn passes_on(&self) -> bool {
        let is_ours = self.is_ours.load(Ordering::Relaxed);
        self.is_deaf.fetch_or(is_ours, Ordering::Relaxed);
        is_ours
    }

    /// Opens the signals of faults again that the handler has blocked, unless one of them still waits for a
    /// thread of the program's.
    #[cold]
    fn listen_again(&self) {
        // SAFETY: sets of signals on the stack, valid for the calls.
        unsafe {
            let (mut faults, mut pending): (libc::sigset_t, libc::sigset_t) = (mem::zeroed(), mem::zeroed());
            libc::sigemptyset(&mut faults);
            libc::sigpending(&mut pending);
            for signal in super::handler::SIGNALS {
                if libc::sigismember(&pending, signal) == 1 {
                    return;
                }
                libc::sigaddset(&mut faults, signal);
            }
            self.is_deaf.store(false, Ordering::Relaxed);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &faults, ptr::null_mut());
        }
    }

    /// A loop is about to run that touches what `covers` says.
    #[inline]
    pub fn set(&self, covers: Covers, data: *const c_void) {
        if self.is_deaf.load(Ordering::Relaxed) {
            self.listen_again();
        }
        self.covers.set(Some((covers, data)));
    }

    /// Where the address of the loop's frame is kept.
    #[inline]
    pub fn frame(&self) -> *mut usize {
        self.frame.as_ptr()
    }

    /// The frame of the loop that runs, if it touches `addr`.
    pub fn frame_at(&self, addr: usize) -> Option<usize> {
        let frame = self.frame.load(Ordering::Relaxed);
        let (covers, data) = self.covers.get().filter(|_| frame != 0)?;
        // SAFETY: set for the loop that runs now, and both last as long as it.
        unsafe { covers(data, addr) }.then_some(frame)
    }

    /// What the loop met.
    pub fn met(&self, fault: Fault) {
        self.fault.set(Some(fault));
    }

    /// What the loop met that was left.
    pub fn fault(&self) -> Fault {
        self.fault.take().expect("the handler tells before it leaves a loop")
    }
}
