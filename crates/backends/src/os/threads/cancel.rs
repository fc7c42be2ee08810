//! pthread_cancel while a thread is in a call.
//!
//! A thread must not end in the middle of a call: it may hold locks, and it cannot be unwound through
//! `catch_unwind`. So calls turn cancellation off and look for it once at their end, where nothing is left to
//! be undone. Users' callbacks have it as the program has.

use std::{ffi::c_int, ptr};

// They may end the thread, which unwinds it.
unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

const ENABLED: c_int = 0;
const DISABLED: c_int = 1;
/// The kind of a thread that can be cancelled in some functions only; the other one is anywhere.
const DEFERRED: c_int = 0;

/// Whether a thread could be cancelled, as the program had it.
#[derive(Clone, Copy)]
pub struct Cancelling(c_int);

impl Cancelling {
    /// Turns it off in this thread.
    #[inline(always)]
    pub fn off() -> Cancelling {
        let mut old = DISABLED;
        // SAFETY: `old` can be written. It fails for no other reason than a state that does not exist.
        unsafe { pthread_setcancelstate(DISABLED, &mut old) };
        Cancelling(old)
    }

    /// As it was. If the thread was cancelled meanwhile it ends here, so nothing with a destructor may be
    /// left in its frames.
    #[inline(always)]
    pub fn back(self) {
        if self.0 == ENABLED {
            let mut kind = DEFERRED;
            // Deferred for this while: a thread that glibc 2.36 ends where its state is set has no result, in
            // place of PTHREAD_CANCELED.
            // SAFETY: the kind and the state exist, `kind` can be written, and nobody asks for the old state.
            unsafe {
                pthread_setcanceltype(DEFERRED, &mut kind);
                pthread_setcancelstate(ENABLED, ptr::null_mut());
            }
            end_if_cancelled();
            if kind != DEFERRED {
                // SAFETY: a kind that this thread had, and the old one is not asked for.
                unsafe { pthread_setcanceltype(kind, ptr::null_mut()) };
            }
        }
    }

    /// As it was, and what came meanwhile is not looked for.
    #[inline]
    pub fn back_unseen(self) {
        // SAFETY: a state that this thread had, and the old one is not asked for.
        unsafe { pthread_setcancelstate(self.0, ptr::null_mut()) };
    }
}

/// Ends the thread if it was cancelled, as [`Cancelling::back`] does.
#[inline(always)]
pub fn end_if_cancelled() {
    // SAFETY: nothing is left to be undone, as the caller sees to.
    unsafe { pthread_testcancel() };
}
