//! The one handler of this library, for SIGSEGV and SIGBUS. It uses nothing but system calls, its own stack
//! and atomics.
//!
//! A fault that is not of our loops is handled as without us: the program's handler is called as the kernel
//! would have called it, and where there was none the default action follows. A signal that was sent by
//! `kill` is never ours.

use super::{Fault, frame, note, slots::ThreadSlot};
use std::{
    ffi::c_void,
    mem, ptr,
    sync::{
        Once, OnceLock,
        atomic::{AtomicBool, AtomicPtr, Ordering},
    },
};

/// The signals of memory that cannot be accessed.
pub(super) const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGBUS];
/// A memory error that was found before it was accessed: it is reported once, and not again when the
/// handler returns.
const BUS_MCEERR_AO: i32 = 5;

/// What the program had for each signal when we came.
static BEFORE: [AtomicPtr<Before>; 2] = [const { AtomicPtr::new(ptr::null_mut()) }; 2];
/// Whether to say so if the program touched a device pointer.
static EXPLAINS: AtomicBool = AtomicBool::new(false);
/// Is told of device pointers that the CPU touched: the address and the kernel's context.
static POINTERS: OnceLock<unsafe fn(usize, *mut c_void)> = OnceLock::new();

/// Has a function be called, in the handler, for each device pointer that the CPU touches from here on.
pub fn tell_pointers_to(tell: unsafe fn(usize, *mut c_void)) {
    let _ = POINTERS.set(tell);
    install();
}

struct Before {
    action: libc::sigaction,
    /// It was for one time only, and that is over.
    is_spent: AtomicBool,
}

/// Installs the handler, once in a process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        SIGNALS.into_iter().zip(&BEFORE).for_each(|(signal, before)| install_for(signal, before))
    });
}

/// Whether a fault of this thread would come to our handler first: no other was installed since, and the
/// thread does not block the signals.
pub fn is_ours_to_meet() -> bool {
    // SAFETY: plain data, for which zeroes are a value.
    let (mut action, mut mask): (libc::sigaction, libc::sigset_t) = unsafe { mem::zeroed() };
    // SAFETY: asks, and writes to a local.
    let is_told = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), &mut mask) } == 0;
    is_told
        && frame::IS_KNOWN
        && SIGNALS.iter().all(|signal| {
            // SAFETY: as above.
            unsafe {
                libc::sigismember(&mask, *signal) == 0
                    && libc::sigaction(*signal, ptr::null(), &mut action) == 0
                    && action.sa_sigaction == on_fault as *const () as usize
            }
        })
}

/// From here on a program that touched a device pointer is told so before it takes its course.
pub fn explain() {
    EXPLAINS.store(true, Ordering::Relaxed);
    install();
}

fn install_for(signal: i32, place: &AtomicPtr<Before>) {
    // SAFETY: plain data, for which zeroes are a value.
    let mut action: libc::sigaction = unsafe { mem::zeroed() };
    // SAFETY: asks, and writes to a local.
    if unsafe { libc::sigaction(signal, ptr::null(), &mut action) } != 0 {
        return;
    }
    place.store(Box::leak(Box::new(Before { action, is_spent: AtomicBool::new(false) })), Ordering::Release);
    // What the program's handler is to find: the same signals blocked, the same stack.
    action.sa_flags &= libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
    if matches!(action.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN) {
        action.sa_flags = libc::SA_ONSTACK;
    }
    action.sa_flags |= libc::SA_SIGINFO;
    action.sa_sigaction = on_fault as *const () as usize;
    // SAFETY: the handler is one for SA_SIGINFO, and what it needs is stored.
    unsafe { libc::sigaction(signal, &action, ptr::null_mut()) };
}

