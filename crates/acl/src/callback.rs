//! Functions of the user's that the library calls, such as those of aclrtLaunchCallback and
//! aclrtLaunchHostFunc.
//!
//! They have to return. A C++ exception that leaves one ends the process, with a message that names it. Where
//! the thread is the user's the function may end it, or leave by longjmp: the frames between have nothing to
//! drop.
//!
//! `mailbox.rs` keeps callbacks for the threads that run them, `turns.rs` is where such a thread is. Nothing
//! here knows the tables of the process: arrows point up, to `state` and `rules/report.rs`.

pub(crate) mod mailbox;
pub mod turns;

use crate::log::{self, Level, Module};
use std::{
    ffi::{CStr, c_uint, c_void},
    hint::black_box,
    io::Write,
};

/// A C function. It may leave in other ways than by returning.
pub type UserFunction = unsafe extern "C-unwind" fn(*mut c_void);
/// A C function that releases the argument of a callback that never runs.
pub type ForgetFunction = unsafe extern "C" fn(*mut c_void);

/// A function and its argument. Unless it is taken to be run, `forget` is called with the argument in the
/// end.
pub struct Callback {
    ready: ReadyCallback,
    forget: Option<ForgetFunction>,
}

/// A function that is about to run.
#[derive(Clone, Copy)]
pub struct ReadyCallback {
    function: UserFunction,
    data: usize,
    /// The call that launched it.
    by: &'static str,
}

impl Callback {
    /// The function and argument that the call `by` was given.
    ///
    /// # Safety
    /// The function may be called with `data`, or `forget` instead, once, on any thread that the call lets
    /// run it.
    pub unsafe fn new(
        by: &'static str,
        function: UserFunction,
        data: usize,
        forget: Option<ForgetFunction>,
    ) -> Callback {
        Callback { ready: ReadyCallback { function, data, by }, forget }
    }

    /// The function, to be run once more than it is here. Its argument is released with `self`.
    pub(crate) fn again(&self) -> Callback {
        Callback { ready: self.ready, forget: None }
    }

    /// Takes it to be run.
    pub fn take(mut self) -> ReadyCallback {
        self.forget = None;
        self.ready
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        // SAFETY: the promise to `new`; it was not taken to be run.
        self.forget.iter().for_each(|forget| unsafe { forget(self.ready.data as *mut c_void) });
    }
}

impl ReadyCallback {
    /// Runs it, at least `DEPTH` bytes below the caller's frame.
    pub fn run_deep(self) {
        let room = [0_u8; DEPTH];
        black_box(&room);
        shield(&self, true);
        black_box(&room);
    }

    /// Runs it on a thread of the library's, which it must not end.
    pub fn run_here(self) {
        shield(&self, false);
    }
}

/// See [`ReadyCallback::run_deep`].
pub const DEPTH: usize = 8 << 10;

/// Stops an unwinding that leaves the function, unless it is the end of the thread: a frame of `extern "C"`
/// aborts the process. It has nothing to drop, since a destructor would keep the thread from ending.
#[inline(never)]
extern "C" fn shield(ready: &ReadyCallback, may_end_thread: bool) {
    call(ready, may_end_thread);
}

#[inline(never)]
fn call(ready: &ReadyCallback, may_end_thread: bool) {
    let left = Left { ready, may_end_thread };
    // SAFETY: the promise to `Callback::new`: a `ReadyCallback` is made to be run once.
    unsafe { (ready.function)(ready.data as *mut c_void) };
    std::mem::forget(left);
}

/// Dropped only if a function has left without returning.
struct Left<'a> {
    ready: &'a ReadyCallback,
    may_end_thread: bool,
}

impl Drop for Left<'_> {
    fn drop(&mut self) {
        if exception_is_in_flight() {
            self.ready.end_process("was left by an exception");
        }
        if !self.may_end_thread {
            self.ready.end_process("ended a thread of the library's");
        }
    }
}

impl ReadyCallback {
    fn end_process(&self, what: &str) -> ! {
        let ReadyCallback { function, by, .. } = self;
        let text = format!(
            "ferry: the function at {:p}{}, given to {by}, {what}: it has to return. The process ends.\n",
            *function,
            place(*function as *const c_void)
        );
        log::write(Module::Ascendcl, Level::Error, || text.trim_end().to_owned());
        let _ = std::io::stderr().write_all(text.as_bytes());
        std::process::abort()
    }
}

/// The name of a function and where it lies in its file, as far as the loader knows.
fn place(function: *const c_void) -> String {
    // SAFETY: plain data for dladdr to fill.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked about.
    if unsafe { libc::dladdr(function, &mut info) } == 0 || info.dli_fname.is_null() {
        return String::new();
    }
    // SAFETY: dladdr gave a C string of a file that is loaded.
    let text = |text| unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let name = if info.dli_sname.is_null() { String::new() } else { format!("{} in ", text(info.dli_sname)) };
    format!(" ({name}{}+{:#x})", text(info.dli_fname), function as usize - info.dli_fbase as usize)
}

/// Whether a C++ exception is on its way, and not the end of a thread. Where C++ cannot be asked it is taken
/// for the latter.
fn exception_is_in_flight() -> bool {
    /// As the C++ ABI has it.
    #[repr(C)]
    struct Globals {
        caught: *const c_void,
        uncaught: c_uint,
    }
    // SAFETY: looks a name up.
    let ask = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_get_globals".as_ptr()) };
    if ask.is_null() {
        return false;
    }
    // SAFETY: the C++ ABI says what the function takes and returns: the calling thread's own globals.
    unsafe {
        let ask: extern "C" fn() -> *const Globals = std::mem::transmute(ask);
        ask().as_ref().is_some_and(|globals| globals.uncaught > 0)
    }
}
