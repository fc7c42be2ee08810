//! Pages that are open for a system call are armed again when it returns.
//!
//! A thread inside a system call cannot be stepped, and a signal would interrupt the call. So it is caught
//! when it is back in the program: by a breakpoint of the processor behind the call (`breakpoint`), or where
//! there is none (a sandbox, four others in use) by a restartable sequence (`call_end`). Either ends in the
//! handler of SIGTRAP. Where neither can be had, pages stay open. The pages of a call that lasts are armed
//! while it does: what the call touches again, the kernel tells of again.
//!
//! The monitor hooks and unhooks calls; the handler of SIGTRAP makes system calls and uses atomics.

use super::{
    breakpoint, call_end,
    place::{self, ThreadPlace},
    uffd::{PageView, Uffd},
};
use crate::os::{files::Kept, page::page_size};
use std::{
    ops::Range,
    os::fd::AsRawFd,
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering},
    },
};

/// Threads that can be inside such calls at the same time.
const THREADS: usize = call_end::STUBS;
/// Ranges of pages that one call may touch: more stay open.
const RANGES: usize = 8;

/// What hooks a call if not a breakpoint, by its descriptor.
const NOTHING: i32 = -1;
const STUB: i32 = -2;

/// A call that has pages open.
struct OpenCall {
    /// The thread; 0 if the entry is free.
    thread: AtomicI32,
    /// What catches the thread.
    hook: AtomicI32,
    /// The stack pointer of the call.
    sp: AtomicU64,
    /// Who changes the ranges or arms them has this.
    is_locked: AtomicBool,
    /// Whether the ranges have been looked at since the last page came.
    is_old: AtomicBool,
    ranges: [[AtomicUsize; 2]; RANGES],
}

static CALLS: [OpenCall; THREADS] = [const { OpenCall::new() }; THREADS];
static UFFD: OnceLock<&'static Uffd> = OnceLock::new();

/// The breakpoints of the entries, of which each is closed when its entry is taken again.
static BREAKPOINTS: Mutex<[Option<(Kept, u64)>; THREADS]> = Mutex::new([const { None }; THREADS]);

/// Before anything else.
pub fn install(uffd: &'static Uffd) {
    let _ = UFFD.set(uffd);
}

/// Has this page armed when the thread has left the call that it is in. Called by the monitor. False if that
/// cannot be, and then nothing has changed.
pub fn arm_behind(thread: i32, place: ThreadPlace, page: usize) -> bool {
    let mut breakpoints = BREAKPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(number) = entry_of(thread, place.sp) else { return false };
    let (call, breakpoint) = (&CALLS[number], &mut breakpoints[number]);
    let is_there = match call.hook.load(Ordering::SeqCst) {
        STUB => call_end::returns_to(number) == place.pc && call_end::is_placed(number, thread),
        hook => hook >= 0 && breakpoint.as_ref().is_some_and(|(file, pc)| *pc == place.pc && file.is_ours()),
    };
    if !is_there {
        // The thread has left another call by a jump, or the entry is new.
        if !call.try_arm() {
            return false;
        }
        *breakpoint = None;
    }
    if !call.add(page) {
        return !is_there && call.release();
    }
    is_there || call.hook_by(number, thread, place, breakpoint) || {
        // It stays open until its next op, whatever the time.
        call.leave(&(page..page + page_size()));
        call.release()
    }
}

