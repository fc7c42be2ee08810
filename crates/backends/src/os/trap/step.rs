//! One instruction of a thread with some armed pages open: the trap flag is set, and when the CPU has done
//! the instruction, the handler of SIGTRAP arms the pages again. It does so behind system calls, too
//! (`after_call`).
//!
//! All of it runs in signal handlers: system calls, atomics, and a table of a fixed size. Only x86_64 has the
//! flag; elsewhere no thread can step.

use super::{
    after_call,
    chain::{ChainedHandler, all_but_faults},
    operand::OperandAddress,
    place::{self, ThreadPlace},
    uffd::{PageView, Uffd},
};
use std::{
    cell::UnsafeCell,
    ffi::c_void,
    mem::{self, MaybeUninit},
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering},
    },
};

/// Threads that can step at the same time.
const THREADS: usize = 64;
/// Pages that one instruction may touch: two ends, each of which may lie across a border.
const PAGES: usize = 4;

/// The instruction that a thread is stepped over.
struct SingleStep {
    /// The thread; 0 if the entry is free.
    thread: AtomicI32,
    /// Pages that are open for it; 0 for none.
    pages: [AtomicUsize; PAGES],
    /// The thread blocked SIGTRAP, and is to do so again.
    blocks: AtomicBool,
    /// The register whose value was changed for it, counted from 1, or 0 for none; how much is to be taken
    /// from it afterwards; and the signals that the thread blocks otherwise.
    moved: AtomicUsize,
    by: AtomicUsize,
    mask: UnsafeCell<MaybeUninit<libc::sigset_t>>,
}

// SAFETY: the thread of an entry alone uses the mask, in its handlers.
unsafe impl Sync for SingleStep {}

static STEPS: [SingleStep; THREADS] = [const {
    SingleStep {
        thread: AtomicI32::new(0),
        pages: [const { AtomicUsize::new(0) }; PAGES],
        blocks: AtomicBool::new(false),
        moved: AtomicUsize::new(0),
        by: AtomicUsize::new(0),
        mask: UnsafeCell::new(MaybeUninit::uninit()),
    }
}; THREADS];

static BEFORE: ChainedHandler = ChainedHandler::new();
static UFFD: OnceLock<&'static Uffd> = OnceLock::new();

/// Whether threads can be stepped from here on.
pub fn install(uffd: &'static Uffd) -> bool {
    let _ = UFFD.set(uffd);
    after_call::install(uffd);
    flags::IS_KNOWN && BEFORE.install(libc::SIGTRAP, on_trap)
}

/// Has the interrupted thread run one instruction with the page open, and then arms it. False if it cannot,
/// and then nothing has changed.
///
/// # Safety
/// `context` is the kernel's, in a handler that interrupted this thread.
pub unsafe fn begin(context: *mut c_void, page: usize) -> bool {
    if !flags::IS_KNOWN || !ChainedHandler::is_installed(libc::SIGTRAP, on_trap) {
        return false;
    }
    // SAFETY: the caller's promise.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let Some(step) = SingleStep::mine() else { return false };
    if !flags::is_set(context) {
        // New, or left over from a handler of the program's that did not return.
        step.arm_pages();
        step.moved.store(0, Ordering::Relaxed);
        // SAFETY: the mask that the kernel gives back to the thread.
        step.blocks.store(unsafe { unblock(&mut context.uc_sigmask) }, Ordering::Relaxed);
    }
    let Some(free) =
        step.pages.iter().find(|open| matches!(open.load(Ordering::Relaxed), at if at == 0 || at == page))
    else {
        return false;
    };
    free.store(page, Ordering::SeqCst);
    flags::set(context);
    true
}

/// Has the interrupted thread run one instruction with `by` added to the base of its operand, so that it
/// accesses the same bytes in the engine's view, and no page is opened for others. False if it cannot, and
/// then nothing has changed. No signal is handled in between, which could leave the register so.
///
/// # Safety
/// `context` is the kernel's, in a handler that interrupted this thread at the instruction that the operand
/// is of.
pub unsafe fn begin_elsewhere(context: *mut c_void, operand: OperandAddress, by: usize) -> bool {
    if !flags::IS_KNOWN || !ChainedHandler::is_installed(libc::SIGTRAP, on_trap) {
        return false;
    }
    // SAFETY: the caller's promise.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let Some(step) = SingleStep::mine().filter(|_| !flags::is_set(context)) else { return false };
    // Left over from a handler of the program's that did not return.
    step.arm_pages();
    // SAFETY: this thread's entry, and it runs here.
    unsafe { (*step.mask.get()).write(context.uc_sigmask) };
    context.uc_sigmask = all_but_faults();
    let taken_back = if operand.is_overwritten { 0 } else { by };
    step.by.store(taken_back, Ordering::Relaxed);
    step.moved.store(operand.base + 1, Ordering::Relaxed);
    flags::add(context, operand.base, by);
    flags::set(context);
    true
}

