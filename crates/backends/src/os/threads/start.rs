//! Starting a thread without Rust's own way of it: in a Rust program that maps a signal stack when the thread
//! begins, and ends the process where nothing more can be mapped.

use super::{super::fault, Mask};
use std::{
    ffi::{CString, c_void},
    io,
    mem::{self, MaybeUninit},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

type Body = Box<dyn FnOnce() + Send>;

/// What a thread begins with.
struct Start {
    name: CString,
    body: Body,
}

/// Starts a detached thread.
pub fn detached(name: &str, stack: usize, body: Body) -> io::Result<()> {
    let name = CString::new(name).unwrap_or_default();
    let start = Box::into_raw(Box::new(Start { name, body }));
    create(stack, start).inspect_err(|_| {
        // SAFETY: no thread was started, so it is still ours.
        drop(unsafe { Box::from_raw(start) });
    })
}

fn create(stack: usize, start: *mut Start) -> io::Result<()> {
    let (mut attributes, mut thread) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let attributes = attributes.as_mut_ptr();
    // SAFETY: the attributes are initialised by the first call and destroyed by the last; `run` takes `start`
    // once.
    unsafe {
        told(libc::pthread_attr_init(attributes))?;
        libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED);
        let created = told(libc::pthread_attr_setstacksize(attributes, stack))
            .and_then(|()| told(libc::pthread_create(thread.as_mut_ptr(), attributes, run, start.cast())));
        libc::pthread_attr_destroy(attributes);
        created
    }
}

fn told(code: i32) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: `detached` made it and gave it to this thread alone.
    let Start { name, body } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: the name is a C string; the kernel cuts it where it is too long.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    // It began with all signals blocked, and ends so: one that is sent to the process must not come to a
    // thread that the handler does not know as ours.
    fault::thread_of_ours();
    Mask::ours().set();
    // Said on stderr by the panic itself; the thread ends.
    let _ = catch_unwind(AssertUnwindSafe(body));
    Mask::all().set();
    ptr::null_mut()
}

/// Threads that borrow what they work on. Dropping this waits for them.
#[derive(Default)]
pub struct JoinedThreads(Arc<(Mutex<usize>, Condvar)>);

impl JoinedThreads {
    /// Starts one more, if the system grants it.
    ///
    /// # Safety
    /// `work` outlives this crew.
    pub unsafe fn join(&self, name: &str, work: &(dyn Fn() + Sync)) -> bool {
        const STACK: usize = 1 << 20;
        // SAFETY: only the lifetime changes: dropping `self` waits until no thread uses it, and the caller
        // promises that it lives so long.
        let work: &'static (dyn Fn() + Sync) = unsafe { mem::transmute(work) };
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let leaves = Leaves(self.0.clone());
        let body = move || {
            let _leaves = leaves;
            work();
        };
        detached(name, STACK, Box::new(body)).is_ok()
    }
}

impl Drop for JoinedThreads {
    fn drop(&mut self) {
        let (count, changed) = &*self.0;
        let mut left = count.lock().unwrap_or_else(PoisonError::into_inner);
        while *left > 0 {
            left = changed.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One of the crew, until it is through or was never started.
struct Leaves(Arc<(Mutex<usize>, Condvar)>);

impl Drop for Leaves {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.1.notify_all();
    }
}