/// The entry of a thread, or one that is free.
fn entry_of(thread: i32, sp: u64) -> Option<usize> {
    let owner = |call: &OpenCall| call.thread.load(Ordering::SeqCst);
    // The thread may be in a handler of the program's, and come to the stub when that returns; not if it is
    // in a call at the same place of its stack.
    let is_on_its_way = |number: usize| {
        let call = &CALLS[number];
        let is_stub = call.hook.load(Ordering::SeqCst) == STUB && call.sp.load(Ordering::SeqCst) != sp;
        is_stub && !call_end::is_placed(number, thread)
    };
    let mine = (0..THREADS).find(|number| owner(&CALLS[*number]) == thread && !is_on_its_way(*number));
    mine.or_else(|| {
        let is_gone = |call: &OpenCall| owner(call) != 0 && !place::is_ours(owner(call));
        for gone in CALLS.iter().filter(|call| is_gone(call)) {
            if gone.try_arm() {
                gone.release();
            }
        }
        let free = CALLS.iter().position(|call| owner(call) == 0)?;
        CALLS[free].thread.store(thread, Ordering::SeqCst);
        Some(free)
    })
}

/// These pages are somebody else's from now on: they are not armed any more.
pub fn leave(range: &Range<usize>) {
    all_calls().for_each(|call| call.leave(range));
}

/// Pages that are open for calls of which the kernel does not say where they return to.
static UNKNOWN: OpenCall = OpenCall::new();

/// Has this page armed when some time has passed.
pub fn arm_soon(page: usize) {
    UNKNOWN.add(page);
}

fn all_calls() -> impl Iterator<Item = &'static OpenCall> {
    CALLS.iter().chain([&UNKNOWN])
}

/// Whether a call has pages open.
pub fn is_any_open() -> bool {
    all_calls().any(OpenCall::has_open)
}

/// Arms the pages of calls that have not returned, if they were open when this was called before: whoever a
/// page is opened for has the time to use it. Called by the monitor.
pub fn arm_meanwhile() {
    for call in all_calls().filter(|call| call.has_open()) {
        if call.is_old.swap(true, Ordering::SeqCst) {
            call.try_arm();
        }
    }
}

/// SIGTRAP came. Says whether it was for the end of a call; the pages that were open for it are armed then.
///
/// # Safety
/// `info` is the kernel's, in a handler that interrupted this thread.
pub unsafe fn has_ended(info: *const libc::siginfo_t, context: &mut libc::ucontext_t) -> bool {
    // SAFETY: asks for a number.
    let me = unsafe { libc::gettid() };
    if let Some(number) = call_end::stub_at(context) {
        call_end::go_on_at(context, call_end::returns_to(number));
        // In a forked child the entry is its parent's.
        if CALLS[number].thread.load(Ordering::SeqCst) == me {
            CALLS[number].end();
        }
        return true;
    }
    // SAFETY: the kernel's.
    if !unsafe { breakpoint::has_sent(info, mark()) } {
        return false;
    }
    let is_mine =
        |call: &&OpenCall| call.thread.load(Ordering::SeqCst) == me && call.hook.load(Ordering::SeqCst) >= 0;
    if let Some(call) = CALLS.iter().find(is_mine) {
        breakpoint::disable(call.hook.swap(NOTHING, Ordering::SeqCst));
        call.end();
    }
    true
}

impl OpenCall {
    /// A free entry.
    const fn new() -> OpenCall {
        OpenCall {
            thread: AtomicI32::new(0),
            hook: AtomicI32::new(NOTHING),
            sp: AtomicU64::new(0),
            is_locked: AtomicBool::new(false),
            is_old: AtomicBool::new(false),
            ranges: [const { [const { AtomicUsize::new(0) }; 2] }; RANGES],
        }
    }

    /// With the lock, which is held for some system calls at most.
    fn locked<T>(&self, then: impl FnOnce() -> T) -> T {
        while self.is_locked.swap(true, Ordering::Acquire) {
            // SAFETY: lets another thread run.
            unsafe { libc::sched_yield() };
        }
        let result = then();
        self.is_locked.store(false, Ordering::Release);
        result
    }

    /// Has the thread caught behind its call; false if it cannot be.
    fn hook_by(
        &self,
        number: usize,
        thread: i32,
        place: ThreadPlace,
        breakpoint: &mut Option<(Kept, u64)>,
    ) -> bool {
        let Ok(file) = Kept::open(|| breakpoint::open(thread, place.pc, mark())) else {
            self.sp.store(place.sp, Ordering::SeqCst);
            self.hook.store(STUB, Ordering::SeqCst);
            return call_end::place_stub(number, thread, place);
        };
        self.hook.store(file.get().map_or(NOTHING, |file| file.as_raw_fd()), Ordering::SeqCst);
        *breakpoint = Some((file, place.pc));
        true
    }

