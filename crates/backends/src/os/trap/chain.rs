//! Signal handlers in front of the program's: what is not ours goes where it would have gone without us.

use std::{
    ffi::c_void,
    mem, ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

/// A handler that takes some signals for its own.
pub type Handler = unsafe extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

/// What the program had for a signal when our handler came.
pub struct ChainedHandler(AtomicPtr<libc::sigaction>);

impl ChainedHandler {
    /// Nothing is installed yet.
    pub const fn new() -> ChainedHandler {
        ChainedHandler(AtomicPtr::new(ptr::null_mut()))
    }

    /// Installs the handler, which system calls of the program do not notice. No handler of the program's
    /// runs in the middle of it: that might touch armed memory, for which the monitor has to be free.
    pub fn install(&self, signal: i32, handler: Handler) -> bool {
        // SAFETY: plain data, for which zeroes are a value.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: asks, and writes to a local.
        if unsafe { libc::sigaction(signal, ptr::null(), &mut action) } != 0 {
            return false;
        }
        self.0.store(Box::leak(Box::new(action)), Ordering::Release);
        action.sa_flags = action.sa_flags & libc::SA_ONSTACK | libc::SA_SIGINFO | libc::SA_RESTART;
        action.sa_sigaction = handler as *const () as usize;
        action.sa_mask = all_but_faults();
        // SAFETY: the handler is one for SA_SIGINFO, and what it needs is stored.
        unsafe { libc::sigaction(signal, &action, ptr::null_mut()) == 0 }
    }

    /// Whether the program has put no other handler in the place of ours. Only a system call is made.
    pub fn is_installed(signal: i32, handler: Handler) -> bool {
        // SAFETY: plain data; it asks, and writes to a local.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut action) == 0
                && action.sa_sigaction == handler as *const () as usize
        }
    }

    /// Calls what the program had; false if that is the default action.
    ///
    /// # Safety
    /// The arguments are those of a handler that is running.
    pub unsafe fn call(&self, signal: i32, info: *mut libc::siginfo_t, context: *mut c_void) -> bool {
        // SAFETY: never freed, and stored before the handler was installed.
        let Some(action) = (unsafe { self.0.load(Ordering::Acquire).as_ref() }) else { return false };
        if ![libc::SIG_IGN, libc::SIG_DFL].contains(&action.sa_sigaction) {
            // SAFETY: the kernel's context.
            let before = unsafe { (*context.cast::<libc::ucontext_t>()).uc_sigmask };
            block(&mask_in(action, signal, &before));
        }
        match action.sa_sigaction {
            libc::SIG_IGN => {}
            libc::SIG_DFL => return false,
            handler if action.sa_flags & libc::SA_SIGINFO != 0 => {
                // SAFETY: the program's handler, of the kind that its flags say.
                let handler: Handler = unsafe { mem::transmute(handler) };
                // SAFETY: passed on as the kernel gave them.
                unsafe { handler(signal, info, context) };
            }
            handler => {
                // SAFETY: as above.
                let handler: extern "C" fn(i32) = unsafe { mem::transmute(handler) };
                handler(signal);
            }
        }
        true
    }
}

/// What is blocked while our handlers run: faults of their own take their course.
pub fn all_but_faults() -> libc::sigset_t {
    // SAFETY: plain data, for which zeroes are a value; the calls write to it alone.
    unsafe {
        let mut all = mem::zeroed();
        libc::sigfillset(&mut all);
        for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP] {
            libc::sigdelset(&mut all, fault);
        }
        all
    }
}

/// What is blocked in a handler of the program's, if `before` was when the signal came.
fn mask_in(action: &libc::sigaction, signal: i32, before: &libc::sigset_t) -> libc::sigset_t {
    let mut mask = *before;
    // SAFETY: the calls read sets and write to a local.
    unsafe {
        for other in 1..=libc::SIGRTMAX() {
            if libc::sigismember(&action.sa_mask, other) == 1 {
                libc::sigaddset(&mut mask, other);
            }
        }
        if action.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&mut mask, signal);
        }
    }
    mask
}

/// Has this thread block these signals alone. When a handler returns the kernel sets what was before.
fn block(mask: &libc::sigset_t) {
    // SAFETY: reads a set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, ptr::null_mut()) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_handler_of_the_programs_blocks_what_it_would_have() {
        // SAFETY: plain data, and calls that write to it alone.
        let (mut action, mut before): (libc::sigaction, libc::sigset_t) = unsafe { mem::zeroed() };
        // SAFETY: as above.
        unsafe {
            libc::sigaddset(&mut action.sa_mask, libc::SIGUSR1);
            libc::sigaddset(&mut before, libc::SIGUSR2);
        }
        for (flags, want) in [(0, [1, 1, 1, 0]), (libc::SA_NODEFER, [1, 1, 0, 0])] {
            action.sa_flags = flags;
            let mask = mask_in(&action, libc::SIGURG, &before);
            // SAFETY: reads a set.
            let is_in = |signal| unsafe { libc::sigismember(&mask, signal) };
            assert_eq!([libc::SIGUSR1, libc::SIGUSR2, libc::SIGURG, libc::SIGALRM].map(is_in), want);
        }
    }
}