unsafe extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the calling thread's own, which the interrupted code may be about to read.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel gives a valid siginfo to a SA_SIGINFO handler, and one of a fault has the address.
    let (code, addr) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    // A signal that was sent has a code of 0 or less, and no address.
    let is_sent = code <= 0;
    // SAFETY: as the kernel gave them.
    if is_sent && code != libc::SI_TKILL && unsafe { hand_over(signal, info, context) } {
        // SAFETY: as above.
        unsafe { *libc::__errno_location() = errno };
        return;
    }
    // SAFETY: as the kernel gave it.
    if is_sent || !unsafe { recover(Fault { addr, signal, code }, context) } {
        if !is_sent && EXPLAINS.load(Ordering::Relaxed) {
            note::write(addr);
        }
        if let Some(tell) = POINTERS.get().filter(|_| !is_sent && note::is_device(addr)) {
            // SAFETY: as the kernel gave it.
            unsafe { tell(addr, context) };
        }
        // SAFETY: as the kernel gave them.
        unsafe { pass_on(signal, info, context, !is_sent && code != BUS_MCEERR_AO) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// A signal sent to the process is for the program's threads, and may wait for one that asks for it: a thread
/// of ours blocks it and sends it on, as it came.
///
/// # Safety
/// `info` and `context` are the kernel's.
unsafe fn hand_over(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
    // SAFETY: asks for a number.
    if !ThreadSlot::of(unsafe { libc::gettid() }).is_some_and(ThreadSlot::passes_on) {
        return false;
    }
    // SAFETY: the kernel's context, from which it takes the mask when the handler returns, and what it told
    // of the signal.
    unsafe {
        let mut this: libc::sigset_t = mem::zeroed();
        libc::sigaddset(&mut this, signal);
        // The program's flags may have left it open while the handler runs.
        libc::pthread_sigmask(libc::SIG_BLOCK, &this, ptr::null_mut());
        libc::sigaddset(&mut (*context.cast::<libc::ucontext_t>()).uc_sigmask, signal);
    }
    // SAFETY: the kernel told it of the signal.
    send_again(signal, unsafe { &mut *info });
    true
}

/// Sends a signal to the process as it came. The kernel lets no thread but the first pretend that a signal
/// comes from `kill`: if this process sent it, `kill` does the same; else it is queued, in the sender's name.
fn send_again(signal: i32, info: &mut libc::siginfo_t) {
    // SAFETY: no pointer but to what the kernel told of the signal.
    unsafe {
        let process = libc::getpid();
        let queue =
            |info: &libc::siginfo_t| libc::syscall(libc::SYS_rt_sigqueueinfo, process, signal, info) == 0;
        if queue(info) {
            return;
        }
        if info.si_pid() == process {
            libc::kill(process, signal);
        } else {
            info.si_code = libc::SI_QUEUE;
            queue(info);
        }
    }
}

/// Leaves the loop that this thread is in, if the fault is one of the loop's.
///
/// # Safety
/// `context` is the kernel's.
unsafe fn recover(fault: Fault, context: *mut c_void) -> bool {
    // SAFETY: asks for a number.
    let Some(slot) = ThreadSlot::of(unsafe { libc::gettid() }) else { return false };
    let Some(frame) = slot.frame_at(fault.addr) else { return false };
    slot.met(fault);
    // SAFETY: the kernel's context, and the frame of this thread's loop.
    unsafe { frame::leave(context, frame) }
}

/// The course that the signal would have taken. If it `repeats`, it comes again when the handler returns.
///
/// # Safety
/// `info` and `context` are the kernel's.
unsafe fn pass_on(signal: i32, info: *mut libc::siginfo_t, context: *mut c_void, repeats: bool) {
    let place = if signal == libc::SIGBUS { &BEFORE[1] } else { &BEFORE[0] };
    // SAFETY: never freed, and stored before the handler was installed.
    let Some(before) = (unsafe { place.load(Ordering::Acquire).as_ref() }) else { return };
    let Before { action, is_spent } = before;
    let is_once = action.sa_flags & libc::SA_RESETHAND != 0;
    match action.sa_sigaction {
        libc::SIG_IGN if !repeats => {}
        // A fault cannot be ignored.
        libc::SIG_DFL | libc::SIG_IGN => by_default(signal, info, repeats),
        _ if is_once && is_spent.swap(true, Ordering::Relaxed) => by_default(signal, info, repeats),
        handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the program's handler, of the kind that its flags say.
            let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void) =
                unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above.
            let handler: extern "C" fn(i32) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}

/// The default action, as soon as the handler returns.
fn by_default(signal: i32, info: *mut libc::siginfo_t, repeats: bool) {
    // SAFETY: plain data for a valid call; zeroes are the default action without flags. The signal sent is
    // the one that came, with all that was known of it, to the thread that it came to.
    unsafe {
        let action: libc::sigaction = mem::zeroed();
        libc::sigaction(signal, &action, ptr::null_mut());
        if !repeats {
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, libc::getpid(), libc::gettid(), signal, info);
        }
    }
}