    /// Adds a page. False if there is no room.
    fn add(&self, page: usize) -> bool {
        self.locked(|| {
            let fits = |[start, end]: &&[AtomicUsize; 2]| {
                let (start, end) = (start.load(Ordering::SeqCst), end.load(Ordering::SeqCst));
                end <= start || end == page || (start..end).contains(&page)
            };
            let Some([start, end]) = self.ranges.iter().find(fits) else { return false };
            if end.load(Ordering::SeqCst) <= start.load(Ordering::SeqCst) {
                start.store(page, Ordering::SeqCst);
            }
            end.fetch_max(page + page_size(), Ordering::SeqCst);
            self.is_old.store(false, Ordering::SeqCst);
            true
        })
    }

    fn leave(&self, range: &Range<usize>) {
        self.locked(|| {
            for [start, end] in &self.ranges {
                if start.load(Ordering::SeqCst) < range.end && range.start < end.load(Ordering::SeqCst) {
                    end.store(0, Ordering::SeqCst);
                }
            }
        });
    }

    fn has_open(&self) -> bool {
        let is_open =
            |[start, end]: &[AtomicUsize; 2]| start.load(Ordering::SeqCst) < end.load(Ordering::SeqCst);
        self.ranges.iter().any(is_open)
    }

    /// Arms the pages. False if an event has to be read first; the rest is left.
    fn try_arm(&self) -> bool {
        let Some(uffd) = UFFD.get() else { return true };
        self.try_arm_by(|page| uffd.arm_watched(page))
    }

    fn try_arm_by(&self, arm: impl Fn(usize) -> PageView) -> bool {
        self.locked(|| {
            self.ranges.iter().all(|[start, end]| {
                while start.load(Ordering::SeqCst) < end.load(Ordering::SeqCst) {
                    if arm(start.load(Ordering::SeqCst)) == PageView::Unmapping {
                        return false;
                    }
                    start.fetch_add(page_size(), Ordering::SeqCst);
                }
                end.store(0, Ordering::SeqCst);
                true
            })
        })
    }

    /// The call has ended: arms the pages.
    fn end(&self) {
        // Without the lock meanwhile: the monitor reads the event, and may want it.
        while !self.try_arm() {
            // SAFETY: lets another thread run.
            unsafe { libc::sched_yield() };
        }
        self.release();
    }

    /// The entry is free. Always false.
    fn release(&self) -> bool {
        self.hook.store(NOTHING, Ordering::SeqCst);
        self.thread.store(0, Ordering::SeqCst);
        false
    }
}

/// A word that no other breakpoint has.
fn mark() -> u64 {
    (&raw const CALLS).addr() as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn pages_are_armed_unless_they_were_left() {
        let page = page_size();
        let (call, armed) = (OpenCall::new(), RefCell::new(Vec::new()));
        assert!([0, 1, 1, 3, 5].into_iter().all(|number| call.add((8 + number) * page)));
        call.leave(&(11 * page..12 * page));
        let arm = |at: usize| {
            armed.borrow_mut().push(at / page - 8);
            if at == 13 * page { PageView::Unmapping } else { PageView::Watched }
        };
        assert!(!call.try_arm_by(arm) && call.has_open());
        assert_eq!(armed.take(), [0, 1, 5]);
        assert!(call.try_arm_by(|at| if at == 13 * page { PageView::Other } else { PageView::Unmapping }));
        assert!(!call.has_open());
        assert!((0..RANGES).all(|number| call.add((8 + 2 * number) * page)));
        assert!(!call.add((8 + 2 * RANGES) * page), "no room");
    }
}