/// Has the page armed when the thread has left the system call that it is in. False if it cannot.
pub fn arm_behind_call(thread: i32, place: ThreadPlace, page: usize) -> bool {
    let can_trap =
        |status: place::ThreadStatus| !status.is_traced && status.blocked >> (libc::SIGTRAP - 1) & 1 == 0;
    flags::IS_KNOWN
        && ChainedHandler::is_installed(libc::SIGTRAP, on_trap)
        && place::status_of(thread).is_some_and(can_trap)
        && after_call::arm_behind(thread, place, page)
}

/// Waits until no thread is inside a step that has pages of this range open; none is armed behind a system
/// call any more.
pub fn wait_for(range: &Range<usize>) {
    after_call::leave(range);
    let is_open = |page: &AtomicUsize| range.contains(&page.load(Ordering::SeqCst));
    for _ in 0..1000 {
        let is_busy = STEPS.iter().any(|step| step.pages.iter().any(is_open));
        if !is_busy {
            return;
        }
        std::thread::yield_now();
    }
}

impl SingleStep {
    /// The entry of the calling thread, which it keeps until its step is over.
    fn mine() -> Option<&'static SingleStep> {
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        STEPS.iter().find(|step| step.thread.load(Ordering::Relaxed) == me).or_else(|| {
            let claim = |step: &&SingleStep| {
                step.thread.compare_exchange(0, me, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            };
            STEPS.iter().find(claim)
        })
    }

    fn arm_pages(&self) {
        for page in &self.pages {
            let start = page.load(Ordering::Relaxed);
            if let Some(uffd) = UFFD.get().filter(|_| start != 0) {
                while uffd.arm_watched(start) == PageView::Unmapping {
                    // SAFETY: lets another thread run; the monitor reads the event.
                    unsafe { libc::sched_yield() };
                }
            }
            page.store(0, Ordering::SeqCst);
        }
    }
}

/// Takes SIGTRAP out of a mask; whether it was in.
///
/// # Safety
/// The mask is one.
unsafe fn unblock(mask: &mut libc::sigset_t) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let was = libc::sigismember(mask, libc::SIGTRAP) == 1;
        libc::sigdelset(mask, libc::SIGTRAP);
        was
    }
}

unsafe extern "C" fn on_trap(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the calling thread's own, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: as the kernel gave them.
    unsafe { handle_trap(signal, info, context) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// # Safety
/// The arguments are those of a handler that is running.
unsafe fn handle_trap(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    const TRAP_TRACE: i32 = 2;
    // SAFETY: the kernel gives both to a SA_SIGINFO handler.
    let (code, user) = unsafe { ((*info).si_code, &mut *context.cast::<libc::ucontext_t>()) };
    if code == TRAP_TRACE && flags::is_set(user) {
        // SAFETY: asks for a number.
        let me = unsafe { libc::gettid() };
        if let Some(step) = STEPS.iter().find(|step| step.thread.load(Ordering::Relaxed) == me) {
            flags::clear(user);
            let moved = step.moved.swap(0, Ordering::Relaxed);
            if moved > 0 {
                flags::add(user, moved - 1, step.by.load(Ordering::Relaxed).wrapping_neg());
                // SAFETY: written when the step began; this thread's.
                user.uc_sigmask = unsafe { (*step.mask.get()).assume_init_read() };
                return step.thread.store(0, Ordering::Release);
            }
            step.arm_pages();
            if step.blocks.swap(false, Ordering::Relaxed) {
                // SAFETY: the mask that the kernel gives back to the thread.
                unsafe { libc::sigaddset(&mut user.uc_sigmask, libc::SIGTRAP) };
            }
            return step.thread.store(0, Ordering::Release);
        }
    }
    // SAFETY: as the kernel gave them.
    if unsafe { after_call::has_ended(info, user) } {
        return;
    }
    // SAFETY: as the kernel gave them.
    if unsafe { BEFORE.call(signal, info, context) } {
        return;
    }
    if code == TRAP_TRACE {
        // A step that was interrupted by a handler in which another one ended.
        return flags::clear(user);
    }
    // SAFETY: plain data for a valid call; zeroes are the default action without flags.
    unsafe {
        let action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &action, std::ptr::null_mut());
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info);
    }
}

#[cfg(target_arch = "x86_64")]
mod flags {
    const TRAP: i64 = 1 << 8;
    pub const IS_KNOWN: bool = true;

    pub fn is_set(context: &libc::ucontext_t) -> bool {
        context.uc_mcontext.gregs[libc::REG_EFL as usize] & TRAP != 0
    }

    pub fn set(context: &mut libc::ucontext_t) {
        context.uc_mcontext.gregs[libc::REG_EFL as usize] |= TRAP;
    }

    pub fn clear(context: &mut libc::ucontext_t) {
        context.uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP;
    }

    /// Adds to a general register, by its number in instructions.
    pub fn add(context: &mut libc::ucontext_t, register: usize, by: usize) {
        let value = &mut context.uc_mcontext.gregs[super::super::operand::IN_CONTEXT[register] as usize];
        *value = value.wrapping_add(by as i64);
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod flags {
    pub const IS_KNOWN: bool = false;

    pub fn is_set(_: &libc::ucontext_t) -> bool {
        false
    }

    pub fn set(_: &mut libc::ucontext_t) {}

    pub fn clear(_: &mut libc::ucontext_t) {}

    pub fn add(_: &mut libc::ucontext_t, _: usize, _: usize) {}
}
