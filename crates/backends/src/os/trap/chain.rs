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

    /// Installs the handler, which system calls of the program do not notice.
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
